"""The ranking as a person and as a program see it."""

from __future__ import annotations

from typing import Any

import pytest

from gpuctl.model.gpu import GpuState
from gpuctl.model.policy import Policy
from gpuctl.model.score import Request, ScoreListDocument
from gpuctl.policy.scoring.ranking import score_devices, score_document, score_nodes
from gpuctl.render.documents import encode_document
from gpuctl.render.score import (
    request_words,
    score_lines,
    score_names,
    score_rows,
    wide_score_table,
)
from gpuctl.render.screen import Screen
from gpuctl.render.tables import csv_text, plain_table
from gpuctl.render.terminal import cell_width
from tests.policy.building import NOON, a_gpu, a_snapshot, a_tenant, an_instance
from tests.render.golden import assert_golden

T = a_tenant("prod/llm-0")
ODD = "香港-机房-gpu-5\x1b[31m"


def a_document(*, by_gpu: bool = False, **request: Any) -> ScoreListDocument:
    """Cool, warm and hot nodes, one stale, one lost, a name in Chinese with an escape in it."""
    shared = [
        a_gpu("gpu-node-1", 0, 20, 10_000, T, slots=4),
        a_gpu("gpu-node-1", 1, 95, 70_000, T, slots=4),
        a_gpu("gpu-node-2", 0, 45, 30_000, T, slots=4),
        a_gpu(ODD, 0, 60, 50_000, T, slots=4),
        a_gpu("hot-1", 0, 95, 10_000, T, slots=4),
        a_gpu("hot-2", 0, 97, 10_000, T, slots=4),
        a_gpu("old", 0, 5, 0, state=GpuState.STALE, age_seconds=420.0),
        a_gpu("mig", 0, 5, 0, mig=(an_instance(7, "1g.10gb", 3), an_instance(8, "1g.10gb", 3, T))),
    ]
    snapshot = a_snapshot(*shared, context="hk", cluster="hk")
    rank = score_devices if by_gpu else score_nodes
    report = rank(snapshot, Policy(), Request(**request), explain=request.get("gpus") == 1)
    return score_document(report, snapshot, generated_at=NOON)


VIEWS: dict[str, tuple[ScoreListDocument, Screen]] = {
    "nodes-80": (a_document(), Screen(80)),
    "nodes-60": (a_document(), Screen(60)),
    "nodes-40": (a_document(), Screen(40)),
    "nodes-ascii": (a_document(), Screen(80, utf8=False)),
    "nodes-pipe": (a_document(), Screen(None)),
    "explained-80": (a_document(gpus=1, memory_mib=20_480), Screen(80)),
    "gpus-80": (a_document(by_gpu=True), Screen(80)),
    "mig-80": (a_document(by_gpu=True, mig_profile="1g.10gb"), Screen(80)),
    "none-80": (a_document(gpus=9), Screen(80)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views(name: str) -> None:
    doc, screen = VIEWS[name]
    lines = score_lines(doc, screen, age=5.0)
    assert_golden(f"score-{name}.txt", "\n".join(lines) + "\n")
    assert "\x1b" not in "".join(lines)
    if screen.width is not None:
        assert max(map(cell_width, lines)) <= screen.width


def test_csv_has_items_then_refusals() -> None:
    assert_golden("score-nodes.csv", csv_text(*score_rows(a_document())))


def test_wide_has_every_column() -> None:
    headers, rows, numeric = wide_score_table(a_document(by_gpu=True))
    assert_golden("score-gpus-wide.txt", plain_table(headers, rows, numeric=numeric))


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_documents(form: Any) -> None:
    doc = a_document(gpus=1, gpu_model="*A100*")
    assert_golden(f"score-nodes.{form}", encode_document(doc, form))


def test_names_are_fit_for_xargs() -> None:
    assert score_names(a_document())[:2] == ["node/gpu-node-2", "node/gpu-node-1"]
    assert score_names(a_document(by_gpu=True))[0] == "gpu/gpu-node-1/0"
    assert score_names(a_document(by_gpu=True, mig_profile="1g.10gb"))[0] == "gpu/mig/0/7"


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (Request(), "1 GPU"),
        (Request(gpus=2, memory_mib=20_480), "2 GPUs, 20.0 GiB free on each"),
        (Request(mig_profile="1g.10gb"), "1 MIG instance 1g.10gb"),
        (Request(gpus=2, mig_profile="1g.10gb"), "2 MIG instances 1g.10gb"),
        (
            Request(shared=True, gpu_model="*L4*", workload_class="training"),
            "1 shared GPU of model *L4*, for training",
        ),
    ],
)
def test_a_request_in_words(request_: Request, words: str) -> None:
    assert request_words(request_) == words

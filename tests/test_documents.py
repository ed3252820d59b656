"""Real output of every kind of document validates against the schema that ships."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
import yaml

from gpuctl.model.schema import FOLDER, documents
from tests.cli.calling import call
from tests.fakes.gpu_cluster import GpuCluster
from tests.fakes.prometheus import FakePrometheus

_CONFIG = "tests/data/config/hk.yaml"
CALLS: dict[str, tuple[tuple[str, ...], ...]] = {
    "heatmap": (
        ("--demo", "heatmap"),
        ("--demo-scenario", "mig-mixed", "heatmap", "--by-mig"),
        ("--demo-scenario", "three-full-five-idle", "heatmap", "--hot"),
        ("--demo", "heatmap", "--node", "nothing-of-this-name"),
    ),
    "heatmap_history": (
        ("--demo", "heatmap", "--since", "30m"),
        ("--demo-scenario", "mig-mixed", "heatmap", "--since", "30m", "--metric", "mem"),
    ),
    "heatmap_explanation": (("--demo-scenario", "mig-mixed", "heatmap", "--explain", "mig-01/0"),),
    "score_list": (
        ("--demo", "score"),
        ("--demo", "score", "--gpu-level", "--explain", "--memory", "40Gi"),
        ("--demo-scenario", "mig-mixed", "score", "--mig", "1g.10gb", "--gpu-level"),
        ("--demo-scenario", "mig-mixed", "score", "--explain", "--strategy", "fragmentation"),
    ),
    "snapshot": (("--demo", "snapshot"), ("--demo-scenario", "mig-mixed", "snapshot")),
    "history_list": (("--demo", "history"),),
    "outcome": (
        ("--demo", "evict", "--gpu", "hk-gpu-03/1", "--dry-run"),
        ("--demo", "evict", "--node", "hk-gpu-03", "--class", "training", "--dry-run"),
        ("--demo", "migrate", "vm/101", "--dry-run"),
        ("--demo", "migrate", "vm/103", "--dry-run"),
    ),
    "plan": (
        ("--demo", "rebalance", "--dry-run"),
        ("--demo", "rebalance", "--dry-run", "--goal", "balance"),
        ("--demo-scenario", "mig-mixed", "rebalance", "--dry-run"),
    ),
    "config_view": (("config", "view"), ("config", "view", "--config", _CONFIG)),
    "config_check": (("config", "check", _CONFIG),),
    "config_contexts": (("config", "contexts", "--config", _CONFIG),),
    "version": (("version",),),
    "error": (
        ("heatmap", "--where", "nonsense"),
        ("heatmap",),
        ("--snapshot", "/nowhere", "heatmap"),
    ),
}


def validated(kind: str, document: Any) -> None:
    schema = json.loads((FOLDER / f"{kind}.json").read_text())
    jsonschema.validate(document, schema, format_checker=jsonschema.FormatChecker())
    assert document["kind"] == kind


def test_every_kind_is_tried() -> None:
    assert set(CALLS) == set(documents())


@pytest.mark.parametrize(("kind", "words"), [(k, w) for k, calls in CALLS.items() for w in calls])
def test_json_output_is_valid(kind: str, words: tuple[str, ...]) -> None:
    validated(kind, call(*words, "-o", "json").document)


@pytest.mark.parametrize("kind", CALLS)
def test_yaml_says_the_same_as_json(kind: str) -> None:
    words = CALLS[kind][0]
    as_yaml = yaml.safe_load(call(*words, "-o", "yaml").out)
    assert (
        json.loads(json.dumps(as_yaml, default=str)).keys()
        == call(*words, "-o", "json").document.keys()
    )


def test_output_from_a_prometheus_is_valid() -> None:
    with FakePrometheus(GpuCluster()) as server:
        called = call("heatmap", "--prometheus-url", server.url, "-o", "json")
    validated("heatmap", called.document)


def test_a_saved_snapshot_gives_the_same_view() -> None:
    saved = call("--demo-scenario", "mig-mixed", "snapshot").out
    live = call("--demo-scenario", "mig-mixed", "heatmap", "-o", "json").document
    again = call("heatmap", "--snapshot", "-", "-o", "json", stdin=saved).document
    for key in ("summary", "nodes", "items", "simulated"):
        assert again[key] == live[key]

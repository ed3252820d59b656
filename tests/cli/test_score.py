"""`gpuctl score` from the command line: answers, formats, refusals and mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuctl.exitcodes import ExitCode
from tests.cli.calling import call
from tests.fakes.gpu_cluster import GpuCluster
from tests.fakes.prometheus import FakePrometheus

POD = """\
kind: Deployment
spec:
  template:
    metadata: {labels: {tier: inference}}
    spec:
      tolerations: [{key: gpu}]
      containers:
        - {name: main, resources: {limits: {nvidia.com/gpu: 1}}}
"""


def demo(*words: str, **more: Any) -> Any:
    called = call("--demo", "score", *words, "-o", "json", **more)
    assert called.code == 0, called.err
    return called.document


def test_the_demo_ranks_its_nodes() -> None:
    called = call("--demo", "score")
    assert called.code == 0
    lines = called.out.splitlines()
    assert "SIMULATED hk-night" in lines[0]
    assert lines[1] == "for 1 GPU; strategy least-loaded"
    assert lines[2].split() == [
        "RANK",
        "NODE",
        "SCORE",
        "FREE",
        "MEAN",
        "UTIL",
        "MEM",
        "FREE",
        "NOTE",
    ]
    assert len(lines) == 11
    # The node with the hot card is not the best, however cool its other cards are.
    assert "hk-gpu-03" not in lines[3]


def test_parts_add_up_in_the_document() -> None:
    document = demo("--memory", "20Gi", "--class", "training")
    assert document["kind"] == "score_list"
    assert document["request"]["memory_mib"] == 20_480
    for item in document["items"]:
        assert round(sum(item["parts"].values()), 2) == item["score"]
        assert item["explanation"] is None
    scores = [item["score"] for item in document["items"]]
    assert scores == sorted(scores, reverse=True)


def test_explain_has_a_sentence_for_each_part() -> None:
    (item,) = demo("--explain", "--node", "hk-gpu-03")["items"]
    assert item["explanation"].keys() == item["parts"].keys()
    shown = call("--demo", "score", "--explain", "--node", "hk-gpu-03").out
    for name in item["parts"]:
        assert f"\n  {name} " in shown


def test_strategies_differ() -> None:
    best = {name: demo("--strategy", name)["items"][0]["node"] for name in ("pack", "least-loaded")}
    assert best["pack"] != best["least-loaded"]
    called = call("--demo", "score", "--strategy", "best")
    assert called.code == ExitCode.USAGE
    assert "least-loaded" in called.err


def test_gpu_level_names_gpus_for_a_script() -> None:
    called = call("--demo", "score", "--gpu-level", "-o", "name")
    assert called.out.splitlines()[0] == "gpu/hk-gpu-03/0"
    assert "gpu/hk-gpu-03/1" not in called.out
    refused = demo("--gpu-level")["refused"]
    assert [(r["node"], r["gpu"], r["rule"]) for r in refused] == [("hk-gpu-03", 1, "hot")]


def test_mig_instances() -> None:
    words = ("--demo-scenario", "mig-mixed", "score", "--mig", "nvidia.com/mig-1g.10gb")
    called = call(*words, "-o", "json")
    assert [item["node"] for item in called.document["items"]] == ["mig-01"]
    assert {r["rule"] for r in called.document["refused"]} == {"mig-profile"}


def test_a_manifest_says_what_is_needed(tmp_path: Path) -> None:
    file = tmp_path / "llm.yaml"
    file.write_text(POD)
    document = demo("--pod", str(file), "--memory", "10Gi")
    request = document["request"]
    assert (request["gpus"], request["memory_mib"]) == (1, 10_240)
    assert request["workload_class"] == "inference"
    assert any("taints and tolerations" in warning for warning in document["warnings"])
    assert demo("--pod", "-", stdin=POD)["request"]["gpus"] == 1
    assert (
        demo("--pod", "-", "--class", "training", stdin=POD)["request"]["workload_class"]
        == "training"
    )


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--gpus", "0"), "--gpus: 0 is too low"),
        (("--memory", "20"), "write 20Gi"),
        (("--gpus", "2", "--gpu-level"), "--gpu-level ranks single GPUs"),
        (("--pod", "-", "--gpus", "2"), "--pod and --gpus exclude each other"),
        (("--pod", "-", "--mig", "1g.10gb"), "--pod and --mig exclude each other"),
        (("--pod", "/nowhere/x.yaml"), "can't read /nowhere/x.yaml"),
    ],
)
def test_mistakes_are_usage_errors(words: tuple[str, ...], complaint: str) -> None:
    called = call("--demo", "score", *words)
    assert called.code == ExitCode.USAGE
    assert complaint in called.err
    assert called.out == ""


def test_nothing_fits_is_an_answer() -> None:
    called = call("--demo", "score", "--memory", "200Gi")
    assert called.code == 0
    assert "No node can take it." in called.out
    assert "(memory)" in called.out


def test_without_fresh_metrics_nothing_is_ranked() -> None:
    snapshot = json.loads(call("--demo", "snapshot").out)
    for gpu in snapshot["gpus"]:
        gpu["state"] = "stale"
    called = call("score", "--snapshot", "-", "-o", "json", stdin=json.dumps(snapshot))
    assert called.code == ExitCode.METRICS
    assert called.document["kind"] == "error"
    assert "no GPU has fresh metrics" in called.err


def test_a_stale_node_gets_a_neutral_score_and_a_warning() -> None:
    snapshot = json.loads(call("--demo", "snapshot").out)
    for gpu in snapshot["gpus"]:
        if gpu["node"] == "hk-gpu-02":
            gpu.update(state="stale", age_seconds=420.0)
    called = call("score", "--snapshot", "-", stdin=json.dumps(snapshot))
    assert called.code == 0
    assert "neutral: metrics 7 min old" in called.out
    assert "1 node is unknown or stale, scored neutral: hk-gpu-02" in called.err


def test_from_a_prometheus() -> None:
    with FakePrometheus(GpuCluster()) as server:
        called = call("score", "--prometheus-url", server.url, "-o", "json")
    assert called.code == 0, called.err
    assert called.document["simulated"] is False
    # Every card of that cluster has a tenant, and nothing says that cards are shared.
    assert called.document["items"] == []
    assert [(r["node"], r["rule"]) for r in called.document["refused"]] == [
        ("gpu-a", "no-free-gpu"),
        ("gpu-b", "no-free-gpu"),
    ]


def test_weights_in_the_file_count(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("policy: {strategy: headroom, weights: {memory: 0}}\n")
    snapshot = call("--demo", "snapshot").out
    called = call("score", "--snapshot", "-", "--config", str(config), "-o", "json", stdin=snapshot)
    assert called.document["strategy"] == "headroom"
    assert called.document["weights"]["compute"] == 100

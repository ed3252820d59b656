"""`gpuctl rebalance --dry-run` from the command line."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.calling import call
from tests.fakes.gpu_cluster import Card, GpuCluster, two_nodes
from tests.fakes.prometheus import FakePrometheus


def test_the_demo_shows_the_cure() -> None:
    called = call("--demo", "rebalance", "--dry-run", "--width", "100")
    assert called.code == 0
    assert "DRY RUN" in called.out
    assert "hk-gpu-03/1 is hot" in called.out
    assert "after   hot 0" in called.out


def test_without_dry_run_it_is_refused() -> None:
    called = call("--demo", "rebalance", "--yes")
    assert called.code == 5
    assert called.out == ""
    assert "--dry-run" in called.err


def test_exit_code_tells_whether_there_are_moves() -> None:
    assert call("--demo", "rebalance", "--dry-run", "--exit-code").code == 3
    none = call("--demo-scenario", "mig-mixed", "rebalance", "--dry-run", "--exit-code")
    assert none.code == 0


def test_out_saves_the_plan_for_the_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    called = call("--demo", "rebalance", "--dry-run", "--out", str(file), "-o", "json")
    assert called.code == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text() == called.out


def test_explain_names_every_workload_that_stays() -> None:
    called = call("--demo", "rebalance", "--dry-run", "--explain")
    plan = call("--demo", "rebalance", "--dry-run", "-o", "json").document
    assert plan["skipped"]
    assert all(one["workload"] in called.out for one in plan["skipped"])


def test_names_and_csv_list_the_moves() -> None:
    names = call("--demo", "rebalance", "--dry-run", "-o", "name").out.splitlines()
    rows = call("--demo", "rebalance", "--dry-run", "-o", "csv").out.splitlines()
    assert len(names) == len(rows) - 1 >= 1
    assert all(name.startswith(("evict/", "migrate/vm/")) for name in names)


@pytest.mark.parametrize(
    "words",
    [
        ("--target", "spread=20"),
        ("--goal", "balance", "--target", "20"),
        ("--goal", "balance", "--target", "spread=200"),
        ("--max-moves", "-1"),
        ("--max-missing", "lots"),
        ("--goal", "perfection"),
    ],
)
def test_wrong_options_are_usage_errors(words: tuple[str, ...]) -> None:
    called = call("--demo", "rebalance", "--dry-run", *words)
    assert called.code == 2
    assert "error:" in called.err


def planned(cluster: GpuCluster, *words: str) -> tuple[int, str]:
    with FakePrometheus(cluster) as server:
        called = call("rebalance", "--dry-run", "--prometheus-url", server.url, *words)
        return called.code, called.err


def test_stale_metrics_give_no_plan() -> None:
    code, err = planned(GpuCluster([replace(c, age_seconds=200) for c in two_nodes()]))
    assert code == 6
    assert "no GPU has metrics newer than 1m" in err


def test_too_few_nodes_give_no_plan_unless_that_is_accepted() -> None:
    cluster = GpuCluster([replace(c, silent=c.node == "gpu-b") for c in two_nodes()])
    code, err = planned(cluster)
    assert code == 6
    assert "1 of 2 nodes" in err
    assert "gpu-b" in err
    assert planned(cluster, "--max-missing", "50%")[0] == 0


def test_without_an_inventory_the_moves_say_what_was_not_checked() -> None:
    cards = (
        Card("gpu-a", 0, 96, 30_000, "prod/llm-0"),
        Card("gpu-b", 0, 10, 8_000, "prod/llm-1"),
        Card("gpu-b", 1, 10, 8_000),
    )
    code, _ = planned(GpuCluster(cards))
    assert code == 0

"""Hot, idle, lost and stale through a real Prometheus with a past."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpuctl.model.gpu import GpuState
from gpuctl.model.heatmap import HeatmapDocument
from gpuctl.model.policy import Policy
from gpuctl.model.snapshot import Snapshot
from gpuctl.policy.overview import heatmap_document
from tests.real.fleet import fleet, past
from tests.real.prometheus_server import RealPrometheus, prometheus
from tests.real.test_prometheus_readings import read

pytestmark = pytest.mark.real


def view(snapshot: Snapshot) -> HeatmapDocument:
    return heatmap_document(snapshot, Policy(), generated_at=datetime.now(UTC))


@pytest.fixture(scope="module")
def hk_night(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPrometheus]:
    text = past(fleet("hk-night"), minutes=15, earlier_hours=1)
    with prometheus(tmp_path_factory.mktemp("hk"), past=text) as server:
        yield server


def test_hk_night_shows_the_one_hot_card(hk_night: RealPrometheus) -> None:
    doc = view(read(hk_night))
    assert doc.summary.gpus == 32
    assert doc.summary.nodes == 8
    assert [(g.node, g.gpu) for g in doc.items if g.hot] == [("hk-gpu-03", 1)]
    assert doc.summary.hot == 1
    assert doc.summary.lost == doc.summary.unknown == 0
    assert doc.summary.coverage_pct == 100


def test_workloads_and_idle_cards_of_hk_night(hk_night: RealPrometheus) -> None:
    by_address = {(g.node, g.gpu): g for g in view(read(hk_night)).items}
    assert by_address["hk-gpu-03", 1].workloads == ("prod/llm-serve-7c9d-xk2pl",)
    assert by_address["hk-gpu-06", 3].workloads == ()
    assert by_address["hk-gpu-06", 3].idle is True
    assert by_address["hk-gpu-07", 0].idle is True
    assert by_address["hk-gpu-01", 0].idle is False


def test_hot_for_counts_back_to_where_the_history_begins(hk_night: RealPrometheus) -> None:
    hot = next(g for g in view(read(hk_night)).items if g.hot)
    assert hot.hot_for_seconds is not None
    assert 3300 <= hot.hot_for_seconds <= 3700


def test_scrape_interval_is_found(hk_night: RealPrometheus) -> None:
    snapshot = read(hk_night)
    assert snapshot.scrape_interval_seconds is not None
    assert 10 <= snapshot.scrape_interval_seconds <= 60


def _one_card(load: object, **more: object) -> dict[str, object]:
    return {
        "nodes": [
            {"name": "n1", "gpus": [{"load": load, "pod": "prod/a/main", **more}]},
            {"name": "n2", "gpus": [{"load": 40}]},
        ]
    }


def test_a_card_that_dipped_within_the_window_is_not_hot(tmp_path: Path) -> None:
    now = time.time()
    dip = {"shape": "steps", "points": [[-7200, 96], [-120, 60], [-75, 96]]}
    with prometheus(tmp_path, past=past(fleet(_one_card(dip), epoch=now), end=now)) as server:
        card = view(read(server)).items[0]
        assert (card.node, card.utilization_pct, card.hot) == ("n1", 96, False)


def test_a_new_pod_on_a_hot_card_neither_resets_nor_fakes_the_window(tmp_path: Path) -> None:
    now = time.time()
    hot, before = fleet(_one_card(96), epoch=now), fleet(_one_card(96), epoch=now)
    before.nodes["n1"][0]["pod"] = "prod/earlier/main"
    text = _joined(past(before, minutes=15, end=now - 150), past(hot, minutes=2.25, end=now))
    with prometheus(tmp_path, past=text) as server:
        card = next(g for g in view(read(server)).items if g.node == "n1")
        assert card.hot is True
        assert card.hot_for_seconds is not None
        assert card.hot_for_seconds > 600


def _joined(*texts: str) -> str:
    """One OpenMetrics text from several: samples of a family have to stand together."""
    families: dict[str, list[str]] = {}
    heads: dict[str, list[str]] = {}
    for text in texts:
        for line in text.splitlines():
            if line.startswith("# EOF"):
                continue
            if line.startswith("#"):
                heads.setdefault(line.split()[2], []).append(line)
            else:
                families.setdefault(line.partition("{")[0], []).append(line)
    lines = [
        line
        for name, rows in families.items()
        for line in (*dict.fromkeys(heads.get(name, ())), *rows)
    ]
    return "\n".join([*lines, "# EOF"]) + "\n"


def test_a_card_just_started_at_full_load_is_not_called_hot(tmp_path: Path) -> None:
    now = time.time()
    text = past(fleet(_one_card(99), epoch=now), minutes=2, end=now)
    with prometheus(tmp_path, past=text) as server:
        card = next(g for g in view(read(server)).items if g.node == "n1")
        assert (card.hot, card.idle) == (None, False)


def test_a_card_that_fell_silent_is_lost_and_not_idle(tmp_path: Path) -> None:
    now = time.time()
    scenario = _one_card(50, lost={"after_s": -420})
    with prometheus(tmp_path, past=past(fleet(scenario, epoch=now), end=now)) as server:
        doc = view(read(server))
        card = next(g for g in doc.items if g.node == "n1")
        assert card.state is GpuState.LOST
        assert (card.utilization_pct, card.hot, card.idle) == (None, None, None)
        assert doc.summary.lost == 1
        assert doc.summary.coverage_pct == 50


def test_old_samples_are_stale_and_judge_nothing(tmp_path: Path) -> None:
    now = time.time()
    text = past(fleet(_one_card(97), epoch=now), end=now - 200)
    with prometheus(tmp_path, past=text) as server:
        doc = view(read(server))
        assert {str(g.state) for g in doc.items} == {"stale"}
        assert doc.summary.hot == doc.summary.idle == 0
        assert doc.summary.unknown == 2
        assert doc.summary.spread_pct is None


def test_mig_instances_are_judged_and_weighed(tmp_path: Path) -> None:
    with prometheus(tmp_path, past=past(fleet("mig-mixed"))) as server:
        doc = view(read(server))
        first = next(g for g in doc.items if (g.node, g.gpu) == ("mig-01", 0))
        assert [(i.profile, i.hot) for i in first.mig] == [
            ("3g.40gb", True),
            ("2g.20gb", False),
            ("1g.10gb", False),
            ("1g.10gb", False),
        ]
        assert first.hot is False
        assert first.utilization_pct == pytest.approx((3 * 95 + 2 * 40 + 10) / 7, abs=3)
        assert doc.summary.hot_instances >= 1

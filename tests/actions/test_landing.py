"""Where a successor landed, by metrics that come late, or never."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuctl.actions.interruption import Patience
from gpuctl.actions.landing import Locator, landing_words
from gpuctl.clock import Deadline
from gpuctl.errors import BackendError
from gpuctl.model.outcome import Landing
from gpuctl.model.snapshot import Snapshot
from tests.actions.playing import Play
from tests.actions.test_selection import a_pod, a_snapshot


@pytest.fixture
def patience(tmp_path: Path) -> Patience:
    play = Play(tmp_path)
    return Patience(play.interruption, Deadline.after(3600, play.clock))


def test_a_card_that_is_named_late_is_waited_for(patience: Patience) -> None:
    answers = [a_snapshot(), a_snapshot(), a_snapshot(a_pod("new", node="b"))]
    landing = Locator(lambda: answers.pop(0)).landing("prod/new", "b", 96.0, patience)
    assert landing == Landing(node="b", gpu=0, utilization_pct=10, cooler=True)
    assert landing_words(landing) == "on b/0 at 10 %, cooler than the one it left"


def test_the_label_of_another_node_is_not_believed(patience: Patience) -> None:
    stale = a_snapshot(a_pod("new", node="a"))
    landing = Locator(lambda: stale).landing("prod/new", "b", 96.0, patience)
    assert landing == Landing(node="b")
    assert landing_words(landing) == "on b"


def test_metrics_that_fail_end_the_looking(patience: Patience) -> None:
    looks: list[int] = []

    def fail() -> Snapshot:
        looks.append(1)
        raise BackendError("Prometheus is down")

    assert Locator(fail).landing("prod/new", "b", None, patience) == Landing(node="b")
    assert len(looks) == 1


def test_without_a_figure_of_before_nothing_is_called_cooler(patience: Patience) -> None:
    seen = a_snapshot(a_pod("new", node="b"))
    landing = Locator(lambda: seen).landing("prod/new", "b", None, patience)
    assert landing.cooler is None
    assert landing_words(landing) == "on b/0 at 10 %"

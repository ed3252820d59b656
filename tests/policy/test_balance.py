"""Spread, balance ratio and coverage: the definitions that every view shares."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuctl.model.gpu import GpuState
from gpuctl.policy.balance import (
    balance_ratio,
    coverage_pct,
    mean,
    silent_nodes,
    spread,
    trusted_utilization,
)
from tests.policy.cards import a_card

LOADS = st.lists(st.one_of(st.none(), st.floats(0, 100)), max_size=20)


@pytest.mark.parametrize(
    ("values", "points"),
    [([96, 21, 19, 20], 77), ([50], 0), ([None, 40, 10], 30), ([None], None), ([], None)],
)
def test_spread_is_highest_minus_lowest(values: list[float | None], points: float | None) -> None:
    assert spread(values) == points


@pytest.mark.parametrize(
    ("means", "ratio"),
    [
        ([80, 20], 4),
        ([49, 0], 49),  # an idle node counts as 1 %
        ([0.2, 0.1], 1),
        ([None, 60, 30], 2),
        ([None], None),
        ([], None),
    ],
)
def test_balance_ratio_has_a_floor(means: list[float | None], ratio: float | None) -> None:
    assert balance_ratio(means) == ratio


@given(LOADS)
def test_unknown_loads_change_no_figure(loads: list[float | None]) -> None:
    known = [load for load in loads if load is not None]
    assert spread(loads) == spread(known)
    assert mean(loads) == mean(known)
    assert balance_ratio(loads) == balance_ratio(known)


@given(LOADS, st.randoms(use_true_random=False))
def test_figures_do_not_depend_on_order(loads: list[float | None], random: object) -> None:
    shuffled = list(loads)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert spread(shuffled) == spread(loads)
    assert balance_ratio(shuffled) == balance_ratio(loads)


@given(st.lists(st.floats(0, 100), min_size=1))
def test_spread_is_within_0_and_100_and_the_ratio_at_least_1(loads: list[float]) -> None:
    points, ratio = spread(loads), balance_ratio(loads)
    assert points is not None
    assert 0 <= points <= 100
    assert ratio is not None
    assert 1 <= ratio <= 100


@pytest.mark.parametrize(
    ("state", "trusted"),
    [
        (GpuState.OK, 42.0),
        (GpuState.NO_MEM, 42.0),
        (GpuState.STALE, None),
        (GpuState.LOST, None),
        (GpuState.NO_UTIL, None),
    ],
)
def test_only_fresh_figures_are_trusted(state: GpuState, trusted: float | None) -> None:
    assert trusted_utilization(a_card("n", 0, 42, state=state)) == trusted


def test_coverage_counts_nodes_with_a_fresh_card_among_all_known() -> None:
    gpus = [
        a_card("a", 0, 5),
        a_card("a", 1, None, state=GpuState.LOST),
        a_card("b", 0, 5, state=GpuState.STALE),
        a_card("c", 0, None),  # speaks, though not of its utilization
    ]
    assert silent_nodes(gpus, ["d"]) == ["b", "d"]
    assert coverage_pct(gpus, ["a", "d"]) == 50
    assert coverage_pct([], []) is None
    assert coverage_pct([], ["x"]) == 0

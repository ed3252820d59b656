"""hot and idle: over the whole window, with enough samples, and never for an unknown figure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuctl.model.gpu import GpuState, WindowStats
from gpuctl.model.policy import Policy
from gpuctl.policy.hotspots import gpu_heat, instance_heat, is_full, window_heat
from tests.policy.cards import POLICY, a_card, a_window, an_instance

Verdict = tuple[bool | None, bool | None]


def judged(*values: float | None) -> Verdict:
    heat = window_heat(a_window(*values), 90, 30)
    return heat.hot, heat.idle


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([97.0] * 11, (True, False)),
        ([5.0] * 11, (False, True)),
        ([60.0] * 11, (False, False)),
        ([90.0] * 11, (False, False)),  # "over" is over
        ([30.0] * 11, (False, False)),  # "below" is below
        ([90.1] * 11, (True, False)),
        ([29.9] * 11, (False, True)),
        ([97.0] * 10 + [20.0], (False, False)),
        ([20.0] + [97.0] * 10, (False, False)),
        ([5.0] * 5 + [40.0] + [5.0] * 5, (False, False)),
        ([None] * 2 + [97.0] * 9, (None, False)),  # appeared a minute ago
        ([97.0] + [None] + [97.0] * 9, (True, False)),  # one lost scrape
        ([97.0, None, 97.0, None, 97.0, None] + [97.0] * 5, (None, False)),
        ([None] * 8 + [5.0] * 3, (False, None)),
        ([None] * 8 + [60.0] * 3, (False, False)),  # settles both
    ],
)
def test_a_window_is_judged_at_every_sample(values: list[float | None], verdict: Verdict) -> None:
    assert judged(*values) == verdict


def test_without_samples_over_time_nothing_is_known() -> None:
    heat = window_heat(None, 90, 30)
    assert (heat.hot, heat.idle) == (None, None)
    assert heat.unknown_because


@given(st.lists(st.one_of(st.none(), st.floats(0, 100)), min_size=2, max_size=20))
def test_a_verdict_is_never_hot_and_idle_and_a_hot_one_had_no_dip(
    values: list[float | None],
) -> None:
    heat = window_heat(a_window(*values), 90, 30)
    known = [v for v in values if v is not None]
    assert not (heat.hot and heat.idle)
    if heat.hot:
        assert min(known) > 90
    if heat.idle:
        assert max(known) < 30
    if not known:
        assert (heat.hot, heat.idle) == (None, None)
    if None in (heat.hot, heat.idle):
        assert heat.unknown_because


@pytest.mark.parametrize("state", [GpuState.LOST, GpuState.STALE, GpuState.NO_UTIL])
def test_an_unknown_figure_is_neither_hot_nor_idle(state: GpuState) -> None:
    for load in (0.0, 99.0):
        heat = gpu_heat(a_card("n", 0, load, state=state), POLICY)
        assert (heat.hot, heat.idle) == (None, None)
        assert state in str(heat.unknown_because)


def test_missing_memory_does_not_hide_heat() -> None:
    assert gpu_heat(a_card("n", 0, 99, state=GpuState.NO_MEM), POLICY).hot is True


def test_the_present_reading_is_a_sample_of_the_window() -> None:
    """Rows that outlive their pod keep a window up after the load has gone."""
    cooled = gpu_heat(a_card("n", 0, 4, window=[97.0] * 11), POLICY)
    assert (cooled.hot, cooled.idle) == (False, False)
    woken = gpu_heat(a_card("n", 0, 97, window=[4.0] * 11), POLICY)
    assert (woken.hot, woken.idle) == (False, False)


def test_a_profile_has_its_own_mark() -> None:
    policy = Policy(hot_above_by_profile={"3g.40gb": 30})
    card = a_card("n", 0, 15)
    assert instance_heat(card, an_instance(1, "3g.40gb", 33), policy).hot is True
    assert instance_heat(card, an_instance(1, "2g.20gb", 33), policy).hot is False
    assert policy.hot_mark() == 90


def test_an_instance_of_a_stale_card_or_without_utilization_is_not_judged() -> None:
    stale = a_card("n", 0, 15, state=GpuState.STALE)
    assert instance_heat(stale, an_instance(1, "3g.40gb", 99), POLICY).hot is None
    unknown = an_instance(1, "3g.40gb", None, window=a_window(99))
    assert instance_heat(a_card("n", 0, None), unknown, POLICY).hot is None


def test_an_instance_is_judged_although_its_card_is_unknown() -> None:
    card = a_card("n", 0, None)
    assert instance_heat(card, an_instance(1, "3g.40gb", 99), POLICY).hot is True


def test_a_window_without_steps_is_never_full() -> None:
    nonsense = WindowStats(
        seconds=0, step_seconds=0, samples=1, span_seconds=0, min_pct=99, mean_pct=99, max_pct=99
    )
    assert is_full(nonsense) is False

"""Grids, windows and streaks: what a row of values over time says."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuctl.metrics.windows import (
    WHOLE,
    Grid,
    card_values,
    grid_of,
    stats,
    streak_seconds,
    window_samples,
    window_step_seconds,
    with_streaks,
    with_windows,
)
from gpuctl.model.gpu import Gpu
from gpuctl.model.policy import Policy
from tests.policy.cards import a_card, an_instance

Row = list[float | None]
CARD = ("", "GPU-n-0", WHOLE)


def a_grid(row: Row, step: float = 30) -> Grid:
    return Grid(start=0, step=step, count=len(row), values={CARD: row})


def test_a_grid_takes_the_highest_of_several_values_at_a_step() -> None:
    points = [(CARD, 0.0, 5.0), (CARD, 30.0, 7.0), (CARD, 31.0, 9.0), (CARD, 30.0, 8.0)]
    assert grid_of(points, start=0, step=30, count=3).values == {CARD: [5, 9, None]}


def test_points_outside_a_grid_are_left_out() -> None:
    points = [(CARD, -100.0, 5.0), (CARD, 500.0, 7.0), (CARD, 60.0, 1.0)]
    assert grid_of(points, start=0, step=30, count=3).values == {CARD: [None, None, 1]}


@given(st.permutations([(CARD, 30.0 * (i % 4), float(i)) for i in range(12)]))
def test_a_grid_does_not_depend_on_the_order_of_points(points: list[object]) -> None:
    assert grid_of(points, start=0, step=30, count=4).values == {CARD: [8, 9, 10, 11]}  # type: ignore[arg-type]


def test_stats_describe_only_what_is_known() -> None:
    window = stats([None, 10, 20, None, 60, None], step=30)
    assert window is not None
    assert (window.samples, window.span_seconds, window.seconds) == (3, 90, 150)
    assert (window.min_pct, window.mean_pct, window.max_pct) == (10, 30, 60)
    assert stats([None, None], step=30) is None
    assert stats([], step=30) is None


@given(st.lists(st.one_of(st.none(), st.floats(0, 100)), min_size=1, max_size=30))
def test_stats_stay_within_their_values(row: Row) -> None:
    window = stats(row, step=15)
    known = [v for v in row if v is not None]
    assert (window is None) == (not known)
    if window is not None:
        assert window.samples == len(known)
        assert window.min_pct - 1e-4 <= window.mean_pct <= window.max_pct + 1e-4
        assert 0 <= window.span_seconds <= window.seconds


@pytest.mark.parametrize(
    ("window", "interval", "step", "samples"),
    [
        (300, 0, 30, 11),
        (300, 15, 30, 11),
        (300, 60, 60, 6),
        (60, 0, 6, 11),
        (60, 15, 15, 5),
        (10, 0, 1, 11),
        (10, 15, 15, 3),
        (1800, 15, 30, 61),
        (7 * 86400, 15, 604.8, 1001),
    ],
)
def test_a_window_has_enough_samples_and_none_finer_than_the_scrapes(
    window: int, interval: float, step: float, samples: int
) -> None:
    length = timedelta(seconds=window)
    assert window_step_seconds(length, interval) == pytest.approx(step)
    assert window_samples(length, window_step_seconds(length, interval)) == samples


@pytest.mark.parametrize(
    ("row", "streak"),
    [
        ([95, 95, 95], (120, True)),
        ([10, 95, 95], (60, False)),
        ([95, 10, 95], (0, False)),
        ([95, 95, 10], (0, False)),
        ([95, None, 95, 95], (180, True)),  # a lost scrape does not cool a card
        ([95, None, None, 95, 95], (60, False)),
        ([95, 95, None], (120, True)),
        ([95, None, None], (0, False)),
        ([None, None], (0, False)),
        ([], (0, False)),
        ([90, 90], (0, False)),
    ],
)
def test_a_streak_counts_back_from_now(row: Row, streak: tuple[float, bool]) -> None:
    assert streak_seconds(row, 90, step=60) == streak


def mig_card(*rows: Row, widths: tuple[str, ...] = ("4g.40gb", "3g.40gb")) -> tuple[Gpu, Grid]:
    """A card of instances 0, 1, ... with these rows."""
    mig = tuple(an_instance(i, profile, 1) for i, profile in enumerate(widths))
    values = {("", "GPU-n-0", i): row for i, row in enumerate(rows)}
    card = a_card("n", 0, 50, mig=mig, total_slices=7)
    return card, Grid(start=0, step=30, count=len(rows[0]), values=values)


def test_a_card_of_instances_is_weighed_at_each_step() -> None:
    card, grid = mig_card([100, 0, None], [0, 100, 50])
    values = card_values(card, grid)
    assert values is not None
    assert values[0] == pytest.approx(400 / 7, abs=0.01)
    assert values[1] == pytest.approx(300 / 7, abs=0.01)
    assert values[2] is None


def test_one_instance_without_any_past_leaves_the_cards_past_unknown() -> None:
    card, grid = mig_card([100, 100])
    (done,) = with_windows([card], grid)
    assert done.window is None
    assert done.mig[0].window is not None
    assert done.mig[1].window is None


def test_a_card_without_values_has_no_window() -> None:
    (done,) = with_windows([a_card("other", 0, 99)], a_grid([99, 99]))
    assert done.window is None


def streak_of(load: Row, history: Row | None, policy: Policy) -> tuple[float | None, bool]:
    card = a_card("n", 0, load[-1], window=load)
    values = {} if history is None else {CARD: history}
    grid = Grid(start=0, step=60, count=len(history or [None]), values=values)
    (done,) = with_streaks([card], grid, policy)
    return done.hot_for_seconds, done.hot_for_capped


@pytest.mark.parametrize(
    ("window", "history", "streak"),
    [
        ([97.0] * 11, [10.0] * 50 + [97.0] * 11, (600, False)),
        ([97.0] * 11, [97.0] * 61, (3600, True)),
        ([97.0] * 11, [10.0] * 57 + [97.0] * 4, (300, False)),  # the coarse grid lags
        ([97.0] * 11, None, (300, True)),
        ([97.0] * 10 + [50.0], [97.0] * 61, (None, False)),
    ],
)
def test_hot_for_is_the_longer_of_window_and_history(
    window: Row, history: Row | None, streak: tuple[float | None, bool]
) -> None:
    assert streak_of(window, history, Policy()) == streak


def test_the_streak_of_an_instance_uses_the_mark_of_its_profile() -> None:
    card, grid = mig_card([40] * 11, [40] * 11)
    (windowed,) = with_windows([card], grid)
    policy = Policy(hot_above_by_profile={"3g.40gb": 30})
    (done,) = with_streaks([windowed], grid, policy)
    assert [i.hot_for_seconds for i in done.mig] == [None, 300]
    assert done.hot_for_seconds is None

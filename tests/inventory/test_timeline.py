"""Which steps a picture over time has."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuctl.errors import UsageError
from gpuctl.inventory.timeline import chosen_step

HOUR = timedelta(hours=1)


def test_a_step_that_was_asked_for_is_taken() -> None:
    assert chosen_step(HOUR, timedelta(minutes=7), columns=80) == timedelta(minutes=7)


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (timedelta(hours=2), "longer than --since"),
        (timedelta(seconds=0.1), "36,000 steps"),
        (timedelta(0), "more than nothing"),
    ],
)
def test_a_step_that_can_not_be_is_refused(step: timedelta, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        chosen_step(HOUR, step, columns=80)
    assert says in caught.value.what


@given(st.integers(60, 400 * 86400), st.one_of(st.none(), st.integers(20, 400)))
def test_a_chosen_step_fills_the_screen_and_no_more(span: int, columns: int | None) -> None:
    step = chosen_step(timedelta(seconds=span), None, columns=columns)
    assert step > timedelta(0)
    assert span / step.total_seconds() <= max(10, (columns or 108) - 36)

"""Durations read and written."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuctl.model.durations import DURATION_PATTERN, format_duration, parse_duration

GOOD = [
    ("0", timedelta(0)),
    ("0s", timedelta(0)),
    ("90s", timedelta(seconds=90)),
    ("5m", timedelta(minutes=5)),
    ("1h", timedelta(hours=1)),
    ("1h30m", timedelta(minutes=90)),
    ("2d", timedelta(days=2)),
    ("1d2h3m4s5ms", timedelta(days=1, hours=2, minutes=3, seconds=4, milliseconds=5)),
    ("0.5s", timedelta(milliseconds=500)),
    ("1.5h", timedelta(minutes=90)),
    ("250ms", timedelta(milliseconds=250)),
    (" 5m ", timedelta(minutes=5)),
]


@pytest.mark.parametrize(("text", "span"), GOOD)
def test_reads(text: str, span: timedelta) -> None:
    assert parse_duration(text) == span
    assert re.search(DURATION_PATTERN, text.strip())


BAD = [
    ("", "missing"),
    ("   ", "missing"),
    ("5", "no unit: write 5s, 5m or 5h"),
    ("1.5", "no unit"),
    ("-5m", "negative"),
    ("5M", "not a duration"),
    ("5 m", "not a duration"),
    ("5min", "not a duration"),
    ("soon", "not a duration"),
    ("1e3s", "not a duration"),
    ("\u0665m", "not a duration"),
    ("30m1h", "in the order d h m s ms"),
    ("5m5m", "in the order d h m s ms"),
    ("9999d", "3650d"),
    ("9" * 400 + "d", "3650d"),
    (".5s", "not a duration"),
    ("nan", "not a duration"),
]


@pytest.mark.parametrize(("text", "complaint"), BAD)
def test_refuses_with_advice(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_duration(text)
    if complaint != "3650d":
        assert not re.search(DURATION_PATTERN, text)


def test_a_long_text_is_cut_in_the_complaint() -> None:
    with pytest.raises(ValueError, match="…") as failure:
        parse_duration("x" * 10_000)
    assert len(str(failure.value)) < 200


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0s"),
        (0.25, "0.25s"),
        (1.5, "1.5s"),
        (300, "5m"),
        (90, "1m30s"),
        (5400, "1h30m"),
        (187_200, "2d4h"),
        (83.412, "1m23s"),
        (59.9996, "1m"),
        (-90, "-1m30s"),
        (timedelta(days=2), "2d"),
        (timedelta(microseconds=3), "0s"),
    ],
)
def test_writes(value: timedelta | float, text: str) -> None:
    assert format_duration(value) == text


def test_exact_keeps_milliseconds() -> None:
    assert format_duration(83.412, exact=True) == "1m23.412s"


@given(st.integers(min_value=0, max_value=3650 * 86_400 * 1000))
def test_what_is_written_exactly_reads_back(milliseconds: int) -> None:
    span = timedelta(milliseconds=milliseconds)
    text = format_duration(span, exact=True)
    assert parse_duration(text) == span
    assert re.search(DURATION_PATTERN, text)


@given(st.integers(min_value=0, max_value=3650 * 86_400))
def test_whole_seconds_read_back_without_exact(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == timedelta(seconds=seconds)


@given(st.text(max_size=30))
def test_any_text_is_a_duration_or_a_value_error(text: str) -> None:
    try:
        span = parse_duration(text)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - both ends are fine, a third would fail the test
    else:
        assert timedelta(0) <= span <= timedelta(days=3650)

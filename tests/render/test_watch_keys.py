"""Keys from bytes: whole, cut in two, unknown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuctl.render.watch_keys import KeyDecoder


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"q", ["q"]),
        (b"a b", ["a", " ", "b"]),
        (b"\r", ["enter"]),
        (b"\n", ["enter"]),
        (b"\x7f\x08", ["backspace", "backspace"]),
        (b"\x15\x17\x0c", ["kill-line", "kill-word", "redraw"]),
        (b"\x1b[A\x1b[B\x1b[C\x1b[D", ["up", "down", "right", "left"]),
        (b"\x1bOA\x1bOD\x1bOM", ["up", "left", "enter"]),
        (b"\x1b[H\x1b[F\x1b[1~\x1b[4~\x1b[7~\x1b[8~", ["home", "end"] * 3),
        (b"\x1b[5~\x1b[6~\x1b[3~", ["page-up", "page-down", "delete"]),
        (b"\x1b[1;5A", ["up"]),
        (b"\x1b[6;3~", ["page-down"]),
        ("香é".encode(), ["香", "é"]),
    ],
)
def test_known_keys(data: bytes, keys: list[str]) -> None:
    assert KeyDecoder().feed(data) == keys


@pytest.mark.parametrize(
    "data",
    [
        b"\x1b[15~",  # F5
        b"\x1bOP",  # F1
        b"\x1b[[A",  # F1 of the Linux console
        b"\x1b[M",  # the start of a mouse report
        b"\x1b[200~\x1b[201~",  # around a paste
        b"\x1b[?1;2c",  # what a terminal answers when it is asked who it is
        b"\x00\x02\x1c",
        b"\xff",
    ],
)
def test_what_is_no_key_is_dropped_and_the_next_one_counts(data: bytes) -> None:
    assert KeyDecoder().feed(data + b"q") == ["q"]


def test_a_lone_esc_is_one_once_nothing_follows() -> None:
    keys = KeyDecoder()
    assert keys.feed(b"\x1b") == []
    assert keys.is_waiting
    assert keys.flush() == ["esc"]
    assert not keys.is_waiting
    assert keys.flush() == []


def test_esc_and_a_key_in_one_read_are_two_keys() -> None:
    assert KeyDecoder().feed(b"\x1bq") == ["esc", "q"]
    assert KeyDecoder().feed(b"\x1b\x1b[A") == ["esc", "up"]


def test_a_broken_off_sequence_does_not_swallow_the_next_key() -> None:
    assert KeyDecoder().feed(b"\x1b[5\rq") == ["enter", "q"]
    endless = KeyDecoder().feed(b"\x1b[" + b"1" * 100 + b"q")
    assert endless[-1] == "q"


_PIECES = st.sampled_from(
    [b"\x1b[A", b"\x1b[5~", b"\x1bOB", "香".encode(), b"q", b"\r", b"\x1b[1;2D", b"\x7f", b" "]
)


@given(st.lists(_PIECES, max_size=12), st.lists(st.integers(1, 5), max_size=60))
def test_the_keys_are_the_same_however_the_bytes_arrive(
    pieces: list[bytes], sizes: list[int]
) -> None:
    data = b"".join(pieces)
    whole = KeyDecoder().feed(data)
    decoder, keys, rest = KeyDecoder(), [], data
    for size in sizes:
        keys += decoder.feed(rest[:size])
        rest = rest[size:]
    assert keys + decoder.feed(rest) == whole


@given(st.binary(max_size=200))
def test_no_bytes_break_it(data: bytes) -> None:
    decoder = KeyDecoder()
    for key in decoder.feed(data) + decoder.flush():
        assert key.isprintable()
    assert decoder.feed(b"\x1b\x1b[Aq")[-1:] == ["q"]

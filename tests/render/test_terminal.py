"""Colours, widths, encodings, and text in cells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuctl.render.tables import plain_table
from gpuctl.render.terminal import (
    ColorChoice,
    background,
    cell_width,
    color_level,
    pad,
    sanitize,
    screen_size,
    shorten_middle,
    speaks_utf8,
)
from tests.conftest import Stream

TRUE = 16_777_216


@pytest.mark.parametrize(
    ("choice", "is_tty", "environ", "level"),
    [
        ("auto", True, {"TERM": "xterm"}, 16),
        ("auto", True, {"TERM": "xterm-256color"}, 256),
        ("auto", True, {"TERM": "xterm", "COLORTERM": "truecolor"}, TRUE),
        ("auto", True, {"TERM": "xterm-direct"}, TRUE),
        ("auto", True, {"TERM": "dumb", "COLORTERM": "truecolor"}, 0),
        ("auto", True, {}, 0),
        ("auto", False, {"TERM": "xterm-256color", "COLORTERM": "truecolor"}, 0),
        ("auto", False, {"FORCE_COLOR": "1"}, 16),
        ("auto", False, {"FORCE_COLOR": "1", "TERM": "screen-256color"}, 256),
        ("auto", False, {"FORCE_COLOR": "2", "TERM": "dumb"}, 256),
        ("auto", False, {"FORCE_COLOR": "3"}, TRUE),
        ("auto", True, {"FORCE_COLOR": "0", "TERM": "xterm"}, 0),
        ("auto", True, {"FORCE_COLOR": "", "TERM": "xterm"}, 16),
        ("auto", True, {"NO_COLOR": "1", "FORCE_COLOR": "3", "TERM": "xterm"}, 0),
        ("auto", True, {"NO_COLOR": "", "TERM": "xterm"}, 16),
        ("always", False, {"NO_COLOR": "1", "TERM": "dumb"}, 16),
        ("always", False, {"NO_COLOR": "1", "TERM": "xterm-256color"}, 256),
        ("never", True, {"FORCE_COLOR": "3", "TERM": "xterm"}, 0),
    ],
)
def test_colours_are_decided_in_order(
    choice: ColorChoice, is_tty: bool, environ: dict[str, str], level: int
) -> None:
    assert color_level(environ, choice, is_tty=is_tty) == level


@pytest.mark.parametrize(
    ("value", "said"),
    [("15;0", "dark"), ("0;15", "light"), ("0;default;7", "light"), ("7;8", "dark"), ("x", "dark")],
)
def test_background(value: str, said: str) -> None:
    assert background({"COLORFGBG": value}) == said
    assert background({}) == "dark"


def test_screen_size_from_the_environment_else_80_by_24() -> None:
    assert screen_size(Stream(), {"COLUMNS": "132", "LINES": "50"}) == (132, 50)
    assert screen_size(Stream(), {}) == (80, 24)
    assert screen_size(None, {"COLUMNS": "0", "LINES": "many"}) == (80, 24)


@pytest.mark.parametrize(
    ("encoding", "environ", "utf8"),
    [
        ("utf-8", {}, True),
        ("utf-8", {"LANG": "en_US.UTF-8"}, True),
        ("utf-8", {"LANG": "de_DE.utf8"}, True),
        ("utf-8", {"LANG": "C"}, False),
        ("utf-8", {"LANG": "C.UTF-8"}, True),
        ("utf-8", {"LANG": "en_US.UTF-8", "LC_ALL": "C"}, False),
        ("utf-8", {"LANG": "C", "LC_ALL": "zh_CN.UTF-8"}, True),
        # What Python makes of LANG=C before any of our code runs.
        ("utf-8", {"LANG": "C", "LC_CTYPE": "C.UTF-8"}, False),
        ("utf-8", {"LC_CTYPE": "C.UTF-8"}, True),
        ("utf-8", {"LANG": "C", "PYTHONIOENCODING": "utf-8"}, True),
        ("ascii", {"LANG": "en_US.UTF-8"}, False),
        ("iso-8859-1", {}, False),
    ],
)
def test_encoding(encoding: str, environ: dict[str, str], utf8: bool) -> None:
    assert speaks_utf8(Stream(encoding=encoding), environ) is utf8


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("gpu-01", "gpu-01"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b2Jx", "x"),
        ("a\x00b\x7fc\x85d", "abcd"),
        ("two\nlines\tand a tab", "two lines and a tab"),
        ("evil\u202egnp.exe", "evilgnp.exe"),
        ("a\u2028b", "a b"),
        ("bad \udcff byte", "bad \ufffd byte"),
        ("北京 👨\u200d👩", "北京 👨\u200d👩"),
        ("cut \x1b", "cut "),
    ],
)
def test_names_from_outside_are_made_safe(raw: str, clean: str) -> None:
    assert sanitize(raw) == clean


def test_ascii_names_keep_their_width() -> None:
    assert sanitize("gpu-北京-é", ascii_only=True) == "gpu-????-?"
    assert sanitize("e\u0301", ascii_only=True) == "e"


@given(st.text())
def test_no_name_reaches_the_terminal_with_a_control_character(raw: str) -> None:
    clean = sanitize(raw)
    assert not any(ord(ch) < 32 or 127 <= ord(ch) < 160 for ch in clean)
    clean.encode()
    assert sanitize(raw, ascii_only=True).isascii()


def test_cells_not_characters() -> None:
    assert [cell_width(text) for text in ("abc", "北京", "e\u0301", "")] == [3, 4, 1, 0]
    assert pad("北京", 6) == "北京  "
    assert pad("7", 3, right=True) == "  7"
    assert pad("long", 2) == "long"


@pytest.mark.parametrize(
    ("text", "cells", "short"),
    [
        ("gpu-node-0123", 13, "gpu-node-0123"),
        ("gpu-node-0123", 9, "gpu-…0123"),
        ("gpu-node-0123", 2, "g…"),
        ("gpu-node-0123", 1, "g"),
        ("gpu-node-0123", 0, ""),
        ("北京上海广州", 7, "北京…州"),
    ],
)
def test_the_middle_of_a_name_goes_first(text: str, cells: int, short: str) -> None:
    assert shorten_middle(text, cells) == short


@given(st.text(alphabet="ab-0北é\u0301"), st.integers(min_value=0, max_value=20))
def test_a_shortened_name_fits(text: str, cells: int) -> None:
    short = shorten_middle(text, cells)
    assert cell_width(short) <= cells
    assert short == text or cell_width(text) > cells


def test_an_empty_table_is_its_header() -> None:
    assert plain_table(("node", "gpu"), []) == "NODE  GPU\n"


@given(st.integers(min_value=20, max_value=60))
def test_a_table_fits_its_width_and_shows_every_number(width: int) -> None:
    rows = [("a-very-long-node-name-" * 2, "another-long-name-" * 2, 12345.6)]
    text = plain_table(("node", "pod", "load"), rows, numeric=("load",), width=width)
    assert "12345.6" in text
    assert max(map(cell_width, text.splitlines())) <= max(width, 8 + 2 + 8 + 2 + 7)

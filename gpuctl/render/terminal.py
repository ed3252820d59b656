"""What a stream can show, and how text fits into its cells.

Everything here is a pure answer from what is passed in: the environment, a stream, a string.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Mapping
from typing import Literal, TextIO

ColorChoice = Literal["auto", "always", "never"]
Background = Literal["dark", "light"]

#: Number of colours a stream shows; 0 means none at all.
NO_COLOR, COLORS_16, COLORS_256, TRUECOLOR = 0, 16, 256, 16_777_216

DEFAULT_WIDTH = 80
DEFAULT_HEIGHT = 24

# CSI and OSC sequences first, so that their payload goes with them; then any other escape.
_ESCAPES = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"
    "|(?:\x1b\\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)?"
    "|\x1b[ -/]*[0-~]?"
)
_ZERO_WIDTH_JOINER = "\u200d"  # holds emoji families together; the other format characters go
_SWITCHED_OFF = frozenset({"0", "false", "no", "off", "never"})


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person looks at `stream`; False for a closed or missing one."""
    try:
        return stream is not None and stream.isatty()
    except (ValueError, OSError):
        return False


def color_level(environ: Mapping[str, str], choice: ColorChoice, *, is_tty: bool) -> int:
    """How many colours to use: 0, 16, 256 or 16777216.

    Order: `choice` unless it is `auto`, non-empty NO_COLOR, FORCE_COLOR, TERM=dumb, the TTY.
    """
    if choice == "never":
        return NO_COLOR
    if choice == "always":
        return _depth(environ)
    if environ.get("NO_COLOR"):
        return NO_COLOR
    forced = environ.get("FORCE_COLOR")
    if forced:
        if forced.lower() in _SWITCHED_OFF:
            return NO_COLOR
        return {"2": COLORS_256, "3": TRUECOLOR}.get(forced, _depth(environ))
    if not is_tty or environ.get("TERM", "dumb") in ("", "dumb"):
        return NO_COLOR
    return _depth(environ)


def _depth(environ: Mapping[str, str]) -> int:
    """The colours that the terminal's own variables promise, at least 16."""
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return TRUECOLOR
    term = environ.get("TERM", "")
    if term.endswith(("-direct", "-truecolor")):
        return TRUECOLOR
    return COLORS_256 if "256color" in term else COLORS_16


def background(environ: Mapping[str, str]) -> Background:
    """Whether the terminal says (COLORFGBG, `foreground;background`) that it is light."""
    last = environ.get("COLORFGBG", "").rpartition(";")[2]
    # 7 is light grey and 9 to 15 are the bright colours; 8 is dark grey.
    return "light" if last.isdigit() and (last == "7" or 9 <= int(last) <= 15) else "dark"


def screen_size(stream: TextIO | None, environ: Mapping[str, str]) -> tuple[int, int]:
    """Columns and lines of the terminal behind `stream`: COLUMNS and LINES, its own word, 80x24."""
    columns, lines = _positive(environ.get("COLUMNS")), _positive(environ.get("LINES"))
    if not columns or not lines:
        try:
            size = os.get_terminal_size(stream.fileno()) if stream is not None else None
        except (OSError, ValueError):
            size = None
        if size is not None:
            columns, lines = columns or size.columns, lines or size.lines
    return columns or DEFAULT_WIDTH, lines or DEFAULT_HEIGHT


def _positive(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() else 0


def speaks_utf8(stream: TextIO | None, environ: Mapping[str, str]) -> bool:
    """Whether box drawing and foreign names can be shown on `stream`.

    Python itself writes UTF-8 under LANG=C, where the terminal expects ASCII: so a locale that
    is set and says otherwise counts more than the stream's encoding. No locale at all (cron,
    containers) leaves it to the stream.
    """
    encoding = (getattr(stream, "encoding", None) or "utf-8").lower().replace("_", "-")
    if encoding not in ("utf-8", "utf8"):
        return False
    if environ.get("PYTHONIOENCODING") or environ.get("PYTHONUTF8") == "1":
        return True
    locale = _locale(environ).lower().replace("-", "")
    return not locale or "utf8" in locale


def _locale(environ: Mapping[str, str]) -> str:
    """The locale that the user set for characters; empty when none is."""
    if overall := environ.get("LC_ALL"):
        return overall
    characters, language = environ.get("LC_CTYPE", ""), environ.get("LANG", "")
    # Python sets this very value itself when it finds LANG=C (PEP 538): not the user's word.
    if characters == "C.UTF-8" and language in ("", "C", "POSIX"):
        return language
    return characters or language


def sanitize(name: str, *, ascii_only: bool = False) -> str:
    """`name` from outside, fit for a terminal: no escape sequences, no control characters.

    Undecodable bytes become U+FFFD. With `ascii_only`, other characters become `?`, one for each
    cell, so that columns stay in line.
    """
    if name.isascii() and name.isprintable():
        return name
    kept = "".join(_shown(ch) for ch in _ESCAPES.sub("", name))
    if ascii_only and not kept.isascii():
        kept = "".join(ch if ch.isascii() else "?" * cell_width(ch) for ch in kept)
    return kept


def _shown(ch: str) -> str:
    category = unicodedata.category(ch)
    if category == "Cs":
        return "\ufffd"
    if category in ("Zl", "Zp") or ch in "\t\n\r":
        return " "
    if category == "Cc" or (category == "Cf" and ch != _ZERO_WIDTH_JOINER):
        return ""
    return ch


def cell_width(text: str) -> int:
    """How many terminal cells `text` takes; it must be free of control characters."""
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth, wcwidth

    width = wcswidth(text)
    return width if width >= 0 else sum(max(0, wcwidth(ch)) for ch in text)


def pad(text: str, cells: int, *, right: bool = False) -> str:
    """`text` filled with blanks to `cells`; `right` puts the text on the right. Never cuts."""
    blanks = " " * max(0, cells - cell_width(text))
    return blanks + text if right else text + blanks


def shorten_middle(text: str, cells: int, *, ellipsis: str = "…") -> str:
    """`text` in at most `cells` cells, the middle left out: both ends of a name tell it apart."""
    if cell_width(text) <= cells:
        return text
    if cells <= 0:
        return ""
    room = cells - cell_width(ellipsis)
    if room <= 0:
        return _head(text, cells)
    tail = _tail(text, room // 2)
    return _head(text, room - cell_width(tail)) + ellipsis + tail


def _head(text: str, cells: int) -> str:
    end = len(text)
    while cell_width(text[:end]) > cells:
        end -= 1
    return text[:end]


def _tail(text: str, cells: int) -> str:
    start = 0
    while cell_width(text[start:]) > cells:
        start += 1
    # A combining mark must not lose the letter it belongs to.
    while start < len(text) and unicodedata.combining(text[start]):
        start += 1
    return text[start:]

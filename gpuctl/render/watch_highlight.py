"""Part of a drawn line turned inside out, to show what is selected."""

from __future__ import annotations

import re

from gpuctl.render.screen import RESET
from gpuctl.render.terminal import cell_width

_SGR = re.compile("\x1b\\[[0-9;]*m")
_REVERSE = "\x1b[7m"


def highlighted(line: str, start: int, cells: int) -> str:
    """`line` with `cells` cells from `start` on in reverse video, their own colours dropped.

    Reverse is no colour: it shows under NO_COLOR and on every palette. A line that ends before
    the place is filled up to it.
    """
    parts: list[str] = []
    active: list[str] = []  # colours that hold, to be set again behind the highlight
    place = 0
    is_inside = False
    for token in _tokens(line):
        if token.startswith("\x1b"):
            active = [] if token == RESET else [*active, token]
            if not is_inside:
                parts.append(token)
            continue
        if not is_inside and start <= place < start + cells:
            parts.append(RESET + _REVERSE)
            is_inside = True
        elif is_inside and place >= start + cells:
            parts += [RESET, *active]
            is_inside = False
        parts.append(token)
        place += cell_width(token)
    if place < start + cells:
        missing = start + cells - max(place, start)
        parts.append(" " * max(0, start - place))
        parts.append(" " * missing if is_inside else RESET + _REVERSE + " " * missing)
        is_inside = True
    if is_inside:
        parts.append(RESET)
    return "".join(parts)


def _tokens(line: str) -> list[str]:
    """Colour codes, and characters one by one with what combines with them."""
    tokens: list[str] = []
    at = 0
    for match in _SGR.finditer(line):
        tokens += _characters(line[at : match.start()])
        tokens.append(match.group())
        at = match.end()
    return tokens + _characters(line[at:])


def _characters(text: str) -> list[str]:
    if text.isascii():
        return list(text)
    found: list[str] = []
    for ch in text:
        if found and cell_width(found[-1] + ch) == cell_width(found[-1]):
            found[-1] += ch
        else:
            found.append(ch)
    return found

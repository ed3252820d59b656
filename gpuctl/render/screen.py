"""The terminal that a picture is drawn for, and pieces of text that know their width."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpuctl.render.terminal import cell_width, sanitize, shorten_middle

RESET = "\x1b[0m"
#: A screen of fewer lines than this gets a short head, foot and legend.
SMALL = 16


@dataclass(frozen=True, slots=True)
class Screen:
    """What can be shown.

    `width` in cells; None means no terminal: nothing is cut, one record a line. `height` in lines,
    None for as many as it takes. `color_level` is the number of colours: 0, 16, 256 or 16777216.
    """

    width: int | None = 80
    height: int | None = None
    color_level: int = 0
    utf8: bool = True
    light_background: bool = False

    @property
    def ellipsis(self) -> str:
        """What stands for the middle of a shortened name."""
        return "…" if self.utf8 else "~"

    def name(self, raw: str) -> str:
        """A name from outside, made safe for this screen."""
        return sanitize(raw, ascii_only=not self.utf8)

    def shortened(self, text: str, cells: int) -> str:
        """`text` in at most `cells` cells; as it is where nothing may be cut."""
        if self.width is None:
            return text
        return shorten_middle(text, cells, ellipsis=self.ellipsis)


class Piece(NamedTuple):
    """Text that may hold colour codes, and the cells it takes without them."""

    text: str
    cells: int

    def padded(self, cells: int) -> str:
        """The text filled with blanks on the right."""
        return self.text + " " * (cells - self.cells)


NOTHING = Piece("", 0)


def plain(text: str) -> Piece:
    """Text without colour codes."""
    return Piece(text, cell_width(text))


def strong(text: str, screen: Screen) -> Piece:
    """Bold where the screen has colours."""
    shown = f"\x1b[1m{text}{RESET}" if screen.color_level else text
    return Piece(shown, cell_width(text))


def joined(pieces: Iterable[Piece], gap: str = "") -> Piece:
    """Pieces side by side."""
    row = list(pieces)
    cells = sum(piece.cells for piece in row) + len(gap) * max(0, len(row) - 1)
    return Piece(gap.join(piece.text for piece in row), cells)


def flow(
    pieces: Sequence[Piece], width: int | None, *, gap: str = "  ", indent: str = ""
) -> list[Piece]:
    """Pieces in as few lines of `width` cells as their order allows; later lines are indented.

    A piece wider than a line is cut at its end and loses its colours; with no width all is one
    line.
    """
    if width is None:
        return [joined(pieces, gap)] if pieces else []
    lines: list[Piece] = []
    row: list[Piece] = []
    used = 0
    for piece in pieces:
        if row and used + len(gap) + piece.cells > width:
            lines.append(joined(row, gap))
            row, used = [], 0
        if not row:
            lead = indent if lines else ""
            fitted = piece if piece.cells + len(lead) <= width else cut(piece, width - len(lead))
            row, used = [Piece(lead + fitted.text, fitted.cells + len(lead))], 0
            used = row[0].cells
            continue
        row.append(piece)
        used += len(gap) + piece.cells
    return [*lines, joined(row, gap)] if row else lines


def cut(piece: Piece, cells: int) -> Piece:
    """The start of a piece, in at most `cells` cells, without its colours when it has to be cut."""
    if piece.cells <= cells:
        return piece
    text = uncolored(piece.text)
    while text and cell_width(text) > cells:
        text = text[:-1]
    return plain(text)


def uncolored(text: str) -> str:
    """`text` without colour codes."""
    return sanitize(text)


def finished(lines: Sequence[Piece], screen: Screen) -> list[str]:
    """The lines as text, none beyond the screen: on one too small for any view they are cut."""
    width = screen.width
    if width is None:
        return [line.text.rstrip() for line in lines]
    return [
        (line if line.cells <= width else cut(line, width)).text.rstrip()
        for line in lines[: screen.height]
    ]

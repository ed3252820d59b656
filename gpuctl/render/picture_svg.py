"""A small SVG writer: a card with its own background, text in cells of equal width."""

from __future__ import annotations

from gpuctl.render.palette import Rgb, ink_rgb, shade_rgb
from gpuctl.render.picture_text import attribute, markup_text

FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'Noto Sans Mono CJK SC', monospace"
FONT_SIZE = 13
CELL = 7.9  # pixels of one character of that size
LINE = 20  # pixels from one line of text to the next
MARGIN = 20

# A card of its own colour reads alike on light and dark pages, in viewers that know no theme too.
PAPER, EDGE, INK, FAINT = "#f7f8fa", "#c4cad4", "#1a2230", "#5a6678"
_ALARM = "#b3261e"


def hex_color(color: Rgb) -> str:
    """`#rrggbb`."""
    return "#{:02x}{:02x}{:02x}".format(*color)


def shade_colors(share: float) -> tuple[str, str]:
    """Background and text colour of `share` (0..1) on a light card."""
    paper = shade_rgb(share, light_background=True)
    return hex_color(paper), hex_color(ink_rgb(paper))


class Canvas:
    """Collects shapes; `y` is where the next line goes. Names may be hostile, they are escaped."""

    def __init__(self, width: float) -> None:
        self.width = width
        self.y: float = MARGIN
        self._parts: list[str] = []

    @property
    def columns(self) -> int:
        """Characters that a line holds."""
        return int((self.width - 2 * MARGIN) / CELL)

    def line(
        self, text: str, *, bold: bool = False, size: int = FONT_SIZE, faint: bool = False
    ) -> None:
        """A line of text at the left margin, and on to the next."""
        self.text(MARGIN, text, bold=bold, size=size, color=FAINT if faint else INK)
        self.y += LINE + max(0, size - FONT_SIZE)

    def text(
        self,
        x: float,
        text: str,
        *,
        anchor: str = "start",
        bold: bool = False,
        size: int = FONT_SIZE,
        color: str = INK,
    ) -> None:
        """Text in the current line, its baseline where cells have theirs."""
        extra = ' font-weight="700"' if bold else ""
        extra += f' font-size="{size}"' if size != FONT_SIZE else ""
        extra += f' text-anchor="{anchor}"' if anchor != "start" else ""
        extra += f' fill="{color}"' if color != INK else ""
        self._parts.append(f'<text x="{x:g}" y="{self.y + 15:g}"{extra}>{markup_text(text)}</text>')

    def cell(
        self,
        x: float,
        width: float,
        text: str,
        share: float | None,
        *,
        hot: bool = False,
        title: str = "",
        height: float = LINE,
    ) -> None:
        """A cell on its shade; without one it is an empty frame, which no colour can fake."""
        fill, ink = (PAPER, FAINT) if share is None else shade_colors(share)
        line = (
            f' stroke="{FAINT}" stroke-dasharray="3 2"'
            if share is None
            else f' stroke="{_ALARM}" stroke-width="2.5"'
            if hot
            else ""
        )
        inset = 1 if line else 0
        self._parts.append(
            f'<g><rect x="{x + inset:g}" y="{self.y + inset:g}" width="{width - 2 * inset:g}" '
            f'height="{height - 2 * inset:g}" rx="2" fill="{fill}"{line}/>'
        )
        if text:
            bold = ' font-weight="700"' if hot else ""
            self._parts.append(
                f'<text x="{x + width / 2:g}" y="{self.y + 15:g}" text-anchor="middle" '
                f'fill="{ink}"{bold}>{markup_text(text)}</text>'
            )
        self._parts.append(f"<title>{markup_text(title)}</title></g>" if title else "</g>")

    def badge(self, text: str) -> None:
        """A loud label at the right of the current line."""
        width = len(text) * CELL + 16
        x = self.width - MARGIN - width
        self._parts.append(
            f'<rect x="{x:g}" y="{self.y:g}" width="{width:g}" height="{LINE + 2}" rx="3" '
            f'fill="{_ALARM}"/>'
        )
        self.text(x + width / 2, text, anchor="middle", bold=True, color="#ffffff")

    def ramp(self, x: float, steps: int, width: float) -> None:
        """The shades from low to high."""
        for step in range(steps):
            self.cell(x + step * width, width, "", (step + 0.5) / steps)

    def document(self, label: str) -> str:
        """The whole file; `label` is what a screen reader says."""
        height = self.y + MARGIN
        return (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width:g}" '
            f'height="{height:g}" viewBox="0 0 {self.width:g} {height:g}" role="img" '
            f'aria-label="{attribute(label)}" font-family="{FONT}" font-size="{FONT_SIZE}" '
            f'fill="{INK}" xml:space="preserve">\n'
            f'<rect x="0.5" y="0.5" width="{self.width - 1:g}" height="{height - 1:g}" rx="8" '
            f'fill="{PAPER}" stroke="{EDGE}"/>\n' + "\n".join(self._parts) + "\n</svg>\n"
        )

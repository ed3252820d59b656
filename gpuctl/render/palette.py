"""Shades: from dark blue to yellow in colours, from low to high in glyphs.

Lightness rises from the first shade to the last, so that the order survives a grey printout and
every kind of colour blindness.
"""

from __future__ import annotations

from functools import lru_cache

Rgb = tuple[int, int, int]

_ON_DARK: tuple[Rgb, ...] = (
    (24, 34, 84),
    (38, 84, 142),
    (50, 138, 146),
    (150, 186, 84),
    (252, 228, 60),
)
# A paler yellow would drown on white paper, a dark blue near black would look like text on it.
_ON_LIGHT: tuple[Rgb, ...] = (
    (44, 62, 124),
    (56, 104, 160),
    (64, 150, 156),
    (158, 188, 80),
    (240, 200, 20),
)
_ON_DARK_256 = (17, 18, 25, 31, 37, 72, 107, 149, 185, 221, 227)
_ON_LIGHT_256 = (18, 25, 31, 37, 72, 107, 149, 185, 220)
# Backgrounds of the 16 standard colours whose lightness rises under all common themes.
_STEPS_16 = (44, 104, 46, 106, 103)
_GREYS_256 = tuple(range(235, 250))

_WHITE: Rgb = (255, 255, 255)
_BLACK: Rgb = (0, 0, 0)

_HEIGHTS = "▁▂▃▄▅▆▇█"
_DENSITIES = ".:-=+*#%@"


def shade_rgb(share: float, *, light_background: bool = False) -> Rgb:
    """The colour of `share` (0..1; beyond counts as the end)."""
    anchors = _ON_LIGHT if light_background else _ON_DARK
    place = min(1.0, max(0.0, share)) * (len(anchors) - 1)
    index = min(int(place), len(anchors) - 2)
    part = place - index
    low, high = anchors[index], anchors[index + 1]
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(low, high, strict=True))
    return red, green, blue


def luminance(color: Rgb) -> float:
    """Relative luminance 0..1, as WCAG 2 defines it."""
    red, green, blue = (_linear(part / 255) for part in color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4)


def contrast(one: Rgb, other: Rgb) -> float:
    """Contrast ratio 1..21 of two colours, as WCAG 2 defines it."""
    dark, bright = sorted((luminance(one), luminance(other)))
    return (bright + 0.05) / (dark + 0.05)


def ink_rgb(paper: Rgb) -> Rgb:
    """Black or white, whichever reads better on `paper`."""
    return _WHITE if contrast(_WHITE, paper) >= contrast(_BLACK, paper) else _BLACK


def rgb_of_256(index: int) -> Rgb:
    """The colour that xterm's palette of 256 gives to `index` (16 and up)."""
    if index >= 232:
        grey = 8 + 10 * (index - 232)
        return grey, grey, grey
    cube = (0, 95, 135, 175, 215, 255)
    red, rest = divmod(index - 16, 36)
    green, blue = divmod(rest, 6)
    return cube[red], cube[green], cube[blue]


@lru_cache(maxsize=4096)
def shade_sgr(
    percent: int, level: int, *, light_background: bool = False, dim: bool = False
) -> str:
    """The escape sequence that turns a cell into the shade of `percent` (0..100 of the scale).

    Empty where there are no colours. `dim` gives greys: an old picture must not shine.
    """
    share = min(100, max(0, percent)) / 100
    if not level:
        return ""
    if level == 16:
        return "\x1b[2m" if dim else _sgr_16(share)
    if level == 256 or dim:
        steps = _GREYS_256 if dim else _ON_LIGHT_256 if light_background else _ON_DARK_256
        index = steps[_step(share, len(steps))]
        return f"\x1b[{_ink_sgr(rgb_of_256(index))};48;5;{index}m"
    red, green, blue = paper = shade_rgb(share, light_background=light_background)
    return f"\x1b[{_ink_sgr(paper)};48;2;{red};{green};{blue}m"


def _sgr_16(share: float) -> str:
    paper = _STEPS_16[_step(share, len(_STEPS_16))]
    return f"\x1b[{97 if paper in (44, 104) else 30};{paper}m"


def _ink_sgr(paper: Rgb) -> str:
    # From the cube, since themes redefine the first 16 colours.
    return "38;5;231" if ink_rgb(paper) == _WHITE else "38;5;16"


def _step(share: float, steps: int) -> int:
    return min(int(share * steps), steps - 1)


def shade_glyph(share: float, *, utf8: bool) -> str:
    """One character that grows, or darkens in ASCII, with `share` (0..1)."""
    glyphs = _HEIGHTS if utf8 else _DENSITIES
    return glyphs[_step(min(1.0, max(0.0, share)), len(glyphs))]


def glyph_scale(*, utf8: bool) -> str:
    """All glyphs from low to high, for the legend."""
    return _HEIGHTS if utf8 else _DENSITIES

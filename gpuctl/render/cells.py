"""One cell of the heat map: a number or a single character, its shade and its markers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gpuctl.model.gpu import GpuState
from gpuctl.model.heatmap import HeatmapGpu, HeatmapInstance
from gpuctl.model.history import Metric
from gpuctl.render.palette import shade_glyph, shade_sgr
from gpuctl.render.screen import RESET, Screen

HOT, IDLE, STALE = "!", "z", "~"
UNKNOWN, LOST = "--", "LOST"
#: The same in one character, for compact cells.
UNKNOWN_DOT, LOST_DOT = "?", "x"

_NONE: Callable[[HeatmapInstance], float | None] = lambda _: None  # noqa: E731


@dataclass(frozen=True, slots=True)
class Figure:
    """A metric as the views show it: its words, its scale and where it is found.

    `short` stands before the GPU's index at the head of a column. `high` None means that the
    scale ends at the highest value shown.
    """

    metric: Metric
    short: str
    title: str
    unit: str
    low: float
    high: float | None
    of_gpu: Callable[[HeatmapGpu], float | None]
    of_instance: Callable[[HeatmapInstance], float | None] = _NONE


_FIGURES: dict[Metric, Figure] = {
    "util": Figure(
        "util",
        "GPU",
        "utilization",
        "%",
        0,
        100,
        lambda g: g.utilization_pct,
        lambda i: i.utilization_pct,
    ),
    "mem": Figure(
        "mem", "mem", "memory", "%", 0, 100, lambda g: g.memory_pct, lambda i: i.memory_pct
    ),
    "membw": Figure(
        "membw",
        "bwd",
        "memory bandwidth",
        "%",
        0,
        100,
        lambda g: g.memory_bandwidth_pct,
        lambda i: i.memory_bandwidth_pct,
    ),
    "tensor": Figure(
        "tensor",
        "tns",
        "tensor activity",
        "%",
        0,
        100,
        lambda g: g.tensor_pct,
        lambda i: i.tensor_pct,
    ),
    "temp": Figure("temp", "tmp", "temperature", "C", 20, 95, lambda g: g.temperature_c),
    "power": Figure("power", "pwr", "power", "W", 0, None, lambda g: g.power_w),
}


def figure_of(metric: Metric) -> Figure:
    """How `metric` is shown."""
    return _FIGURES[metric]


def beside(metric: Metric) -> Figure:
    """What stands beside `metric` in the second block: memory, or utilization next to memory."""
    return _FIGURES["util" if metric == "mem" else "mem"]


@dataclass(frozen=True, slots=True)
class Scale:
    """The figures at which the first and the last shade begin."""

    low: float
    high: float

    def share(self, value: float) -> float:
        """Where `value` lies, 0..1 within the scale."""
        return (value - self.low) / (self.high - self.low)


def scale_of(figure: Figure, values: Iterable[float | None]) -> Scale:
    """The scale of `figure`; one without a fixed end reaches the next 50 over the highest value."""
    if figure.high is not None:
        return Scale(figure.low, figure.high)
    highest = max((value for value in values if value is not None), default=0.0)
    return Scale(figure.low, max(50.0, -(-highest // 50) * 50))


def is_trusted(state: GpuState) -> bool:
    """Whether figures of a GPU in this state are of now."""
    return state not in (GpuState.LOST, GpuState.STALE)


def marker(hot: bool | None, idle: bool | None) -> str:
    """One character for the verdict, a blank without one."""
    return HOT if hot else IDLE if idle else " "


class Painter:
    """Draws cells of one figure; equal cells are drawn once and remembered."""

    def __init__(
        self,
        screen: Screen,
        scale: Scale,
        *,
        digits: int = 3,
        marks: bool = True,
        glyphs: bool = True,
        dim: bool = False,
    ) -> None:
        self._screen = screen
        self._scale = scale
        self._digits = digits
        self._marks = marks
        # A colour or a glyph, never both: the number stands in the cell anyway.
        self._glyphs = glyphs and not screen.color_level
        self._dim = dim
        self.cells = self.label_cells = digits + marks + self._glyphs
        self.blank = " " * self.cells
        self.unknown = UNKNOWN.rjust(digits + self._glyphs) + " " * marks
        self.lost = (LOST if self.cells >= len(LOST) else "xx").rjust(self.cells)
        self._known: dict[tuple[int, str], str] = {}

    def gpu(self, gpu: HeatmapGpu, value: float | None) -> str:
        """The cell of a GPU whose figure is `value`."""
        if gpu.state is GpuState.LOST:
            return self.lost
        if gpu.state is GpuState.STALE:
            return self.unknown if value is None else self._stale(value)
        mark = (HOT if gpu.hot else IDLE if gpu.idle else " ") if self._marks else ""
        return self.value(value, mark)

    def value(self, value: float | None, mark: str = "") -> str:
        """The cell of a fresh value."""
        if value is None:
            return self.unknown
        key = (round(value), mark)
        cell = self._known.get(key)
        if cell is None:
            cell = self._known[key] = self._fresh(*key)
        return cell

    def _fresh(self, rounded: int, mark: str) -> str:
        number = f"{rounded:>{self._digits}}{mark or ' ' * self._marks}"
        share = self._scale.share(rounded)
        if self._glyphs:
            return shade_glyph(share, utf8=self._screen.utf8) + number
        return painted(number, share, self._screen, dim=self._dim)

    def _stale(self, value: float) -> str:
        # No shade: an old figure says nothing about how warm the card is now.
        return f"{round(value)}{STALE * self._marks}".rjust(self.cells)


class WidePainter:
    """Cells with memory in GiB and temperature beside the figure."""

    def __init__(self, core: Painter) -> None:
        self._core = core
        self.label_cells = core.cells
        self.cells = core.cells + _EXTRA
        self.blank = " " * self.cells

    def gpu(self, gpu: HeatmapGpu, value: float | None) -> str:
        """The cell of a GPU whose figure is `value`."""
        cell = self._core.gpu(gpu, value)
        if gpu.state is GpuState.LOST:
            return cell + " " * _EXTRA
        used, total = _gib(gpu.memory_used_mib), _gib(gpu.memory_total_mib)
        warmth = UNKNOWN if gpu.temperature_c is None else f"{gpu.temperature_c:.0f}C"
        return f"{cell} {f'{used}/{total}G':>8} {warmth:>4}"


_EXTRA = 14  # " 141/141G 105C"


def _gib(mib: float | None) -> str:
    return UNKNOWN if mib is None else f"{mib / 1024:.0f}"


def painted(text: str, share: float, screen: Screen, *, dim: bool = False) -> str:
    """`text` on the shade of `share`; as it is where there are no colours."""
    if not screen.color_level:
        return text
    start = shade_sgr(
        round(share * 100), screen.color_level, light_background=screen.light_background, dim=dim
    )
    return f"{start}{text}{RESET}"


class DotPainter:
    """Draws a figure in a single character: tens of the scale on a shade, or a shade glyph."""

    def __init__(self, screen: Screen, scale: Scale, *, dim: bool = False) -> None:
        self._screen = screen
        self._scale = scale
        self._dim = dim
        self._known: dict[tuple[int, bool], str] = {}

    def gpu(self, gpu: HeatmapGpu, value: float | None) -> str:
        """The character of a GPU; what is not of now has no shade."""
        if gpu.state is GpuState.LOST:
            return LOST_DOT
        if gpu.state is GpuState.STALE:
            return STALE
        return self.value(value, hot=bool(gpu.hot))

    def value(self, value: float | None, *, hot: bool = False, missing: str = UNKNOWN_DOT) -> str:
        """The character of a fresh value."""
        if value is None:
            return missing
        key = (round(value), hot)
        dot = self._known.get(key)
        if dot is None:
            dot = self._known[key] = self._draw(self._scale.share(key[0]), hot=hot)
        return dot

    def _draw(self, share: float, *, hot: bool) -> str:
        if not self._screen.color_level:
            return HOT if hot else shade_glyph(share, utf8=self._screen.utf8)
        text = HOT if hot else str(min(9, max(0, int(share * 10))))
        return painted(text, share, self._screen, dim=self._dim)

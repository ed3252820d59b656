"""The heat map as a table: a line per node, a cell per GPU, memory beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from gpuctl.model.heatmap import HeatmapDocument, HeatmapGpu, HeatmapInstance, NodeLoad
from gpuctl.model.history import Metric
from gpuctl.render.cells import (
    UNKNOWN,
    Figure,
    Painter,
    Scale,
    WidePainter,
    beside,
    figure_of,
    is_trusted,
    marker,
    painted,
    scale_of,
)
from gpuctl.render.screen import Piece, Screen, flow, plain
from gpuctl.render.terminal import cell_width, pad

_TAIL = 12  # " mean spread"
_MOST_COLUMNS = 32  # of GPU indices; beyond, cells stand in order of appearance


class Grid:
    """The document by node, with each GPU at its column."""

    def __init__(self, doc: HeatmapDocument, metric: Metric) -> None:
        self.doc = doc
        self.figure = figure_of(metric)
        self.second = beside(metric)
        self.scale = scale_of(self.figure, (self.figure.of_gpu(gpu) for gpu in doc.items))
        self.gpus: dict[str, list[HeatmapGpu]] = {load.node: [] for load in doc.nodes}
        for gpu in doc.items:
            self.gpus.setdefault(gpu.node, []).append(gpu)

    @cached_property
    def indices(self) -> tuple[int, ...] | None:
        """The columns' GPU indices; None when indices are missing, double or too many."""
        seen: set[int] = set()
        for gpus in self.gpus.values():
            own = {gpu.gpu for gpu in gpus if gpu.gpu is not None}
            if len(own) != len(gpus):
                return None
            seen |= own
        return tuple(sorted(seen)) if len(seen) <= _MOST_COLUMNS else None

    @cached_property
    def column_count(self) -> int:
        """How many cells the longest line has."""
        if self.indices is not None:
            return len(self.indices)
        return max((len(gpus) for gpus in self.gpus.values()), default=0)

    def row(self, node: str) -> list[HeatmapGpu | None]:
        """The node's GPUs by column, None where it has no GPU of that index."""
        gpus = self.gpus[node]
        if self.indices is None:
            return [*gpus, *[None] * (self.column_count - len(gpus))]
        if len(gpus) == len(self.indices):
            return list(gpus)
        by_index = {gpu.gpu: gpu for gpu in gpus}
        return [by_index.get(index) for index in self.indices]

    def figures_of(self, load: NodeLoad) -> tuple[float | None, float | None]:
        """Mean and spread of the node in the figure that is shown."""
        if self.figure.metric == "util":
            return load.utilization_mean_pct, load.utilization_spread_pct
        values = [
            value
            for gpu in self.gpus[load.node]
            if is_trusted(gpu.state) and (value := self.figure.of_gpu(gpu)) is not None
        ]
        if not values:
            return None, None
        return sum(values) / len(values), max(values) - min(values)


@dataclass(frozen=True, slots=True)
class Layout:
    """How wide the parts of a line are; `second` None means that the second block is left out."""

    name: int
    main: Painter | WidePainter
    second: Painter | None
    gap: str

    def width(self, count: int) -> int:
        """Cells of a whole line with `count` GPUs."""
        cells = [self.main.cells, *([self.second.cells] if self.second else [])]
        blocks = sum(1 + count * (size + len(self.gap)) for size in cells)
        return self.name + blocks + _TAIL


def layouts(grid: Grid, screen: Screen, *, wide: bool, dim: bool) -> Iterator[Layout]:
    """Layouts from roomy to tight: cells lose their gaps before the second block goes."""
    names = [cell_width(screen.name(node)) for node in grid.gpus]
    natural = max(4, *names) if names else 4
    glyphs = screen.width is not None
    digits = max(3, len(f"{grid.scale.high:.0f}")) if grid.figure.high is None else 3
    core = Painter(screen, grid.scale, digits=digits, glyphs=glyphs, dim=dim)
    main = WidePainter(core) if wide else core
    for has_second in (False,) if wide else (True, False):
        for roomy in (True, False):
            second = None
            if has_second:
                room = 3 + (roomy and not (glyphs and not screen.color_level))
                second = Painter(
                    screen, Scale(0, 100), digits=room, marks=False, glyphs=glyphs, dim=dim
                )
            layout = Layout(min(natural, 16 if roomy else 8), main, second, " " if roomy else "")
            if screen.width is None:
                yield replace(layout, name=natural)
                continue
            spare = max(0, screen.width - layout.width(grid.column_count))
            yield replace(layout, name=min(natural, layout.name + spare))


def fitting_layout(grid: Grid, screen: Screen, *, wide: bool, dim: bool) -> Layout | None:
    """The roomiest layout that fits the screen's width; None when not even the tightest does."""
    for layout in layouts(grid, screen, wide=wide, dim=dim):
        if screen.width is None or layout.width(grid.column_count) <= screen.width:
            return layout
    # Wide cells are a wish; the figures themselves are not.
    return fitting_layout(grid, screen, wide=False, dim=dim) if wide else None


def header_line(grid: Grid, layout: Layout) -> Piece:
    """Names of the columns."""
    labels = [str(i) for i in grid.indices or range(grid.column_count)]
    text = pad("NODE", layout.name)
    blocks = ((grid.figure.short, layout.main), (grid.second.short, layout.second))
    for prefix, block in blocks:
        if block is None:
            continue
        room = block.label_cells if layout.gap else block.label_cells - 1
        heads = [prefix + label if len(prefix + label) <= room else label for label in labels]
        if len(prefix + labels[0]) <= block.label_cells:
            # Where the others are bare numbers, the first one says what they are.
            heads[0] = prefix + labels[0]
        text += " " + "".join(
            head.rjust(block.label_cells).ljust(block.cells) + layout.gap for head in heads
        )
    return plain(text + " mean spread")


def node_line(grid: Grid, screen: Screen, layout: Layout, load: NodeLoad) -> Piece:
    """One node: its cells, then mean and spread in points."""
    row = grid.row(load.node)
    parts = [pad(screen.shortened(screen.name(load.node), layout.name), layout.name), " "]
    main, of_gpu, gap = layout.main, grid.figure.of_gpu, layout.gap
    parts += [(main.blank if g is None else main.gpu(g, of_gpu(g))) + gap for g in row]
    if layout.second is not None:
        second, of_gpu = layout.second, grid.second.of_gpu
        parts.append(" ")
        parts += [(second.blank if g is None else second.gpu(g, of_gpu(g))) + gap for g in row]
    mean, spread = grid.figures_of(load)
    parts.append(f" {_number(mean):>4} {_number(spread):>6}")
    return Piece("".join(parts), layout.width(grid.column_count))


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f}"


def mig_lines(grid: Grid, screen: Screen, node: str, *, dim: bool) -> list[Piece]:
    """The node's MIG cards: each instance with its profile, id, own utilization and memory."""
    lines: list[Piece] = []
    for gpu in grid.gpus[node]:
        if not gpu.mig:
            continue
        pieces = [plain(f"  GPU {'?' if gpu.gpu is None else gpu.gpu} MIG")]
        pieces += [_instance(grid.figure, gpu, instance, screen, dim=dim) for instance in gpu.mig]
        if gpu.total_slices:
            used = "?" if gpu.allocated_slices is None else gpu.allocated_slices
            pieces.append(plain(f"({used} of {gpu.total_slices} slices)"))
        lines += flow(pieces, screen.width, indent=" " * 11)
    return lines


def _instance(
    figure: Figure, gpu: HeatmapGpu, instance: HeatmapInstance, screen: Screen, *, dim: bool
) -> Piece:
    # A card's temperature and power have no share of an instance: utilization then.
    value = figure.of_instance(instance)
    if figure.high != 100:
        value = instance.utilization_pct
    lead = screen.shortened(f"{screen.name(instance.profile)}#{instance.id}", 24) + " "
    if not is_trusted(gpu.state):
        return plain(f"{lead}{UNKNOWN}/{UNKNOWN}")
    memory = _number(instance.memory_pct)
    text = _number(value) + marker(instance.hot, instance.idle).strip()
    shown = text if value is None else painted(text, value / 100, screen, dim=dim)
    whole = plain(f"{lead}{text}/{memory}")
    return Piece(f"{lead}{shown}/{memory}", whole.cells)

"""The heat map of many nodes or a small screen: a character per GPU, nodes side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuctl.model.gpu import GpuState
from gpuctl.model.heatmap import NodeLoad
from gpuctl.render.cells import UNKNOWN, DotPainter
from gpuctl.render.heatmap_table import Grid
from gpuctl.render.screen import Piece, Screen, flow, plain
from gpuctl.render.terminal import cell_width, pad

_GAP = 2
_SHORTEST_NAME = 8
_MEAN = 4  # cells of the node's mean with a blank before it


@dataclass(frozen=True, slots=True)
class CompactPlan:
    """How entries are laid out: cells of a name and of the dots, entries a line, lines an entry."""

    name: int
    dots: int
    per_line: int
    lines_per_entry: int

    def lines(self, nodes: int) -> int:
        """Lines that `nodes` entries take."""
        return -(-nodes // self.per_line) * self.lines_per_entry

    def nodes(self, lines: int) -> int:
        """Entries that fit into `lines`."""
        return lines // self.lines_per_entry * self.per_line

    def column(self, number: int) -> int:
        """The cell at which entry `number` begins in its line."""
        return number % self.per_line * (self.name + 1 + self.dots + _MEAN + _GAP)


def compact_plan(grid: Grid, screen: Screen, lines: int | None) -> CompactPlan:
    """The plan with the longest names that shows all nodes; else the one that shows most."""
    names = [cell_width(screen.name(node)) for node in grid.gpus]
    natural = max(names, default=4)
    shortest = min(natural, _SHORTEST_NAME)
    count = len(grid.gpus)
    plans = [_plan(grid, screen, name) for name in range(natural, shortest - 1, -1)]
    for plan in plans:
        if lines is None or plan.lines(count) <= lines:
            return plan
    # max keeps the first of equals: the one with the longest names.
    return max(plans, key=lambda plan: plan.nodes(lines or 0))


def _plan(grid: Grid, screen: Screen, name: int) -> CompactPlan:
    width = screen.width or 80
    name = max(1, min(name, width - 1 - _MEAN - 1))
    room = max(1, width - name - 1 - _MEAN)
    dots = max(1, min(grid.column_count, room))
    entry = name + 1 + dots + _MEAN
    per_line = max(1, (width + _GAP) // (entry + _GAP))
    return CompactPlan(name, dots, per_line, max(1, -(-grid.column_count // dots)))


def compact_lines(
    grid: Grid, screen: Screen, plan: CompactPlan, nodes: Sequence[NodeLoad], *, dim: bool
) -> list[Piece]:
    """The entries of `nodes`, the first ones in the first line."""
    painter = DotPainter(screen, grid.scale, dim=dim)
    entries = [_entry(grid, screen, plan, painter, load) for load in nodes]
    lines: list[Piece] = []
    cells = plan.name + 1 + plan.dots + _MEAN
    for start in range(0, len(entries), plan.per_line):
        row = entries[start : start + plan.per_line]
        width = len(row) * cells + _GAP * (len(row) - 1)
        lines += [Piece((" " * _GAP).join(parts), width) for parts in zip(*row, strict=True)]
    return lines


def _entry(
    grid: Grid, screen: Screen, plan: CompactPlan, painter: DotPainter, load: NodeLoad
) -> list[str]:
    of_gpu = grid.figure.of_gpu
    dots = [" " if g is None else painter.gpu(g, of_gpu(g)) for g in grid.row(load.node)]
    dots += [" "] * (plan.dots * plan.lines_per_entry - len(dots))
    mean, _ = grid.figures_of(load)
    shown_mean = (UNKNOWN if mean is None else f"{mean:.0f}").rjust(_MEAN)
    name = pad(screen.shortened(screen.name(load.node), plan.name), plan.name)
    lines = [f"{name} {''.join(dots[: plan.dots])}{shown_mean}"]
    for start in range(plan.dots, len(dots), plan.dots):
        rest = "".join(dots[start : start + plan.dots])
        lines.append(f"{' ' * plan.name} {rest}{' ' * _MEAN}")
    return lines


def rest_lines(grid: Grid, screen: Screen, nodes: Sequence[NodeLoad]) -> list[Piece]:
    """One sentence for the nodes that are not drawn; none when all are."""
    if not nodes:
        return []
    gpus = [gpu for load in nodes for gpu in grid.gpus[load.node]]
    values = [
        value
        for gpu in gpus
        if gpu.state not in (GpuState.LOST, GpuState.STALE)
        and (value := grid.figure.of_gpu(gpu)) is not None
    ]
    unit = grid.figure.unit
    mean = f"{sum(values) / len(values):.0f} {unit}" if values else UNKNOWN
    highest = f"{max(values):.0f} {unit}" if values else UNKNOWN
    hot = sum(load.hot for load in nodes)
    lost = sum(gpu.state is GpuState.LOST for gpu in gpus)
    node_word = "node" if len(nodes) == 1 else "nodes"
    gpu_word = "GPU" if len(gpus) == 1 else "GPUs"
    parts = [
        f"and {len(nodes):,} more {node_word} ({len(gpus):,} {gpu_word}):",
        f"mean {mean},",
        f"hottest {highest}," if grid.figure.metric in ("util", "temp") else f"highest {highest},",
        f"{hot:,} hot,",
        f"{lost:,} lost",
    ]
    return flow([plain(part) for part in parts], screen.width, gap=" ")

"""The heat map of the live view: as the plain view draws it, with a selection, and scrolled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from gpuctl.model.heatmap import HeatmapDocument, NodeLoad
from gpuctl.model.history import Metric
from gpuctl.render.heatmap_compact import CompactPlan, compact_lines, compact_plan
from gpuctl.render.heatmap_frame import foot_lines, head_lines, legend_lines, words_instead
from gpuctl.render.heatmap_lists import side_lines
from gpuctl.render.heatmap_table import (
    Grid,
    Layout,
    fitting_layout,
    header_line,
    mig_lines,
    node_line,
)
from gpuctl.render.screen import NOTHING, SMALL, Piece, Screen, cut
from gpuctl.render.watch_highlight import highlighted
from gpuctl.render.watch_state import Drawn, Spot

_BESIDE_FROM = 120  # a screen at least this wide has the lists beside the cells
_NARROWEST_LIST = 40
_GAP = 3


@dataclass(frozen=True, slots=True)
class Look:
    """How the picture is drawn. `is_dim`: it is not of now."""

    metric: Metric = "util"
    by_mig: bool = False
    wide_cells: bool = False
    as_table: bool = False
    is_dim: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """Lines that fit the screen: of `nodes` nodes, `shown` are drawn from number `first` on.

    `omits_instances`: there are MIG instances, and no room for them.
    """

    lines: list[Piece]
    drawn: Drawn = field(default_factory=Drawn)
    first: int = 0
    shown: int = 0
    nodes: int = 0
    omits_instances: bool = False


def live_picture(
    doc: HeatmapDocument, screen: Screen, look: Look, selected: Spot | None
) -> Picture:
    """The picture that fits, scrolled so that the selected GPU is seen.

    A line per node where all fit or `as_table` asks for it, else a character per GPU. Legend and
    foot make room for cells on a small screen.
    """
    return _Drawing(doc, screen, look, selected).picture()


class _Drawing:
    def __init__(
        self, doc: HeatmapDocument, screen: Screen, look: Look, selected: Spot | None
    ) -> None:
        self.doc = doc
        self.screen = screen
        self.look = look
        self.selected = selected
        self.grid = Grid(doc, look.metric)
        self.width = screen.width or 80
        self.height = screen.height or 24
        self.is_small = self.height < SMALL
        self.has_mig = any(gpu.mig for gpu in doc.items)
        self.row, self.column = self._place()

    def picture(self) -> Picture:
        doc, screen = self.doc, self.screen
        head = head_lines(doc, screen, is_small=self.is_small, dim=self.look.is_dim)
        head += words_instead(doc, screen)
        if not doc.items:
            return Picture([*head, *foot_lines(doc, screen)][: self.height])
        layout = fitting_layout(self.grid, screen, wide=self.look.wide_cells, dim=self.look.is_dim)
        foot = self._foot(len(head), compact=False)
        room = self.height - len(head) - len(foot)
        fits = len(doc.nodes) + 1 <= room
        if layout is not None and (fits or self.look.by_mig or self.look.as_table):
            return self._table(layout, head, foot, room)
        foot = self._foot(len(head), compact=True)
        return self._compact(head, foot, self.height - len(head) - len(foot))

    def _place(self) -> tuple[int | None, int]:
        """The selected GPU's node, by its number, and its column."""
        for number, load in enumerate(self.doc.nodes):
            for column, gpu in enumerate(self.grid.row(load.node)):
                if gpu is not None and Spot.of(gpu) == self.selected:
                    return number, column
        return None, 0

    def _foot(self, taken: int, *, compact: bool) -> list[Piece]:
        """Counts and legend, as far as they leave half the screen to cells."""
        doc, screen, grid = self.doc, self.screen, self.grid
        counts = foot_lines(doc, screen, short=self.is_small)
        legend = legend_lines(
            doc, screen, grid.figure, grid.scale, compact=compact, short=self.is_small
        )
        spare = (self.height - taken) // 2
        for lines in ([*counts, *legend], counts, counts[:1]):
            if len(lines) <= spare:
                return lines
        return []

    # A line per node

    def _table(self, layout: Layout, head: list[Piece], foot: list[Piece], room: int) -> Picture:
        left = layout.width(self.grid.column_count)
        panel = self._panel_width(left)
        groups = self._groups(layout, left if panel else self.width, room)
        first, count = _window([len(group) for group in groups], room - 1, self.row)
        body = [header_line(self.grid, layout)]
        body += [line for group in groups[first : first + count] for line in group]
        body = [cut(line, self.width) for line in body[: max(1, room)]]
        free = room - len(body)
        drawn = Drawn(1, max(1, count - 1))
        if panel is None:
            lists = side_lines(self.doc, self.screen, self.width, free)
            lines = [*head, *body, *foot, *lists]
        else:
            beside = side_lines(self.doc, self.screen, panel, room)
            lines = [*head, *_side_by_side(body, beside, left + _GAP), *foot]
        omits = self.has_mig and all(len(group) == 1 for group in groups)
        return Picture(lines[: self.height], drawn, first, count, len(groups), omits)

    def _groups(self, layout: Layout, width: int, room: int) -> list[list[Piece]]:
        """The lines of each node; those of instances where all fit or were asked for."""
        screen = replace(self.screen, width=width)
        nodes = [
            [self._node_line(layout, number, load)] for number, load in enumerate(self.doc.nodes)
        ]
        if not self.has_mig:
            return nodes
        dim = self.look.is_dim
        groups = [
            [*lines, *mig_lines(self.grid, screen, load.node, dim=dim)]
            for lines, load in zip(nodes, self.doc.nodes, strict=True)
        ]
        fits = sum(map(len, groups)) + 1 <= room
        return groups if fits or self.look.by_mig else nodes

    def _node_line(self, layout: Layout, number: int, load: NodeLoad) -> Piece:
        line = node_line(self.grid, self.screen, layout, load)
        if number != self.row:
            return line
        cells = layout.main.cells
        at = layout.name + 1 + self.column * (cells + len(layout.gap))
        return Piece(highlighted(line.text, at, cells), line.cells)

    def _panel_width(self, left: int) -> int | None:
        """Cells for the lists beside the table; None when they go below it."""
        width = self.width - left - _GAP
        return width if self.width >= _BESIDE_FROM and width >= _NARROWEST_LIST else None

    # A character per GPU

    def _compact(self, head: list[Piece], foot: list[Piece], room: int) -> Picture:
        nodes = self.doc.nodes
        plan = compact_plan(self.grid, self.screen, room)
        lists = 0 if plan.lines(len(nodes)) <= room else room // 6
        rows = -(-len(nodes) // plan.per_line)
        at = None if self.row is None else self.row // plan.per_line
        first, count = _window([plan.lines_per_entry] * rows, room - lists, at)
        begin, end = first * plan.per_line, (first + count) * plan.per_line
        body = compact_lines(self.grid, self.screen, plan, nodes[begin:end], dim=self.look.is_dim)
        body = [
            cut(self._marked(plan, line, number), self.width)
            for number, line in enumerate(body, begin // plan.per_line * plan.lines_per_entry)
        ]
        free = max(0, room - len(body))
        lines = [*head, *body[:room], *foot]
        lines += side_lines(self.doc, self.screen, self.width, free)
        drawn = Drawn(plan.per_line, max(1, (count - 1) * plan.per_line))
        shown = min(end, len(nodes)) - begin
        return Picture(lines[: self.height], drawn, begin, shown, len(nodes), self.has_mig)

    def _marked(self, plan: CompactPlan, line: Piece, number: int) -> Piece:
        """The line, with the selected GPU's character turned inside out if it is here."""
        if self.row is None:
            return line
        mine = self.row // plan.per_line * plan.lines_per_entry + self.column // plan.dots
        if number != mine:
            return line
        at = plan.column(self.row) + plan.name + 1 + self.column % plan.dots
        return Piece(highlighted(line.text, at, 1), line.cells)


def _window(heights: Sequence[int], room: int, at: int | None) -> tuple[int, int]:
    """Which of the groups are shown: the first one and how many, group `at` near the middle."""
    if not heights:
        return 0, 0
    if sum(heights) <= room:
        return 0, len(heights)
    first = last = at or 0
    used = heights[first]
    # Grow to both sides in turn; a side that has ended leaves its lines to the other.
    while True:
        grown = False
        if last + 1 < len(heights) and used + heights[last + 1] <= room:
            last += 1
            used += heights[last]
            grown = True
        if first > 0 and used + heights[first - 1] <= room:
            first -= 1
            used += heights[first]
            grown = True
        if not grown:
            return first, last - first + 1


def _side_by_side(left: Sequence[Piece], right: Sequence[Piece], at: int) -> list[Piece]:
    """Two blocks, the right one from cell `at` on."""
    return [
        Piece(one.padded(at) + other.text, at + other.cells) if other.cells else one
        for one, other in zip_longest(left, right, fillvalue=NOTHING)
    ]

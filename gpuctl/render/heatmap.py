"""The heat map as a picture on a screen: which view fits, and its parts in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

from gpuctl.model.heatmap import HeatmapDocument, NodeLoad
from gpuctl.model.history import Metric
from gpuctl.render.cells import WidePainter
from gpuctl.render.heatmap_compact import CompactPlan, compact_lines, compact_plan, rest_lines
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
from gpuctl.render.screen import NOTHING, SMALL, Piece, Screen, finished, flow, plain

_BESIDE_FROM = 120  # a screen at least this wide has the lists beside the cells
_NARROWEST_LIST = 40
_BESIDE_GAP = 3
_LEAST_LIST = 2  # lines kept free below a table for what is hot and what is idle
_INSTANCES = "MIG lines: profile#id utilization/memory %"
_NO_INSTANCES = "MIG instances left out: see --by-mig"


def heatmap_lines(
    doc: HeatmapDocument,
    screen: Screen,
    *,
    metric: Metric = "util",
    by_mig: bool = False,
    wide_cells: bool = False,
    dim: bool = False,
) -> list[str]:
    """The lines of the view that fits `screen`, without line ends.

    A line per node where width and height allow, else a character per GPU, else the first nodes
    of the document and one sentence for the rest. `by_mig` keeps the lines of MIG instances even
    where that leaves nodes out; `wide_cells` adds memory and temperature to each cell. `dim` is
    for a picture that is not of now: greys, and the head says so.
    """
    grid = Grid(doc, metric)
    picture = _Picture(grid, screen, by_mig=by_mig, wide=wide_cells, dim=dim)
    return finished(picture.lines(), picture.screen)


class _Picture:
    """One drawing: the grid, the screen and the reader's wishes."""

    def __init__(self, grid: Grid, screen: Screen, *, by_mig: bool, wide: bool, dim: bool) -> None:
        self.grid = grid
        self.doc = grid.doc
        # Without a terminal there is no height to keep to either.
        self.screen = replace(screen, height=None) if screen.width is None else screen
        self.by_mig = by_mig
        self.wide = wide
        self.dim = dim
        self.is_small = self.screen.height is not None and self.screen.height < SMALL

    def lines(self) -> list[Piece]:
        if not self.doc.items:
            return [*self._head(), *foot_lines(self.doc, self.screen)]
        layout = fitting_layout(self.grid, self.screen, wide=self.wide, dim=self.dim)
        table = None if layout is None else self._table(layout)
        return self._compact() if table is None else table

    def _head(self) -> list[Piece]:
        head = head_lines(self.doc, self.screen, is_small=self.is_small, dim=self.dim)
        return [*head, *words_instead(self.doc, self.screen)]

    def _foot(self, *, compact: bool, notes: Sequence[str] = ()) -> list[Piece]:
        foot = foot_lines(self.doc, self.screen, short=self.is_small)
        foot += legend_lines(
            self.doc,
            self.screen,
            self.grid.figure,
            self.grid.scale,
            compact=compact,
            short=self.is_small,
        )
        for note in notes:
            foot += flow([plain(word) for word in note.split(" ")], self.screen.width, gap=" ")
        return foot

    # The table

    def _table(self, layout: Layout) -> list[Piece] | None:
        """The table with all nodes, or with the first ones where MIG lines are a must."""
        head = self._head()
        notes = self._notes(layout)
        foot = self._foot(compact=False, notes=notes)
        room = self._room([*head, *foot, NOTHING])
        left = layout.width(self.grid.column_count)
        panel = self._panel_width(left)
        lists = _LEAST_LIST if panel is None else 0
        nodes, rest = list(self.doc.nodes), list[NodeLoad]()
        if room is not None and len(nodes) + lists > room and not self.by_mig:
            return None
        has_mig = any(gpu.mig for gpu in self.doc.items)
        body, shown = self._body(layout, nodes, room, lists, left if panel else None)
        if shown < len(nodes):
            rest = nodes[shown:]
        elif room is not None and len(body) + lists > room:
            # Only instances can be spared: every node stays.
            body = [node_line(self.grid, self.screen, layout, load) for load in nodes]
            foot = self._foot(compact=False, notes=[*notes, _NO_INSTANCES])
        elif has_mig:
            foot = self._foot(compact=False, notes=[*notes, _INSTANCES])
        body = [header_line(self.grid, layout), *body, *rest_lines(self.grid, self.screen, rest)]
        free = self._room([*head, *foot, *body])
        if panel is None:
            return [
                *head,
                *body,
                *foot,
                *side_lines(self.doc, self.screen, self.screen.width, free),
            ]
        most = None if free is None else len(body) + free
        lists_beside = side_lines(self.doc, self.screen, panel, most)
        return [*head, *_side_by_side(body, lists_beside, left + _BESIDE_GAP), *foot]

    def _body(
        self,
        layout: Layout,
        nodes: Sequence[NodeLoad],
        room: int | None,
        lists: int,
        width: int | None,
    ) -> tuple[list[Piece], int]:
        """Lines of nodes and their instances; the number of nodes that fit when it is limited."""
        mig_screen = self.screen if width is None else replace(self.screen, width=width)
        body: list[Piece] = []
        limit = None if room is None or not self.by_mig else room - lists
        for number, load in enumerate(nodes):
            group = [
                node_line(self.grid, self.screen, layout, load),
                *mig_lines(self.grid, mig_screen, load.node, dim=self.dim),
            ]
            is_last = number == len(nodes) - 1
            if limit is not None and body and len(body) + len(group) > limit - (not is_last):
                return body, number
            body += group
        return body, len(nodes)

    def _notes(self, layout: Layout) -> list[str]:
        notes = []
        if self.wide and not isinstance(layout.main, WidePainter):
            notes.append("wide cells left out: the screen is too narrow")
        if isinstance(layout.main, WidePainter):
            notes.append("behind each figure: memory used/total in GiB, temperature")
        if layout.second is not None and self.grid.second.metric == "util":
            notes.append("GPU: utilization in %")
        if layout.second is None and not isinstance(layout.main, WidePainter):
            second = self.grid.second.metric
            notes.append(f"{second} per GPU left out: widen the screen or see --metric {second}")
        return notes

    def _panel_width(self, left: int) -> int | None:
        """Cells for the lists beside the table; None when they go below it."""
        if self.screen.width is None or self.screen.width < _BESIDE_FROM:
            return None
        width = self.screen.width - left - _BESIDE_GAP
        return width if width >= _NARROWEST_LIST else None

    # Compact cells

    def _compact(self) -> list[Piece]:
        head = self._head()
        foot = self._foot(compact=True)
        room = self._room([*head, *foot])
        plan = compact_plan(self.grid, self.screen, room)
        nodes, rest = list(self.doc.nodes), list[NodeLoad]()
        if room is not None and plan.lines(len(nodes)) > room:
            wanted = side_lines(self.doc, self.screen, self.screen.width, max(1, room // 6))
            nodes, rest = self._worst(plan, room, len(wanted))
        body = compact_lines(self.grid, self.screen, plan, nodes, dim=self.dim)
        body += rest_lines(self.grid, self.screen, rest)
        free = self._room([*head, *foot, *body])
        return [*head, *body, *foot, *side_lines(self.doc, self.screen, self.screen.width, free)]

    def _worst(
        self, plan: CompactPlan, room: int, lists: int
    ) -> tuple[list[NodeLoad], list[NodeLoad]]:
        """The nodes that are drawn and those that are summed up, both in the document's order."""
        everyone = self.doc.nodes
        sentence = len(rest_lines(self.grid, self.screen, everyone))
        count = max(0, plan.nodes(room - lists - sentence))
        # A node with all cards hot has no spread, so it may come late: it is drawn all the same.
        first = sorted(range(len(everyone)), key=lambda i: (everyone[i].hot == 0, i))[:count]
        drawn = set(first)
        return (
            [load for i, load in enumerate(everyone) if i in drawn],
            [load for i, load in enumerate(everyone) if i not in drawn],
        )

    def _room(self, lines: Sequence[Piece]) -> int | None:
        """Lines that are left beside `lines`; None for any number."""
        return None if self.screen.height is None else max(0, self.screen.height - len(lines))


def _side_by_side(left: Sequence[Piece], right: Sequence[Piece], width: int) -> list[Piece]:
    lines = []
    for one, other in zip_longest(left, right, fillvalue=NOTHING):
        lines.append(
            Piece(one.padded(width) + other.text, width + other.cells) if other.cells else one
        )
    return lines

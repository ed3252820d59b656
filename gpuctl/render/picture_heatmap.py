"""The heat map as an SVG picture."""

from __future__ import annotations

from collections.abc import Sequence

from gpuctl.model.gpu import GpuState
from gpuctl.model.heatmap import HeatmapDocument, HeatmapGpu, HeatmapInstance, NodeLoad
from gpuctl.model.history import Metric
from gpuctl.render.cells import LOST, STALE, UNKNOWN, Figure, Scale, is_trusted, marker
from gpuctl.render.heatmap_compact import rest_lines
from gpuctl.render.heatmap_frame import (
    age_words,
    cluster_words,
    source_words,
    summary_parts,
    time_words,
    verdict_words,
    words_instead,
)
from gpuctl.render.heatmap_lists import address, side_lines
from gpuctl.render.heatmap_table import Grid
from gpuctl.render.picture_svg import CELL, LINE, MARGIN, Canvas
from gpuctl.render.screen import Piece, Screen, flow, plain
from gpuctl.render.terminal import cell_width, shorten_middle

_BOX, _GAP, _BLOCK_GAP = 44, 2, 18
_LONGEST_NAME = 28
_TAIL = 120  # pixels of mean and spread
_NARROWEST = 720
_MOST_NODES = 200  # a taller picture can't be looked at; the HTML export has no such limit
_MOST_WORKLOADS = 5  # in a tooltip


def heatmap_svg(doc: HeatmapDocument, *, metric: Metric) -> str:
    """The picture of `doc` as a file of its own; beyond 200 nodes the rest is one sentence."""
    grid = Grid(doc, metric)
    drawing = _Drawing(grid)
    drawing.head()
    drawing.body(doc.nodes[:_MOST_NODES], doc.nodes[_MOST_NODES:])
    drawing.foot()
    return drawing.canvas.document(picture_label(doc, grid.figure))


def picture_label(doc: HeatmapDocument, figure: Figure) -> str:
    """What the picture is, and its main figures, in a sentence."""
    simulated = "simulated " if doc.simulated else ""
    return f"Heat map of {simulated}GPU {figure.title}: {' '.join(summary_parts(doc.summary))}"


def picture_facts(doc: HeatmapDocument) -> list[str]:
    """Cluster, source, age and time of the data."""
    return [
        cluster_words(doc.context, doc.cluster),
        source_words(doc.source, simulated=doc.simulated),
        age_words(doc.metrics_age_seconds),
        time_words(doc.taken_at),
    ]


def gpu_title(gpu: HeatmapGpu) -> str:
    """All about one GPU, for a tooltip."""
    facts = [address(gpu.node, gpu.gpu), gpu.model or "unknown model", f"state {gpu.state}"]
    for name, value, unit in (
        ("utilization", gpu.utilization_pct, " %"),
        ("memory", gpu.memory_pct, " %"),
        ("temperature", gpu.temperature_c, " C"),
        ("power", gpu.power_w, " W"),
    ):
        if value is not None:
            facts.append(f"{name} {value:.0f}{unit}")
    return ", ".join([*facts, *_workloads(gpu.workloads)])


def instance_title(gpu: HeatmapGpu, instance: HeatmapInstance) -> str:
    """All about one MIG instance, for a tooltip."""
    name = f"{address(gpu.node, gpu.gpu)} {instance.profile}#{instance.id}"
    return ", ".join([name, *_workloads(instance.workloads)])


def _workloads(names: Sequence[str]) -> list[str]:
    rest = len(names) - _MOST_WORKLOADS
    return [*names[:_MOST_WORKLOADS], *([f"and {rest} more"] if rest > 0 else [])]


def gpu_cell(gpu: HeatmapGpu, value: float | None, scale: Scale) -> tuple[str, float | None]:
    """Text and shade of a cell; no shade where the figure is not of now."""
    if gpu.state is GpuState.LOST:
        return LOST, None
    if value is None:
        return UNKNOWN, None
    if gpu.state is GpuState.STALE:
        return f"{value:.0f}{STALE}", None
    return f"{value:.0f}", scale.share(value)


def instance_cell(gpu: HeatmapGpu, instance: HeatmapInstance) -> tuple[str, float | None]:
    """`PROFILE#ID util/mem` and its shade."""
    value = instance.utilization_pct if is_trusted(gpu.state) else None
    mem = instance.memory_pct if is_trusted(gpu.state) else None
    mark = marker(instance.hot, instance.idle).strip()
    util_text = UNKNOWN if value is None else f"{value:.0f}{mark}"
    mem_text = UNKNOWN if mem is None else f"{mem:.0f}"
    text = f"{instance.profile}#{instance.id} {util_text}/{mem_text}"
    return text, None if value is None else value / 100


class _Drawing:
    """One picture in the making."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.doc = grid.doc
        longest = max((cell_width(node) for node in grid.gpus), default=8)
        self.name_width = (min(longest, _LONGEST_NAME) + 2) * CELL
        block = grid.column_count * (_BOX + _GAP)
        self.main_x = MARGIN + self.name_width
        self.second_x = self.main_x + block + _BLOCK_GAP
        self.tail_x = self.second_x + block
        self.canvas = Canvas(max(_NARROWEST, self.tail_x + _TAIL + MARGIN))
        self.screen = Screen(width=self.canvas.columns)

    def head(self) -> None:
        if self.doc.simulated:
            self.canvas.badge("SIMULATED")
        self.canvas.line(f"GPU heat map: {self.grid.figure.title}", bold=True, size=17)
        self._flow(picture_facts(self.doc), faint=True)
        self._flow(summary_parts(self.doc.summary), gap=" ", bold=True)
        self._lines(words_instead(self.doc, self.screen))
        self.canvas.y += 8

    def body(self, nodes: Sequence[NodeLoad], rest: Sequence[NodeLoad]) -> None:
        if not self.doc.items:
            return
        self._header()
        for load in nodes:
            self._node(load)
        self._lines(rest_lines(self.grid, self.screen, rest))
        self.canvas.y += 10

    def _header(self) -> None:
        grid, canvas = self.grid, self.canvas
        for x, figure in ((self.main_x, grid.figure), (self.second_x, grid.second)):
            canvas.text(x, f"{figure.title}, {figure.unit}", bold=True)
        canvas.y += LINE
        labels = [str(i) for i in grid.indices or range(grid.column_count)]
        canvas.text(MARGIN, "node")
        for x in (self.main_x, self.second_x):
            for number, label in enumerate(labels):
                canvas.text(x + number * (_BOX + _GAP) + _BOX / 2, label, anchor="middle")
        canvas.text(self.tail_x + 46, "mean", anchor="end")
        canvas.text(self.tail_x + 110, "spread", anchor="end")
        canvas.y += LINE + 2

    def _node(self, load: NodeLoad) -> None:
        grid, canvas = self.grid, self.canvas
        canvas.text(MARGIN, shorten_middle(self.screen.name(load.node), _LONGEST_NAME))
        for number, gpu in enumerate(grid.row(load.node)):
            if gpu is None:
                continue
            x = self.main_x + number * (_BOX + _GAP)
            text, share = gpu_cell(gpu, grid.figure.of_gpu(gpu), grid.scale)
            text += marker(gpu.hot, gpu.idle).strip()
            canvas.cell(x, _BOX, text, share, hot=bool(gpu.hot), title=gpu_title(gpu))
            x = self.second_x + number * (_BOX + _GAP)
            canvas.cell(x, _BOX, *gpu_cell(gpu, grid.second.of_gpu(gpu), Scale(0, 100)))
        for x, value in zip((46, 110), grid.figures_of(load), strict=True):
            figure = UNKNOWN if value is None else f"{value:.0f}"
            canvas.text(self.tail_x + x, figure, anchor="end")
        canvas.y += LINE + 2
        for gpu in grid.gpus[load.node]:
            if gpu.mig:
                self._instances(gpu)

    def _instances(self, gpu: HeatmapGpu) -> None:
        canvas = self.canvas
        label = f"GPU {'?' if gpu.gpu is None else gpu.gpu} MIG"
        canvas.text(MARGIN + 2 * CELL, label)
        x = start = max(self.main_x, MARGIN + (len(label) + 4) * CELL)
        for instance in gpu.mig:
            text, share = instance_cell(gpu, instance)
            width = (cell_width(self.screen.name(text)) + 2) * CELL
            if x > start and x + width > canvas.width - MARGIN:
                x, canvas.y = start, canvas.y + LINE + 2
            title = instance_title(gpu, instance)
            canvas.cell(x, width, text, share, hot=bool(instance.hot), title=title)
            x += width + 4
        canvas.y += LINE + 2

    def foot(self) -> None:
        doc, canvas = self.doc, self.canvas
        self._legend()
        canvas.y += 8
        if doc.items:
            self._lines(side_lines(doc, self.screen, self.screen.width, None))
        for warning in doc.warnings:
            self._flow(f"warning: {warning}".split(" "), gap=" ")

    def _legend(self) -> None:
        canvas, grid = self.canvas, self.grid
        low, high = f"{grid.scale.low:g}", f"{grid.scale.high:g} {grid.figure.unit}"
        canvas.text(MARGIN, low)
        x = MARGIN + (len(low) + 1) * CELL
        canvas.ramp(x, 10, 18)
        canvas.text(x + 188, high)
        canvas.y += LINE + 4
        hot, idle = verdict_words(self.doc)
        marks = [f"! {hot}", f"z {idle}", "~ stale", f"{UNKNOWN} unknown", f"{LOST} silent now"]
        if any(gpu.mig for gpu in self.doc.items):
            marks.append("MIG: profile#id utilization/memory %")
        self._flow(marks, faint=True)

    def _flow(
        self, parts: Sequence[str], *, gap: str = "  ", bold: bool = False, faint: bool = False
    ) -> None:
        pieces = [plain(self.screen.name(part)) for part in parts]
        for piece in flow(pieces, self.screen.width, gap=gap):
            self.canvas.line(piece.text, bold=bold, faint=faint)

    def _lines(self, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            self.canvas.line(piece.text)

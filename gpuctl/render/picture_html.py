"""The heat map and its history as an HTML page: one file, no scripts, light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuctl.model.gpu import GpuState
from gpuctl.model.heatmap import HeatmapDocument, HeatmapGpu, NodeLoad
from gpuctl.model.history import Metric
from gpuctl.render.cells import LOST, UNKNOWN, Scale, marker
from gpuctl.render.heatmap_frame import summary_parts, verdict_words, words_instead
from gpuctl.render.heatmap_lists import grouped, hot_spots
from gpuctl.render.heatmap_table import Grid
from gpuctl.render.palette import ink_rgb, shade_rgb
from gpuctl.render.picture_heatmap import (
    gpu_cell,
    gpu_title,
    instance_cell,
    instance_title,
    picture_facts,
)
from gpuctl.render.picture_svg import hex_color
from gpuctl.render.picture_text import attribute, markup_text
from gpuctl.render.screen import Screen

_STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1a2230; --faint: #5a6678;
  --edge: #c4cad4; --alarm: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #12161d; --ink: #e6eaf0; --faint: #9aa6b8; --edge: #3a4454; --alarm: #ff6b5e; }
}
body { margin: 1.5rem; background: var(--paper); color: var(--ink);
  font: 14px/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
h1 { font-size: 1.3rem; margin: 0 0 .3rem; } h2 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
p { margin: .2rem 0; } .faint { color: var(--faint); } .sum { font-weight: 700; }
.sim { background: var(--alarm); color: var(--paper); padding: 0 .5em; border-radius: 3px; }
.scroll { overflow-x: auto; } table { border-collapse: separate; border-spacing: 2px; }
th { font-weight: 400; text-align: left; } thead th { text-align: center; color: var(--faint); }
thead th:first-child { text-align: left; }
tbody th { white-space: nowrap; padding-right: 1em; }
td { text-align: right; padding: 0 .5em; white-space: nowrap; min-width: 2.2em;
  -webkit-print-color-adjust: exact; print-color-adjust: exact; }
td.none { border: 1px dashed var(--edge); color: var(--faint); }
td.hot, span.hot { outline: 2px solid var(--alarm); font-weight: 700; }
td.gap { padding: 0 .4em; min-width: 0; } td.text { text-align: left; white-space: normal; }
td.mig { text-align: left; white-space: normal; }
td.mig span { padding: 0 .5em; margin-right: 4px; }
td.step { padding: 0 .1em; min-width: .8em; text-align: center; font-size: .8em; }
.ramp span { padding: 0 .6em; }
"""


class Shades:
    """Classes of the shades that a page uses; the style sheet holds no others."""

    def __init__(self) -> None:
        self._used: set[int] = set()

    def name(self, share: float) -> str:
        """The class of `share` (0..1 of the scale)."""
        percent = min(100, max(0, round(share * 100)))
        self._used.add(percent)
        return f"s{percent}"

    def rules(self) -> str:
        """The rules of all classes that were asked for."""
        rules = []
        for percent in sorted(self._used):
            paper = shade_rgb(percent / 100, light_background=True)
            colors = f"background:{hex_color(paper)};color:{hex_color(ink_rgb(paper))}"
            rules.append(f".s{percent}{{{colors}}}")
        return "\n".join(rules)


def page(title: str, body: Iterable[str], shades: Shades) -> str:
    """A whole page around `body`, whose parts are markup already."""
    # The body first: only then are all shades known.
    text = "\n".join(body)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>\n'
        f"<title>{markup_text(title)}</title>\n<style>{_STYLE}{shades.rules()}\n</style>\n</head>\n"
        f"<body>\n{text}\n</body>\n</html>\n"
    )


def headline(title: str, facts: Sequence[str], *, simulated: bool) -> list[str]:
    """Title, the mark of a simulation, and where the figures come from."""
    mark = ' <span class="sim">SIMULATED</span>' if simulated else ""
    return [
        f"<h1>{markup_text(title)}{mark}</h1>",
        f'<p class="faint">{markup_text(" · ".join(facts))}</p>',
    ]


def ramp(scale: Scale, unit: str, shades: Shades) -> str:
    """The shades from low to high, each with the figure in its middle."""
    steps = []
    for step in range(10):
        share = (step + 0.5) / 10
        figure = scale.low + share * (scale.high - scale.low)
        steps.append(f'<span class="{shades.name(share)}">{figure:.0f}</span>')
    return f'<p class="ramp">{markup_text(unit)} {"".join(steps)}</p>'


def heatmap_html(doc: HeatmapDocument, *, metric: Metric) -> str:
    """The page of `doc`, complete whatever its size."""
    grid, shades = Grid(doc, metric), Shades()
    title = f"GPU heat map: {grid.figure.title}"
    body = headline(title, picture_facts(doc), simulated=doc.simulated)
    body.append(f'<p class="sum">{markup_text(" ".join(summary_parts(doc.summary)))}</p>')
    body += [
        f"<p>{markup_text(piece.text)}</p>" for piece in words_instead(doc, Screen(width=None))
    ]
    if doc.items:
        body += _table(grid, shades)
    body += [ramp(grid.scale, f"{grid.figure.title}, {grid.figure.unit}", shades), _marks(doc)]
    if doc.items:
        body += [*_hot(doc), *_others(doc)]
    body += [f'<p class="faint">warning: {markup_text(text)}</p>' for text in doc.warnings]
    return page(title, body, shades)


def _marks(doc: HeatmapDocument) -> str:
    hot, idle = verdict_words(doc)
    marks = [f"! {hot}", f"z {idle}", "~ stale", f"{UNKNOWN} unknown", f"{LOST} silent now"]
    if any(gpu.mig for gpu in doc.items):
        marks.append("MIG: profile#id utilization/memory %")
    return f'<p class="faint">{markup_text(" · ".join(marks))}</p>'


def _table(grid: Grid, shades: Shades) -> list[str]:
    count = grid.column_count
    labels = [str(i) for i in grid.indices or range(count)]
    heads = "".join(f"<th>{label}</th>" for label in labels)
    return [
        '<div class="scroll"><table>',
        "<thead>",
        f'<tr><th></th><th colspan="{count}">{_heading(grid.figure.title, grid.figure.unit)}</th>'
        f'<th></th><th colspan="{count}">{_heading(grid.second.title, grid.second.unit)}</th>'
        "<th></th><th></th></tr>",
        f"<tr><th>node</th>{heads}<th></th>{heads}<th>mean</th><th>spread</th></tr>",
        "</thead>",
        "<tbody>",
        *(row for load in grid.doc.nodes for row in _node(grid, load, shades)),
        "</tbody></table></div>",
    ]


def _heading(title: str, unit: str) -> str:
    return markup_text(f"{title}, {unit}")


def _node(grid: Grid, load: NodeLoad, shades: Shades) -> list[str]:
    row = grid.row(load.node)
    main = "".join(_gpu(grid, gpu, shades) for gpu in row)
    second = "".join(_second(grid, gpu, shades) for gpu in row)
    mean, spread = (UNKNOWN if value is None else f"{value:.0f}" for value in grid.figures_of(load))
    name = markup_text(load.node)
    lines = [
        f'<tr><th scope="row">{name}</th>{main}<td class="gap"></td>{second}'
        f"<td>{mean}</td><td>{spread}</td></tr>"
    ]
    lines += [_instances(grid, gpu, shades) for gpu in grid.gpus[load.node] if gpu.mig]
    return lines


def _gpu(grid: Grid, gpu: HeatmapGpu | None, shades: Shades) -> str:
    if gpu is None:
        return "<td></td>"
    text, share = gpu_cell(gpu, grid.figure.of_gpu(gpu), grid.scale)
    text += marker(gpu.hot, gpu.idle).strip()
    names = ("none" if share is None else shades.name(share)) + (" hot" if gpu.hot else "")
    return f'<td class="{names}" title="{attribute(gpu_title(gpu))}">{text}</td>'


def _second(grid: Grid, gpu: HeatmapGpu | None, shades: Shades) -> str:
    if gpu is None:
        return "<td></td>"
    text, share = gpu_cell(gpu, grid.second.of_gpu(gpu), Scale(0, 100))
    return f'<td class="{"none" if share is None else shades.name(share)}">{text}</td>'


def _instances(grid: Grid, gpu: HeatmapGpu, shades: Shades) -> str:
    spans = []
    for instance in gpu.mig:
        text, share = instance_cell(gpu, instance)
        names = ("" if share is None else shades.name(share)) + (" hot" if instance.hot else "")
        title = attribute(instance_title(gpu, instance))
        spans.append(f'<span class="{names.strip()}" title="{title}">{markup_text(text)}</span>')
    label = f"GPU {'?' if gpu.gpu is None else gpu.gpu} MIG"
    return (
        f'<tr><th scope="row" class="faint">&#160;&#160;{label}</th>'
        f'<td class="mig" colspan="{2 * grid.column_count + 3}">{" ".join(spans)}</td></tr>'
    )


def _hot(doc: HeatmapDocument) -> list[str]:
    spots = hot_spots(doc)
    if not spots:
        return ["<h2>hot</h2>", "<p>none</p>"]
    rows = []
    for spot in spots:
        load = UNKNOWN if spot.utilization_pct is None else f"{spot.utilization_pct:.0f} %"
        who = ", ".join(spot.workloads) or "no workload known"
        rows.append(
            f'<tr><th scope="row">{markup_text(spot.address)}</th><td>{load}</td>'
            f"<td>{markup_text(spot.since or UNKNOWN)}</td>"
            f'<td class="text">{markup_text(who)}</td></tr>'
        )
    head = "<thead><tr><th>GPU</th><th>load</th><th>for</th><th>workloads</th></tr></thead>"
    return ["<h2>hot</h2>", f"<table>{head}<tbody>", *rows, "</tbody></table>"]


def _others(doc: HeatmapDocument) -> list[str]:
    lists = []
    for title, gpus in (
        ("lost", [gpu for gpu in doc.items if gpu.state is GpuState.LOST]),
        ("idle", [gpu for gpu in doc.items if gpu.idle]),
    ):
        if gpus:
            groups = grouped(gpus, Screen(width=None))
            text = markup_text("; ".join(text for text, _ in groups))
            lists += [f"<h2>{title}</h2>", f"<p>{text}</p>"]
    return lists

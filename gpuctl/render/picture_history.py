"""GPU by time as SVG and HTML."""

from __future__ import annotations

from collections.abc import Sequence

from gpuctl.model.durations import format_duration
from gpuctl.model.history import HistoryDocument
from gpuctl.render.cells import Figure, Scale, figure_of, scale_of
from gpuctl.render.heatmap_frame import cluster_words, source_words, time_words
from gpuctl.render.history import Track, figure_text, ticks, tracks
from gpuctl.render.picture_html import Shades, headline, page, ramp
from gpuctl.render.picture_svg import CELL, LINE, MARGIN, Canvas
from gpuctl.render.picture_text import markup_text
from gpuctl.render.screen import Screen, flow, plain
from gpuctl.render.terminal import cell_width, shorten_middle

_MOST_ROWS = 200
_MOST_COLUMNS = 144
_LONGEST_NAME = 32
_TIME_WIDTH = 864  # pixels of the time axis
_STATS = (46, 92, 138)  # right edges of min, max and now
_TITLE = "GPU heat map over time"
_EMPTY = "No GPU had any value in this time."


def _scale(doc: HistoryDocument, figure: Figure) -> Scale:
    return scale_of(figure, (value for series in doc.items for value in series.values))


def _facts(doc: HistoryDocument) -> list[str]:
    span = f"{time_words(doc.times[0])} to {time_words(doc.times[-1])}" if doc.times else "no time"
    return [
        cluster_words(doc.context, doc.cluster),
        source_words(doc.source, simulated=doc.simulated),
        span,
    ]


def _column_words(doc: HistoryDocument, merged: int) -> str:
    words = f"a column is {format_duration(doc.step_seconds * merged)}"
    return words if merged == 1 else f"{words}, the highest of {merged} steps"


def history_svg(doc: HistoryDocument) -> str:
    """The picture of `doc`: a band per GPU with its lowest, highest and newest figure."""
    figure = figure_of(doc.metric)
    scale = _scale(doc, figure)
    rows, merged = tracks(doc, _MOST_COLUMNS)
    names = [cell_width(row.name) for row in rows[:_MOST_ROWS]]
    start = MARGIN + (min(max(names, default=8), _LONGEST_NAME) + 2) * CELL
    canvas = Canvas(start + _TIME_WIDTH + _STATS[-1] + 2 * MARGIN)
    if doc.simulated:
        canvas.badge("SIMULATED")
    canvas.line(f"{_TITLE}: {figure.title} in {figure.unit}", bold=True, size=17)
    _flow(canvas, _facts(doc))
    canvas.y += 8
    if not rows or not doc.times:
        _flow(canvas, [_EMPTY])
    else:
        _bands(canvas, doc, rows, merged, scale, start)
    canvas.text(MARGIN, f"{scale.low:g}")
    canvas.ramp(MARGIN + 4 * CELL, 10, 18)
    canvas.text(MARGIN + 4 * CELL + 188, f"{scale.high:g} {figure.unit}")
    canvas.y += LINE + 4
    _flow(canvas, ["empty frame: no value", _column_words(doc, merged)])
    for warning in doc.warnings:
        _flow(canvas, f"warning: {warning}".split(" "), gap=" ")
    simulated = "simulated " if doc.simulated else ""
    return canvas.document(f"{simulated}GPU {figure.title} over time, {len(rows)} rows")


def _flow(canvas: Canvas, parts: Sequence[str], *, gap: str = "  ") -> None:
    screen = Screen(width=canvas.columns)
    for piece in flow([plain(screen.name(part)) for part in parts], screen.width, gap=gap):
        canvas.line(piece.text, faint=True)


def _bands(
    canvas: Canvas,
    doc: HistoryDocument,
    rows: Sequence[Track],
    merged: int,
    scale: Scale,
    start: float,
) -> None:
    screen = Screen(width=canvas.columns)
    step = _TIME_WIDTH / len(rows[0].values)
    edge = start + _TIME_WIDTH
    for x, label in zip(_STATS, ("min", "max", "now"), strict=True):
        canvas.text(edge + x, label, anchor="end")
    canvas.y += LINE + 2
    for row in rows[:_MOST_ROWS]:
        canvas.text(MARGIN, shorten_middle(screen.name(row.name), _LONGEST_NAME))
        for first, last, value in _runs(row.values):
            share = None if value is None else scale.share(value)
            canvas.cell(
                start + first * step, (last - first + 1) * step, "", share, title=_tip(value, doc)
            )
        for x, value in zip(_STATS, (row.lowest, row.highest, row.latest), strict=True):
            canvas.text(edge + x, figure_text(value), anchor="end")
        canvas.y += LINE + 2
    rest = len(rows) - _MOST_ROWS
    for column, label in ticks(doc.times, merged, apart=max(1, int(90 / step))):
        if start + column * step + len(label) * CELL <= edge + _STATS[-1]:
            canvas.text(start + column * step, label)
    canvas.y += LINE + 6
    if rest > 0:
        _flow(canvas, [f"and {rest:,} more rows, none hotter than those above"])


def _tip(value: float | None, doc: HistoryDocument) -> str:
    return "no value" if value is None else f"{value:.0f} {doc.unit}"


def _runs(values: Sequence[float | None]) -> list[tuple[int, int, float | None]]:
    """First and last column of equal neighbours, with their value to the point."""
    runs: list[tuple[int, int, float | None]] = []
    for column, value in enumerate(values):
        shown = None if value is None else float(round(value))
        if runs and runs[-1][2] == shown:
            runs[-1] = (runs[-1][0], column, shown)
        else:
            runs.append((column, column, shown))
    return runs


def history_html(doc: HistoryDocument) -> str:
    """The page of `doc`: a table with a figure in each cell."""
    figure, shades = figure_of(doc.metric), Shades()
    scale = _scale(doc, figure)
    rows, merged = tracks(doc, _MOST_COLUMNS)
    title = f"{_TITLE}: {figure.title} in {figure.unit}"
    body = headline(title, _facts(doc), simulated=doc.simulated)
    if not rows or not doc.times:
        body.append(f"<p>{_EMPTY}</p>")
    else:
        body += _table(doc, rows, merged, scale, shades)
    body.append(ramp(scale, f"{figure.title}, {figure.unit}", shades))
    legend = f"dashed frame: no value · {_column_words(doc, merged)}"
    body.append(f'<p class="faint">{markup_text(legend)}</p>')
    body += [f'<p class="faint">warning: {markup_text(text)}</p>' for text in doc.warnings]
    return page(title, body, shades)


def _table(
    doc: HistoryDocument, rows: Sequence[Track], merged: int, scale: Scale, shades: Shades
) -> list[str]:
    labels = dict(ticks(doc.times, merged))
    columns = len(rows[0].values)
    heads = []
    for column in range(columns):
        if column in labels:
            span = min([c for c in labels if c > column], default=columns) - column
            heads.append(f'<th colspan="{span}" style="text-align:left">{labels[column]}</th>')
    stats = "<th>min</th><th>max</th><th>now</th>"
    body = [_row(row, scale, shades) for row in rows]
    return [
        '<div class="scroll"><table style="border-spacing:1px">',
        f"<thead><tr><th>GPU</th>{''.join(heads)}{stats}</tr></thead><tbody>",
        *body,
        "</tbody></table></div>",
    ]


def _row(row: Track, scale: Scale, shades: Shades) -> str:
    cells = []
    for value in row.values:
        if value is None:
            cells.append('<td class="step none"></td>')
        else:
            name = shades.name(scale.share(round(value)))
            cells.append(f'<td class="step {name}">{value:.0f}</td>')
    stats = "".join(
        f"<td>{figure_text(value)}</td>" for value in (row.lowest, row.highest, row.latest)
    )
    return f'<tr><th scope="row">{markup_text(row.name)}</th>{"".join(cells)}{stats}</tr>'

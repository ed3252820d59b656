"""GPU by time: a row per GPU or MIG instance, a character per step, the shades of the heat map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from gpuctl.model.durations import format_duration
from gpuctl.model.history import HistoryDocument, HistorySeries
from gpuctl.render.cells import UNKNOWN, DotPainter, figure_of, scale_of
from gpuctl.render.heatmap_frame import (
    cluster_words,
    frame_head,
    shade_legend,
    small_head,
    source_words,
    time_words,
)
from gpuctl.render.screen import SMALL, Piece, Screen, finished, flow, plain
from gpuctl.render.tables import Cell
from gpuctl.render.terminal import cell_width, pad

MISSING_STEP = "·"
MISSING_STEP_ASCII = "_"  # a full stop is the lowest shade there
_STATS = 15  # " min  max  now "
_SHORTEST_NAME = 8
_TICK_CELLS = 12  # at least this far apart are two labels of the time axis

HISTORY_HEADERS = ("node", "gpu", "mig_id", "mig_profile", "uuid", "time", "value")


@dataclass(frozen=True, slots=True)
class Track:
    """One row: its name, a value per column, and lowest, highest and newest of all steps."""

    name: str
    values: tuple[float | None, ...]
    lowest: float | None
    highest: float | None
    latest: float | None


def tracks(doc: HistoryDocument, columns: int | None) -> tuple[list[Track], int]:
    """Rows by falling highest value, and how many steps went into a column.

    More steps than `columns` are merged into their highest value: a short peak must not vanish.
    """
    steps = len(doc.times)
    merged = 1 if columns is None or steps <= columns else -(-steps // max(1, columns))
    rows = [_track(series, merged) for series in doc.items]
    rows.sort(key=lambda row: -1.0 if row.highest is None else row.highest, reverse=True)
    return rows, merged


def _track(series: HistorySeries, merged: int) -> Track:
    values = series.values
    if merged > 1:
        values = tuple(
            _highest(values[start : start + merged]) for start in range(0, len(values), merged)
        )
    known = [value for value in series.values if value is not None]
    return Track(
        name=track_name(series),
        values=values,
        lowest=min(known, default=None),
        highest=max(known, default=None),
        latest=series.values[-1] if series.values else None,
    )


def _highest(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def track_name(series: HistorySeries) -> str:
    """`NODE/GPU`, with profile and id where it is a MIG instance."""
    card = f"{series.node}/{'?' if series.gpu is None else series.gpu}"
    return card if series.mig_id is None else f"{card} {series.profile or 'MIG'}#{series.mig_id}"


def history_lines(doc: HistoryDocument, screen: Screen) -> list[str]:
    """The lines of the view that fits `screen`, without line ends; the hottest rows come first."""
    # Without a terminal there is no height to keep to either.
    height = None if screen.width is None else screen.height
    return finished(_drawn(doc, screen, height), replace(screen, height=height))


def _drawn(doc: HistoryDocument, screen: Screen, height: int | None) -> list[Piece]:
    is_small = height is not None and height < SMALL
    head = history_head(doc, screen, is_small=is_small)
    if not doc.items or not doc.times:
        return [*head, *_sentence("No GPU had any value in this time.", screen)]
    figure = figure_of(doc.metric)
    scale = scale_of(figure, (value for series in doc.items for value in series.values))
    names = [cell_width(screen.name(track_name(series))) for series in doc.items]
    name_cells = max(names)
    columns = None
    if screen.width is not None:
        # Half the screen at most for the names: the time is what this view is about.
        name_cells = min(name_cells, max(_SHORTEST_NAME, (screen.width - _STATS) // 2))
        columns = max(1, screen.width - name_cells - 1 - _STATS)
    rows, merged = tracks(doc, columns)
    missing = MISSING_STEP if screen.utf8 else MISSING_STEP_ASCII
    legend = [
        shade_legend(screen, figure, scale, dots=True),
        plain(f"{missing} no value"),
    ]
    if not is_small:
        legend.append(plain(f"a column is {format_duration(doc.step_seconds * merged)}"))
    if merged > 1 and not is_small:
        legend.append(plain(f"the highest of {merged} steps"))
    foot = [*_axis(doc, name_cells, merged), *flow(legend, screen.width)]
    shown = rows
    if height is not None and len(rows) > (room := max(1, height - len(head) - len(foot) - 1)):
        shown = rows[: max(1, room - 1)]
        foot = [*_rest(rows[len(shown) :], figure.unit, screen), *foot]
    painter = DotPainter(screen, scale)
    title = plain(f"{pad('GPU', name_cells)} {' ' * len(rows[0].values)}  min  max  now")
    body = [_row(row, name_cells, painter, missing, screen) for row in shown]
    return [*head, title, *body, *foot]


def _sentence(text: str, screen: Screen) -> list[Piece]:
    return flow([plain(word) for word in text.split()], screen.width, gap=" ")


def history_head(doc: HistoryDocument, screen: Screen, *, is_small: bool = False) -> list[Piece]:
    """Context, source, what is shown, and from when to when; on a small screen without times."""
    figure = figure_of(doc.metric)
    if is_small:
        cluster = cluster_words(doc.context, doc.cluster)
        source = source_words(doc.source, simulated=doc.simulated)
        shown = f"{doc.metric} {figure.unit}"
        return [small_head(cluster, source, shown, screen, dim=False)]
    span = f"{time_words(doc.times[0])} to {time_words(doc.times[-1])}" if doc.times else "no time"
    facts = [
        f"{figure.title} in {figure.unit}",
        *(span.split(" ") if _is_narrow(screen) else [span]),
    ]
    return frame_head(
        cluster_words(doc.context, doc.cluster),
        source_words(doc.source, simulated=doc.simulated),
        facts,
        screen,
    )


def _is_narrow(screen: Screen) -> bool:
    return screen.width is not None and screen.width < 60


def _row(row: Track, name_cells: int, painter: DotPainter, missing: str, screen: Screen) -> Piece:
    name = pad(screen.shortened(screen.name(row.name), name_cells), name_cells)
    dots = "".join([painter.value(value, missing=missing) for value in row.values])
    stats = "".join(f" {figure_text(value):>4}" for value in (row.lowest, row.highest, row.latest))
    return Piece(f"{name} {dots}{stats}", cell_width(name) + 1 + len(row.values) + len(stats))


def figure_text(value: float | None) -> str:
    """A figure without its unit, `--` for unknown."""
    return UNKNOWN if value is None else f"{value:.0f}"


def _rest(rows: Sequence[Track], unit: str, screen: Screen) -> list[Piece]:
    highest = max((row.highest for row in rows if row.highest is not None), default=None)
    return _sentence(f"and {len(rows):,} more, highest {figure_text(highest)} {unit}", screen)


def _axis(doc: HistoryDocument, name_cells: int, merged: int) -> list[Piece]:
    """Times below their columns."""
    line = " " * (name_cells + 1)
    columns = -(-len(doc.times) // merged)
    for column, label in ticks(doc.times, merged):
        at = name_cells + 1 + column
        fits = column == 0 or column + len(label) <= columns + _STATS
        if fits and at >= len(line.rstrip()) + (1 if line.strip() else 0):
            line = line.ljust(at)[:at] + label
    return [plain(line)]


def ticks(
    times: Sequence[datetime], merged: int, *, apart: int = _TICK_CELLS
) -> list[tuple[int, str]]:
    """Columns with a label, and its text: hours and minutes, with the day over longer spans."""
    if not times:
        return []
    days = (times[-1] - times[0]).total_seconds() >= 86_400
    form = "%m-%d %H:%M" if days else "%H:%M"
    columns = -(-len(times) // merged)
    return [
        (column, times[column * merged].strftime(form))
        for column in range(0, columns, max(1, apart + (2 if days else 0)))
    ]


def history_rows(
    doc: HistoryDocument,
) -> tuple[tuple[str, ...], list[tuple[Cell, ...]]]:
    """Headers and a row for each step of each GPU or instance: complete, None for unknown."""
    stamps = [time_words(at) for at in doc.times]
    rows: list[tuple[Cell, ...]] = [
        (series.node, series.gpu, series.mig_id, series.profile, series.uuid, stamp, value)
        for series in doc.items
        for stamp, value in zip(stamps, series.values, strict=True)
    ]
    return HISTORY_HEADERS, rows


def history_names(doc: HistoryDocument) -> list[str]:
    """`gpu/NODE/INDEX` of each GPU, once; its UUID where it has no index."""
    return list(
        dict.fromkeys(
            f"gpu/{series.node}/{series.uuid if series.gpu is None else series.gpu}"
            for series in doc.items
        )
    )

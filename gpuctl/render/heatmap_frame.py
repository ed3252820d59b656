"""What surrounds the cells of every heat map view: head line, foot and legend."""

from __future__ import annotations

from datetime import datetime

from gpuctl.model.durations import format_duration
from gpuctl.model.heatmap import HeatmapDocument, HeatmapSummary
from gpuctl.model.snapshot import Source
from gpuctl.render.cells import (
    HOT,
    IDLE,
    LOST,
    LOST_DOT,
    STALE,
    UNKNOWN,
    UNKNOWN_DOT,
    Figure,
    Scale,
    painted,
)
from gpuctl.render.palette import glyph_scale
from gpuctl.render.screen import Piece, Screen, flow, joined, plain, strong
from gpuctl.render.terminal import cell_width

_SIMULATED = "SIMULATED"
_OLD = "LAST PICTURE"
_NO_GPUS = "No GPUs: nothing to show."
_ALL_UNKNOWN = (
    "No GPU has a fresh, known utilization: how loaded this cluster is can't be said from these "
    "metrics."
)


def source_words(source: Source, *, simulated: bool) -> str:
    """Where the figures come from, in a word or two; a simulated source says so loudly."""
    if simulated or source.simulated:
        return f"{_SIMULATED} {source.location}"
    if source.kind == "prometheus":
        return source.location.partition("://")[2].partition("/")[0] or source.location
    if source.kind == "file":
        return f"snapshot {source.location}"
    return source.location


def cluster_words(context: str | None, cluster: str | None) -> str:
    """The context, and the cluster where it is called otherwise."""
    if context and cluster and context != cluster:
        return f"{context} ({cluster})"
    return context or cluster or "no context"


def time_words(at: datetime) -> str:
    """RFC 3339 with its offset, whole seconds."""
    return at.isoformat(timespec="seconds")


def age_words(seconds: float | None) -> str:
    """How old the newest sample is."""
    return "age unknown" if seconds is None else f"{short_duration(seconds)} old"


def short_duration(seconds: float) -> str:
    """A duration to the second, from a minute on to the minute: `7s`, `47m`, `3h5m`."""
    return format_duration(float(int(seconds) if seconds < 60 else int(seconds) // 60 * 60))


def head_lines(
    doc: HeatmapDocument, screen: Screen, *, is_small: bool = False, dim: bool = False
) -> list[Piece]:
    """Context, source, age and time; over several lines where they don't fit into one.

    On a small screen it is one line, without the time.
    """
    cluster = cluster_words(doc.context, doc.cluster)
    source = source_words(doc.source, simulated=doc.simulated)
    age, at = age_words(doc.metrics_age_seconds), time_words(doc.taken_at)
    if is_small and screen.width is not None:
        return [small_head(cluster, source, age, screen, dim=dim)]
    return frame_head(cluster, source, [age, at], screen, dim=dim)


def frame_head(
    cluster: str, source: str, facts: list[str], screen: Screen, *, dim: bool = False
) -> list[Piece]:
    """A head line from its parts; `facts` are never shortened."""
    room = max(12, screen.width or 0)
    title = _title(
        screen.shortened(screen.name(cluster), room),
        screen.shortened(screen.name(source), room),
        screen,
    )
    old = [strong(_OLD, screen)] if dim else []
    return flow([*title, *map(plain, facts), *old], screen.width)


def small_head(cluster: str, source: str, age: str, screen: Screen, *, dim: bool) -> Piece:
    """A head that takes one line: names give way."""
    tail = [plain(age), *([strong(_OLD, screen)] if dim else [])]
    room = max(10, (screen.width or 0) - sum(piece.cells + 2 for piece in tail) - 2)
    shown_cluster = screen.shortened(screen.name(cluster), max(4, room // 3))
    shown_source = screen.shortened(screen.name(source), room - cell_width(shown_cluster))
    if source.startswith(_SIMULATED) and not shown_source.startswith(_SIMULATED):
        # The word itself must survive, whatever the scenario is called.
        shown_source = _SIMULATED
    return joined([*_title(shown_cluster, shown_source, screen), *tail], "  ")


def _title(cluster: str, source: str, screen: Screen) -> list[Piece]:
    loud = source.startswith(_SIMULATED)
    return [strong(cluster, screen), strong(source, screen) if loud else plain(source)]


def words_instead(doc: HeatmapDocument, screen: Screen) -> list[Piece]:
    """A sentence where cells can't say it: no GPUs at all, or none that is known."""
    if not doc.items:
        return _sentence(_NO_GPUS, screen)
    if doc.summary.lost + doc.summary.unknown == doc.summary.gpus:
        return _sentence(_ALL_UNKNOWN, screen)
    return []


def _sentence(text: str, screen: Screen) -> list[Piece]:
    return flow([plain(word) for word in text.split()], screen.width, gap=" ")


def summary_parts(summary: HeatmapSummary) -> list[str]:
    """The cluster's figures as the parts of a sentence: counts, spread, balance, coverage."""
    mig = f" (+{summary.hot_instances} MIG)" if summary.hot_instances else ""
    spread = UNKNOWN if summary.spread_pct is None else f"{summary.spread_pct:.0f} points"
    ratio = UNKNOWN if summary.balance_ratio is None else f"{summary.balance_ratio:.1f}x"
    parts = [
        f"{summary.gpus:,} {'GPU' if summary.gpus == 1 else 'GPUs'}:",
        f"hot {summary.hot:,}{mig},",
        f"idle {summary.idle:,},",
        f"lost {summary.lost:,},",
        f"unknown {summary.unknown:,};",
        f"spread {spread},",
        f"balance {ratio}",
    ]
    if summary.coverage_pct is not None and summary.coverage_pct < 100:
        parts[-1] += ","
        parts.append(f"coverage {_below_100(summary.coverage_pct)} %")
    return parts


def _below_100(percent: float) -> str:
    # 99.96 is not full coverage and must not read so.
    return f"{min(percent, 99.9):.1f}" if percent > 99 else f"{percent:.0f}"


def foot_lines(doc: HeatmapDocument, screen: Screen, *, short: bool = False) -> list[Piece]:
    """Counts, spread, balance ratio and, when it is not full, coverage.

    `short` leaves out the number of GPUs and abbreviates points.
    """
    parts = summary_parts(doc.summary)
    if short:
        parts = [part.replace(" points", " pt") for part in parts[1:]]
    return flow([strong(part, screen) for part in parts], screen.width, gap=" ")


def verdict_words(doc: HeatmapDocument) -> tuple[str, str]:
    """What hot and idle mean in this document."""
    if doc.window_seconds is None:
        return "hot (not judged: one moment only)", "idle (not judged)"
    window = format_duration(doc.window_seconds)
    return (
        f"hot: over {doc.hot_above_pct:g} % for {window}",
        f"idle: under {doc.idle_below_pct:g} % for {window}",
    )


def legend_lines(
    doc: HeatmapDocument,
    screen: Screen,
    figure: Figure,
    scale: Scale,
    *,
    compact: bool = False,
    short: bool = False,
) -> list[Piece]:
    """Shades and markers, and what each means; `short` leaves the marks of the policy out."""
    hot, idle = ("hot", "idle") if short else verdict_words(doc)
    if compact:
        marks = [f"{HOT} {hot}", f"{STALE} stale", f"{UNKNOWN_DOT} unknown", f"{LOST_DOT} lost"]
    else:
        marks = [
            f"{HOT} {hot}",
            f"{IDLE} {idle}",
            f"{STALE} stale",
            f"{UNKNOWN} unknown",
            f"{LOST} silent now",
        ]
    return flow(
        [shade_legend(screen, figure, scale, dots=compact), *map(plain, marks)], screen.width
    )


def shade_legend(screen: Screen, figure: Figure, scale: Scale, *, dots: bool) -> Piece:
    """The shades from low to high with the figures they begin and end at."""
    low, high = f"{scale.low:g}", f"{scale.high:g} {figure.unit}"
    if not screen.color_level:
        if screen.width is None and not dots:
            return plain(f"{figure.title} in {figure.unit}")
        return plain(f"{figure.title} {low} {glyph_scale(utf8=screen.utf8)} {high}")
    steps = range(10) if dots else range(0, 10, 2)
    ramp = "".join(painted(str(i) if dots else "  ", (i + 0.5) / 10, screen) for i in steps)
    bar = Piece(ramp, 10)
    return joined([plain(f"{figure.title} {low}"), bar, plain(high)], " ")

"""The picture of GPUs over time: which steps, and which devices."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

from gpuctl.errors import UsageError
from gpuctl.metrics.past import UNITS
from gpuctl.metrics.source import History
from gpuctl.model.history import HistoryDocument, Metric

_NICE_SECONDS = (15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)
_MOST_STEPS = 11_000
_COLUMNS_WITHOUT_SCREEN = 72
_BESIDE_THE_CELLS = 36


def chosen_step(span: timedelta, step: timedelta | None, *, columns: int | None) -> timedelta:
    """The step that was asked for, else a round one that fills the screen.

    Raises UsageError when the span holds more steps than a server answers at once, or none.
    """
    if step is not None:
        if step <= timedelta(0):
            raise UsageError("--step has to be more than nothing", hint="for example --step 5m")
        if step > span:
            raise UsageError(
                "--step is longer than --since", hint="for example --since 6h --step 5m"
            )
        if span / step > _MOST_STEPS:
            raise UsageError(
                f"--since over --step gives {span / step:,.0f} steps",
                cause=f"a server answers {_MOST_STEPS:,} at most",
                hint="take a longer --step",
            )
        return step
    room = max(10, (columns or _COLUMNS_WITHOUT_SCREEN + _BESIDE_THE_CELLS) - _BESIDE_THE_CELLS)
    wanted = span.total_seconds() / room
    seconds = next((nice for nice in _NICE_SECONDS if nice >= wanted), None)
    if seconds is None:
        days = -(-wanted // 86400)
        seconds = int(days) * 86400
    return timedelta(seconds=seconds)


def history_document(
    history: History, *, metric: Metric, generated_at: datetime, uuids: Collection[str]
) -> HistoryDocument:
    """The document of the chosen devices; the order is that of the snapshot."""
    snapshot = history.snapshot
    return HistoryDocument(
        generated_at=generated_at,
        context=snapshot.context,
        cluster=snapshot.cluster,
        source=snapshot.source,
        simulated=snapshot.source.simulated,
        metric=metric,
        unit=UNITS[metric],
        step_seconds=history.step_seconds,
        times=tuple(datetime.fromtimestamp(at, UTC) for at in history.times),
        items=tuple(series for series in history.series if series.uuid in uuids),
        warnings=history.warnings,
    )

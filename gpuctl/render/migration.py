"""A migration for people: its checklist, what it should cost, and how it goes on."""

from __future__ import annotations

from collections.abc import Sequence

from gpuctl.model.durations import format_duration
from gpuctl.model.migration import Check
from gpuctl.policy.migration.estimate import Estimate
from gpuctl.policy.migration.task_log import LogReading
from gpuctl.render.screen import Screen

_GIB = 1 << 30
_MARKS = {"ok": "ok", "warn": "warn", "fail": "FAIL", "unknown": "?"}


def checklist_lines(checks: Sequence[Check], screen: Screen) -> list[str]:
    """Every check with its reason; what can be done where something speaks against the move."""
    width = max((len(check.name) for check in checks), default=0)
    lines = []
    for check in checks:
        mark = _MARKS[check.outcome]
        lines.append(f"  {mark:<4}  {check.name:<{width}}  {screen.name(check.reason)}")
        if check.hint and check.outcome != "ok":
            lines.append(f"  {'':<4}  {'':<{width}}  -> {screen.name(check.hint)}")
    return lines


def cost_line(cost: Estimate) -> str:
    """`about 16.0 GiB to copy, 25s (1.10 GB/s, one stream; ...)`."""
    inputs = "; ".join(cost.inputs)
    if cost.copy_bytes is None:
        return f"  how much there is to copy is not known ({inputs})"
    what = f"about {cost.copy_bytes / _GIB:.1f} GiB to copy"
    if cost.seconds is not None:
        what += f", {format_duration(round(cost.seconds))}"
        if cost.pause_seconds is not None:
            what += f", a pause of about {format_duration(cost.pause_seconds)} at the end"
    if cost.converges is False:
        what += ", and it may not converge: the guest dirties memory about as fast"
    return f"  estimate: {what} ({inputs})"


def progress_words(reading: LogReading) -> str:
    """Where a migration is by its log: one line, "" before there is anything to tell."""
    match reading.phase:
        case "disks":
            done = sum(size for _, size in reading.disk_bytes)
            total = sum(size for _, size in reading.disk_total)
            return f"disks: {done / _GIB:.1f} of {total / _GIB:.1f} GiB"
        case "memory":
            return _memory_words(reading)
        case "finishing" | "ended":
            return "memory is over there; finishing"
        case _:
            return "starting" if reading.lines else ""


def _memory_words(reading: LogReading) -> str:
    if reading.copied_bytes is None or reading.total_bytes is None:
        return "memory: begun"
    # Pages that were dirtied are sent again: more than all of it is all of it.
    share = 100 * (reading.fraction or 0.0)
    copied, total = reading.copied_bytes / _GIB, reading.total_bytes / _GIB
    words = f"memory: {share:.0f} %, {copied:.1f} of {total:.1f} GiB"
    if reading.rate:
        words += f", {reading.rate / _GIB:.1f} GiB/s"
    if reading.dirty_rate:
        words += f", dirtied at {reading.dirty_rate / _GIB:.1f} GiB/s"
    if reading.dirty_rounds:
        words += f" ({reading.dirty_rounds} dirty rounds)"
    if reading.downtime_raises:
        words += f", pause limit raised {reading.downtime_raises}x"
    left = reading.seconds_left
    if left is not None:
        words += f", about {format_duration(max(1, round(left)))} left"
    return words

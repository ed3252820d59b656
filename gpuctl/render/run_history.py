"""The acting runs of a context as text."""

from __future__ import annotations

from collections import Counter

from gpuctl.model.outcome import HistoryListDocument, HistoryRun
from gpuctl.render.heatmap_frame import time_words
from gpuctl.render.outcome import status_words, step_lines
from gpuctl.render.screen import Screen
from gpuctl.render.tables import Cell

_HEADERS = [
    "run", "command", "state", "started_at", "ended_at", "exit_code", "steps", "changed",
    "not_changed", "open_steps", "open_holds",
]  # fmt: skip


def history_rows(doc: HistoryListDocument) -> tuple[list[str], list[list[Cell]]]:
    """One row per run, raw values."""
    return _HEADERS, [_row(run) for run in doc.items]


def _row(run: HistoryRun) -> list[Cell]:
    changed = sum(step.changed for step in run.steps)
    return [
        run.run_id,
        run.command,
        run.state,
        time_words(run.started_at),
        None if run.ended_at is None else time_words(run.ended_at),
        run.exit_code,
        len(run.steps),
        changed,
        len(run.steps) - changed,
        " ".join(run.open_steps) or None,
        ", ".join(run.open_holds) or None,
    ]


def history_names(doc: HistoryListDocument) -> list[str]:
    """The runs' ids, newest first."""
    return [run.run_id for run in doc.items]


def run_lines(run: HistoryRun, screen: Screen) -> list[str]:
    """One run in full."""
    until = "still running" if run.ended_at is None else f"until {time_words(run.ended_at)}"
    if run.ended_at is None and run.state == "abandoned":
        until = "its process died; the next acting run cleans up"
    code = "" if run.exit_code is None else f", exit code {run.exit_code}"
    closed = "" if run.closed_by is None else f", closed by run {run.closed_by}"
    lines = [
        f"run {run.run_id}  {screen.name(run.command)}  {run.state}{code}{closed}",
        f"  from {time_words(run.started_at)}, {until}",
    ]
    for step in run.steps:
        lines += [f"  {text}" for text in step_lines(step, screen)]
    lines += [
        f"  {hold.kind} of {screen.name(hold.node)}: {'undone' if hold.removed else 'STILL ON'}"
        for hold in run.holds
    ]
    counts = Counter(status_words(step) for step in run.steps)
    lines.append("  " + (", ".join(f"{n} {words}" for words, n in counts.items()) or "no steps"))
    return lines

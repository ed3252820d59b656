"""The journal's records put together again: runs, what was in flight in them, and their holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from gpuctl.actions.journal import Record
from gpuctl.actions.steps import Hold, Step
from gpuctl.model.outcome import HistoryRun, HoldOutcome, OutcomeStep, RunState


@dataclass(slots=True)
class StepLog:
    """One step of a run, as far as the journal knows.

    `sent` and `answered` count writes to the world. More sent than answered: one was in flight.
    `sent_at` is the time of the last one sent.
    """

    step: Step
    begun_at: datetime | None = None
    sent_at: datetime | None = None
    sent: int = 0
    answered: int = 0
    last_answer: dict[str, Any] = field(default_factory=dict)
    outcome: OutcomeStep | None = None

    @property
    def is_in_flight(self) -> bool:
        """Whether the last write has no known answer."""
        return self.outcome is None and self.sent > self.answered

    @property
    def is_open(self) -> bool:
        """Whether it was begun and has no known end."""
        return self.outcome is None and self.begun_at is not None


@dataclass(slots=True)
class RunLog:
    """One run. `holds` tells for each hold whether it has been taken off again; `backends` are the
    APIs that it changed, by action; `plan` is the digest of the plan that it carried out."""

    run_id: str
    started_at: datetime
    command: str = ""
    backends: dict[str, str] = field(default_factory=dict)
    plan: str = ""
    steps: dict[str, StepLog] = field(default_factory=dict)
    holds: dict[Hold, bool] = field(default_factory=dict)
    ended_at: datetime | None = None
    exit_code: int | None = None
    closed_by: str | None = None

    @property
    def open_steps(self) -> list[StepLog]:
        """Steps that were begun and have no known end."""
        return [one for one in self.steps.values() if one.is_open]

    @property
    def open_holds(self) -> list[Hold]:
        """Holds that may still be on, in the order in which they were placed."""
        return [hold for hold, removed in self.holds.items() if not removed]

    @property
    def is_open(self) -> bool:
        """Whether nobody has said that it is over, or a hold is still to be undone."""
        return self.ended_at is None or bool(self.open_holds)


def runs_of(records: Iterable[Record]) -> list[RunLog]:
    """The runs in the order of their beginnings. A run whose beginning was lost is there, too."""
    runs: dict[str, RunLog] = {}
    for record in records:
        run = runs.setdefault(record.run, RunLog(record.run, record.at))
        _apply(run, record)
    return list(runs.values())


def _apply(run: RunLog, record: Record) -> None:
    data = record.data
    match record.event:
        case "run-started":
            run.command = str(data.get("command", ""))
            run.backends = _backends(data)
            run.plan = str(data.get("plan", ""))
            for raw in data.get("steps", ()):
                step = msgspec.convert(raw, Step)
                run.steps.setdefault(step.id, StepLog(step))
        case "run-ended":
            run.ended_at = record.at
            run.exit_code = data.get("exit_code")
            run.closed_by = record.by or None
        case "hold-placing" | "hold-placed":
            run.holds[Hold(data["kind"], data["node"])] = False
        case "hold-removed":
            run.holds[Hold(data["kind"], data["node"])] = True
        case "step-ended":
            outcome = msgspec.convert(data["outcome"], OutcomeStep)
            _log_of(run, record.step, outcome).outcome = outcome
        case _:
            if (log := run.steps.get(record.step)) is not None:
                _progress(log, record)


def _backends(data: Mapping[str, Any]) -> dict[str, str]:
    """By action. Runs of one command alone once wrote a single name."""
    if "backends" in data:
        return {str(action): str(name) for action, name in data["backends"].items()}
    return {str(data.get("command", "")): str(data.get("backend", ""))}


def _progress(log: StepLog, record: Record) -> None:
    match record.event:
        case "step-started":
            log.begun_at = record.at
        case "sending":
            log.sent += 1
            log.sent_at = record.at
        case "answered":
            log.answered += 1
            log.last_answer = record.data


def _log_of(run: RunLog, step_id: str, outcome: OutcomeStep) -> StepLog:
    """The log of a step; one that a rule refused was never planned, and appears only here."""
    known = run.steps.get(step_id)
    if known is None:
        step = Step(
            id=step_id,
            action=outcome.action,
            workload=outcome.workload,
            source=outcome.source,
            target=outcome.target,
        )
        known = run.steps[step_id] = StepLog(step)
    return known


def history_of(runs: Iterable[RunLog], *, running: str | None) -> tuple[HistoryRun, ...]:
    """The runs as `gpuctl history` tells them, newest first; `running` holds the lock now."""
    return tuple(_history(run, is_running=run.run_id == running) for run in runs)[::-1]


def _history(run: RunLog, *, is_running: bool) -> HistoryRun:
    state: RunState = "running" if is_running else "abandoned" if run.is_open else "ended"
    return HistoryRun(
        run_id=run.run_id,
        command=run.command,
        state=state,
        started_at=run.started_at,
        ended_at=run.ended_at,
        exit_code=run.exit_code,
        steps=tuple(_outcome(one) for one in run.steps.values()),
        holds=tuple(
            HoldOutcome(kind=hold.kind, node=hold.node, placed=True, removed=removed)
            for hold, removed in run.holds.items()
        ),
        open_steps=tuple(one.step.id for one in run.open_steps),
        open_holds=tuple(str(hold) for hold in run.open_holds),
        closed_by=run.closed_by,
    )


def _outcome(log: StepLog) -> OutcomeStep:
    if log.outcome is not None:
        return log.outcome
    step = log.step
    begun = OutcomeStep(
        id=step.id,
        action=step.action,
        workload=step.workload,
        source=step.source,
        target=step.target,
        status="unknown",
        reason="sent, and its answer is not in the journal",
        started_at=log.begun_at,
    )
    if log.is_in_flight:
        return begun
    upid = log.last_answer.get("upid")
    if upid:
        reason = f"started; gpuctl migrate --follow '{upid}' tells how it ends"
        return replace(begun, reason=reason, changed=True, detail={"upid": str(upid)})
    if log.answered:
        return replace(begun, status="done", changed=True, reason="answered; its end is not known")
    if log.begun_at is not None:
        return replace(begun, reason="begun, nothing was sent", status="interrupted")
    return replace(begun, status="skipped", reason="not begun")

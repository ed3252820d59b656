"""What runs that died have left behind: holds are undone, steps in flight are looked up."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec

from gpuctl.actions.journal import Journal
from gpuctl.actions.runs import RunLog, StepLog
from gpuctl.actions.steps import Actuator, Hold, Holder, StepResult, outcome_step
from gpuctl.clock import Clock
from gpuctl.errors import GpuctlError
from gpuctl.model.plan import Action

# Nodes are held by Kubernetes' own means.
_HOLDS: Action = "evict"


def recover(
    runs: Iterable[RunLog],
    *,
    run_id: str,
    backends: Mapping[Action, str],
    actuators: Mapping[Action, Actuator],
    holder: Holder,
    journal: Journal,
    clock: Clock,
    say: Callable[[str], None],
) -> tuple[str, ...]:
    """Close every open run of the journal; call it only while holding the lock.

    What a run changed by another API than those of `backends` is left alone: here its pods and
    nodes would seem to be gone. Holds are on nodes of Kubernetes, hence an eviction's.

    Nothing is done again: a step whose answer is missing is looked up, and how it was found is
    written down. What can't be found out or undone now stays open for the next run; the warnings
    say so.
    """
    warnings: list[str] = []
    for run in runs:
        if run.run_id == run_id or not run.is_open:
            continue
        own = _reachable(run, backends)
        foreign = sorted({run.backends.get(action, "") for action in _touched(run) - own})
        if foreign:
            warnings.append(
                f"run {run.run_id} did not come to its end; what it left at "
                f"{', '.join(foreign)} is cleaned up by the next run that acts there"
            )
        if foreign and not own:
            continue
        say(f"run {run.run_id} did not come to its end: cleaning up after it")
        undone = _undo_holds(run, run_id, holder, journal, say) if _HOLDS in own else ()
        problems = [
            *undone,
            *_close_steps(run, run_id, own, actuators, journal, clock, say),
        ]
        warnings += problems
        if not problems and not foreign:
            journal.write(run.run_id, "run-ended", by=run_id, data={"exit_code": run.exit_code})
    return tuple(warnings)


def _touched(run: RunLog) -> set[Action]:
    """The kinds of action whose API has to be asked before the run can be closed."""
    asked: set[Action] = {
        log.step.action for log in run.steps.values() if log.outcome is None and log.sent
    }
    return asked | {_HOLDS} if run.open_holds else asked


def _reachable(run: RunLog, backends: Mapping[Action, str]) -> set[Action]:
    """The kinds of action that this run made by the same API as that one."""
    return {action for action, name in backends.items() if run.backends.get(action) == name}


def _undo_holds(
    run: RunLog, run_id: str, holder: Holder, journal: Journal, say: Callable[[str], None]
) -> Iterable[str]:
    for hold in reversed(run.open_holds):
        try:
            holder.remove(hold)
        except GpuctlError as exc:
            yield _left(f"the {hold}, left by run {run.run_id}, is still on", exc)
        else:
            _wrote_off(hold, run, run_id, journal)
            say(f"undone: {hold}, left by run {run.run_id}")


def _wrote_off(hold: Hold, run: RunLog, run_id: str, journal: Journal) -> None:
    data = {"kind": hold.kind, "node": hold.node}
    journal.write(run.run_id, "hold-removed", by=run_id, data=data)


def _close_steps(
    run: RunLog,
    run_id: str,
    own: Collection[Action],
    actuators: Mapping[Action, Actuator],
    journal: Journal,
    clock: Clock,
    say: Callable[[str], None],
) -> Iterable[str]:
    for log in run.steps.values():
        if log.outcome is not None or (log.sent and log.step.action not in own):
            continue
        subject = f"{log.step.id} ({log.step.action} {log.step.workload}) of run {run.run_id}"
        try:
            found = _found(log, actuators)
        except GpuctlError as exc:
            yield _left(f"what became of {subject} is not known", exc)
            continue
        outcome = outcome_step(log.step, found, started_at=log.begun_at, ended_at=clock.now())
        data = {"outcome": msgspec.to_builtins(outcome)}
        journal.write(run.run_id, "step-ended", step=log.step.id, by=run_id, data=data)
        if log.begun_at is not None:
            say(f"closed: {subject}: {found.status}, {found.reason}")


def _found(log: StepLog, actuators: Mapping[Action, Actuator]) -> StepResult:
    """How a step ended that nobody saw end. Raises GpuctlError when that can't be found out."""
    if log.begun_at is None:
        return StepResult(status="skipped", reason="its run died before it was begun")
    if not log.sent:
        return StepResult(status="skipped", reason="its run died before anything was sent")
    actuator = actuators.get(log.step.action)
    if actuator is None:
        raise GpuctlError(
            f"this command can't look up a step of the kind {log.step.action}",
            hint=f"run a command that can {log.step.action}",
        )
    return actuator.look_up(log.step)


def _left(what: str, exc: GpuctlError) -> str:
    why = f"{exc.what}: {exc.cause}" if exc.cause else exc.what
    return f"{what} ({why}); the next acting run will try again"

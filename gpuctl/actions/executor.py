"""Carries out steps in order: journal, holds, circuit breaker, signals, and how it all ended."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from queue import Queue
from threading import Thread
from typing import Any

import msgspec

from gpuctl.actions.interruption import Abandoned, Interruption, Patience
from gpuctl.actions.journal import Event, JournalSink
from gpuctl.actions.steps import (
    Actuator,
    Conduct,
    Hold,
    Holder,
    Step,
    StepResult,
    outcome_step,
    unfenced,
)
from gpuctl.clock import Clock, Deadline
from gpuctl.errors import GpuctlError
from gpuctl.exitcodes import ExitCode, strongest
from gpuctl.model.outcome import HoldOutcome, OutcomeDocument, OutcomeStep
from gpuctl.model.plan import Action

log = logging.getLogger(__name__)

# An API that is down fails every step; after so many in a row the rest need not be tried.
_MOST_BACKEND_FAILURES_IN_A_ROW = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHead:
    """Which run it is. `backends` are the APIs that it changes, by action: a run that dies is only
    looked up there. `plan` is the digest of the plan that it carries out, "" for none."""

    run_id: str
    command: str
    context: str | None
    cluster: str | None
    simulated: bool
    dry_run: bool
    backends: Mapping[Action, str]
    plan: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What to do: `ruled_out` are steps that a rule has refused already, to be told with the rest.

    `keep_going`: a step that ends badly does not keep the next one from being tried.
    `verify`: wait for the effect of each step. `parallel`: so many steps of one wave at a time.
    """

    steps: Sequence[Step]
    ruled_out: Sequence[OutcomeStep] = ()
    holds: Sequence[Hold] = ()
    keep_going: bool
    verify: bool
    parallel: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What to do it with. `say` gets lines of progress; `fence` raises LockedError when another
    run may act by now, and is asked before each write."""

    actuators: Mapping[Action, Actuator]
    holder: Holder
    journal: JournalSink
    interruption: Interruption
    deadline: Deadline
    clock: Clock
    say: Callable[[str], None]
    fence: Callable[[], None] = unfenced


def carry_out(head: RunHead, work: Work, tools: Tools) -> OutcomeDocument:
    """Do the steps, wave by wave and in each as many at a time as `work` says, and undo every hold
    at the end.

    After the first signal no step is begun; after the second everything is left as it is, for the
    next run to clean up. Raises GpuctlError when a hold can't be placed: then no step was begun.
    """
    return _Execution(head, work, tools).run()


@dataclass(slots=True)
class _Execution:
    head: RunHead
    work: Work
    tools: Tools
    ended: list[OutcomeStep] = field(default_factory=list)
    codes: list[ExitCode] = field(default_factory=list)
    placed: list[Hold] = field(default_factory=list)
    found_on: list[Hold] = field(default_factory=list)
    still_on: list[Hold] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    stop_reason: str | None = None
    begun: list[str] = field(default_factory=list)
    backend_failures: int = 0

    def run(self) -> OutcomeDocument:
        started = self.tools.clock.now()
        self._write("run-started", data=self._opening())
        for refused in self.work.ruled_out:
            self._note(refused, ExitCode.REFUSED)
        try:
            failure = self._failure_of_acting()
            self._remove_holds()
        except Abandoned:
            return self._abandoned(started)
        code = self._exit_code() if failure is None else ExitCode(failure.exit_code)
        self._record("run-ended", data={"exit_code": int(code)})
        if failure is not None:
            raise failure
        return self._document(started, code)

    def _failure_of_acting(self) -> GpuctlError | None:
        """Hold and act; what kept every step from being begun, with the holds still on."""
        try:
            self._place_holds()
            self._do_steps()
        except GpuctlError as exc:
            return exc
        return None

    # -- steps -------------------------------------------------------------------------------------

    def _do_steps(self) -> None:
        for _, wave in groupby(self.work.steps, key=lambda step: step.wave):
            if self.work.parallel > 1:
                self._together(wave)
                continue
            for step in wave:
                began = self._begin(step)
                if began is not None:
                    self._over(step, began, self._one(step))

    def _together(self, wave: Iterable[Step]) -> None:
        """Several steps at a time; how they ended is judged by this thread alone.

        In threads that nobody joins: after a second signal the process ends without them.
        """
        over: Queue[tuple[Step, datetime, StepResult]] = Queue()

        def work(step: Step, began: datetime) -> None:
            over.put((step, began, self._one(step)))

        running = 0
        for step in wave:
            if running == self.work.parallel:
                self._over(*over.get())
                running -= 1
            began = self._begin(step)
            if began is not None:
                Thread(target=work, args=(step, began), name=step.id, daemon=True).start()
                running += 1
        for _ in range(running):
            self._over(*over.get())

    def _begin(self, step: Step) -> datetime | None:
        """When it is begun; None for a step that is skipped."""
        reason = self._why_not_begin()
        if reason is not None:
            self._end(outcome_step(step, StepResult(status="skipped", reason=reason)), None)
            return None
        self.begun.append(step.id)
        return self.tools.clock.now()

    def _over(self, step: Step, began: datetime, result: StepResult) -> None:
        done = outcome_step(step, result, started_at=began, ended_at=self.tools.clock.now())
        self._end(done, result.exit_code)
        self._judge(step, result)

    def _why_not_begin(self) -> str | None:
        if self.tools.interruption.is_requested:
            return f"{self.tools.interruption.signal_name} came before it was begun"
        if self.stop_reason is None and self.tools.deadline.remaining() <= 0:
            self.stop_reason = "the time for the whole command (--timeout) was used up"
            self.codes.append(ExitCode.TIMEOUT)
        return self.stop_reason

    def _one(self, step: Step) -> StepResult:
        """How the step ended; only Abandoned passes."""
        tools = self.tools
        actuator = tools.actuators[step.action]

        def say(text: str) -> None:
            tools.say(f"{step.id} {step.workload}: {text}")

        patience = Patience(tools.interruption, tools.deadline)
        conduct = Conduct(self.head.run_id, step, patience, tools.journal, say, tools.fence)
        done: StepResult | None = None
        try:
            self._write("step-started", step=step.id)
            result = actuator.preflight(step, conduct)
            if result is None:
                result = done = actuator.execute(step, conduct)
                if result.status == "done" and self.work.verify:
                    result = actuator.verify(step, result, conduct)
        except GpuctlError as exc:
            result = _failed(exc, done)
        except Exception as exc:  # it is recorded, and the run decides what next
            log.debug("a step failed unexpectedly", exc_info=True)
            error = GpuctlError(f"unexpected failure in gpuctl: {type(exc).__name__}: {exc}")
            result = _failed(error, done)
        if not self.head.dry_run:  # the outcome says it in a moment
            say(f"{result.status}: {result.reason}")
        return result

    def _judge(self, step: Step, result: StepResult) -> None:
        """Whether the run goes on after this."""
        is_backend = result.status == "failed" and result.exit_code is ExitCode.BACKEND
        self.backend_failures = self.backend_failures + 1 if is_backend else 0
        if result.ends_run:
            self.stop_reason = f"the run stopped at {step.id}: {result.reason}"
        elif self.backend_failures >= _MOST_BACKEND_FAILURES_IN_A_ROW:
            self.stop_reason = (
                f"the run stopped at {step.id}: {self.backend_failures} steps in a row failed"
            )
        elif not result.is_good and not self.work.keep_going:
            self.stop_reason = f"the run stopped at the first step that went wrong, {step.id}"

    def _end(self, step: OutcomeStep, code: ExitCode | None) -> None:
        self.ended.append(step)
        self._note(step, code)

    def _note(self, step: OutcomeStep, code: ExitCode | None) -> None:
        if code is not None:
            self.codes.append(code)
        self._record("step-ended", step=step.id, data={"outcome": msgspec.to_builtins(step)})

    # -- holds -------------------------------------------------------------------------------------

    def _place_holds(self) -> None:
        if not self.work.steps:
            return
        for hold in self.work.holds:
            data = {"kind": hold.kind, "node": hold.node}
            if self.tools.holder.is_on(hold):
                self.found_on.append(hold)
                self.tools.say(f"{hold}: it was so already and will stay so")
                continue
            self.tools.fence()
            self._write("hold-placing", data=data)
            self.placed.append(hold)
            log.info("placing", extra={"run": self.head.run_id, "object": str(hold)})
            self.tools.holder.place(hold, self.head.run_id)
            self._record("hold-placed", data=data)
            self.tools.say(f"{hold}: on until the end of this run")

    def _remove_holds(self) -> None:
        for hold in reversed(self.placed):
            log.info("removing", extra={"run": self.head.run_id, "object": str(hold)})
            try:
                self.tools.holder.remove(hold)
            except GpuctlError as exc:
                self.still_on.append(hold)
                self.codes.append(ExitCode.BACKEND)
                why = f"{exc.what}: {exc.cause}" if exc.cause else exc.what
                self.warnings.append(
                    f"the {hold} is still on ({why}); the next acting run will try again"
                )
            else:
                self._record("hold-removed", data={"kind": hold.kind, "node": hold.node})

    def _holds(self) -> Iterable[HoldOutcome]:
        for hold in self.work.holds:
            if hold in self.placed:
                removed = hold not in self.still_on
                yield HoldOutcome(kind=hold.kind, node=hold.node, placed=True, removed=removed)
            elif hold in self.found_on:
                yield HoldOutcome(kind=hold.kind, node=hold.node, placed=False, removed=False)

    # -- the end -----------------------------------------------------------------------------------

    def _abandoned(self, started: datetime) -> OutcomeDocument:
        """The second signal came: nothing is waited for or undone any more, and that is said."""
        ended = {step.id for step in self.ended}
        left = [step for step in self.work.steps if step.id not in ended]
        running = StepResult(status="unknown", reason="left running by a second signal")
        waiting = StepResult(status="skipped", reason="not begun")
        for step in left:
            result = running if step.id in self.begun else waiting
            self.ended.append(outcome_step(step, result))
        self.still_on = list(self.placed)
        parts = [
            f"{step.id} ({step.workload}) may still be under way"
            for step in left
            if step.id in self.begun
        ]
        parts += [f"the {hold} is still on" for hold in self.placed]
        self.warnings.append(
            f"{'; '.join(parts) or 'nothing is left over'}; see gpuctl history "
            f"{self.head.run_id}; the next acting run undoes what is left"
        )
        code = self.tools.interruption.exit_code or ExitCode.INTERRUPTED
        return self._document(started, code)

    def _exit_code(self) -> ExitCode:
        interrupted = self.tools.interruption.exit_code
        if interrupted is not None:
            return interrupted
        everything = (*self.ended, *self.work.ruled_out)
        return run_exit_code(everything, self.codes, dry_run=self.head.dry_run)

    def _document(self, started: datetime, code: ExitCode) -> OutcomeDocument:
        head = self.head
        return OutcomeDocument(
            run_id=head.run_id,
            command=head.command,
            context=head.context,
            cluster=head.cluster,
            simulated=head.simulated,
            dry_run=head.dry_run,
            started_at=started,
            ended_at=self.tools.clock.now(),
            exit_code=int(code),
            steps=(*self._in_order(), *self.work.ruled_out),
            holds=tuple(self._holds()),
            warnings=tuple(self.warnings),
        )

    def _in_order(self) -> list[OutcomeStep]:
        """What has ended, in the order of the work."""
        place = {step.id: number for number, step in enumerate(self.work.steps)}
        return sorted(self.ended, key=lambda step: place[step.id])

    # -- the journal -------------------------------------------------------------------------------

    def _opening(self) -> dict[str, Any]:
        head = self.head
        return {
            "command": head.command,
            "context": head.context,
            "cluster": head.cluster,
            "backends": dict(head.backends),
            **({"plan": head.plan} if head.plan else {}),
            "steps": [msgspec.to_builtins(step) for step in self.work.steps],
        }

    def _write(self, event: Event, *, step: str = "", data: dict[str, Any] | None = None) -> None:
        """Before something is done: raises GpuctlError, and then it must not be done."""
        self.tools.journal.write(self.head.run_id, event, step=step, data=data or {})

    def _record(self, event: Event, *, step: str = "", data: dict[str, Any] | None = None) -> None:
        """After something was done: what is missing is looked up by the next run."""
        try:
            self._write(event, step=step, data=data)
        except GpuctlError as exc:
            text = f"the journal is not complete ({exc.cause or exc.what}); the next run looks"
            if (warning := f"{text} up what is missing") not in self.warnings:
                self.warnings.append(warning)


def _failed(exc: GpuctlError, done: StepResult | None) -> StepResult:
    """The end of a step by an error; `done` when the world had been changed before it."""
    parts = [exc.what, exc.cause or "", exc.hint or ""]
    reason = "; ".join(part for part in parts if part)
    return StepResult(
        status="failed",
        reason=f"{done.reason}, then: {reason}" if done else reason,
        changed=done is not None and done.changed,
        detail=done.detail if done else {},
        exit_code=ExitCode(exc.exit_code),
        ends_run=exc.exit_code is ExitCode.LOCKED,
    )


def run_exit_code(
    steps: Iterable[OutcomeStep], codes: Iterable[ExitCode], *, dry_run: bool
) -> ExitCode:
    """What a run ends with: PARTIAL when anything was changed and anything did not go well, unless
    a bug or a full disk did it.

    A dry run ends with OK whatever was refused; only what kept it from finding out counts.
    """
    everything = list(steps)
    bad = [s for s in everything if s.status in ("refused", "failed", "skipped", "unknown")]
    found = [code for code in codes if code is not ExitCode.OK]
    if dry_run:
        return strongest(code for code in found if code is not ExitCode.REFUSED)
    if any(step.changed or step.status == "unknown" for step in everything) and (bad or found):
        return strongest((ExitCode.PARTIAL, *found))
    return strongest(found)

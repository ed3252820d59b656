"""A small world for the executor: things that are moved, and a script of what goes wrong."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gpuctl.actions.executor import RunHead, Tools, Work, carry_out
from gpuctl.actions.interruption import Interruption
from gpuctl.actions.journal import Journal, read_journal
from gpuctl.actions.runs import RunLog, runs_of
from gpuctl.actions.steps import Conduct, Hold, Step, StepResult
from gpuctl.clock import Deadline, FixedClock
from gpuctl.errors import BackendError
from gpuctl.exitcodes import ExitCode
from gpuctl.model.outcome import OutcomeDocument

NOON = datetime(2025, 3, 1, 12, 0, tzinfo=UTC)
HOLD = Hold("cordon", "gpu-a")


class Killed(BaseException):
    """The process dies here: nothing after this line happens."""


def nothing() -> None:
    """No surprise."""


@dataclass
class PlayActuator:
    """Moves names from one set to another. `before` and `after` run around the write."""

    moved: list[str] = field(default_factory=list)
    fails: tuple[str, ...] = ()
    before: Callable[[], None] = nothing
    after: Callable[[], None] = nothing
    during_verify: Callable[[Conduct], None] = lambda conduct: None
    checks: StepResult | None = None

    def preflight(self, step: Step, conduct: Conduct) -> StepResult | None:
        return self.checks

    def execute(self, step: Step, conduct: Conduct) -> StepResult:
        conduct.sending(name=step.workload)
        self.before()
        if step.workload in self.fails:
            raise BackendError(f"{step.workload} can't be moved", cause="it is stuck")
        self.moved.append(step.workload)
        self.after()
        conduct.answered(result="moved")
        return StepResult(status="done", reason="moved", changed=True)

    def verify(self, step: Step, done: StepResult, conduct: Conduct) -> StepResult:
        self.during_verify(conduct)
        return done

    def look_up(self, step: Step) -> StepResult:
        if step.workload in self.moved:
            return StepResult(status="done", reason="it was moved", changed=True)
        return StepResult(status="skipped", reason="it was never moved")


@dataclass
class PlayHolder:
    """Nodes with holds on; `refuses` says no to everything."""

    on: set[Hold] = field(default_factory=set)
    refuses: bool = False

    def is_on(self, hold: Hold) -> bool:
        return hold in self.on

    def place(self, hold: Hold, run_id: str) -> None:
        self._check()
        self.on.add(hold)

    def remove(self, hold: Hold) -> None:
        self._check()
        self.on.discard(hold)

    def _check(self) -> None:
        if self.refuses:
            raise BackendError("no right to patch nodes", cause="RBAC")


@dataclass
class Play:
    """Everything for some runs over one journal."""

    folder: Path
    actuator: PlayActuator = field(default_factory=PlayActuator)
    holder: PlayHolder = field(default_factory=PlayHolder)
    clock: FixedClock = field(default_factory=lambda: FixedClock(NOON))
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.interruption = Interruption(self.clock, 60.0, self.pause)

    @property
    def path(self) -> str:
        return os.path.join(self.folder, "journal.jsonl")

    def pause(self, seconds: float) -> None:
        self.clock.at += timedelta(seconds=seconds)

    def run(
        self,
        *names: str,
        run_id: str = "r1",
        keep_going: bool = True,
        holds: tuple[Hold, ...] = (HOLD,),
        verify: bool = True,
        timeout: float = 600,
        parallel: int = 1,
        waves: dict[str, int] | None = None,
        migrations: tuple[str, ...] = (),
    ) -> OutcomeDocument:
        steps = [
            Step(
                id=f"s{n}",
                action="migrate" if name in migrations else "evict",
                workload=name,
                facts={"uid": f"uid-{name}"},
                wave=(waves or {}).get(name, 0),
            )
            for n, name in enumerate(names, start=1)
        ]
        head = RunHead(
            run_id=run_id,
            command="evict",
            context="hk",
            cluster=None,
            simulated=False,
            dry_run=False,
            backends={"evict": "here", "migrate": "pve"},
        )
        work = Work(
            steps=steps, holds=holds, keep_going=keep_going, verify=verify, parallel=parallel
        )
        with Journal(self.path, self.clock) as journal:
            tools = Tools(
                actuators={"evict": self.actuator, "migrate": self.actuator},
                holder=self.holder,
                journal=journal,
                interruption=self.interruption,
                deadline=Deadline.after(timeout, self.clock),
                clock=self.clock,
                say=self.said.append,
            )
            return carry_out(head, work, tools)

    def runs(self) -> list[RunLog]:
        return runs_of(read_journal(self.path).records)


def statuses(outcome: OutcomeDocument) -> list[str]:
    """How each step ended."""
    return [step.status for step in outcome.steps]


def code(outcome: OutcomeDocument) -> ExitCode:
    """What the run ends with."""
    return ExitCode(outcome.exit_code)

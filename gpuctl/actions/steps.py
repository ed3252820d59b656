"""What is carried out: steps, how they end, and who carries them out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from gpuctl.actions.interruption import Patience
from gpuctl.actions.journal import JournalSink
from gpuctl.errors import GpuctlError
from gpuctl.exitcodes import ExitCode
from gpuctl.model.outcome import DetailValue, HoldKind, Landing, OutcomeStep, StepStatus
from gpuctl.model.plan import Action, DeviceRef

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing to do. `facts` identify it to its actuator (a UID, an owner) and are journalled,
    so that a later run can ask what became of it; never a secret. Steps of one `wave` may run at
    the same time; waves run one after another."""

    id: str
    action: Action
    workload: str
    source: DeviceRef | None = None
    target: DeviceRef | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    wave: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """How a step ended; the words of `status` are those of OutcomeStep.

    `exit_code` is what this end alone would make of the run. `ends_run`: no other step can do
    better, such as when a right is missing.
    """

    status: StepStatus
    reason: str
    changed: bool = False
    detail: Mapping[str, DetailValue] = field(default_factory=dict)
    landed: Landing | None = None
    exit_code: ExitCode = ExitCode.OK
    ends_run: bool = False

    @property
    def is_good(self) -> bool:
        """Whether nothing stands against going on with the next step."""
        return self.status in ("done", "allowed", "unchanged")


def unfenced() -> None:
    """The fence where the lock can't be lost: it dies with its process."""


@dataclass(frozen=True, slots=True)
class Conduct:
    """What an actuator gets while it works on one step.

    `sending` has to be called before each write to the world and `answered` after its answer:
    both return once the journal has it on disk. `sending` raises GpuctlError when the right to
    act is gone, or the journal can't be written: then nothing may be done. `say` tells the person
    how it goes.
    """

    run_id: str
    step: Step
    patience: Patience
    journal: JournalSink
    say: Callable[[str], None]
    fence: Callable[[], None] = unfenced

    def sending(self, **data: Any) -> None:
        """About to change the world."""
        self.fence()
        self.journal.write(self.run_id, "sending", step=self.step.id, data=data)
        log.info("sending", extra=self._subject)

    def answered(self, **data: Any) -> None:
        """What the world said to that. A journal that fails only now doesn't undo what was done:
        the next `sending` fails, and a later run looks this step up."""
        log.info("answered", extra={**self._subject, **_result(data)})
        try:
            self.journal.write(self.run_id, "answered", step=self.step.id, data=data)
        except GpuctlError as exc:
            self.say(f"the answer is not in the journal: {exc.cause or exc.what}")

    @property
    def _subject(self) -> dict[str, str]:
        """What every line of the log about a write carries."""
        step = self.step
        return {
            "run": self.run_id,
            "step": step.id,
            "action": step.action,
            "object": step.workload,
        }


def _result(data: Mapping[str, Any]) -> dict[str, Any]:
    return {"result": data["result"]} if "result" in data else {}


class Actuator(Protocol):
    """Does one sort of action. Raises GpuctlError for what keeps a step from being done."""

    def preflight(self, step: Step, conduct: Conduct) -> StepResult | None:
        """Every check that needs no write, dry runs of the API included; None: go ahead."""

    def execute(self, step: Step, conduct: Conduct) -> StepResult:
        """Do it."""

    def verify(self, step: Step, done: StepResult, conduct: Conduct) -> StepResult:
        """Wait until it is really so, and say where it led."""

    def look_up(self, step: Step) -> StepResult:
        """What became of a step whose run died after it was sent; changes nothing."""


class Rehearsal:
    """The actuator of a dry run: the checks of another one, and never a write."""

    def __init__(self, actuator: Actuator, would: str) -> None:
        """`would` is the reason for a step that passed, such as "would be evicted"."""
        self._actuator = actuator
        self._would = would

    def preflight(self, step: Step, conduct: Conduct) -> StepResult | None:
        return self._actuator.preflight(step, conduct)

    def execute(self, step: Step, conduct: Conduct) -> StepResult:
        return StepResult(status="allowed", reason=self._would)

    def verify(self, step: Step, done: StepResult, conduct: Conduct) -> StepResult:
        return done

    def look_up(self, step: Step) -> StepResult:
        return self._actuator.look_up(step)


def outcome_step(
    step: Step,
    result: StepResult,
    *,
    started_at: datetime | None = None,
    ended_at: datetime | None = None,
) -> OutcomeStep:
    """The step as the document tells it."""
    return OutcomeStep(
        id=step.id,
        action=step.action,
        workload=step.workload,
        source=step.source,
        target=step.target,
        status=result.status,
        reason=result.reason,
        changed=result.changed,
        detail=dict(result.detail),
        started_at=started_at,
        ended_at=ended_at,
        landed=result.landed,
    )


@dataclass(frozen=True, slots=True)
class Hold:
    """A node that the scheduler shall not choose while the run goes on."""

    kind: HoldKind
    node: str

    def __str__(self) -> str:
        """`cordon of gpu-a`."""
        return f"{self.kind} of {self.node}"


class Holder(Protocol):
    """Puts holds on nodes and takes them off. Raises GpuctlError."""

    def is_on(self, hold: Hold) -> bool:
        """Whether it is so already, by somebody else's hand."""

    def place(self, hold: Hold, run_id: str) -> None:
        """Put it on; nothing when it is on."""

    def remove(self, hold: Hold) -> None:
        """Take it off; nothing when it is off, or the node is gone."""

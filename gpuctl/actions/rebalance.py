"""A plan's moves as steps: who carries them out, what is looked at again before each of them, and
where it should have landed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Protocol

from gpuctl.actions.cluster import LockPatience
from gpuctl.actions.lock import Holder as LockHolder
from gpuctl.actions.steps import Actuator, Conduct, Holder, Step, StepResult
from gpuctl.errors import GpuctlError
from gpuctl.exitcodes import ExitCode
from gpuctl.model.outcome import DetailValue, OutcomeStep
from gpuctl.model.plan import Action, DeviceRef, PlanDocument, PlannedMove
from gpuctl.model.policy import Policy
from gpuctl.model.snapshot import Snapshot
from gpuctl.policy.guards import require_good_data
from gpuctl.policy.verdict import Verdict
from gpuctl.policy.verification import still_stands

log = logging.getLogger(__name__)


class RebalanceCluster(Protocol):
    """Where a plan is carried out: pods are evicted, VMs are migrated, or both."""

    @property
    def backends(self) -> Mapping[Action, str]:
        """The APIs that can be changed, for the journal."""

    def steps(
        self, moves: Sequence[PlannedMove], snapshot: Snapshot
    ) -> tuple[list[Step], list[OutcomeStep]]:
        """The steps of the moves, in their order, with the ids of the moves; and the ends of
        those that a rule refuses, which the plan could not know."""

    def protected(self, snapshot: Snapshot) -> Mapping[str, Verdict]:
        """Workloads that the APIs say must stay, beyond what the policy knows; by id."""

    def actuators(self, steps: Sequence[Step]) -> Mapping[Action, Actuator]:
        """What carries these steps out."""

    def recoverers(self) -> Mapping[Action, Actuator]:
        """What looks up the steps of runs that died."""

    def holder(self) -> Holder:
        """What keeps the scheduler away from nodes."""

    def intents(self) -> IntentSink:
        """Where a scheduler extender reads where successors should go."""

    def exclusively(
        self, who: LockHolder, patience: LockPatience
    ) -> AbstractContextManager[Callable[[], None]]:
        """Within, no other run on any machine acts; gives the fence to ask before a write."""


class IntentSink(Protocol):
    """Where landing intents are put. Raises GpuctlError; a move goes on without."""

    def announce(self, step: Step, run_id: str) -> None:
        """The successor of the step's pod should go to the step's target."""

    def withdraw(self, step: Step, run_id: str) -> None:
        """It has landed, or was not evicted after all."""


class NoIntents:
    """Where nobody reads intents."""

    def announce(self, step: Step, run_id: str) -> None:
        """Nobody to tell."""

    def withdraw(self, step: Step, run_id: str) -> None:
        """Nobody to tell."""


@dataclass(slots=True)
class Outlook:
    """Looks at the cluster again before each move, and says no when the plan no longer fits.

    `observe` takes a fresh snapshot over a short window. Ids of moves that are made go into
    `done`. Safe to use from several threads.
    """

    plan: PlanDocument
    policy: Policy
    min_coverage: float
    observe: Callable[[], Snapshot]
    done: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def objection(self, step: Step) -> StepResult | None:
        """Why the step must not be begun; None when it may."""
        try:
            with self._lock:
                snapshot = self.observe()
                done = frozenset(self.done)
            require_good_data(snapshot, self.policy, min_coverage=self.min_coverage)
        except GpuctlError as exc:
            # Metrics that are gone say nothing about what the moves so far have done.
            return StepResult(
                status="refused",
                reason=exc.what,
                detail={"rule": "metrics"},
                exit_code=ExitCode(exc.exit_code),
                ends_run=True,
            )
        move = next(one for one in self.plan.moves if one.id == step.id)
        verdict = still_stands(self.plan, move, done, snapshot)
        if verdict.allowed:
            return None
        return StepResult(
            status="refused",
            reason=verdict.reason,
            detail={"rule": verdict.rule},
            exit_code=ExitCode.REFUSED,
            ends_run=verdict.rule == "hotter-than-predicted",
        )

    def made(self, step: Step) -> None:
        """The step's move has been made."""
        with self._lock:
            self.done.add(step.id)


@dataclass(frozen=True, slots=True)
class Guided:
    """Carries out the steps of a plan by another actuator: checked against the world just before,
    announced to the scheduler, and compared with the plan afterwards."""

    inner: Actuator
    outlook: Outlook
    intents: IntentSink

    def preflight(self, step: Step, conduct: Conduct) -> StepResult | None:
        """The world first: it is what changes fastest."""
        return self.outlook.objection(step) or self.inner.preflight(step, conduct)

    def execute(self, step: Step, conduct: Conduct) -> StepResult:
        """Announce where it should go, then do it."""
        self._tell(self.intents.announce, step, conduct)
        try:
            result = self.inner.execute(step, conduct)
        except GpuctlError:
            self._tell(self.intents.withdraw, step, conduct)
            raise
        if result.changed:
            self.outlook.made(step)
        else:
            self._tell(self.intents.withdraw, step, conduct)
        return result

    def verify(self, step: Step, done: StepResult, conduct: Conduct) -> StepResult:
        """Where it landed, and whether that is what was planned.

        One that is still pending keeps its intent, until that runs out.
        """
        result = self.inner.verify(step, done, conduct)
        if result.landed is None:
            return result
        self._tell(self.intents.withdraw, step, conduct)
        return beside_plan(step, result)

    def look_up(self, step: Step) -> StepResult:
        """As the actuator does it."""
        return self.inner.look_up(step)

    def _tell(self, tell: Callable[[Step, str], None], step: Step, conduct: Conduct) -> None:
        if step.action != "evict" or step.target is None:
            return
        try:
            conduct.fence()
            tell(step, conduct.run_id)
        except GpuctlError as exc:
            log.info("no landing intent", extra={"step": step.id, "why": exc.what})
            conduct.say(f"no landing intent for the scheduler: {exc.what}")


def beside_plan(step: Step, result: StepResult) -> StepResult:
    """The result with how it compares to the plan: which card of a node a pod gets is the device
    plugin's choice, so the node counts."""
    landed, planned = result.landed, step.target
    if landed is None or planned is None:
        return result
    as_planned = landed.node == planned.node
    detail: dict[str, DetailValue] = {
        **result.detail,
        "planned": planned.address,
        "as_planned": as_planned,
    }
    if as_planned:
        same = landed.gpu in (None, planned.gpu)
        words = "as planned" if same else f"on the planned node, where {planned.address} was meant"
    else:
        words = f"landed elsewhere than planned, which was {planned.address}"
    return replace(result, reason=f"{result.reason}; {words}", detail=detail)


@dataclass(frozen=True, slots=True)
class Routed:
    """One actuator for each step: a migration's knows its VM and its target."""

    by_step: Mapping[str, Actuator]
    others: Actuator

    def preflight(self, step: Step, conduct: Conduct) -> StepResult | None:
        return self._of(step).preflight(step, conduct)

    def execute(self, step: Step, conduct: Conduct) -> StepResult:
        return self._of(step).execute(step, conduct)

    def verify(self, step: Step, done: StepResult, conduct: Conduct) -> StepResult:
        return self._of(step).verify(step, done, conduct)

    def look_up(self, step: Step) -> StepResult:
        """By the one that needs no target: the step may be another run's."""
        return self.others.look_up(step)

    def _of(self, step: Step) -> Actuator:
        return self.by_step.get(step.id, self.others)


def guided(
    actuators: Mapping[Action, Actuator], outlook: Outlook, intents: IntentSink
) -> dict[Action, Actuator]:
    """The actuators, each guided by the plan."""
    return {action: Guided(one, outlook, intents) for action, one in actuators.items()}


def of_move(step: Step, move: PlannedMove, *, target_node: str) -> Step:
    """An action's own step as the step of a planned move.

    Its nodes are named as the action's API names them, `target_node` included: metrics may call
    them otherwise.
    """
    target = DeviceRef(node=target_node, gpu=move.target.gpu, mig_id=move.target.mig_id)
    source = step.source or move.source
    if source.gpu is None:
        source = DeviceRef(node=source.node, gpu=move.source.gpu, mig_id=move.source.mig_id)
    return replace(step, id=move.id, source=source, target=target, wave=move.wave)

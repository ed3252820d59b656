"""What a migration is judged by before it is asked for, and the step that it becomes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from gpuctl.actions.steps import Conduct, Step, StepResult
from gpuctl.errors import GpuctlError
from gpuctl.exitcodes import ExitCode
from gpuctl.model.migration import Check, MigrationFacts
from gpuctl.model.outcome import DetailValue
from gpuctl.model.plan import DeviceRef
from gpuctl.policy.classes import PINNED_TAG
from gpuctl.policy.migration.checks import checklist
from gpuctl.policy.migration.estimate import Estimate, estimate

#: What neither the server nor QEMU would stop in time: not to know it is a refusal.
_MUST_BE_KNOWN = frozenset({"vm", "state", "target", "preconditions", "passthrough"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What was overridden, and what has to be known here.

    `has_kubernetes`: a Kubernetes cluster is configured, so that whether one of its nodes runs in
    the VM has to be known.
    """

    force_pinned: bool = False
    has_kubernetes: bool = False


@dataclass(frozen=True, slots=True)
class Appraisal:
    """The checklist of one move, and what it should cost."""

    facts: MigrationFacts
    checks: tuple[Check, ...]
    cost: Estimate
    rules: Rules

    @property
    def is_there(self) -> bool:
        """Whether the VM is on its target already."""
        vm = self.facts.vm
        return vm is not None and not vm.is_template and vm.node == self.facts.wish.target

    @property
    def refusals(self) -> tuple[Check, ...]:
        """The checks that forbid the move."""
        return tuple(check for check in self.checks if self._forbids(check))

    @property
    def unknown(self) -> tuple[Check, ...]:
        """The checks that could not be made and do not forbid the move."""
        return tuple(
            one for one in self.checks if one.outcome == "unknown" and not self._forbids(one)
        )

    def _forbids(self, check: Check) -> bool:
        if check.outcome != "unknown":
            return check.outcome == "fail"
        if check.name == "kubernetes-node":
            return self.rules.has_kubernetes and not self.facts.wish.drained
        return check.name in _MUST_BE_KNOWN

    def detail(self) -> dict[str, DetailValue]:
        """The checklist for a document: `check.NAME` -> `OUTCOME: REASON`."""
        return {f"check.{one.name}": f"{one.outcome}: {one.reason}" for one in self.checks}


def appraise(
    facts: MigrationFacts,
    *,
    tags: Collection[str],
    rules: Rules,
    bwlimit_kib: int | None,
) -> Appraisal:
    """The whole checklist, gpuctl's own rule about pinned VMs included."""
    checks = checklist(facts)
    if facts.vm is not None:
        checks = (*checks, _pinned(tags, rules))
    return Appraisal(facts, checks, estimate(facts, bwlimit_kib=bwlimit_kib), rules)


def _pinned(tags: Collection[str], rules: Rules) -> Check:
    if PINNED_TAG not in tags:
        return Check("pinned", "ok", f"it has no tag {PINNED_TAG}")
    if rules.force_pinned:
        return Check("pinned", "warn", f"it has the tag {PINNED_TAG}, overridden")
    return Check("pinned", "fail", f"it has the tag {PINNED_TAG}", "--force-pinned moves it anyway")


def judged(appraisal: Appraisal) -> StepResult | None:
    """Why the move is not to be begun; None when nothing forbids it."""
    if appraisal.is_there:
        return StepResult(
            status="unchanged", reason=f"it is on {appraisal.facts.wish.target} already"
        )
    refusals = appraisal.refusals
    if not refusals:
        return None
    first = refusals[0]
    parts = [f"{one.name}: {one.reason}" for one in refusals]
    parts += [first.hint] if first.hint else []
    return StepResult(
        status="refused",
        reason="; ".join(parts),
        detail={"rule": first.name},
        exit_code=ExitCode.REFUSED,
    )


@dataclass(frozen=True, slots=True)
class Judged:
    """The actuator of a move that was judged already and is not made: a dry run, or a refusal."""

    verdict: StepResult | None

    def preflight(self, step: Step, conduct: Conduct) -> StepResult | None:
        """What was found."""
        return self.verdict

    def execute(self, step: Step, conduct: Conduct) -> StepResult:
        """Nothing is done."""
        return StepResult(status="allowed", reason="would be migrated")

    def verify(self, step: Step, done: StepResult, conduct: Conduct) -> StepResult:
        """Nothing was done."""
        return done

    def look_up(self, step: Step) -> StepResult:
        """Raises GpuctlError: it never sends anything."""
        raise GpuctlError("nothing was sent")


def migration_step(
    appraisal: Appraisal, *, last_task: str, source: DeviceRef | None, from_pct: float | None
) -> Step:
    """The step of one move. `source` where the device is known, `from_pct` its load."""
    facts = appraisal.facts
    vm = facts.vm
    target = DeviceRef(node=facts.wish.target, gpu=None) if facts.wish.target else None
    if vm is None:
        return Step(id="s1", action="migrate", workload=f"vm/{facts.asked}", target=target)
    known = {
        "vmid": str(vm.vmid),
        "name": vm.name,
        "online": str(int(facts.is_live)),
        "was": vm.status,
        "last_task": last_task,
    }
    if from_pct is not None:
        known["from_utilization_pct"] = f"{from_pct:.1f}"
    return Step(
        id="s1",
        action="migrate",
        workload=f"vm/{vm.vmid}",
        source=source or DeviceRef(node=vm.node, gpu=None),
        target=target,
        facts=known,
    )

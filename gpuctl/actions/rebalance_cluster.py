"""The clusters that a plan is carried out on: Kubernetes and Proxmox VE together, or the demo's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuctl.actions.cluster import DemoCluster, EvictionCluster, LockPatience, eviction_steps
from gpuctl.actions.holds import NoHolder
from gpuctl.actions.lock import Holder as LockHolder
from gpuctl.actions.migrate import ForeignHolds
from gpuctl.actions.migrate_cluster import DemoMigrations, Manner, MigrationCluster
from gpuctl.actions.migrate_plan import judged
from gpuctl.actions.migrate_sim import SimMigrator
from gpuctl.actions.rebalance import IntentSink, NoIntents, Routed, of_move
from gpuctl.actions.selection import EvictionRequest, select
from gpuctl.actions.sim_evictor import SimEvictor
from gpuctl.actions.steps import Actuator, Holder, Step, StepResult, outcome_step, unfenced
from gpuctl.exitcodes import ExitCode
from gpuctl.inventory.proxmox_join import same_host
from gpuctl.model.migration import Wish
from gpuctl.model.outcome import OutcomeStep
from gpuctl.model.plan import Action, PlannedMove
from gpuctl.model.policy import Policy
from gpuctl.model.snapshot import Snapshot
from gpuctl.policy.verdict import Verdict

if TYPE_CHECKING:
    from gpuctl.actions.cluster import LiveCluster
    from gpuctl.actions.evictor import EvictorOptions
    from gpuctl.actions.migrate_cluster import LiveMigrations


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRebalance:
    """Real clusters; None for one that is not configured.

    `pods` gives the cluster as it was last read. `vms` gives the migrations of one VM by its id,
    `vm_nodes` the names of the nodes by Proxmox VE.
    """

    policy: Policy
    evictor: EvictorOptions
    pods: Callable[[], LiveCluster] | None
    vms: Callable[[str], LiveMigrations] | None
    vm_nodes: Callable[[], Sequence[str]]
    sink: IntentSink

    @property
    def backends(self) -> Mapping[Action, str]:
        found: dict[Action, str] = {}
        if self.pods is not None:
            found["evict"] = self.pods().backend
        if self.vms is not None:
            found["migrate"] = self.vms("").backend
        return found

    def steps(
        self, moves: Sequence[PlannedMove], snapshot: Snapshot
    ) -> tuple[list[Step], list[OutcomeStep]]:
        makers = _Makers(
            self.policy,
            snapshot,
            None if self.pods is None else self.pods(),
            self.vms,
            lambda name: _named(name, self.vm_nodes()),
            self._pod_node,
        )
        return makers.steps(moves)

    def _pod_node(self, name: str) -> str:
        return name if self.pods is None else _named(name, list(self.pods().inventory.nodes))

    def protected(self, snapshot: Snapshot) -> Mapping[str, Verdict]:
        if self.pods is None:
            return {}
        return _protected(self.pods(), snapshot, self.policy)

    def actuators(self, steps: Sequence[Step]) -> Mapping[Action, Actuator]:
        found: dict[Action, Actuator] = {}
        if self.pods is not None:
            found["evict"] = self.pods().evictor(self.evictor)
        if self.vms is not None:
            found["migrate"] = Routed(
                {one.id: _migrator(self.vms, one) for one in steps if one.action == "migrate"},
                self.vms("").follower(),
            )
        return found

    def recoverers(self) -> Mapping[Action, Actuator]:
        return self.actuators(())

    def holder(self) -> Holder:
        return ForeignHolds() if self.pods is None else self.pods().holder()

    def intents(self) -> IntentSink:
        return self.sink

    def exclusively(
        self, who: LockHolder, patience: LockPatience
    ) -> AbstractContextManager[Callable[[], None]]:
        if self.pods is None:
            return nullcontext(unfenced)
        return self.pods().exclusively(who, patience)


@dataclass(frozen=True, slots=True)
class DemoRebalance:
    """A simulated cluster, whose state is the demo's diary. `asked` gives one VM's migrations."""

    scenario: str
    environ: Mapping[str, str]
    policy: Policy
    manner: Manner
    pause_seconds: float

    @property
    def backends(self) -> Mapping[Action, str]:
        name = f"demo {self.scenario}"
        return {"evict": name, "migrate": name}

    def steps(
        self, moves: Sequence[PlannedMove], snapshot: Snapshot
    ) -> tuple[list[Step], list[OutcomeStep]]:
        pods = DemoCluster(self.scenario, self.environ)
        return _Makers(self.policy, snapshot, pods, self._vm, _same, _same).steps(moves)

    def protected(self, snapshot: Snapshot) -> Mapping[str, Verdict]:
        return {}

    def actuators(self, steps: Sequence[Step]) -> Mapping[Action, Actuator]:
        nobody = SimMigrator(
            scenario=self.scenario,
            environ=self.environ,
            check=lambda _: None,
            words=self.manner.words,
        )
        moved = {one.id: _migrator(self._vm, one) for one in steps if one.action == "migrate"}
        return {
            "evict": SimEvictor(self.scenario, self.environ),
            "migrate": Routed(moved, nobody),
        }

    def recoverers(self) -> Mapping[Action, Actuator]:
        return self.actuators(())

    def holder(self) -> Holder:
        return NoHolder()

    def intents(self) -> IntentSink:
        return NoIntents()

    def exclusively(
        self, who: LockHolder, patience: LockPatience
    ) -> AbstractContextManager[Callable[[], None]]:
        return nullcontext(unfenced)

    def _vm(self, asked: str) -> DemoMigrations:
        return DemoMigrations(
            self.scenario, self.environ, self.policy, asked, self.manner, self.pause_seconds
        )


def _same(name: str) -> str:
    return name


def _named(name: str, known: Sequence[str]) -> str:
    """What an API calls the host that metrics call `name`; the same when it knows no other."""
    if name in known:
        return name
    return next((one for one in known if same_host(one, name)), name)


def _protected(cluster: LiveCluster, snapshot: Snapshot, policy: Policy) -> dict[str, Verdict]:
    """Pods that evict would refuse for what only Kubernetes knows of them: data in an emptyDir."""
    known = cluster.facts()
    with_data = tuple(
        one.id for one in snapshot.workloads if one.kind == "pod" and known.get(one.id) is not None
    )
    if not with_data:
        return {}
    judged_pods = select(EvictionRequest(pods=with_data), snapshot, policy, known)
    return {
        one.workload.id: one.verdict
        for one in judged_pods.refused
        if one.verdict.rule == "emptydir"
    }


def _migrator(vms: Callable[[str], MigrationCluster], step: Step) -> Actuator:
    assert step.target is not None  # noqa: S101 - every planned move has one
    return vms(step.workload).actuator(Wish(target=step.target.node), step)


@dataclass(frozen=True, slots=True)
class _Makers:
    """Makes steps of moves by the means of each action; names of nodes are put into its API's."""

    policy: Policy
    snapshot: Snapshot
    pods: EvictionCluster | None
    vms: Callable[[str], MigrationCluster] | None
    vm_node: Callable[[str], str]
    pod_node: Callable[[str], str]

    def steps(self, moves: Sequence[PlannedMove]) -> tuple[list[Step], list[OutcomeStep]]:
        evictions = self._evictions([one for one in moves if one.action == "evict"])
        steps: list[Step] = []
        refused: list[OutcomeStep] = []
        for move in moves:
            made = self._unknown(move) or (
                evictions[move.id] if move.action == "evict" else self._migration(move)
            )
            if isinstance(made, Step):
                steps.append(made)
            else:
                refused.append(made)
        return steps, refused

    def _unknown(self, move: PlannedMove) -> OutcomeStep | None:
        """A plan on paper may rest on what nobody could say; an action may not."""
        if not move.unknown:
            return None
        rules = ", ".join(move.unknown)
        return _refusal(move, move.unknown[0], f"not checked for want of an inventory: {rules}")

    def _evictions(self, moves: Sequence[PlannedMove]) -> dict[str, Step | OutcomeStep]:
        if self.pods is None:
            return {one.id: _refusal(one, "no-kubernetes", _NO_KUBERNETES) for one in moves}
        if not moves:
            return {}
        asked = EvictionRequest(pods=tuple(one.workload for one in moves))
        chosen = select(asked, self.snapshot, self.policy, self.pods.facts())
        steps, refused = eviction_steps(chosen, self.pods)
        by_workload = {one.workload: one for one in steps}
        reasons = {one.workload: one for one in refused}
        found: dict[str, Step | OutcomeStep] = {}
        for move in moves:
            step = by_workload.get(move.workload)
            if step is not None:
                node = self.pod_node(move.target.node)
                found[move.id] = of_move(step, move, target_node=node)
            else:
                why = reasons[move.workload]
                found[move.id] = _refusal(move, str(why.detail.get("rule")), why.reason)
        return found

    def _migration(self, move: PlannedMove) -> Step | OutcomeStep:
        if self.vms is None:
            return _refusal(move, "no-proxmox", _NO_PROXMOX)
        vm = self.vms(move.workload)
        node = self.vm_node(move.target.node)
        appraisal = vm.appraise(Wish(target=node))
        verdict = judged(appraisal)
        step = of_move(vm.step(appraisal), move, target_node=node)
        return step if verdict is None else outcome_step(step, verdict)


_NO_KUBERNETES = "no Kubernetes is configured, so no pod can be evicted"
_NO_PROXMOX = "no Proxmox VE is configured, so no VM can be migrated"


def _refusal(move: PlannedMove, rule: str, reason: str) -> OutcomeStep:
    result = StepResult(
        status="refused", reason=reason, detail={"rule": rule}, exit_code=ExitCode.REFUSED
    )
    step = Step(
        id=move.id,
        action=move.action,
        workload=move.workload,
        source=move.source,
        target=move.target,
        wave=move.wave,
    )
    return outcome_step(step, result)

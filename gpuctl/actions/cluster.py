"""What an eviction needs of a cluster, be it a real one or the demo's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from gpuctl.actions.holds import KubernetesHolder, NoHolder
from gpuctl.actions.landing import Locator
from gpuctl.actions.lease import NAME, cluster_lease
from gpuctl.actions.lock import Holder as LockHolder
from gpuctl.actions.selection import Candidate, PodFacts, Selected, way_out
from gpuctl.actions.steps import Actuator, Holder, Step, StepResult, outcome_step, unfenced
from gpuctl.clients.kubernetes.problems import ForbiddenError, NotFoundError
from gpuctl.clients.kubernetes.reading import NODES
from gpuctl.clock import Clock
from gpuctl.exitcodes import ExitCode
from gpuctl.inventory.kubernetes import ClusterInventory
from gpuctl.model.outcome import OutcomeStep

if TYPE_CHECKING:
    from gpuctl.actions.evictor import EvictorOptions
    from gpuctl.clients.kubernetes.client import KubernetesClient
    from gpuctl.clients.kubernetes.wire import Budget, Pod


@dataclass(frozen=True, slots=True)
class LockPatience:
    """How long to wait for another run to end, by `wait`; `say` tells what is not locked."""

    seconds: float
    wait: Callable[[float], object]
    say: Callable[[str], None]


class EvictionCluster(Protocol):
    """Where pods are evicted."""

    @property
    def backend(self) -> str:
        """The API that is changed, for the journal."""

    def facts(self) -> Mapping[str, PodFacts]:
        """What is known of each pod beyond the model, by `namespace/name`."""

    def step_facts(self, candidate: Candidate) -> dict[str, str]:
        """What identifies the pod to the actuator."""

    def outlook(self, pod: str) -> str:
        """What its disruption budgets say before the first try; "" when nothing."""

    def evictor(self, options: EvictorOptions) -> Actuator:
        """The actuator."""

    def holder(self) -> Holder:
        """What keeps the scheduler away from nodes."""

    def hold_problem(self) -> str:
        """Why a node could not be held, asked without doing it; "" when it could."""

    def exclusively(
        self, who: LockHolder, patience: LockPatience
    ) -> AbstractContextManager[Callable[[], None]]:
        """Within, no other run on any machine acts on it; gives the fence to ask before a write.

        Raises LockedError.
        """


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """A Kubernetes cluster as it was read just now."""

    client: KubernetesClient
    inventory: ClusterInventory
    locator: Locator
    clock: Clock
    lease_namespace: str

    @property
    def backend(self) -> str:
        return self.client.shown_url

    def facts(self) -> Mapping[str, PodFacts]:
        return {name: _pod_facts(pod) for name, pod in self.inventory.pods.items()}

    def step_facts(self, candidate: Candidate) -> dict[str, str]:
        pod = self.inventory.pods[candidate.workload.id]
        controller = pod.metadata.controller
        facts = {
            "uid": pod.metadata.uid,
            "owner": candidate.workload.owner or "",
            "node": pod.spec.node_name,
        }
        if controller is not None:
            facts |= {
                "owner_uid": controller.uid,
                "controller": f"{controller.kind}/{controller.name}",
                "controller_api": controller.api_version,
                "template_hash": pod.metadata.labels.get("pod-template-hash", ""),
            }
        return facts | _load(candidate)

    def outlook(self, pod: str) -> str:
        from gpuctl.actions.budgets import outlook

        budgets = self._budgets(pod)
        if len(budgets) > 1:
            return f"{len(budgets)} budgets select it, and the API then refuses every eviction"
        seen = [outlook(budget, self.clock.now()) for budget in budgets]
        return "; ".join(f"{one.text}; {one.chance}" for one in seen if one.allowed < 1)

    def evictor(self, options: EvictorOptions) -> Actuator:
        from gpuctl.actions.evictor import Evictor

        return Evictor(self.client, self.clock, self.locator, options, self._budgets)

    def holder(self) -> Holder:
        return KubernetesHolder(self.client)

    def hold_problem(self) -> str:
        answer = self.client.may("patch", NODES)
        if answer.allowed:
            return ""
        return f"no right to patch nodes, so none can be held; add to its role: {answer.rule}"

    @contextmanager
    def exclusively(self, who: LockHolder, patience: LockPatience) -> Iterator[Callable[[], None]]:
        with ExitStack() as stack:
            fence = unfenced
            try:
                lease = cluster_lease(
                    self.client,
                    self.lease_namespace,
                    who,
                    clock=self.clock,
                    patience_seconds=patience.seconds,
                    wait=patience.wait,
                )
                fence = stack.enter_context(lease).check
            except (ForbiddenError, NotFoundError) as exc:
                # A person at night must not be stopped by that; this machine is locked anyway.
                patience.say(
                    f"no Lease {self.lease_namespace}/{NAME}, so runs on other machines are not "
                    f"kept out: {exc.what}; {exc.hint or exc.cause}"
                )
            yield fence

    def _budgets(self, pod: str) -> Sequence[Budget]:
        found = self.inventory.pods.get(pod)
        return () if found is None else self.inventory.budgets_of(found) or ()


@dataclass(frozen=True, slots=True)
class DemoCluster:
    """A simulated cluster, whose state is the demo's diary."""

    scenario: str
    environ: Mapping[str, str]

    @property
    def backend(self) -> str:
        return f"demo {self.scenario}"

    def facts(self) -> Mapping[str, PodFacts]:
        return {}

    def step_facts(self, candidate: Candidate) -> dict[str, str]:
        return _load(candidate)

    def outlook(self, pod: str) -> str:
        return ""

    def evictor(self, options: EvictorOptions) -> Actuator:
        from gpuctl.actions.sim_evictor import SimEvictor

        return SimEvictor(self.scenario, self.environ)

    def holder(self) -> Holder:
        return NoHolder()

    def hold_problem(self) -> str:
        return ""

    def exclusively(
        self, who: LockHolder, patience: LockPatience
    ) -> AbstractContextManager[Callable[[], None]]:
        return nullcontext(unfenced)


def _pod_facts(pod: Pod) -> PodFacts:
    controller = pod.metadata.controller
    disks = (
        volume.name
        for volume in pod.spec.volumes
        if volume.empty_dir is not None and volume.empty_dir.get("medium") != "Memory"
    )
    return PodFacts(pod.metadata.uid, controller.uid if controller else "", tuple(disks))


def _load(candidate: Candidate) -> dict[str, str]:
    known = candidate.source_pct
    return {} if known is None else {"from_utilization_pct": f"{known:.1f}"}


def eviction_steps(
    selected: Selected, cluster: EvictionCluster
) -> tuple[list[Step], list[OutcomeStep]]:
    """The steps to carry out, and the ends of those that a rule refused."""
    steps = [
        Step(
            id=f"s{number}",
            action="evict",
            workload=one.workload.id,
            source=one.source,
            facts=cluster.step_facts(one),
        )
        for number, one in enumerate(selected.chosen, start=1)
    ]
    refused = [
        _refused(one, f"s{number}")
        for number, one in enumerate(selected.refused, start=len(steps) + 1)
    ]
    return steps, refused


def _refused(one: Candidate, step_id: str) -> OutcomeStep:
    result = StepResult(
        status="refused",
        reason=way_out(one.verdict),
        detail={"rule": one.verdict.rule},
        exit_code=ExitCode.REFUSED,
    )
    step = Step(id=step_id, action="evict", workload=one.workload.id, source=one.source)
    return outcome_step(step, result)

"""The objects that gpuctl reads: pods, nodes, budgets, leases; every other field is skipped."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct, field

from gpuctl.clients.kubernetes.meta import (
    Condition,
    LabelRequirement,
    LabelSelector,
    ListMeta,
    ObjectMeta,
)


class NodeSelectorTerm(Struct, frozen=True, kw_only=True, rename="camel"):
    """Conditions on a node that must all hold."""

    match_expressions: tuple[LabelRequirement, ...] = ()
    match_fields: tuple[LabelRequirement, ...] = ()


class NodeSelector(Struct, frozen=True, kw_only=True, rename="camel"):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class NodeAffinity(Struct, frozen=True, kw_only=True, rename="camel"):
    """The part of a node affinity that is binding."""

    required: NodeSelector | None = field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Struct, frozen=True, kw_only=True, rename="camel"):
    """Pods to be near to, or away from."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: str = ""


class PodAffinity(Struct, frozen=True, kw_only=True, rename="camel"):
    """The part of a pod (anti-)affinity that is binding."""

    required: tuple[PodAffinityTerm, ...] = field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where a pod may run."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Struct, frozen=True, kw_only=True, rename="camel"):
    """A taint that a pod puts up with."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class Resources(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a container asks for; quantities are text or, from some writers, numbers."""

    requests: dict[str, str | int] = {}
    limits: dict[str, str | int] = {}


class Container(Struct, frozen=True, kw_only=True, rename="camel"):
    """One container of a pod; an init container with `restart_policy` Always is a sidecar."""

    name: str = ""
    resources: Resources = Resources()
    restart_policy: str | None = None


class Volume(Struct, frozen=True, kw_only=True, rename="camel"):
    """One volume; of its kinds only those that decide whether a pod may go. None: not that kind."""

    name: str = ""
    empty_dir: dict[str, Any] | None = None
    host_path: dict[str, Any] | None = None
    persistent_volume_claim: dict[str, Any] | None = None
    ephemeral: msgspec.Raw | None = None


class PodSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a pod was asked to be."""

    node_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    restart_policy: str = "Always"
    scheduler_name: str = ""
    termination_grace_period_seconds: int | None = None
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    containers: tuple[Container, ...] | None = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[dict[str, Any], ...] = ()


class PodStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """What became of a pod. `phase` is Pending, Running, Succeeded, Failed or Unknown."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: datetime | None = None
    conditions: tuple[Condition, ...] = ()


class Pod(Struct, frozen=True, kw_only=True, rename="camel"):
    """A pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def id(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def is_terminating(self) -> bool:
        """Whether it was told to go; it holds its GPUs until it is gone."""
        return self.metadata.deletion_timestamp is not None

    @property
    def is_finished(self) -> bool:
        """Whether it has ended for good and holds nothing any more."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def is_ready(self) -> bool:
        """Whether it serves; a pod that terminates often still says so."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)

    @property
    def unscheduled_reason(self) -> str | None:
        """Why the scheduler found no node, in its own words."""
        for condition in self.status.conditions:
            if condition.type == "PodScheduled" and condition.status == "False":
                return condition.message or condition.reason or "no reason given"
        return None


class Taint(Struct, frozen=True, kw_only=True, rename="camel"):
    """A taint of a node; `time_added` is kept as text, only to be written back."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str = ""


class NodeSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a node was asked to be; `unschedulable` after a cordon."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = field(default="", name="providerID")


class NodeInfo(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the kubelet tells of its machine."""

    system_uuid: str = field(default="", name="systemUUID")
    machine_id: str = field(default="", name="machineID")
    kubelet_version: str = ""


class NodeAddress(Struct, frozen=True, kw_only=True, rename="camel"):
    """One name or address of a node."""

    type: str = ""
    address: str = ""


class NodeStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """How a node is; `allocatable` is what pods can have."""

    allocatable: dict[str, str] = {}
    capacity: dict[str, str] = {}
    conditions: tuple[Condition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    node_info: NodeInfo = NodeInfo()


class Node(Struct, frozen=True, kw_only=True, rename="camel"):
    """A node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def name(self) -> str:
        """The node's name in Kubernetes."""
        return self.metadata.name

    @property
    def is_ready(self) -> bool:
        """Whether the kubelet reports it healthy."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)

    @property
    def is_schedulable(self) -> bool:
        """Whether it is not cordoned; taints are another matter."""
        return not self.spec.unschedulable


class BudgetSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a budget demands. `selector` None selects nothing, an empty one every pod."""

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    unhealthy_pod_eviction_policy: str | None = None


class BudgetStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """A budget's numbers; old as long as `observed_generation` lags behind the generation."""

    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    observed_generation: int | None = None
    disrupted_pods: dict[str, datetime] = {}


class Budget(Struct, frozen=True, kw_only=True, rename="camel"):
    """A PodDisruptionBudget."""

    metadata: ObjectMeta = ObjectMeta()
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()

    @property
    def is_processed(self) -> bool:
        """Whether the numbers belong to the present text of the budget."""
        generation = self.metadata.generation
        observed = self.status.observed_generation
        return generation is None or (observed is not None and observed >= generation)


class PriorityClass(Struct, frozen=True, kw_only=True, rename="camel"):
    """A name for a priority."""

    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    global_default: bool = False


class LeaseSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """Who holds a lock, since when, and for how long without a sign of life."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    lease_transitions: int | None = None


class Lease(Struct, frozen=True, kw_only=True, rename="camel"):
    """A lock."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


class ConfigMap(Struct, frozen=True, kw_only=True, rename="camel"):
    """Small texts by name."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}


class PodList(Struct, frozen=True, kw_only=True, rename="camel"):
    """A page of pods."""

    metadata: ListMeta = ListMeta()
    items: tuple[Pod, ...] | None = ()


class NodeList(Struct, frozen=True, kw_only=True, rename="camel"):
    """A page of nodes."""

    metadata: ListMeta = ListMeta()
    items: tuple[Node, ...] | None = ()


class BudgetList(Struct, frozen=True, kw_only=True, rename="camel"):
    """A page of budgets."""

    metadata: ListMeta = ListMeta()
    items: tuple[Budget, ...] | None = ()


class PriorityClassList(Struct, frozen=True, kw_only=True, rename="camel"):
    """A page of priority classes."""

    metadata: ListMeta = ListMeta()
    items: tuple[PriorityClass, ...] | None = ()


def as_micro_time(at: datetime) -> str:
    """A time as Leases and Events want it: UTC with exactly six digits of a second."""
    if at.tzinfo is None:
        raise ValueError(f"{at.isoformat()} has no time zone")
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

"""Who runs where, by Kubernetes: one pass over nodes, pods and what keeps the pods.

`KubernetesInventory.read` gives a `ClusterInventory`, which answers questions about owners,
budgets and free devices, and joins the pods to a snapshot's GPUs (`kubernetes_join`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import Any, Literal

from gpuctl.clients.concurrently import map_concurrently
from gpuctl.clients.kubernetes.client import KubernetesClient
from gpuctl.clients.kubernetes.meta import OnlyMetadata, OwnerReference
from gpuctl.clients.kubernetes.problems import ForbiddenError
from gpuctl.clients.kubernetes.reading import Selection
from gpuctl.clients.kubernetes.wire import Budget, Node, Pod
from gpuctl.inventory.kubernetes_facts import (
    gpu_requests,
    is_mirror,
    offered,
    selects,
)
from gpuctl.model.snapshot import Snapshot

# What has ended holds nothing; clusters with cron jobs keep thousands of such pods.
_UNFINISHED = Selection(fields="status.phase!=Succeeded,status.phase!=Failed")
_MOST_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Owner:
    """What replaces a pod. `uid` is the stable key: the pod's successor has the same."""

    kind: str
    name: str
    uid: str

    def __str__(self) -> str:
        """`Kind/name`."""
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True)
class ClusterInventory:
    """Nodes by name and unfinished pods by `namespace/name`, at one moment.

    `budgets` is None when they were not read or may not be; `replica_owners` are the owners of
    ReplicaSets by the ReplicaSet's UID. `warnings` say what is missing and what is lost by it.
    """

    server: str
    nodes: Mapping[str, Node]
    pods: Mapping[str, Pod]
    budgets: tuple[Budget, ...] | None = None
    replica_owners: Mapping[str, OwnerReference] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def joined(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with this cluster's pods as workloads."""
        from gpuctl.inventory.kubernetes_join import join

        return join(snapshot, self)

    def owner_of(self, pod: Pod) -> Owner | None:
        """What replaces the pod: its Deployment rather than the ReplicaSet in between.

        For a mirror pod its node; None for a bare pod.
        """
        controller = pod.metadata.controller
        if is_mirror(pod):
            name = controller.name if controller else pod.spec.node_name
            return Owner("Node", name, controller.uid if controller else "")
        if controller is None:
            return None
        above = self.replica_owners.get(controller.uid) if controller.kind == "ReplicaSet" else None
        kept = above or controller
        return Owner(kept.kind, kept.name, kept.uid)

    def pods_of(self, owner: Owner) -> tuple[Pod, ...]:
        """All pods of an owner, terminating ones included."""
        return tuple(pod for pod in self.pods.values() if self.owner_of(pod) == owner)

    def budgets_of(self, pod: Pod) -> tuple[Budget, ...] | None:
        """The budgets that select a pod; None when nobody could read any."""
        if self.budgets is None:
            return None
        meta = pod.metadata
        return tuple(
            budget
            for budget in self.budgets
            if budget.metadata.namespace == meta.namespace
            and selects(budget.spec.selector, meta.labels)
        )

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        """The pods bound to a node; terminating ones still hold their devices."""
        return tuple(pod for pod in self.pods.values() if pod.spec.node_name == node)

    def free_devices(self, node: str) -> dict[str, int]:
        """GPU resources of a node that no pod has asked for; empty for an unknown node."""
        known = self.nodes.get(node)
        if known is None:
            return {}
        free = offered(known)
        for pod in self.pods_on(node):
            for resource, count in gpu_requests(pod).items():
                free[resource] = free.get(resource, 0) - count
        return free

    def gpu_nodes(self) -> tuple[str, ...]:
        """Names of the nodes that offer any GPU resource."""
        return tuple(
            sorted(name for name, node in self.nodes.items() if any(offered(node).values()))
        )


class KubernetesInventory:
    """The inventory port over one cluster. One pass, whatever its size: four lists in pages."""

    kind: Literal["kubernetes"] = "kubernetes"

    def __init__(self, client: KubernetesClient, *, with_budgets: bool = True) -> None:
        """`with_budgets`: views don't need them, nor the right to list them."""
        self._client = client
        self._with_budgets = with_budgets

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def read(self) -> ClusterInventory:
        """The cluster now. Raises BackendError and ConfigError when nodes or pods can't be read.

        What else is denied is missing from the answer and named in its warnings.
        """
        client, missing = self._client, _Missing()
        calls: list[Callable[[], Any]] = [
            client.nodes,
            partial(client.pods, _UNFINISHED),
            partial(
                missing.unless_denied,
                client.replica_sets,
                "pods of a Deployment are listed by their ReplicaSet",
            ),
        ]
        if self._with_budgets:
            lost = "evictions that a budget forbids can't be foreseen"
            calls.append(partial(missing.unless_denied, client.budgets, lost))
        nodes, pods, replica_sets, *budgets = map_concurrently(
            _called, calls, most_at_once=_MOST_AT_ONCE
        )
        return ClusterInventory(
            server=client.shown_url,
            nodes={node.name: node for node in nodes},
            pods={pod.id: pod for pod in pods},
            budgets=budgets[0] if budgets else None,
            replica_owners=_replica_owners(replica_sets or ()),
            warnings=tuple(sorted(missing.warnings)),
        )


def _called(call: Callable[[], Any], _: Event) -> Any:
    return call()


@dataclass(slots=True)
class _Missing:
    """What may not be read, and what is lost by it."""

    warnings: list[str] = field(default_factory=list)

    def unless_denied(self, call: Callable[[], Any], lost: str) -> Any:
        """What the call gives, None when there is no right to it."""
        try:
            return call()
        except ForbiddenError as exc:
            if exc.rule is None:  # an anonymous user is denied everything
                raise
            self.warnings.append(f"Kubernetes: {exc.what}: {lost}; {exc.hint}")
            return None


def _replica_owners(replica_sets: Iterable[OnlyMetadata]) -> dict[str, OwnerReference]:
    pairs = ((one.metadata.uid, one.metadata.controller) for one in replica_sets)
    return {uid: owner for uid, owner in pairs if owner is not None}

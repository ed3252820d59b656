"""Objects of the fake cluster: pods, nodes, owners and budgets as plain JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from gpuctl.sim.scenario import GpuSpec, MigSpec
from gpuctl.sim.scenario import Workload as SimWorkload
from gpuctl.sim.world import World
from tests.fakes.kubernetes_answers import BY_KIND, Json

GPU = "nvidia.com/gpu"
SHARED = "nvidia.com/gpu.shared"
_CONTROLLERS = {
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "Node": "v1",
}


def timestamp(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class PodSpec:
    """What a test says of a pod. `owner` is (kind, name) of its controller."""

    name: str
    namespace: str = "prod"
    node: str | None = "gpu-a"
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    requests: Mapping[str, int] = field(default_factory=lambda: {GPU: 1})
    owner: tuple[str, str] | None = None
    priority: int = 0
    phase: str = "Running"
    ready: bool = True
    grace_seconds: int = 30
    volumes: Sequence[Json] = ()
    more: Mapping[str, Any] = field(default_factory=dict)

    def json(self, *, owner_uid: str = "") -> Json:
        """The pod as a client would create it, with its status."""
        metadata: Json = {"name": self.name, "namespace": self.namespace}
        if self.labels:
            metadata["labels"] = dict(self.labels)
        if self.annotations:
            metadata["annotations"] = dict(self.annotations)
        if self.owner is not None:
            kind, name = self.owner
            metadata["ownerReferences"] = [reference(kind, name, owner_uid)]
        amounts = {resource: str(count) for resource, count in self.requests.items()}
        spec: Json = {
            "containers": [
                {
                    "name": "main",
                    "image": "example/serve:1",
                    "resources": {"limits": amounts, "requests": amounts} if amounts else {},
                }
            ],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": self.grace_seconds,
            "schedulerName": "default-scheduler",
            "priority": self.priority,
            **self.more,
        }
        if self.volumes:
            spec["volumes"] = list(self.volumes)
        if self.node is not None:
            spec["nodeName"] = self.node
        return {"metadata": metadata, "spec": spec, "status": self._status()}

    def _status(self) -> Json:
        if self.node is None:
            why = {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "0/8 nodes are available: 8 Insufficient nvidia.com/gpu.",
            }
            return {"phase": "Pending", "conditions": [why]}
        ready = "True" if self.ready and self.phase == "Running" else "False"
        return {"phase": self.phase, "conditions": [{"type": "Ready", "status": ready}]}


def reference(kind: str, name: str, uid: str) -> Json:
    """A controller's owner reference."""
    return {
        "apiVersion": _CONTROLLERS.get(kind, "apps/v1"),
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def node_json(
    name: str,
    allocatable: Mapping[str, int],
    *,
    labels: Mapping[str, str] | None = None,
    ready: bool = True,
    taints: Sequence[Json] = (),
) -> Json:
    """A node with these devices."""
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    amounts |= {resource: str(count) for resource, count in allocatable.items()}
    spec: Json = {"providerID": f"fake://{name}"}
    if taints:
        spec["taints"] = list(taints)
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": spec,
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}],
            "addresses": [{"type": "Hostname", "address": name}],
            "nodeInfo": {"machineID": name, "systemUUID": f"uuid-of-{name}"},
        },
    }


def owner_json(kind: str, namespace: str, name: str, owner: Json | None = None) -> Json:
    """A controller; `owner` is the reference to its own."""
    metadata: Json = {"name": name, "namespace": namespace}
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    return {"metadata": metadata, "spec": {"replicas": 1}}


def budget_json(
    namespace: str,
    name: str,
    selector: Mapping[str, str] | None,
    *,
    min_available: int | str | None = None,
    max_unavailable: int | str | None = None,
    unhealthy: str | None = None,
) -> Json:
    """A PodDisruptionBudget without its numbers."""
    spec: Json = {}
    if min_available is not None:
        spec["minAvailable"] = min_available
    if max_unavailable is not None:
        spec["maxUnavailable"] = max_unavailable
    if selector is not None:
        spec["selector"] = {"matchLabels": dict(selector)}
    if unhealthy is not None:
        spec["unhealthyPodEvictionPolicy"] = unhealthy
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


# -- a simulated cluster as Kubernetes would know it ------------------------------------------


def world_nodes(world: World) -> Iterator[Json]:
    """The nodes of a simulated cluster with what their device plugin offers."""
    for node in world.scenario.nodes:
        offered: dict[str, int] = {}
        slots = 1
        for card in node.gpus:
            if card.lost_for_seconds is not None:
                continue
            for instance in card.mig or ():
                resource = mig_resource(instance.profile)
                offered[resource] = offered.get(resource, 0) + 1
            if card.mig is None:
                resource = SHARED if card.slots > 1 else GPU
                offered[resource] = offered.get(resource, 0) + card.slots
                slots = card.slots
        labels = {
            "nvidia.com/gpu.count": str(len(node.gpus)),
            "nvidia.com/gpu.product": node.model.replace(" ", "-"),
            "nvidia.com/gpu.replicas": str(slots),
        }
        yield node_json(node.name, offered, labels=labels)


def world_pods(world: World) -> Iterator[PodSpec]:
    """The pods of a simulated cluster; VMs are no concern of Kubernetes."""
    for one in world.workloads():
        if one.kind == "pod":
            yield _world_pod(world, one)


def _world_pod(world: World, one: SimWorkload) -> PodSpec:
    requests: dict[str, int] = {}
    for place in one.placements:
        resource = _resource(world.devices()[place])
        requests[resource] = requests.get(resource, 0) + 1
    labels = dict(one.labels)
    owner = None
    if one.owner:
        kind, _, name = one.owner.partition("/")
        owner = (kind, name)
        if kind == "Deployment":
            found = re.fullmatch(rf"{re.escape(name)}-(\w+)-\w+", one.name)
            hashed = found[1] if found else "5d8f7c"
            owner = ("ReplicaSet", f"{name}-{hashed}")
            labels["pod-template-hash"] = hashed
    return PodSpec(
        name=one.name,
        namespace=one.namespace,
        node=one.placements[0].node if one.placements else None,
        labels=labels,
        annotations={} if one.evictable else {"gpuctl.io/evictable": "false"},
        requests=requests,
        owner=owner,
        priority=one.priority,
    )


def _resource(device: GpuSpec | MigSpec) -> str:
    if isinstance(device, MigSpec):
        return mig_resource(device.profile)
    return SHARED if device.slots > 1 else GPU


def mig_resource(profile: str) -> str:
    """`1g.10gb+me` -> `nvidia.com/mig-1g.10gb.me`."""
    return f"nvidia.com/mig-{profile.replace('+', '.')}"


def kind_of(obj: Json, fallback: str) -> str:
    """The kind an object says it is."""
    kind = str(obj.get("kind", fallback))
    return kind if kind in BY_KIND else fallback

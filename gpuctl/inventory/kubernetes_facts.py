"""What single objects of Kubernetes mean for GPUs: requests, offers, selectors, annotations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuctl.clients.kubernetes.meta import LabelRequirement, LabelSelector
from gpuctl.clients.kubernetes.wire import Container, Node, Pod, Resources

GPU = "nvidia.com/gpu"
SHARED_GPU = "nvidia.com/gpu.shared"
_MIG = "nvidia.com/mig-"
_SHARED_SUFFIX = ".shared"
EVICTABLE = "gpuctl.io/evictable"
# The autoscaler's annotation is the one that users have already; "false" is meant for everybody.
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_MIRROR = "kubernetes.io/config.mirror"
_REPLICAS = "nvidia.com/gpu.replicas"
_COUNT = "nvidia.com/gpu.count"


def is_gpu_resource(name: str) -> bool:
    """Whether a resource is a GPU, a share of one, or a MIG instance."""
    return name in (GPU, SHARED_GPU) or name.startswith(_MIG)


def is_shared_resource(name: str) -> bool:
    """Whether a resource is a replica of a device that others have, too."""
    return name.endswith(_SHARED_SUFFIX)


def gpu_requests(pod: Pod) -> dict[str, int]:
    """GPU resources that a pod holds: its containers together, or its largest init container.

    Devices that it claims through `resourceClaims` are not among them.
    """
    containers = list(pod.spec.containers or ())
    sidecars = [one for one in pod.spec.init_containers if one.restart_policy == "Always"]
    total = _sum(one.resources for one in (*containers, *sidecars))
    for starter in pod.spec.init_containers:
        for resource, count in _counts(starter).items():
            total[resource] = max(total.get(resource, 0), count)
    return {resource: count for resource, count in total.items() if count > 0}


def _sum(parts: Iterable[Resources]) -> dict[str, int]:
    total: dict[str, int] = {}
    for resources in parts:
        for resource, count in _amounts(resources).items():
            total[resource] = total.get(resource, 0) + count
    return total


def _counts(container: Container) -> dict[str, int]:
    return {} if container.restart_policy == "Always" else _amounts(container.resources)


def _amounts(resources: Resources) -> dict[str, int]:
    """A limit alone is the request, too."""
    return _devices({**resources.limits, **resources.requests})


def offered(node: Node) -> dict[str, int]:
    """GPU resources that a node has for pods."""
    return _devices(node.status.allocatable)


def _devices(amounts: Mapping[str, str | int]) -> dict[str, int]:
    """Extended resources are whole numbers; anything else is no device count."""
    return {
        resource: int(amount)
        for resource, amount in amounts.items()
        if is_gpu_resource(resource) and str(amount).isdecimal()
    }


def slots_per_gpu(node: Node, cards: int) -> int | None:
    """How many workloads may share a whole card of the node; None when nothing tells.

    By the label of the GPU feature discovery, else by what the node offers for its `cards`.
    """
    labelled = node.metadata.labels.get(_REPLICAS, "")
    if labelled.isdecimal():
        return max(1, int(labelled))
    counted = node.metadata.labels.get(_COUNT, "")
    count = int(counted) if counted.isdecimal() and int(counted) else cards
    devices = offered(node)
    whole = devices.get(SHARED_GPU, 0) or devices.get(GPU, 0)
    if not count or not whole or whole % count:
        return None
    return whole // count


def is_mirror(pod: Pod) -> bool:
    """Whether it is the copy of a kubelet's own pod, which the API can't stop."""
    controller = pod.metadata.controller
    return _MIRROR in pod.metadata.annotations or (
        controller is not None and controller.kind == "Node"
    )


def evictable(pod: Pod) -> bool | None:
    """What the pod's annotations say about eviction; None when they say nothing."""
    annotations = pod.metadata.annotations
    own = annotations.get(EVICTABLE, "").strip().lower()
    if own in ("true", "false"):
        return own == "true"
    if own:
        return False  # a typing mistake in a protection must not undo it
    return False if annotations.get(SAFE_TO_EVICT, "").strip().lower() == "false" else None


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether labels match: no selector selects nothing, an empty one everything."""
    if selector is None:
        return False
    return all(labels.get(k) == v for k, v in selector.match_labels.items()) and all(
        _holds(one, labels) for one in selector.match_expressions
    )


def _holds(one: LabelRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(one.key)
    match one.operator:
        case "In":
            return value in one.values
        case "NotIn":
            return value not in one.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    # An operator from the future: taken as fulfilled, so that a budget is never overlooked.
    return True

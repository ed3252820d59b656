"""Pods joined to the GPUs and MIG instances that the exporter says they run on.

The join is by namespace and name. Where the two sides contradict each other that is a warning;
nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gpuctl.clients.kubernetes.wire import Pod
from gpuctl.errors import shorten
from gpuctl.inventory.kubernetes_facts import (
    evictable,
    gpu_requests,
    is_shared_resource,
    slots_per_gpu,
)
from gpuctl.model.gpu import Gpu, GpuState, Tenant
from gpuctl.model.snapshot import Snapshot
from gpuctl.model.workload import Placement, Workload

if TYPE_CHECKING:
    from gpuctl.inventory.kubernetes import ClusterInventory


@dataclass(slots=True)
class _Seat:
    """Where a pod runs by the exporter's labels, and what is measured of it there."""

    placements: list[Placement] = field(default_factory=list)
    tenants: list[Tenant] = field(default_factory=list)


def join(snapshot: Snapshot, inventory: ClusterInventory) -> Snapshot:
    """The snapshot with a Workload for each pod that has or asks for a GPU.

    Other inventories' workloads stay. Cards get the number of their slots where the node tells.
    """
    seats = _seats(snapshot.gpus)
    known = inventory.pods
    elsewhere = _contradicted(seats, inventory)
    workloads = tuple(_workloads(inventory, seats, elsewhere))
    measured = {gpu.node for gpu in snapshot.gpus if gpu.state is not GpuState.LOST}
    warnings = [
        *inventory.warnings,
        *_unknown(sorted(name for name in seats if name not in known), inventory.server),
        *_moved(sorted(elsewhere)),
        *_unseated(workloads, inventory, measured),
        *_silent(set(inventory.gpu_nodes()) - {gpu.node for gpu in snapshot.gpus}),
    ]
    return replace(
        snapshot,
        gpus=_with_slots(snapshot.gpus, inventory),
        inventories=(*snapshot.inventories, "kubernetes"),
        workloads=(*snapshot.workloads, *workloads),
        warnings=(*snapshot.warnings, *warnings),
    )


# -- seats -----------------------------------------------------------------------------------------


def _seats(gpus: Iterable[Gpu]) -> dict[str, _Seat]:
    """Every pod that a GPU's labels name, by `namespace/name`."""
    seats: dict[str, _Seat] = {}
    for gpu in gpus:
        for tenant, mig_id in _tenants(gpu):
            if tenant.kind == "pod":
                seat = seats.setdefault(tenant.workload, _Seat())
                seat.placements.append(
                    Placement(node=gpu.node, gpu=gpu.gpu, uuid=gpu.uuid, mig_id=mig_id)
                )
                seat.tenants.append(tenant)
    return seats


def _tenants(gpu: Gpu) -> Iterator[tuple[Tenant, int | None]]:
    yield from ((tenant, None) for tenant in gpu.tenants)
    for instance in gpu.mig:
        yield from ((tenant, instance.id) for tenant in instance.tenants)


def _contradicted(seats: Mapping[str, _Seat], inventory: ClusterInventory) -> frozenset[str]:
    """Pods that Kubernetes has on another node than their GPU: the labels are of a predecessor.

    Only where the GPU's node is called by a name that Kubernetes knows, so that two ways to name
    a node are no contradiction.
    """
    return frozenset(
        name
        for name, seat in seats.items()
        if (pod := inventory.pods.get(name)) is not None
        and all(
            place.node in inventory.nodes and place.node != pod.spec.node_name
            for place in seat.placements
        )
    )


# -- workloads -------------------------------------------------------------------------------------


def _workloads(
    inventory: ClusterInventory, seats: Mapping[str, _Seat], elsewhere: frozenset[str]
) -> Iterator[Workload]:
    for name, pod in sorted(inventory.pods.items()):
        seat = seats.get(name) if name not in elsewhere else None
        requests = gpu_requests(pod)
        if seat is not None or requests:
            yield _workload(inventory, pod, seat or _Seat(), requests)


def _workload(
    inventory: ClusterInventory, pod: Pod, seat: _Seat, requests: Mapping[str, int]
) -> Workload:
    owner = inventory.owner_of(pod)
    placements = tuple(seat.placements) or tuple(_somewhere(pod, requests))
    return Workload(
        id=pod.id,
        kind="pod",
        placements=placements,
        owner=str(owner) if owner else "",
        priority=pod.spec.priority,
        evictable=evictable(pod),
        labels=pod.metadata.labels,
        requested_slots=_requested_slots(requests, len(placements)),
        memory_mib=_mean(tenant.memory_used_mib for tenant in seat.tenants),
    )


def _somewhere(pod: Pod, requests: Mapping[str, int]) -> Iterator[Placement]:
    """A device of its node for each one it asked for; which one, nobody tells."""
    if pod.spec.node_name:
        for resource, count in sorted(requests.items()):
            # Shares may all be of one card.
            for _ in range(1 if is_shared_resource(resource) else count):
                yield Placement(node=pod.spec.node_name, gpu=None, uuid="")


def _requested_slots(requests: Mapping[str, int], devices: int) -> int | None:
    """Shares of each device that it runs on; None when it asked for none, or unevenly."""
    shares = sum(count for resource, count in requests.items() if is_shared_resource(resource))
    if not shares or not devices or shares % devices:
        return None
    return shares // devices


def _mean(values: Iterable[float | None]) -> float | None:
    """The mean, None when any is unknown."""
    found = list(values)
    known = [value for value in found if value is not None]
    return sum(known) / len(known) if found and len(known) == len(found) else None


# -- cards -----------------------------------------------------------------------------------------


def _with_slots(gpus: tuple[Gpu, ...], inventory: ClusterInventory) -> tuple[Gpu, ...]:
    cards: dict[str, int] = {}
    for gpu in gpus:
        cards[gpu.node] = cards.get(gpu.node, 0) + 1
    slots = {
        name: slots_per_gpu(inventory.nodes[name], count)
        for name, count in cards.items()
        if name in inventory.nodes
    }
    return tuple(
        replace(gpu, slots=found)
        if gpu.slots is None and not gpu.mig and (found := slots.get(gpu.node)) is not None
        else gpu
        for gpu in gpus
    )


# -- warnings --------------------------------------------------------------------------------------


def _unknown(names: list[str], server: str) -> Iterator[str]:
    if names:
        yield (
            f"{_pods(len(names))} on GPUs {_are(len(names))} unknown to Kubernetes at {server}, or "
            f"ended: {shorten(names)}"
        )


def _moved(names: list[str]) -> Iterator[str]:
    if names:
        yield (
            f"{_pods(len(names))} {_are(len(names))} on another node by Kubernetes than by the "
            f"GPUs' labels, which are of a predecessor: {shorten(names)}"
        )


def _unseated(
    workloads: Iterable[Workload], inventory: ClusterInventory, measured: set[str]
) -> Iterator[str]:
    """Running pods that hold a GPU which no exporter names; on silent nodes that is no news."""
    names = [
        one.id
        for one in workloads
        if any(place.gpu is None and place.node in measured for place in one.placements)
        and inventory.pods[one.id].status.phase == "Running"
    ]
    if names:
        yield (
            f"{_pods(len(names))} with GPU requests {_are(len(names))} on no GPU's labels, so the "
            f"card is unknown: {shorten(names)}; does the exporter map pods to GPUs there?"
        )


def _silent(nodes: set[str]) -> Iterator[str]:
    if nodes:
        noun = "node offers" if len(nodes) == 1 else "nodes offer"
        yield (
            f"{len(nodes)} {noun} GPUs in Kubernetes and {'has' if len(nodes) == 1 else 'have'} "
            f"no GPU metrics: {shorten(sorted(nodes))}"
        )


def _pods(count: int) -> str:
    return f"{count} pod" if count == 1 else f"{count} pods"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"

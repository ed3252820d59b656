"""The facts that scores are made of, drawn from a snapshot once, whatever is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpuctl.model.gpu import Gpu, GpuState
from gpuctl.model.policy import Policy
from gpuctl.model.snapshot import Snapshot
from gpuctl.model.workload import WorkloadClass
from gpuctl.policy.attribution import DeviceLoad, device_loads
from gpuctl.policy.balance import mean, trusted_utilization
from gpuctl.policy.classes import workload_class
from gpuctl.policy.hotspots import gpu_heat, instance_heat
from gpuctl.policy.scoring.fragmentation import WHOLE, Demand, Mix, Room

_SILENT = frozenset({GpuState.LOST, GpuState.STALE})


@dataclass(frozen=True, slots=True)
class Device:
    """A card or MIG instance as a place for one more workload.

    `card`: its card's position among the node's cards. `unknown_because` is set when its load or
    memory is not known well enough to choose it.
    """

    at: DeviceLoad
    card: int
    hot: bool | None
    unknown_because: str | None
    classes: frozenset[WorkloadClass]

    @property
    def load_pct(self) -> float:
        return self.at.load_pct or 0.0

    @property
    def tenants(self) -> int:
        return len(self.at.shares)

    @property
    def free_mib(self) -> float | None:
        """Framebuffer that nobody holds; None when unknown."""
        total, used = self.at.memory_total_mib, self.at.memory_used_mib
        return None if total is None or used is None else max(0.0, total - used)

    @property
    def name(self) -> str:
        """`GPU 1`, or `1g.10gb#9 of GPU 1`."""
        card = f"GPU {'?' if self.at.gpu.gpu is None else self.at.gpu.gpu}"
        instance = self.at.instance
        return card if instance is None else f"{instance.profile}#{instance.id} of {card}"


@dataclass(frozen=True, slots=True)
class Node:
    """One node: its cards and MIG instances, in order.

    `is_silent`: none of its metrics is fresh. `is_shared`: its cards are seen or known to take
    several workloads at once. `room`: what is free of each card, for fragmentation.
    """

    name: str
    cards: tuple[Gpu, ...]
    devices: tuple[Device, ...]
    is_silent: bool
    is_shared: bool
    room: Room

    @property
    def utilization_mean_pct(self) -> float | None:
        """Mean of its cards' current utilization, as the heat map shows it."""
        return mean(trusted_utilization(card) for card in self.cards)

    @property
    def age_seconds(self) -> float | None:
        """Age of its newest sample; None when nothing is known of it."""
        ages = [card.age_seconds for card in self.cards if card.age_seconds is not None]
        return min(ages, default=None)


@dataclass(frozen=True, slots=True)
class Survey:
    """All nodes by name, the range of loads over the cluster, and the mix of its workloads.

    `hot_above` is the policy's mark.
    """

    nodes: tuple[Node, ...]
    lowest_pct: float
    highest_pct: float
    mix: Mix
    hot_above: float

    @property
    def has_fresh(self) -> bool:
        """Whether anything can be told at all."""
        return any(not node.is_silent for node in self.nodes)


def survey(snapshot: Snapshot, policy: Policy) -> Survey:
    """Draw the facts from a snapshot; the order of its GPUs does not matter."""
    # Of a workload that only the metrics name, no class is known.
    classes = {one.id: workload_class(one, policy) for one in snapshot.workloads}
    by_node: dict[str, list[DeviceLoad]] = {name: [] for name in snapshot.known_nodes}
    for device in device_loads(snapshot):
        by_node.setdefault(device.gpu.node, []).append(device)
    nodes = tuple(_node(name, by_node[name], classes, policy) for name in sorted(by_node))
    loads = [
        device.load_pct
        for node in nodes
        for device in node.devices
        if device.unknown_because is None
    ]
    low, high = min(loads, default=0.0), max(loads, default=0.0)
    return Survey(nodes, low, high, _mix(nodes), policy.hot_above)


def _node(
    name: str, loads: Sequence[DeviceLoad], classes: Mapping[str, WorkloadClass], policy: Policy
) -> Node:
    cards = tuple(one.gpu for one in loads if one.instance is None)
    places = {card.uuid: place for place, card in enumerate(cards)}
    devices = tuple(
        _device(one, places[one.gpu.uuid], classes, policy)
        for one in loads
        if one.instance is not None or not one.gpu.mig
    )
    shared = any((card.slots or 1) > 1 for card in cards) or any(
        device.tenants > 1 for device in devices if device.at.instance is None
    )
    return Node(
        name=name,
        cards=cards,
        devices=devices,
        is_silent=all(card.state in _SILENT for card in cards),
        is_shared=shared,
        room=_room(cards, devices, shared=shared),
    )


def _device(
    one: DeviceLoad, card: int, classes: Mapping[str, WorkloadClass], policy: Policy
) -> Device:
    gpu, instance = one.gpu, one.instance
    heat = gpu_heat(gpu, policy) if instance is None else instance_heat(gpu, instance, policy)
    present = frozenset(classes.get(share.workload, "unknown") for share in one.shares)
    return Device(one, card, heat.hot, _unknown_because(one), present)


def _unknown_because(one: DeviceLoad) -> str | None:
    if one.gpu.state in _SILENT:
        age = one.gpu.age_seconds
        return "no fresh metrics" if age is None else f"metrics {age_words(age)} old"
    if one.load_pct is None:
        return "utilization unknown"
    if one.memory_used_mib is None or not one.memory_total_mib:
        return "memory unknown"
    return None


def age_words(seconds: float) -> str:
    """`40 s` or `7 min`: an age for a sentence."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


# -- fragmentation ------------------------------------------------------------------------------


def slot_milli(gpu: Gpu, node_is_shared: bool, most_tenants: int) -> int:
    """What one workload takes of a card: all of it, or a slot's part where cards are shared.

    Where nobody tells the number of slots, the most tenants that were seen on one card count.
    """
    if not node_is_shared:
        return WHOLE
    return WHOLE // max(1, gpu.slots or most_tenants)


def instance_milli(device: Device) -> int:
    """A MIG instance's part of its card."""
    instance = device.at.instance
    slices = None if instance is None else instance.compute_slices
    return WHOLE * (slices or 1) // max(1, device.at.gpu.total_slices or 7)


def most_tenants(devices: Iterable[Device]) -> int:
    """The most tenants on one whole card."""
    return max((one.tenants for one in devices if one.at.instance is None), default=1)


def _room(cards: Sequence[Gpu], devices: Sequence[Device], *, shared: bool) -> Room:
    free = [0] * len(cards)
    most = most_tenants(devices)
    for device in devices:
        if device.at.gpu.state is GpuState.LOST:
            continue
        if device.at.instance is not None:
            free[device.card] += 0 if device.tenants else instance_milli(device)
        else:
            used = device.tenants * slot_milli(device.at.gpu, shared, most)
            free[device.card] = max(0, WHOLE - used)
    return Room(tuple(free), cards[0].model if cards else None)


def _mix(nodes: Iterable[Node]) -> Mix:
    """The workloads that run now, as demands."""
    per_workload: dict[str, list[int]] = {}
    for node in nodes:
        most = most_tenants(node.devices)
        for device in node.devices:
            if not device.at.shares:
                continue
            milli = (
                slot_milli(device.at.gpu, node.is_shared, most)
                if device.at.instance is None
                else instance_milli(device)
            )
            for share in device.at.shares:
                per_workload.setdefault(share.workload, []).append(milli)
    return Mix.of(Counter(Demand(len(parts), max(parts)) for parts in per_workload.values()))

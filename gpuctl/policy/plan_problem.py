"""A snapshot as a planning problem: which devices, what runs on them, what may move, at what cost.

The search in `planning` knows no cluster; what it must respect is put into its terms here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from gpuctl.model.gpu import GpuState
from gpuctl.model.plan import PlanGoal
from gpuctl.model.policy import Policy
from gpuctl.model.workload import Workload
from gpuctl.policy.attribution import DeviceLoad, Share
from gpuctl.policy.classes import protection
from gpuctl.policy.hotspots import gpu_heat, instance_heat
from gpuctl.policy.planning.problem import (
    DeviceSpec,
    GpuSpec,
    GroupSpec,
    ItemSpec,
    Params,
    Problem,
)
from gpuctl.policy.verdict import Verdict

# Until a successor is Ready: scheduling, image on the node, model into memory.
RESTART_SECONDS = 30.0
# Live migration over 10 Gbit/s, and the time beside the copying.
MIGRATION_MIB_PER_SECOND = 1024.0
MIGRATION_OVERHEAD_SECONDS = 5.0
_UNKNOWN_RAM_SECONDS = 120.0

# Relief wants the fewest moves first and the cheapest of those: a move costs more than the dearest
# difference between two moves.
_FEWEST_FIRST = 10_000.0

Only = Literal["pods", "vms"]


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What a person asked for beyond the policy."""

    goal: PlanGoal = "relief"
    target_spread_pct: float | None = None
    max_moves: int | None = None
    only: Only | None = None
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Lowered:
    """The problem, and what its ids stand for."""

    problem: Problem
    devices: Mapping[str, DeviceLoad]
    workloads: Mapping[str, Workload]
    shares: Mapping[str, Share]
    verdicts: Mapping[str, Verdict]


def lowered(
    workloads: Mapping[str, Workload],
    every_device: Iterable[DeviceLoad],
    policy: Policy,
    options: PlanOptions,
) -> Lowered:
    """The planning problem of a snapshot's devices and the workloads on them.

    Devices whose figures can't be trusted are left out: nothing moves onto them, and what runs on
    them stays. Only devices judged hot over the window may count as hot: a mean over the mark with
    a dip in it is taken as just at the mark.
    """
    loads = {device_id(d): d for d in every_device if _is_usable(d)}
    verdicts: dict[str, Verdict] = {}
    shares: dict[str, Share] = {}
    items: list[ItemSpec] = []
    for name, device in loads.items():
        for share in device.shares:
            workload = workloads[share.workload]
            verdict = _verdict(workload, share, device, policy, options)
            if len(workload.placements) <= 1:
                verdicts[workload.id], shares[workload.id] = verdict, share
                items.append(_item(workload, share, name, device, verdict, options.goal))
            else:
                verdicts.setdefault(workload.id, verdict)
    slots = _slots(loads.values())
    by_device: dict[str, list[ItemSpec]] = {}
    for item in items:
        by_device.setdefault(item.device, []).append(item)
    problem = Problem(
        devices=tuple(
            _device(name, device, by_device.get(name, ()), policy, slots)
            for name, device in loads.items()
        ),
        gpus=_gpus(loads.values()),
        items=tuple(items),
        groups=tuple(
            GroupSpec(owner, max_per_gpu=1)
            for owner in sorted({item.group for item in items if item.group is not None})
        ),
        params=Params(
            high=policy.hot_above,
            low=policy.idle_below,
            max_moves=_max_moves(policy, options),
            node_inflight=policy.limits.per_node,
            group_inflight=1,
        ),
    )
    return Lowered(problem, loads, workloads, shares, verdicts)


def device_id(device: DeviceLoad) -> str:
    """`NODE/GPU` or `NODE/GPU:MIG`; by UUID where the index is unknown."""
    instance = "" if device.key.mig_id is None else f":{device.key.mig_id}"
    return gpu_id(device) + instance


def gpu_id(device: DeviceLoad) -> str:
    """The card's part of `device_id`."""
    gpu = device.gpu
    return f"{gpu.node}/{gpu.uuid if gpu.gpu is None else gpu.gpu}"


def move_seconds(workload: Workload) -> float:
    """How long a move takes until the workload serves again, an estimate."""
    if workload.kind != "vm":
        return RESTART_SECONDS
    if workload.ram_mib is None:
        return _UNKNOWN_RAM_SECONDS
    return MIGRATION_OVERHEAD_SECONDS + workload.ram_mib / MIGRATION_MIB_PER_SECOND


def _max_moves(policy: Policy, options: PlanOptions) -> int:
    limit = policy.limits.moves_per_run
    return limit if options.max_moves is None else options.max_moves


def _is_usable(device: DeviceLoad) -> bool:
    if device.gpu.state not in (GpuState.OK, GpuState.NO_MEM):
        return False
    return device.load_pct is not None


def _gpus(devices: Iterable[DeviceLoad]) -> tuple[GpuSpec, ...]:
    found: dict[str, GpuSpec] = {}
    for device in devices:
        name = gpu_id(device)
        found[name] = GpuSpec(name, device.gpu.node, device.gpu.model or "unknown", cap=100.0)
    return tuple(found.values())


def _device(
    name: str,
    device: DeviceLoad,
    items: Sequence[ItemSpec],
    policy: Policy,
    slots: Mapping[str, int],
) -> DeviceSpec:
    instance = device.instance
    cap = _cap(device, policy)
    load = _counted_load(device, policy)
    used = device.memory_used_mib or 0.0
    total = device.memory_total_mib
    return DeviceSpec(
        id=name,
        gpu=gpu_id(device),
        node=device.gpu.node,
        model=device.gpu.model or "unknown",
        cap=cap,
        # A card whose memory is unknown holds what it holds and takes nobody.
        mem_mib=used if total is None else total,
        profile=None if instance is None else instance.profile,
        slots=1 if instance is not None else slots[device.gpu.node],
        base_load=max(0.0, load - sum(item.load for item in items)),
        base_mem_mib=max(0.0, used - sum(item.mem_mib for item in items)),
        cordoned=total is None,
    )


def _cap(device: DeviceLoad, policy: Policy) -> float:
    """Load points that are 100 % of the device, bent so that its own mark is the common one."""
    instance = device.instance
    if instance is None:
        return 100.0
    width = (instance.compute_slices or 1) / (device.gpu.total_slices or 7)
    return 100.0 * width * policy.hot_mark(instance.profile) / policy.hot_above


def _points(device: DeviceLoad, percent: float) -> float:
    instance = device.instance
    if instance is None:
        return percent
    return percent * (instance.compute_slices or 1) / (device.gpu.total_slices or 7)


def _counted_load(device: DeviceLoad, policy: Policy) -> float:
    """The device's load in points; one not judged hot never counts as more than the mark."""
    load = _points(device, device.load_pct or 0.0)
    if is_hot(device, policy):
        return load
    return min(load, _cap(device, policy) * policy.hot_above / 100)


def is_hot(device: DeviceLoad, policy: Policy) -> bool:
    """Whether the device is judged hot over the window."""
    if device.instance is None:
        return bool(gpu_heat(device.gpu, policy).hot)
    return bool(instance_heat(device.gpu, device.instance, policy).hot)


def _slots(devices: Iterable[DeviceLoad]) -> Mapping[str, int]:
    """How many workloads may share a card of each node: what is known, else what is seen there."""
    known: dict[str, int] = {}
    seen: dict[str, int] = {}
    for device in devices:
        node = device.gpu.node
        seen[node] = max(seen.get(node, 1), len(device.shares))
        if device.gpu.slots is not None:
            known[node] = max(known.get(node, 1), device.gpu.slots)
    return {node: max(known.get(node, 0), count) for node, count in seen.items()}


def _verdict(
    workload: Workload, share: Share, device: DeviceLoad, policy: Policy, options: PlanOptions
) -> Verdict:
    """Whether a workload may move in this plan, by the first rule that objects."""
    if options.only == "pods" and workload.kind != "pod":
        return Verdict(False, "only", "only pods were asked for")
    if options.only == "vms" and workload.kind != "vm":
        return Verdict(False, "only", "only VMs were asked for")
    if options.nodes and not any(fnmatchcase(device.gpu.node, glob) for glob in options.nodes):
        return Verdict(False, "node-filter", f"{device.gpu.node} was not asked for")
    if len(workload.placements) > 1:
        count = len(workload.placements)
        return Verdict(False, "several-devices", f"it runs on {count} devices at once")
    if share.load_pct is None:
        return Verdict(False, "load-unknown", "its load is unknown")
    if share.memory_mib is None:
        return Verdict(False, "memory-unknown", "the memory it holds is unknown")
    return protection(workload, policy)


def _item(
    workload: Workload,
    share: Share,
    name: str,
    device: DeviceLoad,
    verdict: Verdict,
    goal: PlanGoal,
) -> ItemSpec:
    cost = max(0.5, round(2 * move_seconds(workload) / RESTART_SECONDS) / 2)
    return ItemSpec(
        id=workload.id,
        kind=workload.kind,
        device=name,
        load=_points(device, share.load_pct or 0.0),
        mem_mib=share.memory_mib or 0.0,
        cost=cost + (_FEWEST_FIRST if goal == "relief" else 0.0),
        # Unknown facts do not stop a dry run; the move names them, and acting refuses them.
        movable=verdict.allowed is not False,
        models=frozenset({device.gpu.model or "unknown"}),
        profiles=frozenset({device.profile}),
        # Which card of its own node an evicted pod gets is the device plugin's choice, and it may
        # be the hot one again; a VM migrates between nodes only.
        leaves_node=True,
        group=workload.owner or None,
    )

"""For each hot spot: since when, who is on it, and whether a move would cure it, or why not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from gpuctl.model.gpu import Gpu, GpuState, MigInstance, WindowStats
from gpuctl.model.policy import Policy
from gpuctl.model.snapshot import Snapshot
from gpuctl.model.workload import Workload, WorkloadClass
from gpuctl.policy.attribution import Basis, DeviceLoad, Share, attributed, device_loads
from gpuctl.policy.classes import protection
from gpuctl.policy.hotspots import Heat, gpu_heat, instance_heat, is_full
from gpuctl.policy.verdict import Verdict


class Cause(StrEnum):
    """What is behind a hot spot, as far as a move is concerned.

    - shared: several workloads share the device and one may move to an idle one: a move helps
    - one-tenant: one workload alone is over the mark; it would be wherever it ran
    - all-protected: no tenant may move, or those that may are not what makes it hot
    - no-idle-of-model: no device of this model (and MIG profile) below the idle mark could take
      one of them and stay below the hot mark
    - no-slot: idle devices of the model have no free slot
    - no-memory: idle devices of the model have too little free memory
    - no-tenant: nothing says who is on it
    - stale: it was over the mark when last heard of
    """

    SHARED = "shared"
    ONE_TENANT = "one-tenant"
    ALL_PROTECTED = "all-protected"
    NO_IDLE_OF_MODEL = "no-idle-of-model"
    NO_SLOT = "no-slot"
    NO_MEMORY = "no-memory"
    NO_TENANT = "no-tenant"
    STALE = "stale"


ADVICE: Mapping[Cause, str] = {
    Cause.SHARED: "move one of them to an idle GPU",
    Cause.ONE_TENANT: "scale it out, or give it a faster GPU",
    Cause.ALL_PROTECTED: "loosen a rule, or ask an owner to move",
    Cause.NO_IDLE_OF_MODEL: "add GPUs of this model, or free one",
    Cause.NO_SLOT: "free a slot on an idle GPU, or raise its number of replicas",
    Cause.NO_MEMORY: "free memory on an idle GPU of this model, or move two the other way round",
    Cause.NO_TENANT: "let dcgm-exporter map GPUs to pods, or connect an inventory",
    Cause.STALE: "check dcgm-exporter on this node before anything else",
}


@dataclass(frozen=True, slots=True)
class SpotTenant:
    """One workload on a hot spot: its share there, and whether it may be moved."""

    workload: str
    workload_class: WorkloadClass
    share: Share
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class HotSpot:
    """A hot card or MIG instance, or one that was hot when its metrics stopped.

    `curable`: a move would bring it under the mark; None where a missing fact decides it.
    `hot_for_seconds` and `since` are None where nothing tells; `hot_for_capped`: at least so long.
    """

    device: DeviceLoad
    hot_for_seconds: float | None
    hot_for_capped: bool
    since: datetime | None
    tenants: tuple[SpotTenant, ...]
    cause: Cause
    curable: bool | None
    reason: str

    @property
    def address(self) -> str:
        """`NODE/GPU`, with `:ID` for a MIG instance."""
        instance = self.device.instance
        return self.device.gpu.address + ("" if instance is None else f":{instance.id}")

    @property
    def basis(self) -> Basis | None:
        return self.device.basis

    @property
    def advice(self) -> str:
        """What a person can do about it."""
        return ADVICE[self.cause]


@dataclass(frozen=True, slots=True)
class Trigger:
    """Whether there is reason to act: something is hot while a GPU is idle.

    `fires` is None where it can't be judged. The names are addresses as in HotSpot.
    """

    fires: bool | None
    hot: tuple[str, ...]
    idle: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class _Judged:
    device: DeviceLoad
    heat: Heat


def hot_spots(
    snapshot: Snapshot,
    policy: Policy,
    devices: Sequence[DeviceLoad] | None = None,
    workloads: Mapping[str, Workload] | None = None,
) -> tuple[HotSpot, ...]:
    """Every hot spot with its cause, the highest load first, then by address.

    A card with MIG instances is judged by its instances. `devices` and
    `workloads` are the snapshot's `device_loads` and `attributed` where the caller has them.
    """
    loads = device_loads(snapshot) if devices is None else devices
    judged = _judged(loads, policy)
    if workloads is None:
        workloads = {one.id: one for one in attributed(snapshot, policy, loads)}
    idle: dict[_Kind, list[DeviceLoad]] = {}
    for one in judged:
        if one.heat.idle:
            idle.setdefault(_kind(one.device), []).append(one.device)
    spots = [
        _spot(one, idle, workloads, snapshot, policy)
        for one in judged
        if one.heat.hot or _was_hot(one.device, policy)
    ]
    return tuple(sorted(spots, key=lambda spot: (-(spot.device.load_pct or 0.0), spot.address)))


def trigger(
    snapshot: Snapshot, policy: Policy, devices: Sequence[DeviceLoad] | None = None
) -> Trigger:
    """Whether a card or instance is hot (over `hot_above` for `hot_for`) while a GPU is idle."""
    judged = _judged(device_loads(snapshot) if devices is None else devices, policy)
    hot = tuple(_address(one.device) for one in judged if one.heat.hot)
    idle = tuple(_address(one.device) for one in judged if one.heat.idle)
    if hot and idle:
        return Trigger(True, hot, idle, f"{len(hot)} hot and {len(idle)} idle")
    if hot and any(one.heat.idle is None for one in judged):
        return Trigger(None, hot, idle, "something is hot; whether a GPU is idle is not known")
    if hot:
        mark = f"{policy.idle_below:g} %"
        return Trigger(False, hot, idle, f"something is hot, and no GPU is under {mark} to take it")
    unjudged = [one.heat.unknown_because for one in judged if one.heat.hot is None]
    if judged and len(unjudged) == len(judged):
        return Trigger(None, hot, idle, f"nothing can be judged: {unjudged[0]}")
    return Trigger(False, hot, idle, "nothing is hot")


def stays_hot(
    window: WindowStats | None, policy: Policy, *, was_hot: bool, profile: str | None = None
) -> bool | None:
    """Hot with hysteresis: what was hot stays so until every sample is under `clear_below`.

    `was_hot` is the last decision about this device. None: it can't be told, and was not hot.
    """
    if window is None or not is_full(window):
        return True if was_hot else None
    mark = policy.hot_mark(profile)
    if not was_hot:
        return window.min_pct > mark
    return window.max_pct >= min(policy.clear_below, mark)


# -- judging devices --------------------------------------------------------------------------


def _judged(devices: Iterable[DeviceLoad], policy: Policy) -> list[_Judged]:
    return [
        _Judged(device, _heat(device.gpu, device.instance, policy))
        for device in devices
        if device.instance is not None or not device.gpu.mig
    ]


def _heat(gpu: Gpu, instance: MigInstance | None, policy: Policy) -> Heat:
    if instance is None:
        return gpu_heat(gpu, policy)
    return instance_heat(gpu, instance, policy)


def _was_hot(device: DeviceLoad, policy: Policy) -> bool:
    """Whether a device whose metrics stopped was over the mark at the last sample."""
    if device.gpu.state not in (GpuState.STALE, GpuState.LOST):
        return False
    last = (device.instance or device.gpu).utilization_pct
    return last is not None and last > policy.hot_mark(device.profile)


def _address(device: DeviceLoad) -> str:
    suffix = "" if device.instance is None else f":{device.instance.id}"
    return device.gpu.address + suffix


# -- one hot spot -----------------------------------------------------------------------------


def _spot(
    one: _Judged,
    idle: Mapping[_Kind, Sequence[DeviceLoad]],
    workloads: Mapping[str, Workload],
    snapshot: Snapshot,
    policy: Policy,
) -> HotSpot:
    device = one.device
    source = device.instance or device.gpu
    tenants = tuple(_tenant(share, workloads[share.workload], policy) for share in device.shares)
    cause, curable, reason = _cause(one, tenants, idle, policy)
    holds = bool(one.heat.hot) and snapshot.hot_above_pct in (None, policy.hot_above)
    seconds = source.hot_for_seconds if holds else None
    return HotSpot(
        device=device,
        hot_for_seconds=seconds,
        hot_for_capped=seconds is not None and source.hot_for_capped,
        since=None if seconds is None else snapshot.taken_at - timedelta(seconds=seconds),
        tenants=tuple(sorted(tenants, key=lambda t: (-(t.share.load_pct or 0.0), t.workload))),
        cause=cause,
        curable=curable,
        reason=reason,
    )


def _tenant(share: Share, workload: Workload, policy: Policy) -> SpotTenant:
    return SpotTenant(share.workload, workload.workload_class, share, protection(workload, policy))


_Finding = tuple[Cause, bool | None, str]
_Kind = tuple[str | None, str | None]


def _cause(
    one: _Judged,
    tenants: Sequence[SpotTenant],
    idle: Mapping[_Kind, Sequence[DeviceLoad]],
    policy: Policy,
) -> _Finding:
    device, mark = one.device, policy.hot_mark(one.device.profile)
    if not one.heat.hot:
        return Cause.STALE, None, _stale_words(device)
    if not tenants:
        return Cause.NO_TENANT, None, "neither labels nor an inventory say who is on it"
    heaviest = max(tenants, key=lambda t: (t.share.load_pct or 0.0, t.workload))
    if (heaviest.share.load_pct or 0.0) > mark:
        return Cause.ONE_TENANT, False, f"{heaviest.workload} saturates it alone: {_NO_USE}"
    return _protected(device, tenants, mark) or _without_room(
        device, [t for t in tenants if not t.verdict.is_refusal], idle.get(_kind(device), ()), mark
    )


_NO_USE = "a move would only move the hot spot"


def _stale_words(device: DeviceLoad) -> str:
    last = (device.instance or device.gpu).utilization_pct
    age = device.gpu.age_seconds
    when = "" if age is None else f" {age:.0f}s ago"
    return f"state {device.gpu.state}: it was at {last:.0f} %{when}, nothing is known since"


def _protected(device: DeviceLoad, tenants: Sequence[SpotTenant], mark: float) -> _Finding | None:
    refused = [t for t in tenants if t.verdict.is_refusal]
    if len(refused) == len(tenants):
        return Cause.ALL_PROTECTED, False, "no tenant may move: " + _rules(refused)
    movable = sum(t.share.load_pct or 0.0 for t in tenants if not t.verdict.is_refusal)
    left = (device.load_pct or 0.0) - movable
    if left <= mark:
        return None
    words = f"without those that may move it would still be at {left:.0f} %"
    return Cause.ALL_PROTECTED, False, f"{words}: {_rules(refused)}" if refused else words


def _rules(refused: Iterable[SpotTenant]) -> str:
    return "; ".join(f"{t.workload} ({t.verdict.rule}: {t.verdict.reason})" for t in refused)


def _without_room(
    device: DeviceLoad, movable: Sequence[SpotTenant], idle: Sequence[DeviceLoad], mark: float
) -> _Finding:
    """Whether an idle device of the same kind could take a movable tenant."""
    kind = device.gpu.model or "this model"
    if device.profile is not None:
        kind = f"{device.profile} on {kind}"
    if not idle:
        return Cause.NO_IDLE_OF_MODEL, False, f"no {kind} is idle"
    open_ones = [target for target in idle if _has_slot(target)]
    if not open_ones:
        return Cause.NO_SLOT, False, f"{len(idle)} idle of {kind}, none with a free slot"
    helps = f"{len(device.shares)} workloads share it: a move helps"
    cool: list[tuple[SpotTenant, DeviceLoad]] = []
    for tenant in movable:
        for target in open_ones:
            if (target.load_pct or 0.0) + (tenant.share.load_pct or 0.0) <= mark:
                if tenant.verdict.allowed and _fits(tenant, target):
                    return Cause.SHARED, True, helps
                cool.append((tenant, target))
    if not cool:
        words = f"any of the {len(open_ones)} idle {kind} would become hot itself"
        return Cause.NO_IDLE_OF_MODEL, False, words
    fits = [(tenant, _fits(tenant, target)) for tenant, target in cool]
    if all(fit is False for _, fit in fits):
        return Cause.NO_MEMORY, False, f"no idle {kind} has the memory that a tenant holds"
    return Cause.SHARED, None, _unsure(fits)


def _unsure(fits: Sequence[tuple[SpotTenant, bool | None]]) -> str:
    for tenant, fit in fits:
        if fit is not False and tenant.verdict.is_unknown:
            return f"a move would help if allowed; {tenant.workload}: {tenant.verdict.reason}"
    return "a move would help if it fits: the memory of its tenants or of idle GPUs is unknown"


def _kind(device: DeviceLoad) -> _Kind:
    """What has to agree for one device to stand in for another: a hot one is never idle itself."""
    return device.gpu.model, device.profile


def _has_slot(target: DeviceLoad) -> bool:
    """Unknown slots are free ones here: who moves for real asks the device plugin's own count."""
    if target.instance is not None:
        return not target.shares
    return target.gpu.slots is None or len(target.shares) < target.gpu.slots


def _fits(tenant: SpotTenant, target: DeviceLoad) -> bool | None:
    """Whether the memory is there; None where either side is unknown."""
    used, total = target.memory_used_mib, target.memory_total_mib
    if tenant.share.memory_mib is None or used is None or total is None:
        return None
    return tenant.share.memory_mib <= total - used

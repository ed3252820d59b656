"""Which part of a device's load and memory each workload on it causes.

Measured per process where the exporter does that. What is left of the device is shared among the
tenants without a measurement: by the slots they requested where all of these are known, else
equally. A share is then an estimate, called one, with the error it may have.

The load of a device is its mean over the snapshot's window where there is one, since one moment
says little; per-process figures are of one moment and are taken as parts of that mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from msgspec.structs import replace

from gpuctl.model.gpu import Gpu, GpuState, MigInstance, Tenant, WindowStats
from gpuctl.model.policy import Policy
from gpuctl.model.snapshot import Snapshot
from gpuctl.model.workload import Placement, Workload
from gpuctl.policy.classes import workload_class

Basis = Literal["window", "now"]

_FRESH = frozenset({GpuState.OK, GpuState.NO_MEM, GpuState.NO_UTIL})


class DeviceKey(NamedTuple):
    """Identity of a whole card (`mig_id` None) or of a MIG instance."""

    uuid: str
    mig_id: int | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """What one workload causes on one device.

    `load_pct` in percent of the device; None when the device's own load is unknown. The true load
    lies within `load_error_pct` points of it: 0 for a measurement and for the only tenant; for a
    part of a remainder R, what it would be off if the tenant caused all of R or none of it, the
    greater of the two (an equal part among k: R(k-1)/k).
    """

    workload: str
    load_pct: float | None
    load_measured: bool
    load_error_pct: float | None
    memory_mib: float | None
    memory_measured: bool


@dataclass(frozen=True, slots=True)
class DeviceLoad:
    """One device with the shares of its tenants, which never add up to more than `load_pct`.

    Less is possible: load of processes that no workload is known for stays `unattributed_pct`.
    `profile` is None for a whole card; a card with MIG instances has no load of its own here,
    its instances have.
    """

    key: DeviceKey
    gpu: Gpu
    instance: MigInstance | None
    load_pct: float | None
    basis: Basis | None
    shares: tuple[Share, ...]
    unattributed_pct: float | None

    @property
    def profile(self) -> str | None:
        return None if self.instance is None else self.instance.profile

    @property
    def memory_used_mib(self) -> float | None:
        return (self.instance or self.gpu).memory_used_mib

    @property
    def memory_total_mib(self) -> float | None:
        return (self.instance or self.gpu).memory_total_mib


def attributed(
    snapshot: Snapshot, policy: Policy, devices: Sequence[DeviceLoad] | None = None
) -> tuple[Workload, ...]:
    """Every workload with its class, placements, load and memory; ordered by id.

    A workload on several devices gets the mean of its loads and the largest of its errors and
    memories; `device_loads` has each of them. Its load is None when that of any of its devices
    is. Workloads that only the metrics' labels name have no owner, priority or class: None.
    `devices`: the snapshot's `device_loads`, where the caller has them already.
    """
    found: dict[str, list[tuple[DeviceLoad, Share]]] = {}
    for device in device_loads(snapshot) if devices is None else devices:
        for share in device.shares:
            found.setdefault(share.workload, []).append((device, share))
    known = {one.id: one for one in snapshot.workloads}
    kinds = _kinds(snapshot)
    names = sorted(known.keys() | found.keys())
    return tuple(
        _attributed(
            known.get(name) or Workload(id=name, kind=kinds.get(name, "pod")),
            found.get(name, ()),
            policy,
        )
        for name in names
    )


def device_loads(snapshot: Snapshot) -> tuple[DeviceLoad, ...]:
    """Every card and MIG instance with its tenants, ordered by node, index, UUID and instance.

    Where an inventory places a workload, that counts; labels only fill in what it does not know.
    """
    placed = _placed(snapshot)
    elsewhere = {one.id for one in snapshot.workloads if one.placements}
    devices: list[DeviceLoad] = []
    for gpu in sorted(snapshot.gpus, key=_order):
        for instance in (None, *sorted(gpu.mig, key=lambda one: one.id)):
            key = DeviceKey(gpu.uuid, None if instance is None else instance.id)
            tenants = (gpu if instance is None else instance).tenants
            present = _present(placed.get(key, {}), tenants, elsewhere)
            devices.append(_device_load(key, gpu, instance, present))
    return tuple(devices)


def _order(gpu: Gpu) -> tuple[str, int, str]:
    return gpu.node, -1 if gpu.gpu is None else gpu.gpu, gpu.uuid


# -- who is on a device -----------------------------------------------------------------------


@dataclass(slots=True)
class _Present:
    """One workload on one device, with all that is known before any sharing."""

    id: str
    load_now_pct: float | None = None
    memory_mib: float | None = None
    memory_measured: bool = False
    unmeasured: bool = True
    given: Workload | None = None
    slots: int | None = None


def _placed(snapshot: Snapshot) -> Mapping[DeviceKey, Mapping[str, Workload]]:
    uuids = {(gpu.node, gpu.gpu): gpu.uuid for gpu in snapshot.gpus}
    placed: dict[DeviceKey, dict[str, Workload]] = {}
    for workload in snapshot.workloads:
        for place in workload.placements:
            uuid = place.uuid or uuids.get((place.node, place.gpu), "")
            placed.setdefault(DeviceKey(uuid, place.mig_id), {})[workload.id] = workload
    return placed


def _present(
    placed: Mapping[str, Workload], tenants: Sequence[Tenant], elsewhere: set[str]
) -> list[_Present]:
    here: dict[str, _Present] = {}
    for name, workload in placed.items():
        here[name] = _Present(
            name,
            memory_mib=workload.memory_mib,
            given=workload if workload.load_pct is not None else None,
            slots=workload.requested_slots,
        )
    seen: set[str] = set()
    for tenant in tenants:
        name = tenant.workload
        if name not in placed and name in elsewhere:
            continue
        _add_measurement(here.setdefault(name, _Present(name)), tenant, is_first=name not in seen)
        seen.add(name)
    return [here[name] for name in sorted(here)]


def _add_measurement(one: _Present, tenant: Tenant, *, is_first: bool) -> None:
    """Take in one container; a workload is measured only when all of its containers are."""
    if tenant.measured and tenant.utilization_pct is not None:
        one.load_now_pct = (one.load_now_pct or 0.0) + max(0.0, tenant.utilization_pct)
        one.unmeasured = one.unmeasured and not is_first
    else:
        one.unmeasured = True
    if tenant.memory_used_mib is not None:
        before = one.memory_mib if one.memory_measured and one.memory_mib is not None else 0.0
        one.memory_mib = before + max(0.0, tenant.memory_used_mib)
        one.memory_measured = True


# -- sharing a device -------------------------------------------------------------------------


def _device_load(
    key: DeviceKey, gpu: Gpu, instance: MigInstance | None, present: Sequence[_Present]
) -> DeviceLoad:
    load, basis, now = _load(gpu, instance)
    loads = _loads(present, load, now)
    memories = _memories(present, instance or gpu)
    shares = tuple(
        Share(one.id, *share, memory, one.memory_measured)
        for one, share, memory in zip(present, loads, memories, strict=True)
    )
    rest = None if load is None else max(0.0, load - sum(share.load_pct or 0 for share in shares))
    return DeviceLoad(key, gpu, instance, load, basis, shares, rest)


def _load(
    gpu: Gpu, instance: MigInstance | None
) -> tuple[float | None, Basis | None, float | None]:
    """The device's load, what it is based on, and its current value."""
    if gpu.state not in _FRESH or (instance is None and gpu.mig):
        return None, None, None
    device = gpu if instance is None else instance
    now: float | None = device.utilization_pct
    if now is None or (instance is None and gpu.state is GpuState.NO_UTIL):
        return None, None, None
    window: WindowStats | None = device.window
    if window is not None:
        return min(100.0, max(0.0, window.mean_pct)), "window", now
    return min(100.0, max(0.0, now)), "now", now


_Load = tuple[float | None, bool, float | None]


def _loads(present: Sequence[_Present], load: float | None, now: float | None) -> list[_Load]:
    """Load, whether it is measured, and its error, of each tenant."""
    if load is None:
        return [(None, False, None) for _ in present]
    known = [one.given.load_pct if one.given else one.load_now_pct for one in present]
    fixed = sum(value for one, value in zip(present, known, strict=True) if one.given and value)
    given_scale = min(1.0, load / fixed) if fixed else 1.0
    room = max(0.0, load - fixed)
    measured_now = sum(
        value for one, value in zip(present, known, strict=True) if not one.given and value
    )
    # Rounding and overlap let processes add up to more than their card.
    whole = max(now or 0.0, measured_now)
    scale = min(load / whole, room / measured_now) if measured_now else 1.0
    bases = [
        0.0 if value is None else value * (given_scale if one.given else scale)
        for one, value in zip(present, known, strict=True)
    ]
    sharing = [one for one in present if one.unmeasured and not one.given]
    rest = max(0.0, load - sum(bases))
    parts = dict(zip((one.id for one in sharing), _parts(sharing, rest), strict=True))
    result: list[_Load] = []
    for one, base in zip(present, bases, strict=True):
        if one.given:
            result.append((base, one.given.load_measured, one.given.load_error_pct or 0.0))
        elif one.id in parts:
            part = parts[one.id]
            error = max(rest - part, part) if len(sharing) > 1 else 0.0
            result.append((base + part, False, error))
        else:
            result.append((base, True, 0.0))
    return result


def _parts(sharing: Sequence[_Present], rest: float) -> Iterator[float]:
    """The remainder by requested slots where all are known, else equally."""
    slots = [one.slots or 0 for one in sharing]
    weights = slots if slots and all(slots) else [1] * len(sharing)
    total = sum(weights)
    return (rest * weight / total for weight in weights)


def _memories(present: Sequence[_Present], device: Gpu | MigInstance) -> list[float | None]:
    """Memory of each tenant: measured, else the inventory's word, else a part of what is left."""
    used, total = device.memory_used_mib, device.memory_total_mib
    known = sum(one.memory_mib for one in present if one.memory_mib is not None)
    scale = min(1.0, total / known) if total and known else 1.0
    silent = sum(one.memory_mib is None for one in present)
    if used is None or (isinstance(device, Gpu) and device.mig):
        part = None
    else:
        part = max(0.0, used - known * scale) / max(1, silent)
    return [part if one.memory_mib is None else one.memory_mib * scale for one in present]


# -- workloads --------------------------------------------------------------------------------


def _kinds(snapshot: Snapshot) -> Mapping[str, Literal["pod", "vm", "job"]]:
    kinds: dict[str, Literal["pod", "vm", "job"]] = {}
    for gpu in snapshot.gpus:
        for tenant in (*gpu.tenants, *(one for part in gpu.mig for one in part.tenants)):
            kinds[tenant.workload] = tenant.kind
    return kinds


def _attributed(
    workload: Workload, found: Sequence[tuple[DeviceLoad, Share]], policy: Policy
) -> Workload:
    shares = [share for _, share in found]
    loads = [share.load_pct for share in shares]
    known = [load for load in loads if load is not None]
    is_known = bool(known) and len(known) == len(loads)
    memories = [share.memory_mib for share in shares if share.memory_mib is not None]
    bases = {device.basis for device, _ in found}
    placements = workload.placements or tuple(_placement(device) for device, _ in found)
    return replace(
        workload,
        workload_class=workload_class(workload, policy),
        placements=placements,
        load_pct=sum(known) / len(known) if is_known else None,
        load_measured=is_known and all(share.load_measured for share in shares),
        load_error_pct=max(s.load_error_pct or 0.0 for s in shares) if is_known else None,
        load_basis=_common_basis(bases) if is_known else None,
        memory_mib=max(memories) if memories else workload.memory_mib,
    )


def _common_basis(bases: set[Basis | None]) -> Basis | None:
    return "window" if bases == {"window"} else "now"


def _placement(device: DeviceLoad) -> Placement:
    gpu = device.gpu
    return Placement(node=gpu.node, gpu=gpu.gpu, uuid=gpu.uuid, mig_id=device.key.mig_id)

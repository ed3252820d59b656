"""From raw samples to one reading per GPU and MIG instance.

The same function serves Prometheus, direct scrapes and the simulation, so that all of them give
the same readings. Rules and their sources stand in `DESIGN.md`, "Reading the metrics right".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpuctl.metrics import names as n
from gpuctl.metrics.bounds import ratio_named_scale, reading
from gpuctl.metrics.labels import LabelRules, WorkloadName
from gpuctl.metrics.mig import compute_slices, total_slices, weighed
from gpuctl.metrics.names import RATIO_NAMED_UTILIZATION, MetricNames
from gpuctl.model.gpu import Gpu, GpuState, MigInstance, Tenant
from gpuctl.model.sample import Sample

# A pseudo metric: it says that a series exists, with all its labels and the time of its newest
# sample, and nothing else.
PRESENCE = "gpuctl:presence"

# Rows that lag the newest row of their device by more than this belong to a target or a pod that
# is gone and has not been marked stale (agents without staleness markers, federation).
_LINGERING_SECONDS = 60.0

_USER_FAMILIES = frozenset({n.UTILIZATION, n.ENGINE_ACTIVE, n.MEMORY_USED, PRESENCE})
_UTILIZATION_FAMILIES = frozenset({n.UTILIZATION, n.ENGINE_ACTIVE})
_WHOLE = -1

DeviceKey = tuple[str, str]
"""Cluster (or "") and UUID."""

Source = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Rejected:
    """A sample that did not become part of a reading, and why."""

    sample: Sample
    reason: str


@dataclass(slots=True)
class Trace:
    """Collects what became of each sample, for `--explain`."""

    kept: list[tuple[Sample, str]] = field(default_factory=list)
    used: list[tuple[Sample, str]] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)


@dataclass(slots=True)
class _Row:
    sample: Sample
    family: str
    name: str
    value: float
    at: float | None
    source: Source
    user: WorkloadName | None


@dataclass(slots=True)
class _Device:
    """All rows of one card; `parts` maps a MIG instance's id, or _WHOLE, to its rows."""

    key: DeviceKey
    parts: dict[int, list[_Row]] = field(default_factory=dict)
    profiles: dict[int, str] = field(default_factory=dict)
    families: set[str] = field(default_factory=set)
    identity: Sample | None = None
    newest: float | None = None


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The readings of one batch of samples, and what was odd about it."""

    gpus: tuple[Gpu, ...]
    warnings: tuple[str, ...]


@dataclass(slots=True)
class Cleaner:
    """Reads batches of samples from one site.

    `now`: unix time on the clock that the samples' times were taken from.
    `max_age_seconds`: a device whose newest sample is older is stale.
    """

    names: MetricNames
    rules: LabelRules
    now: float
    max_age_seconds: float
    trace: Trace | None = None

    def clean(self, samples: Iterable[Sample], silent: Iterable[Sample] = ()) -> Cleaned:
        """One Gpu per card, ordered by node, index and UUID.

        `silent` are samples of devices that had a utilization within the last hour and have none
        now; only their labels count.
        """
        devices = self._group(list(samples))
        silent_by_key = {self._key(s): s for s in silent}
        gpus = []
        for device in devices.values():
            was_seen = silent_by_key.pop(device.key, None) is not None
            gpus.append(self._gpu(device, was_seen=was_seen))
        gpus += [self._lost(key, sample) for key, sample in silent_by_key.items()]
        gpus.sort(key=_order)
        return Cleaned(gpus=tuple(gpus), warnings=_oddities(gpus, devices))

    # -- grouping -----------------------------------------------------------------------------

    def _key(self, sample: Sample) -> DeviceKey:
        labels = sample.labels
        uuid = self.rules.get(labels, "uuid")
        if uuid is None:
            # Relabelling dropped the UUID: node and index are the next best identity.
            index = labels.get("gpu") or labels.get("device") or "?"
            uuid = f"{self.rules.node(labels) or '?'}#{index}"
        return (labels.get("cluster", ""), uuid)

    def _group(self, samples: list[Sample]) -> dict[DeviceKey, _Device]:
        rules, names = self.rules, self.names
        exported = rules.exported_groups(s.labels for s in samples)
        scales = self._ratio_scales(samples)
        devices: dict[DeviceKey, _Device] = {}
        times: dict[tuple[DeviceKey, int, Source, WorkloadName | None], float] = {}
        for sample in samples:
            family = PRESENCE if sample.name == PRESENCE else names.family_of.get(sample.name)
            if family is None or not _is_gpu_row(sample):
                continue
            key = self._key(sample)
            device = devices.get(key)
            if device is None:
                device = devices[key] = _Device(key)
            labels = sample.labels
            mig_text = rules.get(labels, "mig_id")
            part = int(mig_text) if mig_text is not None and mig_text.isdigit() else _WHOLE
            group = rules.job_group(labels)
            user = rules.workload(labels, exported=group in exported)
            source: Source = (labels.get("job"), labels.get("instance"), labels.get("replica"))
            device.families.add(family)
            if device.identity is None or family == PRESENCE or "gpu" in labels:
                device.identity = (
                    device.identity if _knows_more(device.identity, sample) else sample
                )
            if part != _WHOLE and part not in device.profiles:
                profile = rules.get(labels, "profile")
                if profile is not None:
                    device.profiles[part] = profile
            value = (
                reading(family, sample.value, scale=scales.get((sample.name, group), 1.0))
                if (family != PRESENCE)
                else 0.0
            )
            if isinstance(value, str):
                self._reject(sample, value)
                continue
            if self.trace is not None and family != PRESENCE:
                self.trace.kept.append((sample, family))
            if sample.at is not None and family == PRESENCE:
                times[key, part, source, user] = sample.at
            device.parts.setdefault(part, []).append(
                _Row(sample, family, sample.name, value, sample.at, source, user)
            )
        self._date(devices, times)
        return devices

    def _ratio_scales(self, samples: Iterable[Sample]) -> dict[tuple[str, tuple[str, str]], float]:
        raw: dict[tuple[str, tuple[str, str]], list[float]] = defaultdict(list)
        for sample in samples:
            if sample.name in RATIO_NAMED_UTILIZATION:
                raw[sample.name, self.rules.job_group(sample.labels)].append(sample.value)
        return {key: ratio_named_scale(values) for key, values in raw.items()}

    def _date(
        self,
        devices: Mapping[DeviceKey, _Device],
        times: Mapping[tuple[DeviceKey, int, Source, WorkloadName | None], float],
    ) -> None:
        """Give undated rows the time of the series they belong to; drop what lingers."""
        by_source: dict[tuple[DeviceKey, int, Source], float] = {}
        for (key, part, source, _), at in times.items():
            where = (key, part, source)
            by_source[where] = max(at, by_source.get(where, at))
        for device in devices.values():
            for part, rows in device.parts.items():
                for row in rows:
                    if row.at is None:
                        row.at = times.get(
                            (device.key, part, row.source, row.user),
                            by_source.get((device.key, part, row.source)),
                        )
            dated = [row.at for rows in device.parts.values() for row in rows if row.at is not None]
            device.newest = max(dated, default=None)
            if device.newest is not None:
                self._drop_lingering(device, device.newest - _LINGERING_SECONDS)

    def _drop_lingering(self, device: _Device, before: float) -> None:
        for part in list(device.parts):
            kept = []
            for row in device.parts[part]:
                if row.at is not None and row.at < before:
                    age = (device.newest or 0.0) - row.at
                    self._reject(row.sample, f"{age:.0f}s older than the device's newest sample")
                else:
                    kept.append(row)
            device.parts[part] = kept
            if not kept:
                del device.parts[part]

    # -- reading ------------------------------------------------------------------------------

    def _gpu(self, device: _Device, *, was_seen: bool) -> Gpu:
        instances = {part: rows for part, rows in device.parts.items() if part != _WHOLE}
        whole = device.parts.get(_WHOLE, [])
        identity = device.identity
        labels = identity.labels if identity is not None else {}
        model = self.rules.get(labels, "model")
        xid = _xid([*whole, *(row for rows in instances.values() for row in rows)])
        age = None if device.newest is None else max(0.0, self.now - device.newest)
        common = {
            "node": self.rules.node(labels) or "unknown",
            "gpu": _index(labels),
            "uuid": device.key[1],
            "cluster": device.key[0] or None,
            "model": model,
            "pci_bus_id": self.rules.get(labels, "pci_bus_id"),
            "xid": xid,
            "age_seconds": age,
        }
        figures = (
            self._mig_card(instances, device.profiles, model, whole)
            if instances
            else self._whole_card(whole)
        )
        state = self._state(device, figures, age, was_seen=was_seen)
        if state is GpuState.LOST:
            figures = dict.fromkeys(_FIGURES)
        return Gpu(**common, state=state, **figures)  # type: ignore[arg-type]

    def _state(
        self, device: _Device, figures: Mapping[str, object], age: float | None, *, was_seen: bool
    ) -> GpuState:
        reports_utilization = bool(device.families & _UTILIZATION_FAMILIES)
        if not reports_utilization and (was_seen or device.families <= {n.XID, PRESENCE}):
            return GpuState.LOST
        if age is not None and age > self.max_age_seconds:
            return GpuState.STALE
        if figures["utilization_pct"] is None:
            return GpuState.NO_UTIL
        if figures["memory_used_mib"] is None or figures["memory_total_mib"] is None:
            return GpuState.NO_MEM
        return GpuState.OK

    def _lost(self, key: DeviceKey, sample: Sample) -> Gpu:
        labels = sample.labels
        return Gpu(
            node=self.rules.node(labels) or "unknown",
            gpu=_index(labels),
            uuid=key[1],
            cluster=key[0] or None,
            model=self.rules.get(labels, "model"),
            pci_bus_id=self.rules.get(labels, "pci_bus_id"),
            state=GpuState.LOST,
            utilization_pct=None,
            memory_used_mib=None,
            memory_total_mib=None,
        )

    def _whole_card(self, rows: list[_Row]) -> dict[str, object]:
        utilization = self._best(rows, n.UTILIZATION) or self._best(rows, n.ENGINE_ACTIVE)
        used, total = self._memory(rows)
        return {
            "utilization_pct": utilization.value if utilization else None,
            "utilization_source": utilization.name if utilization else None,
            "memory_used_mib": used,
            "memory_total_mib": total,
            "temperature_c": _value(self._best(rows, n.TEMPERATURE)),
            "power_w": _value(self._best(rows, n.POWER)),
            "memory_bandwidth_pct": self._bandwidth(rows),
            "tensor_pct": _value(self._best(rows, n.TENSOR)),
            "tenants": self._tenants(rows),
        }

    def _mig_card(
        self,
        parts: Mapping[int, list[_Row]],
        profiles: Mapping[int, str],
        model: str | None,
        whole: list[_Row],
    ) -> dict[str, object]:
        """The card from its instances: the exporter reports those instead of the card."""
        for row in whole:
            if row.family in _UTILIZATION_FAMILIES:
                self._reject(row.sample, "the card has MIG instances, their own rows count")
        instances = tuple(
            self._instance(part, profiles.get(part, ""), parts[part]) for part in sorted(parts)
        )
        everything = [*whole, *(row for part in sorted(parts) for row in parts[part])]
        slices = total_slices(model)
        return {
            "utilization_pct": weighed(
                ((i.compute_slices, i.utilization_pct) for i in instances), slices
            ),
            "utilization_source": "mig_instances",
            "memory_used_mib": _sum(i.memory_used_mib for i in instances),
            "memory_total_mib": _sum(i.memory_total_mib for i in instances),
            "temperature_c": _value(self._best(everything, n.TEMPERATURE)),
            "power_w": _value(self._best(everything, n.POWER)),
            "memory_bandwidth_pct": weighed(
                ((i.compute_slices, i.memory_bandwidth_pct) for i in instances), slices
            ),
            "tensor_pct": weighed(((i.compute_slices, i.tensor_pct) for i in instances), slices),
            "allocated_slices": sum(i.compute_slices or 0 for i in instances),
            "total_slices": slices,
            "mig": instances,
        }

    def _instance(self, mig_id: int, profile: str, rows: list[_Row]) -> MigInstance:
        for row in rows:
            if row.family == n.UTILIZATION:
                self._reject(row.sample, "not supported on MIG instances, whatever it says")
        utilization = self._best(rows, n.ENGINE_ACTIVE)
        used, total = self._memory(rows)
        return MigInstance(
            id=mig_id,
            profile=profile or "unknown",
            compute_slices=compute_slices(profile),
            utilization_pct=utilization.value if utilization else None,
            utilization_source=utilization.name if utilization else None,
            memory_used_mib=used,
            memory_total_mib=total,
            memory_bandwidth_pct=_value(self._best(rows, n.DRAM_ACTIVE)),
            tensor_pct=_value(self._best(rows, n.TENSOR)),
            tenants=self._tenants(rows),
        )

    def _best(self, rows: Iterable[_Row], family: str) -> _Row | None:
        """The row that stands for a family: most trusted name, then the highest value.

        Highest, because the rows of one device are copies, replicas, or (since dcgm-exporter
        4.8.2) the card beside the shares of its pods.
        """
        best: _Row | None = None
        rank = self.names.rank
        for row in rows:
            if row.family != family:
                continue
            if best is None or (rank(row.name), -row.value) < (rank(best.name), -best.value):
                best = row
        if best is not None and self.trace is not None:
            self.trace.used.append((best.sample, family))
        return best

    def _memory(self, rows: list[_Row]) -> tuple[float | None, float | None]:
        """Used and total MiB: FB_TOTAL, else used + free + reserved, else used + free."""
        used = self._best(rows, n.MEMORY_USED)
        total = self._best(rows, n.MEMORY_TOTAL)
        if used is None or total is not None:
            return _value(used), _value(total)
        # Free and used of different exporters were read at different moments; keep to one.
        beside = [row for row in rows if row.source == used.source]
        free = self._best(beside, n.MEMORY_FREE) or self._best(rows, n.MEMORY_FREE)
        reserved = self._best(beside, n.MEMORY_RESERVED) or self._best(rows, n.MEMORY_RESERVED)
        if free is None:
            return used.value, None
        return used.value, used.value + free.value + (reserved.value if reserved else 0.0)

    def _bandwidth(self, rows: list[_Row]) -> float | None:
        return _value(self._best(rows, n.DRAM_ACTIVE) or self._best(rows, n.MEMORY_COPY))

    def _tenants(self, rows: list[_Row]) -> tuple[Tenant, ...]:
        users: dict[str, WorkloadName] = {}
        for row in rows:
            if row.user is not None and row.family in _USER_FAMILIES:
                users.setdefault(row.user.id, row.user)
        utilization = _shares(rows, n.UTILIZATION)
        memory = _shares(rows, n.MEMORY_USED)
        return tuple(
            Tenant(
                workload=key,
                kind="job" if user.kind == "job" else "pod",
                container=user.container,
                utilization_pct=utilization.get(key),
                memory_used_mib=memory.get(key),
                measured=key in utilization or key in memory,
            )
            for key, user in sorted(users.items())
        )

    def _reject(self, sample: Sample, reason: str) -> None:
        if self.trace is not None:
            self.trace.rejected.append(Rejected(sample, reason))


_FIGURES = ("utilization_pct", "memory_used_mib", "memory_total_mib")


def _value(row: _Row | None) -> float | None:
    return None if row is None else row.value


def _is_gpu_row(sample: Sample) -> bool:
    """CPU and switch series share the exporter's names and are not GPUs."""
    labels = sample.labels
    return not (labels.get("nvswitch") or labels.get("cpu") or labels.get("nvlink"))


def _knows_more(held: Sample | None, new: Sample) -> bool:
    if held is None:
        return False
    if held.name == PRESENCE and new.name == PRESENCE:
        return (held.at or 0.0) >= (new.at or 0.0)
    return len(held.labels) >= len(new.labels)


def _index(labels: Mapping[str, str]) -> int | None:
    for text in (labels.get("gpu", ""), labels.get("device", "").removeprefix("nvidia")):
        if text.isdigit():
            return int(text)
    return None


def _order(gpu: Gpu) -> tuple[str, str, int, str]:
    return (gpu.cluster or "", gpu.node, -1 if gpu.gpu is None else gpu.gpu, gpu.uuid)


def _xid(rows: Iterable[_Row]) -> int | None:
    """The last XID. A new code is a new series, so the newest row tells; 0 is "no error"."""
    best: _Row | None = None
    for row in rows:
        if row.family == n.XID and (
            best is None or (row.at or 0.0, row.value) > (best.at or 0.0, best.value)
        ):
            best = row
    return int(best.value) if best is not None and best.value > 0 else None


def _sum(values: Iterable[float | None]) -> float | None:
    known = list(values)
    if any(value is None for value in known):
        return None
    return sum(value for value in known if value is not None)


def _shares(rows: Iterable[_Row], family: str) -> dict[str, float]:
    """Each workload's measured share: only where one target gives a row for the card as well.

    Without such a row the rows of the workloads are copies of the card's figure.
    """
    of_family = [row for row in rows if row.family == family]
    card_sources = {row.source for row in of_family if row.user is None}
    shares: dict[str, float] = {}
    for row in of_family:
        if row.user is not None and row.source in card_sources:
            shares[row.user.id] = shares.get(row.user.id, 0.0) + row.value
    return shares


def _oddities(gpus: Iterable[Gpu], devices: Mapping[DeviceKey, _Device]) -> tuple[str, ...]:
    """What a person should know about the data although it could be read."""
    warnings = []
    stuck = _stuck_engine(devices.values())
    if stuck:
        warnings.append(
            f"GR_ENGINE_ACTIVE is exactly 0 on {stuck} GPUs whose GPU_UTIL is over 50: the "
            "profiling counters are stuck, MIG and tensor figures can't be trusted"
        )
    places: dict[tuple[str | None, str, int], int] = defaultdict(int)
    for gpu in gpus:
        if gpu.gpu is not None and gpu.state is not GpuState.LOST:
            places[gpu.cluster, gpu.node, gpu.gpu] += 1
    doubled = sorted(f"{node}/{index}" for (_, node, index), count in places.items() if count > 1)
    if doubled:
        warnings.append(
            f"{len(doubled)} GPU addresses are claimed by more than one card "
            f"({', '.join(doubled[:3])}): the node labels may lie, see labels.node_map"
        )
    return tuple(warnings)


def _stuck_engine(devices: Iterable[_Device]) -> int:
    def highest(rows: Iterable[_Row], family: str) -> float | None:
        return max((row.value for row in rows if row.family == family), default=None)

    count = 0
    for device in devices:
        rows = device.parts.get(_WHOLE, ())
        busy = highest(rows, n.UTILIZATION)
        if busy is not None and busy > 50 and highest(rows, n.ENGINE_ACTIVE) == 0:
            count += 1
    return count

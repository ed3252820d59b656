"""From raw samples to one reading per GPU and MIG instance.

The same function serves Prometheus, direct scrapes and the simulation, so that all of them give
the same readings. Rules and their sources stand in `DESIGN.md`, "Reading the metrics right".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpuctl.metrics import names as n
from gpuctl.metrics.labels import DeviceKey, LabelRules, Labels
from gpuctl.metrics.mig import compute_slices, total_slices, weighed
from gpuctl.metrics.names import MetricNames
from gpuctl.metrics.oddities import oddities
from gpuctl.metrics.rows import PRESENCE, WHOLE, Device, Grouper, Rejected, Row, Trace
from gpuctl.metrics.tenants import tenants
from gpuctl.model.gpu import Gpu, GpuState, MigInstance
from gpuctl.model.sample import Sample

__all__ = ["PRESENCE", "Cleaned", "Cleaner", "Rejected", "Trace", "in_order"]

_UTILIZATION_FAMILIES = frozenset({n.UTILIZATION, n.ENGINE_ACTIVE})
_FIGURES = ("utilization_pct", "memory_used_mib", "memory_total_mib")


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
        """One Gpu per card, ordered by cluster, node, index and UUID.

        `silent` are samples of devices that had a utilization within the last hour and have none
        now; only their labels count.
        """
        devices = Grouper(self.names, self.rules, self.trace).group(samples)
        silent_labels: dict[DeviceKey, list[Labels]] = {}
        for sample in silent:
            key = self.rules.device_key(sample.labels)
            if key is not None:
                silent_labels.setdefault(key, []).append(sample.labels)
        gpus = [
            self._gpu(device, was_seen=silent_labels.pop(device.key, None) is not None)
            for device in devices.values()
        ]
        gpus += [self._lost(key, labels) for key, labels in silent_labels.items()]
        gpus.sort(key=in_order)
        return Cleaned(gpus=tuple(gpus), warnings=oddities(gpus, devices.values()))

    # -- the card -----------------------------------------------------------------------------

    def _gpu(self, device: Device, *, was_seen: bool) -> Gpu:
        identity = self._identity(device.key, *_identifying(device))
        instances = {part: rows for part, rows in device.parts.items() if part != WHOLE}
        whole = device.parts.get(WHOLE, [])
        age = None if device.newest is None else max(0.0, self.now - device.newest)
        figures = (
            self._mig_card(device, instances, str(identity["model"] or ""), whole)
            if instances
            else self._whole_card(whole)
        )
        state = self._state(device, figures, age, was_seen=was_seen)
        if state is GpuState.LOST:
            figures = dict.fromkeys(_FIGURES)
        return Gpu(
            **identity,  # type: ignore[arg-type]
            **figures,  # type: ignore[arg-type]
            state=state,
            xid=self._xid(device.rows),
            age_seconds=age,
        )

    def _lost(self, key: DeviceKey, labels: list[Labels]) -> Gpu:
        identity = self._identity(key, *((each, 0.0) for each in labels))
        figures = dict.fromkeys(_FIGURES)
        return Gpu(**identity, **figures, state=GpuState.LOST)  # type: ignore[arg-type]

    def _identity(self, key: DeviceKey, *known: tuple[Labels, float]) -> dict[str, object]:
        """Where a card stands and what it is, from label sets with their times.

        Exporters of one card may name its node better or worse; the best name counts and not the
        latest, or the card would move between two names from one read to the next.
        """
        ranked = sorted(
            ((self.rules.named_node(labels), -at, labels) for labels, at in known),
            key=lambda r: (r[0][0], r[1], -len(r[2]), sorted(r[2].items())),
        )

        def first(label: str) -> str | None:
            found = (self.rules.get(labels, label) for _, _, labels in ranked)
            return next((value for value in found if value is not None), None)

        indexes = (_index(labels) for _, _, labels in ranked)
        return {
            "node": ranked[0][0][1] or "unknown",
            "gpu": next((index for index in indexes if index is not None), None),
            "uuid": key[1],
            "cluster": key[0] or None,
            "model": first("model"),
            "pci_bus_id": first("pci_bus_id"),
        }

    def _state(
        self, device: Device, figures: Mapping[str, object], age: float | None, *, was_seen: bool
    ) -> GpuState:
        families = device.families
        if not families & _UTILIZATION_FAMILIES and (was_seen or families <= {n.XID, PRESENCE}):
            return GpuState.LOST
        if age is not None and age > self.max_age_seconds:
            return GpuState.STALE
        if figures["utilization_pct"] is None:
            return GpuState.NO_UTIL
        if figures["memory_used_mib"] is None or figures["memory_total_mib"] is None:
            return GpuState.NO_MEM
        return GpuState.OK

    def _whole_card(self, rows: list[Row]) -> dict[str, object]:
        utilization = self._best(rows, n.UTILIZATION) or self._best(rows, n.ENGINE_ACTIVE)
        used, total = self._memory(rows)
        return {
            "utilization_pct": _value(utilization),
            "utilization_source": utilization.name if utilization else None,
            "memory_used_mib": used,
            "memory_total_mib": total,
            "temperature_c": _value(self._best(rows, n.TEMPERATURE)),
            "power_w": _value(self._best(rows, n.POWER)),
            "memory_bandwidth_pct": self._bandwidth(rows),
            "tensor_pct": _value(self._best(rows, n.TENSOR)),
            "tenants": tenants(rows, self.names.rank),
        }

    # -- MIG ----------------------------------------------------------------------------------

    def _mig_card(
        self, device: Device, parts: dict[int, list[Row]], model: str, whole: list[Row]
    ) -> dict[str, object]:
        """The card from its instances: the exporter reports those instead of the card."""
        for row in whole:
            if row.family in _UTILIZATION_FAMILIES:
                self._reject(row, "the card has MIG instances, their own rows count")
        slices = total_slices(model)
        widths = {part: compute_slices(device.profile(part)) or 0 for part in parts}
        present = self._present_instances(parts, widths, slices)
        instances = tuple(self._instance(i, device.profile(i), parts[i]) for i in present)
        everything = [*whole, *(row for part in present for row in parts[part])]
        allocated = sum(widths[part] for part in present)

        def of_card(figures: Iterable[float | None]) -> float | None:
            widths_known = (i.compute_slices if allocated <= slices else None for i in instances)
            return weighed(zip(widths_known, figures, strict=True), slices)

        used = _sum(i.memory_used_mib for i in instances)
        total = _sum(i.memory_total_mib for i in instances)
        if used is None or total is None:
            # Some exporters give the card's memory and not the instances' (dcgm-exporter#380).
            used, total = self._memory(whole)
        return {
            "utilization_pct": of_card(i.utilization_pct for i in instances),
            "utilization_source": "mig_instances",
            "memory_used_mib": used,
            "memory_total_mib": total,
            "temperature_c": _value(self._best(everything, n.TEMPERATURE)),
            "power_w": _value(self._best(everything, n.POWER)),
            "memory_bandwidth_pct": of_card(i.memory_bandwidth_pct for i in instances),
            "tensor_pct": of_card(i.tensor_pct for i in instances),
            "allocated_slices": allocated,
            "total_slices": slices,
            "mig": instances,
        }

    def _present_instances(
        self, parts: Mapping[int, list[Row]], widths: Mapping[int, int], slices: int
    ) -> list[int]:
        """The instances that exist together: all, or the newest when they don't fit on the card.

        After a card was partitioned anew the old instances' rows go on for a while where no
        staleness markers arrive.
        """
        if sum(widths.values()) <= slices:
            return sorted(parts)
        by_time: dict[float, list[int]] = {}
        for part, rows in parts.items():
            by_time.setdefault(max((r.at or 0.0 for r in rows), default=0.0), []).append(part)
        present: list[int] = []
        newest_first = sorted(by_time, reverse=True)
        for index, at in enumerate(newest_first):
            if present and sum(widths[p] for p in [*present, *by_time[at]]) > slices:
                for part in (p for old in newest_first[index:] for p in by_time[old]):
                    for row in parts[part]:
                        self._reject(row, "of an earlier partitioning, there is no room for it")
                break
            present += by_time[at]
        return sorted(present)

    def _instance(self, mig_id: int, profile: str, rows: list[Row]) -> MigInstance:
        for row in rows:
            if row.family == n.UTILIZATION:
                self._reject(row, "not supported on MIG instances, whatever it says")
        utilization = self._best(rows, n.ENGINE_ACTIVE)
        used, total = self._memory(rows)
        return MigInstance(
            id=mig_id,
            profile=profile or "unknown",
            compute_slices=compute_slices(profile),
            utilization_pct=_value(utilization),
            utilization_source=utilization.name if utilization else None,
            memory_used_mib=used,
            memory_total_mib=total,
            memory_bandwidth_pct=_value(self._best(rows, n.DRAM_ACTIVE)),
            tensor_pct=_value(self._best(rows, n.TENSOR)),
            tenants=tenants(rows, self.names.rank),
        )

    # -- figures ------------------------------------------------------------------------------

    def _best(self, rows: Iterable[Row], family: str) -> Row | None:
        """The row that stands for a family: most trusted name, then the highest value.

        Highest, because the rows of one device are copies, replicas, or (since dcgm-exporter
        4.8.2) the card beside the shares of its pods.
        """
        readable = [row for row in rows if row.family == family and row.value is not None]
        best = min(readable, key=self._preference, default=None)
        self._use(best)
        return best

    def _preference(self, row: Row) -> tuple[int, float, list[str]]:
        return (self.names.rank(row.name), -(row.value or 0.0), [text or "" for text in row.source])

    def _memory(self, rows: list[Row]) -> tuple[float | None, float | None]:
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
            return _value(used), None
        return used.value, (used.value or 0.0) + (free.value or 0.0) + (_value(reserved) or 0.0)

    def _bandwidth(self, rows: list[Row]) -> float | None:
        return _value(self._best(rows, n.DRAM_ACTIVE) or self._best(rows, n.MEMORY_COPY))

    def _xid(self, rows: Iterable[Row]) -> int | None:
        """The last XID. A new code is a new series, so the newest row tells; 0 is "no error"."""
        codes = [(r.at or 0.0, r.value, r) for r in rows if r.family == n.XID and r.value]
        newest = max(codes, key=lambda c: c[:2], default=None)
        if newest is None:
            return None
        self._use(newest[2])
        return int(newest[1])

    def _use(self, row: Row | None) -> None:
        if row is not None and self.trace is not None:
            self.trace.used.append((row.sample, row.family))

    def _reject(self, row: Row, reason: str) -> None:
        if self.trace is not None and row.value is not None and row.family != PRESENCE:
            self.trace.reject(row.sample, reason)


def _value(row: Row | None) -> float | None:
    return None if row is None else row.value


def _identifying(device: Device) -> Iterable[tuple[Labels, float]]:
    """The label sets that may say what a card is, once each, with their newest times.

    Where presence rows exist they have all labels, and the other rows had theirs aggregated away.
    """
    rows = [row for row in device.rows if row.family == PRESENCE] or device.rows
    newest: dict[int, tuple[Labels, float]] = {}
    for row in rows:
        # A page's samples of one card share their labels.
        at = max(row.at or 0.0, newest.get(id(row.sample.labels), ({}, 0.0))[1])
        newest[id(row.sample.labels)] = (row.sample.labels, at)
    return newest.values()


def _index(labels: Labels) -> int | None:
    for text in (labels.get("gpu", ""), labels.get("device", "").removeprefix("nvidia")):
        if text.isdecimal():
            return int(text)
    return None


def in_order(gpu: Gpu) -> tuple[str, str, int, str]:
    """Sorts GPUs by cluster, node, index and UUID."""
    return (gpu.cluster or "", gpu.node, -1 if gpu.gpu is None else gpu.gpu, gpu.uuid)


def _sum(values: Iterable[float | None]) -> float | None:
    known = list(values)
    if any(value is None for value in known):
        return None
    return sum(value for value in known if value is not None)

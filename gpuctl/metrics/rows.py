"""Raw samples sorted by the card and MIG instance they are of, dated, the useless ones dropped.

Nothing here depends on the order of the samples: a server gives them in any.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gpuctl.metrics.bounds import ratio_named_reading, ratio_named_scale, reading
from gpuctl.metrics.labels import DeviceKey, LabelRules, Labels, WorkloadName
from gpuctl.metrics.names import RATIO_NAMED_UTILIZATION, MetricNames
from gpuctl.model.sample import Sample

# A pseudo metric: it says that a series exists, with all its labels and the time of its newest
# sample, and nothing else.
PRESENCE = "gpuctl:presence"
WHOLE = -1

# Rows that lag the newest row of their device by more than this belong to a target or a pod that
# is gone and has not been marked stale (agents without staleness markers, federation).
_LINGERING_SECONDS = 60.0

Source = tuple[str | None, str | None, str | None]
_Where = tuple[DeviceKey, int, str | None, Source]


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

    def reject(self, sample: Sample, reason: str) -> None:
        """Note a sample that counts for nothing."""
        self.rejected.append(Rejected(sample, reason))


@dataclass(slots=True)
class Row:
    """One sample of a device. `value` is None when it is no reading: the row only shows that the
    device and its figure exist. `user` is the workload that the labels name."""

    sample: Sample
    family: str
    value: float | None
    at: float | None
    profile: str | None
    source: Source
    user: WorkloadName | None

    @property
    def name(self) -> str:
        """The metric's name as the site spells it."""
        return self.sample.name


@dataclass(slots=True)
class Device:
    """All rows of one card; `parts` maps a MIG instance's id, or WHOLE, to its rows."""

    key: DeviceKey
    parts: dict[int, list[Row]] = field(default_factory=dict)
    newest: float | None = None

    @property
    def rows(self) -> Iterator[Row]:
        """All rows of the card and its instances."""
        return (row for rows in self.parts.values() for row in rows)

    @property
    def families(self) -> frozenset[str]:
        """The figures that the card reports now, unreadable ones included."""
        return frozenset(row.family for row in self.rows)

    def profile(self, part: int) -> str:
        """The profile of an instance, or "" when no label tells."""
        return next((row.profile for row in self.parts[part] if row.profile is not None), "")


@dataclass(slots=True)
class Grouper:
    """Sorts the samples of one site."""

    names: MetricNames
    rules: LabelRules
    trace: Trace | None = None

    def group(self, samples: Iterable[Sample]) -> dict[DeviceKey, Device]:
        """The devices by their key, in no order that means anything."""
        batch = list(samples)
        exported = self.rules.exported_groups(s.labels for s in batch)
        scales = self._ratio_scales(batch)
        devices: dict[DeviceKey, Device] = {}
        times: dict[tuple[_Where, WorkloadName | None], float] = {}
        for sample in batch:
            family = PRESENCE if sample.name == PRESENCE else self.names.family_of.get(sample.name)
            key = None if family is None else self._card(sample)
            if family is None or key is None:
                continue
            row = self._row(sample, family, key[0], exported, scales)
            part = self.rules.mig_id(sample.labels)
            part = WHOLE if part is None else part
            if family == PRESENCE and sample.at is not None:
                where = ((key, part, row.profile, row.source), row.user)
                times[where] = max(sample.at, times.get(where, sample.at))
            device = devices.get(key)
            if device is None:
                device = devices[key] = Device(key)
            device.parts.setdefault(part, []).append(row)
        self._date(devices, times)
        for device in devices.values():
            self._drop_lingering(device)
            self._drop_earlier_profiles(device)
        return devices

    def _card(self, sample: Sample) -> DeviceKey | None:
        """The card that a sample is of, or None when it is of none."""
        labels = sample.labels
        key = self.rules.device_key(labels)
        if labels.get("nvlink"):
            self._reject(sample, "of a link, not of a GPU")
        elif (labels.get("cpu") or labels.get("nvswitch")) and not self.rules.get(labels, "uuid"):
            # Their series share the exporter's names and have no UUID.
            self._reject(sample, "of a CPU or a switch, not of a GPU")
        elif key is None:
            self._reject(sample, "names no card: neither UUID nor index")
        else:
            return key
        return None

    def _row(
        self,
        sample: Sample,
        family: str,
        cluster: str,
        exported: frozenset[tuple[str, str]],
        scales: Mapping[tuple[str, ...], float | None],
    ) -> Row:
        labels, rules = sample.labels, self.rules
        source = rules.source(labels)
        group = (cluster, source[0] or "")
        value: float | str
        if family == PRESENCE:
            value = 0.0
        elif sample.name in RATIO_NAMED_UTILIZATION:
            scale = scales.get(self._target(labels), scales.get(group))
            value = ratio_named_reading(sample.value, scale)
        else:
            value = reading(family, sample.value)
        if isinstance(value, str):
            self._reject(sample, value)
        elif self.trace is not None and family != PRESENCE:
            self.trace.kept.append((sample, family))
        return Row(
            sample=sample,
            family=family,
            value=None if isinstance(value, str) else value,
            at=sample.at,
            profile=rules.get(labels, "profile"),
            source=source,
            user=rules.workload(labels, exported=group in exported),
        )

    def _target(self, labels: Labels) -> tuple[str, ...]:
        return (*self.rules.job_group(labels), self.rules.get(labels, "instance") or "")

    def _ratio_scales(self, samples: Iterable[Sample]) -> dict[tuple[str, ...], float | None]:
        """What a 1 of the ratio-named utilization means, per target and per scrape job.

        A target speaks for itself where its values tell: a rolling upgrade changes one by one.
        """
        raw: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for sample in samples:
            if sample.name in RATIO_NAMED_UTILIZATION:
                raw[self._target(sample.labels)].append(sample.value)
                raw[self.rules.job_group(sample.labels)].append(sample.value)
        scales = {key: ratio_named_scale(values) for key, values in raw.items()}
        return {key: s for key, s in scales.items() if s is not None}

    @staticmethod
    def _date(
        devices: Mapping[DeviceKey, Device],
        times: Mapping[tuple[_Where, WorkloadName | None], float],
    ) -> None:
        """Give undated rows the time of the series they belong to."""
        by_place: dict[_Where, float] = {}
        for (place, _), at in times.items():
            by_place[place] = max(at, by_place.get(place, at))
        for device in devices.values():
            for part, rows in device.parts.items():
                for row in rows:
                    if row.at is None:
                        place = (device.key, part, row.profile, row.source)
                        row.at = times.get((place, row.user), by_place.get(place))
            device.newest = max((r.at for r in device.rows if r.at is not None), default=None)

    def _drop_lingering(self, device: Device) -> None:
        if device.newest is None:
            return
        before = device.newest - _LINGERING_SECONDS
        for part in list(device.parts):
            kept = []
            for row in device.parts[part]:
                if row.at is None or row.at >= before:
                    kept.append(row)
                else:
                    self._drop(row, f"{device.newest - row.at:.0f}s older than the newest sample")
            device.parts[part] = kept
            if not kept:
                del device.parts[part]

    def _drop_earlier_profiles(self, device: Device) -> None:
        """Keep one profile per instance: ids are used again when a card is partitioned anew."""
        for part, rows in device.parts.items():
            newest: dict[str, float] = {}
            for row in rows:
                if row.profile is not None:
                    at = row.at or 0.0
                    newest[row.profile] = max(at, newest.get(row.profile, at))
            if len(newest) < 2:
                continue
            present = max(newest, key=lambda profile: (newest[profile], profile))
            kept = []
            for row in rows:
                if row.profile in (present, None):
                    kept.append(row)
                else:
                    self._drop(row, f"of an earlier instance of this id, profile {row.profile}")
            device.parts[part] = kept

    def _drop(self, row: Row, reason: str) -> None:
        """Reject a row that was a reading; one that was none has been rejected already."""
        if row.value is not None:
            self._reject(row.sample, reason)

    def _reject(self, sample: Sample, reason: str) -> None:
        if self.trace is not None and sample.name != PRESENCE:
            self.trace.reject(sample, reason)

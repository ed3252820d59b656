"""Readings of a simulated cluster, cleaned by the same code as real ones."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from gpuctl.metrics import names as n
from gpuctl.metrics.cleaning import Cleaned, Cleaner, Trace
from gpuctl.metrics.labels import LabelRules
from gpuctl.metrics.names import MetricNames
from gpuctl.metrics.past import figures_of, history_families, history_series
from gpuctl.metrics.source import Explanation, History, Want, find_gpu
from gpuctl.metrics.windows import (
    DeviceId,
    Grid,
    grid_of,
    was_over_throughout,
    window_step_seconds,
    with_streaks,
    with_windows,
)
from gpuctl.model.gpu import Gpu, GpuState, MigInstance, Tenant
from gpuctl.model.history import Metric
from gpuctl.model.snapshot import Snapshot, Source
from gpuctl.model.workload import Placement, Workload
from gpuctl.sim.scenario import GpuSpec, Place
from gpuctl.sim.scenario import Workload as SimWorkload
from gpuctl.sim.world import SCRAPE_SECONDS, World

_STREAK_STEP_SECONDS = 60.0


class SimSource:
    """MetricsSource over a World that stands still at its epoch."""

    def __init__(self, world: World):
        self._world = world
        self._names = MetricNames.of()
        self._rules = LabelRules()

    @classmethod
    def load(cls, scenario: str) -> SimSource:
        """A built-in scenario by name, or a scenario file. Raises ConfigError."""
        return cls(World.load(scenario))

    def close(self) -> None:
        """Nothing is open."""

    def read(self, want: Want) -> Snapshot:
        """The simulated cluster at its epoch."""
        world = self._world
        now = world.epoch.timestamp()
        cleaned = self._clean(now, want)
        step = window_step_seconds(want.policy.hot_for)
        count = max(1, round(want.policy.hot_for.total_seconds() / step)) + 1
        window = self._grid(now, step, count, want)
        gpus: Sequence[Gpu] = with_windows(cleaned.gpus, window)
        hot = frozenset(gpu.uuid for gpu in gpus if was_over_throughout(gpu, want.policy))
        if hot:
            steps = round(want.streak_history.total_seconds() / _STREAK_STEP_SECONDS) + 1
            past = self._grid(now, _STREAK_STEP_SECONDS, steps, want, uuids=hot)
            gpus = with_streaks(gpus, past, want.policy)
        return Snapshot(
            taken_at=world.epoch,
            source=Source(kind="simulation", location=world.scenario.name, simulated=True),
            cluster=world.scenario.cluster,
            scrape_interval_seconds=SCRAPE_SECONDS,
            metrics_age_seconds=now - world.scraped_at(world.epoch),
            max_age_seconds=max(want.max_age.total_seconds(), 2 * SCRAPE_SECONDS),
            clock_skew_seconds=0.0,
            window_seconds=window.seconds,
            hot_above_pct=want.policy.hot_above,
            known_nodes=tuple(sorted(node.name for node in world.scenario.nodes)),
            gpus=tuple(self._inhabited(gpu) for gpu in gpus),
            inventories=("simulation",),
            workloads=tuple(self._workload(one, gpus) for one in world.workloads()),
            warnings=cleaned.warnings,
        )

    def history(self, metric: Metric, span: timedelta, step: timedelta, want: Want) -> History:
        """One figure of every device over the `span` before the epoch."""
        snapshot = self.read(want)
        seconds = step.total_seconds()
        count = math.floor(span / step) + 1
        now = snapshot.taken_at.timestamp()
        families = [family for group in history_families(metric) for family in group]
        grid = self._grid(now, seconds, count, want, metric, families)
        return History(
            snapshot=snapshot,
            times=tuple(grid.start + i * seconds for i in range(count)),
            step_seconds=seconds,
            series=history_series(metric, snapshot.gpus, grid),
        )

    def explain(self, node: str, gpu: int, want: Want) -> Explanation:
        """How the reading of one simulated GPU came about."""
        snapshot = self.read(want)
        card = find_gpu(snapshot.gpus, node, gpu)
        trace = Trace()
        self._cleaner(self._world.epoch.timestamp(), want, trace).clean(
            s for s in self._world.samples(self._world.epoch) if s.labels.get("UUID") == card.uuid
        )
        return Explanation(card, snapshot, trace, notes=("simulated",))

    # -- parts --------------------------------------------------------------------------------

    def _cleaner(self, now: float, want: Want, trace: Trace | None = None) -> Cleaner:
        return Cleaner(
            self._names,
            self._rules,
            now=now,
            max_age_seconds=max(want.max_age.total_seconds(), 2 * SCRAPE_SECONDS),
            trace=trace,
        )

    def _clean(
        self,
        at: float,
        want: Want,
        names: Collection[str] | None = None,
        uuids: frozenset[str] | None = None,
    ) -> Cleaned:
        samples = self._world.samples(datetime.fromtimestamp(at, UTC), names)
        if uuids is not None:
            samples = (s for s in samples if s.labels.get("UUID") in uuids)
        return self._cleaner(at, want).clean(samples)

    def _grid(
        self,
        end: float,
        step: float,
        count: int,
        want: Want,
        metric: Metric = "util",
        families: Sequence[str] = (n.UTILIZATION, n.ENGINE_ACTIVE),
        uuids: frozenset[str] | None = None,
    ) -> Grid:
        start = end - (count - 1) * step
        names = frozenset(self._names.of_families(*families))

        def points() -> Iterator[tuple[DeviceId, float, float]]:
            for index in range(count):
                at = start + index * step
                cleaned = self._clean(at, want, names, uuids)
                for device, value in figures_of(metric, cleaned.gpus):
                    yield device, at, value

        return grid_of(points(), start=start, step=step, count=count)

    def _inhabited(self, gpu: Gpu) -> Gpu:
        """The GPU with the VMs that run on it, which no exporter names."""
        if gpu.gpu is None or gpu.state is GpuState.LOST:
            return gpu
        mig = tuple(replace(instance, tenants=self._tenants(gpu, instance)) for instance in gpu.mig)
        spec = self._world.devices().get(Place(gpu.node, gpu.gpu))
        slots = spec.slots if isinstance(spec, GpuSpec) else None
        return replace(gpu, tenants=self._tenants(gpu, None), mig=mig, slots=slots)

    def _tenants(self, gpu: Gpu, instance: MigInstance | None) -> tuple[Tenant, ...]:
        device = gpu if instance is None else instance
        here = self._world.tenants_of(
            gpu.node, gpu.gpu or 0, None if instance is None else instance.id
        )
        vms = (Tenant(workload=one.id, kind="vm") for one in here if one.kind == "vm")
        return (*device.tenants, *vms)

    def _workload(self, one: SimWorkload, gpus: Sequence[Gpu]) -> Workload:
        """What Kubernetes and Proxmox would tell of it; its load stays to be attributed."""
        uuids = {(gpu.node, gpu.gpu): gpu.uuid for gpu in gpus}
        return Workload(
            id=one.id,
            kind=one.kind,
            workload_class=one.workload_class,
            placements=tuple(
                Placement(
                    node=place.node,
                    gpu=place.gpu,
                    uuid=uuids.get((place.node, place.gpu), ""),
                    mig_id=place.mig_id,
                )
                for place in one.placements
            ),
            owner=one.owner or "",
            priority=one.priority if one.kind == "pod" else None,
            evictable=None if one.evictable else False,
            labels=one.labels,
            tags=one.tags,
            memory_mib=one.memory_mib,
            ram_mib=one.ram_mib,
            live_migratable=one.live_migratable if one.kind == "vm" else None,
        )

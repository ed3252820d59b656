"""From the options to a source of figures, and from it to the Snapshot every command works on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, TextIO, runtime_checkable

from msgspec.structs import replace

from gpuctl.clock import Clock, Deadline
from gpuctl.errors import ConfigError, GpuctlError, UsageError
from gpuctl.metrics.source import MetricsSource, Want
from gpuctl.model.settings import ContextSettings, ProxmoxSettings
from gpuctl.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which source a person asked for; the context's own when nothing is set."""

    demo_scenario: str | None = None
    snapshot_file: str | None = None
    exporters: tuple[str, ...] = ()
    sample_for: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a source may use of the world. `wait` pauses for some seconds."""

    environ: Mapping[str, str]
    clock: Clock
    deadline: Deadline
    request_timeout: timedelta
    stdin: TextIO | None
    wait: Callable[[float], object]


class Told(Protocol):
    """What an inventory said at one moment."""

    def joined(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with its workloads, and with a warning for each contradiction."""


@runtime_checkable
class ToldBeside(Told, Protocol):
    """What an inventory said, and what makes more sense beside what the others said."""

    def beside(self, others: Sequence[object]) -> Told:
        """The same, with what the others know in view."""


class Inventory(Protocol):
    """Who runs where, by Kubernetes or Proxmox VE."""

    @property
    def kind(self) -> Literal["kubernetes", "proxmox"]:
        """Which one."""

    def read(self) -> Told:
        """One pass. Raises BackendError and ConfigError when nothing can be read."""

    def close(self) -> None:
        """Give connections back."""


def open_source(wanted: Wanted, context: ContextSettings, around: Surroundings) -> MetricsSource:
    """The one source that was asked for.

    Raises UsageError when two exclude each other and ConfigError when there is none.
    """
    _refuse_two(wanted)
    if wanted.demo_scenario is not None:
        from gpuctl.metrics.sim_source import SimSource
        from gpuctl.sim.diary import demo_world

        return SimSource(demo_world(wanted.demo_scenario, around.environ))
    if wanted.snapshot_file is not None:
        from gpuctl.inventory.saved import load_snapshot
        from gpuctl.metrics.snapshot_source import SnapshotSource

        return SnapshotSource(
            load_snapshot(wanted.snapshot_file, around.stdin, now=around.clock.now())
        )
    if wanted.exporters or context.exporters:
        return _exporters(wanted, context, around)
    if wanted.sample_for is not None:
        raise UsageError(
            "--sample-for only goes with --exporter",
            cause="Prometheus has the past already",
            hint="leave out --sample-for, or name exporters",
        )
    if context.prometheus.url:
        return _prometheus(context, around)
    raise ConfigError(
        "no source of GPU metrics",
        cause="no Prometheus is configured and none was named",
        hint="try gpuctl --demo heatmap, or give --prometheus-url URL, --exporter HOST:9400, or "
        "write a configuration with gpuctl config init",
    )


def open_inventories(context: ContextSettings, around: Surroundings) -> tuple[Inventory, ...]:
    """Who tells where workloads run, for views: what the context configures, nothing else."""
    inventories: list[Inventory] = []
    if context.kubernetes is not None:
        from gpuctl.clients.kubernetes.client import KubernetesClient
        from gpuctl.inventory.kubernetes import KubernetesInventory

        client = KubernetesClient(
            context.kubernetes,
            request_timeout=around.request_timeout,
            environ=around.environ,
            deadline=around.deadline,
            clock=around.clock,
        )
        inventories.append(KubernetesInventory(client, with_budgets=False))
    if context.proxmox is not None and context.proxmox.endpoints:
        try:
            inventories.append(_proxmox(context.proxmox, around))
        except ConfigError as exc:
            # Half a section: the figures are as good without VMs, and the reason is told.
            inventories.append(_Unusable("proxmox", exc))
    return tuple(inventories)


def _proxmox(settings: ProxmoxSettings, around: Surroundings) -> Inventory:
    from gpuctl.clients.proxmox import ProxmoxClient
    from gpuctl.inventory.proxmox import ProxmoxInventory

    client = ProxmoxClient(
        settings,
        request_timeout=around.request_timeout,
        environ=around.environ,
        deadline=around.deadline,
        clock=around.clock,
    )
    return ProxmoxInventory(client, settings.kubernetes_nodes)


def observe(
    source: MetricsSource,
    want: Want,
    *,
    context: str | None,
    cluster: str | None,
    inventories: Sequence[Inventory] = (),
) -> Snapshot:
    """A snapshot that knows which context it was taken of, and who runs where.

    Metrics and inventories are read at the same time. An inventory that can't be read is a warning
    with the reason: the figures are as good without it.
    """
    if not inventories:
        return named(source.read(want), context=context, cluster=cluster)
    from gpuctl.clients.concurrently import map_concurrently

    calls: list[Callable[[], Any]] = [
        partial(source.read, want),
        *(partial(_told, inventory) for inventory in inventories),
    ]
    snapshot, *told = map_concurrently(lambda call, _: call(), calls, most_at_once=len(calls))
    for one in told:
        # A VM may be a Kubernetes node, which only both inventories together can tell.
        aware = one.beside(told) if isinstance(one, ToldBeside) else one
        snapshot = aware.joined(snapshot)
    return named(snapshot, context=context, cluster=cluster)


def _told(inventory: Inventory) -> Told:
    """What the inventory says, or why it says nothing."""
    try:
        return inventory.read()
    except GpuctlError as exc:
        return _Nothing(inventory.kind, exc)


@dataclass(frozen=True, slots=True)
class _Unusable:
    """An inventory whose settings can't work."""

    kind: Literal["kubernetes", "proxmox"]
    reason: GpuctlError

    def read(self) -> Told:
        """Raise the reason."""
        raise self.reason

    def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True, slots=True)
class _Nothing:
    """An inventory that could not be read."""

    kind: str
    reason: GpuctlError

    def joined(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with the reason as a warning."""
        why = f"{self.reason.what}: {self.reason.cause}" if self.reason.cause else self.reason.what
        hint = f"; {self.reason.hint}" if self.reason.hint else ""
        text = f"workloads are known from the metrics' labels alone, not from {self.kind}: {why}"
        return replace(snapshot, warnings=(*snapshot.warnings, text + hint))


def named(snapshot: Snapshot, *, context: str | None, cluster: str | None) -> Snapshot:
    """The snapshot with these names; a saved one keeps its own."""
    return replace(
        snapshot, context=snapshot.context or context, cluster=snapshot.cluster or cluster
    )


def _refuse_two(wanted: Wanted) -> None:
    named = [
        name
        for name, value in (
            ("--demo", wanted.demo_scenario),
            ("--snapshot", wanted.snapshot_file),
            ("--exporter", wanted.exporters or None),
        )
        if value is not None
    ]
    if len(named) > 1:
        raise UsageError(
            f"{' and '.join(named)} exclude each other",
            cause="each names where the figures come from",
            hint=f"leave out {named[-1]}",
        )


def _prometheus(context: ContextSettings, around: Surroundings) -> MetricsSource:
    from gpuctl.clients.prometheus import PrometheusClient
    from gpuctl.metrics.prometheus_source import PrometheusSource

    client = PrometheusClient(
        context.prometheus,
        request_timeout=around.request_timeout,
        environ=around.environ,
        deadline=around.deadline,
        clock=around.clock,
    )
    return PrometheusSource(client, context, around.clock)


def _exporters(wanted: Wanted, context: ContextSettings, around: Surroundings) -> MetricsSource:
    from gpuctl.clients.exporter import Scrape, expand_targets, scrape
    from gpuctl.metrics.exporter_source import ExporterSource

    targets: Sequence[str] = expand_targets(wanted.exporters or context.exporters)

    def scraper() -> list[Scrape]:
        return scrape(
            targets,
            request_timeout=around.request_timeout,
            environ=around.environ,
            deadline=around.deadline,
            clock=around.clock,
        )

    return ExporterSource(
        scraper, context, around.clock, wait=around.wait, sample_for=wanted.sample_for
    )


def scenario_names() -> tuple[str, ...]:
    """Names of the simulated clusters that ship with gpuctl."""
    folder = Path(__file__).parent.parent / "sim" / "scenarios"
    return tuple(sorted(path.stem for path in folder.glob("*.json")))

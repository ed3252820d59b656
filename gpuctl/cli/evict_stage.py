"""The cluster that `gpuctl evict` acts on: looked at, and cleaned up behind runs that died."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from threading import Event
from typing import Literal

from msgspec import structs

from gpuctl.actions.cluster import DemoCluster, EvictionCluster, LiveCluster, LockPatience
from gpuctl.actions.evictor import EvictorOptions
from gpuctl.actions.journal import Journal, read_journal
from gpuctl.actions.landing import Locator
from gpuctl.actions.recovery import recover
from gpuctl.actions.runs import RunLog, runs_of
from gpuctl.actions.scope import Scope, acting, new_run_id, scope_of, this_process
from gpuctl.actions.selection import EvictionRequest, find_target
from gpuctl.cli.options import VIEW_TIMEOUT
from gpuctl.cli.runtime import Runtime
from gpuctl.cli.world import World, settings_of
from gpuctl.clients.kubernetes.client import KubernetesClient
from gpuctl.clock import Deadline, Stopwatch
from gpuctl.errors import GpuctlError, MetricsError
from gpuctl.inventory.kubernetes import ClusterInventory, KubernetesInventory
from gpuctl.inventory.observe import Surroundings, Wanted, named, open_source
from gpuctl.model.gpu import GpuState
from gpuctl.model.outcome import HoldKind
from gpuctl.model.policy import Policy
from gpuctl.model.settings import ContextSettings, KubernetesSettings
from gpuctl.model.snapshot import Snapshot, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictPlan:
    """Everything that the command line says."""

    request: EvictionRequest
    evictor: EvictorOptions
    wait: bool
    holds: tuple[HoldKind, ...]
    keep_going: bool
    lock_patience: timedelta
    interrupt_grace: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The cluster to act on, as it was just seen. `scope` is None in a dry run.

    `warnings`: what recovery could not undo.
    """

    run_id: str
    policy: Policy
    context: str | None
    snapshot: Snapshot
    cluster: EvictionCluster
    scope: Scope | None
    warnings: tuple[str, ...] = ()


@contextmanager
def open_stage(
    runtime: Runtime, plan: EvictPlan, kubeconfig: str | None, kube_context: str | None
) -> Iterator[Stage]:
    """The demo's cluster or a real one.

    Raises GpuctlError when it can't be read, or another run acts on it; UsageError when there is
    no such node or GPU.
    """
    policy, context_name, context = settings_of(runtime, kubeconfig, kube_context)
    demo = runtime.options.demo_scenario if runtime.options.demo else None
    scope = None
    if not plan.evictor.dry_run:
        scope = scope_of(runtime.environ, context_name, demo, make=True)
    opening = _Opening(runtime, plan, policy, context_name, context, scope)
    if demo is not None:
        yield opening.demo(demo)
        return
    settings = context.kubernetes or KubernetesSettings()
    # Without a deadline of its own: holds have to be undone after the time is up, too.
    with KubernetesClient(
        settings,
        request_timeout=runtime.options.request_timeout,
        environ=runtime.environ,
        clock=runtime.clock,
    ) as client:
        yield from opening.live(client)


@dataclass(frozen=True, slots=True)
class _Opening:
    runtime: Runtime
    plan: EvictPlan
    policy: Policy
    context_name: str | None
    context: ContextSettings
    scope: Scope | None

    def demo(self, scenario: str) -> Stage:
        """The simulated cluster with everything moved that was."""
        cluster = DemoCluster(scenario, self.runtime.environ)
        run_id, warnings = self._begun(cluster)
        with self._world(Wanted(demo_scenario=scenario)) as world:
            snapshot = world.observe(details=False)
        return self._stage(run_id, snapshot, cluster, warnings)

    def live(self, client: KubernetesClient) -> Iterator[Stage]:
        """A real cluster; its metrics stay open, to see later where successors landed."""
        unread = ClusterInventory(server="", nodes={}, pods={})
        run_id, warnings = self._begun(self._live_cluster(client, unread, Locator(None)))
        inventory = KubernetesInventory(client).read()
        if not self._has_metrics:
            snapshot = self._without_metrics(inventory, "no source of them is configured")
            cluster = self._live_cluster(client, inventory, Locator(None))
            yield self._stage(run_id, snapshot, cluster, warnings)
            return
        with self._world(Wanted()) as world:
            anew = KubernetesInventory(client, with_budgets=False)
            later = replace(world, inventories=(anew,))
            locator = Locator(lambda: later.observe(details=False))
            try:
                snapshot = replace(world, inventories=(_Read(inventory),)).observe(details=False)
            except GpuctlError as exc:
                snapshot, locator = self._without_metrics(inventory, exc.what), Locator(None)
            cluster = self._live_cluster(client, inventory, locator)
            yield self._stage(run_id, snapshot, cluster, warnings)

    # -- parts -------------------------------------------------------------------------------------

    def _live_cluster(
        self, client: KubernetesClient, inventory: ClusterInventory, locator: Locator
    ) -> LiveCluster:
        namespace = (self.context.kubernetes or KubernetesSettings()).namespace
        return LiveCluster(client, inventory, locator, self.runtime.clock, namespace)

    def _begun(self, cluster: EvictionCluster) -> tuple[str, tuple[str, ...]]:
        """The run's id; what dead runs left behind is undone, or else in the warnings.

        Before anything is looked at: whatever else goes wrong, a cordon must not outlive its run.
        """
        run_id = new_run_id(self.runtime.clock.now())
        scope = self.scope
        if scope is None or not any(run.is_open for run in _runs(scope)):
            return run_id, ()
        with lock(scope, cluster, run_id, self.plan, self.runtime) as (journal, _):
            left = clean_up(scope, journal, cluster, run_id, self.runtime)
        for warning in left:
            self.runtime.output.warn(warning)
        return run_id, left

    @property
    def _has_metrics(self) -> bool:
        return bool(self.context.prometheus.url or self.context.exporters)

    def _without_metrics(self, inventory: ClusterInventory, why: str) -> Snapshot:
        """Who runs where by Kubernetes alone. Raises MetricsError when a GPU was asked for."""
        if self.plan.request.gpu is not None:
            raise MetricsError(
                f"which pods run on {self.plan.request.gpu} is not known without GPU metrics",
                cause=why,
                hint="Kubernetes knows the node only: name the pods, or use --node",
            )
        self.runtime.output.warn(f"no GPU metrics, so loads and cards are not known: {why}")
        bare = Snapshot(
            taken_at=self.runtime.clock.now(), source=Source(kind="prometheus", location="")
        )
        told = inventory.joined(bare)
        # What it misses are the metrics, and that is said once already.
        return structs.replace(
            named(told, context=self.context_name, cluster=self.context.cluster),
            warnings=inventory.warnings,
        )

    @contextmanager
    def _world(self, wanted: Wanted) -> Iterator[World]:
        options = self.runtime.options
        stopwatch = Stopwatch(self.runtime.clock)
        around = Surroundings(
            environ=self.runtime.environ,
            clock=self.runtime.clock,
            deadline=Deadline.after(VIEW_TIMEOUT, stopwatch),
            request_timeout=options.request_timeout,
            stdin=self.runtime.stdin,
            wait=Event().wait,
        )
        source = open_source(wanted, self.context, around)
        try:
            yield World(self.policy, self.context_name, self.context, source, None, stopwatch)
        finally:
            source.close()

    def _stage(
        self,
        run_id: str,
        snapshot: Snapshot,
        cluster: EvictionCluster,
        warnings: tuple[str, ...],
    ) -> Stage:
        card = find_target(self.plan.request, snapshot)
        if card is not None and card.state in (GpuState.LOST, GpuState.STALE):
            raise MetricsError(
                f"which pods run on {card.address} is not known: the card is {card.state}",
                cause="it has no fresh metrics, so its pods may have moved on",
                hint="Kubernetes knows the node only: name the pods, or use --node",
            )
        return Stage(
            run_id=run_id,
            policy=self.policy,
            context=self.context_name,
            snapshot=snapshot,
            cluster=cluster,
            scope=self.scope,
            warnings=warnings,
        )


@dataclass(frozen=True, slots=True)
class _Read:
    """An inventory that was read already."""

    inventory: ClusterInventory
    kind: Literal["kubernetes"] = "kubernetes"

    def read(self) -> ClusterInventory:
        """What was read."""
        return self.inventory

    def close(self) -> None:
        """Nothing is open."""


# -- the lock and what it protects -----------------------------------------------------------------


@contextmanager
def lock(
    scope: Scope, cluster: EvictionCluster, run_id: str, plan: EvictPlan, runtime: Runtime
) -> Iterator[tuple[Journal, Callable[[], None]]]:
    """The right to act: the journal, and the fence to ask before each write.

    Raises LockedError on entering.
    """
    who = this_process(run_id, "evict", runtime.clock)
    seconds, wait = plan.lock_patience.total_seconds(), Event().wait
    patience = LockPatience(seconds, wait, runtime.output.info)
    with (
        acting(scope, who, clock=runtime.clock, patience_seconds=seconds, wait=wait) as journal,
        cluster.exclusively(who, patience) as fence,
    ):
        yield journal, fence


def clean_up(
    scope: Scope, journal: Journal, cluster: EvictionCluster, run_id: str, runtime: Runtime
) -> tuple[str, ...]:
    """Close what runs that died have left open; call it under the lock. What stays is returned."""
    return recover(
        _runs(scope),
        run_id=run_id,
        backends={"evict": cluster.backend},
        actuators={"evict": cluster.evictor(EvictorOptions())},
        holder=cluster.holder(),
        journal=journal,
        clock=runtime.clock,
        say=runtime.output.info,
    )


def _runs(scope: Scope) -> list[RunLog]:
    return runs_of(read_journal(scope.journal_path).records)

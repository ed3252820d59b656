"""The cluster that `gpuctl migrate` acts on: a real one, or the demo's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from gpuctl.actions.cluster import LiveCluster, LockPatience
from gpuctl.actions.landing import Locator
from gpuctl.actions.lock import Holder
from gpuctl.actions.migrate_cluster import (
    DemoMigrations,
    LiveMigrations,
    Manner,
    MigrationCluster,
)
from gpuctl.actions.migrate_plan import Rules
from gpuctl.actions.scope import Scope, scope_of
from gpuctl.actions.steps import unfenced
from gpuctl.cli.options import REQUEST_TIMEOUT
from gpuctl.cli.runtime import Runtime
from gpuctl.cli.world import settings_of
from gpuctl.clients.proxmox import MigrateOptions, ProxmoxClient
from gpuctl.clients.proxmox_api import REQUEST_SECONDS
from gpuctl.errors import ConfigError, GpuctlError
from gpuctl.inventory.kubernetes import ClusterInventory
from gpuctl.inventory.proxmox import ProxmoxInventory
from gpuctl.model.policy import Policy
from gpuctl.model.settings import ContextSettings
from gpuctl.render.migration import progress_words

if TYPE_CHECKING:
    from gpuctl.clients.kubernetes.client import KubernetesClient
    from gpuctl.model.settings import KubernetesSettings

#: Within, no other run on any machine acts; it gives the fence to ask before a write.
Exclusively = Callable[[Holder, LockPatience], AbstractContextManager[Callable[[], None]]]

#: Between two lines of a simulated migration's progress, where somebody watches.
_DEMO_PAUSE_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class MigratePlan:
    """Everything that the command line says. `to` is a node or `auto`; "" with `follow`."""

    asked: str
    to: str
    online: bool | None
    drained: bool
    force_pinned: bool
    options: MigrateOptions
    dry_run: bool
    wait: bool
    cancels: bool
    lock_patience: timedelta
    interrupt_grace: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The cluster to act on. `scope` is None in a dry run."""

    policy: Policy
    context: str | None
    cluster_name: str | None
    is_simulated: bool
    cluster: MigrationCluster
    scope: Scope | None
    exclusively: Exclusively


def _alone(who: Holder, patience: LockPatience) -> AbstractContextManager[Callable[[], None]]:
    """Without Kubernetes there is no Lease: the file lock of this machine has to do."""
    return nullcontext(unfenced)


@contextmanager
def open_stage(runtime: Runtime, plan: MigratePlan) -> Iterator[Stage]:
    """The demo's cluster or a real one, closed again at the end. Raises GpuctlError."""
    options = runtime.options
    policy, name, context = settings_of(runtime)
    demo = options.demo_scenario if options.demo else None
    scope = None if plan.dry_run else scope_of(runtime.environ, name, demo, make=True)
    manner = _manner(plan, name, has_kubernetes=context.kubernetes is not None)
    if demo is not None:
        from gpuctl.sim.world import World

        pause = _DEMO_PAUSE_SECONDS if runtime.output.stderr_is_tty else 0.0
        yield Stage(
            policy=policy,
            context=None,
            cluster_name=World.load(demo).scenario.cluster,
            is_simulated=True,
            cluster=DemoMigrations(demo, runtime.environ, policy, plan.asked, manner, pause),
            scope=scope,
            exclusively=_alone,
        )
        return
    with _open_live(runtime, plan.asked, manner, policy, context) as (live, exclusively):
        yield Stage(
            policy=policy,
            context=name,
            cluster_name=context.cluster,
            is_simulated=False,
            cluster=live,
            scope=scope,
            exclusively=exclusively,
        )


def _manner(plan: MigratePlan, context: str | None, *, has_kubernetes: bool) -> Manner:
    return Manner(
        rules=Rules(force_pinned=plan.force_pinned, has_kubernetes=has_kubernetes),
        options=plan.options,
        cancels=plan.cancels,
        follow_command=follow_command(context),
        words=progress_words,
    )


def follow_command(context: str | None) -> str:
    """What a person types before a UPID to follow it, from any shell."""
    return (
        "gpuctl migrate --follow"
        if context is None
        else f"gpuctl --context {context} migrate --follow"
    )


@contextmanager
def _open_live(
    runtime: Runtime, asked: str, manner: Manner, policy: Policy, context: ContextSettings
) -> Iterator[tuple[LiveMigrations, Exclusively]]:
    """A Proxmox VE cluster, and what Kubernetes knows beside it. Raises ConfigError for none."""
    settings = context.proxmox
    if settings is None or not settings.endpoints:
        raise ConfigError(
            "no Proxmox VE is configured",
            cause="VMs are migrated through its API",
            hint="set proxmox.endpoints and a token in the configuration, or try gpuctl --demo "
            "migrate vm/101 --to auto",
        )
    with ExitStack() as stack:
        client = stack.enter_context(
            ProxmoxClient(
                settings,
                environ=runtime.environ,
                request_timeout=_request_timeout(runtime),
                clock=runtime.clock,
            )
        )
        beside: tuple[ClusterInventory, ...] = ()
        exclusively: Exclusively = _alone
        if context.kubernetes is not None and asked:  # to follow a task needs no Kubernetes
            kubernetes = stack.enter_context(_kubernetes(runtime, context.kubernetes))
            beside = _beside(runtime, kubernetes)
            if beside:
                namespace = context.kubernetes.namespace
                lease = LiveCluster(kubernetes, beside[0], Locator(None), runtime.clock, namespace)
                exclusively = lease.exclusively
        live = LiveMigrations(
            client=client,
            inventory=ProxmoxInventory(client, settings.kubernetes_nodes),
            beside=beside,
            clock=runtime.clock,
            policy=policy,
            asked=asked,
            manner=manner,
        )
        yield live, exclusively


def _request_timeout(runtime: Runtime) -> timedelta | float:
    """The person's own, else one that fits calls which a node passes on to another one."""
    given = runtime.options.request_timeout
    return REQUEST_SECONDS if given == REQUEST_TIMEOUT else given


def _kubernetes(runtime: Runtime, settings: KubernetesSettings) -> KubernetesClient:
    from gpuctl.clients.kubernetes.client import KubernetesClient

    return KubernetesClient(
        settings,
        request_timeout=runtime.options.request_timeout,
        environ=runtime.environ,
        clock=runtime.clock,
    )


def _beside(runtime: Runtime, client: KubernetesClient) -> tuple[ClusterInventory, ...]:
    """What Kubernetes says of its nodes; nothing, with a warning, when it can't be read."""
    from gpuctl.inventory.kubernetes import KubernetesInventory

    try:
        return (KubernetesInventory(client, with_budgets=False).read(),)
    except GpuctlError as exc:
        why = f"{exc.what}: {exc.cause}" if exc.cause else exc.what
        runtime.output.warn(f"whether the VM is a Kubernetes node can't be told: {why}")
        return ()

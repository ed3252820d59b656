"""The options that choose a source of figures, shared by every command that reads the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from gpuctl.cli.options import VIEW_TIMEOUT
from gpuctl.cli.runtime import Runtime
from gpuctl.clock import Deadline, Stopwatch
from gpuctl.errors import UsageError

if TYPE_CHECKING:
    from gpuctl.inventory.observe import Inventory
    from gpuctl.metrics.source import MetricsSource, Want
    from gpuctl.model.policy import Policy
    from gpuctl.model.settings import ContextSettings
    from gpuctl.model.snapshot import Snapshot

Exporter = Annotated[
    list[str] | None,
    typer.Option(
        "--exporter",
        metavar="URL",
        help="scrape this dcgm-exporter or Pushgateway instead of asking Prometheus: URL, "
        "HOST:PORT or HOST; @FILE reads a list; repeatable",
        rich_help_panel="Source",
    ),
]
SampleFor = Annotated[
    str | None,
    typer.Option(
        "--sample-for",
        metavar="DUR",
        help="with --exporter: scrape for so long, so that hot and idle can be judged",
        rich_help_panel="Source",
    ),
]
MaxAge = Annotated[
    str | None,
    typer.Option(
        "--max-age",
        metavar="DUR",
        help="samples older than this are stale [default: the policy's metrics_max_age, 1m]",
        rich_help_panel="Source",
    ),
]

Kubeconfig = Annotated[
    str | None,
    typer.Option(
        "--kubeconfig",
        metavar="FILE",
        help="the kubeconfig to use instead of the configuration's, KUBECONFIG or ~/.kube/config",
        rich_help_panel="Source",
    ),
]
KubeContext = Annotated[
    str | None,
    typer.Option(
        "--kube-context",
        metavar="NAME",
        help="the context of the kubeconfig [default: its current context]",
        rich_help_panel="Source",
    ),
]


@dataclass(frozen=True, slots=True)
class World:
    """A source of figures, and the settings it is read by.

    `stopwatch` runs anew with each read where the time limit is for one read, not for all.
    """

    policy: Policy
    context_name: str | None
    context: ContextSettings
    source: MetricsSource
    max_age: timedelta | None
    stopwatch: Stopwatch | None = None
    inventories: tuple[Inventory, ...] = ()

    @property
    def want_of_policy(self) -> Want:
        """What the policy needs to decide, in full."""
        from gpuctl.metrics.source import Want

        return Want.by(self.policy, max_age=self.max_age)

    def observe(self, *, details: bool = True) -> Snapshot:
        """The cluster now."""
        from gpuctl.inventory.observe import observe
        from gpuctl.metrics.source import Want

        if self.stopwatch is not None:
            self.stopwatch.restart()
        return observe(
            self.source,
            Want.by(self.policy, details=details, max_age=self.max_age),
            context=self.context_name,
            cluster=self.context.cluster,
            inventories=self.inventories,
        )


@contextmanager
def open_world(
    runtime: Runtime,
    *,
    exporters: list[str] | None = None,
    sample_for: str | None = None,
    max_age: str | None = None,
    reads_again: bool = False,
    kubeconfig: str | None = None,
    kube_context: str | None = None,
) -> Iterator[World]:
    """The source that the options name, closed again at the end.

    `reads_again`: the time limit is for each read, and the command goes on for as long as it
    likes. A demo needs no configuration and reads none: what is wrong with a file must not spoil
    it.
    """
    from gpuctl.inventory.observe import Surroundings, Wanted, open_inventories, open_source

    options = runtime.options
    span = duration_option("--sample-for", sample_for)
    age = duration_option("--max-age", max_age)
    policy, context_name, context = settings_of(runtime, kubeconfig, kube_context)
    limit = options.timeout or VIEW_TIMEOUT + (span or timedelta())
    stopwatch = Stopwatch(runtime.clock) if reads_again else None
    around = Surroundings(
        environ=runtime.environ,
        clock=runtime.clock,
        deadline=Deadline.after(limit, stopwatch or runtime.clock),
        request_timeout=options.request_timeout,
        stdin=runtime.stdin,
        wait=Event().wait,
    )
    wanted = Wanted(
        demo_scenario=options.demo_scenario if options.demo else None,
        snapshot_file=options.snapshot,
        exporters=tuple(exporters or ()),
        sample_for=span,
    )
    source = open_source(wanted, context, around)
    # A simulation and a saved snapshot say themselves who runs where.
    inventories = () if options.demo or options.snapshot else open_inventories(context, around)
    try:
        yield World(policy, context_name, context, source, age, stopwatch, inventories)
    finally:
        source.close()
        for inventory in inventories:
            inventory.close()


def settings_of(
    runtime: Runtime, kubeconfig: str | None = None, kube_context: str | None = None
) -> tuple[Policy, str | None, ContextSettings]:
    """The policy, the context's name and the context; a demo has its own and no name."""
    if runtime.options.demo:
        from gpuctl.model.policy import Limits, Policy
        from gpuctl.model.settings import ContextSettings

        # The simulated cluster may be evened out at once; live defaults stay careful.
        limits = Limits(moves_per_run=24, per_node=2, cooldown=timedelta(minutes=15))
        return Policy(limits=limits), None, ContextSettings()
    from gpuctl.config import Flag, load

    options = runtime.options
    given = {
        "kubernetes.kubeconfig": Flag("--kubeconfig", kubeconfig),
        "kubernetes.context": Flag("--kube-context", kube_context),
    }
    settings = load(
        environ=runtime.environ,
        config=options.config,
        context=options.context,
        prometheus_url=options.prometheus_url,
        flags={key: flag for key, flag in given.items() if flag.value is not None},
    )
    for warning in settings.warnings:
        runtime.output.warn(warning)
    return settings.policy, settings.context_name, settings.context


def duration_option(option: str, text: str | None) -> timedelta | None:
    """A duration that an option was given; raises UsageError that names the option."""
    if text is None:
        return None
    from gpuctl.model.durations import parse_duration

    try:
        value = parse_duration(text)
    except ValueError as exc:
        raise UsageError(f"{option}: {exc}", hint=f"for example {option} 5m") from exc
    if value <= timedelta():
        raise UsageError(f"{option} must be longer than 0", hint=f"for example {option} 5m")
    return value

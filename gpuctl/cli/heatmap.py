"""`gpuctl heatmap`: which cards are hot, which are idle, who is on them, how uneven it all is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gpuctl.cli.runtime import Runtime, runtime_of
from gpuctl.cli.world import Exporter, MaxAge, SampleFor, World, duration_option, open_world
from gpuctl.errors import MetricsError, UsageError
from gpuctl.exitcodes import ExitCode

if TYPE_CHECKING:
    from gpuctl.model.heatmap import HeatmapDocument
    from gpuctl.model.history import Metric
    from gpuctl.model.snapshot import Snapshot
    from gpuctl.policy.filters import Selection
    from gpuctl.policy.overview import Sort

_MetricName = Literal["util", "mem", "membw", "tensor", "temp", "power"]
_SortName = Literal["spread", "name", "util", "mem"]

_AFTER_THE_DEMO = (
    "",
    "This cluster is simulated. Next:",
    "  gpuctl --demo heatmap --watch                 the same, live; q quits, ? lists the keys",
    "  gpuctl --demo heatmap --since 3h              GPU by time",
    "  gpuctl --demo heatmap --explain hk-gpu-03/1   the series behind one GPU's figures",
    "  gpuctl heatmap --prometheus-url URL           your own cluster",
    "  gpuctl config init                            a file that keeps its address",
)

_VIEW, _FILTERS, _TIME = "View", "Filters", "Time"


@dataclass(frozen=True, slots=True)
class View:
    """How the heat map is to be shown, whatever it is made of."""

    metric: Metric
    sort: Sort
    selection: Selection
    by_mig: bool = False
    wide_cells: bool = False
    export: str | None = None
    exit_code: bool = False


def heatmap(
    ctx: typer.Context,
    metric: Annotated[
        _MetricName,
        typer.Option("--metric", help="figure to draw", rich_help_panel=_VIEW),
    ] = "util",
    sort: Annotated[
        _SortName,
        typer.Option("--sort", help="order of the nodes", rich_help_panel=_VIEW),
    ] = "spread",
    by_mig: Annotated[
        bool,
        typer.Option("--by-mig", help="a line or row per MIG instance", rich_help_panel=_VIEW),
    ] = False,
    wide: Annotated[
        Literal["cells"] | None,
        typer.Option("--wide", help="wider cells, more air", rich_help_panel=_VIEW),
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option(
            "--node", metavar="GLOB", help="only these nodes; repeatable", rich_help_panel=_FILTERS
        ),
    ] = None,
    gpu_model: Annotated[
        list[str] | None,
        typer.Option(
            "--gpu-model",
            metavar="GLOB",
            help="only these GPU models, e.g. '*A100*'; repeatable",
            rich_help_panel=_FILTERS,
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            metavar="EXPR",
            help="only GPUs that fit, e.g. 'util>90', 'node~=gpu-0', 'ns=prod'; "
            "repeatable, all must hold",
            rich_help_panel=_FILTERS,
        ),
    ] = None,
    hot: Annotated[
        bool, typer.Option("--hot", help="only hot GPUs", rich_help_panel=_FILTERS)
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="DUR", help="GPU by time over the last DUR", rich_help_panel=_TIME
        ),
    ] = None,
    step: Annotated[
        str | None,
        typer.Option(
            "--step",
            metavar="DUR",
            help="with --since: one column per DUR [default: fits the screen]",
            rich_help_panel=_TIME,
        ),
    ] = None,
    watch: Annotated[
        str | None,
        typer.Option(
            "--watch",
            metavar="[SECONDS]",
            show_default="5",
            help="stay on screen and refresh [default: every 5]; ? shows the keys",
            rich_help_panel=_TIME,
        ),
    ] = None,
    explain: Annotated[
        str | None,
        typer.Option(
            "--explain",
            metavar="NODE/GPU",
            help="the raw series behind one GPU's figures, and those left out and why",
        ),
    ] = None,
    export: Annotated[
        str | None,
        typer.Option("--export", metavar="FILE", help="write the picture as FILE.svg or FILE.html"),
    ] = None,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="end with 3 when a GPU or MIG instance is hot")
    ] = False,
    exporter: Exporter = None,
    sample_for: SampleFor = None,
    max_age: MaxAge = None,
) -> ExitCode:
    """Show which GPUs are hot, idle or lost, who is on them, and how uneven the cluster is.

    One line per node, worst spread first; a cell per GPU with utilization, then memory. hot means
    over the policy's mark at every sample of its window (90 % for 5 minutes unless configured),
    idle under its lower mark all that time; neither is judged by the current value alone.

    Examples:
      gpuctl heatmap
      gpuctl heatmap --node 'gpu-0*' --where 'util>90' -o name
      gpuctl heatmap --since 6h --step 5m
      gpuctl --demo heatmap --export night.svg

    Exit codes:
      3  with --exit-code: a GPU or MIG instance is hot
      6  no fresh GPU metrics at all
      7  Prometheus or every exporter is out of reach
    """
    runtime = runtime_of(ctx)
    view = View(
        metric=metric,
        sort=sort,
        selection=_selection(node, gpu_model, where, only_hot=hot),
        by_mig=by_mig,
        wide_cells=wide == "cells",
        export=_export_target(export),
        exit_code=exit_code,
    )
    _refuse_together(since=since, watch=watch, explain=explain, step=step, export=export)
    span, every = duration_option("--since", since), duration_option("--step", step)
    place = None if explain is None else _address(explain)
    period = None if watch is None else _period(watch)
    with open_world(
        runtime,
        exporters=exporter,
        sample_for=sample_for,
        max_age=max_age,
        reads_again=period is not None,
    ) as world:
        if place is not None:
            from gpuctl.cli.heatmap_explain import explain_gpu

            return explain_gpu(runtime, world, *place)
        if span is not None:
            from gpuctl.cli.heatmap_since import show_history

            return show_history(runtime, world, view, span, every)
        if period is not None:
            from gpuctl.cli.heatmap_watch import watch_heatmap

            return watch_heatmap(runtime, world, view, period)
        return _once(runtime, world, view)


def _once(runtime: Runtime, world: World, view: View) -> ExitCode:
    from gpuctl.policy.overview import heatmap_document

    machine = runtime.options.output in ("json", "yaml", "csv", "wide")
    details = machine or view.wide_cells or view.export is not None
    details = details or view.metric not in ("util", "mem")
    snapshot = world.observe(details=details or bool(view.selection.conditions))
    doc = heatmap_document(
        snapshot,
        world.policy,
        generated_at=generated_at(runtime, snapshot),
        selection=view.selection,
        sort=view.sort,
    )
    if view.export is not None:
        from gpuctl.render.picture import html, svg

        draw = svg if view.export.lower().endswith(".svg") else html
        runtime.output.file(view.export, draw(doc, metric=view.metric))
    else:
        show(runtime, doc, view)
    for warning in doc.warnings:
        runtime.output.warn(warning)
    remember(runtime, world, snapshot)
    if snapshot.source.kind == "simulation" and runtime.options.output == "table":
        for line in _AFTER_THE_DEMO:
            runtime.output.info(line)
    refuse_all_stale(snapshot)
    return _exit_code(doc, view)


def show(runtime: Runtime, doc: HeatmapDocument, view: View) -> None:
    """The heat map in the format that was asked for."""
    output = runtime.output
    match output.format:
        case "json" | "yaml":
            output.document(doc)
        case "csv":
            from gpuctl.render.heatmap_rows import heatmap_rows

            output.csv(*heatmap_rows(doc, by_mig=view.by_mig))
        case "name":
            from gpuctl.render.heatmap_rows import heatmap_names

            output.names(heatmap_names(doc))
        case "wide":
            from gpuctl.render.heatmap_rows import wide_table

            headers, rows, numeric = wide_table(doc, by_mig=view.by_mig)
            output.table(headers, rows, numeric=numeric)
        case "table":
            from gpuctl.render.heatmap import heatmap_lines

            lines = heatmap_lines(
                doc,
                output.screen(),
                metric=view.metric,
                by_mig=view.by_mig,
                wide_cells=view.wide_cells,
            )
            output.page("\n".join(lines))


def _selection(
    nodes: list[str] | None,
    models: list[str] | None,
    where: list[str] | None,
    *,
    only_hot: bool,
) -> Selection:
    from gpuctl.policy.filters import BadCondition, Selection, parse_condition

    try:
        conditions = tuple(parse_condition(text) for text in where or ())
    except BadCondition as exc:
        raise UsageError(f"--where: {exc}", hint="quote it: --where 'util>90'") from exc
    return Selection(tuple(nodes or ()), tuple(models or ()), conditions, only_hot)


def _refuse_together(**given: str | None) -> None:
    modes = [f"--{name}" for name in ("since", "watch", "explain") if given[name] is not None]
    if len(modes) > 1:
        raise UsageError(f"{' and '.join(modes)} exclude each other", hint="choose one")
    if given["step"] is not None and given["since"] is None:
        raise UsageError("--step only goes with --since", hint="for example --since 6h --step 5m")
    if given["export"] is not None and "--watch" in modes:
        raise UsageError("--export does not go with --watch", hint="export without --watch")


def _export_target(file: str | None) -> str | None:
    if file is not None and not file.lower().endswith((".svg", ".html")):
        raise UsageError(
            f"--export can't tell a format from {file!r}",
            cause="accepted endings: .svg, .html",
            hint="for data use -o json or -o csv",
        )
    return file


def _address(text: str) -> tuple[str, int]:
    node, slash, index = text.rpartition("/")
    if not slash or not node or not index.isdigit():
        raise UsageError(f"--explain: {text!r} is not NODE/GPU", hint="for example hk-gpu-03/1")
    return node, int(index)


def _period(text: str) -> timedelta:
    """`5` and `5s` alike: watch(1) has taught everyone plain seconds."""
    plain = text.replace(".", "", 1).isdigit()
    period = duration_option("--watch", f"{text}s" if plain else text) or timedelta()
    if period < timedelta(seconds=1):
        raise UsageError("--watch refreshes once a second at most", hint="for example --watch 5")
    return period


def generated_at(runtime: Runtime, snapshot: Snapshot) -> datetime:
    """When a document about this snapshot is made; the demo stands still in time."""
    simulated_now = snapshot.source.kind == "simulation"
    return snapshot.taken_at if simulated_now else runtime.clock.now()


def remember(runtime: Runtime, world: World, snapshot: Snapshot) -> None:
    """Node names for the next TAB."""
    from gpuctl.cli.completion_cache import remember_nodes

    if not snapshot.source.simulated and snapshot.source.kind != "file":
        remember_nodes(
            world.context_name, (gpu.address for gpu in snapshot.gpus), environ=runtime.environ
        )


def refuse_all_stale(snapshot: Snapshot) -> None:
    """Raises MetricsError when not one GPU has fresh metrics: the picture is not the present."""
    from gpuctl.model.gpu import GpuState

    if any(gpu.state not in (GpuState.LOST, GpuState.STALE) for gpu in snapshot.gpus):
        return
    age = snapshot.metrics_age_seconds
    limit = snapshot.max_age_seconds
    raise MetricsError(
        "no GPU has fresh metrics",
        cause=None
        if age is None or limit is None
        else f"the newest sample is {age:.0f}s old, the limit is {limit:.0f}s",
        hint="check dcgm-exporter and Prometheus' targets page, or raise --max-age to look anyway",
    )


def _exit_code(doc: HeatmapDocument, view: View) -> ExitCode:
    hot = doc.summary.hot + doc.summary.hot_instances
    return ExitCode.CHANGES if view.exit_code and hot else ExitCode.OK

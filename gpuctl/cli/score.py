"""`gpuctl score`: where a new workload would run best, and where it can't run at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gpuctl.cli.runtime import Runtime, runtime_of
from gpuctl.cli.world import Exporter, MaxAge, SampleFor, open_world
from gpuctl.errors import UsageError
from gpuctl.exitcodes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuctl.model.policy import Policy
    from gpuctl.model.score import Request, ScoreListDocument
    from gpuctl.model.snapshot import Snapshot

_Class = Literal["inference", "training"]
_Strategy = Literal["least-loaded", "headroom", "pack", "fragmentation", "simple"]
_NEEDS, _VIEW = "What it needs", "View"


def score(
    ctx: typer.Context,
    gpus: Annotated[
        int | None,
        typer.Option(
            "--gpus", metavar="N", help="GPUs it needs [default: 1]", rich_help_panel=_NEEDS
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            metavar="SIZE",
            help="free memory on each of them, e.g. 20Gi",
            rich_help_panel=_NEEDS,
        ),
    ] = None,
    mig: Annotated[
        str | None,
        typer.Option(
            "--mig",
            metavar="PROFILE",
            help="MIG instances of this profile instead of GPUs, e.g. 1g.10gb",
            rich_help_panel=_NEEDS,
        ),
    ] = None,
    gpu_model: Annotated[
        str | None,
        typer.Option(
            "--gpu-model", metavar="GLOB", help="a GPU model, e.g. '*A100*'", rich_help_panel=_NEEDS
        ),
    ] = None,
    workload_class: Annotated[
        _Class | None,
        typer.Option(
            "--class", help="what it is: training beside inference slows it", rich_help_panel=_NEEDS
        ),
    ] = None,
    pod: Annotated[
        str | None,
        typer.Option(
            "--pod",
            metavar="FILE",
            help="read its needs from a manifest; - is stdin",
            rich_help_panel=_NEEDS,
        ),
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option(
            "--node", metavar="GLOB", help="only these nodes; repeatable", rich_help_panel=_VIEW
        ),
    ] = None,
    strategy: Annotated[
        _Strategy | None,
        typer.Option(
            "--strategy",
            help="what counts as better [default: the policy's, least-loaded]",
            rich_help_panel=_VIEW,
        ),
    ] = None,
    gpu_level: Annotated[
        bool,
        typer.Option(
            "--gpu-level", help="rank single GPUs or MIG instances", rich_help_panel=_VIEW
        ),
    ] = False,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="a sentence for each part of each score", rich_help_panel=_VIEW
        ),
    ] = False,
    exporter: Exporter = None,
    sample_for: SampleFor = None,
    max_age: MaxAge = None,
) -> ExitCode:
    """Rank the nodes that a new workload could run on, best first.

    A score is 0..100 and the sum of its parts: compute and memory headroom, the effect on the
    spread between GPUs, fragmentation, heat of the node, freshness. Nodes that can't take the
    workload are listed with the reason. A node with unknown or stale metrics gets a neutral
    score, below that of the best known one.

    Strategies: least-loaded (for latency), headroom (load and memory alike), pack (fill before
    spreading), fragmentation (least harm to placements to come), simple (100 - utilization -
    memory in GB).

    Examples:
      gpuctl score --gpus 2 --memory 20Gi
      gpuctl score --pod llm.yaml -o name | head -1
      gpuctl score --mig 1g.10gb --gpu-level
      gpuctl --demo score --explain --node 'hk-gpu-0[23]'

    Exit codes:
      6  no fresh GPU metrics at all: nothing is ranked
      7  Prometheus or every exporter is out of reach
    """
    runtime = runtime_of(ctx)
    if gpu_level and gpus not in (None, 1):
        raise UsageError("--gpu-level ranks single GPUs", hint="leave out --gpus")
    request = _request(gpus, memory, mig, gpu_model, workload_class)
    labels: Mapping[str, str] | None = None
    if pod is not None:
        request, labels = _with_pod(runtime, request, pod, gpus=gpus, mig=mig)
    with open_world(runtime, exporters=exporter, sample_for=sample_for, max_age=max_age) as world:
        from gpuctl.cli.heatmap import generated_at, refuse_all_stale
        from gpuctl.policy.scoring.ranking import score_devices, score_document, score_nodes

        snapshot = world.observe(details=False)
        refuse_all_stale(snapshot)
        rank = score_devices if gpu_level else score_nodes
        report = rank(
            snapshot,
            world.policy,
            _classed(request, labels, world.policy),
            strategy,
            nodes=tuple(node or ()),
            explain=explain,
        )
    doc = score_document(report, snapshot, generated_at=generated_at(runtime, snapshot))
    _show(runtime, doc, snapshot)
    for warning in doc.warnings:
        runtime.output.warn(warning)
    return ExitCode.OK


def _request(
    gpus: int | None,
    memory: str | None,
    mig: str | None,
    gpu_model: str | None,
    workload_class: _Class | None,
) -> Request:
    from gpuctl.model.quantities import parse_memory_mib
    from gpuctl.model.score import Request

    if gpus is not None and gpus < 1:
        raise UsageError(f"--gpus: {gpus} is too low", cause="a workload needs at least 1")
    try:
        memory_mib = None if memory is None else parse_memory_mib(memory)
    except ValueError as exc:
        raise UsageError(f"--memory: {exc}", hint="for example --memory 20Gi") from exc
    return Request(
        gpus=gpus or 1,
        memory_mib=memory_mib,
        mig_profile=None if mig is None else mig.lower().removeprefix("nvidia.com/mig-"),
        gpu_model=gpu_model,
        workload_class=workload_class,
    )


def _with_pod(
    runtime: Runtime, request: Request, file: str, *, gpus: int | None, mig: str | None
) -> tuple[Request, Mapping[str, str]]:
    """The pod's needs, completed by the options, and its labels."""
    if gpus is not None or mig is not None:
        raise UsageError(
            f"--pod and {'--gpus' if gpus is not None else '--mig'} exclude each other",
            cause="the manifest says how many GPUs of which kind",
            hint="leave one of them out",
        )
    from msgspec.structs import replace

    from gpuctl.inventory.pod_file import load_pod

    needs = load_pod(file, runtime.stdin)
    completed = replace(
        needs.request,
        memory_mib=request.memory_mib,
        gpu_model=request.gpu_model or needs.request.gpu_model,
        workload_class=request.workload_class,
    )
    return completed, needs.labels


def _classed(request: Request, labels: Mapping[str, str] | None, policy: Policy) -> Request:
    if labels is None or request.workload_class is not None:
        return request
    from msgspec.structs import replace

    from gpuctl.policy.classes import class_of_labels

    return replace(request, workload_class=class_of_labels(labels, policy))


def _show(runtime: Runtime, doc: ScoreListDocument, snapshot: Snapshot) -> None:
    output = runtime.output
    match output.format:
        case "json" | "yaml":
            output.document(doc)
        case "csv":
            from gpuctl.render.score import score_rows

            output.csv(*score_rows(doc))
        case "name":
            from gpuctl.render.score import score_names

            output.names(score_names(doc))
        case "wide":
            from gpuctl.render.score import wide_score_table

            headers, rows, numeric = wide_score_table(doc)
            output.table(headers, rows, numeric=numeric)
        case "table":
            from gpuctl.render.score import score_lines

            lines = score_lines(doc, output.screen(), age=snapshot.metrics_age_seconds)
            output.page("\n".join(lines))

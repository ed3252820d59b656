"""`gpuctl rebalance --dry-run`: the fewest and cheapest moves, and why."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gpuctl.cli.runtime import Runtime, runtime_of
from gpuctl.cli.world import Exporter, MaxAge, SampleFor, open_world
from gpuctl.errors import RefusedError, UsageError
from gpuctl.exitcodes import ExitCode

if TYPE_CHECKING:
    from gpuctl.model.plan import PlanDocument

_PLAN, _OUTPUT = "Plan", "Output"


def rebalance(
    ctx: typer.Context,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="plan and show, change nothing", rich_help_panel=_PLAN),
    ] = False,
    goal: Annotated[
        Literal["relief", "balance"],
        typer.Option(
            "--goal",
            help="relief: no curable hot GPU, fewest moves; balance: also an even cluster",
            rich_help_panel=_PLAN,
        ),
    ] = "relief",
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="spread=POINTS",
            help="with --goal balance: the spread to reach [default: the policy's, 20]",
            rich_help_panel=_PLAN,
        ),
    ] = None,
    max_moves: Annotated[
        int | None,
        typer.Option(
            "--max-moves",
            metavar="N",
            help="at most N moves [default: the policy's moves_per_run, 5]",
            rich_help_panel=_PLAN,
        ),
    ] = None,
    only: Annotated[
        Literal["pods", "vms"] | None,
        typer.Option("--only", help="move only these", rich_help_panel=_PLAN),
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option(
            "--node",
            metavar="GLOB",
            help="move only what runs on these nodes; repeatable",
            rich_help_panel=_PLAN,
        ),
    ] = None,
    max_missing: Annotated[
        str | None,
        typer.Option(
            "--max-missing",
            metavar="PERCENT",
            help="decide although so many GPU nodes are silent [default: 10%, by min_coverage]",
            rich_help_panel="Source",
        ),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="also what stays where it is, and why", rich_help_panel=_OUTPUT
        ),
    ] = False,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="save the plan as FILE, mode 0600",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="end with 3 when the plan has moves")
    ] = False,
    exporter: Exporter = None,
    sample_for: SampleFor = None,
    max_age: MaxAge = None,
) -> ExitCode:
    """Plan how to relieve hot GPUs, or even out the cluster, with the fewest and cheapest moves.

    A plan on paper: --dry-run has to be given, and gpuctl evict and gpuctl migrate make its moves
    one by one. It names each move with its reason, its expected effect and its cost, where further
    moves stop paying, what no plan could do better, and what no move mends.

    Examples:
      gpuctl rebalance --dry-run
      gpuctl --demo rebalance --dry-run --goal balance --explain
      gpuctl rebalance --dry-run --out plan.json --exit-code

    Exit codes:
      3  with --exit-code: the plan has moves
      5  without --dry-run
      6  the metrics are too old, too few or partial: no plan
    """
    runtime = runtime_of(ctx)
    if not dry_run:
        raise RefusedError(
            "gpuctl can't carry out a plan yet",
            cause="that is still being built",
            hint="plan with --dry-run, then make the moves with gpuctl evict and gpuctl migrate",
        )
    if target is not None and goal != "balance":
        raise UsageError("--target only goes with --goal balance", hint="add --goal balance")
    spread = None if target is None else _spread(target)
    if max_moves is not None and max_moves < 0:
        raise UsageError("--max-moves can't be negative", hint="for example --max-moves 3")
    missing = None if max_missing is None else _percent(max_missing)
    from gpuctl.policy.guards import require_good_data
    from gpuctl.policy.plan_problem import PlanOptions
    from gpuctl.policy.rebalance import plan_rebalance

    options = PlanOptions(goal, spread, max_moves, only, tuple(node or ()))
    with open_world(runtime, exporters=exporter, sample_for=sample_for, max_age=max_age) as world:
        snapshot = world.observe(details=False)
        limit = world.policy.limits.min_coverage if missing is None else 100 - missing
        require_good_data(snapshot, world.policy, min_coverage=limit)
        plan = plan_rebalance(snapshot, world.policy, options)
    if out is not None:
        _save(runtime, plan, out)
    show_plan(runtime, plan, explain=explain)
    for warning in plan.warnings:
        runtime.output.warn(warning)
    return ExitCode.CHANGES if exit_code and plan.moves else ExitCode.OK


def show_plan(runtime: Runtime, plan: PlanDocument, *, explain: bool) -> None:
    """The plan in the format that was asked for."""
    from gpuctl.render.plan import plan_lines, plan_names, plan_rows

    output = runtime.output
    match output.format:
        case "json" | "yaml":
            output.document(plan)
        case "csv":
            output.csv(*plan_rows(plan))
        case "name":
            output.names(plan_names(plan))
        case "wide":
            headers, rows = plan_rows(plan)
            output.table(headers, rows, numeric=headers[6:13])
        case "table":
            output.page("\n".join(plan_lines(plan, output.screen(), explain=explain)))


def _save(runtime: Runtime, plan: PlanDocument, out: str) -> None:
    from gpuctl.render.documents import encode_document

    runtime.output.file(out, encode_document(plan, "json"), mode=0o600)


def _spread(text: str) -> float:
    match = re.fullmatch(r"spread=(\d+(?:\.\d+)?)", text.strip())
    if match is None or not 0 <= float(match[1]) <= 100:
        raise UsageError(
            f"--target: {text!r} is not a target",
            cause="accepted: spread=POINTS, 0 to 100",
            hint="for example --target spread=20",
        )
    return float(match[1])


def _percent(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)%?", text.strip())
    if match is None or float(match[1]) > 100:
        raise UsageError(
            f"--max-missing: {text!r} is not a percentage", hint="for example --max-missing 30%"
        )
    return float(match[1])

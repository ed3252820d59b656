"""`gpuctl history`: what acting runs have done, by their journal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gpuctl.cli.runtime import Runtime, runtime_of
from gpuctl.errors import UsageError
from gpuctl.exitcodes import ExitCode

if TYPE_CHECKING:
    from gpuctl.model.outcome import HistoryListDocument


def history(
    ctx: typer.Context,
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="one run, or the beginning of its id")
    ] = None,
    last: Annotated[int, typer.Option("--last", metavar="N", help="the newest N runs")] = 20,
) -> ExitCode:
    """Show the acting runs of a context, and what each of them did.

    The journal is written before and after each change, so that a run that was killed is listed
    as abandoned, with the steps whose end is not known and the holds that are still on. The next
    acting run cleans up after it.

    Examples:
      gpuctl history
      gpuctl history 20250301T021000Z-4f2a
      gpuctl history -o json --last 1
    """
    runtime = runtime_of(ctx)
    if last < 1:
        raise UsageError("--last must be at least 1", hint="for example --last 5")
    document = _document(runtime, run, last)
    for warning in document.warnings:
        runtime.output.warn(warning)
    _show(runtime, document, one_run=run is not None)
    return ExitCode.OK


def _document(runtime: Runtime, run: str | None, last: int) -> HistoryListDocument:
    from msgspec.structs import replace

    from gpuctl.actions.lock import holder_of
    from gpuctl.actions.runs import history_of, runs_of
    from gpuctl.actions.scope import read_history, scope_of
    from gpuctl.cli.world import settings_of
    from gpuctl.model.outcome import HistoryListDocument

    _, context, _ = settings_of(runtime)
    demo = runtime.options.demo_scenario if runtime.options.demo else None
    scope = scope_of(runtime.environ, context, demo, make=False)
    content = read_history(scope)
    holder = holder_of(scope.lock_path)
    items = history_of(runs_of(content.records), running=None if holder is None else holder.run)
    document = HistoryListDocument(
        generated_at=runtime.clock.now(),
        context=context,
        simulated=demo is not None,
        items=items[:last],
        warnings=content.warnings,
    )
    if run is None:
        return document
    found = tuple(one for one in items if one.run_id.startswith(run))
    if len(found) != 1:
        known = "no run begins so" if not found else f"{len(found)} runs begin so"
        raise UsageError(
            f"there is no run {run} of {scope.subject}" if not found else f"{run} is not one run",
            cause=known,
            hint="gpuctl history lists them",
        )
    return replace(document, items=found)


def _show(runtime: Runtime, document: HistoryListDocument, *, one_run: bool) -> None:
    from gpuctl.render.outcome import outcome_rows
    from gpuctl.render.run_history import history_names, history_rows, run_lines

    output = runtime.output
    match output.format:
        case "json" | "yaml":
            output.document(document)
        case "name":
            output.names(history_names(document))
        case "csv":
            rows = outcome_rows(document.items[0].steps) if one_run else history_rows(document)
            output.csv(*rows)
        case "table" if one_run:
            output.page("\n".join(run_lines(document.items[0], output.screen())))
        case _ if one_run:
            output.table(*outcome_rows(document.items[0].steps), numeric=("landed_pct",))
        case _ if not document.items:
            output.info("no acting run yet")
        case _:
            headers, body = history_rows(document)
            shown = len(headers) if output.format == "wide" else 6
            numeric = ("exit_code", "steps", "changed", "not_changed")
            output.table(headers[:shown], [row[:shown] for row in body], numeric=numeric)

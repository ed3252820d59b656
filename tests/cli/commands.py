"""Small commands that end in every possible way, for the tests of the frame."""

from __future__ import annotations

import logging
from enum import StrEnum
from typing import Annotated, Literal

import typer

from gpuctl.cli.lazy import Entry
from gpuctl.cli.runtime import runtime_of
from gpuctl.cli.signals import Terminated
from gpuctl.errors import BackendError
from gpuctl.exitcodes import ExitCode


def show(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="what to show")] = "nothing",
    metric: Annotated[Literal["util", "mem"], typer.Option(help="figure to show")] = "util",
    every: Annotated[
        str | None, typer.Option(metavar="[SECONDS]", show_default="5", help="again and again")
    ] = None,
    limit: Annotated[int, typer.Option(help="most lines", rich_help_panel="Filters")] = 7,
) -> ExitCode:
    """Show the options that arrived.

    Examples:
      gpuctl show this
      gpuctl show that -o json

    Exit codes:
      3  never
    """
    runtime = runtime_of(ctx)
    options = runtime.options
    own = {"name": name, "metric": metric, "every": every, "limit": limit}
    runtime.output.document(
        {
            **own,
            "format": options.output,
            "context": options.context,
            "demo": options.demo,
            "scenario": options.demo_scenario,
            "color": options.color,
            "quiet": options.quiet,
            "verbose": options.verbose,
            "timeout": options.timeout and options.timeout.total_seconds(),
            "width": options.width,
            "no_input": options.no_input,
            "from_flags": sorted(options.from_flags),
        },
        "json",
    )
    return ExitCode.OK


class Ending(StrEnum):
    """How `gpuctl end` ends."""

    FORESEEN = "foreseen"
    BUG = "bug"
    INTERRUPT = "interrupt"
    TERMINATE = "terminate"
    CHANGES = "changes"
    LATE = "late"


def end(ctx: typer.Context, how: Ending) -> ExitCode:
    """End in the way that is asked for."""
    output = runtime_of(ctx).output
    match how:
        case Ending.FORESEEN:
            raise BackendError("the \x1b[31mserver\nis down", cause="port 1", hint="start it")
        case Ending.BUG:
            raise ZeroDivisionError("seven by zero")
        case Ending.INTERRUPT:
            raise KeyboardInterrupt
        case Ending.TERMINATE:
            raise Terminated(15)
        case Ending.LATE:
            output.document({"a": 1})
            raise BackendError("too late")
        case Ending.CHANGES:
            return ExitCode.CHANGES


def chat(ctx: typer.Context) -> None:
    """Say something in every voice."""
    output = runtime_of(ctx).output
    log = logging.getLogger("gpuctl.test")
    output.text("answer")
    output.warn("careful \x1b[2J")
    output.info("hint")
    log.debug("detail")
    log.info("asked", extra={"node": "gpu-01", "why": "to know more"})
    log.warning("odd")
    logging.getLogger("httpx").info("GET http://user:secret@host/")


def lines(ctx: typer.Context, count: int) -> None:
    """Print many lines."""
    runtime_of(ctx).output.page("".join(f"line {i}\n" for i in range(count)))


def rows(ctx: typer.Context) -> None:
    """Print a table in the chosen format."""
    output = runtime_of(ctx).output
    headers, body = ("node", "load"), [("gpu-北京-01", 71.5), ('say "hi", é', None)]
    if output.format == "csv":
        output.csv(headers, body)
    elif output.format == "name":
        output.names(row[0] for row in body)
    else:
        output.table(headers, body, numeric=("load",))


nested = typer.Typer(help="Commands of a group.")


@nested.command("inner")
def inner(ctx: typer.Context) -> None:
    """Print what the context is."""
    runtime_of(ctx).output.text(str(runtime_of(ctx).options.context))


TABLE = {
    "show": Entry("tests.cli.commands:show", "show what arrived"),
    "end": Entry("tests.cli.commands:end", "end somehow"),
    "chat": Entry("tests.cli.commands:chat", "say something"),
    "lines": Entry("tests.cli.commands:lines", "print lines"),
    "rows": Entry("tests.cli.commands:rows", "print rows"),
    "nested": Entry("tests.cli.commands:nested", "a group"),
    "absent": Entry("tests.cli.no_such_module:x", "a command that is not there yet"),
}

"""What a command gets besides its own options."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

from gpuctl.cli.options import Given, GlobalOptions, resolve
from gpuctl.clock import Clock, SystemClock
from gpuctl.render.output import Output

if TYPE_CHECKING:
    import typer


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The world of one run, passed in so that tests can bring their own."""

    options: GlobalOptions
    output: Output
    environ: Mapping[str, str]
    clock: Clock
    stdin: TextIO | None

    @property
    def may_ask(self) -> bool:
        """Whether there is a person who may be asked."""
        return self.output.stdin_is_tty and not self.options.no_input


@dataclass(slots=True, kw_only=True)
class Invocation:
    """One call of `main`: its streams, and the global options as the parsers find them.

    It travels through the levels of the command line as `ctx.obj`; the command that is called
    gets a Runtime in its place.
    """

    environ: Mapping[str, str]
    stdin: TextIO | None
    stdout: TextIO | None
    stderr: TextIO | None
    clock: Clock
    given: Given = field(default_factory=list)
    runtime: Runtime | None = None

    def start(self) -> Runtime:
        """The Runtime, once the whole command line is parsed; raises UsageError."""
        options = resolve(self.given, self.environ)
        output = Output(
            stdin=self.stdin,
            stdout=self.stdout,
            stderr=self.stderr,
            environ=self.environ,
            settings=options.output_settings(),
        )
        self.runtime = Runtime(
            options=options,
            output=output,
            environ=self.environ,
            clock=self.clock,
            stdin=self.stdin,
        )
        return self.runtime


def an_invocation(
    environ: Mapping[str, str] | None = None,
    stdin: TextIO | None = None,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
    clock: Clock | None = None,
) -> Invocation:
    """An invocation on the process's own streams and environment where none are given.

    The process's streams are None when the caller closed them (`>&-`).
    """
    return Invocation(
        environ=os.environ if environ is None else environ,
        stdin=sys.stdin if stdin is None else stdin,
        stdout=sys.stdout if stdout is None else stdout,
        stderr=sys.stderr if stderr is None else stderr,
        clock=clock or SystemClock(),
    )


def runtime_of(ctx: typer.Context) -> Runtime:
    """The Runtime of the command that runs with `ctx`."""
    obj: Any = ctx.obj
    if not isinstance(obj, Runtime):
        raise TypeError("the command was not started by gpuctl.cli.main")
    return obj

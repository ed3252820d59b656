"""The outermost frame: runs a command and turns how it ended into text and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

from gpuctl.cli.options import requested_format
from gpuctl.cli.runtime import Invocation, an_invocation
from gpuctl.cli.signals import Terminated, termination_raises
from gpuctl.cli.suggestions import WORD, suggestions
from gpuctl.clock import Clock
from gpuctl.errors import GpuctlError
from gpuctl.exitcodes import ExitCode
from gpuctl.render.errors import error_document, error_text
from gpuctl.render.output import Output, OutputClosed, OutputSettings, PipeClosed, silence

if TYPE_CHECKING:
    from gpuctl.cli.lazy import Entry


def main(
    argv: Sequence[str] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    stdin: TextIO | None = None,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
    clock: Clock | None = None,
    table: dict[str, Entry] | None = None,
) -> int:
    """The exit code of the command line `argv` (without the program's name), after running it.

    Whatever is left out is the process's own. Nothing but a second signal escapes from here.
    """
    _occupy_standard_descriptors()
    invocation = an_invocation(environ, stdin, stdout, stderr, clock)
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == [WORD]:
        return _complete(words[1:], invocation)
    try:
        with termination_raises():
            return int(_run(words, invocation, table))
    except KeyboardInterrupt:
        return int(_report(_ended("SIGINT", ExitCode.INTERRUPTED), invocation, words))
    except Terminated as exc:
        return int(_report(_ended(exc.name, ExitCode.TERMINATED), invocation, words))


def _complete(words: list[str], invocation: Invocation) -> int:
    """Answer a shell that completes: past the parser, and without a word on failure."""
    found = suggestions(words, invocation.environ, invocation.clock.now().timestamp())
    try:
        output = _output(invocation, ())
        output.names(found)
        output.finish()
    except (PipeClosed, OutputClosed):
        silence(invocation.stdout)
    return ExitCode.OK


def _run(words: list[str], invocation: Invocation, table: dict[str, Entry] | None) -> int:
    """The exit code of the command; only signals pass."""
    try:
        code = _execute(words, invocation, table)
        _output(invocation, words).finish()
    except PipeClosed:
        # `gpuctl heatmap | head`: the reader has what it wanted.
        silence(invocation.stdout)
        return ExitCode.OK
    except GpuctlError as exc:
        return _report(exc, invocation, words)
    except Exception as exc:  # noqa: BLE001 - the last resort: a bug becomes a message too
        return _report_bug(exc, invocation, words)
    return code


def _execute(words: list[str], invocation: Invocation, table: dict[str, Entry] | None) -> int:
    import typer

    from gpuctl.cli.frame import TextRequested
    from gpuctl.cli.lazy import root_command

    # What all of the parser's complaints derive from. Typer exports only this leaf of the tree,
    # and moves the rest about between the releases that pyproject.toml allows.
    parser_error: type[Exception] = typer.BadParameter.__mro__[2]
    root: Any = root_command(table)
    try:
        with root.make_context("gpuctl", list(words), obj=invocation) as ctx:
            result = root.invoke(ctx)
    except TextRequested as exc:
        _output(invocation, words).text(exc.text)
        return ExitCode.OK
    except typer.Exit as exc:
        return exc.exit_code
    except typer.Abort as exc:
        raise KeyboardInterrupt from exc
    except parser_error as exc:
        from gpuctl.cli.usage import usage_error

        raise usage_error(exc) from exc
    return result if isinstance(result, int) else ExitCode.OK


def _output(invocation: Invocation, words: Sequence[str]) -> Output:
    """The command's Output, or a makeshift one when it never came to that."""
    if invocation.runtime is not None:
        return invocation.runtime.output
    return Output(
        stdin=invocation.stdin,
        stdout=invocation.stdout,
        stderr=invocation.stderr,
        environ=invocation.environ,
        settings=OutputSettings(format=requested_format(words, invocation.environ)),
    )


def _report(error: GpuctlError, invocation: Invocation, words: Sequence[str]) -> ExitCode:
    """The error for people on stderr and, where one was asked for, the document on stdout."""
    output = _output(invocation, words)
    if isinstance(error, OutputClosed):
        silence(invocation.stdout)
    else:
        # What was written so far may still sit in the buffer, and fail only now.
        try:
            if output.format in ("json", "yaml") and not output.has_printed:
                output.document(error_document(error, invocation.clock.now()))
            output.finish()
        except (PipeClosed, OutputClosed):
            silence(invocation.stdout)
    output.complain(error_text(error))
    return ExitCode(error.exit_code)


def _report_bug(exc: Exception, invocation: Invocation, words: Sequence[str]) -> ExitCode:
    """A failure that nobody foresaw; its traceback only with -vv."""
    cause = f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__
    if _wants_traceback(invocation):
        import traceback

        _output(invocation, words).complain("".join(traceback.format_exception(exc)))
        hint = "report this with the lines above"
    else:
        hint = "run it again with -vv and report what that prints"
    return _report(
        GpuctlError("unexpected failure in gpuctl", cause=cause, hint=hint), invocation, words
    )


def _wants_traceback(invocation: Invocation) -> bool:
    return sum(value == 1 for name, value in invocation.given if name == "verbosity") >= 2


def _ended(name: str, code: ExitCode) -> GpuctlError:
    error = GpuctlError(f"interrupted by {name}")
    error.exit_code = code
    return error


def _occupy_standard_descriptors() -> None:
    """Keep descriptors 0 to 2 taken when the caller closed some of them.

    Otherwise the next file or socket that is opened becomes "stdout", and whatever a library
    writes there ends up in it.
    """
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if stream is None:
            with suppress(OSError):
                os.open(os.devnull, os.O_RDWR)

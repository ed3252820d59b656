"""The standard streams: what goes where, in which format, for which kind of terminal.

The only code that writes to stdout and stderr. stdout carries the answer and nothing else;
warnings, hints and questions go to stderr. Each stream is judged alone.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TextIO, get_args

from gpuctl.errors import GpuctlError
from gpuctl.render import terminal
from gpuctl.render.documents import DocumentFormat, encode_document
from gpuctl.render.terminal import Background, ColorChoice

if TYPE_CHECKING:
    from gpuctl.render.screen import Screen

if TYPE_CHECKING:
    from gpuctl.render.screen import Screen

Format = Literal["table", "wide", "name", "csv", "json", "yaml"]
FORMATS: tuple[Format, ...] = get_args(Format)


class OutputClosed(GpuctlError):  # noqa: N818 - it says what happened
    """The answer could not be written: a full disk, or stdout was closed by the caller."""


class PipeClosed(Exception):  # noqa: N818 - not a failure: the reader has seen enough
    """The program that reads stdout went away (`| head`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSettings:
    """What the global options say about output; None means that nobody said anything."""

    format: Format = "table"
    color: ColorChoice = "auto"
    width: int | None = None
    quiet: bool = False
    verbose: int = 0
    no_pager: bool = False


class Output:
    """The streams of one run.

    A write raises PipeClosed when the reader went away and OutputClosed when stdout is closed
    or full; commands let both pass, the outermost frame knows what to do.
    """

    def __init__(
        self,
        *,
        stdin: TextIO | None,
        stdout: TextIO | None,
        stderr: TextIO | None,
        environ: Mapping[str, str],
        settings: OutputSettings | None = None,
    ) -> None:
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.environ = environ
        self.settings = settings or OutputSettings()
        #: Whether anything of the answer is out: a late failure then prints no error document.
        self.has_printed = False

    # What the streams are like

    @property
    def format(self) -> Format:
        return self.settings.format

    @property
    def quiet(self) -> bool:
        return self.settings.quiet

    @property
    def verbose(self) -> int:
        return self.settings.verbose

    @cached_property
    def is_tty(self) -> bool:
        """Whether stdout is a terminal."""
        return terminal.is_terminal(self.stdout)

    @cached_property
    def stderr_is_tty(self) -> bool:
        """Whether progress may be drawn on stderr."""
        return terminal.is_terminal(self.stderr)

    @cached_property
    def stdin_is_tty(self) -> bool:
        """Whether there is a person to answer questions."""
        return terminal.is_terminal(self.stdin)

    @cached_property
    def color_level(self) -> int:
        """Colours of the answer: 0, 16, 256 or 16777216."""
        return terminal.color_level(self.environ, self.settings.color, is_tty=self.is_tty)

    @cached_property
    def width(self) -> int | None:
        """Cells a line may take; None (stdout is no terminal) means that nothing is cut."""
        if self.settings.width is not None:
            return self.settings.width
        return terminal.screen_size(self.stdout, self.environ)[0] if self.is_tty else None

    @property
    def height(self) -> int | None:
        """Lines on the screen, asked anew each time; None when stdout is no terminal."""
        return terminal.screen_size(self.stdout, self.environ)[1] if self.is_tty else None

    @cached_property
    def encoding_is_utf8(self) -> bool:
        """Whether shade glyphs and foreign names can be shown."""
        return terminal.speaks_utf8(self.stdout, self.environ)

    @cached_property
    def background(self) -> Background:
        return terminal.background(self.environ)

    def screen(self) -> Screen:
        """What stdout can show of a picture, measured anew each time."""
        from gpuctl.render.screen import Screen

        return Screen(
            width=self.width,
            height=self.height,
            color_level=self.color_level,
            utf8=self.encoding_is_utf8,
            light_background=self.background == "light",
        )

    # The answer, on stdout

    def text(self, text: str) -> None:
        """`text` as it is, ended by a newline; nothing when empty."""
        if text:
            self._answer(text if text.endswith("\n") else text + "\n")

    def document(self, document: Any, form: DocumentFormat | None = None) -> None:
        """A struct as `form`, else as the chosen format, JSON when that is not YAML."""
        chosen: DocumentFormat = form or ("yaml" if self.format == "yaml" else "json")
        encoding = (getattr(self.stdout, "encoding", None) or "utf-8").lower()
        ascii_only = not encoding.startswith("utf")
        self._answer(encode_document(document, chosen, ascii_only=ascii_only))

    def table(
        self,
        headers: Sequence[str],
        rows: Iterable[Sequence[str | int | float | None]],
        *,
        numeric: Collection[str] = (),
    ) -> None:
        """Aligned columns, `numeric` ones (by header) to the right; paged when too tall."""
        from gpuctl.render.tables import plain_table

        width = None if self.format == "wide" else self.width
        ascii_only = not self.encoding_is_utf8
        self.page(plain_table(headers, rows, numeric=numeric, width=width, ascii_only=ascii_only))

    def csv(
        self, headers: Sequence[str], rows: Iterable[Sequence[str | int | float | bool | None]]
    ) -> None:
        """RFC 4180 with a header and raw numbers."""
        from gpuctl.render.tables import csv_text

        self._answer(csv_text(headers, rows))

    def names(self, names: Iterable[str]) -> None:
        """One name a line, for xargs."""
        self.text("".join(f"{terminal.sanitize(name)}\n" for name in names))

    def safe(self, name: str) -> str:
        """A name from outside as this stdout can show it: no control characters, maybe ASCII."""
        return terminal.sanitize(name, ascii_only=not self.encoding_is_utf8)

    def file(self, path: str, text: str, *, mode: int | None = None) -> None:
        """`text` as the file `path`, whole or not at all; `-` is stdout. Raises GpuctlError."""
        if path == "-":
            self.text(text)
            return
        from gpuctl.render.files import write_whole

        write_whole(path, text, mode=mode)
        self.info(f"wrote {path}")

    def page(self, text: str) -> None:
        """`text` through the pager when a person reads it and it is taller than the screen."""
        height = self.height
        if height is None or not self._may_page or text.count("\n") < height:
            self.text(text)
            return
        from gpuctl.render.pager import show_in_pager

        self._flush(self.stdout)
        if show_in_pager(text, self.environ):
            self.has_printed = True
        else:
            self.text(text)

    @property
    def _may_page(self) -> bool:
        return (
            self.is_tty
            and self.stdin_is_tty
            and not self.settings.no_pager
            and self.format in ("table", "wide")
        )

    # To the person, on stderr

    def warn(self, message: str) -> None:
        """`warning: ...`, shown under -q as well: it may change what the answer means."""
        self._aside(f"warning: {message}")

    def info(self, message: str) -> None:
        """A summary or hint; -q leaves it out."""
        if not self.quiet:
            self._aside(message)

    def complain(self, text: str) -> None:
        """An error's text, as it is."""
        self._write_aside(text)

    def _aside(self, message: str) -> None:
        self._write_aside(terminal.sanitize(message) + "\n")

    def _write_aside(self, text: str) -> None:
        if self.stderr is None:
            return
        if not text.isascii() and not terminal.speaks_utf8(self.stderr, self.environ):
            text = text.encode("ascii", "replace").decode()
        try:
            _write_encodable(self.stderr, text)
            self.stderr.flush()
        except (OSError, ValueError):
            # Nobody reads stderr any more: the exit code still tells how it went, if the
            # interpreter has nothing left to flush there at its end.
            silence(self.stderr)
            self.stderr = None

    def aside(self, text: str) -> None:
        """Lines for the person, shown under -q as well: what a question is about."""
        self._write_aside("".join(f"{terminal.sanitize(line)}\n" for line in text.splitlines()))

    def confirm(self, question: str, *, expected: str | None = None) -> bool:
        """Whether the person says yes; `expected` is what to type for the widest actions.

        Enter, anything else, the end of the input and ^C mean no. Ask only where somebody can
        answer: `stdin_is_tty`.
        """
        choices = f"type {expected} to go on" if expected is not None else "y/N"
        self._write_aside(f"{terminal.sanitize(question)} [{terminal.sanitize(choices)}] ")
        try:
            answer = "" if self.stdin is None else self.stdin.readline()
        except (KeyboardInterrupt, OSError, ValueError):
            answer = ""
        if not answer.endswith("\n"):
            self._write_aside("\n")
        said = answer.strip()
        return said == expected if expected is not None else said.lower() in ("y", "yes")

    def outlast(self, write: Callable[[], None]) -> None:
        """Write the answer of an action; a reader that went away doesn't make it fail."""
        try:
            write()
            self.finish()
        except PipeClosed:
            silence(self.stdout)
            self.stdout = None

    # The plumbing

    def finish(self) -> None:
        """Bring what is buffered out; raises as a write does."""
        self._flush(self.stdout)

    def _answer(self, text: str) -> None:
        if self.stdout is None:
            raise _closed("standard output is closed")
        try:
            _write_encodable(self.stdout, text)
        except BrokenPipeError as exc:
            raise PipeClosed from exc
        except OSError as exc:
            raise _closed(_reason(exc)) from exc
        except ValueError as exc:
            raise _closed("standard output is closed") from exc
        self.has_printed = True

    def _flush(self, stream: TextIO | None) -> None:
        if stream is None:
            return
        try:
            stream.flush()
        except BrokenPipeError as exc:
            raise PipeClosed from exc
        except OSError as exc:
            raise _closed(_reason(exc)) from exc
        except ValueError as exc:
            raise _closed("standard output is closed") from exc


def _write_encodable(stream: TextIO, text: str) -> None:
    """Write `text`, with `?` for what the stream's encoding can't carry."""
    try:
        stream.write(text)
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        stream.write(text.encode(encoding, "replace").decode(encoding))


def _closed(cause: str) -> OutputClosed:
    return OutputClosed(
        "can't write the answer to standard output",
        cause=cause,
        hint="send it to a file or pipe that can be written, on a disk with free space",
    )


def _reason(exc: OSError) -> str:
    if exc.errno == errno.EBADF:
        return "standard output is closed"
    return exc.strerror or str(exc)


def silence(stream: TextIO | None) -> None:
    """Point the stream's descriptor at the null device.

    The interpreter flushes the stream once more when it shuts down; after a failed write that
    would fail again, with a message of its own and another exit code.
    """
    if stream is None:
        return
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError, io.UnsupportedOperation):
        return
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, descriptor)
    finally:
        if null != descriptor:
            os.close(null)


def as_format(text: str) -> Format | None:
    """The format called `text`; None when there is no such one."""
    return text if text in FORMATS else None

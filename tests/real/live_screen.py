"""A program in a pseudo-terminal, seen as a person sees it: the screen, not the bytes."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyte

from tests.spawning import PATIENCE_SECONDS, script_environ


class LiveScreen:
    """What the program shows now. Bytes and modes of the terminal can be looked at too."""

    def __init__(self, process: subprocess.Popen[bytes], descriptor: int, size: tuple[int, int]):
        self.process = process
        self.written = b""
        self._descriptor = descriptor
        self._screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self._screen)

    @property
    def lines(self) -> list[str]:
        """The lines of the screen, trailing blanks cut."""
        return [line.rstrip() for line in self._screen.display]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def status(self) -> str:
        """The bottom line."""
        return self.lines[-1]

    def reversed_text(self) -> str:
        """What stands in reverse video above the status line."""
        rows = range(self._screen.lines - 1)
        cells = [self._screen.buffer[row][x] for row in rows for x in range(self._screen.columns)]
        return "".join(cell.data for cell in cells if cell.reverse).strip()

    def modes(self) -> list[Any]:
        """The terminal's line discipline, as `stty` would tell."""
        return termios.tcgetattr(self._descriptor)

    def type(self, keys: str | bytes) -> None:
        """Keys, as a keyboard sends them."""
        os.write(self._descriptor, keys if isinstance(keys, bytes) else keys.encode())

    def send(self, signum: signal.Signals) -> None:
        self.process.send_signal(signum)

    def resize(self, columns: int, lines: int) -> None:
        """Another size; the kernel tells the program."""
        self._screen.resize(lines, columns)
        _resize(self._descriptor, columns, lines)

    def wait(self, *wanted: str) -> str:
        """The screen, once it shows all of `wanted`."""
        return self.until(lambda shown: all(text in shown for text in wanted), " and ".join(wanted))

    def until(self, holds: Callable[[str], bool], what: str = "") -> str:
        """The screen, once `holds` is true of its text."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds(self.text):
            assert self._read(deadline), f"never came: {what}; the screen is\n{self.text}"
        return self.text

    def watch_for(self, seconds: float) -> None:
        """Take in whatever comes for so long: for measurements, never for a test."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._read(deadline)

    def end(self) -> int:
        """The exit code, once the program has ended and all it wrote was read."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._read(deadline):
            pass
        return self.process.wait(timeout=PATIENCE_SECONDS)

    def hang_up(self) -> None:
        """The terminal's window is closed."""
        os.close(self._descriptor)
        self._descriptor = -1

    def close(self) -> None:
        self.process.kill()
        self.process.wait(timeout=PATIENCE_SECONDS)
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def _read(self, deadline: float) -> bool:
        left = max(0.0, deadline - time.monotonic())
        ready, _, _ = select.select([self._descriptor], [], [], left)
        if not ready:
            return False
        try:
            chunk = os.read(self._descriptor, 65536)
        except OSError:  # Linux says EIO once nobody has the other side open
            return False
        self.written += chunk
        self._stream.feed(chunk)
        return bool(chunk)


@contextmanager
def on_screen(
    command: Sequence[str],
    environ: Mapping[str, str] | None = None,
    *,
    columns: int = 80,
    lines: int = 24,
) -> Iterator[LiveScreen]:
    """`command` in a terminal of that size, ended at the latest on leaving."""
    ours, theirs = pty.openpty()
    _resize(ours, columns, lines)
    try:
        process = subprocess.Popen(
            list(command),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=dict(environ if environ is not None else script_environ()),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(theirs, termios.TIOCSCTTY, 0),
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    screen = LiveScreen(process, ours, (columns, lines))
    try:
        yield screen
    finally:
        screen.close()


def _resize(descriptor: int, columns: int, lines: int) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

"""The installed script and other programs, run for real: in a pipe and in a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

#: Only how long a test waits for what never comes.
PATIENCE_SECONDS = 30.0


def installed_script() -> str:
    """The `gpuctl` beside the interpreter that runs the tests."""
    beside = Path(sys.executable).parent
    found = shutil.which("gpuctl", path=str(beside))
    assert found is not None, f"gpuctl is not installed in {beside}: pip install -e '.[test]'"
    return found


def script_environ(**more: str) -> dict[str, str]:
    """A small environment in which `gpuctl` and the system's programs are found."""
    beside = str(Path(installed_script()).parent)
    return {"PATH": f"{beside}:/usr/local/bin:/usr/bin:/bin", "TERM": "xterm", **more}


def run_script(
    *words: str, environ: Mapping[str, str] | None = None, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """`gpuctl words...` with all three streams in pipes."""
    return subprocess.run(
        [installed_script(), *words],
        input=stdin,
        capture_output=True,
        text=True,
        env=dict(environ if environ is not None else script_environ()),
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def run_shell_line(
    line: str, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A line of bash, for redirections and pipes that only a shell can set up."""
    return subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        text=True,
        env=dict(environ if environ is not None else script_environ()),
        timeout=PATIENCE_SECONDS,
        check=False,
    )


class Terminal:
    """A program in a pseudo-terminal: what is typed, and what it has printed so far."""

    def __init__(self, process: subprocess.Popen[bytes], descriptor: int) -> None:
        self.process = process
        self.printed = ""
        self._descriptor = descriptor

    def type(self, text: str) -> None:
        """Keys, as a keyboard sends them."""
        os.write(self._descriptor, text.encode())

    def read_until(self, wanted: str) -> str:
        """Everything printed since the last call, up to and with `wanted`."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while wanted not in self.printed:
            assert self._read(deadline), f"{wanted!r} never came; got {self.printed!r}"
        end = self.printed.index(wanted) + len(wanted)
        seen, self.printed = self.printed[:end], self.printed[end:]
        return seen

    def read_to_end(self) -> str:
        """The rest, once the program has ended."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._read(deadline):
            pass
        self.process.wait(timeout=PATIENCE_SECONDS)
        seen, self.printed = self.printed, ""
        return seen

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._descriptor], [], [], deadline - time.monotonic())
        if not ready:
            return False
        try:
            chunk = os.read(self._descriptor, 65536)
        except OSError:  # Linux says EIO once the other side is closed
            return False
        self.printed += chunk.decode(errors="replace")
        return bool(chunk)


@contextmanager
def spawn(
    command: Sequence[str],
    environ: Mapping[str, str] | None = None,
    *,
    columns: int = 80,
    lines: int = 24,
) -> Iterator[Terminal]:
    """`command` in a pseudo-terminal of that size; it is ended at the latest on leaving."""
    ours, theirs = pty.openpty()
    try:
        _resize(theirs, columns, lines)
        process = subprocess.Popen(
            list(command),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=dict(environ if environ is not None else script_environ()),
            start_new_session=True,
            preexec_fn=lambda: _control(theirs),
        )
        os.close(theirs)
        theirs = -1
        try:
            yield Terminal(process, ours)
        finally:
            process.kill()
            process.wait(timeout=PATIENCE_SECONDS)
    finally:
        os.close(ours)
        if theirs >= 0:
            os.close(theirs)


def _resize(descriptor: int, columns: int, lines: int) -> None:
    import fcntl
    import struct
    import termios

    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


def _control(descriptor: int) -> None:
    """Make the terminal the session's own, so that ^C reaches the program."""
    import fcntl
    import termios

    fcntl.ioctl(descriptor, termios.TIOCSCTTY, 0)

"""The terminal of the live view: alternate screen, keys as they are pressed, changed lines only."""

from __future__ import annotations

import os
import select
import termios
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self, TextIO

from gpuctl.render.output import PipeClosed
from gpuctl.render.screen import uncolored
from gpuctl.render.terminal import cell_width

# Alternate screen, no cursor, and no wrapping: a line that is too long must not push the others.
_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"
_LEAVE = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
_CLEAR = "\x1b[0m\x1b[2J"


def changed_lines(
    before: Sequence[str] | None,
    lines: Sequence[str],
    width: int,
    cursor: tuple[int, int] | None = None,
) -> str:
    """What to write so that a screen that shows `before` shows `lines`; None: anything.

    The cursor shows at `cursor` (line, cell from 0), where it is hidden otherwise.
    """
    parts = ["\x1b[?25l"]
    if before is None:
        parts.append(_CLEAR)
        before = []
    for number in range(max(len(before), len(lines))):
        line = lines[number] if number < len(lines) else ""
        if line == (before[number] if number < len(before) else ""):
            continue
        # Erasing behind a full line would take its last cell on some terminals.
        erase = "\x1b[0m\x1b[K" if cell_width(uncolored(line)) < width else ""
        parts.append(f"\x1b[{number + 1};1H{line}{erase}")
    if cursor is not None:
        parts.append(f"\x1b[{cursor[0] + 1};{cursor[1] + 1}H\x1b[?25h")
    return "".join(parts) if len(parts) > 1 else ""


class LiveTerminal:
    """The terminal while a live view is on it; a context manager that puts everything back.

    Raises PipeClosed when the terminal is gone.
    """

    def __init__(self, stdin: TextIO, stdout: TextIO) -> None:
        stdout.flush()
        self._keys = stdin.fileno()
        self._screen = stdout.fileno()
        self._encoding = stdout.encoding or "utf-8"
        self._before = termios.tcgetattr(self._keys)
        self._shown: list[str] | None = None

    def __enter__(self) -> Self:
        try:
            self.enter()
        except BaseException:
            self.leave()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.leave()

    def enter(self) -> None:
        """Take the terminal, again after `leave` or when something else may have had it."""
        mode = termios.tcgetattr(self._keys)
        mode[0] &= ~(termios.IXON | termios.ICRNL)  # ^S must not freeze the view
        mode[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN)
        mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
        # ^\ would end the process on the spot and leave the terminal like this.
        mode[6][termios.VQUIT] = b"\0"
        with suppress(termios.error):
            termios.tcsetattr(self._keys, termios.TCSANOW, mode)
        self._shown = None
        self._write(_ENTER)

    def leave(self) -> None:
        """Give the terminal back as it was; what can't be done any more is left."""
        with suppress(OSError, PipeClosed):
            self._write(_LEAVE)
        with suppress(termios.error):
            termios.tcsetattr(self._keys, termios.TCSANOW, self._before)

    def size(self) -> tuple[int, int]:
        """Columns and lines; 80x24 where the terminal doesn't know."""
        try:
            size = os.get_terminal_size(self._screen)
        except OSError:
            return 80, 24
        return size.columns or 80, size.lines or 24

    def show(
        self, lines: Sequence[str], width: int, *, cursor: tuple[int, int] | None = None
    ) -> None:
        """Bring `lines` onto the screen, in one write and only where they differ."""
        text = changed_lines(self._shown, lines, width, cursor)
        self._shown = list(lines)
        if text:
            self._write(text)

    def forget(self) -> None:
        """The screen may show anything now: the next `show` draws all of it."""
        self._shown = None

    def wait(self, wakeup: int, seconds: float | None) -> bytes | None:
        """What was typed, None when nothing was by the time or until `wakeup` can be read.

        Raises PipeClosed when nobody can type any more.
        """
        ready, _, _ = select.select([self._keys, wakeup], [], [], seconds)
        if self._keys not in ready:
            return None
        try:
            typed = os.read(self._keys, 4096)
        except OSError as exc:
            raise PipeClosed from exc
        if not typed:
            raise PipeClosed
        return typed

    def _write(self, text: str) -> None:
        data = text.encode(self._encoding, "replace")
        while data:
            try:
                data = data[os.write(self._screen, data) :]
            except BlockingIOError:
                # Whoever shares the terminal with us made it so; its mode is not ours to change.
                select.select([], [self._screen], [])
            except OSError as exc:
                raise PipeClosed from exc

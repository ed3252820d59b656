"""The terminal is taken and given back, whatever happens in between."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import termios
from collections.abc import Iterator
from typing import TextIO

import pytest

from gpuctl.render.output import PipeClosed
from gpuctl.render.watch_terminal import LiveTerminal


class Pair:
    """Both sides of a pseudo-terminal."""

    def __init__(self) -> None:
        self.ours, theirs = pty.openpty()
        self.stdin: TextIO = os.fdopen(theirs, encoding="utf-8")
        self.stdout: TextIO = os.fdopen(os.dup(theirs), "w", encoding="utf-8")

    def modes(self) -> list[object]:
        return termios.tcgetattr(self.ours)

    def written(self) -> bytes:
        found = b""
        while select.select([self.ours], [], [], 0)[0]:
            found += os.read(self.ours, 65536)
        return found

    def hang_up(self) -> None:
        os.close(self.ours)
        self.ours = -1

    def close(self) -> None:
        if self.ours >= 0:
            os.close(self.ours)
        self.stdin.close()
        self.stdout.close()


@pytest.fixture
def terminal() -> Iterator[Pair]:
    pair = Pair()
    try:
        yield pair
    finally:
        pair.close()


def test_an_exception_puts_everything_back(terminal: Pair) -> None:
    before = terminal.modes()

    def fails() -> None:
        with LiveTerminal(terminal.stdin, terminal.stdout) as screen:
            screen.show(["picture"], 80)
            assert terminal.modes() != before
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert terminal.modes() == before
    written = terminal.written()
    assert written.startswith(b"\x1b[?1049h")
    assert written.endswith(b"\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l")


def test_frames_go_out_in_one_piece_and_only_where_they_differ(terminal: Pair) -> None:
    with LiveTerminal(terminal.stdin, terminal.stdout) as screen:
        screen.show(["one", "two"], 80)
        terminal.written()
        screen.show(["one", "2"], 80)
        assert b"one" not in terminal.written()
        screen.show(["one", "2"], 80)
        assert terminal.written() == b""
        screen.forget()
        screen.show(["one", "2"], 80)
        assert b"one" in terminal.written()


def test_keys_come_at_once_and_unseen(terminal: Pair) -> None:
    reader, writer = os.pipe()
    try:
        with LiveTerminal(terminal.stdin, terminal.stdout) as screen:
            terminal.written()
            os.write(terminal.ours, b"q")
            assert screen.wait(reader, 30) == b"q"
            assert terminal.written() == b"", "no echo"
            assert screen.wait(reader, 0) is None
            os.write(writer, b"\0")
            assert screen.wait(reader, 30) is None
    finally:
        os.close(reader)
        os.close(writer)


def test_a_terminal_that_is_gone_is_a_closed_pipe(terminal: Pair) -> None:
    with LiveTerminal(terminal.stdin, terminal.stdout) as screen:
        terminal.hang_up()
        with pytest.raises(PipeClosed):
            screen.show(["picture"], 80)


def test_nobody_can_type_any_more(terminal: Pair) -> None:
    with LiveTerminal(terminal.stdin, terminal.stdout) as screen:
        terminal.hang_up()
        with pytest.raises(PipeClosed):
            screen.wait(terminal.stdin.fileno(), 30)


def test_its_size_and_what_stands_for_one_that_is_unknown(terminal: Pair) -> None:
    screen = LiveTerminal(terminal.stdin, terminal.stdout)
    fcntl.ioctl(terminal.ours, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 101, 0, 0))
    assert screen.size() == (101, 33)
    fcntl.ioctl(terminal.ours, termios.TIOCSWINSZ, struct.pack("HHHH", 0, 0, 0, 0))
    assert screen.size() == (80, 24)


def test_a_terminal_set_to_never_wait_gets_every_byte(terminal: Pair) -> None:
    os.set_blocking(terminal.stdout.fileno(), False)
    with LiveTerminal(terminal.stdin, terminal.stdout) as screen:
        screen.show(["x" * 80] * 20, 80)
        assert terminal.written().count(b"x") == 1600

"""Ctrl-C and SIGTERM in two steps: the first lets the running step finish, the second does not."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from gpuctl.clock import Clock, Deadline
from gpuctl.exitcodes import ExitCode
from gpuctl.model.durations import format_duration

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Abandoned(BaseException):
    """The second signal: stop at once. Not an Exception, so that nothing on the way keeps it."""


@dataclass(slots=True)
class Interruption:
    """Whether somebody has asked the run to end, and how long its running step may still take.

    `pause` waits for some seconds and returns at once when a signal comes.
    """

    clock: Clock
    grace_seconds: float
    pause: Callable[[float], object]
    signal_name: str | None = None
    _since: float = 0.0

    def request(self, name: str) -> None:
        """A signal came. Raises Abandoned for the second one."""
        if self.signal_name is not None:
            raise Abandoned
        self._since = self.clock.monotonic()
        self.signal_name = name

    @property
    def is_requested(self) -> bool:
        """Whether the first signal has come."""
        return self.signal_name is not None

    @property
    def exit_code(self) -> ExitCode | None:
        """What an interrupted run ends with; None for one that is not."""
        if self.signal_name is None:
            return None
        return ExitCode.INTERRUPTED if self.signal_name == "SIGINT" else ExitCode.TERMINATED

    def grace_left(self) -> float:
        """Seconds that a running step still has; unlimited before any signal."""
        if self.signal_name is None:
            return float("inf")
        return max(0.0, self._since + self.grace_seconds - self.clock.monotonic())


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a step may wait: until the deadline, and not beyond an interruption."""

    interruption: Interruption
    deadline: Deadline

    def wait_idle(self, seconds: float) -> bool:
        """Wait while nothing of ours is under way; False when there is no time, or a signal came.

        A wait that would not end before the deadline is not begun.
        """
        if self.interruption.is_requested or self.deadline.remaining() <= seconds:
            return False
        self.interruption.pause(seconds)
        return not self.interruption.is_requested

    def wait_running(self, seconds: float) -> bool:
        """Wait while something of ours is under way; after a signal until its grace is over."""
        left = min(self.deadline.remaining(), self.interruption.grace_left())
        if left <= 0:
            return False
        self.interruption.pause(min(seconds, left))
        return True


@dataclass(slots=True)
class SignalWaker:
    """A pipe that a signal makes readable, so that a wait ends with it.

    A pipe and not an Event: a handler that sets an Event can meet its own thread inside of it.
    """

    ends: tuple[int, int] = field(default_factory=os.pipe)

    def wake(self) -> None:
        """End the present wait, or the next one."""
        with suppress(OSError):
            os.write(self.ends[1], b"\0")

    def pause(self, seconds: float) -> None:
        """Wait, or return at once when woken; each wake ends one wait."""
        readable, _, _ = select.select([self.ends[0]], [], [], max(0.0, seconds))
        if readable:
            os.read(self.ends[0], 1)

    def close(self) -> None:
        """Give the pipe back."""
        for end in self.ends:
            os.close(end)


@contextmanager
def interruptible(
    clock: Clock, grace_seconds: float, say: Callable[[str], None]
) -> Iterator[Interruption]:
    """Within, the first signal is noted and the second raises Abandoned; an ignored one stays so.

    `say` tells the person that the first one was heard. In another thread than the main one,
    where Python sets no handlers, nothing is caught.
    """
    waker = SignalWaker()
    interruption = Interruption(clock, grace_seconds, waker.pause)
    before: list[tuple[signal.Signals, Any]] = []

    def note(signum: int, _frame: FrameType | None) -> None:
        waker.wake()
        name = signal.Signals(signum).name
        interruption.request(name)
        with suppress(RuntimeError):  # this very thread is in the middle of a write
            say(
                f"{name}: nothing more is begun; waiting up to {format_duration(grace_seconds)} "
                "for what is under way; once more to stop at once"
            )

    try:
        if threading.current_thread() is threading.main_thread():
            for signum in _ENDING:
                handler = signal.getsignal(signum)
                if handler is not signal.SIG_IGN:
                    before.append((signum, signal.SIG_DFL if handler is None else handler))
                    signal.signal(signum, note)
        yield interruption
    finally:
        for signum, handler in before:
            signal.signal(signum, handler)
        waker.close()

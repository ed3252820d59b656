"""Signals as notes that a loop reads when it is ready for them, and that wake it up."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import ExitStack, suppress
from types import FrameType, TracebackType
from typing import Self

from gpuctl.cli.signals import Terminated

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_OTHERS = (signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT)


class NotedSignals:
    """Within, signals interrupt nothing: the terminal is never left half-way through a write.

    `wakeup` becomes readable when one came, or when a thread called `wake`. The second signal
    that asks the process to end does raise, wherever it is. An ignored SIGHUP (nohup) stays so.
    Only for the main thread.
    """

    def __init__(self) -> None:
        self._came: list[int] = []
        self._stack = ExitStack()
        self.wakeup = self._waker = -1

    def __enter__(self) -> Self:
        self.wakeup, self._waker = os.pipe()
        for end in (self.wakeup, self._waker):
            os.set_blocking(end, False)
            self._stack.callback(os.close, end)
        before = signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        self._stack.callback(signal.set_wakeup_fd, before)
        for signum in (*_ENDING, *_OTHERS):
            handler = signal.getsignal(signum)
            if signum in _ENDING and handler is signal.SIG_IGN:
                continue
            signal.signal(signum, self._note)
            restored = signal.SIG_DFL if handler is None else handler
            self._stack.callback(signal.signal, signum, restored)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._waker = -1
        self._stack.close()

    def wake(self) -> None:
        """Make `wakeup` readable, from any thread; nothing once this is over."""
        waker = self._waker
        if waker >= 0:
            with suppress(OSError):  # full: it is readable already
                os.write(waker, b"\0")

    def taken(self) -> set[int]:
        """The signals since the last call; `wakeup` is silent again. Raises what ends a run."""
        with suppress(BlockingIOError):
            while os.read(self.wakeup, 4096):
                pass
        came, self._came = self._came, []
        self.raise_ending(came)
        return set(came)

    def pause_process(self) -> None:
        """Stop as the shell expects of ^Z, and go on where it says so."""
        handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        # To this very thread: it is stopped when the call returns, not some time later.
        signal.pthread_kill(threading.get_ident(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, handler)

    @staticmethod
    def raise_ending(came: list[int]) -> None:
        """KeyboardInterrupt or Terminated, for the first of the signals that asks for it."""
        for signum in came:
            if signum == signal.SIGINT:
                raise KeyboardInterrupt
            if signum in _ENDING:
                raise Terminated(signum)

    def _note(self, signum: int, _frame: FrameType | None) -> None:
        if signum in _ENDING and any(earlier in _ENDING for earlier in self._came):
            self.raise_ending([signum])
        self._came.append(signum)

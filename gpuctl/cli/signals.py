"""SIGTERM and SIGHUP as an exception, so that clean-up runs as it does after ^C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


class Terminated(BaseException):
    """The process was asked to end. Not an Exception: nothing but the frame may swallow it."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.name = signal.Signals(signum).name


def _raise(signum: int, _frame: FrameType | None) -> NoReturn:
    raise Terminated(signum)


@contextmanager
def termination_raises() -> Iterator[None]:
    """Within, SIGTERM and SIGHUP raise Terminated; one that is ignored (nohup) stays so."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python lets only the main thread set handlers
        return
    before = {
        signum: signal.getsignal(signum)
        for signum in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(signum) is not signal.SIG_IGN
    }
    for signum in before:
        signal.signal(signum, _raise)
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler if handler is not None else signal.SIG_DFL)

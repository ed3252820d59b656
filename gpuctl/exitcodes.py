"""Exit codes of every command, and which of two wins."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum


class ExitCode(IntEnum):
    """What a command's exit status means; part of the interface, never renumbered."""

    OK = 0
    ERROR = 1
    USAGE = 2
    CHANGES = 3
    PARTIAL = 4
    REFUSED = 5
    METRICS = 6
    BACKEND = 7
    LOCKED = 8
    TIMEOUT = 9
    INTERRUPTED = 130
    TERMINATED = 143


_STRONGEST_FIRST = (
    ExitCode.TERMINATED,
    ExitCode.INTERRUPTED,
    ExitCode.ERROR,
    ExitCode.PARTIAL,
    ExitCode.TIMEOUT,
    ExitCode.LOCKED,
    ExitCode.BACKEND,
    ExitCode.METRICS,
    ExitCode.REFUSED,
    ExitCode.USAGE,
    ExitCode.CHANGES,
    ExitCode.OK,
)


def strongest(codes: Iterable[ExitCode]) -> ExitCode:
    """The code that a run with several results ends with; OK when there are none."""
    return min(codes, key=_STRONGEST_FIRST.index, default=ExitCode.OK)

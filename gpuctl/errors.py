"""Expected failures: each says what happened, why, and what to do, and carries its exit code.

Only the outermost frame (`gpuctl.cli.main`) turns one into text.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuctl.exitcodes import ExitCode


class GpuctlError(Exception):
    """A failure that was foreseen. `str(error)` is what happened; the rest are its reasons.

    `details` are single faults, one a line, where there are many of one kind.
    """

    exit_code = ExitCode.ERROR
    details: tuple[str, ...] = ()

    def __init__(self, what: str, *, cause: str | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.cause = cause
        self.hint = hint


class UsageError(GpuctlError):
    """A wrong option, argument or combination of them."""

    exit_code = ExitCode.USAGE


class ConfigError(GpuctlError):
    """The configuration file can't be read or says something impossible."""

    exit_code = ExitCode.USAGE


class RefusedError(GpuctlError):
    """A safety rule said no; nothing was changed."""

    exit_code = ExitCode.REFUSED


class MetricsError(GpuctlError):
    """No, stale or insufficient metrics: no decision was taken."""

    exit_code = ExitCode.METRICS


class BackendError(GpuctlError):
    """An API is unreachable, denies access or answers nonsense."""

    exit_code = ExitCode.BACKEND


class TimeoutReached(GpuctlError):  # noqa: N818 - it is named after the exit code
    """The time for the whole command is used up."""

    exit_code = ExitCode.TIMEOUT


def shorten(names: Sequence[str], most: int = 3) -> str:
    """`a, b, c and 11 more`: names for a sentence, however many there are."""
    shown = ", ".join(names[:most])
    rest = len(names) - most
    return f"{shown} and {rest} more" if rest > 0 else shown

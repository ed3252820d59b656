"""Time as an argument: the real clock, and one that stands still."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Where `now` comes from. Times are aware and in UTC."""

    def now(self) -> datetime:
        """The current time."""

    def monotonic(self) -> float:
        """Seconds that only grow, for timeouts and durations."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


@dataclass(slots=True)
class FixedClock:
    """A clock that only moves when told to: the demo's and the tests'."""

    at: datetime

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()


@dataclass(slots=True)
class Stopwatch:
    """A clock whose `monotonic` counts from the last `restart`.

    A Deadline on it is one for each round of a command that goes on.
    """

    clock: Clock
    started: float = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Count from 0 again."""
        self.started = self.clock.monotonic()

    def now(self) -> datetime:
        return self.clock.now()

    def monotonic(self) -> float:
        return self.clock.monotonic() - self.started


@dataclass(frozen=True, slots=True)
class Deadline:
    """The moment by which a whole command has to be done, measured on a clock that only grows."""

    clock: Clock
    at: float

    @classmethod
    def after(cls, limit: timedelta | float, clock: Clock) -> Deadline:
        """The deadline that lies `limit` (seconds when a number) from now."""
        return cls(clock, clock.monotonic() + seconds(limit))

    def remaining(self) -> float:
        """Seconds left, 0 when it has passed."""
        return max(0.0, self.at - self.clock.monotonic())


def seconds(length: timedelta | float) -> float:
    """A length of time as seconds, whichever way it was given."""
    return length.total_seconds() if isinstance(length, timedelta) else float(length)

"""Time as an argument: the real clock, and one that stands still."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
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

"""Random draws for the makers of scenarios: the same on every machine and Python version.

The standard generator promises that only for `random()`, not for shuffles and samples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar

T = TypeVar("T")

# What Kubernetes puts into generated names: no vowels, nothing that looks like another character.
_NAME_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"


class Draws:
    """A stream of draws that its seed alone decides."""

    def __init__(self, *seed: str | int) -> None:
        self._key = blake2b("|".join(map(str, seed)).encode(), digest_size=32).digest()
        self._count = 0

    def unit(self) -> float:
        """From [0, 1)."""
        self._count += 1
        data = self._count.to_bytes(8, "big")
        digest = blake2b(data, digest_size=8, key=self._key).digest()
        return (int.from_bytes(digest, "big") >> 11) / 2**53

    def uniform(self, low: float, high: float, digits: int = 1) -> float:
        """Evenly from [low, high], rounded."""
        return round(low + (high - low) * self.unit(), digits)

    def integer(self, low: int, high: int) -> int:
        """Evenly from low..high, both included."""
        return low + int(self.unit() * (high - low + 1))

    def choice(self, options: Sequence[T]) -> T:
        """One of the options."""
        return options[self.integer(0, len(options) - 1)]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in random order."""
        mixed = list(items)
        for last in range(len(mixed) - 1, 0, -1):
            other = self.integer(0, last)
            mixed[last], mixed[other] = mixed[other], mixed[last]
        return mixed

    def lognormal(self, mean: float, sigma: float, digits: int = 1) -> float:
        """Lognormal with that mean; `sigma` is the deviation of the logarithm."""
        normal = math.sqrt(-2 * math.log(1 - self.unit())) * math.cos(2 * math.pi * self.unit())
        return round(mean * math.exp(sigma * normal - sigma * sigma / 2), digits)

    def suffix(self, length: int) -> str:
        """The random end of a generated Kubernetes name."""
        return "".join(self.choice(_NAME_CHARACTERS) for _ in range(length))

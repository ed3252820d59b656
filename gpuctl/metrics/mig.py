"""MIG profiles and the figure of a card that is made of its instances."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SLICES = re.compile(r"(?:^|[^0-9A-Za-z])(\d+)g\.")


def compute_slices(profile: str) -> int | None:
    """Compute slices of a MIG profile: `3g.40gb` -> 3, `1c.2g.20gb` -> 2; else None."""
    match = _SLICES.search(profile)
    return int(match.group(1)) if match else None


def total_slices(model: str | None) -> int:
    """Compute slices of a card that can do MIG: 4 on A30 and RTX PRO 6000, 7 on all others."""
    # An option of the exporter puts dashes for the blanks.
    name = (model or "").upper().replace("-", " ")
    return 4 if re.search(r"\bA30X?\b", name) or "RTX PRO 6000" in name else 7


def weighed(instances: Iterable[tuple[int | None, float | None]], slices: int) -> float | None:
    """The card's figure from (compute slices, percent) of its instances.

    Slices that are not handed out count as idle; one unknown instance makes the card unknown.
    """
    total = 0.0
    for width, percent in instances:
        if width is None or percent is None:
            return None
        total += width * percent
    return min(100.0, round(total / slices, 4))

"""Amounts of memory as people and Kubernetes write them: `20Gi`, `512Mi`, `16G`, `1.5Ti`."""

from __future__ import annotations

import re

_UNITS = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)([A-Za-z]*)")
_MIB = 2**20
_MOST_BYTES = 2**60


def parse_memory_mib(text: str) -> float:
    """An amount of memory in MiB. A unit is needed: a bare number would mean bytes.

    Raises ValueError with a sentence for the user.
    """
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match[2] not in _UNITS:
        units = ", ".join(unit for unit in _UNITS if unit)
        raise ValueError(f"{text!r} is not an amount of memory: a number and one of {units}")
    if not match[2]:
        raise ValueError(f"{text!r} has no unit and would mean bytes: write {text.strip()}Gi")
    amount = float(match[1]) * _UNITS[match[2]]
    if not 0 < amount <= _MOST_BYTES:
        raise ValueError(f"{text!r} is not an amount of memory that a GPU could have")
    return amount / _MIB


def memory_words(mib: float) -> str:
    """`37.5 GiB`, or `512 MiB` for less than one GiB."""
    return f"{mib:.0f} MiB" if mib < 1024 else f"{mib / 1024:.1f} GiB"

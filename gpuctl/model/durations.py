"""Durations as people write them: `90s`, `5m`, `1h30m`, `2d`."""

from __future__ import annotations

import re
from datetime import timedelta

# Units from the longest to the shortest: the order in which they may follow each other.
_UNIT_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_PARTS = "".join(rf"(?:(?P<{unit}>{_NUMBER}){unit})?" for unit in _UNIT_MS)
_DURATION = re.compile(_PARTS)
_LONGEST = timedelta(days=3650)

#: The same rule as a JSON schema pattern: `0`, or numbers each with a unit, longest unit first.
DURATION_PATTERN = "^(0|(?=[0-9])" + "".join(rf"({_NUMBER}{unit})?" for unit in _UNIT_MS) + ")$"


def parse_duration(text: str) -> timedelta:
    """What `text` says, e.g. `90s`, `1h30m`, `0.5s`, `250ms`, `2d`.

    Every number needs a unit, except `0`; units go from the longest to the shortest, each once.
    Raises ValueError with a sentence for the user.
    """
    stripped = text.strip()
    if stripped == "0":
        return timedelta(0)
    match = _DURATION.fullmatch(stripped)
    if not stripped or match is None:
        raise ValueError(_complaint(stripped))
    milliseconds = sum(
        float(number) * _UNIT_MS[unit]
        for unit, number in match.groupdict().items()
        if number is not None
    )
    # Checked before the timedelta is made: 10^30 days would overflow it.
    if milliseconds > _LONGEST / timedelta(milliseconds=1):
        raise ValueError(f"{_shown(stripped)} is too long: the longest duration is 3650d")
    return timedelta(milliseconds=milliseconds)


def _complaint(text: str) -> str:
    if not text:
        return "a duration is missing: write for example 90s, 5m or 1h30m"
    if re.fullmatch(_NUMBER, text):
        return f"{_shown(text)} has no unit: write {text}s, {text}m or {text}h"
    if text.startswith("-"):
        return f"{_shown(text)} is negative: a duration is 0 or more"
    if re.fullmatch(rf"(?:{_NUMBER}(?:ms|[dhms]))+", text):
        return f"{_shown(text)} repeats or mixes up its units: write them in the order d h m s ms"
    return f"{_shown(text)} is not a duration: write for example 90s, 5m, 1h30m or 2d"


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "…")


def format_duration(value: timedelta | float, *, exact: bool = False) -> str:
    """`value` (a number is seconds) as `parse_duration` reads it: `5m`, `1h30m`, `2d4h`, `0.25s`.

    From 10 seconds on the fraction is rounded away, which suits ages and timings; `exact` keeps
    milliseconds, for settings that must read back as they were. A negative value keeps its sign.
    """
    span = value if isinstance(value, timedelta) else timedelta(seconds=value)
    milliseconds = round(span / timedelta(milliseconds=1))
    if milliseconds < 0:
        return "-" + format_duration(-span, exact=exact)
    if not exact and milliseconds >= 10_000:
        milliseconds = round(milliseconds / 1000) * 1000
    parts: list[str] = []
    rest = milliseconds
    for unit in ("d", "h", "m"):
        count, rest = divmod(rest, _UNIT_MS[unit])
        if count:
            parts.append(f"{count}{unit}")
    if rest or not parts:
        parts.append(f"{rest / 1000:.3f}".rstrip("0").rstrip(".") + "s")
    return "".join(parts)

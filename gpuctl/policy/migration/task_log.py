"""What the log of a migration task says: how far it is, how it ended, and why it failed.

The grammar is best effort: QEMU and Proxmox VE change it. A line that is not known is kept among
the last ones and otherwise ignored; nothing here ever fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

Phase = Literal["starting", "disks", "memory", "finishing", "ended"]
Result = Literal["ok", "warnings", "aborted", "problems", "failed"]

_TAIL_LINES = 20
_MOST_KEPT = 40
_STAMP = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ")
_SIZE = r"(\d+(?:\.\d+)?) ?([KMGTP]i?B|B)"
_ACTIVE = re.compile(rf"migration active, transferred {_SIZE} of {_SIZE} VM-state, {_SIZE}/s")
_DIRTIES = re.compile(rf"VM dirties lots of memory: {_SIZE}/s")
_VFIO = re.compile(rf"\(\+ {_SIZE} VFIO-state\)")
_COMPLETED = re.compile(rf"migration completed, transferred {_SIZE}")
_AVERAGE = re.compile(rf"average migration speed: {_SIZE}/s - downtime (\d+(?:\.\d+)?) ms")
_DISK = re.compile(rf"^(\S+): transferred {_SIZE} of {_SIZE}")
_RAISED = re.compile(r"auto-increased downtime to continue migration: (\d+) ms")
_DURATION = re.compile(r"\(duration (\d+):(\d\d):(\d\d)\)")
_END = re.compile(r"^TASK (OK|WARNINGS: \d+|ERROR: ?(.*))$")
_REASON = re.compile(
    r"ERROR: migration aborted \(duration [\d:]+\): (.+)|ERROR: online migrate failure - (.+)"
)
_STATUS_ERROR = re.compile(r"migration status error: failed - (.+)")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}


@dataclass(frozen=True, slots=True)
class LogReading:
    """All that a log has told so far. Bytes, bytes per second, seconds.

    - copied_bytes, total_bytes: of the memory; copied may exceed the total, since pages that were
      dirtied are sent again
    - dirty_rate: how fast the guest writes memory, from the last line that complains about it
    - dirty_rounds: how many lines did; downtime_raises: how often QEMU has allowed a longer pause
      because it would not converge
    - disk_bytes, disk_total: of local disks, by drive
    - has_moved: the memory is over there; to stop the task now would do harm
    - result and reason: how the task ended; whether the VM moved has to be looked at all the same
    - last_lines: the end of the log, without stamps
    """

    phase: Phase = "starting"
    lines: int = 0
    copied_bytes: int | None = None
    total_bytes: int | None = None
    rate: float | None = None
    vfio_bytes: int | None = None
    dirty_rate: float | None = None
    dirty_rounds: int = 0
    downtime_raises: int = 0
    disk_bytes: tuple[tuple[str, int], ...] = ()
    disk_total: tuple[tuple[str, int], ...] = ()
    average_rate: float | None = None
    downtime_seconds: float | None = None
    duration_seconds: int | None = None
    has_moved: bool = False
    by_ha: bool = False
    is_ha_request: bool = False
    result: Result | None = None
    reason: str | None = None
    last_lines: tuple[str, ...] = ()
    _telling: tuple[str, ...] = ()

    @property
    def fraction(self) -> float | None:
        """Share of the memory that is over, 0..1; None before the first figure."""
        if self.has_moved:
            return 1.0
        if self.copied_bytes is None or not self.total_bytes:
            return None
        return min(1.0, self.copied_bytes / self.total_bytes)

    @property
    def seconds_left(self) -> float | None:
        """Until the memory is over at the present rate; None when nobody can tell."""
        if self.copied_bytes is None or self.total_bytes is None or not self.rate:
            return None
        rest = max(0, self.total_bytes - self.copied_bytes)
        speed = self.rate - (self.dirty_rate or 0.0)
        return rest / speed if speed > 0 else None


def read_log(lines: Iterable[str], before: LogReading | None = None) -> LogReading:
    """The reading after these lines; `before` is what earlier ones of the same log have told."""
    reading = before or LogReading()
    for line in lines:
        reading = _after(reading, line)
    return reading


def _after(reading: LogReading, line: str) -> LogReading:
    text = _STAMP.sub("", line.rstrip("\r\n"))
    kept = (*reading.last_lines, text)[-_TAIL_LINES:]
    reading = replace(reading, lines=reading.lines + 1, last_lines=kept)
    if not text.startswith("migration active") and not _DISK.match(text):
        reading = replace(reading, _telling=(*reading._telling, text)[-_MOST_KEPT:])
    for step in (_active, _disk, _slow, _milestone, _end):
        reading = step(reading, text)
    return reading


def _active(reading: LogReading, text: str) -> LogReading:
    found = _ACTIVE.search(text)
    if found is None:
        return reading
    dirty, vfio = _DIRTIES.search(text), _VFIO.search(text)
    return replace(
        reading,
        phase="memory",
        copied_bytes=_bytes(found[1], found[2]),
        total_bytes=_bytes(found[3], found[4]),
        rate=float(_bytes(found[5], found[6])),
        vfio_bytes=_bytes(vfio[1], vfio[2]) if vfio else reading.vfio_bytes,
        dirty_rate=float(_bytes(dirty[1], dirty[2])) if dirty else None,
        dirty_rounds=reading.dirty_rounds + (dirty is not None),
    )


def _disk(reading: LogReading, text: str) -> LogReading:
    found = _DISK.match(text)
    if found is None:
        return reading
    done = dict(reading.disk_bytes) | {found[1]: _bytes(found[2], found[3])}
    total = dict(reading.disk_total) | {found[1]: _bytes(found[4], found[5])}
    phase: Phase = "disks" if reading.phase == "starting" else reading.phase
    return replace(
        reading, phase=phase, disk_bytes=tuple(done.items()), disk_total=tuple(total.items())
    )


def _slow(reading: LogReading, text: str) -> LogReading:
    if _RAISED.search(text):
        return replace(reading, downtime_raises=reading.downtime_raises + 1)
    return reading


def _milestone(reading: LogReading, text: str) -> LogReading:
    if text.startswith("task started by HA resource agent"):
        return replace(reading, by_ha=True)
    if text.startswith("Requesting HA migration"):
        return replace(reading, is_ha_request=True)
    average, completed = _AVERAGE.search(text), _COMPLETED.search(text)
    duration = _DURATION.search(text)
    if average is not None:
        reading = replace(
            reading,
            phase="finishing",
            average_rate=float(_bytes(average[1], average[2])),
            downtime_seconds=float(average[3]) / 1000,
        )
    if completed is not None:
        reading = replace(reading, copied_bytes=_bytes(completed[1], completed[2]))
    if text == "migration status: completed" or text.startswith("migration finished success"):
        reading = replace(reading, phase="finishing", has_moved=True)
    if duration is not None:
        hours, minutes, seconds = (int(part) for part in duration.groups())
        reading = replace(reading, duration_seconds=hours * 3600 + minutes * 60 + seconds)
    return reading


def _end(reading: LogReading, text: str) -> LogReading:
    found = _END.match(text)
    if found is None:
        return reading
    result: Result = "failed"
    if found[1] == "OK":
        result = "ok"
    elif found[1].startswith("WARNINGS"):
        result = "warnings"
    elif found[2] == "migration aborted":
        result = "aborted"
    elif found[2] == "migration problems":
        result = "problems"
    reason = None if result in ("ok", "warnings") else _reason(reading, found[2] or "")
    return replace(reading, phase="ended", result=result, reason=reason)


def _reason(reading: LogReading, said: str) -> str:
    """The line that names the cause: the last error, or what it refers to."""
    lines = reading._telling
    found = [(n, m[1] or m[2]) for n, line in enumerate(lines) if (m := _REASON.search(line))]
    if not found:
        errors = [line.partition("ERROR: ")[2] for line in lines if line.startswith("ERROR: ")]
        return errors[-1] if errors else said or "no reason given"
    at, reason = found[-1]
    before = lines[:at]
    if reason == "aborting":
        deeper = [m[1] for line in before if (m := _STATUS_ERROR.search(line))]
    elif reason.startswith("remote command failed"):
        deeper = [line for line in before if line.startswith("[")]
    elif "check log" in reason:
        deeper = ["; ".join(line for line in before if line.startswith("can't migrate"))]
    else:
        deeper = []
    return deeper[-1] if deeper and deeper[-1] else reason


def _bytes(number: str, unit: str) -> int:
    return int(float(number) * _UNITS[unit.rstrip("B").rstrip("i")])

"""Snapshots in files: `gpuctl snapshot -o json > s.json`, then `--snapshot s.json`."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TextIO

import msgspec
from msgspec.structs import replace

from gpuctl.errors import UsageError
from gpuctl.model.durations import format_duration
from gpuctl.model.snapshot import SCHEMA, Snapshot, Source

_MOST_BYTES = 512 << 20
_OLD_SECONDS = 60


class _Head(msgspec.Struct):
    """Enough of a document to say what it is."""

    schema: str | None = None
    kind: str | None = None


def load_snapshot(file: str, stdin: TextIO | None, *, now: datetime) -> Snapshot:
    """A saved snapshot; `-` is stdin. Its age becomes a warning of its own.

    Raises UsageError for a file that can't be read or is no snapshot, saying where it breaks.
    """
    data = _read(file, stdin)
    try:
        head = msgspec.json.decode(data, type=_Head)
        if head.kind != "snapshot" or head.schema != SCHEMA:
            raise _not_one(file, f"it says schema {head.schema!r}, kind {head.kind!r}")
        snapshot = msgspec.json.decode(data, type=Snapshot)
    except msgspec.DecodeError as exc:
        raise _not_one(file, str(exc)) from exc
    if snapshot.taken_at.tzinfo is None:
        raise _not_one(file, "taken_at has no offset from UTC")
    age = (now - snapshot.taken_at).total_seconds()
    return replace(
        snapshot,
        source=Source(kind="file", location=file, simulated=snapshot.source.simulated),
        warnings=(*_age_warnings(age, simulated=snapshot.source.simulated), *snapshot.warnings),
    )


def _age_warnings(age_seconds: float, *, simulated: bool) -> list[str]:
    if simulated:
        return []
    if age_seconds > _OLD_SECONDS:
        return [f"the snapshot was taken {format_duration(round(age_seconds))} ago"]
    if age_seconds < -_OLD_SECONDS:
        ahead = format_duration(round(-age_seconds))
        return [f"the snapshot claims to be taken {ahead} in the future: a clock is off"]
    return []


def _read(file: str, stdin: TextIO | None) -> bytes:
    if file == "-":
        if stdin is None:
            raise UsageError("--snapshot - needs something on stdin", cause="stdin is closed")
        buffer = getattr(stdin, "buffer", None)
        return buffer.read() if buffer is not None else stdin.read().encode()
    path = Path(file)
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise _not_one(file, f"it is larger than {_MOST_BYTES >> 20} MiB")
        return path.read_bytes()
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
        raise UsageError(
            f"can't read the snapshot {file}",
            cause=reason,
            hint="write one with: gpuctl snapshot -o json > s.json",
        ) from exc


def _not_one(file: str, cause: str) -> UsageError:
    return UsageError(
        f"{file} is not a snapshot",
        cause=cause,
        hint="write one with: gpuctl snapshot -o json > s.json",
    )

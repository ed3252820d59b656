"""Snapshots in files: `gpuctl snapshot -o json > s.json`, then `--snapshot s.json`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TextIO

import msgspec
from msgspec.structs import replace

from gpuctl.errors import UsageError
from gpuctl.model.durations import format_duration
from gpuctl.model.gpu import Gpu, MigInstance
from gpuctl.model.snapshot import SCHEMA, Snapshot, Source

_MOST_BYTES = 512 << 20
_OLD_SECONDS = 60


class _Head(msgspec.Struct):
    """Enough of a document to say what it is."""

    schema: str | None = None
    kind: str | None = None


def load_snapshot(file: str, stdin: TextIO | None, *, now: datetime) -> Snapshot:
    """A saved snapshot; `-` is stdin. Its age becomes a warning of its own.

    Raises UsageError for a file that can't be read or is no snapshot, saying where it breaks. Any
    program may have written it, so that impossible figures are refused here and not drawn.
    """
    data = _read(file, stdin)
    try:
        head = msgspec.json.decode(data, type=_Head)
        if head.kind != "snapshot" or head.schema != SCHEMA:
            raise _not_one(file, f"it says schema {head.schema!r}, kind {head.kind!r}")
        snapshot = msgspec.json.decode(data, type=Snapshot)
    except msgspec.DecodeError as exc:
        raise _not_one(file, str(exc)) from exc
    except RecursionError as exc:
        raise _not_one(file, "it is nested too deeply") from exc
    for gpu in snapshot.gpus:
        fault = next(_faults(gpu), None)
        if fault is not None:
            raise _not_one(file, f"{gpu.address} has {fault}")
    if snapshot.taken_at.tzinfo is None:
        raise _not_one(file, "taken_at has no offset from UTC")
    age = (now - snapshot.taken_at).total_seconds()
    return replace(
        snapshot,
        source=Source(kind="file", location=file, simulated=snapshot.source.simulated),
        warnings=(*_age_warnings(age, simulated=snapshot.source.simulated), *snapshot.warnings),
    )


def _faults(gpu: Gpu) -> Iterator[str]:
    """What can't be true of a card or of one of its instances."""
    devices: tuple[Gpu | MigInstance, ...] = (gpu, *gpu.mig)
    for device in devices:
        if not 0 <= (device.utilization_pct or 0) <= 100:
            yield f"utilization_pct {device.utilization_pct:g}, outside 0..100"
        if (device.memory_used_mib or 0) < 0:
            yield f"memory_used_mib {device.memory_used_mib:g}"
        if (device.memory_total_mib or 0) < 0:
            yield f"memory_total_mib {device.memory_total_mib:g}"
        window = device.window
        if window is not None and not (
            window.step_seconds > 0
            and window.samples > 0
            and 0 <= window.min_pct <= window.max_pct <= 100
        ):
            yield "a window without steps or samples, or outside 0..100"


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
        return _bounded(file, buffer.read(_MOST_BYTES + 1) if buffer else stdin.read().encode())
    try:
        with Path(file).open("rb") as opened:
            # A regular file tells its size before it is read; a pipe or a device does not.
            if os.fstat(opened.fileno()).st_size > _MOST_BYTES:
                raise _too_large(file)
            return _bounded(file, opened.read(_MOST_BYTES + 1))
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
        raise UsageError(
            f"can't read the snapshot {file}",
            cause=reason,
            hint="write one with: gpuctl snapshot -o json > s.json",
        ) from exc


def _bounded(file: str, data: bytes) -> bytes:
    if len(data) > _MOST_BYTES:
        raise _too_large(file)
    return data


def _too_large(file: str) -> UsageError:
    return _not_one(file, f"it is larger than {_MOST_BYTES >> 20} MiB")


def _not_one(file: str, cause: str) -> UsageError:
    return UsageError(
        f"{file} is not a snapshot",
        cause=cause,
        hint="write one with: gpuctl snapshot -o json > s.json",
    )

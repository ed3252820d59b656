"""One acting run at a time per context: a lock on a file that dies with its process."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime

import msgspec
from msgspec import Struct

from gpuctl.clock import Clock
from gpuctl.errors import GpuctlError
from gpuctl.exitcodes import ExitCode
from gpuctl.model.durations import format_duration
from gpuctl.state import unusable

_POLL_SECONDS = 0.5


class Holder(Struct, frozen=True, kw_only=True):
    """Who holds the lock."""

    pid: int
    host: str
    run: str
    command: str
    since: datetime


class LockedError(GpuctlError):
    """Another run acts on this context."""

    exit_code = ExitCode.LOCKED


@contextmanager
def run_lock(
    path: str,
    holder: Holder,
    *,
    clock: Clock,
    subject: str,
    patience_seconds: float = 0.0,
    wait: Callable[[float], object],
) -> Iterator[None]:
    """Hold the lock within; try for `patience_seconds`, waiting by `wait`.

    `subject` is what is locked, for the message. Raises LockedError, in one line, and GpuctlError
    when the file can't be used or its file system knows no locks.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as exc:
        raise unusable(path, exc) from exc
    try:
        ends = clock.monotonic() + patience_seconds
        while not _taken(descriptor, path):
            left = ends - clock.monotonic()
            if left <= 0:
                raise _locked(descriptor, subject, clock.now())
            wait(min(left, _POLL_SECONDS))
        _write(descriptor, msgspec.json.encode(holder))
        try:
            yield
        finally:
            # The file stays: to remove it would let two runs lock two files of one name.
            _write(descriptor, b"")
    finally:
        os.close(descriptor)


def holder_of(path: str) -> Holder | None:
    """Who holds the lock at this moment; None when nobody does, or nobody can tell."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return None
    try:
        if _taken(descriptor, path):
            return None
        return _read(descriptor)
    except GpuctlError:
        return None
    finally:
        os.close(descriptor)


def _taken(descriptor: int, path: str) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        if exc.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise unusable(path, exc) from exc
    return True


def _read(descriptor: int) -> Holder | None:
    try:
        return msgspec.json.decode(os.pread(descriptor, 65536, 0), type=Holder)
    except (OSError, msgspec.DecodeError):
        return None


def _write(descriptor: int, content: bytes) -> None:
    # Only for the message to others: the lock itself holds without it.
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, content, 0)


def _locked(descriptor: int, subject: str, now: datetime) -> LockedError:
    holder = _read(descriptor)
    if holder is None:
        return LockedError(f"another gpuctl acts on {subject}")
    age = format_duration(max(0, round((now - holder.since).total_seconds())))
    return LockedError(
        f"another gpuctl acts on {subject}: {holder.command}, pid {holder.pid} on {holder.host}, "
        f"for {age}"
    )

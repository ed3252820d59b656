"""The journal: what a run was about to do and what came of it, on disk before it goes on.

One JSON object a line, appended and synced, so that a process that dies at any moment leaves
behind what it was doing. Only the holder of the context's lock writes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Protocol, Self

import msgspec
from msgspec import Struct

from gpuctl.clock import Clock
from gpuctl.state import sync_folder, unusable

Event = Literal[
    "run-started",
    "step-started",
    "sending",
    "answered",
    "step-ended",
    "hold-placing",
    "hold-placed",
    "hold-removed",
    "run-ended",
]


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line. `seq` grows by one with each line of a file; `by` is the run that wrote it when
    that is not the run it is about."""

    seq: int
    at: datetime
    run: str
    event: Event
    step: str = ""
    by: str = ""
    data: dict[str, Any] = {}


class JournalSink(Protocol):
    """Where records go: a file, or nowhere in a dry run."""

    def write(
        self, run: str, event: Event, *, step: str = "", by: str = "", data: dict[str, Any]
    ) -> None:
        """Returns only when the record would survive a loss of power."""


class NoJournal:
    """The journal of a run that changes nothing."""

    def write(
        self, run: str, event: Event, *, step: str = "", by: str = "", data: dict[str, Any]
    ) -> None:
        """Nothing to keep."""


class Journal:
    """The journal of one context, open for appending. A context manager; threads may share it."""

    def __init__(self, path: str, clock: Clock) -> None:
        """Open or create the file with mode 0600; raises GpuctlError when that fails.

        A last line that was torn off is ended, so that the next record stands on its own line.
        """
        self.path = path
        self._clock = clock
        self._lock = threading.Lock()
        try:
            is_new = not os.path.exists(path)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
            self._descriptor = os.open(path, flags, 0o600)
        except OSError as exc:
            raise unusable(path, exc) from exc
        if is_new:
            sync_folder(os.path.dirname(path))
        content = self._content()
        records = parse_journal(content).records
        self._seq = max((record.seq for record in records), default=0)
        if content and not content.endswith(b"\n"):
            self._append(b"\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._descriptor)

    def write(
        self, run: str, event: Event, *, step: str = "", by: str = "", data: dict[str, Any]
    ) -> None:
        """Append one record and sync it. Raises GpuctlError: without it nothing may be done."""
        with self._lock:
            self._seq += 1
            record = Record(
                seq=self._seq,
                at=self._clock.now(),
                run=run,
                event=event,
                step=step,
                by=by,
                data=data,
            )
            self._append(msgspec.json.encode(record) + b"\n")

    def _append(self, line: bytes) -> None:
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
            os.fsync(self._descriptor)
        except OSError as exc:
            raise unusable(self.path, exc) from exc

    def _content(self) -> bytes:
        try:
            with open(self._descriptor, "rb", closefd=False) as file:
                return file.read()
        except OSError as exc:
            os.close(self._descriptor)
            raise unusable(self.path, exc) from exc


@dataclass(frozen=True, slots=True)
class JournalContent:
    """The records that can be read, in order, and a warning for each sort of damage."""

    records: tuple[Record, ...]
    warnings: tuple[str, ...] = ()


def read_journal(path: str) -> JournalContent:
    """What the file holds; nothing when there is none. Raises GpuctlError when it can't be read."""
    try:
        with open(path, "rb") as file:
            return parse_journal(file.read())
    except FileNotFoundError:
        return JournalContent(())
    except OSError as exc:
        raise unusable(path, exc) from exc


def parse_journal(content: bytes) -> JournalContent:
    """The records of a journal's bytes; a torn or garbled line is a warning, never a failure."""
    decoder = msgspec.json.Decoder(Record)
    records: list[Record] = []
    damaged: list[int] = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip(b" \0\r"):  # zeros are what some file systems leave after a power cut
            continue
        try:
            records.append(decoder.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError):
            damaged.append(number)
    return JournalContent(tuple(records), tuple(_damage(damaged)))


def _damage(lines: Iterable[int]) -> Iterable[str]:
    numbers = ", ".join(str(number) for number in lines)
    if numbers:
        yield f"the journal has lines that can't be read, cut off by a crash: {numbers}"

"""Where one context's journal and lock are, and the run that may use them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from secrets import token_hex

from gpuctl.actions.journal import Journal, JournalContent, read_journal
from gpuctl.actions.lock import Holder, run_lock
from gpuctl.actions.runs import runs_of
from gpuctl.clock import Clock
from gpuctl.state import file_name, make_state_folder, state_folder, sync_folder, unusable

#: Some ten thousand steps. Every acting run reads the whole journal.
LONG_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Scope:
    """What acting runs exclude each other on: a context, or one demo. `subject` is for messages."""

    subject: str
    folder: str
    key: str

    @property
    def journal_path(self) -> str:
        """The file of its journal."""
        return os.path.join(self.folder, file_name("journal", self.key, ".jsonl"))

    @property
    def lock_path(self) -> str:
        """The file of its lock."""
        return os.path.join(self.folder, file_name("run", self.key, ".lock"))


def scope_of(
    environ: Mapping[str, str], context: str | None, demo_scenario: str | None, *, make: bool
) -> Scope:
    """The scope of a context, or of a demo when one is named; `make` its folder.

    Raises GpuctlError when there is no place for a journal.
    """
    folder = make_state_folder(environ) if make else state_folder(environ)
    if demo_scenario is not None:
        return Scope(f"the demo {demo_scenario}", folder, f"demo-{demo_scenario}")
    if context is None:
        return Scope("the cluster without a context", folder, "no-context")
    return Scope(f"context {context}", folder, f"context-{context}")


def new_run_id(now: datetime) -> str:
    """A name that sorts by time and that two runs of one second do not share."""
    return f"{now:%Y%m%dT%H%M%SZ}-{token_hex(2)}"


def read_history(scope: Scope) -> JournalContent:
    """Everything that the scope's journal still holds, the part that was put aside first."""
    old, new = read_journal(_aside(scope)), read_journal(scope.journal_path)
    return JournalContent((*old.records, *new.records), (*old.warnings, *new.warnings))


def _aside(scope: Scope) -> str:
    return f"{scope.journal_path}.1"


def _put_aside(scope: Scope) -> None:
    """Begin a new journal when the old one is long and no run of it is open; under the lock."""
    path = scope.journal_path
    try:
        if os.path.getsize(path) < LONG_BYTES:
            return
        if any(run.is_open for run in runs_of(read_journal(path).records)):
            return
        os.replace(path, _aside(scope))
    except FileNotFoundError:
        return
    except OSError as exc:
        raise unusable(path, exc) from exc
    sync_folder(scope.folder)


@contextmanager
def acting(
    scope: Scope,
    holder: Holder,
    *,
    clock: Clock,
    patience_seconds: float,
    wait: Callable[[float], object],
) -> Iterator[Journal]:
    """Within, this process alone of this machine acts on the scope, and may write its journal."""
    with run_lock(
        scope.lock_path,
        holder,
        clock=clock,
        subject=scope.subject,
        patience_seconds=patience_seconds,
        wait=wait,
    ):
        _put_aside(scope)
        with Journal(scope.journal_path, clock) as journal:
            yield journal


def this_process(run_id: str, command: str, clock: Clock) -> Holder:
    """Who we are, for those that we lock out."""
    return Holder(
        pid=os.getpid(),
        host=os.uname().nodename,
        run=run_id,
        command=command,
        since=clock.now(),
    )

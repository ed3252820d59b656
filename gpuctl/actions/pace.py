"""What the rules of pace remember: moves, by the journal, and what was hot at the last look."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Literal

import msgspec
from msgspec import Struct

from gpuctl.actions.journal import Record
from gpuctl.actions.runs import StepLog, runs_of
from gpuctl.actions.scope import Scope
from gpuctl.files import replace_file
from gpuctl.model.outcome import OutcomeStep
from gpuctl.model.plan import DeviceRef
from gpuctl.policy.pace import PastMove, owner_key
from gpuctl.state import file_name, unusable

#: What was hot at an older look says nothing about now: whatever it was has had its time to cool.
HOT_MEMORY = timedelta(hours=1)

# -- moves -----------------------------------------------------------------------------------------


def past_moves(
    records: Sequence[Record], since: datetime, *, cluster: str | None = None
) -> tuple[PastMove, ...]:
    """Every move that was asked for since then, whoever made it and however it ended, oldest first.

    A move is one once something was sent: what a rule or a dry run refused is none. `since`: see
    `policy.pace.memory`. Runs that are known to have acted on another cluster than `cluster` are
    left out.
    """
    sent_at = _sent_at(records)
    elsewhere = _runs_elsewhere(records, cluster)
    found = [
        _past_move(log, at)
        for run in runs_of(records)
        if run.run_id not in elsewhere
        for log in run.steps.values()
        if (at := sent_at.get((run.run_id, log.step.id))) is not None and at >= since
    ]
    return tuple(sorted(found, key=lambda move: move.at))


def _sent_at(records: Iterable[Record]) -> dict[tuple[str, str], datetime]:
    """When the last write of each step was sent; one that a budget put off was sent again."""
    return {(one.run, one.step): one.at for one in records if one.event == "sending"}


def _runs_elsewhere(records: Iterable[Record], cluster: str | None) -> frozenset[str]:
    if cluster is None:
        return frozenset()
    starts = (one for one in records if one.event == "run-started")
    return frozenset(one.run for one in starts if one.data.get("cluster") not in (None, cluster))


def _past_move(log: StepLog, at: datetime) -> PastMove:
    step, outcome = log.step, log.outcome
    changed = _may_have_changed(outcome)
    namespace = step.workload.partition("/")[0] if step.action == "evict" else ""
    return PastMove(
        at=at,
        workload=step.workload,
        heir=_heir(log) if changed else step.workload,
        owner=owner_key(namespace, step.facts.get("owner", "")),
        source=step.source,
        target=_landed(outcome) or step.target,
        changed=changed,
    )


def _may_have_changed(outcome: OutcomeStep | None) -> bool:
    """Whether the workload may be elsewhere now. What nobody saw end counts as moved."""
    if outcome is None or outcome.changed:
        return True
    return outcome.status in ("unknown", "interrupted")


def _heir(log: StepLog) -> str | None:
    """A VM keeps its id; a pod's successor has the one that was seen."""
    if log.step.action == "migrate":
        return log.step.workload
    successor = None if log.outcome is None else log.outcome.detail.get("successor")
    return str(successor) if successor else None


def _landed(outcome: OutcomeStep | None) -> DeviceRef | None:
    landed = None if outcome is None else outcome.landed
    if landed is None:
        return None
    return DeviceRef(node=landed.node, gpu=landed.gpu, mig_id=landed.mig_id)


# -- what was hot ----------------------------------------------------------------------------------


class HotMemory(Struct, frozen=True, kw_only=True):
    """`kind: hot_memory`: addresses of the devices that were hot at a moment."""

    schema: Literal["gpuctl/v1"] = "gpuctl/v1"
    kind: Literal["hot_memory"] = "hot_memory"
    at: datetime
    hot: tuple[str, ...]


def read_was_hot(scope: Scope, now: datetime) -> frozenset[str]:
    """What was hot at the last look; nothing when that was long ago, or can't be read.

    A loss of it costs one step of hysteresis and no safety: what is hot now is measured anew.
    """
    try:
        with open(_hot_path(scope), "rb") as file:
            seen = msgspec.json.decode(file.read(), type=HotMemory)
    except (OSError, msgspec.DecodeError):
        return frozenset()
    return frozenset(seen.hot if seen.at.tzinfo and seen.at > now - HOT_MEMORY else ())


def keep_hot(scope: Scope, hot: Iterable[str], now: datetime) -> None:
    """Remember what is hot now. Raises GpuctlError when the state folder can't be used."""
    path = _hot_path(scope)
    text = msgspec.json.encode(HotMemory(at=now, hot=tuple(sorted(hot)))).decode()
    try:
        replace_file(path, f"{text}\n", mode=0o600)
    except OSError as exc:
        raise unusable(path, exc) from exc


def _hot_path(scope: Scope) -> str:
    return os.path.join(scope.folder, file_name("hot", scope.key, ".json"))

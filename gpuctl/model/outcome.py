"""What an action did: the `outcome` document of one run, and the `history_list` of many."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct

from gpuctl.model.plan import Action, DeviceRef, PlanGoal

StepStatus = Literal[
    "done",
    "allowed",
    "unchanged",
    "refused",
    "failed",
    "skipped",
    "interrupted",
    "unknown",
]
HoldKind = Literal["cordon", "soft-taint"]
RunState = Literal["running", "ended", "abandoned"]
DetailValue = str | int | float | bool | None


class Landing(Struct, frozen=True, kw_only=True):
    """Where a workload runs after its move.

    `utilization_pct` is the device's, measured after the move; `cooler` whether that is less than
    the device it left had before. None where fresh metrics do not tell.
    """

    node: str
    gpu: int | None = None
    mig_id: int | None = None
    utilization_pct: float | None = None
    cooler: bool | None = None


class OutcomeStep(Struct, frozen=True, kw_only=True, rename={"source": "from", "target": "to"}):
    """One step and how it ended.

    - done: the world was changed as intended, and the waiting that was asked for succeeded
    - allowed: a dry run whose checks all passed; nothing was changed
    - unchanged: there was nothing to do, it is so already
    - refused: a safety rule or a budget said no
    - failed: it was tried and went wrong; `changed` tells whether the world is another one now
    - skipped: not begun, since the run stopped before it
    - interrupted: begun, and left by a signal
    - unknown: an answer was lost and nobody could say what became of it

    `detail` holds single facts such as a budget's numbers; its keys depend on the reason.
    """

    id: str
    action: Action
    workload: str
    source: DeviceRef | None
    target: DeviceRef | None = None
    status: StepStatus
    reason: str
    changed: bool = False
    detail: dict[str, DetailValue] = {}
    started_at: datetime | None = None
    ended_at: datetime | None = None
    landed: Landing | None = None


class HoldOutcome(Struct, frozen=True, kw_only=True):
    """A node that the run kept the scheduler away from. `placed` False: it was so before."""

    kind: HoldKind
    node: str
    placed: bool
    removed: bool


class DeviceOutcome(Struct, frozen=True, kw_only=True):
    """A device of a node that a plan changes, in percent of utilization.

    `before_pct` and `after_pct` are measured, `predicted_pct` is what the moves that were made
    should have led to; a device that no move touches is predicted to stay as it was.
    `error_points`: how far the prediction may be off, by the plan. `wrong`: it was off by more
    than 15 points beyond that. None where nothing was measured.
    """

    device: DeviceRef
    before_pct: float | None
    predicted_pct: float | None
    after_pct: float | None
    error_points: float = 0.0
    wrong: bool | None = None


class Verification(Struct, frozen=True, kw_only=True):
    """What was measured after the moves; ordered by node, GPU and instance.

    `measured_at` None: it was not measured, and `problem` says why. `hot_before` and `hot_after`
    are addresses of devices over the mark, of the whole cluster.
    """

    measured_at: datetime | None
    problem: str = ""
    hot_before: tuple[str, ...] = ()
    hot_after: tuple[str, ...] = ()
    devices: tuple[DeviceOutcome, ...] = ()


class OutcomeDocument(Struct, frozen=True, kw_only=True):
    """`kind: outcome`: one run of an action. `exit_code` is the process's.

    A run that carries out a plan names the plan's `goal`, the `plan` digest and what
    `triggered_by` it (an alert's name, "" for a person or a timer), and holds a `verification`
    when anything was moved.
    """

    schema: Literal["gpuctl/v1"] = "gpuctl/v1"
    kind: Literal["outcome"] = "outcome"
    run_id: str
    command: str
    context: str | None
    cluster: str | None
    simulated: bool
    dry_run: bool
    started_at: datetime
    ended_at: datetime
    exit_code: int
    steps: tuple[OutcomeStep, ...]
    holds: tuple[HoldOutcome, ...] = ()
    warnings: tuple[str, ...] = ()
    goal: PlanGoal | None = None
    plan: str = ""
    triggered_by: str = ""
    verification: Verification | None = None


class HistoryRun(Struct, frozen=True, kw_only=True):
    """One run as its journal tells it.

    - running: it holds the lock at this moment
    - ended: it came to its end; `exit_code` None when a later run closed it
    - abandoned: its process died, and no run has cleaned up after it yet

    `open_steps` were begun and have no known end; `open_holds` are still on their nodes.
    """

    run_id: str
    command: str
    state: RunState
    started_at: datetime
    ended_at: datetime | None
    exit_code: int | None
    steps: tuple[OutcomeStep, ...]
    holds: tuple[HoldOutcome, ...]
    open_steps: tuple[str, ...] = ()
    open_holds: tuple[str, ...] = ()
    closed_by: str | None = None


class HistoryListDocument(Struct, frozen=True, kw_only=True):
    """`kind: history_list`: the acting runs of one context, newest first."""

    schema: Literal["gpuctl/v1"] = "gpuctl/v1"
    kind: Literal["history_list"] = "history_list"
    generated_at: datetime
    context: str | None
    simulated: bool
    items: tuple[HistoryRun, ...]
    warnings: tuple[str, ...] = ()

"""The `plan` document: which moves, why, what they cost and what they should bring."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct

from gpuctl.model.snapshot import Source

PlanGoal = Literal["relief", "balance"]
Action = Literal["evict", "migrate"]


class DeviceRef(Struct, frozen=True, kw_only=True):
    """A GPU, or a MIG instance of it."""

    node: str
    gpu: int | None
    mig_id: int | None = None

    @property
    def address(self) -> str:
        """`NODE/GPU`, with `:ID` for a MIG instance."""
        index = "?" if self.gpu is None else self.gpu
        return f"{self.node}/{index}" + ("" if self.mig_id is None else f":{self.mig_id}")


class MoveCost(Struct, frozen=True, kw_only=True):
    """What a move costs: memory to copy (0 for a pod, which starts anew), and time until it is
    done, an estimate."""

    memory_mib: float
    seconds: float


class Expected(Struct, frozen=True, kw_only=True):
    """What a move should do to its two devices, in percent of utilization.

    `error_points`: how far the prediction may be off, since the load of a shared card is
    attributed; 0 where it is measured per process.
    """

    from_before_pct: float
    from_after_pct: float
    to_before_pct: float
    to_after_pct: float
    error_points: float


class PlannedMove(Struct, frozen=True, kw_only=True, rename={"source": "from", "target": "to"}):
    """One step. `from` and `to` are devices; where an evicted pod really lands is the scheduler's
    and the device plugin's choice, so `to.gpu` is a forecast and `to.node` what is steered.

    `wave`: moves of one wave may run at the same time, waves run one after another. `unknown` lists
    the rules that could not be checked because nothing told the facts.
    """

    id: str
    action: Action
    workload: str
    source: DeviceRef
    target: DeviceRef
    wave: int
    reason: str
    expected: Expected
    cost: MoveCost
    unknown: tuple[str, ...] = ()


class Skipped(Struct, frozen=True, kw_only=True):
    """A workload that was considered and left where it is, with the rule that says so."""

    workload: str
    rule: str
    reason: str


class ClusterState(Struct, frozen=True, kw_only=True):
    """The cluster before or after a plan. `hot` are addresses of devices over the mark."""

    hot: tuple[str, ...]
    spread_pct: float | None
    balance_ratio: float | None
    max_utilization_pct: float | None
    min_utilization_pct: float | None
    nodes: dict[str, float]


class FrontierPoint(Struct, frozen=True, kw_only=True):
    """The cluster after the first `moves` moves, so that a person can stop where it no longer pays.

    `p95_ms` is estimated for the pods that sat on the hottest device at the start, wherever they
    are by then, by a queueing model; None where the share of training and inference is unknown.
    """

    moves: int
    hot: int
    spread_pct: float
    max_utilization_pct: float
    hottest: str | None
    p95_ms: float | None


class Finding(Struct, frozen=True, kw_only=True):
    """Something that no move mends, with what could be done instead."""

    kind: str
    subject: str
    text: str
    advice: str


class PlanDocument(Struct, frozen=True, kw_only=True):
    """`kind: plan`. The same snapshot and policy give the same bytes.

    `digest` is the SHA-256 of the document with an empty digest; `policy_hash` that of the policy.
    Times derive from the snapshot's: `created_at` is when it was taken. `certificate` holds
    sentences about what no plan could do better.
    """

    schema: Literal["gpuctl/v1"] = "gpuctl/v1"
    kind: Literal["plan"] = "plan"
    created_at: datetime
    expires_at: datetime
    context: str | None
    cluster: str | None
    source: Source
    simulated: bool
    goal: PlanGoal
    target_spread_pct: float | None
    policy_hash: str
    moves: tuple[PlannedMove, ...]
    skipped: tuple[Skipped, ...]
    before: ClusterState
    after: ClusterState
    frontier: tuple[FrontierPoint, ...]
    certificate: tuple[str, ...]
    findings: tuple[Finding, ...]
    observed_versions: dict[str, str] = {}
    warnings: tuple[str, ...] = ()
    digest: str = ""

"""What the planner is asked: devices, what runs on them, what may move, and the rules.

Plain values that know no file format and no cluster. Loads are in points of one reference GPU
(100 = one whole reference GPU), utilization is load over `cap` in percent, memory is in MiB.
The search counts loads in thousandths of a point; finer differences are lost to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Goal(StrEnum):
    """What a plan is for."""

    RELIEF = "relief"  # cheapest way to bring the load above the hot mark to its minimum
    BALANCE = "balance"  # also the spread, as far as it pays for the moves


@dataclass(frozen=True, slots=True)
class Params:
    """Marks and limits of one planning run."""

    high: float = 90.0  # percent of cap; a device above it is hot
    low: float = 30.0  # percent of cap; a GPU below it is idle
    move_weight: float = 2.0  # points of spread that a move of cost 1 has to buy
    max_moves: int | None = None
    node_inflight: int = 2  # moves of one wave that may leave or enter a node
    group_inflight: int = 1  # moves of one wave within a group


@dataclass(frozen=True, slots=True)
class GpuSpec:
    """A physical GPU. Only GPUs with `balance` count in the spread."""

    id: str
    node: str
    model: str
    cap: float
    balance: bool = True


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """What an item runs on: a whole GPU (`profile` None) or one MIG instance of it."""

    id: str
    gpu: str
    node: str
    model: str
    cap: float
    mem_mib: float
    profile: str | None = None
    slots: int | None = None  # most items at a time, None = any number
    base_load: float = 0.0  # work that nobody may move
    base_mem_mib: float = 0.0
    cordoned: bool = False  # takes no newcomer


@dataclass(frozen=True, slots=True)
class ItemSpec:
    """A pod or VM, where it is now and where it may go. None = any."""

    id: str
    kind: str
    device: str
    load: float
    mem_mib: float
    cost: float
    movable: bool = True
    models: frozenset[str] | None = None
    profiles: frozenset[str | None] | None = None  # None inside the set = a whole GPU
    nodes: frozenset[str] | None = None
    leaves_node: bool = False  # never to another device of the node it is on
    group: str | None = None


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """Items that share a disruption budget and keep apart. None = no limit."""

    id: str
    max_moves: int | None = None
    max_per_node: int | None = None
    max_per_gpu: int | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """One planning problem; the order within the tuples means nothing."""

    devices: tuple[DeviceSpec, ...]
    gpus: tuple[GpuSpec, ...]
    items: tuple[ItemSpec, ...]
    groups: tuple[GroupSpec, ...] = ()
    params: Params = Params()


@dataclass(frozen=True, slots=True)
class Move:
    """One item to another device. Waves run one after another, from 0; None = not ordered."""

    item: str
    source: str
    target: str
    wave: int | None = None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a plan reaches. `objective` is 100 * excess + spread + move_weight * cost."""

    objective: float
    excess: float  # load points above the hot mark, over all devices
    spread: float  # highest minus lowest utilization of balanced GPUs, in points
    cost: float
    moves: int
    hot: tuple[str, ...]  # ids of devices above the hot mark
    max_pct: float
    min_pct: float
    hottest: str | None  # id of the balanced GPU at max_pct


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a plan breaks, by whom, and with which figures."""

    rule: str
    subject: str
    reason: str


@dataclass(frozen=True, slots=True)
class Certificate:
    """A bound that no valid plan beats, in figures and in words.

    For relief the value is the cost, for balance the objective. `proven` means the plan reaches it.
    """

    value: float
    reached: float
    proven: bool
    min_moves: int  # no plan with this little excess has fewer moves
    min_excess: float  # load points above the hot mark that every plan leaves
    statements: tuple[str, ...]

    @property
    def gap(self) -> float:
        """How far the plan may be from the best one, in units of `value`."""
        return max(0.0, self.reached - self.value)


@dataclass(frozen=True, slots=True)
class FrontierStep:
    """State of the cluster after the first `moves` moves of a plan."""

    moves: int
    cost: float
    excess: float
    spread: float
    max_pct: float
    min_pct: float
    hottest: str | None


@dataclass(frozen=True, slots=True)
class Solution:
    """Moves in the order to make them, what they reach, and what no plan could do better."""

    goal: Goal
    moves: tuple[Move, ...]
    before: Evaluation
    evaluation: Evaluation
    certificate: Certificate
    frontier: tuple[FrontierStep, ...]


class MalformedProblemError(ValueError):
    """The problem contradicts itself: an item on an unknown device, an id given twice."""

"""How fast things may be moved, by what was moved before: cool-down, hysteresis, no ping-pong."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from gpuctl.errors import shorten
from gpuctl.model.durations import format_duration
from gpuctl.model.gpu import Gpu, GpuState, MigInstance
from gpuctl.model.plan import DeviceRef
from gpuctl.model.policy import Policy
from gpuctl.model.snapshot import Snapshot
from gpuctl.model.workload import Workload
from gpuctl.policy.causes import Trigger, stays_hot
from gpuctl.policy.hotspots import gpu_heat, instance_heat
from gpuctl.policy.verdict import Verdict

HOUR = timedelta(hours=1)
# A workload that is moved again and again is itself the load: with each of its moves within this
# time its cool-down doubles, up to so many times the configured one.
BACKOFF_MEMORY = timedelta(hours=24)
MOST_COOLDOWNS = 8
# For so many cool-downs a workload must not return to the node that it was moved away from.
RETURN_COOLDOWNS = 4

Role = Literal["gave", "took"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastMove:
    """One move that was begun, as the journal tells it.

    `heir` is the id under which the workload runs since; None where nobody saw it start. `owner`:
    `NAMESPACE/KIND/NAME` of what replaces a pod, "" where there is none. `target` is where it
    landed, else where it was sent. `changed` False: it is known to have stayed where it was.
    """

    at: datetime
    workload: str
    heir: str | None
    owner: str = ""
    source: DeviceRef | None = None
    target: DeviceRef | None = None
    changed: bool = True


@dataclass(frozen=True, slots=True)
class HourBudget:
    """Moves of the last hour against the limit; `next_at` is when one more will be free."""

    verdict: Verdict
    made: int
    left: int
    next_at: datetime | None


@dataclass(frozen=True, slots=True)
class CoolingCard:
    """A card that a move left or reached lately. `gave` may give more, and takes nothing; `took`
    gives nothing and takes nothing."""

    address: str
    role: Role
    until: datetime
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Cooling:
    """Who rests, and until when. Keys are ids of workloads and addresses of devices.

    `homes`: workload -> node -> why it must not go back there yet.
    """

    workloads: Mapping[str, Verdict]
    workloads_until: Mapping[str, datetime]
    cards: Mapping[str, CoolingCard]
    homes: Mapping[str, Mapping[str, Verdict]]

    @property
    def no_sources(self) -> frozenset[str]:
        """Addresses of devices that nothing may leave."""
        return frozenset(one.address for one in self.cards.values() if one.role == "took")

    @property
    def no_targets(self) -> frozenset[str]:
        """Addresses of devices that nothing may be moved to."""
        return frozenset(self.cards)

    @property
    def next_at(self) -> datetime | None:
        """When the first of them is free again."""
        ends = [*self.workloads_until.values(), *(card.until for card in self.cards.values())]
        return min(ends, default=None)

    def guard(self, workload: Workload, source: str, target: str) -> tuple[Verdict, ...]:
        """Every rule of pace about one move between two addresses, in order."""
        at, to = self.cards.get(source), self.cards.get(target)
        home = self.homes.get(workload.id, {}).get(_node_of(target))
        free = Verdict(True, "cooldown", "it was not moved lately")
        return (
            self.workloads.get(workload.id, free),
            _may_give(source) if at is None or at.role == "gave" else at.verdict,
            _may_take(target) if to is None else to.verdict,
            Verdict(True, "ping-pong", "it has not come from there") if home is None else home,
        )


def _may_give(address: str) -> Verdict:
    return Verdict(True, "card-cooldown", f"{address} took nothing lately")


def _may_take(address: str) -> Verdict:
    return Verdict(True, "card-cooldown", f"no move touched {address} lately")


def _node_of(address: str) -> str:
    return address.rpartition("/")[0]


def _ago(at: datetime, now: datetime) -> str:
    """How long ago something was; a record from a clock that is ahead is from just now."""
    return f"{format_duration(max(timedelta(), now - at))} ago"


def memory(policy: Policy) -> timedelta:
    """How far back a move can still matter to any rule here."""
    return max(HOUR, BACKOFF_MEMORY, policy.limits.cooldown * max(MOST_COOLDOWNS, RETURN_COOLDOWNS))


# -- moves per hour --------------------------------------------------------------------------------


def hour_budget(past: Iterable[PastMove], policy: Policy, now: datetime) -> HourBudget:
    """How many of the moves that an hour may have are left. A move that failed was one, too."""
    limit = policy.limits.moves_per_hour
    begun = sorted(move.at for move in past if now - HOUR < move.at)
    left = max(0, limit - len(begun))
    # The one whose end of the hour brings the count under the limit.
    next_at = None if left else begun[len(begun) - limit] + HOUR
    reason = f"{len(begun)} of {limit} moves of the last hour are used"
    if next_at is not None:
        reason += f", the next one is free at {next_at:%H:%M:%SZ}"
    return HourBudget(Verdict(left > 0, "moves-per-hour", reason), len(begun), left, next_at)


# -- cool-down -------------------------------------------------------------------------------------


def cooling(
    past: Sequence[PastMove], workloads: Iterable[Workload], policy: Policy, now: datetime
) -> Cooling:
    """Which workloads and cards rest at `now`, and who must not go back where.

    A move counts for the workload that runs since; where nobody saw which one that is, for every
    pod of its owner. Cards whose index is not known don't rest: their workloads do.
    """
    until: dict[str, datetime] = {}
    resting: dict[str, Verdict] = {}
    homes: dict[str, dict[str, Verdict]] = {}
    moves = sorted(past, key=lambda move: move.at)
    for workload in workloads:
        made = moves_of(workload, moves)
        if not made:
            continue
        end, verdict = _workload_rest(made, policy, now)
        if verdict.is_refusal:
            resting[workload.id], until[workload.id] = verdict, end
        if left := _left_nodes(made, policy, now):
            homes[workload.id] = left
    return Cooling(resting, until, _resting_cards(moves, policy, now), homes)


def moves_of(workload: Workload, past: Iterable[PastMove]) -> tuple[PastMove, ...]:
    """The moves that brought a workload or its predecessors here, the oldest first."""
    owner = owner_key(workload.namespace, workload.owner or "")
    ids = {workload.id}
    found: list[PastMove] = []
    for move in sorted(past, key=lambda move: move.at, reverse=True):
        is_heir = move.heir in ids if move.heir is not None else bool(owner) and move.owner == owner
        if is_heir or move.workload in ids:
            ids.add(move.workload)
            found.append(move)
    return tuple(reversed(found))


def owner_key(namespace: str, owner: str) -> str:
    """What names an owner in the whole cluster; "" for what has none."""
    return f"{namespace}/{owner}" if namespace and owner else ""


def _workload_rest(
    made: Sequence[PastMove], policy: Policy, now: datetime
) -> tuple[datetime, Verdict]:
    """When the rest after the last move ends, and whether it has."""
    last, word = made[-1].at, "moved" if made[-1].changed else "a move of it was tried"
    recent = sum(now - BACKOFF_MEMORY < move.at for move in made)
    times = min(MOST_COOLDOWNS, 2 ** max(0, recent - 1))
    limit = policy.limits.cooldown * times
    again = f", after {recent} moves in {format_duration(BACKOFF_MEMORY)}" if times > 1 else ""
    reason = f"{word} {_ago(last, now)}, it rests for {format_duration(limit)}{again}"
    return last + limit, Verdict(now >= last + limit, "cooldown", reason)


def _left_nodes(made: Sequence[PastMove], policy: Policy, now: datetime) -> dict[str, Verdict]:
    """The nodes that a workload left within the memory of moves, latest departure counting."""
    memory = policy.limits.cooldown * RETURN_COOLDOWNS
    return {
        move.source.node: Verdict(
            False,
            "ping-pong",
            f"it was moved away from {move.source.node} {_ago(move.at, now)} and must not return "
            f"within {format_duration(memory)}",
        )
        for move in made
        if move.changed and move.source is not None and now < move.at + memory
    }


def _resting_cards(
    moves: Iterable[PastMove], policy: Policy, now: datetime
) -> dict[str, CoolingCard]:
    limit = policy.limits.cooldown
    cards: dict[str, CoolingCard] = {}
    for move in moves:
        if not move.changed or now >= move.at + limit:
            continue
        touched: tuple[tuple[DeviceRef | None, Role], ...] = (
            (move.source, "gave"),
            (move.target, "took"),
        )
        for device, role in touched:
            if device is None or device.gpu is None:
                continue
            address = device.address
            known = cards.get(address)
            # What took something rests on both sides, whatever it gave since.
            kept: Role = "took" if known is not None and known.role == "took" else role
            word = "left" if role == "gave" else "was moved to"
            verdict = Verdict(
                False,
                "card-cooldown",
                f"{move.workload} {word} {address} {_ago(move.at, now)}, the card rests for "
                f"{format_duration(limit)}",
            )
            cards[address] = CoolingCard(address, kept, move.at + limit, verdict)
    return cards


# -- ping-pong -------------------------------------------------------------------------------------


def ping_pong_guard(
    workload: Workload, target_node: str, past: Iterable[PastMove], policy: Policy, now: datetime
) -> Verdict:
    """Whether a workload may go to a node: not to one that it was moved away from lately."""
    left = _left_nodes(moves_of(workload, past), policy, now)
    return left.get(target_node) or Verdict(True, "ping-pong", "it has not come from there")


# -- hysteresis ------------------------------------------------------------------------------------


def still_hot(snapshot: Snapshot, policy: Policy, was_hot: Collection[str]) -> tuple[str, ...]:
    """Addresses of devices that are hot at this moment, those that have not cooled down included.

    What was hot at the last look stays so until every sample of the window is under `clear_below`;
    a card that fell silent while it was hot stays so, too. Hottest first, then by address.
    """
    found: list[tuple[float, str]] = []
    for gpu in snapshot.gpus:
        for instance in gpu.mig or (None,):
            address = gpu.address + ("" if instance is None else f":{instance.id}")
            heat = (
                gpu_heat(gpu, policy) if instance is None else instance_heat(gpu, instance, policy)
            )
            if heat.hot or (address in was_hot and _lingers(gpu, instance, policy)):
                found.append((-((instance or gpu).utilization_pct or 0.0), address))
    return tuple(address for _, address in sorted(found))


def _lingers(gpu: Gpu, instance: MigInstance | None, policy: Policy) -> bool:
    """Whether a device that was hot has not cooled down, by its window or its present reading."""
    device: Gpu | MigInstance = instance or gpu
    profile = None if instance is None else instance.profile
    present = device.utilization_pct
    if present is None or gpu.state in (GpuState.LOST, GpuState.STALE):
        return True
    if present >= min(policy.clear_below, policy.hot_mark(profile)):
        return True
    return stays_hot(device.window, policy, was_hot=True, profile=profile) is True


def hysteresis_guard(found: Trigger, hot: Collection[str], policy: Policy) -> Verdict:
    """Whether there is still reason to act, given what `still_hot` found.

    It fires on, although nothing is over `hot_above` any more, while a card that was hot has not
    come under `clear_below`.
    """
    lingering = sorted(set(hot) - set(found.hot))
    if found.fires is not False or not lingering:
        return Verdict(found.fires, "hot", found.reason)
    if not found.idle:
        return Verdict(False, "hot", "cards have not cooled down, and no GPU is idle to help")
    mark = f"{policy.clear_below:g} %"
    return Verdict(True, "hysteresis", f"was hot and is not under {mark} yet: {shorten(lingering)}")

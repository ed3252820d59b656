"""Fragmentation of a node: how much of its free GPU the coming workloads could not use.

After Weng et al., "Beware of Fragmentation" (USENIX ATC 2023). The workloads to come are taken
to be like the current ones: a mix of demands with shares. For one demand, a node's free GPU is a
fragment where the demand can't use it: all of it when the node can't host the demand at all, else
what is left on cards too full for it. The mean over the mix is the node's fragmentation; a
placement that raises it least leaves most to those that come later.

Amounts of GPU are whole thousandths of a card (`milli`), so that equal states are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

WHOLE = 1000


class Demand(NamedTuple):
    """What one workload takes: `gpus` cards, `milli` of each (WHOLE for an exclusive one).

    CPU in thousandths of a core and memory in MiB are of the node; 0 where nobody knows.
    `models`: the GPU models that will do, None for any.
    """

    gpus: int
    milli: int
    cpu_milli: int = 0
    memory_mib: int = 0
    models: frozenset[str] | None = None


class Room(NamedTuple):
    """What a node has left. `free`: milli of each card; CPU and memory None where unknown."""

    free: tuple[int, ...]
    model: str | None = None
    cpu_milli: int | None = None
    memory_mib: int | None = None


class Placing(NamedTuple):
    """Cards (positions in `Room.free`) for a demand, and by how much fragmentation grows."""

    growth: float
    cards: tuple[int, ...]


@dataclass(frozen=True)
class Mix:
    """The demands that are to be expected, each with its share; the shares add up to 1."""

    shares: tuple[tuple[Demand, float], ...]

    @classmethod
    def of(cls, counts: Mapping[Demand, float]) -> Mix:
        """The mix of these demands. Those without GPUs say nothing about GPUs and are left out."""
        wanted = {demand: n for demand, n in counts.items() if demand.gpus > 0 and n > 0}
        total = sum(wanted.values())
        # Sums of floats depend on the order: it must not come from the input.
        ordered = sorted(wanted.items(), key=lambda item: _order(item[0]))
        return cls(tuple((demand, n / total) for demand, n in ordered))

    @cached_property
    def _groups(self) -> tuple[_Group, ...]:
        """Demands that look alike to a node's cards, so that their cards are counted once."""

        def cards(entry: tuple[Demand, float]) -> tuple[int, int, tuple[str, ...]]:
            demand = entry[0]
            return demand.milli, demand.gpus, tuple(sorted(demand.models or ()))

        grouped = groupby(sorted(self.shares, key=cards), key=cards)
        return tuple(_Group.of(list(members)) for _, members in grouped)


@dataclass(frozen=True, slots=True)
class _Group:
    demand: Demand
    members: tuple[tuple[Demand, float], ...]
    share: float
    most_cpu_milli: int
    most_memory_mib: int

    @classmethod
    def of(cls, members: Sequence[tuple[Demand, float]]) -> _Group:
        return cls(
            members[0][0],
            tuple(members),
            sum(share for _, share in members),
            max(demand.cpu_milli for demand, _ in members),
            max(demand.memory_mib for demand, _ in members),
        )

    def hosted_share(self, room: Room) -> float:
        """The share of this group's demands for which the node has CPU and memory left."""
        cpu = self.most_cpu_milli if room.cpu_milli is None else room.cpu_milli
        memory = self.most_memory_mib if room.memory_mib is None else room.memory_mib
        if cpu >= self.most_cpu_milli and memory >= self.most_memory_mib:
            return self.share
        return sum(
            share
            for demand, share in self.members
            if demand.cpu_milli <= cpu and demand.memory_mib <= memory
        )


def fragmentation(room: Room, mix: Mix) -> float:
    """Cards' worth of free GPU that the mix is expected not to be able to use. 0 for no mix."""
    total = sum(room.free)
    if not total:
        return 0.0
    expected = 0.0
    for group in mix._groups:
        demand = group.demand
        usable = [milli for milli in room.free if milli >= demand.milli]
        if len(usable) < demand.gpus or not _may_use(demand, room.model):
            expected += group.share * total
            continue
        hosted = group.hosted_share(room)
        expected += hosted * (total - sum(usable)) + (group.share - hosted) * total
    return expected / WHOLE


def placement(
    room: Room, demand: Demand, mix: Mix, allowed: Iterable[int] | None = None
) -> Placing | None:
    """The cards whose use makes fragmentation grow least; None when the node can't host it.

    `allowed` limits the choice. Among equals the fullest card is taken, then the first.
    """
    if not _hosts(room, demand):
        return None
    able = [
        card
        for card in (range(len(room.free)) if allowed is None else sorted(allowed))
        if room.free[card] >= demand.milli
    ]
    if len(able) < demand.gpus:
        return None
    before = fragmentation(room, mix)
    if not demand.gpus:
        return Placing(_growth(room, demand, (), mix, before), ())
    if demand.gpus > 1 or demand.milli == WHOLE:
        # Whole cards are alike; for several parts the fullest that still fit waste least.
        cards = tuple(sorted(able, key=lambda card: (room.free[card], card))[: demand.gpus])
        return Placing(_growth(room, demand, cards, mix, before), cards)
    # Cards with the same room give the same result: try one of each.
    first = {room.free[card]: card for card in reversed(able)}
    growths = (
        (_growth(room, demand, (card,), mix, before), milli, card) for milli, card in first.items()
    )
    growth, _, card = min(growths)
    return Placing(growth, (card,))


def taken(room: Room, demand: Demand, cards: Iterable[int]) -> Room:
    """The node after `demand` has taken these cards."""
    free = list(room.free)
    for card in cards:
        free[card] -= demand.milli
    return Room(
        tuple(free),
        room.model,
        None if room.cpu_milli is None else room.cpu_milli - demand.cpu_milli,
        None if room.memory_mib is None else room.memory_mib - demand.memory_mib,
    )


def _growth(room: Room, demand: Demand, cards: tuple[int, ...], mix: Mix, before: float) -> float:
    # Rounded, so that noise of the last digits never decides between equals.
    return round(fragmentation(taken(room, demand, cards), mix) - before, 9)


def _hosts(room: Room, demand: Demand) -> bool:
    return (
        _may_use(demand, room.model)
        and (room.cpu_milli is None or room.cpu_milli >= demand.cpu_milli)
        and (room.memory_mib is None or room.memory_mib >= demand.memory_mib)
    )


def _may_use(demand: Demand, model: str | None) -> bool:
    return demand.models is None or model in demand.models


def _order(demand: Demand) -> tuple[int, int, int, int, tuple[str, ...]]:
    models = tuple(sorted(demand.models or ()))
    return demand.gpus, demand.milli, demand.cpu_milli, demand.memory_mib, models

"""What a set of items can take off a device at which cost: the options that are worth having."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gpuctl.policy.planning.index import Index

# More options than this are merged in pairs: cost of the cheaper, load of the larger.
_MOST_OPTIONS = 48


class Option(NamedTuple):
    """Take these items away: what it costs, how much load goes. Both may be flattering."""

    cost: int
    load: int
    items: tuple[int, ...]


def options(index: Index, items: Iterable[int]) -> list[Option]:
    """Options by rising cost and load, from doing nothing to taking all; none is dominated.

    With very many the figures of some are better than their items deliver, so that bounds
    drawn from them stay true.
    """
    found = [Option(0, 0, ())]
    for item in items:
        cost, load = index.cost[item], index.load[item]
        if load <= 0:
            continue
        more = [Option(base.cost + cost, base.load + load, (*base.items, item)) for base in found]
        found = _undominated(found + more)
        if len(found) > _MOST_OPTIONS:
            found = _thinned(found)
    return found


def _undominated(found: list[Option]) -> list[Option]:
    found.sort(key=lambda option: (option.cost, -option.load, option.items))
    kept: list[Option] = []
    for option in found:
        if not kept or option.load > kept[-1].load:
            kept.append(option)
    return kept


def _thinned(found: list[Option]) -> list[Option]:
    """The first stays as it is: doing nothing is always exact."""
    kept = [found[0]]
    kept.extend(
        Option(found[number].cost, *found[number + 1][1:]) for number in range(1, len(found) - 1, 2)
    )
    if len(found) % 2 == 0:
        kept.append(found[-1])
    return kept


class Residents:
    """Items of each device that have somewhere else to go."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.on: dict[int, list[int]] = {}
        places: dict[bytes, int] = {}
        for item in index.movable:
            allowed = index.allowed(item)
            if allowed not in places:
                places[allowed] = sum(allowed)
            group = index.group[item]
            home = index.home[item]
            if places[allowed] > allowed[home] and (group < 0 or index.group_moves[group] > 0):
                self.on.setdefault(home, []).append(item)

    def of_gpu(self, gpu: int) -> list[int]:
        """Those of all devices of a GPU."""
        return [item for device in self.index.gpu_devices[gpu] for item in self.on.get(device, ())]

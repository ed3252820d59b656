"""What no plan can beat, and why: bounds that hold whatever the order of moves.

Each follows from single devices: what may not leave them, how few items take off enough, how many
have to come. Rules that only narrow the choice (memory, slots, budgets) are left out, so the
bounds hold with them as well.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from math import inf
from typing import NamedTuple

from gpuctl.policy.planning.index import MILLI, Index
from gpuctl.policy.planning.objective import EXCESS_WEIGHT
from gpuctl.policy.planning.shed import Residents, options
from gpuctl.policy.planning.state import State


def least_excess(index: Index, start: State, residents: Residents) -> int:
    """Load above the hot mark, in thousandths, that stays under every plan."""
    stuck = 0
    for device, limit in enumerate(index.limit):
        if start.load[device] > limit:
            leaving = sum(index.load[item] for item in residents.on.get(device, ()))
            stuck += max(0, start.load[device] - leaving - limit)
    roomiest: dict[bytes, int] = {}
    for items in residents.on.values():
        for item in items:
            if index.load[item] > index.limit[index.home[item]]:
                stuck += max(0, index.load[item] - _roomiest(index, item, roomiest))
    return max(stuck, sum(start.load) - sum(index.limit))


def _roomiest(index: Index, item: int, known: dict[bytes, int]) -> int:
    """The highest mark of any device that the item may be on."""
    allowed = index.allowed(item)
    if allowed not in known:
        known[allowed] = max(
            (limit for limit, yes in zip(index.limit, allowed, strict=True) if yes), default=0
        )
    return max(known[allowed], index.limit[index.home[item]])


class ReliefBound(NamedTuple):
    """Fewest moves and least cost (thousandths) of any plan that leaves at most so much excess."""

    moves: int
    cost: int


def relief_bound(index: Index, start: State, residents: Residents, excess: int) -> ReliefBound:
    """Bound over all plans that leave at most `excess` thousandths above the hot mark."""
    over = {
        device: load - index.limit[device]
        for device, load in enumerate(start.load)
        if load > index.limit[device]
    }
    if excess <= 0:
        return _each_device(index, residents, over)
    return _together(index, residents, over, start.excess - excess)


def _each_device(index: Index, residents: Residents, over: dict[int, int]) -> ReliefBound:
    moves = cost = 0
    for device, excess in over.items():
        items = residents.on.get(device, [])
        rest = excess
        for load in sorted((index.load[item] for item in items), reverse=True):
            if rest <= 0:
                break
            rest -= load
            moves += 1
        ways = (way.cost for way in options(index, items) if way.load >= excess)
        cost += next(ways, 0)
    return ReliefBound(moves, cost)


def _together(index: Index, residents: Residents, over: dict[int, int], needed: int) -> ReliefBound:
    """Where some excess stays nobody knows on which device: take the best offers of all."""
    steps: list[int] = []
    slices: list[tuple[float, int]] = []
    for device, excess in over.items():
        items = residents.on.get(device, [])
        rest = excess
        for load in sorted((index.load[item] for item in items), reverse=True):
            steps.append(min(load, rest))
            rest -= steps[-1]
        rest = excess
        priced = ((index.cost[item] / max(1, index.load[item]), item) for item in items)
        for price, item in sorted(priced):
            slices.append((price, min(index.load[item], rest)))
            rest -= slices[-1][1]
    moves, rest = 0, needed
    for step in sorted(steps, reverse=True):
        if rest <= 0:
            break
        rest -= step
        moves += 1
    cost, rest = 0.0, needed
    for price, load in sorted(slices):
        if rest <= 0:
            break
        cost += price * min(load, rest)
        rest -= load
    return ReliefBound(moves, int(cost))


def balance_bound(index: Index, start: State, residents: Residents) -> float:
    """A value of the objective below which no plan gets.

    Any plan ends with some highest level `hi` and lowest level `lo`. GPUs above `hi` have to shed,
    which costs what `_shedding` says, GPUs below `lo` have to be filled, which costs what
    `_filling` says, and one move can serve both: the cost is at least the larger. The bound is the
    smallest hi - lo + that cost over all pairs; only the steps of both functions matter.
    """
    if not index.balanced:
        return 0.0
    shed_at, shed_cost = _shedding(index, start, residents)
    fill_at, fill_cost = _filling(index, start, residents)
    # best_of_rest[n]: smallest fill cost minus level from step n on.
    best_of_rest = [inf] * (len(fill_at) + 1)
    for number in range(len(fill_at) - 1, -1, -1):
        value = fill_cost[number] - fill_at[number]
        best_of_rest[number] = min(best_of_rest[number + 1], value)
    bound = inf
    for high, cost in zip(shed_at, shed_cost, strict=True):
        number = bisect_right(fill_cost, cost)
        value = high + best_of_rest[number]
        if number:
            value = min(value, high - fill_at[number - 1] + cost)
        bound = min(bound, value)
    # Where items may leave or enter the balanced GPUs the two means can cross.
    return max(0.0, bound)


def _shedding(index: Index, start: State, residents: Residents) -> tuple[list[float], list[float]]:
    """Levels from high to low, and what any plan that ends at or below each has to pay.

    Paid are moves away from the GPUs above the level, and the excess that stays on their devices.
    """
    events: list[tuple[float, float]] = []
    floor = 0.0
    total = 0.0
    for gpu in range(len(index.gpus)):
        levels, values = _shed_steps(index, start, residents, gpu)
        total += values[0]
        if not index.gpus[gpu].balance:
            continue
        floor = max(floor, levels[-1])
        events.extend(
            (levels[number - 1], values[number] - values[number - 1])
            for number in range(1, len(levels))
            if values[number] > values[number - 1]
        )
    floor = max(floor, _mean_level(index, start, residents)[0])
    events.sort(reverse=True)
    at, cost = [], []
    for level, more in events:
        if level <= floor:
            break
        at.append(level)
        cost.append(total)
        total += more
    return [*at, floor], [*cost, total]


def _shed_steps(
    index: Index, start: State, residents: Residents, gpu: int
) -> tuple[list[float], list[float]]:
    """Levels a GPU can fall to, and the least it takes to be at each or below it."""
    weight, pct = index.params.move_weight / MILLI, index.gpu_pct[gpu]
    devices = index.gpu_devices[gpu]
    ways = options(index, residents.of_gpu(gpu))
    levels = [(start.gpu_load[gpu] - way.load) * pct for way in ways]
    if len(devices) == 1:
        over = start.load[devices[0]] - index.limit[devices[0]]
        values = [
            weight * way.cost + EXCESS_WEIGHT / MILLI * max(0, over - way.load) for way in ways
        ]
    else:
        alone = sum(_device_price(index, start, residents, device) for device in devices)
        values = [max(alone, weight * way.cost) for way in ways]
    for number in range(len(values) - 2, -1, -1):
        values[number] = min(values[number], values[number + 1])
    return levels, values


def _device_price(index: Index, start: State, residents: Residents, device: int) -> float:
    over = start.load[device] - index.limit[device]
    if over <= 0:
        return 0.0
    weight = index.params.move_weight / MILLI
    return min(
        weight * way.cost + EXCESS_WEIGHT / MILLI * max(0, over - way.load)
        for way in options(index, residents.on.get(device, ()))
    )


def _filling(index: Index, start: State, residents: Residents) -> tuple[list[float], list[float]]:
    """Levels from low to high, and what any plan that ends at or above each has to pay."""
    items = [item for own in residents.on.values() for item in own]
    largest = max((index.load[item] for item in items), default=0)
    cheapest = min((index.cost[item] for item in items), default=0)
    price = index.params.move_weight * cheapest / MILLI
    ceiling = _mean_level(index, start, residents)[1]
    for gpu in index.balanced:
        level = start.gpu_load[gpu] * index.gpu_pct[gpu]
        closed = all(index.devices[device].cordoned for device in index.gpu_devices[gpu])
        if closed or largest == 0:
            ceiling = min(ceiling, level)
    steps: list[float] = []
    for gpu in index.balanced:
        level = start.gpu_load[gpu] * index.gpu_pct[gpu]
        reach = largest * index.gpu_pct[gpu]
        while level < ceiling:
            steps.append(level)
            level += reach
    steps.sort()
    # Up to the first step nothing has to come; past the n-th, n arrivals are needed.
    at = [*steps, ceiling]
    return at, [price * number for number in range(len(at))]


def _mean_level(index: Index, start: State, residents: Residents) -> tuple[float, float]:
    """The highest level is at least the first, the lowest at most the second."""
    cap = sum(index.gpus[gpu].cap * MILLI for gpu in index.balanced)
    inside = sum(start.gpu_load[gpu] for gpu in index.balanced)
    outside = set(range(len(index.gpus))) - set(index.balanced)
    may_enter = _leaving(index, residents, outside)
    may_leave = _leaving(index, residents, index.balanced) if outside else 0
    return 100 * (inside - may_leave) / cap, 100 * (inside + may_enter) / cap


def _leaving(index: Index, residents: Residents, gpus: Iterable[int]) -> int:
    return sum(index.load[item] for gpu in gpus for item in residents.of_gpu(gpu))

"""Finds a plan: a first one by construction, then walks of annealing, then polish."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpuctl.policy.planning.anneal import Annealer, Cooling
from gpuctl.policy.planning.bounds import least_excess, relief_bound
from gpuctl.policy.planning.index import MILLI, Index
from gpuctl.policy.planning.objective import Key, Objective
from gpuctl.policy.planning.polish import polish
from gpuctl.policy.planning.problem import Goal
from gpuctl.policy.planning.relieve import relieve
from gpuctl.policy.planning.shed import Residents
from gpuctl.policy.planning.state import State

# Up to this many GPUs the walk goes everywhere; in larger clusters only where levels are extreme,
# since a spread of 100 points pays for few moves, however many GPUs there are.
_EVERYWHERE, _TOPS, _LOWS, _STILL_HOT = 300, 70, 110, 60
# Beyond so many GPUs, at most so many walks of so much work: the first plan takes its time there.
_LARGE = ((3000, 4, 60_000), (_EVERYWHERE, 5, 70_000))
# Walks for relief alone that open a search for balance where something is hot.
_SCOUTS = 3
# Where so many walks find nothing better than to do nothing, more won't. Nor can they where relief
# has reached its bounds: by then the spread of the plan is good as well.
_WALKS_IN_VAIN = 2
# Temperatures are in costs of a usual move, but not less than this where moves cost nothing.
_LEAST_UNIT = 0.1
_PRIME = 2_147_483_629


class _Walk(NamedTuple):
    """From where, how hot at first and at last (in costs of a usual move), how soft."""

    from_best: bool
    start: float
    end: float
    width: int


# Tuned on the families of tests/policy/planning. A mix does better than the best single one: few
# GPUs want a hot walk, many a cool one, scarce memory a cool and soft one.
_FEW_GPUS = 12
_FEW = (
    _Walk(False, 1.5, 0.3, 2),
    _Walk(False, 0.4, 0.2, 6),
    _Walk(False, 2.0, 0.2, 2),
    _Walk(True, 0.5, 0.1, 4),
    _Walk(False, 0.4, 0.15, 10),
)
_MANY = (
    _Walk(False, 0.25, 0.1, 8),
    _Walk(False, 0.35, 0.1, 5),
    _Walk(True, 0.3, 0.1, 8),
    _Walk(False, 0.5, 0.2, 2),
    _Walk(False, 0.25, 0.1, 10),
    _Walk(True, 0.25, 0.1, 6),
    _Walk(False, 0.5, 0.1, 4),
    _Walk(True, 0.4, 0.1, 4),
)
# While some excess is left, walks from afar start so much hotter: a device above the mark costs
# many times what a move costs, and may take a chain of moves to cure.
_HOTTER = (10, 80, 20)


@dataclass(frozen=True, slots=True)
class Effort:
    """How many walks of how much work; bounded by count, never by the clock."""

    walks: int = 8
    work: int = 80_000

    def within(self, index: Index) -> Effort:
        """Less for a large cluster."""
        for gpus, walks, work in _LARGE:
            if len(index.gpus) > gpus:
                return Effort(min(self.walks, walks), min(self.work, work))
        return self


def search(index: Index, goal: Goal, residents: Residents, effort: Effort) -> dict[int, int]:
    """Target device of each item to move, in the best plan found."""
    state = State(index)
    floor = least_excess(index, state, residents)
    if goal is Goal.RELIEF and state.excess <= floor:
        return {}
    bound = relief_bound(index, state, residents, floor)
    course = _Course(effort.within(index), _content(state), (floor, bound.cost, bound.moves))
    relieve(state, residents)
    first = state.targets()
    gpus = _worth_a_walk(state)
    items = _who_may_walk(state, residents, gpus)
    # In a large cluster the walk can't undo what the first plan did elsewhere.
    starts = [{}, first] if len(gpus) == len(index.gpus) else [first]
    state.watch(gpus)
    annealer = Annealer(state, Objective(index, goal), gpus, items)
    walks = course.effort.walks
    if goal is Goal.BALANCE and first:
        # Most moves are for relief then, and which of the cheapest are best for the spread is much
        # of what there is to find.
        scout = Annealer(state, Objective(index, Goal.RELIEF), gpus, items)
        walks -= course.run(scout, [first], _SCOUTS)
        state.go_to(scout.best)
        annealer.consider()
        starts.append(scout.best)
    course.run(annealer, starts, max(1, walks))
    state.go_to(annealer.best)
    state.watch(index.balanced)
    polish(state, annealer.objective, annealer.devices)
    return state.targets()


@dataclass(frozen=True, slots=True)
class _Course:
    """How to spend the effort on walks."""

    effort: Effort
    seed: int
    unbeatable: Key  # excess, cost and moves that no relief gets below

    def run(self, annealer: Annealer, starts: Sequence[Mapping[int, int]], walks: int) -> int:
        """So many walks or fewer, each from one of the starts or the best plan; how many."""
        for number in range(walks):
            if number >= _WALKS_IN_VAIN and self._in_vain(annealer):
                return number
            walk = _walk(number, len(annealer.gpus), annealer)
            start = annealer.best if walk.from_best else starts[number % len(starts)]
            annealer.state.go_to(start)
            annealer.run(_cooling(annealer.objective, self.effort, walk), self.seed + number)
        return walks

    def _in_vain(self, annealer: Annealer) -> bool:
        return not annealer.best or annealer.best_key[:3] == self.unbeatable


def _who_may_walk(state: State, residents: Residents, gpus: Sequence[int]) -> list[int]:
    """Items that live on these GPUs, and those that the first plan sends there."""
    index, within = state.index, set(gpus)
    at_home = {
        item
        for gpu in gpus
        for device in index.gpu_devices[gpu]
        for item in residents.on.get(device, ())
    }
    return sorted(
        at_home | {item for item in state.moved if index.dev_gpu[state.at[item]] in within}
    )


def _walk(number: int, gpus: int, annealer: Annealer) -> _Walk:
    if annealer.best_excess <= 0:
        mix = _FEW if gpus <= _FEW_GPUS else _MANY
        return mix[number % len(mix)]
    if number % 2:
        return _Walk(True, 0.5, 0.1, 4)
    return _Walk(False, 0.5 * _HOTTER[number // 2 % len(_HOTTER)], 0.1, 6)


def _cooling(objective: Objective, effort: Effort, walk: _Walk) -> Cooling:
    unit = max(objective.cost_weight * _usual_cost(objective.index), _LEAST_UNIT)
    return Cooling(effort.work, walk.start * unit, walk.end * unit, walk.width)


def _usual_cost(index: Index) -> int:
    costs = sorted(index.cost[item] for item in index.movable)
    return costs[len(costs) // 2] if costs else MILLI


def _content(state: State) -> int:
    """A number that follows from the figures of the problem alone."""
    value = 1
    for load in (*state.load, *state.index.load):
        value = (value * 31 + load) % _PRIME
    return value


def _worth_a_walk(state: State) -> list[int]:
    """GPUs at either end of the levels, and those with a hot device."""
    index = state.index
    if len(index.gpus) <= _EVERYWHERE:
        return list(range(len(index.gpus)))
    ranked = sorted(index.balanced, key=lambda gpu: (state.gpu_load[gpu] * index.gpu_pct[gpu], gpu))
    hot = [
        index.dev_gpu[device]
        for device, load in enumerate(state.load)
        if load > index.limit[device]
    ]
    return sorted({*ranked[:_LOWS], *ranked[-_TOPS:], *hot[:_STILL_HOT]})

"""Finds a plan: a first one by construction, then walks of annealing, then polish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuctl.policy.planning.anneal import Annealer, Cooling
from gpuctl.policy.planning.index import Index
from gpuctl.policy.planning.objective import Objective
from gpuctl.policy.planning.polish import polish
from gpuctl.policy.planning.problem import Goal
from gpuctl.policy.planning.relieve import relieve
from gpuctl.policy.planning.shed import Residents
from gpuctl.policy.planning.state import State

# Up to this many GPUs the walk goes everywhere; in larger clusters only where levels are extreme,
# since a spread of 100 points pays for few moves, however many GPUs there are.
_EVERYWHERE, _TOPS, _LOWS, _STILL_HOT = 300, 70, 110, 60
_PRIME = 2_147_483_629


@dataclass(frozen=True, slots=True)
class Effort:
    """How many walks of how many steps; bounded by count, never by the clock."""

    walks: int = 14
    steps: int = 40_000


def search(index: Index, goal: Goal, residents: Residents, effort: Effort) -> dict[int, int]:
    """Target device of each item to move, in the best plan found."""
    state, objective = State(index), Objective(index, goal)
    seed = _content(state)
    relieve(state, residents)
    first = state.targets()
    gpus = _worth_a_walk(state)
    within = set(gpus)
    items = sorted(
        item
        for gpu in gpus
        for device in index.gpu_devices[gpu]
        for item in residents.on.get(device, ())
    )
    items = sorted({*items, *(i for i in state.moved if index.dev_gpu[state.at[i]] in within)})
    annealer = Annealer(state, objective, gpus, items)
    for number in range(effort.walks):
        start = (first, {}, annealer.best)[number % 3]
        state.go_to(start)
        annealer.run(_cooling(objective, effort, number), seed + number)
    state.go_to(annealer.best)
    polish(state, objective, annealer.devices)
    return state.targets()


def _cooling(objective: Objective, effort: Effort, number: int) -> Cooling:
    unit = objective.cost_weight * 1000
    return Cooling(effort.steps, start=1.0 * unit, end=0.05 * unit, width=(6, 4, 3, 8)[number % 4])


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


def targets_by_id(index: Index, targets: Mapping[int, int]) -> dict[str, str]:
    """The same plan in ids."""
    return {index.items[item].id: index.devices[target].id for item, target in targets.items()}

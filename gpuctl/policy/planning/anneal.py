"""Simulated annealing over whole plans, in a fixed number of steps.

The spread is a difference of two extremes: narrowing it takes several moves that buy nothing until
the last one is made. So the search sees a softened spread instead: the mean of the `width` highest
levels minus that of the `width` lowest, with the width falling to one as it cools. Only what the
exact objective approves is remembered as the best plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from gpuctl.policy.planning.objective import Objective
from gpuctl.policy.planning.state import State

# Chance is a multiplicative generator of our own: the same plan on every machine and release.
_MULTIPLIER, _MODULUS = 48271, 2**31 - 1
# How much worse a step may be, in units of temperature, by a uniform draw of 1,024.
_PATIENCE = tuple(-log((draw + 0.5) / 1024) for draw in range(1024))
_STEPS_PER_BAND = 64
# Work of drawing the band for 64 GPUs, in steps.
_BAND_WORK = 8
# Levels that are looked through for the extremes in the time of a step.
_LEVELS_PER_STEP = 24
# Of a change that is made, in steps.
_MADE_WORK = 2
# Of a swap that is made and undone, in steps.
_UNDONE_WORK = 4


@dataclass(frozen=True, slots=True)
class Cooling:
    """How long, how hot at the start and at the end (in units of the objective), how soft."""

    work: int  # in steps; what takes longer than a step counts for more
    start: float
    end: float
    width: int


class Annealer:
    """Searches around a state, which it leaves at wherever the walk ended."""

    def __init__(
        self, state: State, objective: Objective, gpus: Sequence[int], items: Sequence[int]
    ) -> None:
        index = state.index
        self.state, self.objective = state, objective
        self.gpus, self.items = list(gpus), list(items)
        self.levels = [gpu for gpu in gpus if index.gpus[gpu].balance]
        self.devices = [
            device
            for gpu in gpus
            for device in index.gpu_devices[gpu]
            if not index.devices[device].cordoned
        ]
        self.sources = [device for gpu in gpus for device in index.gpu_devices[gpu]]
        self.ceiling = [0.0] * len(index.gpus)
        self.floor = [0.0] * len(index.gpus)
        self.slope = [0.0] * len(index.gpus)
        self.rank_of = dict.fromkeys(self.items)
        self.random = 1
        self.best_key = objective.key(state)
        self.best = state.targets()
        self.best_excess = state.excess

    def run(self, cooling: Cooling, seed: int) -> None:
        """One walk from the state as it is; `best` and `best_key` know the best plan seen."""
        self.random = seed % (_MODULUS - 1) + 1
        self._residents()
        state = self.state
        work, state.extra_work = 0, 0
        while work < cooling.work:
            done = work / cooling.work
            width = round(cooling.width * (1 - done))
            self._soften(max(1, min(width, len(self.levels) // 2)))
            self._walk(_STEPS_PER_BAND, cooling.start * (cooling.end / cooling.start) ** done)
            work += _STEPS_PER_BAND + _BAND_WORK * len(self.levels) // 64 + state.extra_work
            state.extra_work = 0

    def _residents(self) -> None:
        self.on: dict[int, list[int]] = {device: [] for device in self.sources}
        for item in self.items:
            self.on.setdefault(self.state.at[item], []).append(item)

    def _soften(self, width: int) -> None:
        """Draw the band anew: loads beyond it, at either end, are what the walk tries to cure."""
        state, index = self.state, self.state.index
        pct, load = index.gpu_pct, state.gpu_load
        ranked = sorted(self.levels, key=lambda gpu: load[gpu] * pct[gpu])
        self.tops, self.lows = self.sources, self.devices
        if ranked:
            lowest, highest = ranked[width - 1], ranked[-width]
            low, high = load[lowest] * pct[lowest], load[highest] * pct[highest]
            weight = self.objective.spread_weight / width
            for gpu in ranked:
                self.ceiling[gpu] = high / pct[gpu]
                self.floor[gpu] = low / pct[gpu]
                self.slope[gpu] = weight * pct[gpu]
            self.tops = [d for gpu in ranked[-width:] for d in index.gpu_devices[gpu]]
            self.lows = [
                device
                for gpu in ranked[:width]
                for device in index.gpu_devices[gpu]
                if not index.devices[device].cordoned
            ] or self.devices
        hot = [device for device in self.sources if state.load[device] > index.limit[device]]
        self.tops = [*self.tops, *hot]

    def _walk(self, steps: int, temperature: float) -> None:
        if not self.items or not self.devices:
            return
        draw = self.random
        for _ in range(steps):
            draw = draw * _MULTIPLIER % _MODULUS
            kind = draw % 100
            item = self._pick_item(draw // 100, kind)
            draw = draw * _MULTIPLIER % _MODULUS
            patience = temperature * _PATIENCE[draw & 1023]
            draw = draw * _MULTIPLIER % _MODULUS
            if kind % 10 < 7:
                self._try_relocate(item, self._pick_device(item, draw, kind), patience)
            else:
                self._try_swap(item, self.items[draw % len(self.items)], patience)
        self.random = draw

    def _pick_item(self, draw: int, kind: int) -> int:
        """Half of the time someone on a device that matters, else anybody, or one who moved."""
        if kind < 50:
            residents = self.on[self.tops[draw % len(self.tops)]]
            if residents:
                return residents[draw // 7 % len(residents)]
        elif kind < 70 and self.state.moved:
            moved = list(self.state.moved)
            item = moved[draw % len(moved)]
            if item in self.rank_of:
                return item
        return self.items[draw % len(self.items)]

    def _pick_device(self, item: int, draw: int, kind: int) -> int:
        if kind % 2:
            return self.lows[draw % len(self.lows)]
        if kind % 10 == 4:
            return self.state.index.home[item]
        return self.devices[draw % len(self.devices)]

    def _change(self, source: int, target: int, load: int) -> float:
        """By how much the softened objective rises if this much load goes over."""
        state, index = self.state, self.state.index
        before, limit = state.load[source], index.limit[source]
        excess = 0
        if before > limit or before - load > limit:
            excess = max(0, before - load - limit) - max(0, before - limit)
        before, limit = state.load[target], index.limit[target]
        if before > limit or before + load > limit:
            excess += max(0, before + load - limit) - max(0, before - limit)
        change = self.objective.excess_weight * excess
        one, two = index.dev_gpu[source], index.dev_gpu[target]
        if one == two:
            return change
        level = state.gpu_load[one]
        high, low = self.ceiling[one], self.floor[one]
        after, beyond = level - load, 0.0
        if after > high:
            beyond = after - high
        elif after < low:
            beyond = low - after
        if level > high:
            beyond -= level - high
        elif level < low:
            beyond -= low - level
        change += beyond * self.slope[one]
        level = state.gpu_load[two]
        high, low = self.ceiling[two], self.floor[two]
        after, beyond = level + load, 0.0
        if after > high:
            beyond = after - high
        elif after < low:
            beyond = low - after
        if level > high:
            beyond -= level - high
        elif level < low:
            beyond -= low - level
        return change + beyond * self.slope[two]

    def _price(self, item: int, target: int) -> float:
        """What putting the item there adds to the weighed cost of moves."""
        home = self.state.index.home[item]
        if self.state.at[item] == home:
            return self.objective.price(item)
        return -self.objective.price(item) if target == home else 0.0

    def _try_relocate(self, item: int, target: int, patience: float) -> None:
        state = self.state
        source = state.at[item]
        if source == target:
            return
        change = self._change(source, target, state.index.load[item]) + self._price(item, target)
        if change > patience or not state.fits(item, target):
            return
        self._put(item, target)
        if not state.keeps_order(target):
            self._put(item, source)
            return
        state.extra_work += _MADE_WORK
        self.consider()

    def _try_swap(self, one: int, two: int, patience: float) -> None:
        state, load = self.state, self.state.index.load
        here, there = state.at[one], state.at[two]
        if here == there:
            return
        change = self._change(here, there, load[one] - load[two])
        change += self._price(one, there) + self._price(two, here)
        if change > patience or not self._may_swap(one, two):
            return
        self._put(two, here)
        self._put(one, there)
        if not (state.holds(one) and state.holds(two) and state.keeps_order(here, there)):
            self._put(two, there)
            self._put(one, here)
            state.extra_work += _UNDONE_WORK
            return
        state.extra_work += _MADE_WORK
        self.consider()

    def _may_swap(self, one: int, two: int) -> bool:
        """What can be told without making the swap."""
        state, index = self.state, self.state.index
        here, there, more = state.at[one], state.at[two], index.mem[one] - index.mem[two]
        return (
            (there == index.home[one] or bool(index.allowed(one)[there]))
            and (here == index.home[two] or bool(index.allowed(two)[here]))
            and (more <= 0 or state.mem[there] + more <= index.mem_cap[there])
            and (more >= 0 or state.mem[here] - more <= index.mem_cap[here])
            and self._stay_apart(one, two)
        )

    def _stay_apart(self, one: int, two: int) -> bool:
        """A swap within a group changes no count; else each is judged as if it came alone."""
        state, group = self.state, self.state.index.group
        if group[one] == group[two]:
            return True
        return (group[one] < 0 or state.keeps_apart(one, state.at[two])) and (
            group[two] < 0 or state.keeps_apart(two, state.at[one])
        )

    def _put(self, item: int, device: int) -> None:
        source = self.state.at[item]
        if source != device:
            self.state.shift(item, device)
            self.on[source].remove(item)
            self.on[device].append(item)

    def consider(self) -> None:
        """Remember the state as it is, if it is the best so far."""
        state, objective = self.state, self.objective
        if objective.may_beat(state, self.best_key):
            state.extra_work += len(state.watched) // _LEVELS_PER_STEP
            key = objective.key(state)
            if key < self.best_key:
                self.best_key, self.best = key, state.targets()
                self.best_excess = state.excess

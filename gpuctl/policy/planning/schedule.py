"""Puts the moves of a finished plan in waves, those that buy most first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gpuctl.policy.planning.index import Index
from gpuctl.policy.planning.order import PLAN_BRANCHES, Room, entangled
from gpuctl.policy.planning.problem import FrontierStep
from gpuctl.policy.planning.state import State

# Each next move is chosen by trying all, as long as that looks at no more levels of GPUs than this;
# beyond, by its own worth alone.
_MOST_LEVELS = 400_000


def waves(plan: State) -> list[tuple[int, int]] | None:
    """Item and wave of each move, in the order to make them; None if no order was found.

    A state with `has_order` always gets one.
    """
    timeline = _Timeline(plan)
    made: list[tuple[int, int]] = []
    wave = 0
    while timeline.pending:
        timeline.open_wave()
        before = len(made)
        made.extend((item, wave) for item in timeline.wave_moves())
        if len(made) == before:
            return None
        wave += 1
    return made


class _Timeline:
    """The cluster as the waves go by."""

    def __init__(self, plan: State) -> None:
        self.index, self.plan = plan.index, plan
        self.now = State(plan.index)
        self.room = Room(plan.index, plan)
        self.pending = dict.fromkeys(sorted(plan.moved))
        self.narrow = bool(plan.crowded)

    def open_wave(self) -> None:
        self.leaving: dict[int, tuple[int, int]] = {}
        self.nodes: Counter[int] = Counter()
        self.groups: Counter[int] = Counter()

    def wave_moves(self) -> Iterator[int]:
        """Moves of the open wave, best first, made as they are given out."""
        while True:
            for item in self._by_worth():
                if self._joins(item):
                    self._make(item)
                    yield item
                    if self._tries_all():
                        break
            else:
                return

    def _by_worth(self) -> list[int]:
        if self._tries_all():
            return sorted(self.pending, key=lambda item: (*self._after(item), item))
        return sorted(self.pending, key=lambda item: (*self._worth(item), item))

    def _tries_all(self) -> bool:
        return len(self.pending) ** 2 * len(self.index.balanced) <= _MOST_LEVELS

    def _worth(self, item: int) -> tuple[float, float]:
        """Change of the excess and of the sum of squared levels: the hottest to the coolest."""
        index, now = self.index, self.now
        source, target = index.home[item], self.plan.at[item]
        load = index.load[item]
        relief = max(0, now.load[source] - index.limit[source])
        one, two = index.dev_gpu[source], index.dev_gpu[target]
        high = now.gpu_load[one] * index.gpu_pct[one]
        low = now.gpu_load[two] * index.gpu_pct[two]
        return (-min(load, relief), (low - high) * load)

    def _after(self, item: int) -> tuple[float, float, float]:
        now = self.now
        worth = self._worth(item)[1]
        now.shift(item, self.plan.at[item])
        result = (now.excess, round(now.spread(), 6), worth)
        now.shift(item, self.index.home[item])
        return result

    def _joins(self, item: int) -> bool:
        """Whether the move may join the open wave and leaves an order for all others."""
        index, params = self.index, self.index.params
        source, target = index.home[item], self.plan.at[item]
        for node in {index.dev_node[source], index.dev_node[target]}:
            if self.nodes[node] >= params.node_inflight:
                return False
        group = index.group[item]
        if group >= 0 and self.groups[group] >= params.group_inflight:
            return False
        mem, slots = self.room.of(target)
        leaving_mem, leaving = self.leaving.get(target, (0, 0))
        if index.mem[item] > mem - leaving_mem or slots - leaving < 1:
            return False
        return not self.narrow or self._others_follow(item)

    def _others_follow(self, item: int) -> bool:
        at, mem, source = self.plan.at, self.index.mem[item], self.index.home[item]
        if at[item] not in self.plan.crowded:
            return True
        self.room.take(at[item], mem)
        self.room.take(source, -mem, -1)
        others = entangled(self.plan, (other for other in self.pending if other != item))
        follow = self.room.completes(others, PLAN_BRANCHES)
        self.room.take(at[item], -mem, -1)
        self.room.take(source, mem)
        return follow

    def _make(self, item: int) -> None:
        index = self.index
        source, target = index.home[item], self.plan.at[item]
        self.room.make(item)
        self.now.shift(item, target)
        mem, count = self.leaving.get(source, (0, 0))
        self.leaving[source] = (mem + index.mem[item], count + 1)
        self.nodes.update({index.dev_node[source], index.dev_node[target]})
        if index.group[item] >= 0:
            self.groups[index.group[item]] += 1
        del self.pending[item]


def frontier(index: Index, targets: list[tuple[int, int]]) -> tuple[FrontierStep, ...]:
    """The cluster after 0, 1, 2, 4 ... and all moves; `targets` are items and devices in order."""
    now = State(index)
    steps = [_step(now)]
    due = 1
    for number, (item, device) in enumerate(targets, start=1):
        now.shift(item, device)
        if number == due or number == len(targets):
            steps.append(_step(now))
        if number == due:
            due *= 2
    return tuple(steps)


def _step(state: State) -> FrontierStep:
    index = state.index
    high, low = state.extremes()
    levels = ((gpu, state.gpu_load[gpu] * index.gpu_pct[gpu]) for gpu in index.balanced)
    hottest = next((index.gpus[gpu].id for gpu, level in levels if level == high), None)
    return FrontierStep(
        moves=len(state.moved),
        cost=state.cost / 1000,
        excess=state.excess / 1000,
        spread=high - low,
        max_pct=high,
        min_pct=low,
        hottest=hottest,
    )

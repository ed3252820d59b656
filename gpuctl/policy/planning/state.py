"""Where every item is during the search, kept up to date move by move."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from gpuctl.policy.planning.index import Index
from gpuctl.policy.planning.order import is_executable

# Looking for an order takes about as long as so many steps of the search, per move.
_ORDER_WORK = 1


class State:
    """A tentative plan: items away from home, and all sums that depend on it.

    `shift` changes it without asking; `fits` asks. A plan is valid if each shift was asked for,
    and `has_order` held at the end.
    """

    def __init__(self, index: Index) -> None:
        self.index = index
        self.at = list(index.home)
        self.load = list(index.base_load)
        self.mem = list(index.base_mem)
        self.count = [0] * len(index.devices)
        self.gpu_load = [0] * len(index.gpus)
        self._place()
        self.start_mem = list(self.mem)
        self.start_count = list(self.count)
        # Newcomers of each device: how many, and how much memory they bring.
        self.arrivals = [0] * len(index.devices)
        self.arriving_mem = [0] * len(index.devices)
        self.crowded: dict[int, None] = {}  # devices whose newcomers need someone to leave first
        self.moved: dict[int, None] = {}
        self.watched: Sequence[int] = index.balanced
        self.elsewhere: tuple[float, ...] = ()
        self.extra_work = 0  # beyond the steps of a search, in steps
        self.cost = 0
        self.group_moved = [0] * len(index.group_moves)
        self.excess = sum(
            max(0, load - limit) for load, limit in zip(self.load, index.limit, strict=True)
        )

    def _place(self) -> None:
        index = self.index
        # Members of groups with limits: how many there are, and how many of them came in.
        self.members: dict[tuple[int, int], int] = defaultdict(int)
        self.entered: dict[tuple[int, int], int] = defaultdict(int)
        for item, device in enumerate(index.home):
            self.load[device] += index.load[item]
            self.mem[device] += index.mem[item]
            self.count[device] += 1
            group = index.group[item]
            if group >= 0 and index.apart[group]:
                self.members[group, ~index.dev_node[device]] += 1
                self.members[group, index.dev_gpu[device]] += 1
        for device, gpu in enumerate(index.dev_gpu):
            self.gpu_load[gpu] += self.load[device]

    def spread(self) -> float:
        """Highest minus lowest utilization of balanced GPUs, in points."""
        high, low = self.extremes()
        return high - low

    def extremes(self) -> tuple[float, float]:
        """Highest and lowest utilization of balanced GPUs, in percent."""
        pct, load = self.index.gpu_pct, self.gpu_load
        levels = [load[gpu] * pct[gpu] for gpu in self.watched]
        levels.extend(self.elsewhere)
        return (max(levels), min(levels)) if levels else (0.0, 0.0)

    def watch(self, gpus: Iterable[int]) -> None:
        """From now on only these GPUs change: the extremes of all others are remembered."""
        self.watched, self.elsewhere = self.index.balanced, ()
        within = set(gpus)
        if not within.issuperset(self.index.balanced):
            self.watched = [gpu for gpu in self.index.balanced if gpu not in within]
            self.elsewhere = self.extremes()
            self.watched = [gpu for gpu in self.index.balanced if gpu in within]

    def fits(self, item: int, device: int) -> bool:
        """Whether the item, now elsewhere, may be put on the device with all others as they are."""
        index = self.index
        home = index.home[item]
        if device != home:
            if not index.allowed(item)[device]:
                return False
            if self.at[item] == home and not self.may_leave(item):
                return False
        elif not self.arrivals[device]:
            return index.group[item] < 0 or self.keeps_apart(item, device)
        return (
            self.mem[device] + index.mem[item] <= index.mem_cap[device]
            and self.count[device] < index.slots[device]
            and (index.group[item] < 0 or self.keeps_apart(item, device))
        )

    def may_leave(self, item: int) -> bool:
        """Whether the budgets of the plan and of the item's group allow one more move."""
        limit = self.index.params.max_moves
        if limit is not None and len(self.moved) >= limit:
            return False
        group = self.index.group[item]
        return group < 0 or self.group_moved[group] < self.index.group_moves[group]

    def keeps_apart(self, item: int, device: int) -> bool:
        """Whether the limits of the item's group let it join its fellows there."""
        index = self.index
        group = index.group[item]
        if not index.apart[group]:
            return True
        old, home = self.at[item], index.home[item]
        for place_of, sign, limit in (
            (index.dev_node, True, index.per_node[group]),
            (index.dev_gpu, False, index.per_gpu[group]),
        ):
            place = place_of[device]
            key = (group, ~place if sign else place)
            if place_of[old] == place:
                continue
            comes_in = place_of[home] != place
            if (comes_in or self.entered[key]) and self.members[key] >= limit:
                return False
        return True

    def holds(self, item: int) -> bool:
        """Whether the item may be where it is, with all others as they are."""
        index, device = self.index, self.at[item]
        group = index.group[item]
        if device != index.home[item]:
            limit = index.params.max_moves
            if not index.allowed(item)[device] or (limit is not None and len(self.moved) > limit):
                return False
            if group >= 0 and self.group_moved[group] > index.group_moves[group]:
                return False
        if self.arrivals[device] and (
            self.mem[device] > index.mem_cap[device] or self.count[device] > index.slots[device]
        ):
            return False
        if group < 0 or not index.apart[group]:
            return True
        node, gpu = (group, ~index.dev_node[device]), (group, index.dev_gpu[device])
        return not (
            (self.entered[node] and self.members[node] > index.per_node[group])
            or (self.entered[gpu] and self.members[gpu] > index.per_gpu[group])
        )

    def shift(self, item: int, device: int) -> None:
        """Put the item on the device. Shifting back restores the state exactly."""
        index = self.index
        old, home = self.at[item], index.home[item]
        load, mem = index.load[item], index.mem[item]
        self.at[item] = device
        self._add(old, -load)
        self._add(device, load)
        self.mem[old] -= mem
        self.mem[device] += mem
        self.count[old] -= 1
        self.count[device] += 1
        group = index.group[item]
        if group >= 0 and index.apart[group]:
            self._count_members(group, home, old, -1)
            self._count_members(group, home, device, 1)
        if old != home:
            self._newcomers(old, -1, -mem)
        else:
            self.moved[item] = None
            self.cost += index.cost[item]
            if group >= 0:
                self.group_moved[group] += 1
        if device != home:
            self._newcomers(device, 1, mem)
        else:
            del self.moved[item]
            self.cost -= index.cost[item]
            if group >= 0:
                self.group_moved[group] -= 1

    def _add(self, device: int, load: int) -> None:
        limit, before = self.index.limit[device], self.load[device]
        after = before + load
        self.load[device] = after
        self.gpu_load[self.index.dev_gpu[device]] += load
        if after > limit or before > limit:
            self.excess += max(0, after - limit) - max(0, before - limit)

    def _newcomers(self, device: int, count: int, mem: int) -> None:
        self.arrivals[device] += count
        self.arriving_mem[device] += mem
        if self.arrivals[device] and (
            self.start_mem[device] + self.arriving_mem[device] > self.index.mem_cap[device]
            or self.start_count[device] + self.arrivals[device] > self.index.slots[device]
        ):
            self.crowded[device] = None
        else:
            self.crowded.pop(device, None)

    def _count_members(self, group: int, home: int, device: int, count: int) -> None:
        index = self.index
        for place_of, sign in ((index.dev_node, True), (index.dev_gpu, False)):
            place = place_of[device]
            key = (group, ~place if sign else place)
            self.members[key] += count
            if place_of[home] != place:
                self.entered[key] += count

    def has_order(self) -> bool:
        """Whether the moves can be made one by one without overfilling any target on the way."""
        return not self.crowded or is_executable(self)

    def keeps_order(self, *devices: int) -> bool:
        """The same, if it held before items were put on these devices: often told at once.

        A newcomer takes nothing from anybody where all newcomers fit beside those who leave.
        """
        if self.crowded.keys().isdisjoint(devices):
            return True
        self.extra_work += _ORDER_WORK * len(self.moved)
        return is_executable(self)

    def is_valid(self) -> bool:
        """Whether every item away from home may be where it is, and an order exists."""
        return all(self.holds(item) for item in self.moved) and self.has_order()

    def targets(self) -> dict[int, int]:
        """Device of each item that is away from home."""
        return {item: self.at[item] for item in self.moved}

    def go_to(self, targets: Mapping[int, int]) -> None:
        """Become the plan with exactly these targets, whatever the plan is now."""
        for item in [item for item in self.moved if item not in targets]:
            self.shift(item, self.index.home[item])
        for item in sorted(targets):
            if self.at[item] != targets[item]:
                self.shift(item, targets[item])

"""Whether the moves of a plan can be made one after another, each target having room in time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuctl.policy.planning.index import Index
    from gpuctl.policy.planning.state import State

# Attempts before a plan counts as not executable: few while searching, more for a plan at hand.
SEARCH_BRANCHES, PLAN_BRANCHES = 3, 400


def is_executable(state: State) -> bool:
    """Whether an order is found quickly. May say no to a rare plan that needs a long search."""
    return Room(state.index, state).completes(entangled(state, state.moved), SEARCH_BRANCHES)


def entangled(state: State, moves: Iterable[int]) -> list[int]:
    """Those of the moves that wait for room or make some; all others may come at any time."""
    crowded, at, home = state.crowded, state.at, state.index.home
    return [item for item in moves if at[item] in crowded or home[item] in crowded]


class Room:
    """Memory and slots left on the devices that receive something, before any move is made."""

    def __init__(self, index: Index, state: State) -> None:
        self.index = index
        self.at = state.at
        self.start_mem, self.start_count = state.start_mem, state.start_count
        self.mem: dict[int, int] = {}
        self.slots: dict[int, int] = {}

    def of(self, device: int) -> tuple[int, int]:
        """MiB and slots that are free on a device now."""
        if device not in self.mem:
            index = self.index
            self.mem[device] = index.mem_cap[device] - self.start_mem[device]
            self.slots[device] = index.slots[device] - self.start_count[device]
        return self.mem[device], self.slots[device]

    def take(self, device: int, mem: int, count: int = 1) -> None:
        """Book `count` newcomers with this much memory; negative figures give it back."""
        free_mem, free_slots = self.of(device)
        self.mem[device] = free_mem - mem
        self.slots[device] = free_slots - count

    def make(self, item: int) -> None:
        """Book one move: in at the target, out at the source."""
        mem = self.index.mem[item]
        self.take(self.at[item], mem)
        self.take(self.index.home[item], -mem, -1)

    def completes(self, pending: Iterable[int], branches: int) -> bool:
        """Whether all pending moves can be made from here, with so many attempts at most."""
        waiting: dict[int, list[int]] = {}
        for item in pending:
            waiting.setdefault(self.at[item], []).append(item)
        free = {device: self.of(device) for device in waiting}
        return _completes(self.index, waiting, free, [branches])


def _completes(
    index: Index,
    waiting: dict[int, list[int]],
    free: dict[int, tuple[int, int]],
    budget: list[int],
) -> bool:
    """Makes what does no harm, then tries one by one what frees a device others wait for.

    `waiting` are the newcomers of each device that still has some, `free` its MiB and slots.
    """
    _make_harmless(index, waiting, free)
    if not waiting:
        return True
    # A move that frees nothing anybody waits for can be made last just as well.
    possible = [
        (-index.mem[item], item, device)
        for device, items in waiting.items()
        for item in items
        if index.home[item] in waiting
        and index.mem[item] <= free[device][0]
        and free[device][1] >= 1
    ]
    for _, item, device in sorted(possible):
        budget[0] -= 1
        if budget[0] < 0:
            return False
        branch, room = {each: list(items) for each, items in waiting.items()}, dict(free)
        branch[device].remove(item)
        mem, home = index.mem[item], index.home[item]
        room[device] = (room[device][0] - mem, room[device][1] - 1)
        room[home] = (room[home][0] + mem, room[home][1] + 1)
        if _completes(index, branch, room, budget):
            return True
    return False


def _make_harmless(
    index: Index, waiting: dict[int, list[int]], free: dict[int, tuple[int, int]]
) -> None:
    """Make every move into a device that has room for all who are still to come.

    Such a move takes nothing from anybody, so no order is lost by making it at once.
    """
    to_check = list(waiting)
    while to_check:
        device = to_check.pop()
        items = waiting.get(device)
        if items is None:
            continue
        mem, slots = free[device]
        if len(items) > slots or sum([index.mem[item] for item in items]) > mem:
            continue
        del waiting[device]
        for item in items:
            home = index.home[item]
            if home in waiting:
                mem, slots = free[home]
                free[home] = (mem + index.mem[item], slots + 1)
                to_check.append(home)

"""Whether the moves of a plan can be made one after another, each target having room in time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuctl.policy.planning.index import Index
    from gpuctl.policy.planning.state import State

# Points at which the order branches before a plan counts as not executable.
_BRANCHES = 48


def is_executable(state: State) -> bool:
    """Whether some order exists. May say no to a rare plan that needs a very long search."""
    crowded = state.crowded
    index = state.index
    pending = [
        item for item in state.moved if state.at[item] in crowded or index.home[item] in crowded
    ]
    return Room(index, state).completes(pending)


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

    def admits(self, item: int) -> bool:
        """Whether the target holds the item now."""
        mem, slots = self.of(self.at[item])
        return self.index.mem[item] <= mem and slots >= 1

    def copy(self) -> Room:
        """An independent copy."""
        twin = object.__new__(Room)
        twin.index, twin.at = self.index, self.at
        twin.start_mem, twin.start_count = self.start_mem, self.start_count
        twin.mem, twin.slots = dict(self.mem), dict(self.slots)
        return twin

    def completes(self, pending: Sequence[int]) -> bool:
        """Whether all pending moves can be made from here. Works on copies."""
        return _completes(self.copy(), list(pending), [_BRANCHES])


def _completes(room: Room, pending: list[int], budget: list[int]) -> bool:
    pending = _make_harmless(room, pending)
    if not pending:
        return True
    possible = [item for item in pending if room.admits(item)]
    # What frees a device that others wait for comes first, then what frees most.
    awaited = {room.at[item] for item in pending}
    possible.sort(
        key=lambda item: (room.index.home[item] not in awaited, -room.index.mem[item], item)
    )
    for item in possible:
        budget[0] -= 1
        if budget[0] < 0:
            return False
        branch = room.copy()
        branch.make(item)
        if _completes(branch, [other for other in pending if other != item], budget):
            return True
    return False


def _make_harmless(room: Room, pending: list[int]) -> list[int]:
    """Make every move into a device that has room for all who are still to come; rest returned.

    Such a move takes nothing from anybody, so no order is lost by making it at once.
    """
    need_mem: dict[int, int] = {}
    need_slots: dict[int, int] = {}
    for item in pending:
        device = room.at[item]
        need_mem[device] = need_mem.get(device, 0) + room.index.mem[item]
        need_slots[device] = need_slots.get(device, 0) + 1
    while True:
        left = []
        for item in pending:
            device = room.at[item]
            mem, slots = room.of(device)
            if need_mem[device] <= mem and need_slots[device] <= slots:
                room.make(item)
                need_mem[device] -= room.index.mem[item]
                need_slots[device] -= 1
            else:
                left.append(item)
        if len(left) == len(pending):
            return left
        pending = left

"""A problem as flat integer lists, sorted by id, for a search that runs in tight loops.

Loads and costs are thousandths, memory is whole MiB (rounded to the safe side), utilization is
percent: sums are exact, so that undoing a step restores the very same figures. Sorting by id first
makes every plan independent of the order in which nodes, devices and items were listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from math import ceil, floor
from typing import Protocol, TypeVar

from gpuctl.policy.planning.problem import ItemSpec, MalformedProblemError, Problem

MILLI = 1000
UNLIMITED = 1 << 60


class _Named(Protocol):
    @property
    def id(self) -> str: ...


_T = TypeVar("_T", bound=_Named)


def _sorted_by_id(values: Sequence[_T], what: str) -> tuple[list[_T], dict[str, int]]:
    ordered = sorted(values, key=lambda each: each.id)
    position = {each.id: number for number, each in enumerate(ordered)}
    if len(position) != len(ordered):
        raise MalformedProblemError(f"two {what} have the same id")
    return ordered, position


def _milli(points: float) -> int:
    return round(points * MILLI)


class Index:
    """The unchanging side of a search: everything by number, numbers in the order of ids."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.params = problem.params
        if min(self.params.node_inflight, self.params.group_inflight) < 1:
            raise MalformedProblemError("a wave has to admit at least one move per node and group")
        self.gpus, gpu_number = _sorted_by_id(problem.gpus, "GPUs")
        self.devices, device_number = _sorted_by_id(problem.devices, "devices")
        self.items, _ = _sorted_by_id(problem.items, "items")
        self.groups, group_number = _sorted_by_id(problem.groups, "groups")
        try:
            self.dev_gpu = [gpu_number[device.gpu] for device in self.devices]
            self.home = [device_number[item.device] for item in self.items]
        except KeyError as missing:
            raise MalformedProblemError(f"{missing} is referred to but not described") from missing
        self._read_gpus()
        self._read_devices()
        self._read_items(group_number)
        self._allowed: dict[object, bytes] = {}

    def _read_gpus(self) -> None:
        caps = {each.id: each.cap for each in self.gpus} | {
            each.id: each.cap for each in self.devices
        }
        for name, cap in caps.items():
            if cap <= 0:
                raise MalformedProblemError(f"{name} has a cap of {cap}")
        self.gpu_pct = [100 / (gpu.cap * MILLI) for gpu in self.gpus]  # percent per thousandth
        self.balanced = [number for number, gpu in enumerate(self.gpus) if gpu.balance]
        self.gpu_devices: list[list[int]] = [[] for _ in self.gpus]
        for device, gpu in enumerate(self.dev_gpu):
            self.gpu_devices[gpu].append(device)

    def _read_devices(self) -> None:
        nodes = sorted({device.node for device in self.devices})
        number = {node: position for position, node in enumerate(nodes)}
        self.dev_node = [number[device.node] for device in self.devices]
        self.node_devices: list[list[int]] = [[] for _ in nodes]
        for position, node in enumerate(self.dev_node):
            self.node_devices[node].append(position)
        self.limit = [_milli(device.cap * self.params.high / 100) for device in self.devices]
        self.mem_cap = [floor(device.mem_mib) for device in self.devices]
        self.base_mem = [ceil(device.base_mem_mib) for device in self.devices]
        self.base_load = [_milli(device.base_load) for device in self.devices]
        self.slots = [
            UNLIMITED if device.slots is None else device.slots for device in self.devices
        ]

    def _read_items(self, group_number: dict[str, int]) -> None:
        self.load = [_milli(item.load) for item in self.items]
        self.mem = [ceil(item.mem_mib) for item in self.items]
        self.cost = [_milli(item.cost) for item in self.items]
        self.movable = [number for number, item in enumerate(self.items) if item.movable]
        # A group that no limit was given for still counts within a wave.
        unlisted: dict[str, int] = {}
        self.group = []
        for item in self.items:
            if item.group is None:
                self.group.append(-1)
            elif item.group in group_number:
                self.group.append(group_number[item.group])
            else:
                extra = len(group_number) + len(unlisted)
                self.group.append(unlisted.setdefault(item.group, extra))
        blank = [UNLIMITED] * len(unlisted)
        self.group_moves = [_or_unlimited(group.max_moves) for group in self.groups] + blank
        self.per_node = [_or_unlimited(group.max_per_node) for group in self.groups] + blank
        self.per_gpu = [_or_unlimited(group.max_per_gpu) for group in self.groups] + blank
        self.apart = [
            a < UNLIMITED or b < UNLIMITED for a, b in zip(self.per_node, self.per_gpu, strict=True)
        ]

    def after(self, at: Sequence[int], group_moved: Sequence[int], moves: int) -> Index:
        """The same problem with every item at home where `at` says, and budgets less the moves."""
        later = copy(self)
        later.home = list(at)
        later.group_moves = [
            limit if limit == UNLIMITED else limit - used
            for limit, used in zip(self.group_moves, group_moved, strict=True)
        ]
        if self.params.max_moves is not None:
            later.params = replace(self.params, max_moves=self.params.max_moves - moves)
        return later

    def allowed(self, item: int) -> bytes:
        """For each device, 1 if the item may be moved there as far as kind and place go."""
        spec = self.items[item]
        key = (spec.models, spec.profiles, spec.nodes)
        found = self._allowed.get(key)
        if found is None:
            found = self._allowed[key] = self._suitable(spec)
        if not spec.leaves_node:
            return found
        node = self.dev_node[self.home[item]]
        elsewhere = self._allowed.get((key, node))
        if elsewhere is None:
            mask = bytearray(found)
            for device in self.node_devices[node]:
                mask[device] = 0
            elsewhere = self._allowed[(key, node)] = bytes(mask)
        return elsewhere

    def is_bound_to_nodes(self, item: int) -> bool:
        """Whether a device of the right kind may still be forbidden for where it is."""
        spec = self.items[item]
        return spec.nodes is not None or spec.leaves_node

    def _suitable(self, spec: ItemSpec) -> bytes:
        models, profiles, nodes = spec.models, spec.profiles, spec.nodes
        return bytes(
            not device.cordoned
            and (models is None or device.model in models)
            and (profiles is None or device.profile in profiles)
            and (nodes is None or device.node in nodes)
            for device in self.devices
        )


def _or_unlimited(limit: int | None) -> int:
    return UNLIMITED if limit is None else limit

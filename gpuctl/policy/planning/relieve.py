"""A first plan for hot devices of any number: what is cheapest to take off, to where it is cool."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

from gpuctl.policy.planning.index import Index
from gpuctl.policy.planning.shed import Residents, options
from gpuctl.policy.planning.state import State

# Ways to relieve one device that are tried, and targets that are looked at for one item.
_OPTIONS, _TARGETS = 12, 200


def relieve(state: State, residents: Residents) -> None:
    """Bring hot devices under the mark as far as it goes one device at a time, hottest first."""
    index = state.index
    hot = [device for device, load in enumerate(state.load) if load > index.limit[device]]
    hot.sort(key=lambda device: (index.limit[device] - state.load[device], device))
    cool = _Coolest(state)
    for device in hot:
        excess = state.load[device] - index.limit[device]
        ways = [way for way in options(index, residents.on.get(device, ())) if way.load >= excess]
        for way in ways[:_OPTIONS]:
            if _carry_out(state, cool, way.items) and state.load[device] <= index.limit[device]:
                break
            for item in way.items:
                if item in state.moved:
                    cool.shift(item, index.home[item])


def _carry_out(state: State, cool: _Coolest, items: Sequence[int]) -> bool:
    """Whether all items found a place; the large ones choose first."""
    load = state.index.load
    for item in sorted(items, key=lambda item: (-load[item], item)):
        target = next(cool.places(item), None)
        if target is None:
            return False
        cool.shift(item, target)
        if not state.keeps_order(target):
            return False
    return True


class _Coolest:
    """Devices that take newcomers, coolest GPU first, by kind of device."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.kinds: dict[object, list[tuple[float, int]]] = {}
        for device, spec in enumerate(state.index.devices):
            if not spec.cordoned:
                kind = (spec.model, spec.profile)
                self.kinds.setdefault(kind, []).append((self._level(device), device))
        for ranked in self.kinds.values():
            ranked.sort()

    def _level(self, device: int) -> float:
        index = self.state.index
        gpu = index.dev_gpu[device]
        return self.state.gpu_load[gpu] * index.gpu_pct[gpu]

    def places(self, item: int) -> Iterator[int]:
        """Devices that hold the item and stay under the mark, coolest first."""
        index, state = self.index, self.state
        heads = [
            (level, device)
            for ranked in self.kinds.values()
            if index.allowed(item)[ranked[0][1]] or index.is_bound_to_nodes(item)
            for level, device in ranked[:_TARGETS]
        ]
        for _, device in sorted(heads):
            if (
                device != index.home[item]
                and state.load[device] + index.load[item] <= index.limit[device]
                and state.fits(item, device)
            ):
                yield device

    @property
    def index(self) -> Index:
        return self.state.index

    def shift(self, item: int, target: int) -> None:
        """Move the item, and rank the GPUs it leaves and enters anew."""
        touched = [
            device
            for end in (self.state.at[item], target)
            for device in self.index.gpu_devices[self.index.dev_gpu[end]]
            if not self.index.devices[device].cordoned
        ]
        touched = sorted(set(touched))
        for device in touched:
            ranked = self._ranked(device)
            del ranked[bisect_left(ranked, (self._level(device), device))]
        self.state.shift(item, target)
        for device in touched:
            insort(self._ranked(device), (self._level(device), device))

    def _ranked(self, device: int) -> list[tuple[float, int]]:
        spec = self.index.devices[device]
        return self.kinds[spec.model, spec.profile]

"""A simulated cluster at any instant: what its exporters say, and who runs where."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from msgspec.structs import replace

from gpuctl.model.sample import Sample
from gpuctl.sim.exporter import JOB, Card, card_rows, seated_card
from gpuctl.sim.exposition import page
from gpuctl.sim.load import load_pct, noise_key
from gpuctl.sim.loading import DEFAULT_SCENARIO, capacity, devices_of, load_scenario
from gpuctl.sim.resizing import resized
from gpuctl.sim.scenario import GpuSpec, MigSpec, NodeSpec, Place, Scenario, Workload

SCRAPE_SECONDS = 15
#: How old the newest scrape is at the epoch.
AGE_AT_EPOCH_SECONDS = 7


@dataclass(frozen=True)
class World:
    """A scenario, ready to be asked. Worlds never change: `moved` gives another one.

    Load is a pure function of scenario and time, so history is just samples at other times.
    """

    scenario: Scenario

    @classmethod
    def load(cls, name_or_path: str | Path = DEFAULT_SCENARIO) -> World:
        """The world of a built-in scenario or of a scenario file. Raises ConfigError."""
        return cls(load_scenario(name_or_path))

    @property
    def epoch(self) -> datetime:
        """The instant at which the demo stands, in UTC."""
        return self.scenario.epoch.astimezone(UTC)

    # -- what is measured --------------------------------------------------------------------

    def scraped_at(self, at: datetime) -> float:
        """Unix time of the newest scrape at `at`. Scrapes are 15 s apart, 7 s before the epoch."""
        if at.tzinfo is None:
            raise ValueError(f"{at.isoformat()} has no time zone")
        first = self._epoch - AGE_AT_EPOCH_SECONDS
        return first + math.floor((at.timestamp() - first) / SCRAPE_SECONDS) * SCRAPE_SECONDS

    def samples(self, at: datetime, names: Collection[str] | None = None) -> Iterator[Sample]:
        """The newest samples at `at` of all exporters, as Prometheus stores them.

        Labels are honoured (`honor_labels: true`); `instance` and `job` are the only target
        labels. `names` restricts the answer to some metric names. Samples of a card share their
        mapping of labels: treat it as read-only.
        """
        scraped = self.scraped_at(at)
        for card in self._scraped_cards:
            yield from card_rows(card, self._epoch, scraped, names)

    def exposition(self, node: str, at: datetime) -> str:
        """The page that the node's exporter serves at `at`, without target labels and times.

        Raises ValueError when there is no such node.
        """
        cards = self._cards({}, [self._node(node)])
        return page(
            sample
            for card in cards
            for sample in card_rows(card, self._epoch, at.timestamp(), None)
        )

    def instance(self, node: str) -> str:
        """The `instance` label of a node's exporter. Raises ValueError without such a node."""
        index = self.scenario.nodes.index(self._node(node))
        return _instance(index)

    # -- what is so, whether or not anything measures it ------------------------------------------

    def workloads(self) -> tuple[Workload, ...]:
        """Everything that runs, VMs included, in the scenario's order."""
        return self.scenario.workloads

    def workload(self, workload_id: str) -> Workload:
        """One workload. Raises ValueError when it does not exist."""
        found = self._by_id.get(workload_id)
        if found is None:
            raise ValueError(f"there is no workload {workload_id}")
        return found

    def devices(self) -> Mapping[Place, GpuSpec | MigSpec]:
        """Every device that a workload can run on, in order."""
        return self._devices

    def tenants_of(self, node: str, gpu: int, mig_id: int | None = None) -> tuple[Workload, ...]:
        """Who runs on a device; nobody when it does not exist."""
        return self._tenants.get(Place(node, gpu, mig_id), ())

    def load_pct(self, workload_id: str, at: datetime) -> float:
        """What a workload asks of each of its devices, in percent of it, at `at`."""
        workload = self.workload(workload_id)
        noise = noise_key(self.scenario.seed, workload_id)
        return load_pct(workload, noise, self._epoch, at.timestamp())

    def utilization_pct(self, place: Place, at: datetime) -> float:
        """True utilization of a device: its tenants' loads together, at most 100."""
        there = self.tenants_of(place.node, place.gpu, place.mig_id)
        return min(100.0, sum(self.load_pct(workload.id, at) for workload in there))

    def memory_used_mib(self, place: Place) -> int:
        """Memory that the tenants of a device hold."""
        there = self.tenants_of(place.node, place.gpu, place.mig_id)
        return sum(workload.memory_mib for workload in there)

    # -- other worlds ---------------------------------------------------------------------------

    def moved(self, workload_id: str, node: str, gpu: int, mig_id: int | None = None) -> World:
        """The world in which a workload runs on another device from the start.

        Raises ValueError, naming why, when it can't run there: no such device, its own device,
        another GPU model or MIG profile, a lost card, no slot or no memory left, or a workload
        that runs on several devices.
        """
        workload, target = self.workload(workload_id), Place(node, gpu, mig_id)
        reason = self._why_not(workload, target)
        if reason is not None:
            raise ValueError(f"{workload_id} can't move to {target}: {reason}")
        changed = replace(workload, placements=(target,))
        everyone = tuple(
            changed if other.id == workload_id else other for other in self.scenario.workloads
        )
        return World(replace(self.scenario, workloads=everyone))

    def resized(self, nodes: int, gpus: int) -> World:
        """The scenario repeated to `nodes` nodes of `gpus` cards. Raises ValueError below one."""
        return World(resized(self.scenario, nodes, gpus))

    def _why_not(self, workload: Workload, target: Place) -> str | None:
        if len(workload.placements) > 1:
            return f"it runs on {len(workload.placements)} devices at once"
        (source,) = workload.placements
        if target not in self._devices:
            return "there is no such device"
        if target == source:
            return "it runs there already"
        return (
            self._why_other_kind(source, target)
            or self._why_lost(target)
            or self._why_full(workload, target)
        )

    def _why_other_kind(self, source: Place, target: Place) -> str | None:
        models = self._node(source.node).model, self._node(target.node).model
        if models[0] != models[1]:
            return f"its load is known for {models[0]}, not for {models[1]}"
        profiles = [_profile(self._devices[place]) for place in (source, target)]
        if profiles[0] != profiles[1]:
            return f"it needs {profiles[0] or 'a whole card'}, not {profiles[1] or 'a whole card'}"
        return None

    def _why_lost(self, target: Place) -> str | None:
        card = self._node(target.node).gpus[target.gpu]
        return None if card.lost_for_seconds is None else "the card is lost"

    def _why_full(self, workload: Workload, target: Place) -> str | None:
        room, slots = capacity(self._devices[target])
        taken = len(self._tenants.get(target, ()))
        if taken >= slots:
            return f"all {slots} slots are taken" if slots > 1 else "it is taken"
        free = room - self.memory_used_mib(target)
        if workload.memory_mib > free:
            return f"it needs {workload.memory_mib} MiB of memory, {free} are free"
        return None

    # -- built once -----------------------------------------------------------------------------

    @cached_property
    def _epoch(self) -> float:
        return self.scenario.epoch.timestamp()

    @cached_property
    def _nodes(self) -> dict[str, NodeSpec]:
        return {node.name: node for node in self.scenario.nodes}

    @cached_property
    def _by_id(self) -> dict[str, Workload]:
        return {workload.id: workload for workload in self.scenario.workloads}

    @cached_property
    def _devices(self) -> dict[Place, GpuSpec | MigSpec]:
        return dict(devices_of(self.scenario))

    @cached_property
    def _tenants(self) -> dict[Place, tuple[Workload, ...]]:
        tenants: dict[Place, list[Workload]] = {}
        for workload in self.scenario.workloads:
            for place in workload.placements:
                tenants.setdefault(place, []).append(workload)
        return {place: tuple(there) for place, there in tenants.items()}

    @cached_property
    def _scraped_cards(self) -> tuple[Card, ...]:
        targets = {
            node.name: {"instance": _instance(index), "job": JOB}
            for index, node in enumerate(self.scenario.nodes)
        }
        return tuple(self._cards(targets, self.scenario.nodes))

    def _cards(
        self, targets: Mapping[str, Mapping[str, str]], nodes: Collection[NodeSpec]
    ) -> Iterator[Card]:
        for node in nodes:
            target = targets.get(node.name, {})
            for index, gpu in enumerate(node.gpus):
                ids = [None] if gpu.mig is None else [instance.id for instance in gpu.mig]
                there = {
                    mig_id: list(self._tenants.get(Place(node.name, index, mig_id), ()))
                    for mig_id in ids
                }
                yield seated_card(self.scenario.seed, node, index, there, target)

    def _node(self, name: str) -> NodeSpec:
        found = self._nodes.get(name)
        if found is None:
            raise ValueError(f"there is no node {name}")
        return found


def _instance(index: int) -> str:
    return f"10.{40 + index // 62500}.{index // 250 % 250}.{index % 250 + 1}:9400"


def _profile(device: GpuSpec | MigSpec) -> str | None:
    return device.profile if isinstance(device, MigSpec) else None

"""How full a big cluster gets: pods are placed one by one until nothing fits any more.

Run: python -m tests.benchmarks.bench_allocation [--share 0.1] [--seed 1]

The cluster and the pods are generated, the same each time, to look like the public description
of a production cluster with 1,213 GPU nodes (Weng et al., USENIX ATC 2023): its node sizes, GPU
models and the mix of pods by GPU request. They are not that cluster's own data. Printed is the
share of all GPUs that is handed out when as much as the whole cluster has been asked for, and at
the end of a list that asks for a fifth more; the aim of `fragmentation` is over 95 %.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import NamedTuple

from gpuctl.model.gpu import Gpu, GpuState
from gpuctl.model.policy import Policy
from gpuctl.model.score import Request
from gpuctl.policy.attribution import DeviceKey, DeviceLoad
from gpuctl.policy.scoring.fragmentation import WHOLE, Demand, Mix, Room, placement, taken
from gpuctl.policy.scoring.parts import Scorer, assess_node
from gpuctl.policy.scoring.survey import Device, Node, Survey
from gpuctl.policy.scoring.weights import STRATEGIES, StrategyName, weights_of

_CORE, _GIB = 1_000, 1_024
_CARD_MIB = 80_000.0


class Shape(NamedTuple):
    """Nodes of one kind."""

    count: int
    model: str
    gpus: int
    cores: int
    memory_gib: int


#: 1,213 nodes with 6,169 GPUs.
SHAPES = (
    Shape(549, "G2", 8, 128, 768),
    Shape(39, "G3", 8, 128, 768),
    Shape(420, "T4", 2, 96, 384),
    Shape(133, "P100", 2, 64, 256),
    Shape(51, "V100M32", 4, 96, 384),
    Shape(1, "P100", 1, 64, 256),
    Shape(19, "V100M16", 8, 96, 768),
    Shape(1, "A10", 2, 96, 384),
)
#: GPU request -> pods of a hundred; a part of a card where it is under 1. The sum is 100.
POPULARITY: dict[float, float] = {
    0: 13.3,
    0.1: 3.0,
    0.2: 5.0,
    0.25: 4.0,
    0.3: 3.4,
    0.4: 3.0,
    0.5: 10.4,
    0.6: 2.0,
    0.7: 2.0,
    0.8: 3.0,
    0.9: 2.0,
    1: 48.0,
    2: 0.2,
    4: 0.2,
    8: 0.5,
}
#: Of a hundred pods so many name the GPU models they can use.
_PICKY = 10
_CHOICES = (frozenset({"G2", "G3"}), frozenset({"T4"}), frozenset({"V100M16", "V100M32"}))


def nodes(share: float = 1.0) -> dict[str, Room]:
    """Name -> an empty node; `share` of the whole cluster, at least one node of each kind."""
    found: dict[str, Room] = {}
    for shape in SHAPES:
        for _ in range(max(1, round(shape.count * share))):
            found[f"node-{len(found):04}"] = Room(
                (WHOLE,) * shape.gpus, shape.model, shape.cores * _CORE, shape.memory_gib * _GIB
            )
    return found


def pods(total_milli: int, seed: int) -> list[Demand]:
    """Pods in the order of their arrival, until they have asked for `total_milli` of GPU."""
    draw = random.Random(seed)  # noqa: S311 - a benchmark's data, not a secret
    sizes, weights = list(POPULARITY), list(POPULARITY.values())
    found: list[Demand] = []
    asked = 0
    while asked < total_milli:
        pod = _pod(draw.choices(sizes, weights)[0], draw)
        found.append(pod)
        asked += pod.gpus * pod.milli
    return found


def _pod(size: float, draw: random.Random) -> Demand:
    """One pod of a GPU size, with as much CPU and memory as such pods tend to want."""
    gpus = 0 if size == 0 else max(1, int(size))
    milli = 0 if size == 0 else round(WHOLE * min(1, size))
    if size == 0:
        cores = draw.choice((1, 2, 4, 8, 16))
    elif size < 1:
        cores = max(1, round(size * draw.choice((4, 8, 12, 16))))
    else:
        cores = gpus * draw.choice((4, 6, 8, 8, 12))
    memory_gib = cores * draw.choice((2, 4, 4, 6))
    picky = gpus == 1 and draw.random() * 100 < _PICKY
    models = draw.choice(_CHOICES) if picky else None
    return Demand(gpus, milli, cores * _CORE, memory_gib * _GIB, models)


# -- strategies -----------------------------------------------------------------------------------

#: Cost of a demand on a node (the least wins) and the cards it takes; None where it does not fit.
Answer = tuple[float, tuple[int, ...]] | None
Strategy = Callable[[Room, Demand], Answer]


def by_fragmentation(mix: Mix, room: Room, demand: Demand) -> Answer:
    """The growth of fragmentation."""
    placed = placement(room, demand, mix)
    return None if placed is None else (placed.growth, placed.cards)


def by_score(scorer: Scorer, room: Room, demand: Demand) -> Answer:
    """The score of `gpuctl score`, handed-out GPU standing in for load and memory."""
    if placement(room, demand, Mix(())) is None:
        return None
    if not demand.gpus:
        return -float(sum(room.free)), ()
    devices = tuple(_device(card, free) for card, free in enumerate(room.free))
    able = [device for device in devices if room.free[device.card] >= demand.milli]
    node = Node(
        name="",
        cards=(),
        devices=devices,
        is_silent=False,
        is_shared=demand.milli < WHOLE,
        room=room,
    )
    asked = Request(gpus=demand.gpus, memory_mib=_CARD_MIB * demand.milli / WHOLE)
    result = assess_node(node, able, Scorer(scorer.strategy, scorer.weights, asked, scorer.survey))
    return -result.score, tuple(device.card for device in result.chosen)


def _device(card: int, free: int) -> Device:
    load = 100 * (1 - free / WHOLE)
    gpu = Gpu(
        node="",
        gpu=card,
        uuid=str(card),
        state=GpuState.OK,
        utilization_pct=load,
        memory_used_mib=_CARD_MIB * load / 100,
        memory_total_mib=_CARD_MIB,
    )
    at = DeviceLoad(DeviceKey(gpu.uuid), gpu, None, load, "now", (), None)
    return Device(at, card, False, None, frozenset())


def strategy(name: StrategyName, mix: Mix) -> Strategy:
    """One of gpuctl's strategies, by name."""
    if name == "fragmentation":
        return partial(by_fragmentation, mix)
    # Full cards are handed out, not hot: the mark must not get in the way.
    around = Survey((), 0.0, 100.0, mix, hot_above=125.0)
    return partial(by_score, Scorer(name, weights_of(name, Policy()), Request(), around))


# -- placing --------------------------------------------------------------------------------------


@dataclass
class Cluster:
    """Nodes that fill up. Answers are kept until their node changes, and by state for all nodes.

    Among equal costs the node with the least GPU left is taken, then the first by name: state
    first, the order of the candidates never.
    """

    rooms: dict[str, Room]
    answer: Strategy
    _costs: dict[Demand, dict[str, tuple[float, int, str]]] = field(default_factory=dict)
    _changed: dict[Demand, set[str]] = field(default_factory=dict)
    _known: dict[tuple[Room, Demand], Answer] = field(default_factory=dict)

    def place(self, demand: Demand) -> str | None:
        """The node that takes the pod; None when none can."""
        costs = self._costs.setdefault(demand, {})
        for name in self._changed.get(demand, self.rooms):
            self._judge(name, demand, costs)
        self._changed[demand] = set()
        if not costs:
            return None
        _, _, name = min(costs.values())
        found = self._answer(self.rooms[name], demand)
        if found is None:
            raise RuntimeError(f"{name} was chosen and can't take {demand}")
        after = taken(self.rooms[name], demand, found[1])
        # Cards are alike: sorted, more nodes are in the same state.
        self.rooms[name] = after._replace(free=tuple(sorted(after.free, reverse=True)))
        for names in self._changed.values():
            names.add(name)
        return name

    def _judge(self, name: str, demand: Demand, costs: dict[str, tuple[float, int, str]]) -> None:
        room = self.rooms[name]
        found = self._answer(room, demand)
        if found is None:
            costs.pop(name, None)
        else:
            costs[name] = found[0], sum(room.free), name

    def _answer(self, room: Room, demand: Demand) -> Answer:
        key = room, demand
        if key not in self._known:
            self._known[key] = self.answer(room, demand)
        return self._known[key]

    @property
    def free_milli(self) -> int:
        return sum(sum(room.free) for room in self.rooms.values())


@dataclass(frozen=True, slots=True)
class Filled:
    """How a run ended: the share of GPU handed out (percent) when the list had asked for the
    whole cluster, and at its end."""

    at_full_demand_pct: float
    at_end_pct: float
    refused: int
    seconds: float


def fill(rooms: dict[str, Room], arriving: Sequence[Demand], answer: Strategy) -> Filled:
    """Place the pods one after another; what fits nowhere is left out."""
    cluster = Cluster(dict(rooms), answer)
    total = cluster.free_milli
    start = perf_counter()
    asked = refused = 0
    at_full: float | None = None
    for pod in arriving:
        asked += pod.gpus * pod.milli
        refused += cluster.place(pod) is None
        if at_full is None and asked >= total:
            at_full = 100 * (1 - cluster.free_milli / total)
    at_end = 100 * (1 - cluster.free_milli / total)
    return Filled(at_end if at_full is None else at_full, at_end, refused, perf_counter() - start)


def history(seed: int) -> Mix:
    """The mix of pods as an earlier week showed it: drawn alike, but not the pods to come."""
    return Mix.of(Counter(pods(2_000 * WHOLE, seed + 1_000_003)))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--share", type=float, default=1.0, help="part of the cluster")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--strategy", choices=STRATEGIES, action="append")
    options = arguments.parse_args()
    rooms, mix = nodes(options.share), history(options.seed)
    total = sum(sum(room.free) for room in rooms.values())
    arriving = pods(total * 6 // 5, options.seed)
    sys.stdout.write(f"{len(rooms)} nodes, {total // WHOLE} GPUs, {len(arriving)} pods\n\n")
    sys.stdout.write("| strategy | at full demand | at the end | refused | s |\n")
    sys.stdout.write("| --- | ---: | ---: | ---: | ---: |\n")
    for name in options.strategy or STRATEGIES:
        ran = fill(rooms, arriving, strategy(name, mix))
        sys.stdout.write(
            f"| {name} | {ran.at_full_demand_pct:.2f} % | {ran.at_end_pct:.2f} % "
            f"| {ran.refused} | {ran.seconds:.0f} |\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()

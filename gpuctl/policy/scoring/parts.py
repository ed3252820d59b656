"""The parts of one score: what each strategy values, in points that add up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpuctl.model.score import Request, ScoreParts
from gpuctl.policy.balance import mean
from gpuctl.policy.scoring.fragmentation import Demand, placement
from gpuctl.policy.scoring.survey import (
    Device,
    Node,
    Survey,
    instance_milli,
    most_tenants,
    slot_milli,
)
from gpuctl.policy.scoring.weights import StrategyName, Weights

# Long training kernels delay short requests beyond what utilization shows, so that headroom on a
# card of the other class is worth this much of the same headroom elsewhere.
MIXED_WORTH = 0.8
# Nobody can tell a device plugin which of a node's shared cards to take. So much of the compute
# points goes by the best card, the rest by the mean of all.
BEST_CARD_WORTH = 0.5
# A card is filled up to this share of the hot mark; over it, filling would only make it hot.
PACKED = 0.8
_MIB_PER_GB = 1024.0


@dataclass(frozen=True, slots=True)
class Scorer:
    """What stays the same for all nodes of one report."""

    strategy: StrategyName
    weights: Weights
    request: Request
    survey: Survey

    @property
    def asks_fragmentation(self) -> bool:
        """Whether how a placement fragments its node counts."""
        return self.strategy not in ("pack", "simple") and self.weights.fragmentation > 0


@dataclass(frozen=True, slots=True)
class Assessment:
    """Points of one node (or device), and the devices they were given for.

    `growth`: by how many cards' worth the placement fragments the node; None where it does not
    count. `hot`: how many of the node's devices are hot. `by_node`: the
    score is the node's, not that of one device.
    """

    chosen: tuple[Device, ...]
    points: ScoreParts
    growth: float | None
    hot: int
    by_node: bool

    @property
    def hundredths(self) -> int:
        """The score in hundredths of a point."""
        return sum(_hundredths(value) for value in _values(self.points))

    @property
    def score(self) -> float:
        return self.hundredths / 100


def assess_node(node: Node, free: Sequence[Device], scorer: Scorer) -> Assessment:
    """The score of a node that can give the request `free` devices, of which it takes the best."""
    hot = sum(bool(device.hot) for device in node.devices)
    return _assess(node, free, scorer, scorer.request.gpus, hot, by_node=True)


def assess_device(node: Node, device: Device, scorer: Scorer) -> Assessment:
    """The score of one free device; heat of its neighbours does not count."""
    return _assess(node, [device], scorer, 1, 0, by_node=False)


def _assess(
    node: Node,
    free: Sequence[Device],
    scorer: Scorer,
    count: int,
    hot: int,
    *,
    by_node: bool,
) -> Assessment:
    growth: float | None = None
    own_part = BEST_CARD_WORTH if by_node and picks_itself(node, scorer.request) else 1.0
    if scorer.asks_fragmentation and _only_fragmentation(scorer.weights):
        chosen, growth = _least_harm(node, free, scorer, count)
    else:
        chosen = _best(free, scorer, count, own_part)
        if scorer.asks_fragmentation:
            _, growth = _least_harm(node, chosen, scorer, count)
    if scorer.strategy == "simple":
        return Assessment(chosen, _simple(chosen), None, hot, by_node)
    weights = scorer.weights
    compute, memory, spread = _means(fractions(device, scorer) for device in chosen)
    if own_part < 1:
        compute = own_part * compute + (1 - own_part) * _mean_compute(node, scorer)
    fragments = in_use_share(node) if scorer.strategy == "pack" else harmlessness(growth)
    exact = ScoreParts(
        compute=weights.compute * compute,
        memory=weights.memory * memory,
        spread=weights.spread * spread,
        fragmentation=weights.fragmentation * fragments,
    )
    lost = weights.hot / 100 * hot / len(node.devices)
    return Assessment(chosen, settled(exact, lost), growth, hot, by_node)


def fractions(device: Device, scorer: Scorer) -> tuple[float, float, float]:
    """How much of the compute, memory and spread points a device earns, each 0..1."""
    survey, asked = scorer.survey, scorer.request.memory_mib or 0.0
    used = 1 - (device.free_mib or 0.0) / (device.at.memory_total_mib or 1.0)
    wanted = asked / (device.at.memory_total_mib or 1.0)
    width = survey.highest_pct - survey.lowest_pct
    spread = _fraction((survey.highest_pct - device.load_pct) / width) if width > 0 else 1.0
    memory = used + wanted if scorer.strategy == "pack" else 1 - used - wanted
    return _compute(device, scorer), _fraction(memory), spread


def _compute(device: Device, scorer: Scorer) -> float:
    worth = MIXED_WORTH if mixes_classes(device, scorer.request) else 1.0
    if scorer.strategy != "pack":
        return _fraction(1 - device.load_pct / 100) * worth
    mark = scorer.survey.hot_above
    full = PACKED * mark
    if device.load_pct <= full or mark <= full:
        return _fraction(device.load_pct / (full or 1.0)) * worth
    return _fraction((mark - device.load_pct) / (mark - full)) * worth


def picks_itself(node: Node, request: Request) -> bool:
    """Whether the node's device plugin has a choice of cards that already have load."""
    return node.is_shared and request.mig_profile is None and len(node.cards) > 1


def _mean_compute(node: Node, scorer: Scorer) -> float:
    """The compute fraction over all cards whose load is known, free slot or not."""
    known = [
        _compute(device, scorer)
        for device in node.devices
        if device.at.instance is None and device.unknown_because is None
    ]
    return mean(known) or 0.0


def mixes_classes(device: Device, request: Request) -> bool:
    """Whether the workload would put training beside inference, or the other way round."""
    match request.workload_class:
        case "training":
            return "inference" in device.classes
        case "inference":
            return "training" in device.classes
        case None:
            return False


def in_use_share(node: Node) -> float:
    """The part of a node's devices that have tenants: what pack fills up before it opens more."""
    return sum(device.tenants > 0 for device in node.devices) / len(node.devices)


def harmlessness(growth: float | None) -> float:
    """The growth of fragmentation as 0..1: 0.5 for none, more for less than none."""
    if growth is None:
        return 0.5
    return 0.5 - growth / (2 * (1 + abs(growth)))


def settled(exact: ScoreParts, lost: float) -> ScoreParts:
    """The parts in hundredths of a point, so that they add up to the rounded exact score.

    Rounding each of them for itself could lose or win some hundredths, and let a node that is
    better in every respect come out behind: the largest part takes the difference. `lost` is the
    part (0..1) of the points that heat takes away.
    """
    earned = min(100.0, sum(_values(exact)))
    heat = lost * earned
    names = ("compute", "memory", "spread", "fragmentation")
    parts = {name: _hundredths(getattr(exact, name)) for name in names}
    parts["hot"] = -_hundredths(heat)
    largest = max(names, key=lambda name: parts[name])
    parts[largest] += _hundredths(earned - heat) - sum(parts.values())
    return ScoreParts(**{name: value / 100 for name, value in parts.items()})


def neutral(scores: Iterable[int]) -> int:
    """The score of what is unknown, in hundredths: the median of the known ones, 50 at most.

    Always below the best known one, and over 0 as long as that is: unknown is neither good nor
    bad. 50 when nothing is known at all.
    """
    known = sorted(scores)
    if not known:
        return 5_000
    best = known[-1]
    middle = min(5_000, known[(len(known) - 1) // 2])
    return max(min(middle, best - 1), min(1, best - 1), 0)


# -- choosing devices -----------------------------------------------------------------------------


def _best(
    free: Sequence[Device], scorer: Scorer, count: int, own_part: float
) -> tuple[Device, ...]:
    """The devices that earn most; among equals the first of the node.

    `own_part` of the compute points depends on the choice.
    """
    ranked = sorted(free, key=lambda device: -_worth(device, scorer, own_part))
    return tuple(ranked[:count])


def _worth(device: Device, scorer: Scorer, own_part: float) -> float:
    if scorer.strategy == "simple":
        return sum(_values(_simple((device,))))
    weights = scorer.weights
    compute, memory, spread = fractions(device, scorer)
    own = own_part * weights.compute * compute
    return own + weights.memory * memory + weights.spread * spread


def _only_fragmentation(weights: Weights) -> bool:
    return not (weights.compute or weights.memory or weights.spread)


def _least_harm(
    node: Node, free: Sequence[Device], scorer: Scorer, count: int
) -> tuple[tuple[Device, ...], float]:
    """The devices whose use fragments the node least, and by how much it does."""
    most = most_tenants(node.devices)
    parts = [
        instance_milli(device)
        if device.at.instance is not None
        else slot_milli(device.at.gpu, node.is_shared, most)
        for device in free
    ]
    first = {device.card: device for device in reversed(free)}
    demand = Demand(count, min(parts))
    placed = placement(node.room, demand, scorer.survey.mix, allowed=first)
    if placed is None:
        # More tenants than slots were seen, or several instances of one card are asked for.
        return tuple(free[:count]), 0.0
    return tuple(first[card] for card in placed.cards), placed.growth


def _simple(chosen: Sequence[Device]) -> ScoreParts:
    """100 - utilization - memory in GB, at least 0: the formula people start with."""
    compute = mean(100 - device.load_pct for device in chosen) or 0.0
    costs = (
        min(100 - device.load_pct, (device.at.memory_used_mib or 0.0) / _MIB_PER_GB)
        for device in chosen
    )
    memory = mean(costs) or 0.0
    total, first = _hundredths(compute - memory), _hundredths(compute)
    return ScoreParts(compute=first / 100, memory=(total - first) / 100)


def _means(rows: Iterable[tuple[float, float, float]]) -> tuple[float, float, float]:
    table = list(rows)
    count = len(table)
    first, second, third = (sum(column) / count for column in zip(*table, strict=True))
    return first, second, third


def _values(parts: ScoreParts) -> tuple[float, ...]:
    return (
        parts.compute,
        parts.memory,
        parts.spread,
        parts.fragmentation,
        parts.hot,
        parts.freshness,
    )


def _hundredths(points: float) -> int:
    return round(points * 100)


def _fraction(value: float) -> float:
    return min(1.0, max(0.0, value))

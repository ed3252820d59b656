"""The strategies by name, and how much each part of a score counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from gpuctl.errors import ConfigError, UsageError
from gpuctl.model.policy import WEIGHTS, Policy

StrategyName = Literal["least-loaded", "headroom", "pack", "fragmentation", "simple"]
STRATEGIES: tuple[StrategyName, ...] = get_args(StrategyName)


@dataclass(frozen=True, slots=True)
class Weights:
    """Points for each part. The first four add up to 100.

    `hot`: the percentage of a node's points that it loses when all of its GPUs are hot.
    """

    compute: float
    memory: float
    spread: float
    fragmentation: float
    hot: float


# Why these: latency goes with the headroom of the card (least-loaded), so memory is there only to
# prefer room to grow; pack values what is in use already, and opens an empty node last. hot: one
# hot card of four, where the new workload may land, outweighs what its cool neighbours offer.
_DEFAULTS: Mapping[StrategyName, Mapping[str, float]] = {
    "least-loaded": {"compute": 60, "memory": 15, "spread": 25, "fragmentation": 0, "hot": 80},
    "headroom": {"compute": 50, "memory": 50, "spread": 0, "fragmentation": 0, "hot": 80},
    "pack": {"compute": 40, "memory": 20, "spread": 0, "fragmentation": 40, "hot": 30},
    "fragmentation": {"compute": 0, "memory": 0, "spread": 0, "fragmentation": 100, "hot": 0},
    # Its formula has no weights: these are never read.
    "simple": {"compute": 100, "memory": 0, "spread": 0, "fragmentation": 0, "hot": 0},
}


def strategy_name(name: str) -> StrategyName:
    """`name` as a strategy. Raises UsageError, naming those that exist."""
    for known in STRATEGIES:
        if known == name:
            return known
    raise UsageError(f"there is no strategy {name!r}", cause=f"strategies: {', '.join(STRATEGIES)}")


def weights_of(strategy: StrategyName, policy: Policy) -> Weights:
    """The strategy's weights with those of the policy put over them, scaled to 100 points.

    Raises ConfigError for an unknown name, a negative weight, or when nothing is left to count.
    """
    unknown = sorted(policy.weights.keys() - set(WEIGHTS))
    if unknown:
        raise ConfigError(
            f"policy.weights: {unknown[0]!r} is not a part of a score",
            cause=f"parts: {', '.join(WEIGHTS)}",
        )
    merged = dict(_DEFAULTS[strategy])
    if strategy != "simple":
        merged.update(policy.weights)
    negative = sorted(name for name, weight in merged.items() if not weight >= 0)
    if negative:
        raise ConfigError(f"policy.weights.{negative[0]} must be 0 or more")
    hot = min(100.0, merged.pop("hot"))
    total = sum(merged.values())
    if not total:
        raise ConfigError(
            "policy.weights leaves nothing to score by",
            cause=f"with strategy {strategy}, {', '.join(merged)} are all 0",
            hint="give one of them a weight over 0",
        )
    scaled = {name: 100 * weight / total for name, weight in merged.items()}
    return Weights(**scaled, hot=hot)

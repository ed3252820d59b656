"""A sentence for each part of a score, for --explain."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuctl.model.quantities import memory_words
from gpuctl.model.score import ScoreReasons
from gpuctl.policy.balance import mean
from gpuctl.policy.scoring.parts import (
    MIXED_WORTH,
    PACKED,
    Assessment,
    Scorer,
    in_use_share,
    mixes_classes,
    picks_itself,
)
from gpuctl.policy.scoring.survey import Device, Node

_UNCOUNTED = "not counted by this strategy"


def reasons(node: Node, result: Assessment, scorer: Scorer) -> ScoreReasons:
    """What each part of an assessed node or device says."""
    if scorer.strategy == "simple":
        return _simple(result)
    return ScoreReasons(
        compute=_counted(scorer.weights.compute, lambda: _compute(node, result, scorer)),
        memory=_counted(scorer.weights.memory, lambda: _memory(result.chosen, scorer)),
        spread=_counted(scorer.weights.spread, lambda: _spread(result.chosen, scorer)),
        fragmentation=_counted(
            scorer.weights.fragmentation, lambda: _fragmentation(node, result, scorer)
        ),
        hot=_hot(node, result, scorer),
        freshness="all figures it rests on are fresh",
    )


def unknown_reasons(because: str) -> ScoreReasons:
    """The reasons of a neutral score."""
    return ScoreReasons(
        compute="unknown",
        memory="unknown",
        spread="unknown",
        fragmentation="unknown",
        hot="unknown",
        freshness=f"{because}: a neutral score, under that of the best node with fresh figures",
    )


def _counted(weight: float, words: Callable[[], str]) -> str:
    return f"{words()}; worth up to {weight:.4g} points" if weight > 0 else _UNCOUNTED


def _compute(node: Node, result: Assessment, scorer: Scorer) -> str:
    chosen = result.chosen
    load = mean(device.load_pct for device in chosen) or 0.0
    basis = "over the window" if all(d.at.basis == "window" for d in chosen) else "now"
    words = f"{_names(chosen)} at {load:.0f} % {basis}"
    if result.by_node and picks_itself(node, scorer.request):
        loads = mean(d.load_pct for d in node.devices if d.unknown_because is None) or 0.0
        words += f", the node at {loads:.0f} % (it picks the card itself)"
    if scorer.strategy == "pack":
        words += f": the fuller, the better, up to {PACKED * scorer.survey.hot_above:.0f} %"
    if any(mixes_classes(device, scorer.request) for device in chosen):
        other = "inference" if scorer.request.workload_class == "training" else "training"
        words += f"; beside {other} it is worth {100 * MIXED_WORTH:.0f} %"
    return words


def _memory(chosen: Sequence[Device], scorer: Scorer) -> str:
    free = mean(device.free_mib for device in chosen) or 0.0
    total = mean(device.at.memory_total_mib for device in chosen) or 0.0
    words = f"{memory_words(free)} of {memory_words(total)} free"
    asked = scorer.request.memory_mib
    if asked is not None:
        words += f", {memory_words(asked)} asked for"
    return words + (": the fuller, the better" if scorer.strategy == "pack" else "")


def _spread(chosen: Sequence[Device], scorer: Scorer) -> str:
    load = mean(device.load_pct for device in chosen) or 0.0
    low, high = scorer.survey.lowest_pct, scorer.survey.highest_pct
    if high - load < 1:
        return f"it is the busiest already at {high:.0f} %: more load widens the spread"
    return f"{high - load:.0f} points under the busiest; loads run from {low:.0f} to {high:.0f} %"


def _fragmentation(node: Node, result: Assessment, scorer: Scorer) -> str:
    if scorer.strategy == "pack":
        return f"{100 * in_use_share(node):.0f} % of its devices are in use: filled up first"
    growth = result.growth or 0.0
    what = "of free GPU that the current mix of workloads could not use"
    if abs(growth) < 0.0005:
        return f"the amount {what} stays as it is"
    more = "more" if growth > 0 else "fewer"
    return f"{abs(growth):.3f} cards {more} {what}"


def _hot(node: Node, result: Assessment, scorer: Scorer) -> str:
    if not scorer.weights.hot:
        return _UNCOUNTED
    if not result.hot:
        return "none of its GPUs is hot" if result.by_node else "it is not hot"
    what = "GPUs and MIG instances" if any(d.at.instance for d in node.devices) else "GPUs"
    verb = "is" if result.hot == 1 else "are"
    return (
        f"{result.hot} of its {len(node.devices)} {what} {verb} hot; "
        f"all of them would cost {scorer.weights.hot:.4g} % of the points"
    )


def _simple(result: Assessment) -> ScoreReasons:
    load = mean(device.load_pct for device in result.chosen) or 0.0
    used = mean(device.at.memory_used_mib for device in result.chosen) or 0.0
    return ScoreReasons(
        compute=f"100 minus {load:.0f} % utilization of {_names(result.chosen)}",
        memory=f"minus {used / 1024:.0f} GB of memory in use, down to a score of 0",
        spread=_UNCOUNTED,
        fragmentation=_UNCOUNTED,
        hot=_UNCOUNTED,
        freshness="all figures it rests on are fresh",
    )


def _names(chosen: Sequence[Device]) -> str:
    return ", ".join(device.name for device in chosen)

"""Nodes, or single GPUs and MIG instances, ranked for a new workload."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Literal

from msgspec.structs import replace

from gpuctl.errors import shorten
from gpuctl.model.policy import Policy
from gpuctl.model.score import Refusal, Request, Scored, ScoreListDocument, ScoreParts
from gpuctl.model.snapshot import Snapshot
from gpuctl.policy.requests import Offer, availability, offer, why_not
from gpuctl.policy.scoring.parts import Assessment, Scorer, assess_device, assess_node, neutral
from gpuctl.policy.scoring.reasons import reasons, unknown_reasons
from gpuctl.policy.scoring.survey import Device, Node, Survey, survey
from gpuctl.policy.scoring.weights import (
    StrategyName,
    Weights,
    strategy_name,
    weights_of,
)
from gpuctl.policy.verdict import Verdict

Level = Literal["node", "gpu"]
_WILDCARDS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class ScoreReport:
    """The ranking: `items` best first, `refused` by name, and what to know about both.

    Order of items: score, fresh before stale, the lower utilization, then node, GPU, instance.
    """

    level: Level
    strategy: StrategyName
    weights: Weights
    request: Request
    items: tuple[Scored, ...]
    refused: tuple[Refusal, ...]
    warnings: tuple[str, ...]


def score_nodes(
    snapshot: Snapshot,
    policy: Policy,
    request: Request,
    strategy: str | None = None,
    *,
    nodes: Collection[str] = (),
    explain: bool = False,
) -> ScoreReport:
    """Nodes that could take the workload, with their scores, and those that can't.

    `strategy` replaces the policy's. `nodes`: globs of the candidates, all when empty. Nodes
    with unknown or stale figures get a neutral score; they are never the best as long as one with
    fresh figures is left. Raises UsageError for an unknown strategy, ConfigError for bad weights.
    """
    scorer = _scorer(snapshot, policy, request, strategy)
    found = ranked_nodes(scorer, nodes=nodes, explain=explain)
    return _report("node", scorer, *found, snapshot, policy)


def score_devices(
    snapshot: Snapshot,
    policy: Policy,
    request: Request,
    strategy: str | None = None,
    *,
    nodes: Collection[str] = (),
    explain: bool = False,
) -> ScoreReport:
    """The same for single GPUs, or MIG instances when the request names a profile.

    Devices of another model or kind are not listed. `request.gpus` counts as 1.
    """
    scorer = _scorer(snapshot, policy, replace(request, gpus=1), strategy)
    found = ranked_devices(scorer, nodes=nodes, explain=explain)
    return _report("gpu", scorer, *found, snapshot, policy)


def score_document(
    report: ScoreReport, snapshot: Snapshot, *, generated_at: datetime
) -> ScoreListDocument:
    """The report as a document."""
    weights = {
        name: round(getattr(report.weights, name), 2)
        for name in ("compute", "memory", "spread", "fragmentation", "hot")
    }
    return ScoreListDocument(
        generated_at=generated_at,
        taken_at=snapshot.taken_at,
        context=snapshot.context,
        cluster=snapshot.cluster,
        source=snapshot.source,
        simulated=snapshot.source.simulated,
        level=report.level,
        strategy=report.strategy,
        weights={} if report.strategy == "simple" else weights,
        request=report.request,
        items=report.items,
        refused=report.refused,
        warnings=report.warnings,
    )


def _scorer(snapshot: Snapshot, policy: Policy, request: Request, strategy: str | None) -> Scorer:
    name = strategy_name(strategy or policy.strategy)
    return Scorer(name, weights_of(name, policy), request, survey(snapshot, policy))


# -- ranking ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An item before neutral scores are known; `result` is None where it gets one."""

    node: Node
    device: Device | None
    offer: Offer
    result: Assessment | None
    reason: str


def ranked_nodes(
    scorer: Scorer, *, nodes: Collection[str] = (), explain: bool = False
) -> tuple[tuple[Scored, ...], tuple[Refusal, ...]]:
    """Items and refusals of the nodes that fit a glob (all without globs), in order."""
    candidates: list[_Candidate] = []
    refused: list[Refusal] = []
    for node in _selected(scorer.survey, nodes):
        made = offer(node, scorer.request)
        if made.verdict.is_refusal:
            refused.append(
                Refusal(node=node.name, rule=made.verdict.rule, reason=made.verdict.reason)
            )
        elif made.verdict.is_unknown:
            candidates.append(_Candidate(node, None, made, None, made.verdict.reason))
        else:
            result = assess_node(node, made.free, scorer)
            candidates.append(_Candidate(node, None, made, result, _remark(node, made, result)))
    return _in_order(candidates, scorer, explain=explain), tuple(refused)


def ranked_devices(
    scorer: Scorer, *, nodes: Collection[str] = (), explain: bool = False
) -> tuple[tuple[Scored, ...], tuple[Refusal, ...]]:
    """The same for every device of the kind that is asked for."""
    candidates: list[_Candidate] = []
    refused: list[Refusal] = []
    for node in _selected(scorer.survey, nodes):
        made = offer(node, scorer.request)
        if made.verdict.rule == "not-shared":
            verdict = made.verdict
            refused += [_refused(node, one, verdict) for one in made.devices]
            continue
        for device in made.devices:
            match availability(device, node, scorer.request):
                case "free":
                    result = assess_device(node, device, scorer)
                    candidates.append(_Candidate(node, device, made, result, ""))
                case "unknown":
                    because = device.unknown_because or "no fresh metrics"
                    candidates.append(_Candidate(node, device, made, None, because))
                case why:
                    refused.append(
                        _refused(node, device, why_not(device, node, why, scorer.request))
                    )
    return _in_order(candidates, scorer, explain=explain), tuple(refused)


def _selected(whole: Survey, globs: Collection[str]) -> Iterator[Node]:
    lowered = {glob.lower() for glob in globs}
    # A scheduler names a thousand nodes one by one: those need no matching.
    patterns = sorted(glob for glob in lowered if _WILDCARDS.intersection(glob))
    for node in whole.nodes:
        name = node.name.lower()
        if not lowered or name in lowered or any(fnmatchcase(name, glob) for glob in patterns):
            yield node


def _in_order(
    candidates: Iterable[_Candidate], scorer: Scorer, *, explain: bool
) -> tuple[Scored, ...]:
    found = list(candidates)
    middle = neutral(one.result.hundredths for one in found if one.result is not None) / 100
    items = [_scored(one, middle, scorer, explain=explain) for one in found]
    return tuple(sorted(items, key=_rank))


def _rank(item: Scored) -> tuple[float, bool, float, str, int, str, int]:
    gpu = -1 if item.gpu is None else item.gpu
    mig_id = -1 if item.mig_id is None else item.mig_id
    load = 100.0 if item.utilization_mean_pct is None else item.utilization_mean_pct
    return -item.score, item.stale, load, item.node, gpu, item.uuid or "", mig_id


def _scored(one: _Candidate, middle: float, scorer: Scorer, *, explain: bool) -> Scored:
    result, node, device = one.result, one.node, one.device
    free = one.offer.free if device is None else (device,)
    memory = [room for d in free if (room := d.free_mib) is not None]
    item = Scored(
        node=node.name,
        score=middle if result is None else result.score,
        stale=result is None,
        parts=ScoreParts(freshness=middle) if result is None else result.points,
        gpus=len(one.offer.devices) if node.cards else None,
        gpus_free=None if result is None else len(one.offer.free),
        utilization_mean_pct=_rounded(node.utilization_mean_pct),
        memory_free_mib=max(memory) if memory and result is not None else None,
        reason=one.reason,
    )
    if explain:
        said = unknown_reasons(one.reason) if result is None else reasons(node, result, scorer)
        item = replace(item, explanation=said)
    return item if device is None else _of_device(item, device)


def _of_device(item: Scored, device: Device) -> Scored:
    gpu, instance = device.at.gpu, device.at.instance
    is_known = device.unknown_because is None
    return replace(
        item,
        gpu=gpu.gpu,
        uuid=gpu.uuid,
        mig_id=None if instance is None else instance.id,
        mig_profile=None if instance is None else instance.profile,
        gpus=1,
        gpus_free=1 if is_known else None,
        utilization_mean_pct=_rounded(device.at.load_pct) if is_known else None,
    )


def _refused(node: Node, device: Device, verdict: Verdict) -> Refusal:
    gpu, instance = device.at.gpu, device.at.instance
    return Refusal(
        node=node.name,
        gpu=gpu.gpu,
        uuid=gpu.uuid,
        mig_id=None if instance is None else instance.id,
        mig_profile=None if instance is None else instance.profile,
        rule=verdict.rule,
        reason=verdict.reason,
    )


def _remark(node: Node, made: Offer, result: Assessment) -> str:
    """What a person should know beside the figures."""
    parts = []
    if result.hot:
        parts.append(f"{result.hot} of {len(node.devices)} hot")
    unknown = sum(device.unknown_because is not None for device in node.devices)
    if unknown:
        parts.append(f"{unknown} of {len(node.devices)} unknown")
    if node.is_shared and any(d.at.instance is None and d.at.gpu.slots is None for d in made.free):
        parts.append("free slots not known")
    return ", ".join(parts)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


# -- the report ---------------------------------------------------------------------------------


def _report(
    level: Level,
    scorer: Scorer,
    items: tuple[Scored, ...],
    refused: tuple[Refusal, ...],
    snapshot: Snapshot,
    policy: Policy,
) -> ScoreReport:
    return ScoreReport(
        level=level,
        strategy=scorer.strategy,
        weights=scorer.weights,
        request=scorer.request,
        items=items,
        refused=refused,
        warnings=(*snapshot.warnings, *_warnings(items, scorer, snapshot, policy)),
    )


def _warnings(
    items: Collection[Scored], scorer: Scorer, snapshot: Snapshot, policy: Policy
) -> Iterator[str]:
    stale = sorted({item.node for item in items if item.stale})
    if stale:
        words = "only unknown ones could take it" if len(stale) == len(items) else "scored neutral"
        count = "1 node is" if len(stale) == 1 else f"{len(stale)} nodes are"
        yield f"{count} unknown or stale, {words}: {shorten(stale, 5)}"
    if snapshot.window_seconds is None:
        yield "hot can't be judged from one moment, nothing is refused for it; see --sample-for"
    if scorer.strategy == "simple" and policy.weights:
        yield "strategy simple has a fixed formula: policy.weights does not count"
    if scorer.request.unchecked:
        yield f"not checked against the nodes: {', '.join(scorer.request.unchecked)}"

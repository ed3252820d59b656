"""`--to auto`: which nodes could take a VM, the best first, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuctl.errors import RefusedError, shorten
from gpuctl.model.policy import Policy
from gpuctl.model.score import Request, Scored
from gpuctl.model.snapshot import Snapshot
from gpuctl.policy.attribution import attributed
from gpuctl.policy.classes import workload_class
from gpuctl.policy.scoring.ranking import score_nodes


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that offers what the VM needs, with the reason for its rank."""

    node: str
    why: str


def by_score(
    snapshot: Snapshot,
    policy: Policy,
    vm: str,
    devices: int,
    nodes: Mapping[str, str],
    offer: str,
) -> tuple[Candidate, ...]:
    """The nodes by the scores of their GPUs, as `gpuctl score` gives them.

    `nodes`: name in the metrics -> name of the hypervisor, of those that offer what the VM needs;
    `offer` says what that is. Raises RefusedError when none of them can take it.
    """
    report = score_nodes(snapshot, policy, _request(snapshot, policy, vm, devices), nodes=nodes)
    fresh = [item for item in report.items if not item.stale]
    if not fresh:
        refused = [f"{one.node}: {one.reason}" for one in report.refused]
        refused += [f"{one.node}: no fresh metrics" for one in report.items if one.stale]
        raise RefusedError(
            f"no node can take {vm} by its GPU metrics",
            cause=shorten(refused, 5) or "no node that the VM could run on has GPU metrics",
            hint="see gpuctl score, or name the target: --to NODE",
        )
    places = [nodes[item.node] for item in fresh]
    return tuple(
        Candidate(place, _why(place, item, n, len(fresh), offer, report.strategy))
        for n, (place, item) in enumerate(zip(places, fresh, strict=True))
    )


def _why(place: str, item: Scored, rank: int, count: int, offer: str, strategy: str) -> str:
    """`gpu-b scores 66.4 (least-loaded, its GPUs at 12 % on average), the best of 3 that ...`."""
    load = item.utilization_mean_pct
    basis = [strategy]
    basis += [] if load is None else [f"its GPUs at {load:.0f} % on average"]
    basis += [item.reason] if item.reason else []
    if count == 1:
        place_among = "the only node"
    else:
        place_among = f"{'the best' if rank == 0 else f'number {rank + 1}'} of {count} nodes"
    return f"{place} scores {item.score:.1f} ({', '.join(basis)}), {place_among} that {offer}"


def by_memory(free_mib: Mapping[str, float | None]) -> tuple[Candidate, ...]:
    """The nodes by free memory, for a VM without a GPU, whose place GPU loads do not decide."""
    known = [(free, node) for node, free in free_mib.items() if free is not None]
    return tuple(
        Candidate(
            node,
            f"{node} has the most free memory, {free / 1024:.0f} GiB"
            if n == 0
            else f"{node} has {free / 1024:.0f} GiB of free memory"
            + "; the VM has no GPU, so scores do not count",
        )
        for n, (free, node) in enumerate(sorted(known, key=lambda one: (-one[0], one[1])))
    )


def _request(snapshot: Snapshot, policy: Policy, vm: str, devices: int) -> Request:
    known = next((one for one in attributed(snapshot, policy) if one.id == vm), None)
    kind = "unknown" if known is None else workload_class(known, policy)
    return Request(
        gpus=max(1, devices),
        memory_mib=None if known is None else known.memory_mib,
        workload_class=None if kind == "unknown" else kind,
    )

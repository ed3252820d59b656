"""The heat map of a snapshot: every device judged, selected, summed up and sorted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Literal

from gpuctl.errors import shorten
from gpuctl.model.gpu import Gpu, GpuState, MigInstance, memory_pct
from gpuctl.model.heatmap import (
    HeatmapDocument,
    HeatmapGpu,
    HeatmapInstance,
    HeatmapSummary,
    NodeLoad,
)
from gpuctl.model.policy import Policy
from gpuctl.model.snapshot import Snapshot
from gpuctl.policy.balance import balance_ratio, coverage_pct, mean, silent_nodes, spread
from gpuctl.policy.filters import Selection
from gpuctl.policy.hotspots import gpu_heat, instance_heat

Sort = Literal["spread", "name", "util", "mem"]


def heatmap_document(
    snapshot: Snapshot,
    policy: Policy,
    *,
    generated_at: datetime,
    selection: Selection | None = None,
    sort: Sort = "spread",
) -> HeatmapDocument:
    """The heat map. Its summary counts what is selected; coverage is always the cluster's."""
    chosen = selection or Selection()
    everything = [_gpu(gpu, policy, snapshot) for gpu in snapshot.gpus]
    shown = [gpu for gpu in everything if chosen.keeps(gpu)]
    nodes = _nodes(shown, sort)
    place = {load.node: index for index, load in enumerate(nodes)}
    shown.sort(key=lambda g: (place[g.node], -1 if g.gpu is None else g.gpu, g.uuid))
    coverage = coverage_pct(snapshot.gpus, snapshot.known_nodes)
    return HeatmapDocument(
        generated_at=generated_at,
        taken_at=snapshot.taken_at,
        context=snapshot.context,
        cluster=snapshot.cluster,
        source=snapshot.source,
        simulated=snapshot.source.simulated,
        metrics_age_seconds=_rounded(snapshot.metrics_age_seconds),
        hot_above_pct=policy.hot_above,
        idle_below_pct=policy.idle_below,
        window_seconds=snapshot.window_seconds,
        summary=_summary(shown, nodes, coverage),
        nodes=tuple(nodes),
        items=tuple(shown),
        warnings=(*snapshot.warnings, *_warnings(snapshot, policy, shown, len(everything))),
    )


def _gpu(gpu: Gpu, policy: Policy, snapshot: Snapshot) -> HeatmapGpu:
    heat = gpu_heat(gpu, policy)
    streak_holds = heat.hot and snapshot.hot_above_pct == policy.hot_above
    return HeatmapGpu(
        node=gpu.node,
        gpu=gpu.gpu,
        uuid=gpu.uuid,
        model=gpu.model,
        pci_bus_id=gpu.pci_bus_id,
        state=gpu.state,
        utilization_pct=_rounded(gpu.utilization_pct),
        utilization_source=gpu.utilization_source,
        memory_used_mib=gpu.memory_used_mib,
        memory_total_mib=gpu.memory_total_mib,
        memory_pct=_rounded(gpu.memory_pct),
        hot=heat.hot,
        hot_for_seconds=gpu.hot_for_seconds if streak_holds else None,
        hot_for_capped=gpu.hot_for_capped if streak_holds else False,
        idle=heat.idle,
        temperature_c=gpu.temperature_c,
        power_w=gpu.power_w,
        memory_bandwidth_pct=_rounded(gpu.memory_bandwidth_pct),
        tensor_pct=_rounded(gpu.tensor_pct),
        xid=gpu.xid,
        age_seconds=_rounded(gpu.age_seconds),
        allocated_slices=gpu.allocated_slices,
        total_slices=gpu.total_slices,
        workloads=gpu.workloads,
        tenants=gpu.tenants,
        mig=tuple(_instance(gpu, instance, policy, snapshot) for instance in gpu.mig),
    )


def _instance(
    gpu: Gpu, instance: MigInstance, policy: Policy, snapshot: Snapshot
) -> HeatmapInstance:
    heat = instance_heat(gpu, instance, policy)
    streak_holds = heat.hot and snapshot.hot_above_pct == policy.hot_above
    return HeatmapInstance(
        id=instance.id,
        profile=instance.profile,
        utilization_pct=_rounded(instance.utilization_pct),
        memory_used_mib=instance.memory_used_mib,
        memory_total_mib=instance.memory_total_mib,
        memory_pct=_rounded(memory_pct(instance.memory_used_mib, instance.memory_total_mib)),
        hot=heat.hot,
        hot_for_seconds=instance.hot_for_seconds if streak_holds else None,
        hot_for_capped=instance.hot_for_capped if streak_holds else False,
        idle=heat.idle,
        memory_bandwidth_pct=_rounded(instance.memory_bandwidth_pct),
        tensor_pct=_rounded(instance.tensor_pct),
        workloads=tuple(dict.fromkeys(t.workload for t in instance.tenants)),
        tenants=instance.tenants,
    )


def _trusted(gpu: HeatmapGpu) -> float | None:
    return gpu.utilization_pct if gpu.state in (GpuState.OK, GpuState.NO_MEM) else None


def _nodes(gpus: Iterable[HeatmapGpu], sort: Sort) -> list[NodeLoad]:
    grouped: dict[str, list[HeatmapGpu]] = {}
    for gpu in gpus:
        grouped.setdefault(gpu.node, []).append(gpu)
    return sorted((_node(name, own) for name, own in grouped.items()), key=_ORDER[sort])


def _node(name: str, gpus: Sequence[HeatmapGpu]) -> NodeLoad:
    loads = [_trusted(gpu) for gpu in gpus]
    return NodeLoad(
        node=name,
        gpus=len(gpus),
        utilization_mean_pct=_rounded(mean(loads)),
        utilization_spread_pct=_rounded(spread(loads)),
        memory_mean_pct=_rounded(
            mean(gpu.memory_pct for gpu in gpus if gpu.state is not GpuState.STALE)
        ),
        hot=sum(bool(gpu.hot) for gpu in gpus),
        idle=sum(bool(gpu.idle) for gpu in gpus),
        unknown=sum(load is None for load in loads),
    )


def _highest_first(value: float | None) -> float:
    return 1.0 if value is None else -value


_ORDER: dict[Sort, Callable[[NodeLoad], tuple[float, float, str]]] = {
    # Among nodes of equal spread the busier one is the worse one.
    "spread": lambda n: (
        _highest_first(n.utilization_spread_pct),
        _highest_first(n.utilization_mean_pct),
        n.node,
    ),
    "name": lambda n: (0, 0, n.node),
    "util": lambda n: (_highest_first(n.utilization_mean_pct), 0, n.node),
    "mem": lambda n: (_highest_first(n.memory_mean_pct), 0, n.node),
}


def _summary(
    gpus: Sequence[HeatmapGpu], nodes: Sequence[NodeLoad], coverage: float | None
) -> HeatmapSummary:
    loads = [_trusted(gpu) for gpu in gpus]
    lost = sum(gpu.state is GpuState.LOST for gpu in gpus)
    return HeatmapSummary(
        nodes=len(nodes),
        gpus=len(gpus),
        hot=sum(bool(gpu.hot) for gpu in gpus),
        hot_instances=sum(bool(i.hot) for gpu in gpus for i in gpu.mig),
        idle=sum(bool(gpu.idle) for gpu in gpus),
        lost=lost,
        unknown=sum(load is None for load in loads) - lost,
        spread_pct=_rounded(spread(loads)),
        balance_ratio=_rounded(balance_ratio(n.utilization_mean_pct for n in nodes)),
        coverage_pct=_rounded(coverage),
    )


def _warnings(
    snapshot: Snapshot, policy: Policy, shown: Sequence[HeatmapGpu], total: int
) -> list[str]:
    warnings = []
    if len(shown) < total:
        warnings.append(f"filtered: {len(shown)} of {total} GPUs shown")
    silent = silent_nodes(snapshot.gpus, snapshot.known_nodes)
    if silent:
        known = len(set(snapshot.known_nodes) | {gpu.node for gpu in snapshot.gpus})
        warnings.append(
            f"{len(silent)} of {known} nodes have no fresh GPU metrics: {shorten(silent, 5)}"
        )
    stale = sum(gpu.state is GpuState.STALE for gpu in shown)
    if stale:
        warnings.append(f"{stale} GPUs have no fresh metrics; they count as unknown")
    if snapshot.window_seconds is None:
        warnings.append("hot and idle can't be judged from one moment; see --sample-for")
    elif snapshot.window_seconds < 0.99 * policy.hot_for.total_seconds():
        warnings.append(
            f"hot and idle are judged over {snapshot.window_seconds:.0f}s, "
            f"the policy's window is {policy.hot_for.total_seconds():.0f}s"
        )
    return warnings


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)

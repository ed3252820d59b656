"""Small documents to draw: clusters with a hot card, MIG, lost and stale GPUs, of any size."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from gpuctl.model.gpu import GpuState, Tenant, memory_pct
from gpuctl.model.heatmap import (
    HeatmapDocument,
    HeatmapGpu,
    HeatmapInstance,
    HeatmapSummary,
    NodeLoad,
)
from gpuctl.model.history import HistoryDocument, HistorySeries, Metric
from gpuctl.model.snapshot import Source

NIGHT = datetime(2026, 3, 1, 3, 12, 7, tzinfo=UTC)
PROMETHEUS = Source(kind="prometheus", location="https://prometheus.example:9090/prom")
SIMULATION = Source(kind="simulation", location="hk-night", simulated=True)
UNTRUSTED = (GpuState.LOST, GpuState.STALE)


def a_gpu(
    node: str = "gpu-node-1",
    gpu: int | None = 0,
    util: float | None = 20.0,
    mem: float | None = 40_000.0,
    *,
    state: GpuState = GpuState.OK,
    workloads: Sequence[str] = (),
    mig: Sequence[HeatmapInstance] = (),
    **changes: Any,
) -> HeatmapGpu:
    """One A100 80GB; hot over 90 % and idle under 30 % unless `changes` say otherwise."""
    judged = state in (GpuState.OK, GpuState.NO_MEM) and util is not None
    total = 81_920.0
    values: dict[str, Any] = {
        "node": node,
        "gpu": gpu,
        "uuid": f"GPU-{node}-{gpu}",
        "model": "NVIDIA A100-SXM4-80GB",
        "pci_bus_id": None if gpu is None else f"00000000:{gpu + 1:02X}:00.0",
        "state": state,
        "utilization_pct": util,
        "utilization_source": None if util is None else "DCGM_FI_DEV_GPU_UTIL",
        "memory_used_mib": mem,
        "memory_total_mib": total,
        "memory_pct": memory_pct(mem, total),
        "hot": (util or 0) > 90 if judged else None,
        "hot_for_seconds": 2_833.0 if judged and (util or 0) > 90 else None,
        "hot_for_capped": False,
        "idle": (util or 0) < 30 if judged else None,
        "temperature_c": 35.0 + (util or 0) / 2,
        "power_w": 60.0 + 3 * (util or 0),
        "memory_bandwidth_pct": (util or 0) / 2,
        "tensor_pct": (util or 0) / 4,
        "xid": None,
        "age_seconds": 7.0,
        "allocated_slices": sum(_slices(i.profile) for i in mig) if mig else None,
        "total_slices": 7 if mig else None,
        "workloads": tuple(workloads) or tuple(w for i in mig for w in i.workloads),
        "tenants": tuple(Tenant(workload=w) for w in workloads),
        "mig": tuple(mig),
    }
    return HeatmapGpu(**{**values, **changes})


def _slices(profile: str) -> int:
    """Compute slices of `3g.40gb`; 0 for a profile that is none."""
    digit = profile.partition("g.")[0]
    return int(digit) if digit.isascii() and digit.isdigit() else 0


def an_instance(
    number: int = 1,
    profile: str = "3g.40gb",
    util: float | None = 50.0,
    mem: float | None = 20_000.0,
    *,
    workloads: Sequence[str] = (),
    **changes: Any,
) -> HeatmapInstance:
    """One MIG instance with 40 GB."""
    values: dict[str, Any] = {
        "id": number,
        "profile": profile,
        "utilization_pct": util,
        "memory_used_mib": mem,
        "memory_total_mib": 40_192.0,
        "memory_pct": memory_pct(mem, 40_192.0),
        "hot": None if util is None else util > 90,
        "hot_for_seconds": 600.0 if (util or 0) > 90 else None,
        "hot_for_capped": False,
        "idle": None if util is None else util < 30,
        "memory_bandwidth_pct": None,
        "tensor_pct": None,
        "workloads": tuple(workloads),
        "tenants": tuple(Tenant(workload=w) for w in workloads),
    }
    return HeatmapInstance(**{**values, **changes})


def a_heatmap(*gpus: HeatmapGpu, **changes: Any) -> HeatmapDocument:
    """The document of `gpus`, summed up, nodes by falling spread as the policy sorts them."""
    by_node: dict[str, list[HeatmapGpu]] = {}
    for gpu in gpus:
        by_node.setdefault(gpu.node, []).append(gpu)
    loads = sorted(
        (_load(node, own) for node, own in by_node.items()),
        key=lambda load: (
            load.utilization_spread_pct is None,
            -(load.utilization_spread_pct or 0),
            -(load.utilization_mean_pct or 0),
            load.node,
        ),
    )
    known = [u for gpu in gpus if (u := _trusted(gpu)) is not None]
    means = [max(1.0, m) for load in loads if (m := load.utilization_mean_pct) is not None]
    lost = sum(gpu.state is GpuState.LOST for gpu in gpus)
    values: dict[str, Any] = {
        "generated_at": NIGHT,
        "taken_at": NIGHT,
        "context": "hk",
        "cluster": "hk",
        "source": PROMETHEUS,
        "simulated": False,
        "metrics_age_seconds": 7.0,
        "hot_above_pct": 90.0,
        "idle_below_pct": 30.0,
        "window_seconds": 300.0,
        "summary": HeatmapSummary(
            nodes=len(loads),
            gpus=len(gpus),
            hot=sum(bool(gpu.hot) for gpu in gpus),
            hot_instances=sum(bool(i.hot) for gpu in gpus for i in gpu.mig),
            idle=sum(bool(gpu.idle) for gpu in gpus),
            lost=lost,
            unknown=len(gpus) - len(known) - lost,
            spread_pct=max(known) - min(known) if known else None,
            balance_ratio=max(means) / min(means) if means else None,
            coverage_pct=100.0 if known else None,
        ),
        "nodes": tuple(loads),
        "items": tuple(gpu for load in loads for gpu in by_node[load.node]),
        "warnings": (),
    }
    return HeatmapDocument(**{**values, **changes})


def _trusted(gpu: HeatmapGpu) -> float | None:
    return None if gpu.state in UNTRUSTED else gpu.utilization_pct


def _load(node: str, gpus: Sequence[HeatmapGpu]) -> NodeLoad:
    known = [u for gpu in gpus if (u := _trusted(gpu)) is not None]
    memory = [gpu.memory_pct for gpu in gpus if gpu.memory_pct is not None]
    return NodeLoad(
        node=node,
        gpus=len(gpus),
        utilization_mean_pct=sum(known) / len(known) if known else None,
        utilization_spread_pct=max(known) - min(known) if known else None,
        memory_mean_pct=sum(memory) / len(memory) if memory else None,
        hot=sum(bool(gpu.hot) for gpu in gpus),
        idle=sum(bool(gpu.idle) for gpu in gpus),
        unknown=len(gpus) - len(known),
    )


def a_cluster(
    nodes: int, gpus: int, *, name: str = "gpu-node-{}", **changes: Any
) -> HeatmapDocument:
    """Any size, the same every time: loads spread over 3..87 %, a hot card in every 50th node."""
    digits = len(str(nodes))
    items = []
    for n in range(1, nodes + 1):
        for g in range(gpus):
            util = float((n * 37 + g * 23) % 85 + 3)
            if n % 50 == 3 and g == 2:
                util = 96.0
            lost = n % 100 == 7 and g == 1
            items.append(
                a_gpu(
                    name.format(f"{n:0{digits}}"),
                    g,
                    None if lost else util,
                    None if lost else float((n * 7_919 + g * 3_571) % 80_000),
                    state=GpuState.LOST if lost else GpuState.OK,
                    workloads=("prod/llm-server-0",) if util > 90 else (),
                )
            )
    return a_heatmap(*items, **changes)


def the_night(**changes: Any) -> HeatmapDocument:
    """Eight nodes of four: a card at 96 %, cool neighbours, MIG, a lost, a stale, a mute GPU."""
    mig = (
        an_instance(1, "3g.40gb", 97, 38_000, workloads=("prod/embed-7",)),
        an_instance(2, "2g.20gb", 12, 4_000, workloads=("prod/rerank-0",)),
        an_instance(9, "1g.10gb", None, None),
    )
    gpus = []
    for n in range(1, 9):
        for g in range(4):
            node = "香港-机房-gpu-5" if n == 5 else f"gpu-node-{n}"
            util, mem = float(14 + (n * 5 + g * 7) % 40), 20_000.0 + 6_000 * ((n + g) % 7)
            gpus.append(_night_gpu(node, n, g, util, mem, mig))
    return a_heatmap(*gpus, **changes)


def _night_gpu(
    node: str, n: int, g: int, util: float, mem: float, mig: Sequence[HeatmapInstance]
) -> HeatmapGpu:
    special: dict[tuple[int, int], HeatmapGpu] = {
        (3, 1): a_gpu(
            node, g, 96, 74_000, workloads=("prod/llm-server-0", "prod/llm-server-1", "vm/101")
        ),
        (4, 0): a_gpu(node, g, 93, 60_000, hot_for_seconds=10_800.0, hot_for_capped=True),
        (6, 2): a_gpu(node, g, None, None, state=GpuState.LOST, xid=79),
        (7, 3): a_gpu(node, g, 42, 30_000, state=GpuState.STALE, age_seconds=400.0),
        (8, 0): a_gpu(node, g, None, 11_000, state=GpuState.NO_UTIL),
        (8, 1): a_gpu(node, g, 55, None, state=GpuState.NO_MEM),
        (2, 3): a_gpu(node, g, 46, 42_000, mig=mig),
    }
    return special.get((n, g)) or a_gpu(node, g, util, mem, workloads=(f"prod/app-{n}-{g}",))


def a_history(
    gpus: int = 4, steps: int = 24, *, metric: Metric = "util", unit: str = "%", **changes: Any
) -> HistoryDocument:
    """GPUs over time in steps of five minutes: one that climbs, one that was silent for a while."""
    values: list[HistorySeries] = []
    for g in range(gpus):
        row: list[float | None] = [float((g * 29 + s * (g + 1)) % 60 + 5) for s in range(steps)]
        if g == 1:
            row = [min(99.0, 20 + 80 * s / max(1, steps - 1)) for s in range(steps)]
        if g == 2:
            row = [None if steps // 3 <= s < steps // 2 else v for s, v in enumerate(row)]
        node = f"gpu-node-{g // 4 + 1}"
        values.append(
            HistorySeries(node=node, gpu=g % 4, uuid=f"GPU-{node}-{g % 4}", values=tuple(row))
        )
    document: dict[str, Any] = {
        "generated_at": NIGHT,
        "context": "hk",
        "cluster": "hk",
        "source": PROMETHEUS,
        "simulated": False,
        "metric": metric,
        "unit": unit,
        "step_seconds": 300.0,
        "times": tuple(NIGHT - timedelta(minutes=5 * (steps - 1 - s)) for s in range(steps)),
        "items": tuple(values),
        "warnings": (),
    }
    return HistoryDocument(**{**document, **changes})

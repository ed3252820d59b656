"""GPUs and snapshots for the tests of hot, idle, spread and the overview, in one line each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from gpuctl.metrics.windows import stats
from gpuctl.model.gpu import Gpu, GpuState, MigInstance, Tenant, WindowStats
from gpuctl.model.heatmap import HeatmapDocument
from gpuctl.model.policy import Policy
from gpuctl.model.snapshot import Snapshot, Source
from gpuctl.policy.overview import heatmap_document

NOON = datetime(2025, 6, 1, 12, tzinfo=UTC)
POLICY = Policy()


def a_window(*values: float | None, step: float = 30) -> WindowStats | None:
    """A window with these values at its steps; one value stands for a full five minutes."""
    return stats(values if len(values) > 1 else values * 11, step=step)


def a_card(
    node: str,
    gpu: int,
    load: float | None,
    *,
    window: WindowStats | Sequence[float | None] | None = (),
    pods: Sequence[str] = (),
    **more: Any,
) -> Gpu:
    """A card with a load; its window holds the same load unless one is given."""
    if isinstance(window, Sequence):
        window = a_window(*(window or (load,)))
    state = GpuState.OK if load is not None else GpuState.NO_UTIL
    fields: dict[str, Any] = {
        "state": state,
        "memory_used_mib": 1000.0,
        "memory_total_mib": 4000.0,
        "tenants": tuple(Tenant(workload=pod) for pod in pods),
    }
    return Gpu(
        node=node,
        gpu=gpu,
        uuid=f"GPU-{node}-{gpu}",
        utilization_pct=load,
        window=window,
        **fields | more,
    )


def an_instance(mig_id: int, profile: str, load: float | None, **more: Any) -> MigInstance:
    """A MIG instance with a full window of its load."""
    fields: dict[str, Any] = {
        "compute_slices": int(profile[0]),
        "memory_used_mib": None,
        "memory_total_mib": None,
        "window": a_window(load),
    }
    return MigInstance(id=mig_id, profile=profile, utilization_pct=load, **fields | more)


def a_snapshot(*gpus: Gpu, **more: Any) -> Snapshot:
    fields: dict[str, Any] = {
        "window_seconds": 300.0,
        "hot_above_pct": 90.0,
        "known_nodes": tuple(sorted({gpu.node for gpu in gpus})),
    }
    return Snapshot(
        taken_at=NOON,
        source=Source(kind="prometheus", location="http://prometheus.test"),
        gpus=gpus,
        **fields | more,
    )


def overview(*gpus: Gpu, snapshot: dict[str, Any] | None = None, **more: Any) -> HeatmapDocument:
    """The heat map of some cards."""
    policy = more.pop("policy", POLICY)
    return heatmap_document(
        a_snapshot(*gpus, **(snapshot or {})), policy, generated_at=NOON, **more
    )

"""Small clusters for tests of decisions: cards, MIG instances, who is on them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from gpuctl.model.gpu import Gpu, GpuState, MigInstance, Tenant, WindowStats
from gpuctl.model.snapshot import Snapshot, Source
from gpuctl.model.workload import Placement, Workload

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
A100 = "NVIDIA A100-SXM4-80GB"
TOTAL_MIB = 80_000.0


def a_window(mean: float, low: float | None = None, high: float | None = None) -> WindowStats:
    """A full window of five minutes."""
    return WindowStats(
        seconds=300,
        step_seconds=30,
        samples=11,
        span_seconds=300,
        min_pct=mean if low is None else low,
        mean_pct=mean,
        max_pct=mean if high is None else high,
    )


def a_tenant(
    name: str, load: float | None = None, memory: float | None = None, **more: Any
) -> Tenant:
    """A tenant, measured per process when a load is given."""
    values: dict[str, Any] = {
        "workload": name,
        "kind": "vm" if name.startswith("vm/") else "pod",
        "utilization_pct": load,
        "memory_used_mib": memory,
        "measured": load is not None,
    }
    return Tenant(**{**values, **more})


def a_gpu(
    node: str = "n1",
    gpu: int = 0,
    util: float | None = 20.0,
    used: float | None = 10_000.0,
    *tenants: Tenant,
    **more: Any,
) -> Gpu:
    """A fresh card of 80,000 MiB whose window lies at its current value."""
    values: dict[str, Any] = {
        "node": node,
        "gpu": gpu,
        "uuid": f"GPU-{node}-{gpu}",
        "model": A100,
        "state": GpuState.OK,
        "utilization_pct": util,
        "memory_used_mib": used,
        "memory_total_mib": TOTAL_MIB,
        "age_seconds": 5.0,
        "window": None if util is None else a_window(util),
        "tenants": tuple(tenants),
    }
    return Gpu(**{**values, **more})


def an_instance(
    number: int, profile: str, util: float | None = 10.0, *tenants: Tenant, **more: Any
) -> MigInstance:
    """One MIG instance of 10,000 MiB per compute slice."""
    slices = int(profile.partition("g")[0])
    values: dict[str, Any] = {
        "id": number,
        "profile": profile,
        "compute_slices": slices,
        "utilization_pct": util,
        "memory_used_mib": 1_000.0,
        "memory_total_mib": 10_000.0 * slices,
        "window": None if util is None else a_window(util),
        "tenants": tuple(tenants),
    }
    return MigInstance(**{**values, **more})


def a_pod(name: str, *places: Gpu | tuple[Gpu, int], **more: Any) -> Workload:
    """An inference pod of a Deployment as an inventory tells it, on cards or (card, instance)s."""
    values: dict[str, Any] = {
        "id": name,
        "kind": "pod",
        "placements": _placements(places),
        "owner": "Deployment/" + name.partition("/")[2],
        "priority": 0,
        "labels": {"tier": "inference"},
    }
    return Workload(**{**values, **more})


def a_vm(name: str, *places: Gpu | tuple[Gpu, int], **more: Any) -> Workload:
    """A training VM that could be migrated live."""
    values: dict[str, Any] = {
        "id": name,
        "kind": "vm",
        "placements": _placements(places),
        "owner": "",
        "tags": ("training",),
        "live_migratable": True,
        "ram_mib": 65_536.0,
    }
    return Workload(**{**values, **more})


def _placements(places: Sequence[Gpu | tuple[Gpu, int]]) -> tuple[Placement, ...]:
    pairs = [place if isinstance(place, tuple) else (place, None) for place in places]
    return tuple(
        Placement(node=gpu.node, gpu=gpu.gpu, uuid=gpu.uuid, mig_id=mig_id) for gpu, mig_id in pairs
    )


def a_snapshot(*gpus: Gpu, workloads: Sequence[Workload] = (), **more: Any) -> Snapshot:
    """The cluster at noon, judged over five minutes; inventoried when workloads are given."""
    values: dict[str, Any] = {
        "taken_at": NOON,
        "source": Source(kind="prometheus", location="http://prometheus.example"),
        "metrics_age_seconds": 5.0,
        "max_age_seconds": 60.0,
        "window_seconds": 300.0,
        "hot_above_pct": 90.0,
        "known_nodes": tuple(sorted({gpu.node for gpu in gpus})),
        "gpus": tuple(gpus),
        "workloads": tuple(workloads),
        "inventories": ("kubernetes", "proxmox") if workloads else (),
    }
    return Snapshot(**{**values, **more})

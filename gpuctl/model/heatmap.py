"""The `heatmap` document: what `gpuctl heatmap -o json` prints and every view is drawn from."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct

from gpuctl.model.gpu import GpuState, Tenant
from gpuctl.model.snapshot import Source


class HeatmapInstance(Struct, frozen=True, kw_only=True):
    """One MIG instance in the heat map. hot and idle are None where they can't be judged."""

    id: int
    profile: str
    utilization_pct: float | None
    memory_used_mib: float | None
    memory_total_mib: float | None
    memory_pct: float | None
    hot: bool | None
    hot_for_seconds: float | None
    hot_for_capped: bool
    idle: bool | None
    memory_bandwidth_pct: float | None
    tensor_pct: float | None
    workloads: tuple[str, ...]
    tenants: tuple[Tenant, ...]


class HeatmapGpu(Struct, frozen=True, kw_only=True):
    """One GPU in the heat map.

    `hot` and `idle` are judged over the policy's window and None where the samples are too few,
    too old or missing. `workloads` are `namespace/pod` or `vm/ID`, of the card and its instances;
    `tenants` adds each one's measured share where the exporter reports it.
    """

    node: str
    gpu: int | None
    uuid: str
    model: str | None
    pci_bus_id: str | None
    state: GpuState
    utilization_pct: float | None
    utilization_source: str | None
    memory_used_mib: float | None
    memory_total_mib: float | None
    memory_pct: float | None
    hot: bool | None
    hot_for_seconds: float | None
    hot_for_capped: bool
    idle: bool | None
    temperature_c: float | None
    power_w: float | None
    memory_bandwidth_pct: float | None
    tensor_pct: float | None
    xid: int | None
    age_seconds: float | None
    allocated_slices: int | None
    total_slices: int | None
    workloads: tuple[str, ...]
    tenants: tuple[Tenant, ...]
    mig: tuple[HeatmapInstance, ...]


class NodeLoad(Struct, frozen=True, kw_only=True):
    """One node: mean and spread over its GPUs with a known figure; None when there is none."""

    node: str
    gpus: int
    utilization_mean_pct: float | None
    utilization_spread_pct: float | None
    memory_mean_pct: float | None
    hot: int
    idle: int
    unknown: int


class HeatmapSummary(Struct, frozen=True, kw_only=True):
    """The cluster in a few figures.

    - hot, idle: GPUs judged so over the window; `hot_instances` counts MIG instances
    - lost: GPUs seen within the last hour and silent now
    - unknown: GPUs that are neither lost nor have a trustworthy, fresh utilization
    - spread_pct: highest minus lowest GPU utilization, in points
    - balance_ratio: highest over lowest node mean, a lowest under 1 % counting as 1 %
    - coverage_pct: share of known GPU nodes with fresh metrics
    """

    nodes: int
    gpus: int
    hot: int
    hot_instances: int
    idle: int
    lost: int
    unknown: int
    spread_pct: float | None
    balance_ratio: float | None
    coverage_pct: float | None


class HeatmapDocument(Struct, frozen=True, kw_only=True):
    """`kind: heatmap`. Items are ordered by the chosen sort of nodes, then by GPU index."""

    schema: Literal["gpuctl/v1"] = "gpuctl/v1"
    kind: Literal["heatmap"] = "heatmap"
    generated_at: datetime
    taken_at: datetime
    context: str | None
    cluster: str | None
    source: Source
    simulated: bool
    metrics_age_seconds: float | None
    hot_above_pct: float
    idle_below_pct: float
    window_seconds: float | None
    summary: HeatmapSummary
    nodes: tuple[NodeLoad, ...]
    items: tuple[HeatmapGpu, ...]
    warnings: tuple[str, ...]

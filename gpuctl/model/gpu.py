"""Readings of one GPU, its MIG instances and the workloads on them.

Utilization is in percent 0..100, memory in MiB, times in seconds. Unknown is None, never 0.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from msgspec import Struct


class GpuState(StrEnum):
    """Whether a GPU's figures can be relied on.

    - ok: utilization and memory are known and fresh
    - lost: seen within the last hour and silent now, or nothing left but an XID row
    - stale: the newest sample is too old to decide on
    - no-util: the GPU reports, its utilization is missing or impossible
    - no-mem: the GPU reports, its memory is missing or impossible
    """

    OK = "ok"
    LOST = "lost"
    STALE = "stale"
    NO_UTIL = "no-util"
    NO_MEM = "no-mem"


class WindowStats(Struct, frozen=True, kw_only=True):
    """Utilization over the last `seconds`, taken at even steps and aggregated over pod churn.

    `span_seconds` is the distance from the oldest to the newest step that had a value, so a GPU
    that has just appeared has few `samples` and a short span. `samples == 0` never occurs: a GPU
    without any value has no WindowStats.
    """

    seconds: float
    step_seconds: float
    samples: int
    span_seconds: float
    min_pct: float
    mean_pct: float
    max_pct: float


class Tenant(Struct, frozen=True, kw_only=True):
    """One workload on a GPU or MIG instance.

    `workload` is `namespace/pod` or `vm/ID`. The figures are its share of the device and None
    when the exporter does not measure per process.
    """

    workload: str
    kind: Literal["pod", "vm", "job"] = "pod"
    container: str | None = None
    utilization_pct: float | None = None
    memory_used_mib: float | None = None
    measured: bool = False


class MigInstance(Struct, frozen=True, kw_only=True):
    """One MIG instance. `id` is DCGM's GPU_I_ID, which is not an index and may be reused."""

    id: int
    profile: str
    compute_slices: int | None
    utilization_pct: float | None
    memory_used_mib: float | None
    memory_total_mib: float | None
    utilization_source: str | None = None
    tensor_pct: float | None = None
    memory_bandwidth_pct: float | None = None
    window: WindowStats | None = None
    hot_for_seconds: float | None = None
    hot_for_capped: bool = False
    tenants: tuple[Tenant, ...] = ()


class Gpu(Struct, frozen=True, kw_only=True):
    """One physical GPU, the merged reading of all series that speak of it.

    `gpu` is the index DCGM gives it on its node: unique there, not stable over boots; `uuid` is
    the identity. A card with MIG instances carries their weighed utilization: the sum of
    slices x utilization over `total_slices`, unassigned slices counting as idle.

    `hot_for_seconds` says how long utilization has been over the snapshot's `hot_above_pct`
    without a break, up to the history that was asked for (`hot_for_capped`).

    `slots` is how many workloads may share the card (time-slicing or MPS replicas), None where
    nothing tells.
    """

    node: str
    gpu: int | None
    uuid: str
    cluster: str | None = None
    model: str | None = None
    pci_bus_id: str | None = None
    state: GpuState
    utilization_pct: float | None
    memory_used_mib: float | None
    memory_total_mib: float | None
    utilization_source: str | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    memory_bandwidth_pct: float | None = None
    tensor_pct: float | None = None
    xid: int | None = None
    age_seconds: float | None = None
    window: WindowStats | None = None
    hot_for_seconds: float | None = None
    hot_for_capped: bool = False
    allocated_slices: int | None = None
    total_slices: int | None = None
    slots: int | None = None
    tenants: tuple[Tenant, ...] = ()
    mig: tuple[MigInstance, ...] = ()

    @property
    def address(self) -> str:
        """`NODE/GPU`, the way commands name a GPU."""
        return f"{self.node}/{'?' if self.gpu is None else self.gpu}"

    @property
    def memory_pct(self) -> float | None:
        """Framebuffer in use, in percent of the total."""
        return memory_pct(self.memory_used_mib, self.memory_total_mib)

    @property
    def workloads(self) -> tuple[str, ...]:
        """Names of all workloads on the card, instances included, each once, in order."""
        everyone = [*self.tenants, *(t for instance in self.mig for t in instance.tenants)]
        return tuple(dict.fromkeys(tenant.workload for tenant in everyone))


def memory_pct(used_mib: float | None, total_mib: float | None) -> float | None:
    """Share of the framebuffer in use, in percent; None when either side is unknown."""
    if used_mib is None or not total_mib:
        return None
    return 100 * used_mib / total_mib

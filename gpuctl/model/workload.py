"""Who runs where: a pod or VM with everything that decides whether and where it may move."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct

WorkloadClass = Literal["training", "inference", "unknown"]


class Placement(Struct, frozen=True, kw_only=True):
    """One device that a workload runs on: a whole GPU, or a MIG instance of it (`mig_id`)."""

    node: str
    gpu: int | None
    uuid: str
    mig_id: int | None = None


class Workload(Struct, frozen=True, kw_only=True):
    """A pod (`namespace/name`) or a VM (`vm/ID`).

    None means that nobody could say: without Kubernetes or Proxmox only the metrics' labels are
    known, and a rule that needs more is reported as unknown, never taken as fulfilled.

    - owner: `Kind/name` of what replaces the pod, e.g. `Deployment/chat`; "" for a bare pod
    - priority: the pod's priority value
    - evictable: the annotation gpuctl.io/evictable; None where it is not set
    - load_pct: utilization of each of its devices that it causes, in percent of the device;
      `load_measured` when the exporter reports it per process
    - load_error_pct: how far `load_pct` may be off, in points; 0 where it is measured
    - load_basis: whether `load_pct` is a mean over the snapshot's window or the current value
    - requested_slots: how many slots (time-slicing or MPS replicas) of each device it asked for
    - memory_mib: framebuffer it holds on each of its devices
    - ram_mib: memory to copy when a VM is live-migrated
    - live_migratable: whether the VM's GPU allows it; False for a raw passthrough device
    - last_moved_at: when gpuctl last moved it or its predecessor
    """

    id: str
    kind: Literal["pod", "vm", "job"]
    workload_class: WorkloadClass = "unknown"
    placements: tuple[Placement, ...] = ()
    owner: str | None = None
    priority: int | None = None
    evictable: bool | None = None
    labels: dict[str, str] = {}
    tags: tuple[str, ...] = ()
    load_pct: float | None = None
    load_measured: bool = False
    load_error_pct: float | None = None
    load_basis: Literal["window", "now"] | None = None
    requested_slots: int | None = None
    memory_mib: float | None = None
    ram_mib: float | None = None
    live_migratable: bool | None = None
    last_moved_at: datetime | None = None

    @property
    def namespace(self) -> str:
        """The pod's namespace; "" for what has none."""
        return self.id.partition("/")[0] if self.kind == "pod" and "/" in self.id else ""

"""What a scenario file says: a cluster, who runs on it, and how its load moves over time.

A scenario is one JSON object. Unknown keys are errors, so that a typing mistake can't silently
change a story.

    {"name": "mine", "title": "one line", "epoch": "2025-03-01T02:10:00Z", "seed": 1,
     "cluster": "hk",
     "nodes": [{"name": "n1", "model": "NVIDIA A100-SXM4-80GB", "gpus": [{"fb_mib": 81920}]}],
     "workloads": [{"id": "prod/chat-0", "kind": "pod", "class": "inference",
                    "placements": [{"node": "n1", "gpu": 0}], "load_pct": 40, "memory_mib": 8192}]}

`load_pct` is always the load at the epoch, in percent of the device the workload runs on (a card
or a MIG instance); the shape says how it differs at other times. Seconds count from the epoch,
so the past is negative. All values are frozen: a changed world is a new one.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec
from msgspec import Struct


class Constant(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="constant"):
    """The same load all the time, give or take `jitter_pct` points."""

    jitter_pct: float = 0.0


class Sine(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="sine"):
    """A wave of `amplitude_pct` points; `phase` (0..1) is where in its period the epoch lies."""

    amplitude_pct: float
    period_seconds: float
    phase: float = 0.0
    jitter_pct: float = 0.0


class Earlier(Struct, frozen=True, forbid_unknown_fields=True):
    """`load_pct` was the load until `until_seconds`."""

    until_seconds: float
    load_pct: float


class Steps(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="steps"):
    """Levels before the present one, ordered by time."""

    earlier: tuple[Earlier, ...]
    jitter_pct: float = 0.0


Shape = Constant | Sine | Steps


class MigSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """A MIG instance: DCGM's GPU_I_ID, profile (`3g.40gb`, `1g.10gb+me`) and framebuffer."""

    id: int
    profile: str
    fb_mib: int

    @property
    def slices(self) -> int:
        """Compute slices, by the leading digit of the profile."""
        return int(self.profile.partition("g")[0])


class GpuSpec(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A card; its index is its position in the node's list.

    `reserved_mib` of `fb_mib` belong to the driver. `slots`: how many workloads may share the
    card (a VM takes one as well). `mig`: its instances, null when MIG is off. `profiling`: whether
    DCGM_FI_PROF_* exist. `xid`: code of the last XID, 0 for none. `lost_for_seconds`: for how
    long before the epoch nothing but the XID has been left of the card, null when it is fine.
    """

    fb_mib: int
    reserved_mib: int = 616
    slots: int = 6
    mig: tuple[MigSpec, ...] | None = None
    profiling: bool = True
    xid: int = 0
    lost_for_seconds: float | None = None

    @property
    def usable_mib(self) -> int:
        """Framebuffer that workloads can have."""
        return self.fb_mib - self.reserved_mib


class NodeSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """A node; all its cards are of one model, spelt as DCGM spells it."""

    name: str
    model: str
    gpus: tuple[GpuSpec, ...]


class Place(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A device: a card of a node, or a MIG instance of it."""

    node: str
    gpu: int
    mig_id: int | None = None

    def __str__(self) -> str:
        """`NODE/GPU`, with `:ID` for a MIG instance."""
        return f"{self.node}/{self.gpu}" + ("" if self.mig_id is None else f":{self.mig_id}")


class Workload(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A pod (`namespace/name`) or a VM (`vm/ID`).

    A workload on several devices has `load_pct` and `memory_mib` on each of them. `owner` is what
    keeps its replicas (`Deployment/chat`); None for a VM or a bare pod.
    Pods: `priority` and `evictable` (the annotation `gpuctl.io/evictable`) say who may be evicted,
    `labels` are the pod's own.
    VMs: `tags` as Proxmox has them, `ram_mib` is the memory to copy when it moves,
    `live_migratable` whether its GPU is a mapped vGPU that allows that.
    """

    id: str
    kind: Literal["pod", "vm"]
    workload_class: Literal["training", "inference", "unknown"] = msgspec.field(name="class")
    owner: str | None = None
    placements: tuple[Place, ...]
    load_pct: float
    shape: Shape = msgspec.field(default_factory=Constant)
    memory_mib: int
    container: str = "main"
    priority: int = 0
    evictable: bool = True
    labels: dict[str, str] = {}
    tags: tuple[str, ...] = ()
    ram_mib: int | None = None
    live_migratable: bool = False

    @property
    def namespace(self) -> str:
        """The pod's namespace; `vm` for a VM."""
        return self.id.partition("/")[0]

    @property
    def name(self) -> str:
        """The pod's name, or the VM's number."""
        return self.id.partition("/")[2]


class Scenario(Struct, frozen=True, forbid_unknown_fields=True):
    """A whole story. `epoch` is the instant at which the demo stands still."""

    name: str
    title: str
    epoch: datetime
    seed: int
    cluster: str
    nodes: tuple[NodeSpec, ...]
    workloads: tuple[Workload, ...]

"""What must be known of a VM, its node and a target before it is moved, and what was concluded.

None means that nobody could say, which is never taken for fulfilled. Memory is in MiB, sizes of
disks in bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Outcome = Literal["ok", "warn", "fail", "unknown"]
Sureness = Literal["certain", "likely", "possible"]


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the checklist. `hint` says what can be done; "" where nothing needs to be."""

    name: str
    outcome: Outcome
    reason: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedDevice:
    """A device that is passed through to a VM: raw by address, or by a mapping.

    `live_capable`: the mapping says that it can be migrated live; None when it can't be read.
    """

    key: str
    addresses: tuple[str, ...] = ()
    mapping: str | None = None
    mdev: str | None = None
    live_capable: bool | None = None

    @property
    def is_raw(self) -> bool:
        """Whether it belongs to one node and no other."""
        return self.mapping is None

    @property
    def shown(self) -> str:
        """`hostpci0 (0000:52:00)` or `hostpci0 (mapping a100-vgpu)`."""
        what = f"mapping {self.mapping}" if self.mapping else ";".join(self.addresses)
        return f"{self.key} ({what})" if what else self.key


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalVolume:
    """A volume that only the VM's node can reach. `drive` is None when it is not attached."""

    volume: str
    drive: str | None = None
    size_bytes: int | None = None
    is_cdrom: bool = False

    @property
    def storage(self) -> str:
        """The storage it lies on."""
        return self.volume.partition(":")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class VmFacts:
    """The VM itself. `kubernetes_node` is the node that runs in it, "" when it is none.

    `devices` and `storages` are None when its configuration can't be read.
    """

    vmid: int
    name: str
    node: str
    status: str
    qmpstatus: str | None = None
    is_template: bool = False
    lock: str | None = None
    ha_state: str | None = None
    ram_mib: float | None = None
    cpu_type: str | None = None
    devices: tuple[PassedDevice, ...] | None = ()
    storages: frozenset[str] | None = frozenset()
    snapshots: tuple[str, ...] | None = None
    replicated_to: tuple[str, ...] | None = None
    kubernetes_node: str | None = None
    kubernetes_sureness: Sureness = "certain"

    @property
    def is_running(self) -> bool:
        """Whether QEMU runs it, be it paused."""
        return self.status not in ("stopped", "unknown")

    @property
    def is_ha_managed(self) -> bool:
        """Whether the HA stack would move it; those in state `ignored` it leaves alone."""
        return self.ha_state not in (None, "ignored")

    @property
    def shown(self) -> str:
        """`VM 101 (train-a)`."""
        return f"VM {self.vmid} ({self.name})" if self.name else f"VM {self.vmid}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """A hypervisor. `migrations`: VMs that a task moves away from or to it at this moment.

    `free_devices`: mapping -> how many of its devices on this node no VM claims.
    """

    name: str
    is_online: bool | None = None
    free_mib: float | None = None
    cpu_model: str | None = None
    storages: frozenset[str] | None = None
    mappings: frozenset[str] | None = None
    free_devices: Mapping[str, int] | None = None
    migrations: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerVerdict:
    """What the API says about the move (the migration's preconditions).

    `objections`: what it has against the target, by kind; {} for nothing, None when this release
    does not tell. `local_devices` block a move whatever the target. `moves_along` are HA services
    that come with the VM.
    """

    objections: Mapping[str, tuple[str, ...]] | None
    local_devices: tuple[str, ...] = ()
    local_volumes: tuple[LocalVolume, ...] = ()
    moves_along: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a person wants. `online` None means: as the VM is now."""

    target: str
    online: bool | None = None
    with_local_disks: bool = False
    target_storage: str | None = None
    drained: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationFacts:
    """Everything a checklist is made of.

    `asked`: the VM as the person named it; `namesakes`: ids of all VMs of that name, when it is
    not unique. `verdict` is None with `verdict_problem` when the server refused to give one.
    `unread` are facts that could not be read, with the reason. `balances_itself`: Proxmox VE's
    own balancing of HA guests is on.
    """

    asked: str
    wish: Wish
    vm: VmFacts | None
    namesakes: tuple[int, ...] = ()
    quorate: bool | None = None
    source: NodeFacts | None = None
    target: NodeFacts | None = None
    known_nodes: tuple[str, ...] = ()
    verdict: ServerVerdict | None = None
    verdict_problem: str | None = None
    missing_rights: tuple[tuple[str, str], ...] | None = None
    balances_itself: bool | None = None
    unread: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_live(self) -> bool:
        """Whether memory is copied while the VM runs."""
        if self.vm is None or not self.vm.is_running:
            return False
        return self.wish.online is not False

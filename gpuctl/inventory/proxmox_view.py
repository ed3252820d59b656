"""A Proxmox VE cluster at one moment: its nodes, VMs and device mappings, ready to be asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gpuctl.clients.proxmox_config import HostPci, MappedDevice
from gpuctl.model.snapshot import Snapshot

if TYPE_CHECKING:
    from gpuctl.inventory.kubernetes import ClusterInventory

#: Live migration of mapped devices came with this release.
LIVE_MAPPINGS_SINCE = (8, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drive:
    """A drive of a VM. `is_shared` None: nobody could say."""

    key: str
    volume: str
    storage: str | None
    is_cdrom: bool
    is_shared: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Vm:
    """A VM. What the configuration tells is empty and `problem` says why when it can't be read.

    `status` is running, stopped, paused or unknown; `ram_mib` what it may use at most.
    """

    vmid: int
    name: str
    node: str
    status: str
    is_template: bool = False
    lock: str | None = None
    ha_state: str | None = None
    pool: str | None = None
    tags: tuple[str, ...] = ()
    ram_mib: float | None = None
    cpu_type: str | None = None
    smbios_uuid: str | None = None
    devices: tuple[HostPci, ...] = ()
    drives: tuple[Drive, ...] = ()
    snapshots: tuple[str, ...] | None = None
    problem: str | None = None

    @property
    def id(self) -> str:
        """`vm/101`, the workload's name everywhere."""
        return f"vm/{self.vmid}"

    @property
    def is_running(self) -> bool:
        """Whether it holds its devices."""
        return self.status not in ("stopped", "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypervisor:
    """A node of Proxmox VE. `cpu_model` only with details."""

    name: str
    is_online: bool
    memory_mib: float | None = None
    free_mib: float | None = None
    cpu_model: str | None = None
    storages: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMapping:
    """A PCI mapping: its devices by node. `live_capable` None: this release does not tell."""

    id: str
    is_mdev: bool
    live_capable: bool | None
    devices: tuple[MappedDevice, ...]

    def on(self, node: str) -> tuple[MappedDevice, ...]:
        """Its devices on a node; several are alternatives."""
        return tuple(device for device in self.devices if device.node == node)


@dataclass(frozen=True, slots=True)
class KubernetesNode:
    """What Kubernetes says of a node: its name, the machine's UUID, and the provider's id."""

    name: str
    system_uuid: str = ""
    provider_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxmoxView:
    """A Proxmox VE cluster at one moment. `mappings` is None where none can be read.

    `kubernetes` are the nodes of the Kubernetes cluster beside it, None where they are not known;
    `configured` is VM id -> Kubernetes node by the configuration. `warnings` say what is missing
    and what is lost by it.
    """

    server: str
    release: tuple[int, int]
    cluster: str | None
    quorate: bool | None
    nodes: Mapping[str, Hypervisor]
    vms: tuple[Vm, ...]
    mappings: Mapping[str, DeviceMapping] | None
    warnings: tuple[str, ...] = ()
    kubernetes: tuple[KubernetesNode, ...] | None = None
    configured: Mapping[str, str] = field(default_factory=dict)

    def joined(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with this cluster's VMs as workloads."""
        from gpuctl.inventory.proxmox_join import join

        return join(snapshot, self).snapshot

    def beside(self, others: Sequence[object]) -> ProxmoxView:
        """The view that knows the nodes of the Kubernetes cluster among `others`."""
        from gpuctl.inventory.kubernetes import ClusterInventory

        for other in others:
            if isinstance(other, ClusterInventory):
                return replace(self, kubernetes=kubernetes_nodes(other))
        return self

    def found(self, asked: str) -> tuple[Vm, ...]:
        """The VMs that `101`, `vm/101` or a name means: one, none, or several of that name."""
        number = asked.removeprefix("vm/")
        if number.isdecimal():
            return tuple(vm for vm in self.vms if vm.vmid == int(number))
        return tuple(vm for vm in self.vms if vm.name == asked)

    def live_capable(self, device: HostPci) -> bool | None:
        """Whether a device can be migrated live, by its mapping; None when nobody can say."""
        if device.mapping is None:
            return False
        if self.release < LIVE_MAPPINGS_SINCE:
            return False
        mapping = (self.mappings or {}).get(device.mapping)
        return None if mapping is None else bool(mapping.live_capable)

    def live_migratable(self, vm: Vm) -> bool | None:
        """Whether all devices of a VM can; False as soon as one can't, None when one is unknown."""
        answers = [self.live_capable(device) for device in vm.devices]
        if vm.problem is not None:
            return None
        if False in answers:
            return False
        return None if None in answers else True


def kubernetes_nodes(inventory: ClusterInventory) -> tuple[KubernetesNode, ...]:
    """What identifies the nodes of a Kubernetes cluster as machines."""
    return tuple(
        KubernetesNode(name, node.status.node_info.system_uuid, node.spec.provider_id)
        for name, node in inventory.nodes.items()
    )

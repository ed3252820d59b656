"""VMs joined to the GPUs they run on and to the Kubernetes nodes that run in them.

Each join says how sure it is. certain: an identity that both sides show. likely: names, or a
count that fits. possible: one of several, and then no placement is claimed.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from gpuctl.clients.proxmox_config import HostPci, PciAddress, parse_pci
from gpuctl.errors import shorten
from gpuctl.inventory.proxmox_view import KubernetesNode, ProxmoxView, Vm
from gpuctl.model.gpu import Gpu, GpuState, Tenant
from gpuctl.model.migration import Sureness
from gpuctl.model.snapshot import Snapshot
from gpuctl.model.workload import Placement, Workload

#: The label on a VM's workload that marks it as a Kubernetes node; its value is the node's name.
KUBERNETES_NODE = "gpuctl.io/kubernetes-node"


@dataclass(frozen=True, slots=True)
class NodeJoin:
    """The Kubernetes node in a VM: `by` smbios, provider-id, config or name."""

    name: str
    by: str
    sureness: Sureness


@dataclass(frozen=True, slots=True)
class DeviceJoin:
    """The GPUs behind one passed-through device; several when only one of them is it.

    `by` is address, mapping, mdev, guest or nothing.
    """

    key: str
    gpus: tuple[Gpu, ...]
    by: str
    sureness: Sureness | None

    @property
    def is_placed(self) -> bool:
        """Whether the card is known, and not just which ones it could be."""
        return self.sureness in ("certain", "likely")


@dataclass(frozen=True, slots=True)
class VmJoin:
    """All that is known of one VM beyond Proxmox VE itself."""

    vm: Vm
    node: NodeJoin | None
    devices: tuple[DeviceJoin, ...]


@dataclass(frozen=True, slots=True)
class Joined:
    """The snapshot with its VMs, and how each join came about."""

    snapshot: Snapshot
    joins: tuple[VmJoin, ...]

    def of(self, vmid: int) -> VmJoin | None:
        """The join of one VM."""
        return next((join for join in self.joins if join.vm.vmid == vmid), None)


def join(snapshot: Snapshot, view: ProxmoxView) -> Joined:
    """The snapshot with a Workload for each VM that has a device passed through or runs a GPU node.

    Workloads of other inventories stay. Classes are left to the policy, which knows the tags.
    """
    joins = tuple(
        _joined(vm, view, snapshot.gpus, kubernetes_node(vm, view))
        for vm in view.vms
        if not vm.is_template
    )
    ids = {one.vm.id for one in joins}
    shown = [one for one in joins if one.vm.devices or any(d.gpus for d in one.devices)]
    workloads = tuple(_workload(one, view) for one in shown)
    others = tuple(one for one in snapshot.workloads if one.id not in ids)
    return Joined(
        replace(
            snapshot,
            gpus=_inhabited(snapshot.gpus, shown),
            inventories=(*snapshot.inventories, "proxmox"),
            workloads=(*others, *workloads),
            warnings=(*snapshot.warnings, *view.warnings, *_doubts(shown)),
        ),
        joins,
    )


# -- VM and Kubernetes node ------------------------------------------------------------------------


def kubernetes_node(vm: Vm, view: ProxmoxView) -> NodeJoin | None:
    """The Kubernetes node that runs in a VM, by the surest of what speaks for one."""
    named = view.configured.get(str(vm.vmid))
    if named is not None:
        return NodeJoin(named, "config", "certain")
    nodes = view.kubernetes or ()
    for node in nodes:
        if vm.smbios_uuid is not None and _uuid(node.system_uuid) == vm.smbios_uuid:
            return NodeJoin(node.name, "smbios", "certain")
    for node in nodes:
        found = _by_provider(vm, node, view)
        if found is not None:
            return found
    for node in nodes:
        if vm.smbios_uuid is not None and _swapped(node.system_uuid) == vm.smbios_uuid:
            return NodeJoin(node.name, "smbios", "likely")
    same = [node for node in nodes if vm.name and same_host(node.name, vm.name)]
    namesakes = [other for other in view.vms if same_host(other.name, vm.name)]
    # A UUID that is known and differs is a proof that it is another machine.
    if len(same) == 1 and len(namesakes) == 1 and not _contradicts(vm, same[0]):
        return NodeJoin(same[0].name, "name", "likely")
    return None


def _by_provider(vm: Vm, node: KubernetesNode, view: ProxmoxView) -> NodeJoin | None:
    """`proxmox://REGION/VMID` of the common cloud controller, `proxmox://UUID` of another."""
    scheme, _, rest = node.provider_id.partition("://")
    if scheme != "proxmox" or not rest:
        return None
    region, slash, vmid = rest.rpartition("/")
    if not slash:
        is_it = vm.smbios_uuid is not None and _uuid(rest) == vm.smbios_uuid
        return NodeJoin(node.name, "provider-id", "certain") if is_it else None
    if vmid != str(vm.vmid) or _contradicts(vm, node):
        return None
    # The region names one of several clusters, in the controller's own words.
    is_this = view.cluster is not None and region == view.cluster
    return NodeJoin(node.name, "provider-id", "certain" if is_this else "likely")


def _contradicts(vm: Vm, node: KubernetesNode) -> bool:
    known = _uuid(node.system_uuid)
    return None not in (vm.smbios_uuid, known) and vm.smbios_uuid not in (
        *(known, _swapped(node.system_uuid)),
    )


def _uuid(text: str) -> str | None:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        return None


def _swapped(text: str) -> str | None:
    """The UUID with its first three fields byte-swapped, as old firmware shows it."""
    try:
        return str(uuid.UUID(bytes_le=uuid.UUID(text).bytes))
    except ValueError:
        return None


def same_host(one: str, other: str) -> bool:
    """Whether two host names mean one host: domains and case don't count."""
    first, second = one.partition(".")[0].lower(), other.partition(".")[0].lower()
    return bool(first) and first == second


# -- VM and GPU ------------------------------------------------------------------------------------


def _joined(vm: Vm, view: ProxmoxView, gpus: Sequence[Gpu], node: NodeJoin | None) -> VmJoin:
    if not vm.is_running:
        # Devices are taken at the start; a stopped VM has none, whatever its configuration says.
        return VmJoin(vm, node, tuple(DeviceJoin(d.key, (), "nothing", None) for d in vm.devices))
    here = [gpu for gpu in gpus if same_host(gpu.node, vm.node)]
    guest = _guest_gpus(vm, gpus, node)
    joins = [_on_host(device, vm, view, here) for device in vm.devices]
    if guest and not any(join.gpus for join in joins):
        joins = list(_in_guest(vm, guest, node))
    return VmJoin(vm, node, tuple(joins))


def _on_host(device: HostPci, vm: Vm, view: ProxmoxView, here: Sequence[Gpu]) -> DeviceJoin:
    if device.mapping is None:
        found = _cards(device.addresses, here)
        by = "mdev" if device.mdev else "address"
        # Raw addresses are all taken, those of a mediated device are one card's functions.
        return DeviceJoin(device.key, found, by, "certain" if found else None)
    mapping = (view.mappings or {}).get(device.mapping)
    rows = mapping.on(vm.node) if mapping is not None else ()
    found = _cards([address for row in rows for address in row.addresses], here)
    sureness: Sureness | None = None
    if found:
        sureness = "certain" if len(found) == 1 else "possible"
    return DeviceJoin(device.key, found, "mapping", sureness)


def _cards(addresses: Iterable[PciAddress], here: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """The cards at these addresses: the function itself, else the only card on its bus.

    A vGPU's function is another one than the card's own, and perhaps another device of its bus.
    """
    known = [(gpu, parse_pci(gpu.pci_bus_id or "")) for gpu in here]
    cards = [(gpu, address) for gpu, address in known if address is not None]
    found: dict[str, Gpu] = {}
    for wanted in addresses:
        exact = [gpu for gpu, address in cards if wanted.covers(address)]
        on_bus = [gpu for gpu, address in cards if address[:2] == wanted[:2]]
        for gpu in exact or (on_bus if len(on_bus) == 1 else []):
            found[gpu.uuid] = gpu
    return tuple(found.values())


def _guest_gpus(vm: Vm, gpus: Sequence[Gpu], node: NodeJoin | None) -> list[Gpu]:
    """GPUs that an exporter inside the VM reports: its node is the guest."""
    names = [node.name] if node is not None else [vm.name]
    return [
        gpu
        for gpu in gpus
        if any(same_host(gpu.node, name) for name in names)
        and not same_host(gpu.node, vm.node)
        and gpu.state is not GpuState.LOST
    ]


def _in_guest(vm: Vm, guest: Sequence[Gpu], node: NodeJoin | None) -> Iterator[DeviceJoin]:
    """Pair devices with the cards the guest sees: q35 puts hostpciN behind a port, on bus N+1."""
    by_bus = {address.bus: gpu for gpu in guest if (address := parse_pci(gpu.pci_bus_id or ""))}
    sure: Sureness = node.sureness if node is not None else "likely"
    ports = [device for device in vm.devices if device.is_pcie]
    paired = {
        device.key: by_bus[device.index + 1] for device in ports if device.index + 1 in by_bus
    }
    if len(paired) == len(guest):
        for device in vm.devices:
            card = paired.get(device.key)
            cards = () if card is None else (card,)
            yield DeviceJoin(device.key, cards, "guest", sure if cards else None)
        return
    # Which is which can't be told, and needn't: all cards of the guest are the VM's.
    keys = ",".join(device.key for device in vm.devices) or "guest"
    yield DeviceJoin(keys, tuple(guest), "guest", "likely")


# -- the snapshot ----------------------------------------------------------------------------------


def _workload(one: VmJoin, view: ProxmoxView) -> Workload:
    vm = one.vm
    return Workload(
        id=vm.id,
        kind="vm",
        placements=tuple(
            Placement(node=gpu.node, gpu=gpu.gpu, uuid=gpu.uuid) for gpu in _placed(one)
        ),
        owner="",
        labels={KUBERNETES_NODE: one.node.name} if one.node is not None else {},
        tags=vm.tags,
        ram_mib=vm.ram_mib,
        live_migratable=view.live_migratable(vm),
    )


def _placed(one: VmJoin) -> Iterator[Gpu]:
    seen: set[str] = set()
    for device in one.devices:
        for gpu in device.gpus if device.is_placed else ():
            if gpu.uuid not in seen:
                seen.add(gpu.uuid)
                yield gpu


def _inhabited(gpus: Sequence[Gpu], joins: Sequence[VmJoin]) -> tuple[Gpu, ...]:
    """The GPUs with their VMs as tenants; a Kubernetes node is none where its pods are known."""
    there: dict[str, list[VmJoin]] = {}
    for one in joins:
        for gpu in _placed(one):
            there.setdefault(gpu.uuid, []).append(one)
    return tuple(_with_tenants(gpu, there.get(gpu.uuid, [])) for gpu in gpus)


def _with_tenants(gpu: Gpu, joins: Sequence[VmJoin]) -> Gpu:
    has_pods = any(tenant.kind == "pod" for tenant in gpu.tenants) or bool(gpu.mig)
    known = set(gpu.workloads)
    new = [
        Tenant(workload=one.vm.id, kind="vm")
        for one in joins
        if one.vm.id not in known and not (one.node is not None and has_pods)
    ]
    return replace(gpu, tenants=(*gpu.tenants, *new)) if new else gpu


def _doubts(joins: Sequence[VmJoin]) -> Iterator[str]:
    """What a person has to know of the joins: VMs whose card could not be told."""
    unsure = [
        f"{one.vm.id} ({device.key}: {len(device.gpus)} cards)"
        for one in joins
        for device in one.devices
        if device.sureness == "possible"
    ]
    if unsure:
        yield (
            f"which card a VM has was decided at its start and is not known of {shorten(unsure)}; "
            "`nvidia-smi vgpu -q` on the node tells"
        )

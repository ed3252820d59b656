"""The facts of one move: everything the checklist asks for, read just before it is judged.

What can't be read stays None with the reason in `unread`, so that one missing right does not hide
the other facts. Only an API that can't be asked at all, or does not know the token, raises.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from gpuctl.clients.proxmox import ProxmoxClient, ProxmoxError, Trouble, parse_upid
from gpuctl.clients.proxmox_config import HostPci
from gpuctl.clients.proxmox_wire import Preconditions, VmStatus
from gpuctl.inventory.proxmox_join import kubernetes_node
from gpuctl.inventory.proxmox_view import Hypervisor, ProxmoxView, Vm
from gpuctl.model.migration import (
    LocalVolume,
    MigrationFacts,
    NodeFacts,
    PassedDevice,
    ServerVerdict,
    VmFacts,
    Wish,
)

Found = TypeVar("Found")

_TO_NODE = re.compile(r"to node '?([A-Za-z0-9-]+)'?")
_HEAD_LINES = 10


def migration_facts(
    client: ProxmoxClient, view: ProxmoxView, asked: str, wish: Wish
) -> MigrationFacts:
    """What is known of moving the VM `asked` (id, `vm/ID` or unique name) as wished.

    Whether a Kubernetes node runs in it is only known of a view that is `beside` one.
    """
    reading = _Reading(client, view, wish)
    found = view.found(asked)
    if len(found) != 1:
        return MigrationFacts(
            asked=asked,
            wish=wish,
            vm=None,
            namesakes=tuple(vm.vmid for vm in found),
            known_nodes=tuple(view.nodes),
            missing_rights=reading.missing({"/vms": ("VM.Audit",)}),
            unread=reading.unread,
        )
    vm = found[0]
    preconditions = reading.preconditions(vm)
    return MigrationFacts(
        asked=asked,
        wish=wish,
        vm=reading.vm(vm, preconditions),
        quorate=view.quorate,
        source=reading.node(vm.node, vm),
        target=reading.node(wish.target, vm),
        known_nodes=tuple(view.nodes),
        verdict=None if preconditions is None else _verdict(preconditions, wish.target),
        verdict_problem=reading.unread.get("preconditions"),
        missing_rights=reading.missing(_rights(vm, wish)),
        balances_itself=reading.balances_itself(),
        unread=reading.unread,
    )


@dataclass(slots=True)
class _Reading:
    """Asks, and notes what could not be had."""

    client: ProxmoxClient
    view: ProxmoxView
    wish: Wish
    unread: dict[str, str] = field(default_factory=dict)

    def attempt(self, what: str, ask: Callable[[], Found]) -> Found | None:
        """The answer, or None with the reason under `what`."""
        try:
            return ask()
        except ProxmoxError as exc:
            if exc.kind is Trouble.AUTH:
                raise
            self.unread[what] = exc.cause or str(exc)
            return None

    def missing(self, wanted: Mapping[str, tuple[str, ...]]) -> tuple[tuple[str, str], ...] | None:
        return self.attempt("rights", lambda: self.client.missing_rights(wanted))

    def preconditions(self, vm: Vm) -> Preconditions | None:
        return self.attempt(
            "preconditions",
            lambda: self.client.migrate_preconditions(vm.node, vm.vmid, self.wish.target),
        )

    def balances_itself(self) -> bool | None:
        options = self.attempt("options", self.client.cluster_options)
        if options is None:
            return None
        return balances_itself(options)

    # -- the VM ----------------------------------------------------------------------------------

    def vm(self, vm: Vm, preconditions: Preconditions | None) -> VmFacts:
        status = self.attempt("state", lambda: self.client.vm_status(vm.node, vm.vmid))
        snapshots = self.attempt("snapshots", lambda: self.client.vm_snapshots(vm.node, vm.vmid))
        jobs = self.attempt("replication", lambda: self.client.replications(vm.vmid))
        node = kubernetes_node(vm, self.view)
        name = "" if self.view.kubernetes is not None else None
        if vm.problem is not None:
            self.unread["config"] = vm.problem
        return VmFacts(
            vmid=vm.vmid,
            name=vm.name,
            node=vm.node,
            status=status.status if status else vm.status,
            qmpstatus=status.qmpstatus if status else None,
            is_template=vm.is_template,
            lock=status.lock if status else vm.lock,
            ha_state=_ha_state(vm, status),
            ram_mib=vm.ram_mib,
            cpu_type=vm.cpu_type,
            devices=None
            if vm.problem is not None
            else tuple(self._device(device, preconditions) for device in vm.devices),
            storages=None
            if vm.problem is not None
            else frozenset(d.storage for d in vm.drives if d.storage is not None),
            snapshots=None if snapshots is None else tuple(one.name for one in snapshots),
            replicated_to=None
            if jobs is None
            else tuple(job.target for job in jobs if not job.disable),
            kubernetes_node=node.name if node is not None else name,
            kubernetes_sureness=node.sureness if node is not None else "certain",
        )

    def _device(self, device: HostPci, preconditions: Preconditions | None) -> PassedDevice:
        live = self.view.live_capable(device)
        # The server's word counts more than the mapping's own flag.
        told = (preconditions.mapped or {}).get(device.key) if preconditions else None
        if told is not None:
            live = told.live_migration
        return PassedDevice(
            key=device.key,
            addresses=tuple(str(address) for address in device.addresses),
            mapping=device.mapping,
            mdev=device.mdev,
            live_capable=live,
        )

    # -- nodes -----------------------------------------------------------------------------------

    def node(self, name: str, vm: Vm) -> NodeFacts | None:
        known = self.view.nodes.get(name)
        if known is None:
            return None
        if not known.is_online:
            return NodeFacts(name=name, is_online=False)
        status = self.attempt("memory", lambda: self.client.node_status(name))
        free, model = known.free_mib, known.cpu_model
        if status is not None:
            memory = status.memory
            now = memory.available if memory.available is not None else memory.free
            free = free if now is None else now / (1 << 20)
            model = status.cpuinfo.model
        else:
            self.unread.setdefault("cpu", self.unread.get("memory", ""))
        mappings = self.view.mappings
        return NodeFacts(
            name=name,
            is_online=True,
            free_mib=free,
            cpu_model=model,
            storages=known.storages or None,
            mappings=None
            if mappings is None
            else frozenset(one.id for one in mappings.values() if one.on(name)),
            free_devices=self._free(known, vm),
            migrations=self._migrations(name, vm),
        )

    def _migrations(self, node: str, vm: Vm) -> tuple[str, ...] | None:
        """Other VMs that move away from a node, and those that move to it."""
        leaving = self.attempt("tasks", lambda: self.client.running_migrations(node))
        if leaving is None:
            return None
        moving = [f"VM {task.id}" for task in leaving if task.id != str(vm.vmid)]
        for other in self.view.vms:
            if other.lock == "migrate" and other.node != node and other.vmid != vm.vmid:
                came = self.attempt("tasks", lambda other=other: self._goes_to(other))  # type: ignore[misc]
                if came == node:
                    moving.append(f"VM {other.vmid} coming")
        return tuple(moving)

    def _goes_to(self, other: Vm) -> str | None:
        """Where a VM that is being moved goes, by the first lines of the task's log."""
        for task in self.client.running_migrations(other.node):
            if task.id == str(other.vmid):
                head = self.client.task_log(parse_upid(task.upid), limit=_HEAD_LINES)
                found = (_TO_NODE.search(line.t) for line in head.lines)
                return next((match[1] for match in found if match), None)
        return None

    # -- free devices ----------------------------------------------------------------------------

    def _free(self, node: Hypervisor, vm: Vm) -> dict[str, int] | None:
        """How many devices of the VM's mappings are free on a node; None when one is unknown."""
        wanted = {device.mapping: device for device in vm.devices if device.mapping}
        if self.view.mappings is None or not wanted:
            return None if wanted else {}
        there = [o for o in self.view.vms if o.node == node.name and o.vmid != vm.vmid]
        free: dict[str, int] = {}
        for name, device in wanted.items():
            count = self._free_of(name, device, node.name, there)
            if count is None:
                return None
            free[name] = count
        return free

    def _free_of(self, name: str, device: HostPci, node: str, there: Iterable[Vm]) -> int | None:
        mapping = (self.view.mappings or {}).get(name)
        if mapping is None:
            return None
        rows = mapping.on(node)
        if device.mdev is not None:
            return self._free_mdevs(device.mdev, node, {str(a) for r in rows for a in r.addresses})
        others = list(there)
        if any(other.problem is not None or other.status == "unknown" for other in others):
            return None
        claims = [d for other in others if other.is_running for d in other.devices]
        raw = [address for claim in claims for address in claim.addresses]
        left = [
            row
            for row in rows
            if not any(a.covers(b) or b.covers(a) for a in row.addresses for b in raw)
        ]
        return max(0, len(left) - sum(1 for claim in claims if claim.mapping == name))

    def _free_mdevs(self, kind: str, node: str, addresses: Iterable[str]) -> int | None:
        """What each device has left of a type; for a mapping the server only tells the first's."""
        total = 0
        for address in sorted(addresses):
            types = self.attempt("devices", lambda a=address: self.client.mdev_types(node, a))  # type: ignore[misc]
            if types is None:
                return None
            of_kind = [one.available for one in types if one.type == kind]
            if None in of_kind:
                return None
            total += sum(available or 0 for available in of_kind)
        return total


def balances_itself(options: Mapping[str, object]) -> bool:
    """Whether Proxmox VE moves HA guests on its own account, by the datacenter's options (9.2+)."""
    crs = options.get("crs")
    if isinstance(crs, Mapping):
        return str(crs.get("ha-auto-rebalance", "0")) in ("1", "True", "true")
    return "ha-auto-rebalance=1" in str(crs or "").replace(" ", "")


def _ha_state(vm: Vm, status: VmStatus | None) -> str | None:
    if status is None or not status.ha.managed:
        return vm.ha_state
    return status.ha.state or vm.ha_state or "started"


def _verdict(preconditions: Preconditions, target: str) -> ServerVerdict:
    return ServerVerdict(
        objections=preconditions.objections(target),
        local_devices=preconditions.local_resources,
        local_volumes=tuple(
            LocalVolume(
                volume=disk.volid,
                drive=disk.drivename,
                size_bytes=disk.size,
                is_cdrom=disk.cdrom and not disk.is_cloudinit,
            )
            for disk in preconditions.local_disks
        ),
        moves_along=preconditions.dependent_ha,
    )


def _rights(vm: Vm, wish: Wish) -> dict[str, tuple[str, ...]]:
    """What the move needs; another storage on the target needs more."""
    on_vm: tuple[str, ...] = ("VM.Audit", "VM.Migrate")
    if wish.target_storage in (None, "1"):
        return {f"/vms/{vm.vmid}": on_vm}
    named = {pair.rpartition(":")[2] for pair in (wish.target_storage or "").split(",")}
    return {
        f"/vms/{vm.vmid}": (*on_vm, "VM.Config.Disk"),
        **{f"/storage/{name}": ("Datastore.AllocateSpace",) for name in sorted(named)},
    }

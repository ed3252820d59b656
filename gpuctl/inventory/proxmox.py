"""Which VMs there are, by Proxmox VE: where, in what state, and with which devices.

`ProxmoxInventory.read` gives a `ProxmoxView`, which is joined to a snapshot's GPUs and to
Kubernetes nodes by `proxmox_join`, and asked for the facts of one move by `proxmox_facts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from threading import Event
from typing import Literal

from gpuctl.clients.concurrently import map_concurrently
from gpuctl.clients.proxmox import ProxmoxClient, ProxmoxError, Trouble
from gpuctl.clients.proxmox_config import (
    disks_of,
    hostpci_of,
    mapped_device,
    properties,
    smbios_uuid,
    tags_of,
)
from gpuctl.clients.proxmox_wire import PciMapping, Resource
from gpuctl.errors import shorten
from gpuctl.inventory.proxmox_view import DeviceMapping, Drive, Hypervisor, ProxmoxView, Vm

_MOST_AT_ONCE = 6


class ProxmoxInventory:
    """The inventory port over one cluster: few calls, and one for the configuration of each VM."""

    kind: Literal["proxmox"] = "proxmox"

    def __init__(self, client: ProxmoxClient, configured: Mapping[str, str] | None = None) -> None:
        """`configured`: VM id -> Kubernetes node, by the configuration."""
        self._client = client
        self._configured = configured or {}

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def read(self, *, details: bool = False) -> ProxmoxView:
        """The cluster now. `details`: processors of the nodes and snapshots of the VMs, too.

        Raises BackendError when the API can't be asked; one VM or node that can't be read
        becomes a warning.
        """
        client = self._client
        release = client.version().number
        rows = client.resources()
        warnings: list[str] = []
        cluster, quorate = self._cluster(warnings)
        mappings = self._mappings(warnings)
        shared = _shared(rows)
        nodes = _nodes(rows)
        vms = self._vms([row for row in rows if row.type == "qemu"], nodes, shared)
        if details:
            nodes = self._with_processors(nodes, warnings)
            vms = self._with_snapshots(vms, warnings)
        warnings += self._about_vms(vms, mappings)
        return ProxmoxView(
            server=client.shown,
            release=release,
            cluster=cluster,
            quorate=quorate,
            nodes=nodes,
            vms=tuple(sorted(vms, key=lambda vm: vm.vmid)),
            mappings=mappings,
            warnings=tuple(warnings),
            configured=self._configured,
        )

    # -- the cluster -----------------------------------------------------------------------------

    def _cluster(self, warnings: list[str]) -> tuple[str | None, bool | None]:
        try:
            status = self._client.cluster_status()
        except ProxmoxError as exc:
            _tolerate(exc)
            warnings.append(f"Proxmox VE: quorum is not known: {exc.cause or exc}")
            return None, None
        return status.name, status.quorate

    def _mappings(self, warnings: list[str]) -> dict[str, DeviceMapping] | None:
        try:
            rows = self._client.pci_mappings()
        except ProxmoxError as exc:
            _tolerate(exc)
            warnings.append(f"Proxmox VE: PCI mappings are not known: {exc.cause or exc}")
            return None
        return None if rows is None else {row.id: _mapping(row) for row in rows}

    def _with_processors(
        self, nodes: Mapping[str, Hypervisor], warnings: list[str]
    ) -> dict[str, Hypervisor]:
        def one(node: Hypervisor, _: Event) -> Hypervisor | str:
            if not node.is_online:
                return node
            try:
                status = self._client.node_status(node.name)
            except ProxmoxError as exc:
                _tolerate(exc)
                return f"Proxmox VE: node {node.name} can't be read: {exc.cause or exc}"
            memory = status.memory
            free = memory.available if memory.available is not None else memory.free
            return replace(
                node,
                cpu_model=status.cpuinfo.model,
                free_mib=node.free_mib if free is None else free / (1 << 20),
            )

        found = map_concurrently(one, list(nodes.values()), most_at_once=_MOST_AT_ONCE)
        warnings += [text for text in found if isinstance(text, str)]
        return {**nodes, **{node.name: node for node in found if isinstance(node, Hypervisor)}}

    # -- VMs -------------------------------------------------------------------------------------

    def _vms(
        self,
        rows: list[Resource],
        nodes: Mapping[str, Hypervisor],
        shared: Mapping[str, bool],
    ) -> list[Vm]:
        def one(row: Resource, _: Event) -> Vm:
            vm = _vm(row)
            if vm.node not in nodes or not nodes[vm.node].is_online:
                return replace(vm, status="unknown", problem=f"its node {vm.node} is offline")
            try:
                config = self._client.vm_config(vm.node, vm.vmid)
            except ProxmoxError as exc:
                _tolerate(exc)
                moved = exc.kind is Trouble.NOT_HERE
                return replace(vm, problem="it has just moved" if moved else exc.cause or str(exc))
            return _configured(vm, config, shared)

        return map_concurrently(one, rows, most_at_once=_MOST_AT_ONCE)

    def _with_snapshots(self, vms: Iterable[Vm], warnings: list[str]) -> list[Vm]:
        def one(vm: Vm, _: Event) -> Vm | str:
            if vm.problem is not None:
                return vm
            try:
                found = self._client.vm_snapshots(vm.node, vm.vmid)
            except ProxmoxError as exc:
                _tolerate(exc)
                return f"Proxmox VE: snapshots of VM {vm.vmid}: {exc.cause or exc}"
            return replace(vm, snapshots=tuple(snapshot.name for snapshot in found))

        before = list(vms)
        found = map_concurrently(one, before, most_at_once=_MOST_AT_ONCE)
        warnings += [text for text in found if isinstance(text, str)]
        return [
            old if isinstance(new, str) else new for old, new in zip(before, found, strict=True)
        ]

    def _about_vms(
        self, vms: Iterable[Vm], mappings: Mapping[str, DeviceMapping] | None
    ) -> Iterable[str]:
        known = list(vms)
        if not known:
            yield (
                f"Proxmox VE shows no VM to {self._client.token_id}: a token only sees those on "
                "which it has VM.Audit; see gpuctl export pve-role"
            )
        unread = [vm for vm in known if vm.problem is not None]
        if unread:
            names = shorten([f"VM {vm.vmid} ({vm.problem})" for vm in unread])
            yield f"Proxmox VE: devices are not known of {names}"
        used = {device.mapping for vm in known for device in vm.devices if device.mapping}
        hidden = sorted(used - set(mappings or {}))
        if hidden and mappings is not None:
            yield (
                f"Proxmox VE does not show the PCI mapping {shorten(hidden)}: the token needs "
                "Mapping.Audit on /mapping/pci; which GPU such a VM has is not known"
            )


def _tolerate(exc: ProxmoxError) -> None:
    """Let an error pass that concerns one thing; raise what concerns them all."""
    if exc.kind is Trouble.AUTH:
        raise exc


def _vm(row: Resource) -> Vm:
    return Vm(
        vmid=row.vmid or 0,
        name=row.name or "",
        node=row.node or "",
        status=row.status or "unknown",
        is_template=row.template,
        lock=row.lock,
        ha_state=row.hastate,
        pool=row.pool,
        tags=tags_of(row.tags),
        ram_mib=None if row.maxmem is None else row.maxmem / (1 << 20),
    )


def _configured(vm: Vm, config: Mapping[str, str], shared: Mapping[str, bool]) -> Vm:
    return replace(
        vm,
        name=config.get("name", vm.name),
        tags=tags_of(config["tags"]) if "tags" in config else vm.tags,
        lock=config.get("lock", vm.lock),
        ram_mib=_memory_mib(config) or vm.ram_mib,
        cpu_type=_cpu_type(config),
        smbios_uuid=smbios_uuid(config),
        devices=hostpci_of(config),
        drives=tuple(
            Drive(
                key=disk.key,
                volume=disk.volume,
                storage=disk.storage,
                is_cdrom=disk.is_cdrom,
                is_shared=None if disk.storage is None else shared.get(disk.storage),
            )
            for disk in disks_of(config)
        ),
    )


def _memory_mib(config: Mapping[str, str]) -> float | None:
    """`memory` is a number in text, in newer releases perhaps `current=N`."""
    bare, named = properties(config.get("memory", ""))
    text = named.get("current") or bare or ""
    return float(text) if text.isdecimal() else None


def _cpu_type(config: Mapping[str, str]) -> str | None:
    bare, named = properties(config.get("cpu", ""))
    return named.get("cputype") or bare


def _mapping(row: PciMapping) -> DeviceMapping:
    found = (mapped_device(text) for text in row.map)
    return DeviceMapping(
        id=row.id,
        is_mdev=row.mdev,
        live_capable=row.live_migration_capable,
        devices=tuple(device for device in found if device is not None),
    )


def _shared(rows: Iterable[Resource]) -> dict[str, bool]:
    return {
        row.storage: bool(row.shared)
        for row in rows
        if row.type == "storage" and row.storage is not None
    }


def _nodes(rows: Iterable[Resource]) -> dict[str, Hypervisor]:
    rows = list(rows)
    storages: dict[str, set[str]] = {}
    for row in rows:
        if row.type == "storage" and row.node and row.storage and row.status != "unknown":
            storages.setdefault(row.node, set()).add(row.storage)
    return {
        row.node: Hypervisor(
            name=row.node,
            is_online=row.status == "online",
            memory_mib=None if row.maxmem is None else row.maxmem / (1 << 20),
            free_mib=None
            if row.maxmem is None or row.mem is None
            else (row.maxmem - row.mem) / (1 << 20),
            storages=frozenset(storages.get(row.node, ())),
        )
        for row in rows
        if row.type == "node" and row.node is not None
    }

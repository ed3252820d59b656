"""What ties a VM to its node: devices, local disks, snapshots and replicas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from gpuctl.model.migration import Check, LocalVolume, MigrationFacts, VmFacts

#: What can be done for a VM that can't be moved as it is.
INSTEAD = (
    "shut it down, migrate offline and start it on a node with the same mapping and a free "
    "device; or give it a mapped vGPU that allows live migration; if it is a Kubernetes node, "
    "drain it and leave the VM; or move other VMs away"
)


def _passthrough(facts: MigrationFacts, vm: VmFacts) -> Check:
    name = "passthrough"
    if vm.devices is None:
        return _unread_config(name, facts)
    raw = [device.shown for device in vm.devices if device.is_raw]
    if raw:
        if vm.is_running:
            why = (
                f"{', '.join(raw)} passed through by address: the card's state and the memory "
                "it has pinned can't be copied, and the address is another card elsewhere"
            )
            return Check(name, "fail", why, INSTEAD)
        return Check(
            *(name, "fail", f"{', '.join(raw)} passed through by address ties it to {vm.node}"),
            "use a mapping in place of the address; then it can move while it is stopped",
        )
    if not vm.devices:
        return Check(name, "ok", "no device is passed through to it")
    shown = ", ".join(device.shown for device in vm.devices)
    if not facts.is_live:
        return Check(name, "ok", f"{shown}: it moves stopped, the mapping names the device there")
    stuck = [device.shown for device in vm.devices if device.live_capable is False]
    if stuck:
        return Check(
            *(name, "fail", f"{', '.join(stuck)} is not marked for live migration"),
            f"{INSTEAD}; the mark is `live-migration-capable` of the mapping, from 8.4 on",
        )
    if any(device.live_capable is None for device in vm.devices):
        return Check(
            *(name, "unknown", f"whether {shown} can be migrated live is not known"),
            facts.unread.get("mappings", "") or "reading mappings needs Mapping.Audit, and 8.4",
        )
    return Check(
        *(name, "warn", f"{shown} is marked for live migration; QEMU may refuse all the same"),
        "both ends need the same kind of card, vGPU type and driver; the pause grows with the "
        "framebuffer in use",
    )


def _unread_config(name: str, facts: MigrationFacts) -> Check:
    return Check(
        *(name, "unknown", "its devices are not known: its configuration could not be read"),
        facts.unread.get("config", ""),
    )


def _mappings(facts: MigrationFacts, vm: VmFacts) -> Check:
    name, target = "mappings", facts.wish.target
    if vm.devices is None:
        return _unread_config(name, facts)
    wanted = Counter(device.mapping for device in vm.devices if device.mapping)
    if not wanted:
        return Check(name, "ok", "it uses no mapped device")
    there = facts.target.mappings if facts.target else None
    if there is None:
        return Check(
            *(name, "unknown", f"the mappings of {target} could not be read"),
            facts.unread.get("mappings", "") or "it needs Mapping.Audit on /mapping/pci",
        )
    lacking = sorted(set(wanted) - there)
    if lacking:
        return Check(
            *(name, "fail", f"{target} has no device for the mapping {', '.join(lacking)}"),
            "take a node that the mapping names, or add its devices to the mapping",
        )
    free = facts.target.free_devices if facts.target else None
    if free is None:
        return Check(
            *(name, "unknown", f"{target} has the mapping; whether a device is free is not known"),
            "Proxmox VE itself finds out when the VM starts there; gpuctl score shows free cards",
        )
    full = [one for one, count in wanted.items() if free.get(one, 0) < count]
    if full and not vm.is_running:
        return Check(
            *(name, "warn", f"no device of {', '.join(full)} is free on {target}"),
            "it will move, and can't start there before one is",
        )
    if full:
        return Check(
            *(name, "fail", f"no device of {', '.join(full)} is free on {target}"),
            "take another target, or free a device there",
        )
    return Check(name, "ok", f"{target} has a free device of {', '.join(sorted(wanted))}")


def _local_resources(facts: MigrationFacts, vm: VmFacts) -> Check:
    name = "local-resources"
    if facts.verdict is None:
        return Check(name, "unknown", "the server's preconditions were not read")
    known = {device.key for device in vm.devices or ()}
    others = [key for key in facts.verdict.local_devices if key not in known]
    ours = [key for key in facts.verdict.local_devices if key in known]
    if others:
        return Check(
            *(name, "fail", f"it uses devices of {vm.node}: {', '.join(others)}"),
            "detach them (USB, serial, parallel port, host audio), or map them",
        )
    if ours:
        return Check(
            *(name, "fail", f"the server counts {', '.join(ours)} as bound to {vm.node}"),
            "see the check `passthrough`",
        )
    return Check(name, "ok", f"no other device binds it to {vm.node}")


def _local_disks(facts: MigrationFacts, vm: VmFacts) -> Check:
    name = "local-disks"
    if facts.verdict is None:
        return Check(name, "unknown", "the server's preconditions were not read")
    volumes = facts.verdict.local_volumes
    if not volumes:
        return Check(name, "ok", "all its disks are on shared storages")
    media = [volume.volume for volume in volumes if volume.is_cdrom]
    if media:
        return Check(
            *(name, "fail", f"{', '.join(media)} is a local image in its CD drive"),
            "eject it; not even --with-local-disks takes it along",
        )
    size = copied_bytes(volumes)
    shown = f"{', '.join(v.volume for v in volumes)} ({_size(size)})"
    is_attached = any(volume.drive is not None for volume in volumes)
    is_agreed = facts.wish.with_local_disks or vm.is_ha_managed
    if facts.is_live and is_attached and not is_agreed:
        return Check(
            *(name, "fail", f"local disks: {shown}"),
            "--with-local-disks copies them while it runs, which takes its time",
        )
    return Check(
        *(name, "warn", f"local disks are copied: {shown}"),
        "that takes longer than the memory, and needs as much room on the target",
    )


def copied_bytes(volumes: tuple[LocalVolume, ...]) -> int | None:
    """Bytes of all local disks; None as soon as one has no known size."""
    sizes = [volume.size_bytes for volume in volumes if not volume.is_cdrom]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _size(size_bytes: int | None) -> str:
    return "size unknown" if size_bytes is None else f"{size_bytes / (1 << 30):.1f} GiB"


def _snapshots(facts: MigrationFacts, vm: VmFacts) -> Check:
    name = "snapshots"
    if vm.snapshots is None:
        return Check(
            *(name, "unknown", "its snapshots could not be read"), facts.unread.get("snapshots", "")
        )
    if not vm.snapshots:
        return Check(name, "ok", "it has no snapshots")
    shown = f"{len(vm.snapshots)} snapshots" if len(vm.snapshots) > 1 else "a snapshot"
    if facts.verdict is None:
        return Check(name, "unknown", f"it has {shown}; whether on local disks is not known")
    if facts.verdict.local_volumes and facts.is_live:
        return Check(
            *(name, "fail", f"it has {shown} on local disks, which can't be copied live"),
            "remove the snapshots, or move it offline",
        )
    return Check(name, "ok", f"it has {shown}, on shared storage")


def _replication(facts: MigrationFacts, vm: VmFacts) -> Check:
    name, target = "replication", facts.wish.target
    if vm.replicated_to is None:
        return Check(
            *(name, "unknown", "its replication jobs could not be read"),
            facts.unread.get("replication", ""),
        )
    if not vm.replicated_to:
        return Check(name, "ok", "its disks are not replicated")
    if target in vm.replicated_to:
        return Check(name, "ok", f"its disks are replicated to {target}")
    where = ", ".join(vm.replicated_to)
    if facts.is_live:
        return Check(
            *(name, "fail", f"it is replicated to {where} and not to {target}"),
            f"take {where}, or remove the replication job first",
        )
    return Check(
        *(name, "warn", f"it is replicated to {where} and not to {target}"),
        "its disks are copied in full, and the job has to be adapted",
    )


DEVICE_CHECKS: tuple[Callable[[MigrationFacts, VmFacts], Check], ...] = (
    *(_passthrough, _mappings, _local_resources, _local_disks, _snapshots, _replication),
)

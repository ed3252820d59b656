"""How the fake cluster moves VMs: preconditions, refusals, and tasks that go on step by step.

`Vm.migration` chooses the end:

- succeeds
- warns: moved, with `WARNINGS: 1`
- breaks: the memory copy fails midway, the VM stays
- no-free-device: the twin on the target finds no device
- keeps-lock: it breaks and leaves `lock: migrate` behind
- is-killed: no final line, and the lock stays
- lands-elsewhere: the task says OK, the VM did not move
- cleanup-fails: it moved, and the task ends with `migration problems`
- ha-ignores: the HA manager never acts on the request
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.fakes.proxmox_state import Cluster, Task, Vm

_GIB_PER_STEP = 1.12


class Refused(Exception):  # noqa: N818 - it is an answer, not a fault
    """The call itself says no: status, reason phrase, faulty parameters."""

    def __init__(self, status: int, reason: str, fields: dict[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.fields = fields


def wrong_parameters(**fields: str) -> Refused:
    """HTTP 400, with what is wrong by parameter."""
    named = {name.replace("_", "-"): text for name, text in fields.items()}
    return Refused(400, "Parameter verification failed.", named)


def vm_on(cluster: Cluster, node: str, vmid: int) -> Vm:
    """The VM if its configuration lies on this node; else the server's only answer to that."""
    vm = cluster.vms.get(vmid)
    if vm is None or vm.node != node:
        path = f"nodes/{node}/qemu-server/{vmid}.conf"
        raise Refused(500, f"Configuration file '{path}' does not exist")
    return vm


def require_unlocked(vm: Vm) -> None:
    if vm.lock:
        raise Refused(500, f"VM is locked ({vm.lock})")


def preconditions(cluster: Cluster, vm: Vm) -> dict[str, Any]:
    """The body of GET .../migrate, as the release gives it."""
    require_unlocked(vm)
    number = cluster.number
    mapped = vm.mapped()
    stuck = [key for key, name in mapped.items() if not _is_live(cluster, name)]
    local = [*vm.raw(), *(stuck if vm.is_running and number >= (8, 4) else [])]
    body: dict[str, Any] = {"running": int(vm.is_running)}
    if not vm.is_running or number >= (8, 4):
        entries = {name: _entry(cluster, vm, name) for name in cluster.nodes if name != vm.node}
        body["allowed_nodes"] = [name for name, entry in entries.items() if not entry]
        body["not_allowed_nodes"] = entries
    body["local_disks"] = [disk.row() for disk in vm.local_disks]
    body["local_resources"] = local
    if number >= (8, 0):
        body["mapped-resources"] = list(mapped)
    if number >= (8, 4):
        body["mapped-resource-info"] = {
            key: {"name": name} | ({"live-migration": 1} if _is_live(cluster, name) else {})
            for key, name in mapped.items()
        }
    if number >= (9, 0):
        body["has-dbus-vmstate"] = 1
        if vm.ha_state is not None:
            body["dependent-ha-resources"] = list(vm.dependents)
    return body


def _is_live(cluster: Cluster, mapping: str) -> bool:
    return mapping in cluster.mappings and cluster.mappings[mapping].live


def _entry(cluster: Cluster, vm: Vm, node: str) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    storages = sorted(
        {d.storage for d in vm.local_disks if not cluster.has_storage(node, d.storage)}
    )
    if storages:
        entry["unavailable_storages"] = storages
    devices = _missing_devices(cluster, vm, node)
    if devices and cluster.number >= (8, 0):
        entry["unavailable-resources"] = devices
    if node in vm.blocked and cluster.number >= (9, 0):
        entry["blocking-ha-resources"] = [{"sid": s, "cause": c} for s, c in vm.blocked[node]]
    return entry


def _missing_devices(cluster: Cluster, vm: Vm, node: str) -> list[str]:
    return [
        key
        for key, name in vm.mapped().items()
        if name not in cluster.mappings or node not in cluster.mappings[name].paths
    ]


def check_call(cluster: Cluster, node: str, vmid: int, form: dict[str, str]) -> Vm:
    """The checks of POST .../migrate in the server's order; the VM when it would be accepted."""
    _check_parameters(cluster, form)
    target = form["target"]
    if target == node:
        raise wrong_parameters(target="target is local node.")
    if not cluster.quorate:
        raise Refused(500, "cluster not ready - no quorum?")
    if target not in cluster.nodes:
        raise Refused(500, f"no such cluster node '{target}'")
    for name in ("force", "migration_type", "migration_network"):
        if name in form:
            raise Refused(
                400, "Parameter verification failed.", {name: "Only root may use this option."}
            )
    vm = vm_on(cluster, node, vmid)
    require_unlocked(vm)
    if vm.is_running and form.get("online") != "1":
        raise Refused(500, "can't migrate running VM without --online")
    if vm.is_running and vm.replicated_to and target not in vm.replicated_to:
        raise Refused(
            500,
            f"Cannot live-migrate replicated VM to node '{target}' - not a replication target. "
            "Use 'force' to override.",
        )
    storage = form.get("targetstorage")
    if storage not in (None, "1") and not cluster.has_storage(target, storage):
        raise Refused(500, f"storage '{storage}' is not available on node '{target}'")
    return vm


_FLAGS = ("online", "force", "with-local-disks", "with-conntrack-state")
_KNOWN = {*_FLAGS, "target", "migration_type", "migration_network", "targetstorage", "bwlimit"}


def _check_parameters(cluster: Cluster, form: dict[str, str]) -> None:
    fields: dict[str, str] = {}
    if "target" not in form:
        fields["target"] = "property is missing and it is not optional"
    known = _KNOWN if cluster.number >= (9, 0) else _KNOWN - {"with-conntrack-state"}
    for name, value in form.items():
        if name not in known:
            fields[name] = (
                "property is not defined in schema and the schema does not allow additional "
                "properties"
            )
        elif name in _FLAGS and value not in ("0", "1"):
            fields[name] = f"type check ('boolean') failed - got '{value}'"
    if fields:
        raise Refused(400, "Parameter verification failed.", fields)


# -- tasks ---------------------------------------------------------------------------------------


def migration_steps(
    cluster: Cluster, vm: Vm, target: str, form: dict[str, str], task: Task
) -> Iterator[tuple[str, ...]]:
    """Lines of the log, one step after the other; the state changes on the way."""
    began = task.starttime
    if cluster.number >= (9, 0) and vm.is_running:
        yield (
            "conntrack state migration not supported or disabled, active connections might get "
            "dropped",
        )
    refusal = _refusal(cluster, vm, target, form)
    if refusal is not None:
        *before, reason = refusal
        yield (*before, f"ERROR: migration aborted (duration 00:00:00): {reason}")
        _end(cluster, task, "migration aborted")
        yield ("TASK ERROR: migration aborted",)
        return
    vm.lock = "migrate"
    ip = cluster.nodes[target].ip
    yield (f"starting migration of VM {vm.vmid} to node '{target}' ({ip})",)
    if vm.is_running:
        yield (f"starting VM {vm.vmid} on remote node '{target}'",)
        if vm.migration == "no-free-device":
            key = next(iter(vm.hostpci), "hostpci0")
            yield from _broken(
                cluster,
                vm,
                task,
                began,
                f"[{target}] could not find a free device for '{key}'",
                "ERROR: online migrate failure - remote command failed with exit code 255",
            )
            return
        yield from _live(cluster, vm, task, began)
        if task.exitstatus is not None or vm.migration == "is-killed":
            return
    yield from _arrived(cluster, vm, target, task, began)


def _refusal(cluster: Cluster, vm: Vm, target: str, form: dict[str, str]) -> tuple[str, ...] | None:
    """Why the task gives up before it begins: lines before, and the reason."""
    node = cluster.nodes[target]
    if not node.online:
        ssh = f"'HostKeyAlias={target}' root@{node.ip} /bin/true"
        return (
            f"# /usr/bin/ssh -e none -o 'BatchMode=yes' -o {ssh}",
            f"ssh: connect to host {node.ip} port 22: No route to host",
            "Can't connect to destination address using public key",
        )
    if vm.raw():
        return (f"can't migrate VM which uses local devices: {', '.join(vm.raw())}",)
    missing = _missing_devices(cluster, vm, target)
    if missing:
        return (f"can't migrate to '{target}': missing mapped devices {', '.join(missing)}",)
    stuck = [f"{k}:{name}" for k, name in vm.mapped().items() if not _is_live(cluster, name)]
    if vm.is_running and stuck:
        return (
            "can't live migrate running VM which uses following mapped devices: "
            + ", ".join(stuck),
        )
    if vm.is_running and vm.local_disks and form.get("with-local-disks") != "1":
        return _local_disks(cluster, vm, target)
    return None


def _local_disks(cluster: Cluster, vm: Vm, target: str) -> tuple[str, ...]:
    attached = [disk for disk in vm.local_disks if not disk.is_unused]
    kinds = {False: "attached", True: "unused"}
    return (
        f"starting migration of VM {vm.vmid} to node '{target}' ({cluster.nodes[target].ip})",
        *(
            f"found local disk '{disk.volid}' ({kinds[bool(disk.is_unused)]})"
            for disk in sorted(vm.local_disks, key=lambda disk: disk.volid)
        ),
        *(
            f"can't migrate local disk '{disk.volid}': can't live migrate attached local disks "
            "without with-local-disks option"
            for disk in attached
        ),
        "ERROR: Problem found while scanning volumes - can't migrate VM - check log",
        "aborting phase 1 - cleanup resources",
        "Problem found while scanning volumes - can't migrate VM - check log",
    )


def _live(cluster: Cluster, vm: Vm, task: Task, began: int) -> Iterator[tuple[str, ...]]:
    socket = f"unix:/run/qemu-server/{vm.vmid}.migrate"
    yield ("start remote tunnel",)
    yield (
        "ssh tunnel ver 1",
        f"starting online/live migration on {socket}",
        "set migration capabilities",
        "migration downtime limit: 100 ms",
        "migration cachesize: 2.0 GiB",
        "set migration parameters",
        f"start migrate command to {socket}",
    )
    total = vm.memory_mib / 1024
    vfio = " (+ 383.5 MiB VFIO-state)" if vm.mapped() and cluster.number >= (8, 4) else ""
    count = max(1, int(total / _GIB_PER_STEP) - 1)
    for n in range(1, count + 1):
        if n > count // 2 and vm.migration in ("breaks", "keeps-lock"):
            yield from _broken(
                cluster,
                vm,
                task,
                began,
                "migration status error: failed - Unable to write to socket: Broken pipe",
                "ERROR: online migrate failure - aborting",
            )
            return
        if n > count // 2 and vm.migration == "is-killed":
            _end(cluster, task, "unexpected status")
            return
        sent = f"{n * _GIB_PER_STEP:.1f} GiB of {total:.1f} GiB VM-state"
        yield (f"migration active, transferred {sent}, 1.1 GiB/s{vfio}",)
    yield (
        "xbzrle: send updates to 10234 pages in 14.2 MiB encoded memory, cache-miss 93.18%, "
        "overflow 217",
    )
    completed = f"migration completed, transferred {total * 0.995:.1f} GiB VM-state"
    yield (
        "average migration speed: 1.1 GiB/s - downtime 73 ms",
        *([completed] if cluster.number >= (8, 4) else []),
        "migration status: completed",
    )


def _arrived(
    cluster: Cluster, vm: Vm, target: str, task: Task, began: int
) -> Iterator[tuple[str, ...]]:
    vm.lock = None
    if vm.migration != "lands-elsewhere":
        vm.node = target
    # The configuration is on the target while the task still works.
    yield ()
    if vm.migration == "cleanup-fails":
        _end(cluster, task, "migration problems")
        yield (
            f"ERROR: migration finished with problems (duration {_took(cluster, began)})",
            "TASK ERROR: migration problems",
        )
        return
    warns = vm.migration == "warns"
    _end(cluster, task, "WARNINGS: 1" if warns else "OK")
    yield (
        *(["WARN: could not remove an old snapshot"] if warns else []),
        f"migration finished successfully (duration {_took(cluster, began)})",
        "TASK WARNINGS: 1" if warns else "TASK OK",
    )


def _broken(
    cluster: Cluster, vm: Vm, task: Task, began: int, *reasons: str
) -> Iterator[tuple[str, ...]]:
    yield (*reasons, "aborting phase 2 - cleanup resources", "migrate_cancel")
    if vm.migration != "keeps-lock":
        vm.lock = None
    _end(cluster, task, "migration problems")
    yield (
        f"ERROR: migration finished with problems (duration {_took(cluster, began)})",
        "TASK ERROR: migration problems",
    )


def stop_steps(cluster: Cluster, vm: Vm, task: Task) -> Iterator[tuple[str, ...]]:
    """What a task that was asked to stop still does."""
    if vm.migration == "is-killed":
        _end(cluster, task, "unexpected status")
        return
    yield from _broken(
        cluster, vm, task, task.starttime, "ERROR: online migrate failure - interrupted by signal"
    )


def ha_steps(cluster: Cluster, vm: Vm, target: str, task: Task) -> Iterator[tuple[str, ...]]:
    """The task of a request to the HA stack: it says OK at once, and nothing has moved."""
    _end(cluster, task, "OK")
    yield (f"Requesting HA migration for VM {vm.vmid} to node {target}", "TASK OK")


def _end(cluster: Cluster, task: Task, exitstatus: str) -> None:
    task.exitstatus = exitstatus
    task.endtime = cluster.now


def _took(cluster: Cluster, began: int) -> str:
    took = cluster.now - began
    return f"{took // 3600:02d}:{took // 60 % 60:02d}:{took % 60:02d}"

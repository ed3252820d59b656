"""What the fake Proxmox VE answers to questions, in the shapes of the recorded bodies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.fakes.proxmox_migration import vm_on, wrong_parameters
from tests.fakes.proxmox_state import Cluster, Node, Task, Vm, config_of

#: There is no such path in this release.
NOTHING = object()

May = Callable[[str, str], bool]


def of_cluster(cluster: Cluster, path: Sequence[str], params: Mapping[str, str], may: May) -> Any:
    """The answer to a GET that concerns the cluster as a whole."""
    match tuple(path):
        case ("version",):
            return {"version": cluster.release, "release": cluster.release, "repoid": "abcdef01"}
        case ("nodes",):
            return [_node_row(node) for node in cluster.nodes.values()]
        case ("cluster", "status"):
            return _status(cluster)
        case ("cluster", "resources"):
            return _resources(cluster, params.get("type"), may)
        case ("cluster", "options"):
            return cluster.options
        case ("cluster", "mapping", "pci") if cluster.number >= (8, 0):
            return [
                mapping.row(cluster.number)
                for mapping in cluster.mappings.values()
                if may(f"/mapping/pci/{mapping.id}", "Mapping.Audit")
            ]
        case ("cluster", "ha", "resources"):
            return [
                {"sid": f"vm:{vm.vmid}", "type": "vm", "state": "started", "digest": "ab"}
                for vm in cluster.vms.values()
                if vm.ha_state is not None
            ]
        case ("cluster", "ha", "status", "current"):
            return _ha_status(cluster)
        case ("cluster", "replication"):
            return [
                {"id": f"{vm.vmid}-{n}", "guest": vm.vmid, "target": to, "type": "local"}
                for vm in cluster.vms.values()
                for n, to in enumerate(vm.replicated_to)
            ]
        case _:
            return NOTHING


def of_node(
    cluster: Cluster, name: str, path: Sequence[str], params: Mapping[str, str], may: May
) -> Any:
    """The answer to a GET that the node itself gives."""
    node = cluster.nodes[name]
    match tuple(path):
        case ("status",):
            return _node_status(cluster, node)
        case ("storage",):
            return _storages(cluster, node)
        case ("hardware", "pci"):
            return _devices(cluster, name)
        case ("hardware", "pci", _, "mdev"):
            return [{"type": "nvidia-474", "available": 2, "description": "GRID A100-20C"}]
        case ("tasks",):
            return _tasks(cluster, name, params)
        case ("tasks", upid, "log"):
            return _log(cluster, name, upid, params)
        case ("tasks", _, _):
            raise wrong_parameters(upid="no such task")
        case ("qemu", vmid, "config"):
            return config_of(vm_on(cluster, name, int(vmid)))
        case ("qemu", vmid, "status", "current"):
            return _vm_status(vm_on(cluster, name, int(vmid)))
        case ("qemu", vmid, "snapshot"):
            vm = vm_on(cluster, name, int(vmid))
            current = {"name": "current", "description": "You are here!", "running": 1}
            return [*({"name": n, "snaptime": cluster.now} for n in vm.snapshots), current]
        case _:
            return NOTHING


# -- the cluster ---------------------------------------------------------------------------------


def _node_row(node: Node) -> dict[str, Any]:
    row: dict[str, Any] = {"node": node.name, "type": "node", "id": f"node/{node.name}"}
    if not node.online:
        return {**row, "status": "offline"}
    return {
        **row,
        "status": "online",
        "maxmem": node.memory_bytes,
        "mem": node.used_bytes,
        "maxcpu": 128,
        "ssl_fingerprint": "AB:" * 31 + "CD",
    }


def _status(cluster: Cluster) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {
            "type": "cluster",
            "id": "cluster",
            "name": "lab",
            "nodes": len(cluster.nodes),
            "quorate": int(cluster.quorate),
            "version": 12,
        }
    ]
    for number, node in enumerate(cluster.nodes.values(), 1):
        rows.append(
            {
                "type": "node",
                "id": f"node/{node.name}",
                "name": node.name,
                "ip": node.ip,
                "nodeid": number,
                "online": int(node.online),
                "local": int(number == 1),
                "level": "",
            }
        )
    return rows


def _resources(cluster: Cluster, kind: str | None, may: May) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    if kind in (None, "vm"):
        seen = (vm for vm in cluster.vms.values() if may(f"/vms/{vm.vmid}", "VM.Audit"))
        rows += [_vm_row(cluster, vm) for vm in seen]
        rows.append(_CONTAINER)
    if kind in (None, "node"):
        rows += [_node_resource(node) for node in cluster.nodes.values()]
    if kind in (None, "storage"):
        for node in cluster.nodes.values():
            rows += [
                {
                    "id": f"storage/{node.name}/{one['storage']}",
                    "type": "storage",
                    "node": node.name,
                    "storage": one["storage"],
                    "plugintype": one["type"],
                    "shared": one["shared"],
                    "content": one["content"],
                    "status": "available",
                    "disk": one["used"],
                    "maxdisk": one["total"],
                }
                for one in _storages(cluster, node)
                if node.online
            ]
    return rows


_CONTAINER = {
    "id": "lxc/201",
    "type": "lxc",
    "vmid": 201,
    "node": "gpu-node-2",
    "name": "dns",
    "status": "running",
    "template": 0,
    "maxmem": 1073741824,
}


def _vm_row(cluster: Cluster, vm: Vm) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": f"qemu/{vm.vmid}",
        "type": "qemu",
        "vmid": vm.vmid,
        "node": vm.node,
    }
    if not cluster.nodes[vm.node].online:
        return {**row, "status": "unknown"}
    size = vm.memory_mib << 20
    row |= {
        "name": vm.name,
        "status": vm.status,
        "template": int(vm.template),
        "cpu": 0.0421 if vm.is_running else 0,
        "maxcpu": 16,
        "mem": int(size * 0.71) if vm.is_running else 0,
        "maxmem": size,
        "disk": 0,
        "maxdisk": 137438953472,
        "uptime": 186422 if vm.is_running else 0,
        "netin": 9912345678 if vm.is_running else 0,
        "netout": 2345678901 if vm.is_running else 0,
        "diskread": 71234567890 if vm.is_running else 0,
        "diskwrite": 31234567890 if vm.is_running else 0,
    }
    if cluster.number >= (9, 0):
        row["memhost"] = int(size * 0.73) if vm.is_running else 0
    optional = {
        "tags": ";".join(vm.tags),
        "lock": vm.lock,
        "hastate": vm.ha_state,
        "pool": vm.pool,
    }
    return row | {key: value for key, value in optional.items() if value}


def _node_resource(node: Node) -> dict[str, Any]:
    row: dict[str, Any] = {"id": f"node/{node.name}", "node": node.name, "type": "node"}
    if not node.online:
        return {**row, "status": "offline"}
    return {
        **row,
        "status": "online",
        "cpu": 0.1873,
        "maxcpu": 128,
        "mem": node.used_bytes,
        "maxmem": node.memory_bytes,
        "disk": 21474836480,
        "maxdisk": 100861726720,
        "uptime": 7421893,
        "level": "",
        "cgroup-mode": 2,
    }


def _ha_status(cluster: Cluster) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {"id": "quorum", "type": "quorum", "node": "gpu-node-1", "status": "OK", "quorate": 1},
        {"id": "master", "type": "master", "node": "gpu-node-1", "status": "gpu-node-1 (active)"},
    ]
    rows += [
        {
            "id": f"service:vm:{vm.vmid}",
            "type": "service",
            "sid": f"vm:{vm.vmid}",
            "node": vm.node,
            "state": vm.ha_state,
            "request_state": "started",
            "status": f"vm:{vm.vmid} ({vm.node}, {vm.ha_state})",
        }
        for vm in cluster.vms.values()
        if vm.ha_state is not None
    ]
    return rows


# -- a node --------------------------------------------------------------------------------------


def _node_status(cluster: Cluster, node: Node) -> dict[str, Any]:
    free = node.memory_bytes - node.used_bytes
    return {
        "memory": {
            "total": node.memory_bytes,
            "used": node.used_bytes,
            "free": free,
            **({"available": free} if cluster.number >= (9, 0) else {}),
        },
        "cpuinfo": {"model": node.cpu_model, "cpus": 128, "sockets": 2, "flags": "fpu vme"},
        "pveversion": f"pve-manager/{cluster.release}/abcdef01",
        "uptime": 7421893,
    }


def _storages(cluster: Cluster, node: Node) -> list[dict[str, Any]]:
    total = 4 << 40
    return [
        {
            "storage": name,
            "type": "rbd" if name.startswith("shared") else "dir",
            "content": "images,iso",
            "shared": int(name in cluster.shared_storages and name != "local"),
            "active": 1,
            "enabled": 1,
            "total": total,
            "used": total // 4,
            "avail": total - total // 4,
        }
        for name in sorted(cluster.shared_storages | node.storages)
    ]


def _devices(cluster: Cluster, node: str) -> list[dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for mapping in cluster.mappings.values():
        vendor, device = mapping.device.split(":")
        for path in mapping.paths.get(node, ()):
            address = path if "." in path else f"{path}.0"
            rows[address] = {
                "id": address,
                "class": "0x030200",
                "vendor": f"0x{vendor}",
                "device": f"0x{device}",
                "vendor_name": "NVIDIA Corporation",
                "device_name": mapping.description,
                "iommugroup": mapping.iommugroup,
                "subsystem_vendor": "0x10de",
                "subsystem_device": "0x0000",
                "subsystem_vendor_name": "NVIDIA Corporation",
                **({"mdev": 1} if mapping.mdev else {}),
            }
    return [rows[address] for address in sorted(rows)]


def _vm_status(vm: Vm) -> dict[str, Any]:
    status: dict[str, Any] = {
        "vmid": vm.vmid,
        "name": vm.name,
        "status": vm.status,
        "qmpstatus": vm.qmpstatus or vm.status,
        "maxmem": vm.memory_mib << 20,
        "mem": int((vm.memory_mib << 20) * 0.71) if vm.is_running else 0,
        "cpus": 16,
        "uptime": 186422 if vm.is_running else 0,
        "ha": {"managed": 0} if vm.ha_state is None else {"managed": 1, "state": vm.ha_state},
    }
    if vm.is_running:
        status |= {"pid": 4711, "running-machine": "pc-q35-10.1", "running-qemu": "10.1.2"}
    if vm.lock:
        status["lock"] = vm.lock
    if vm.template:
        status["template"] = 1
    return status


def _tasks(cluster: Cluster, node: str, params: Mapping[str, str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for task in sorted(cluster.tasks.values(), key=lambda task: -task.starttime):
        is_active = task.exitstatus is None
        source = params.get("source", "archive")
        is_wanted = source == "all" or (source == "active") == is_active
        if task.node != node or not is_wanted or not _is_of(task, params):
            continue
        row = {key: value for key, value in task.row().items() if key != "exitstatus"}
        row["status"] = "RUNNING" if is_active else task.exitstatus
        if not is_active:
            row["endtime"] = task.endtime
        rows.append(row)
    return rows[: int(params.get("limit", "50"))]


def _is_of(task: Task, params: Mapping[str, str]) -> bool:
    is_vm = params.get("vmid") in (None, str(task.vmid))
    is_kind = params.get("typefilter") in (None, task.type)
    return is_vm and is_kind and task.starttime >= int(params.get("since", "0"))


def _log(
    cluster: Cluster, node: str, upid: str, params: Mapping[str, str]
) -> tuple[list[dict[str, Any]], int]:
    task = cluster.tasks.get(upid)
    if task is None or task.node != node:
        return [{"n": 1, "t": "unable to open file - No such file or directory"}], 1
    if not task.lines:
        return [{"n": 1, "t": "no content"}], 1
    start, limit = int(params.get("start", "0")), int(params.get("limit", "50"))
    chosen = task.lines[start : start + limit if limit else None]
    return [{"n": n, "t": t} for n, t in enumerate(chosen, start + 1)], len(task.lines)

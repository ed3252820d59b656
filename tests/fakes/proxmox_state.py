"""What a fake Proxmox VE cluster consists of, and a cluster that the recorded answers come from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

#: 2026-12-01 01:32:44 UTC, when the recorded tasks began.
START = 1796088764
GIB = 1 << 30


@dataclass
class Node:
    """A hypervisor. `storages` are the local ones that it has beyond those of the cluster."""

    name: str
    ip: str
    online: bool = True
    memory_bytes: int = 1024 * GIB
    used_bytes: int = 612 * GIB
    cpu_model: str = "AMD EPYC 9354 32-Core Processor"
    storages: set[str] = field(default_factory=set)


@dataclass
class LocalDisk:
    """A volume on a storage of one node, in the words of the preconditions."""

    volid: str
    drivename: str | None = None
    size: int | None = None
    cdrom: int = 0
    is_unused: int = 0

    def row(self) -> dict[str, Any]:
        """The row of `local_disks`."""
        row: dict[str, Any] = {
            "volid": self.volid,
            "cdrom": self.cdrom,
            "is_attached": int(not self.is_unused),
            "is_unused": self.is_unused,
            "is_vmstate": 0,
            "is_cloudinit": 0,
            "is_tpmstate": 0,
            "shared": 0,
            "replicate": 1,
        }
        if self.drivename is not None:
            row["drivename"] = self.drivename
        if self.size is not None:
            row["size"] = self.size
        return row

    @property
    def storage(self) -> str:
        """The storage's name."""
        return self.volid.partition(":")[0]


@dataclass
class Vm:
    """A VM. `config` is what its configuration has beyond memory, name and tags.

    `migration` is what becomes of the next migration: see tests/fakes/proxmox_migration.py.
    `blocked`: node -> (sid, cause) of HA rules against it. `replicated_to`: replication targets.
    """

    vmid: int
    name: str
    node: str
    memory_mib: int = 16384
    status: str = "running"
    qmpstatus: str | None = None
    template: bool = False
    lock: str | None = None
    tags: tuple[str, ...] = ()
    pool: str | None = None
    ha_state: str | None = None
    config: dict[str, str] = field(default_factory=dict)
    local_disks: list[LocalDisk] = field(default_factory=list)
    snapshots: list[str] = field(default_factory=list)
    replicated_to: list[str] = field(default_factory=list)
    blocked: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    dependents: list[str] = field(default_factory=list)
    migration: str = "succeeds"

    @property
    def is_running(self) -> bool:
        return self.status == "running"

    @property
    def hostpci(self) -> dict[str, str]:
        """The passed-through devices, key -> property string."""
        return {k: v for k, v in sorted(self.config.items()) if k.startswith("hostpci")}

    def mapped(self) -> dict[str, str]:
        """Key of a mapped device -> the mapping's id."""
        return {
            key: part.partition("=")[2]
            for key, text in self.hostpci.items()
            for part in text.split(",")
            if part.startswith("mapping=")
        }

    def raw(self) -> list[str]:
        """Keys of the devices that are passed through by address, and of host serial ports."""
        return [key for key in self.hostpci if key not in self.mapped()]


@dataclass
class Mapping:
    """A PCI mapping; `paths`: node -> addresses, which are alternatives."""

    id: str
    description: str
    paths: dict[str, list[str]]
    device: str = "10de:20b5"
    subsystem: str = "10de:1533"
    iommugroup: int = 41
    mdev: bool = False
    live: bool = False

    def row(self, release: tuple[int, int]) -> dict[str, Any]:
        """The row of cluster/mapping/pci."""
        row: dict[str, Any] = {"id": self.id, "type": "pci", "description": self.description}
        if self.mdev:
            row["mdev"] = 1
        if self.live and release >= (8, 4):
            row["live-migration-capable"] = 1
        row["map"] = [
            f"id={self.device},iommugroup={self.iommugroup},node={node},path={path},"
            f"subsystem-id={self.subsystem}"
            for node, paths in self.paths.items()
            for path in paths
        ]
        row["digest"] = "b9af526faa87ca5df66475ddd1accf3f3dfe20a2"
        return row


@dataclass
class Task:
    """A task; `steps` are still to come, each with the lines that it writes and what it does."""

    upid: str
    node: str
    type: str
    vmid: int
    user: str
    starttime: int
    steps: Iterator[tuple[str, ...]]
    tokenid: str | None = None
    lines: list[str] = field(default_factory=list)
    exitstatus: str | None = None
    endtime: int | None = None

    def row(self) -> dict[str, Any]:
        """The body of its status."""
        head, pid, pstart = self.upid.split(":")[1:4]
        row: dict[str, Any] = {
            "upid": self.upid,
            "node": head,
            "pid": int(pid, 16),
            "pstart": int(pstart, 16),
            "starttime": self.starttime,
            "type": self.type,
            "id": str(self.vmid),
            "user": self.user,
            "status": "running" if self.exitstatus is None else "stopped",
        }
        if self.tokenid is not None:
            row["tokenid"] = self.tokenid
        if self.exitstatus is not None:
            row["exitstatus"] = self.exitstatus
        return row


@dataclass
class Cluster:
    """The state that all endpoints of a fake cluster share; `now` only moves with its tasks."""

    release: str = "9.2"
    nodes: dict[str, Node] = field(default_factory=dict)
    vms: dict[int, Vm] = field(default_factory=dict)
    mappings: dict[str, Mapping] = field(default_factory=dict)
    shared_storages: set[str] = field(default_factory=lambda: {"shared-ceph", "local"})
    tasks: dict[str, Task] = field(default_factory=dict)
    quorate: bool = True
    now: int = START
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def number(self) -> tuple[int, int]:
        """The release as numbers."""
        major, minor = self.release.split(".")[:2]
        return int(major), int(minor)

    def add(self, *vms: Vm) -> None:
        """More VMs."""
        self.vms.update((vm.vmid, vm) for vm in vms)

    def has_storage(self, node: str, storage: str) -> bool:
        """Whether a node can reach a storage."""
        return storage in self.shared_storages or storage in self.nodes[node].storages

    def stamp(self) -> str:
        """The time as task logs write it, in the node's zone: UTC here."""
        return datetime.fromtimestamp(self.now, UTC).strftime("%Y-%m-%d %H:%M:%S")


def config_of(vm: Vm) -> dict[str, Any]:
    """The body of a VM's configuration."""
    fixed: dict[str, Any] = {
        "boot": "order=scsi0",
        "cores": 16,
        "sockets": 1,
        "cpu": "host",
        "memory": str(vm.memory_mib),
        "balloon": 0,
        "machine": "q35",
        "bios": "ovmf",
        "efidisk0": f"shared-ceph:vm-{vm.vmid}-disk-1,efitype=4m,pre-enrolled-keys=0,size=528K",
        "ostype": "l26",
        "scsihw": "virtio-scsi-single",
        "scsi0": f"shared-ceph:vm-{vm.vmid}-disk-0,discard=on,iothread=1,size=128G",
        "net0": "virtio=BC:24:11:4A:10:65,bridge=vmbr0,tag=120",
        "agent": "1",
        "numa": 1,
        "onboot": 1,
        "vmgenid": "6c3b4d55-64a1-4ad7-9f0e-2f1df2c31a01",
        "smbios1": f"uuid=5f1d0c2e-6c59-4d0a-8d3b-{vm.vmid:012d}",
        "meta": "creation-qemu=10.1.2,ctime=1760000000",
        "name": vm.name,
    }
    if vm.tags:
        fixed["tags"] = ";".join(vm.tags)
    if vm.lock:
        fixed["lock"] = vm.lock
    for disk in vm.local_disks:
        if disk.drivename is not None:
            fixed[disk.drivename] = disk.volid + (",media=cdrom" if disk.cdrom else "")
    return {**fixed, **vm.config, "digest": "674044a3edd6793139e9fbe35ec34166f0a58bcb"}


def recorded_cluster(release: str = "9.2") -> Cluster:
    """The cluster of the recorded answers: eight nodes, of which the last is down."""
    cluster = Cluster(release)
    for n in range(1, 9):
        name = f"gpu-node-{n}"
        cluster.nodes[name] = Node(name, f"10.77.0.{10 + n}", online=n != 8)
    cluster.nodes["gpu-node-1"].storages = cluster.nodes["gpu-node-2"].storages = {"local-fast"}
    functions = ["0000:41:00.4", "0000:41:00.5"]
    cluster.mappings["a100-vgpu"] = Mapping(
        "a100-vgpu",
        "A100 20C vGPU",
        {f"gpu-node-{n}": functions for n in range(1, 5)},
        mdev=True,
        live=True,
    )
    cluster.mappings["h100-full"] = Mapping(
        "h100-full",
        "whole H100",
        {f"gpu-node-{n}": ["0000:52:00"] for n in (1, 5)},
        device="10de:2331",
        subsystem="10de:1626",
        iommugroup=52,
    )
    one, two = "gpu-node-1", "gpu-node-2"
    vgpu = {"hostpci0": "mapping=a100-vgpu,mdev=nvidia-474,pcie=1"}
    raw = {
        "hostpci0": "0000:52:00,pcie=1,x-vga=0",
        "hostpci1": "0000:61:00.0;0000:61:00.1,pcie=1",
    }
    cluster.add(
        Vm(101, "train-vgpu-a", one, 65536, tags=("gpu", "vgpu"), pool="gpu-pool", config=vgpu),
        Vm(102, "train-raw-h100", one, 262144, tags=("gpu", "passthrough"), config=raw),
        Vm(
            *(103, "infer-mapped-h100", one, 65536),
            pool="gpu-pool",
            config={"hostpci0": "mapping=h100-full,pcie=1"},
        ),
        Vm(104, "web-plain", one),
        Vm(106, "locked-backup", one, 32768, lock="backup"),
        Vm(107, "tmpl-ubuntu", one, 8192, status="stopped", template=True),
        Vm(108, "ha-vm", two, 32768, ha_state="started"),
        Vm(110, "k8s-gpu-worker-1", two, 131072, tags=("gpu", "k8s")),
        Vm(112, "vgpu-stopped", two, 65536, "stopped", tags=("gpu", "vgpu"), config=vgpu),
        Vm(119, "", "gpu-node-8"),
        vm_with_local_disk(),
    )
    return cluster


def vm_with_local_disk() -> Vm:
    """VM 105: a local disk, an ISO, an unused volume, and HA rules."""
    return Vm(
        *(105, "db-local", "gpu-node-1", 16384),
        ha_state="started",
        local_disks=[
            LocalDisk("local-fast:105/vm-105-disk-0.qcow2", "scsi0", 34359738368),
            LocalDisk("local:iso/debian-13.iso", "ide2", 734003200, cdrom=1),
            LocalDisk("local-fast:105/vm-105-disk-1.qcow2", is_unused=1),
        ],
        blocked={"gpu-node-3": [("vm:111", "resource-affinity")]},
        dependents=["vm:112"],
    )

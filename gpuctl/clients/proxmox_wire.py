"""What the Proxmox VE API answers, release 7 to 9: only the fields that gpuctl reads.

Sizes are in bytes, times in unix seconds. Missing fields are None: releases differ, and a node
that is down leaves most of them out. Flags come as 0/1, "1" or true, depending on the call.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from msgspec import Struct, field

from gpuctl.errors import UsageError


class Version(Struct, frozen=True, kw_only=True):
    """The release of the node that answered, such as 9.2.11."""

    version: str
    release: str | None = None

    @property
    def number(self) -> tuple[int, int]:
        """Major and minor, to compare with; (0, 0) when the text is no number."""
        found = re.match(r"(\d+)\.(\d+)", self.version)
        return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


class ClusterRow(Struct, frozen=True, kw_only=True):
    """A row of the cluster's status: the cluster itself (`quorate`), or a node (`online`)."""

    type: str
    name: str
    quorate: bool | None = None
    online: bool | None = None
    ip: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """Whether the cluster can decide, and which of its nodes are there.

    `quorate` is True for a node without a cluster: it decides alone.
    """

    name: str | None
    quorate: bool
    online: dict[str, bool]


class Resource(Struct, frozen=True, kw_only=True):
    """A row of cluster/resources: a VM (`qemu`), a container (`lxc`), a node, a storage."""

    id: str
    type: str
    node: str | None = None
    vmid: int | None = None
    name: str | None = None
    status: str | None = None
    template: bool = False
    tags: str | None = None
    lock: str | None = None
    hastate: str | None = None
    pool: str | None = None
    maxmem: int | None = None
    mem: int | None = None
    maxcpu: float | None = None
    cpu: float | None = None
    uptime: int | None = None
    storage: str | None = None
    plugintype: str | None = None
    shared: bool | None = None
    content: str | None = None
    disk: int | None = None
    maxdisk: int | None = None


class NodeRow(Struct, frozen=True, kw_only=True):
    """A node of the list; `status` is online, offline or unknown."""

    node: str
    status: str
    maxmem: int | None = None
    mem: int | None = None
    ssl_fingerprint: str | None = None


class Memory(Struct, frozen=True, kw_only=True):
    """A node's memory."""

    total: int | None = None
    used: int | None = None
    free: int | None = None
    available: int | None = None


class CpuInfo(Struct, frozen=True, kw_only=True):
    """A node's processors."""

    model: str | None = None
    cpus: int | None = None
    flags: str | None = None


class NodeStatus(Struct, frozen=True, kw_only=True):
    """A node in detail."""

    memory: Memory = Memory()
    cpuinfo: CpuInfo = CpuInfo()
    pveversion: str | None = None


class HaOfVm(Struct, frozen=True, kw_only=True):
    """Whether the HA stack has a VM in its hands."""

    managed: bool = False
    state: str | None = None


class VmStatus(Struct, frozen=True, kw_only=True):
    """A VM now. `qmpstatus` is QEMU's own word: running, paused, inmigrate, postmigrate..."""

    vmid: int
    status: str
    qmpstatus: str | None = None
    name: str | None = None
    lock: str | None = None
    ha: HaOfVm = HaOfVm()
    maxmem: int | None = None
    mem: int | None = None
    pid: int | None = None
    template: bool = False
    running_machine: str | None = field(default=None, name="running-machine")
    running_qemu: str | None = field(default=None, name="running-qemu")


class MappingCheck(Struct, frozen=True, kw_only=True):
    """What the server finds wrong with a mapping on the node that was asked about."""

    severity: str
    message: str


class PciMapping(Struct, frozen=True, kw_only=True):
    """A cluster-wide name for devices. `map` holds one property string per device and node."""

    id: str
    description: str | None = None
    mdev: bool = False
    live_migration_capable: bool | None = field(default=None, name="live-migration-capable")
    map: tuple[str, ...] = ()
    checks: tuple[MappingCheck, ...] = ()


class PciDevice(Struct, frozen=True, kw_only=True):
    """A device in a node."""

    id: str
    vendor: str | None = None
    device: str | None = None
    vendor_name: str | None = None
    device_name: str | None = None
    iommugroup: int | None = None
    mdev: bool = False


class MdevType(Struct, frozen=True, kw_only=True):
    """A kind of mediated device that a card offers, and how many more of it."""

    type: str
    available: int | None = None
    description: str | None = None
    name: str | None = None


class LocalDisk(Struct, frozen=True, kw_only=True):
    """A volume that the target can't reach; `drivename` is None for one that is not attached."""

    volid: str
    drivename: str | None = None
    size: int | None = None
    cdrom: bool = False
    is_unused: bool = False
    is_attached: bool | None = None
    is_cloudinit: bool = False


class MappedResource(Struct, frozen=True, kw_only=True):
    """The mapping behind a device of the VM, and whether it allows a live migration (8.4+)."""

    name: str
    live_migration: bool = field(default=False, name="live-migration")


class Preconditions(Struct, frozen=True, kw_only=True):
    """What the server says before a migration. None: this release does not tell.

    `not_allowed_nodes` holds every other node from 8.4 on; only a non-empty entry is a refusal.
    `allowed_nodes` has offline nodes in it. `mapped` comes with 8.4, its bare keys with 8.0.
    """

    running: bool
    allowed_nodes: tuple[str, ...] | None = None
    not_allowed_nodes: dict[str, dict[str, Any]] | None = None
    local_disks: tuple[LocalDisk, ...] = ()
    local_resources: tuple[str, ...] = ()
    mapped_keys: tuple[str, ...] | None = field(default=None, name="mapped-resources")
    mapped: dict[str, MappedResource] | None = field(default=None, name="mapped-resource-info")
    dependent_ha: tuple[str, ...] = field(default=(), name="dependent-ha-resources")

    def objections(self, target: str) -> dict[str, tuple[str, ...]] | None:
        """What the server has against a target, by kind; {} for nothing, None when it can't say.

        A kind that gpuctl does not know is passed on: it is an objection all the same.
        """
        if self.not_allowed_nodes is not None and self.not_allowed_nodes.get(target):
            entry = self.not_allowed_nodes[target]
            return {kind: _names(found) for kind, found in sorted(entry.items())}
        if self.allowed_nodes is None:
            return None
        if target in self.allowed_nodes:
            return {}
        return {"not-allowed": ()}


def _names(found: Any) -> tuple[str, ...]:
    """The entries of an objection as texts, whatever shape the release gives them."""
    if isinstance(found, list):
        return tuple(_name(one) for one in found)
    return (_name(found),)


def _name(one: Any) -> str:
    if isinstance(one, dict):
        sid, cause = one.get("sid"), one.get("cause")
        rest = {key: value for key, value in one.items() if key not in ("sid", "cause")}
        return " ".join(str(part) for part in (sid, cause and f"({cause})", rest or None) if part)
    return str(one)


class TaskStatus(Struct, frozen=True, kw_only=True):
    """A task now. `exitstatus` only exists once it has stopped."""

    upid: str
    node: str
    status: str
    type: str | None = None
    id: str | None = None
    user: str | None = None
    starttime: int | None = None
    exitstatus: str | None = None

    @property
    def is_running(self) -> bool:
        """Whether it still works."""
        return self.status == "running"

    @property
    def succeeded(self) -> bool | None:
        """Whether its end was good; None while it runs, or when the server can't tell the end.

        A migration that succeeded has to be verified all the same, and one that failed may have
        moved the VM ("migration problems").
        """
        if self.is_running:
            return None
        end = (self.exitstatus or "").strip()
        if end == "OK" or end.startswith("WARNINGS:"):
            return True
        lost = not end or end == "unexpected status" or end.startswith("unable to get last line")
        return None if lost else False


class TaskRow(Struct, frozen=True, kw_only=True):
    """A task of a node's list; an active one has status RUNNING or none."""

    upid: str
    node: str
    type: str
    id: str | None = None
    user: str | None = None
    starttime: int | None = None
    endtime: int | None = None
    status: str | None = None

    @property
    def is_running(self) -> bool:
        """Whether it still works."""
        return self.endtime is None and self.status in (None, "RUNNING", "running")


class LogLine(Struct, frozen=True):
    """Line `n` (from 1) of a task's log."""

    n: int
    t: str


@dataclass(frozen=True, slots=True)
class TaskLog:
    """A part of a task's log, and how many lines there are in all, as far as the server told."""

    lines: tuple[LogLine, ...]
    total: int | None


class HaResource(Struct, frozen=True, kw_only=True):
    """What the HA stack is told to do with a VM; `state` ignored means: nothing."""

    sid: str
    state: str | None = None
    group: str | None = None


class HaStatusRow(Struct, frozen=True, kw_only=True):
    """A row of the HA manager's status: quorum, master, a node's agent or a service."""

    id: str
    type: str
    status: str | None = None
    sid: str | None = None
    node: str | None = None
    state: str | None = None
    request_state: str | None = None


class Storage(Struct, frozen=True, kw_only=True):
    """A storage as one node sees it."""

    storage: str
    type: str | None = None
    content: str | None = None
    shared: bool = False
    active: bool | None = None
    enabled: bool | None = None
    total: int | None = None
    used: int | None = None
    avail: int | None = None


class VmSnapshot(Struct, frozen=True, kw_only=True):
    """A snapshot of a VM. The API lists the present state as one called `current`, too."""

    name: str
    snaptime: int | None = None
    vmstate: bool = False


class Replication(Struct, frozen=True, kw_only=True):
    """A job that copies a VM's disks to another node."""

    id: str
    guest: int
    target: str
    disable: bool = False


@dataclass(frozen=True, slots=True)
class Upid:
    """The name of a task: where it runs, what it does to whom, since when (unix seconds)."""

    text: str
    node: str
    started_at: int
    type: str
    id: str
    user: str

    def __str__(self) -> str:
        return self.text


_UPID = re.compile(
    r"UPID:(?P<node>[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?):[0-9A-Fa-f]{8}:[0-9A-Fa-f]{8,9}:"
    r"(?P<start>[0-9A-Fa-f]{8}):(?P<type>[^:\s]+):(?P<id>[^:\s]*):(?P<user>[^:\s]+):(?P<note>[^\s]*)"
)


def parse_upid(text: str) -> Upid:
    """Take a UPID apart. Raises UsageError for any other text: people type them."""
    found = _UPID.fullmatch(text.strip())
    if found is None:
        raise UsageError(
            f"{text.strip()[:80]!r} is not a UPID",
            cause="a UPID reads UPID:NODE:PID:PSTART:START:TYPE:ID:USER: with its last colon",
            hint="quote it in the shell; gpuctl history shows those of its own migrations",
        )
    return Upid(
        text=text.strip(),
        node=found["node"],
        started_at=int(found["start"], 16),
        type=found["type"],
        id=found["id"],
        user=found["user"],
    )

"""Facts for tests: a VM that nothing speaks against, on two nodes that are alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpuctl.model.migration import (
    Check,
    LocalVolume,
    MigrationFacts,
    NodeFacts,
    PassedDevice,
    ServerVerdict,
    VmFacts,
    Wish,
)
from gpuctl.policy.migration.checks import checklist

A_VM = VmFacts(
    vmid=101,
    name="train-a",
    node="one",
    status="running",
    qmpstatus="running",
    ram_mib=65536,
    cpu_type="host",
    storages=frozenset({"ceph"}),
    snapshots=(),
    replicated_to=(),
    kubernetes_node="",
)
A_NODE = NodeFacts(
    name="one",
    is_online=True,
    free_mib=262144,
    cpu_model="EPYC 9354",
    storages=frozenset({"ceph"}),
    mappings=frozenset({"vgpu"}),
    free_devices={"vgpu": 1},
    migrations=(),
)
GOOD = MigrationFacts(
    asked="101",
    wish=Wish(target="two"),
    vm=A_VM,
    quorate=True,
    source=A_NODE,
    target=replace(A_NODE, name="two"),
    known_nodes=("one", "two"),
    verdict=ServerVerdict(objections={}),
    missing_rights=(),
)
VGPU = PassedDevice(key="hostpci0", mapping="vgpu", mdev="nvidia-474", live_capable=True)
RAW = PassedDevice(key="hostpci0", addresses=("0000:52:00",))
DISK = LocalVolume(volume="fast:101/disk-0", drive="scsi0", size_bytes=32 << 30)


def facts(
    vm: dict[str, Any] | None = None,
    wish: dict[str, Any] | None = None,
    source: dict[str, Any] | None = None,
    target: dict[str, Any] | None = None,
    verdict: dict[str, Any] | None = None,
    **more: Any,
) -> MigrationFacts:
    """GOOD with these changes to its parts."""
    changed = {
        "vm": replace(A_VM, **(vm or {})),
        "wish": replace(GOOD.wish, **(wish or {})),
        "source": replace(A_NODE, **(source or {})),
        "target": replace(A_NODE, **{"name": "two"} | (target or {})),
        "verdict": ServerVerdict(**{"objections": {}} | (verdict or {})),
    }
    return replace(GOOD, **{**changed, **more})


def outcome(of: MigrationFacts, name: str) -> Check:
    """The check of that name."""
    (check,) = (check for check in checklist(of) if check.name == name)
    return check

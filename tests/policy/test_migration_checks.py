"""The checklist before a migration: what forbids a move, what is said, and what is unknown."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuctl.model.migration import LocalVolume, MigrationFacts, NodeFacts, VmFacts
from gpuctl.policy.migration.checks import checklist, failures
from tests.policy.migrating import A_VM, DISK, GOOD, RAW, VGPU, facts, outcome

NAMES = (
    *("vm", "state", "lock", "rights", "quorum", "target", "preconditions", "storages", "memory"),
    *("cpu", "other-migrations", "passthrough", "mappings", "local-resources", "local-disks"),
    *("snapshots", "replication", "ha", "kubernetes-node"),
)
ISO = LocalVolume(volume="local:iso/debian.iso", drive="ide2", is_cdrom=True)
UNUSED = replace(DISK, drive=None)
STOPPED = {"status": "stopped", "qmpstatus": "stopped"}


def test_a_plain_vm_may_go() -> None:
    assert [check.name for check in checklist(GOOD)] == list(NAMES)
    assert {check.outcome for check in checklist(GOOD)} == {"ok"}


CASES: list[tuple[str, str, str, dict[str, Any]]] = [
    ("state", "fail", "--offline was asked for", {"wish": {"online": False}}),
    ("state", "fail", "another migration", {"vm": {"qmpstatus": "postmigrate"}}),
    ("state", "fail", "prelaunch", {"vm": {"qmpstatus": "prelaunch"}}),
    ("state", "warn", "paused", {"vm": {"qmpstatus": "paused"}}),
    ("state", "unknown", "one does not report", {"vm": {"status": "unknown"}}),
    ("state", "ok", "stopped", {"vm": STOPPED}),
    ("state", "warn", "--online has no effect", {"vm": STOPPED, "wish": {"online": True}}),
    ("vm", "fail", "template", {"vm": {"is_template": True}}),
    ("lock", "fail", "locked (backup)", {"vm": {"lock": "backup"}}),
    ("lock", "fail", "--follow", {"vm": {"lock": "migrate"}}),
    ("rights", "fail", "VM.Migrate on /vms/101", {"missing_rights": (("/vms/101", "VM.Migrate"),)}),
    ("rights", "unknown", "could not be read", {"missing_rights": None}),
    ("quorum", "fail", "no quorum", {"quorate": False}),
    ("quorum", "unknown", "Sys.Audit", {"quorate": None, "unread": {"quorum": "Sys.Audit"}}),
    ("target", "fail", "on one already", {"wish": {"target": "one"}}),
    ("target", "fail", "no node three", {"wish": {"target": "three"}}),
    ("target", "fail", "two is offline", {"target": {"is_online": False}}),
    ("target", "fail", "own node one is offline", {"source": {"is_online": False}}),
    ("target", "unknown", "not known", {"target": {"is_online": None}}),
    (
        *("preconditions", "fail", "lacks the storage fast"),
        {"verdict": {"objections": {"unavailable_storages": ("fast",)}}},
    ),
    (
        *("preconditions", "fail", "a-new-kind: x"),
        {"verdict": {"objections": {"a-new-kind": ("x",)}}},
    ),
    ("preconditions", "warn", "names no targets", {"verdict": {"objections": None}}),
    ("storages", "fail", "no storage ceph", {"target": {"storages": frozenset()}}),
    ("storages", "unknown", "could not be read", {"target": {"storages": None}}),
    ("storages", "fail", "no storage nope", {"wish": {"target_storage": "ceph,a:nope"}}),
    ("memory", "fail", "needs 64.0 GiB, two has 64.0 GiB", {"target": {"free_mib": 65536}}),
    ("memory", "warn", "free on two", {"target": {"free_mib": 1}, "vm": STOPPED}),
    ("memory", "unknown", "free memory of two", {"target": {"free_mib": None}}),
    ("cpu", "warn", "EPYC 9354 / Xeon", {"target": {"cpu_model": "Xeon"}}),
    ("cpu", "unknown", "not known", {"target": {"cpu_model": None}}),
    (
        *("cpu", "ok", "does not depend on the node"),
        {"target": {"cpu_model": "Xeon"}, "vm": {"cpu_type": "x86-64-v3,flags=+aes"}},
    ),
    ("cpu", "ok", "starts anew", {"target": {"cpu_model": "Xeon"}, "vm": STOPPED}),
    ("other-migrations", "fail", "VM 7 on two", {"target": {"migrations": ("VM 7",)}}),
    ("other-migrations", "fail", "VM 7 on one", {"source": {"migrations": ("VM 7",)}}),
    ("other-migrations", "unknown", "on two", {"target": {"migrations": None}}),
    ("passthrough", "fail", "hostpci0 (0000:52:00)", {"vm": {"devices": (RAW,)}}),
    ("passthrough", "fail", "ties it to one", {"vm": {"devices": (RAW,)} | STOPPED}),
    ("passthrough", "warn", "mapping vgpu", {"vm": {"devices": (VGPU,)}}),
    (
        *("passthrough", "fail", "not marked for live migration"),
        {"vm": {"devices": (replace(VGPU, live_capable=False),)}},
    ),
    (
        *("passthrough", "unknown", "Mapping.Audit"),
        {"vm": {"devices": (replace(VGPU, live_capable=None),)}},
    ),
    (
        *("passthrough", "ok", "moves stopped"),
        {"vm": {"devices": (replace(VGPU, live_capable=False),)} | STOPPED},
    ),
    (
        *("mappings", "fail", "no device for the mapping vgpu"),
        {"vm": {"devices": (VGPU,)}, "target": {"mappings": frozenset()}},
    ),
    (
        *("mappings", "fail", "no device of vgpu is free"),
        {"vm": {"devices": (VGPU, replace(VGPU, key="hostpci1"))}},
    ),
    (
        *("mappings", "unknown", "whether a device is free"),
        {"vm": {"devices": (VGPU,)}, "target": {"free_devices": None}},
    ),
    ("mappings", "ok", "free device of vgpu", {"vm": {"devices": (VGPU,)}}),
    (
        *("mappings", "warn", "can't start there"),
        {"vm": {"devices": (VGPU,)} | STOPPED, "target": {"free_devices": {"vgpu": 0}}},
    ),
    ("mappings", "unknown", "configuration could not be read", {"vm": {"devices": None}}),
    ("passthrough", "unknown", "configuration could not be read", {"vm": {"devices": None}}),
    ("storages", "unknown", "configuration could not be read", {"vm": {"storages": None}}),
    ("local-resources", "fail", "usb0", {"verdict": {"local_devices": ("usb0",)}}),
    (
        *("local-resources", "fail", "hostpci0 as bound"),
        {"vm": {"devices": (VGPU,)}, "verdict": {"local_devices": ("hostpci0",)}},
    ),
    ("local-disks", "fail", "32.0 GiB", {"verdict": {"local_volumes": (DISK,)}}),
    (
        *("local-disks", "warn", "are copied"),
        {"verdict": {"local_volumes": (DISK,)}, "wish": {"with_local_disks": True}},
    ),
    ("local-disks", "warn", "are copied", {"verdict": {"local_volumes": (DISK,)}, "vm": STOPPED}),
    ("local-disks", "warn", "are copied", {"verdict": {"local_volumes": (UNUSED,)}}),
    (
        *("local-disks", "fail", "debian.iso"),
        {"verdict": {"local_volumes": (ISO,)}, "wish": {"with_local_disks": True}},
    ),
    (
        *("snapshots", "fail", "a snapshot on local disks"),
        {"vm": {"snapshots": ("s1",)}, "verdict": {"local_volumes": (DISK,)}},
    ),
    ("snapshots", "ok", "2 snapshots", {"vm": {"snapshots": ("s1", "s2")}}),
    ("snapshots", "unknown", "could not be read", {"vm": {"snapshots": None}}),
    ("replication", "fail", "replicated to three", {"vm": {"replicated_to": ("three",)}}),
    ("replication", "warn", "copied in full", {"vm": {"replicated_to": ("three",)} | STOPPED}),
    ("replication", "ok", "replicated to two", {"vm": {"replicated_to": ("two",)}}),
    ("ha", "warn", "only queues the request", {"vm": {"ha_state": "started"}}),
    ("ha", "fail", "state error", {"vm": {"ha_state": "error"}}),
    ("ha", "fail", "moving it already", {"vm": {"ha_state": "migrate"}}),
    ("ha", "ok", "does not manage", {"vm": {"ha_state": "ignored"}}),
    (
        *("ha", "warn", "vm:7 will move with it; and its own balancing"),
        {
            "vm": {"ha_state": "started"},
            "verdict": {"moves_along": ("vm:7",)},
            "balances_itself": True,
        },
    ),
    ("kubernetes-node", "fail", "kubectl drain k1", {"vm": {"kubernetes_node": "k1"}}),
    (
        *("kubernetes-node", "fail", "k1 (likely)"),
        {"vm": {"kubernetes_node": "k1", "kubernetes_sureness": "likely"}},
    ),
    (
        *("kubernetes-node", "warn", "said to be drained"),
        {"vm": {"kubernetes_node": "k1"}, "wish": {"drained": True}},
    ),
    ("kubernetes-node", "unknown", "not known", {"vm": {"kubernetes_node": None}}),
]


@pytest.mark.parametrize(("name", "expected", "words", "changes"), CASES)
def test_each_rule(name: str, expected: str, words: str, changes: dict[str, Any]) -> None:
    check = outcome(facts(**changes), name)
    assert check.outcome == expected
    assert words in f"{check.reason} {check.hint}"


def test_every_rule_has_a_case_that_it_objects_to() -> None:
    assert {name for name, expected, *_ in CASES if expected != "ok"} == set(NAMES)


def test_raw_passthrough_says_what_can_be_done_instead() -> None:
    hint = outcome(facts(vm={"devices": (RAW,)}), "passthrough").hint
    assert all(word in hint for word in ("offline", "mapped vGPU", "drain"))


def test_without_a_verdict_nothing_local_is_taken_for_absent() -> None:
    checks = {check.name: check for check in checklist(NO_VERDICT)}
    for name in ("preconditions", "local-resources", "local-disks"):
        assert checks[name].outcome == "unknown"
    assert "VM is locked" in checks["preconditions"].reason


NO_VERDICT = replace(GOOD, verdict=None, verdict_problem="VM is locked (backup)")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"vm": None}, "there is no VM 101"),
        ({"vm": None, "namesakes": (101, 205)}, "not unique: VMs 101, 205"),
        ({"vm": None, "missing_rights": (("/vms", "VM.Audit"),)}, "lacks VM.Audit"),
    ],
)
def test_without_a_vm_there_is_one_check(changes: dict[str, Any], words: str) -> None:
    (check,) = checklist(replace(GOOD, **changes))
    assert check.outcome == "fail"
    assert words in f"{check.reason} {check.hint}"


KNOWN = {
    VmFacts: ("devices", "storages", "ram_mib", "snapshots", "replicated_to", "kubernetes_node"),
    NodeFacts: ("is_online", "free_mib", "cpu_model", "storages", "mappings", "migrations"),
    MigrationFacts: ("quorate", "target", "source", "verdict", "missing_rights"),
}


@given(
    lost=st.sets(st.sampled_from([(kind, name) for kind, names in KNOWN.items() for name in names]))
)
def test_what_is_not_known_is_never_ok(lost: set[tuple[type, str]]) -> None:
    """Take facts away from a VM that may go: checks turn to unknown, and none turns to ok."""
    vm = replace(A_VM, **({"devices": (VGPU,)} | {n: None for k, n in lost if k is VmFacts}))
    gone = {n: None for k, n in lost if k is NodeFacts}
    of = facts(source=gone, target=gone)
    of = replace(of, vm=vm, **{n: None for k, n in lost if k is MigrationFacts})
    before = {check.name: check.outcome for check in checklist(facts(vm={"devices": (VGPU,)}))}
    after = {check.name: check.outcome for check in checklist(of)}
    assert before.keys() == after.keys()
    assert all(after[name] in (before[name], "unknown") for name in after)
    assert bool(lost) == ("unknown" in after.values())


def test_failures_are_those_that_forbid() -> None:
    of = facts(vm={"lock": "backup", "ha_state": "started"}, quorate=False)
    assert [check.name for check in failures(checklist(of))] == ["lock", "quorum"]


def test_every_field_of_the_facts_is_used_by_a_case() -> None:
    told = {key for *_, changes in CASES for part in changes.values() for key in _keys(part)}
    unused = {one.name for one in fields(VmFacts)} - told
    assert unused <= {"vmid", "name", "node", "ram_mib", "storages"}


def _keys(part: Any) -> set[str]:
    return set(part) if isinstance(part, dict) else set()

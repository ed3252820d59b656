"""The checklist before a migration: every rule, each with its reason, none left out.

`checklist` gives all checks in a fixed order. A `fail` forbids the move, a `warn` has to be seen,
an `unknown` could not be judged because a fact is missing; it is never taken for an ok.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gpuctl.model.migration import Check, MigrationFacts, VmFacts
from gpuctl.policy.migration.checks_devices import DEVICE_CHECKS
from gpuctl.policy.migration.checks_target import TARGET_CHECKS


def checklist(facts: MigrationFacts) -> tuple[Check, ...]:
    """Every check, in order; only what the VM is missing for is left out when there is no VM."""
    exists = _vm_exists(facts)
    if facts.vm is None:
        return (exists,)
    vm = facts.vm
    return (
        exists,
        *(check(facts, vm) for check in (*_VM_CHECKS, *TARGET_CHECKS, *DEVICE_CHECKS, *_LAST)),
    )


def failures(checks: Iterable[Check]) -> tuple[Check, ...]:
    """The checks that forbid the move."""
    return tuple(check for check in checks if check.outcome == "fail")


def _vm_exists(facts: MigrationFacts) -> Check:
    name = "vm"
    if len(facts.namesakes) > 1:
        ids = ", ".join(str(vmid) for vmid in facts.namesakes)
        return Check(
            name, "fail", f"the name {facts.asked} is not unique: VMs {ids}", "use the VM's id"
        )
    if facts.vm is None:
        lacks_audit = any(right == "VM.Audit" for _, right in facts.missing_rights or ())
        hint = (
            "the token lacks VM.Audit, so that it may not see it: gpuctl export pve-role"
            if lacks_audit
            else "check the id or name; a token only sees VMs on which it has VM.Audit"
        )
        return Check(name, "fail", f"there is no VM {facts.asked}", hint)
    if facts.vm.is_template:
        return Check(
            *(name, "fail", f"{facts.vm.shown} is a template"),
            "gpuctl does not move templates: its linked clones need it where it is",
        )
    return Check(name, "ok", f"{facts.vm.shown} is on {facts.vm.node}")


def _state(facts: MigrationFacts, vm: VmFacts) -> Check:
    name = "state"
    if vm.status == "unknown":
        return Check(
            *(name, "unknown", f"the state of {vm.shown} is unknown: {vm.node} does not report"),
            f"check that {vm.node} is up",
        )
    if vm.qmpstatus in ("inmigrate", "postmigrate", "finish-migrate"):
        return Check(
            *(name, "fail", f"it is {vm.qmpstatus}: part of another migration"),
            "look at the VM's last migration task, and which of the two sides is the real one",
        )
    if vm.is_running and facts.wish.online is False:
        return Check(
            *(name, "fail", "it runs, and --offline was asked for"),
            "shut it down first, or migrate it online",
        )
    if vm.qmpstatus == "prelaunch":
        return Check(
            *(name, "fail", "QEMU has started it, but it does not run (prelaunch)"),
            "stop it and start it again, or look at its start task",
        )
    if not vm.is_running:
        how = "it is stopped: only its configuration and disks move"
        if facts.wish.online:
            return Check(name, "warn", f"{how}; --online has no effect")
        return Check(name, "ok", how)
    if vm.qmpstatus in ("paused", "suspended", "io-error", "internal-error"):
        return Check(
            *(name, "warn", f"it runs, but QEMU says {vm.qmpstatus}"),
            "it will be the same on the target",
        )
    return Check(name, "ok", "it runs and is moved live")


def _lock(facts: MigrationFacts, vm: VmFacts) -> Check:
    if vm.lock is None:
        return Check("lock", "ok", "no job holds it")
    hint = "wait until the job is done"
    if vm.lock == "migrate":
        hint = (
            "follow that migration with gpuctl migrate --follow UPID; if none runs, check both "
            "nodes for a second QEMU process of it before `qm unlock`"
        )
    return Check("lock", "fail", f"it is locked ({vm.lock})", hint)


def _rights(facts: MigrationFacts, vm: VmFacts) -> Check:
    if facts.missing_rights is None:
        return Check("rights", "unknown", "the token's rights could not be read")
    if not facts.missing_rights:
        return Check("rights", "ok", "the token has the rights it needs")
    lacking = ", ".join(f"{right} on {path}" for path, right in facts.missing_rights)
    return Check("rights", "fail", f"the token lacks {lacking}", "grant it: gpuctl export pve-role")


def _quorum(facts: MigrationFacts, vm: VmFacts) -> Check:
    if facts.quorate is None:
        return Check(
            *("quorum", "unknown", "the cluster's status could not be read"),
            _unread(facts, "quorum"),
        )
    if not facts.quorate:
        return Check(
            *("quorum", "fail", "the cluster has no quorum: nothing can be changed"),
            "bring nodes back until a majority sees each other: pvecm status",
        )
    return Check("quorum", "ok", "the cluster has a majority")


def _ha(facts: MigrationFacts, vm: VmFacts) -> Check:
    name = "ha"
    if not vm.is_ha_managed:
        return Check(name, "ok", "the HA stack does not manage it")
    if vm.ha_state in ("error", "fence", "recovery", "freeze"):
        return Check(
            *(name, "fail", f"the HA stack has it in state {vm.ha_state}"),
            "clear that first: ha-manager status",
        )
    if vm.ha_state in ("migrate", "relocate"):
        return Check(
            *(name, "fail", "the HA stack is moving it already"), "watch it with ha-manager status"
        )
    texts = [f"the HA stack ({vm.ha_state}) moves it: the first task only queues the request"]
    if facts.wish.target_storage or facts.wish.with_local_disks:
        texts.append("it ignores bandwidth limit and target storage, and takes local disks along")
    along = facts.verdict.moves_along if facts.verdict else ()
    if along:
        texts.append(f"{', '.join(along)} will move with it")
    if facts.balances_itself:
        texts.append("and its own balancing is on, which may move it again")
    return Check(name, "warn", "; ".join(texts), "allow it some 10 s more; rules may send it back")


def _kubernetes(facts: MigrationFacts, vm: VmFacts) -> Check:
    name = "kubernetes-node"
    if vm.kubernetes_node is None:
        return Check(
            *(name, "unknown", "whether a Kubernetes node runs in it is not known"),
            _unread(facts, "kubernetes") or "configure kubernetes, or proxmox.kubernetes_nodes",
        )
    if not vm.kubernetes_node:
        return Check(name, "ok", "no Kubernetes node runs in it")
    node = vm.kubernetes_node
    how = "" if vm.kubernetes_sureness == "certain" else f" ({vm.kubernetes_sureness})"
    if facts.wish.drained:
        return Check(
            *(name, "warn", f"it is the Kubernetes node {node}{how}, said to be drained"),
            "its zone label and topology will not change; uncordon it afterwards",
        )
    return Check(
        *(name, "fail", f"it is the Kubernetes node {node}{how}: its pods would stall"),
        f"drain it first (kubectl drain {node}), then repeat with --drained; often moving the "
        "pods is enough",
    )


def _unread(facts: MigrationFacts, what: str) -> str:
    return facts.unread.get(what, "")


Rule = Callable[[MigrationFacts, VmFacts], Check]

_VM_CHECKS: tuple[Rule, ...] = (_state, _lock, _rights, _quorum)
_LAST: tuple[Rule, ...] = (_ha, _kubernetes)

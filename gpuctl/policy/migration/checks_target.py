"""Whether the target can take the VM: there, able, free, and not busy with another move."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpuctl.model.migration import Check, MigrationFacts, NodeFacts, VmFacts

#: What a node keeps for itself when a VM comes.
SPARE_MIB = 2048.0


def _there(facts: MigrationFacts, vm: VmFacts) -> Check:
    name, target = "target", facts.wish.target
    if target == vm.node:
        return Check(name, "fail", f"it is on {target} already", "nothing needs to be done")
    if facts.known_nodes and target not in facts.known_nodes:
        return Check(
            *(name, "fail", f"there is no node {target}"),
            f"known: {', '.join(facts.known_nodes)}",
        )
    source = facts.source
    if source is not None and source.is_online is False:
        return Check(
            *(name, "fail", f"the VM's own node {source.name} is offline"),
            "a VM can't be migrated away from a dead node; HA or a restore brings it back",
        )
    if facts.target is None or facts.target.is_online is None:
        return Check(
            *(name, "unknown", f"whether {target} is online is not known"),
            facts.unread.get("target", ""),
        )
    if not facts.target.is_online:
        return Check(name, "fail", f"{target} is offline", "take another target")
    return Check(name, "ok", f"{target} is online")


def _verdict(facts: MigrationFacts, vm: VmFacts) -> Check:
    name, target = "preconditions", facts.wish.target
    if facts.verdict is None:
        why = facts.verdict_problem or "the server's preconditions were not read"
        return Check(name, "unknown", why, "VM.Migrate is needed to read them, too")
    objections = facts.verdict.objections
    if objections is None:
        return Check(
            *(name, "warn", "this release names no targets for a running VM"),
            "gpuctl's own checks of storages and mappings stand in for it",
        )
    if not objections:
        return Check(name, "ok", f"the server has nothing against {target}")
    return Check(
        *(name, "fail", f"the server refuses {target}: {_objections(objections)}"),
        "take another target",
    )


_OBJECTIONS = {
    "unavailable_storages": "it lacks the storage {}",
    "unavailable-resources": "it lacks the mapped device of {}",
    "blocking-ha-resources": "HA rules: {}",
    "not-allowed": "it is not among the allowed nodes",
}


def _objections(objections: Mapping[str, tuple[str, ...]]) -> str:
    return "; ".join(
        _OBJECTIONS.get(kind, f"{kind}: {{}}").format(", ".join(names))
        for kind, names in objections.items()
    )


def _storages(facts: MigrationFacts, vm: VmFacts) -> Check:
    name, target = "storages", facts.wish.target
    there = facts.target.storages if facts.target else None
    if there is None:
        return Check(
            *(name, "unknown", f"the storages of {target} could not be read"),
            facts.unread.get("storages", ""),
        )
    if vm.storages is None:
        return Check(
            *(name, "unknown", "its disks are not known: its configuration could not be read"),
            facts.unread.get("config", ""),
        )
    wanted = facts.wish.target_storage
    if wanted is not None and wanted != "1":
        named = {pair.rpartition(":")[2] for pair in wanted.split(",")}
        lacking = sorted(named - there)
        if lacking:
            return Check(
                *(name, "fail", f"{target} has no storage {', '.join(lacking)}"),
                f"there: {', '.join(sorted(there))}",
            )
    local = {v.storage for v in facts.verdict.local_volumes} if facts.verdict else set()
    moved = local if wanted is not None and wanted != "1" else set()
    lacking = sorted(vm.storages - moved - there)
    if lacking:
        return Check(
            *(name, "fail", f"{target} has no storage {', '.join(lacking)}, which the VM uses"),
            "take a target that has it; local disks can go elsewhere with --target-storage",
        )
    return Check(name, "ok", f"{target} has every storage that the VM uses")


def _memory(facts: MigrationFacts, vm: VmFacts) -> Check:
    name, target = "memory", facts.wish.target
    free = facts.target.free_mib if facts.target else None
    if free is None or vm.ram_mib is None:
        what = f"free memory of {target}" if free is None else "the VM's memory"
        return Check(name, "unknown", f"{what} is not known", facts.unread.get("memory", ""))
    needs, has = vm.ram_mib / 1024, free / 1024
    if not vm.is_running:
        if free < vm.ram_mib + SPARE_MIB:
            return Check(
                *(name, "warn", f"{has:.1f} GiB are free on {target}, it has {needs:.1f} GiB"),
                "it will move, and may not start there",
            )
    elif free < vm.ram_mib + SPARE_MIB:
        return Check(
            *(name, "fail", f"it needs {needs:.1f} GiB, {target} has {has:.1f} GiB free"),
            f"take another target; {SPARE_MIB / 1024:.0f} GiB are left to the node",
        )
    return Check(name, "ok", f"it needs {needs:.1f} GiB of {has:.1f} GiB free on {target}")


def _cpu(facts: MigrationFacts, vm: VmFacts) -> Check:
    name = "cpu"
    if not facts.is_live:
        return Check(name, "ok", "it starts anew on the target, with the processor there")
    kind = (vm.cpu_type or "kvm64").partition(",")[0]
    if kind not in ("host", "max"):
        return Check(name, "ok", f"its processor type {kind} does not depend on the node")
    here = facts.source.cpu_model if facts.source else None
    there = facts.target.cpu_model if facts.target else None
    if here is None or there is None:
        return Check(
            *(name, "unknown", f"its processor type is {kind}, and the nodes' are not known"),
            facts.unread.get("cpu", ""),
        )
    if here != there:
        return Check(
            *(
                name,
                "warn",
                f"its processor type is {kind}, and the nodes differ: {here} / {there}",
            ),
            "the guest may crash on instructions that are missing there; use a common type such "
            "as x86-64-v3, or move it offline",
        )
    return Check(name, "ok", f"both nodes have the same processor: {here}")


def _busy(facts: MigrationFacts, vm: VmFacts) -> Check:
    name = "other-migrations"
    nodes = [node for node in (facts.source, facts.target) if node is not None]
    moving = [text for node in nodes for text in _moves(node)]
    if moving:
        return Check(
            *(name, "fail", f"another migration runs: {', '.join(moving)}"),
            "two share one link, and both become slower than the guests dirty their memory: wait",
        )
    unread = [node.name for node in nodes if node.migrations is None]
    if unread or len(nodes) < 2:
        return Check(
            *(name, "unknown", f"whether another migration runs on {', '.join(unread) or 'both'}"),
            facts.unread.get("tasks", ""),
        )
    return Check(name, "ok", "no other migration runs on either node")


def _moves(node: NodeFacts) -> list[str]:
    return [f"{what} on {node.name}" for what in node.migrations or ()]


TARGET_CHECKS: tuple[Callable[[MigrationFacts, VmFacts], Check], ...] = (
    *(_there, _verdict, _storages, _memory, _cpu, _busy),
)

"""Migrations in a simulated cluster: the same checklist and progress, and the demo's own state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from gpuctl.actions.landing import is_cooler, landing_words
from gpuctl.actions.migrate_end import took_words
from gpuctl.actions.steps import Conduct, Step, StepResult
from gpuctl.exitcodes import ExitCode
from gpuctl.model.migration import (
    MigrationFacts,
    NodeFacts,
    PassedDevice,
    ServerVerdict,
    VmFacts,
    Wish,
)
from gpuctl.model.outcome import Landing
from gpuctl.policy.migration.estimate import estimate
from gpuctl.policy.migration.task_log import LogReading, read_log
from gpuctl.sim.diary import DemoMove, add_move, demo_world, read_moves
from gpuctl.sim.scenario import Place, Workload
from gpuctl.sim.world import World

_MAPPING = "vgpu"
_NODE_MIB = 2048.0 * 1024
_LINES = 10
_GIB = 1 << 30


def demo_vm(world: World, asked: str) -> Workload | None:
    """The VM that `101` or `vm/101` means."""
    wanted = f"vm/{asked.removeprefix('vm/')}"
    return next((one for one in world.workloads() if one.id == wanted), None)


def demo_facts(world: World, asked: str, wish: Wish) -> MigrationFacts:
    """What a Proxmox VE cluster under the demo would tell: all of it known, and nothing in the way
    but devices, memory and room."""
    nodes = tuple(node.name for node in world.scenario.nodes)
    found = demo_vm(world, asked)
    if found is None:
        return MigrationFacts(
            asked=asked, wish=wish, vm=None, known_nodes=nodes, quorate=True, missing_rights=()
        )
    (source,) = {place.node for place in found.placements}
    vm = VmFacts(
        vmid=int(found.name),
        name="",
        node=source,
        status="running",
        qmpstatus="running",
        ram_mib=float(found.ram_mib or 65536),
        cpu_type="host",
        devices=tuple(_device(found, n) for n in range(len(found.placements))),
        snapshots=(),
        replicated_to=(),
        kubernetes_node="",
    )
    local = () if found.live_migratable else tuple(one.key for one in vm.devices or ())
    return MigrationFacts(
        asked=asked,
        wish=wish,
        vm=vm,
        quorate=True,
        source=_node(world, source, found),
        target=_node(world, wish.target, found) if wish.target in nodes else None,
        known_nodes=nodes,
        verdict=ServerVerdict(objections={}, local_devices=local),
        missing_rights=(),
        balances_itself=False,
    )


def _device(vm: Workload, number: int) -> PassedDevice:
    key = f"hostpci{number}"
    if not vm.live_migratable:
        address = f"0000:{0x07 + 0x40 * (vm.placements[number].gpu % 4):02x}:00"
        return PassedDevice(key=key, addresses=(address,))
    return PassedDevice(key=key, mapping=_MAPPING, mdev="nvidia-474", live_capable=True)


def _node(world: World, name: str, vm: Workload) -> NodeFacts:
    there = [
        one
        for one in world.workloads()
        if one.kind == "vm" and any(place.node == name for place in one.placements)
    ]
    used = sum(float(one.ram_mib or 65536) for one in there)
    return NodeFacts(
        name=name,
        is_online=True,
        free_mib=_NODE_MIB - used,
        cpu_model="simulated",
        storages=frozenset(),
        mappings=frozenset({_MAPPING}),
        free_devices={_MAPPING: len(_places(world, vm.id, name))},
        migrations=(),
    )


def demo_targets(world: World, vm: Workload) -> tuple[str, ...]:
    """The nodes that have a device for it."""
    here = {place.node for place in vm.placements}
    names = (node.name for node in world.scenario.nodes if node.name not in here)
    return tuple(name for name in names if _places(world, vm.id, name))


def _places(world: World, workload: str, node: str) -> list[Place]:
    """The devices of a node that would take the workload, the least loaded first."""
    there = [place for place in world.devices() if place.node == node]
    fitting = []
    for place in there:
        try:
            world.moved(workload, place.node, place.gpu, place.mig_id)
        except ValueError:
            continue
        fitting.append(place)
    return sorted(fitting, key=lambda place: (world.utilization_pct(place, world.epoch), place.gpu))


@dataclass(frozen=True, slots=True)
class SimMigrator:
    """The actuator of a demo; what it does stands in the demo's diary.

    `check` judges the move anew. `pause_seconds`: between two lines of progress, 0 where nobody
    watches.
    """

    scenario: str
    environ: Mapping[str, str]
    check: Callable[[Step], StepResult | None]
    words: Callable[[LogReading], str]
    pause_seconds: float = 0.0

    def preflight(self, step: Step, conduct: Conduct) -> StepResult | None:
        """The checklist."""
        return self.check(step)

    def execute(self, step: Step, conduct: Conduct) -> StepResult:
        """Write the move into the demo's diary: a simulated migration never gets lost."""
        assert step.target is not None  # noqa: S101 - who makes the step knows it
        world = demo_world(self.scenario, self.environ)
        places = _places(world, step.workload, step.target.node)
        if not places:
            reason = f"no device of {step.target.node} is free for it any more"
            return StepResult(status="refused", reason=reason, exit_code=ExitCode.REFUSED)
        conduct.sending(workload=step.workload, to=str(places[0]))
        move = DemoMove(workload=step.workload, to=places[0], run=conduct.run_id, step=step.id)
        add_move(world.scenario.name, move, self.environ)
        conduct.answered(result="migrated")
        return StepResult(status="done", reason="started and not waited for", changed=True)

    def verify(self, step: Step, done: StepResult, conduct: Conduct) -> StepResult:
        """Show how it goes on, and where the VM runs then. A signal skips the rest of the show."""
        world = demo_world(self.scenario, self.environ)
        vm = world.workload(step.workload)
        reading = LogReading()
        for line in _log_lines(world, vm):
            reading = read_log((line,), reading)
            if reading.phase not in ("starting", "memory"):
                break
            conduct.say(self.words(reading))
            if not conduct.patience.wait_idle(self.pause_seconds):
                break
        reading = read_log(_log_lines(world, vm))
        (place,) = vm.placements
        now_pct = world.utilization_pct(place, world.epoch)
        before = step.facts.get("from_utilization_pct")
        landed = Landing(
            node=place.node,
            gpu=place.gpu,
            mig_id=place.mig_id,
            utilization_pct=round(now_pct, 1),
            cooler=is_cooler(now_pct, float(before) if before else None),
        )
        return StepResult(
            status="done",
            reason=f"simulated; it runs {landing_words(landed)}{took_words(reading)}",
            changed=True,
            detail={
                "duration_seconds": reading.duration_seconds,
                "downtime_seconds": reading.downtime_seconds,
            },
            landed=landed,
        )

    def look_up(self, step: Step) -> StepResult:
        """By the diary."""
        world = demo_world(self.scenario, self.environ)
        moves = read_moves(world.scenario.name, self.environ)
        is_moved = any(move.workload == step.workload and move.step == step.id for move in moves)
        place = world.workload(step.workload).placements[0]
        if is_moved and step.target is not None and place.node == step.target.node:
            return StepResult(status="done", reason=f"it runs on {place}", changed=True)
        return StepResult(status="skipped", reason="it was not migrated")


def _log_lines(world: World, vm: Workload) -> Iterator[str]:
    """A task log as Proxmox VE would write it, at the speed that estimates rest on."""
    cost = estimate(demo_facts(world, vm.id, Wish(target=vm.placements[0].node)))
    total = (cost.copy_bytes or 0) / _GIB
    rate = cost.rate_bytes / _GIB
    yield f"starting migration of VM {vm.name} to node '{vm.placements[0].node}' (simulated)"
    for n in range(1, _LINES + 1):
        sent = total * n / _LINES
        yield f"migration active, transferred {sent:.1f} GiB of {total:.1f} GiB VM-state, " + (
            f"{rate:.1f} GiB/s"
        )
    seconds = round(cost.seconds or 0)
    yield f"average migration speed: {rate:.1f} GiB/s - downtime 73 ms"
    yield "migration status: completed"
    span = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    yield f"migration finished successfully (duration {span})"

"""What a migration needs of a cluster, be it a real one or the demo's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from gpuctl.actions.holds import NoHolder
from gpuctl.actions.migrate import ForeignHolds, Migrator, MigratorOptions
from gpuctl.actions.migrate_plan import Appraisal, Rules, appraise, judged, migration_step
from gpuctl.actions.migrate_sim import SimMigrator, demo_facts, demo_targets, demo_vm
from gpuctl.actions.migrate_target import Candidate, by_memory, by_score
from gpuctl.actions.sim_evictor import SimEvictor
from gpuctl.actions.steps import Actuator, Holder, Step, StepResult
from gpuctl.clients.proxmox import MigrateOptions, ProxmoxClient, ProxmoxError
from gpuctl.clock import Clock
from gpuctl.errors import RefusedError
from gpuctl.exitcodes import ExitCode
from gpuctl.inventory.proxmox import ProxmoxInventory
from gpuctl.inventory.proxmox_facts import migration_facts
from gpuctl.inventory.proxmox_join import same_host
from gpuctl.inventory.proxmox_view import Hypervisor, ProxmoxView, Vm
from gpuctl.model.migration import Wish
from gpuctl.model.plan import Action, DeviceRef
from gpuctl.model.policy import Policy
from gpuctl.model.snapshot import Snapshot
from gpuctl.policy.migration.task_log import LogReading
from gpuctl.sim.diary import demo_world

Observe = Callable[[], Snapshot]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How to move, whatever the target. `follow_command` is what precedes a UPID."""

    rules: Rules
    options: MigrateOptions
    cancels: bool
    follow_command: str
    words: Callable[[LogReading], str]


class MigrationCluster(Protocol):
    """Where VMs are migrated."""

    @property
    def backend(self) -> str:
        """The API that is changed, for the journal."""

    def appraise(self, wish: Wish) -> Appraisal:
        """The checklist of a move, from facts read just now."""

    def candidates(self, observe: Observe) -> tuple[Candidate, ...]:
        """The nodes that offer what the VM needs, the best first. Raises RefusedError for none."""

    def step(self, appraisal: Appraisal) -> Step:
        """The step of a move."""

    def actuator(self, wish: Wish, step: Step) -> Actuator:
        """What makes the move."""

    def recoverers(self) -> Mapping[Action, Actuator]:
        """What can look up the steps of runs that died."""

    def holder(self) -> Holder:
        """What takes off the holds of runs that died."""


@dataclass(frozen=True, slots=True)
class LiveMigrations:
    """A Proxmox VE cluster. `beside`: what Kubernetes said, to tell its nodes among the VMs."""

    client: ProxmoxClient
    inventory: ProxmoxInventory
    beside: Sequence[object]
    clock: Clock
    policy: Policy
    asked: str
    manner: Manner

    @property
    def backend(self) -> str:
        return self.client.shown

    def view(self) -> ProxmoxView:
        """The cluster now."""
        return self.inventory.read().beside(self.beside)

    def appraise(self, wish: Wish) -> Appraisal:
        return self._appraised(self.asked, wish)

    def _appraised(self, asked: str, wish: Wish) -> Appraisal:
        view = self.view()
        found = view.found(asked)
        return appraise(
            migration_facts(self.client, view, asked, wish),
            tags=found[0].tags if len(found) == 1 else (),
            rules=self.manner.rules,
            bwlimit_kib=self.manner.options.bwlimit_kib,
        )

    def candidates(self, observe: Observe) -> tuple[Candidate, ...]:
        view = self.view()
        found = view.found(self.asked)
        if len(found) != 1:
            # Whatever the target: the checklist says what is wrong with the name.
            return (Candidate("", ""),)
        (vm,) = found
        others = [one for one in view.nodes.values() if one.is_online and one.name != vm.node]
        able = [one for one in others if _offers(view, vm, one)]
        if not able:
            raise RefusedError(
                f"no other node that is online offers what {vm.id} needs",
                cause=_needs(vm),
                hint="add a node to the mapping, or shut the VM down and see gpuctl migrate --help",
            )
        if not vm.devices:
            return by_memory({one.name: one.free_mib for one in able}) or (
                Candidate(able[0].name, f"{able[0].name}; free memory is not known"),
            )
        if any(device.is_raw for device in vm.devices):
            # It can't go anywhere, which the checklist explains better than scores would.
            return (Candidate(able[0].name, f"{able[0].name} stands for any node"),)
        snapshot = observe()
        names = {
            name: one.name
            for one in able
            for name in snapshot.known_nodes
            if same_host(name, one.name)
        }
        return by_score(snapshot, self.policy, vm.id, len(vm.devices), names, _offer(vm))

    def step(self, appraisal: Appraisal) -> Step:
        vm = appraisal.facts.vm
        last = ""
        if vm is not None:
            try:
                rows = self.client.tasks(vm.node, vmid=vm.vmid)
            except ProxmoxError:
                rows = ()
            moves = (row.upid for row in rows if row.type in ("qmigrate", "hamigrate"))
            last = next(moves, "")
        return migration_step(appraisal, last_task=last, source=None, from_pct=None)

    def actuator(self, wish: Wish, step: Step) -> Actuator:
        return self._migrator(wish, is_online=step.facts.get("online") == "1")

    def follower(self) -> Migrator:
        """What follows a task that runs, or has run."""
        return self._migrator(Wish(target=""), is_online=True)

    def _migrator(self, wish: Wish, *, is_online: bool) -> Migrator:
        manner = self.manner

        def check(step: Step) -> StepResult | None:
            # By its id: a name may mean another VM by now.
            again = self._appraised(step.facts["vmid"], wish)
            vm = again.facts.vm
            source = step.source.node if step.source is not None else None
            if vm is not None and vm.node not in (source, wish.target):
                return StepResult(
                    status="refused",
                    reason=f"it is on {vm.node} by now, no longer on {source}: begin anew",
                    exit_code=ExitCode.REFUSED,
                )
            return judged(again)

        return Migrator(
            client=self.client,
            clock=self.clock,
            options=MigratorOptions(
                wanted=replace(manner.options, online=is_online),
                follow_command=manner.follow_command,
                cancels=manner.cancels,
            ),
            check=check,
            words=manner.words,
        )

    def recoverers(self) -> Mapping[Action, Actuator]:
        return {"migrate": self.follower()}

    def holder(self) -> Holder:
        return ForeignHolds()


def _offers(view: ProxmoxView, vm: Vm, node: Hypervisor) -> bool:
    """Whether a node has a device of each of the VM's mappings, as far as they can be read."""
    wanted = {device.mapping for device in vm.devices if device.mapping is not None}
    if view.mappings is None:
        return True
    known = [view.mappings[name] for name in wanted if name in view.mappings]
    return all(mapping.on(node.name) for mapping in known)


def _needs(vm: Vm) -> str:
    mapped = sorted({device.mapping for device in vm.devices if device.mapping is not None})
    return f"it needs the mapping {', '.join(mapped)}" if mapped else "all others are offline"


def _offer(vm: Vm) -> str:
    mapped = sorted({device.mapping for device in vm.devices if device.mapping is not None})
    return f"offer {', '.join(mapped)}"


@dataclass(frozen=True, slots=True)
class DemoMigrations:
    """A simulated cluster, whose state is the demo's diary."""

    scenario: str
    environ: Mapping[str, str]
    policy: Policy
    asked: str
    manner: Manner
    pause_seconds: float

    @property
    def backend(self) -> str:
        return f"demo {self.scenario}"

    def appraise(self, wish: Wish) -> Appraisal:
        world = demo_world(self.scenario, self.environ)
        found = demo_vm(world, self.asked)
        return appraise(
            demo_facts(world, self.asked, wish),
            tags=found.tags if found is not None else (),
            rules=self.manner.rules,
            bwlimit_kib=self.manner.options.bwlimit_kib,
        )

    def candidates(self, observe: Observe) -> tuple[Candidate, ...]:
        world = demo_world(self.scenario, self.environ)
        vm = demo_vm(world, self.asked)
        if vm is None:
            return (Candidate("", ""),)
        if not vm.live_migratable:
            here = {place.node for place in vm.placements}
            node = next(one.name for one in world.scenario.nodes if one.name not in here)
            return (Candidate(node, f"{node} stands for any node"),)
        nodes = {name: name for name in demo_targets(world, vm)}
        if not nodes:
            raise RefusedError(f"no other node has a device for {vm.id}", hint="see gpuctl score")
        count = len(vm.placements)
        return by_score(observe(), self.policy, vm.id, count, nodes, "have a device for it")

    def step(self, appraisal: Appraisal) -> Step:
        world = demo_world(self.scenario, self.environ)
        vm = demo_vm(world, self.asked)
        if vm is None:
            return migration_step(appraisal, last_task="", source=None, from_pct=None)
        place = vm.placements[0]
        return migration_step(
            appraisal,
            last_task="",
            source=DeviceRef(node=place.node, gpu=place.gpu, mig_id=place.mig_id),
            from_pct=world.utilization_pct(place, world.epoch),
        )

    def actuator(self, wish: Wish, step: Step) -> Actuator:
        return SimMigrator(
            scenario=self.scenario,
            environ=self.environ,
            check=lambda _: judged(self.appraise(wish)),
            words=self.manner.words,
            pause_seconds=self.pause_seconds,
        )

    def recoverers(self) -> Mapping[Action, Actuator]:
        nowhere = Wish(target="")
        migrator = self.actuator(nowhere, Step(id="", action="migrate", workload=""))
        return {"migrate": migrator, "evict": SimEvictor(self.scenario, self.environ)}

    def holder(self) -> Holder:
        return NoHolder()

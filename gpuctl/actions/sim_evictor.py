"""Evictions in a simulated cluster: the successor starts at once on the least loaded device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuctl.actions.landing import is_cooler, landing_words
from gpuctl.actions.steps import Conduct, Step, StepResult
from gpuctl.exitcodes import ExitCode
from gpuctl.model.outcome import Landing
from gpuctl.sim.diary import DemoMove, add_move, demo_world, read_moves
from gpuctl.sim.scenario import Place
from gpuctl.sim.world import World


@dataclass(frozen=True, slots=True)
class SimEvictor:
    """The actuator of a demo; what it does stands in the demo's diary."""

    scenario: str
    environ: Mapping[str, str]

    def preflight(self, step: Step, conduct: Conduct) -> StepResult | None:
        """Whether any other node has a device for it."""
        world = self._world()
        known = {one.id for one in world.workloads()}
        if step.workload not in known:
            return StepResult(status="unchanged", reason="gone already")
        if _successor_place(world, step.workload) is None:
            return StepResult(
                status="refused",
                reason="no other node has a device for its successor, which would stay Pending",
                exit_code=ExitCode.REFUSED,
            )
        return None

    def execute(self, step: Step, conduct: Conduct) -> StepResult:
        """Write the move into the demo's diary."""
        world = self._world()
        place = _successor_place(world, step.workload)
        if place is None:
            return StepResult(
                status="refused", reason="its place was taken meanwhile", exit_code=ExitCode.REFUSED
            )
        conduct.sending(workload=step.workload, to=str(place))
        move = DemoMove(workload=step.workload, to=place, run=conduct.run_id, step=step.id)
        add_move(world.scenario.name, move, self.environ)
        conduct.answered(result="evicted")
        return StepResult(status="done", reason="evicted", changed=True)

    def verify(self, step: Step, done: StepResult, conduct: Conduct) -> StepResult:
        """Where its successor runs, and how loaded that device is with it."""
        world = self._world()
        (place,) = world.workload(step.workload).placements
        before = step.facts.get("from_utilization_pct")
        now_pct = world.utilization_pct(place, world.epoch)
        landed = Landing(
            node=place.node,
            gpu=place.gpu,
            mig_id=place.mig_id,
            utilization_pct=round(now_pct, 1),
            cooler=is_cooler(now_pct, float(before) if before else None),
        )
        return StepResult(
            status="done",
            reason=f"its successor serves {landing_words(landed)}",
            changed=True,
            landed=landed,
        )

    def look_up(self, step: Step) -> StepResult:
        """By the diary: whether the workload runs elsewhere than where the step found it."""
        world = self._world()
        moves = read_moves(world.scenario.name, self.environ)
        if any(move.workload == step.workload and move.step == step.id for move in moves):
            place = world.workload(step.workload).placements[0]
            if step.source is None or str(place) != step.source.address:
                return StepResult(status="done", reason=f"it runs on {place}", changed=True)
        return StepResult(status="skipped", reason="it was not evicted")

    def _world(self) -> World:
        return demo_world(self.scenario, self.environ)


def _successor_place(world: World, workload: str) -> Place | None:
    """The least loaded device on another node that takes it; ties go by the device's name."""
    here = {place.node for place in world.workload(workload).placements}
    others = [place for place in world.devices() if place.node not in here]
    for place in sorted(others, key=lambda place: _order(world, place)):
        try:
            world.moved(workload, place.node, place.gpu, place.mig_id)
        except ValueError:
            continue
        return place
    return None


def _order(world: World, place: Place) -> tuple[float, str, int, int]:
    load = world.utilization_pct(place, world.epoch)
    return load, place.node, place.gpu, -1 if place.mig_id is None else place.mig_id

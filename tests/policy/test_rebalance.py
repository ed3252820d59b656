"""Plans made of snapshots: the simulated stories, and small clusters made for one rule each."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from msgspec.structs import replace

from gpuctl.metrics.sim_source import SimSource
from gpuctl.metrics.source import Want
from gpuctl.model.gpu import Gpu, GpuState
from gpuctl.model.plan import PlanDocument
from gpuctl.model.policy import Limits, Policy
from gpuctl.model.snapshot import Snapshot
from gpuctl.policy.plan_problem import PlanOptions
from gpuctl.policy.rebalance import plan_digest, plan_rebalance
from gpuctl.sim.world import World

POLICY = Policy(limits=Limits(moves_per_run=24, per_node=2, cooldown=timedelta(minutes=15)))


def snapshot_of(world: World) -> Snapshot:
    return SimSource(world).read(Want.by(POLICY, details=False))


def plan(snapshot: Snapshot, **options: object) -> PlanDocument:
    return plan_rebalance(snapshot, POLICY, PlanOptions(**options))  # type: ignore[arg-type]


def applied(world: World, made: PlanDocument) -> World:
    """The world after the moves of a plan, in their order."""
    for move in made.moves:
        target = move.target
        assert target.gpu is not None
        world = world.moved(move.workload, target.node, target.gpu, target.mig_id)
    return world


@pytest.fixture(scope="module")
def night() -> Snapshot:
    return snapshot_of(World.load("hk-night"))


def test_relief_of_the_night_takes_at_most_three_moves(night: Snapshot) -> None:
    made = plan(night)
    assert made.before.hot == ("hk-gpu-03/1",)
    assert made.after.hot == ()
    assert 1 <= len(made.moves) <= 3


def test_balance_of_the_night_reaches_the_target(night: Snapshot) -> None:
    made = plan(night, goal="balance")
    assert made.after.spread_pct is not None
    assert made.after.spread_pct <= 20
    assert made.after.hot == ()
    assert len(made.moves) <= 24


@pytest.mark.parametrize("goal", ["relief", "balance"])
def test_the_plan_can_be_carried_out_and_leaves_nothing_to_do(goal: str) -> None:
    world = World.load("hk-night")
    made = plan(snapshot_of(world), goal=goal)
    after = snapshot_of(applied(world, made))
    hottest = max(gpu.window.mean_pct for gpu in after.gpus if gpu.window is not None)
    assert made.after.max_utilization_pct is not None
    assert hottest == pytest.approx(made.after.max_utilization_pct, abs=3)
    assert plan(after, goal=goal).moves == ()


def test_same_snapshot_same_bytes_whatever_the_order_of_gpus(night: Snapshot) -> None:
    turned = replace(night, gpus=night.gpus[::-1], workloads=night.workloads[::-1])
    first, second = plan(night, goal="balance"), plan(turned, goal="balance")
    assert msgspec.json.encode(first) == msgspec.json.encode(second)


def test_the_digest_covers_every_move(night: Snapshot) -> None:
    made = plan(night)
    assert made.digest == plan_digest(made)
    edited = replace(made, moves=(replace(made.moves[0], workload="prod/another"),))
    assert plan_digest(edited) != made.digest


def test_protected_workloads_stay_and_say_why(night: Snapshot) -> None:
    made = plan(night, goal="balance")
    skipped = {one.workload for one in made.skipped}
    assert skipped.isdisjoint(move.workload for move in made.moves)
    rules = {one.rule for one in made.skipped}
    assert {"critical-priority", "not-evictable", "pinned"} <= rules
    assert all(one.reason for one in made.skipped)


def test_every_move_leaves_its_node(night: Snapshot) -> None:
    made = plan(night, goal="balance")
    assert made.moves
    assert all(move.source.node != move.target.node for move in made.moves)


def test_unknown_gpus_are_never_a_target(night: Snapshot) -> None:
    def blinded(gpu: Gpu) -> Gpu:
        is_first_choice = gpu.node != "hk-gpu-03" and gpu.window and gpu.window.mean_pct < 45
        return replace(gpu, state=GpuState.STALE) if is_first_choice else gpu

    blind = replace(night, gpus=tuple(blinded(gpu) for gpu in night.gpus))
    stale = {gpu.address for gpu in blind.gpus if gpu.state is GpuState.STALE}
    assert stale
    made = plan(blind, goal="balance")
    assert made.moves
    assert stale.isdisjoint(move.target.address for move in made.moves)


def test_nothing_hot_needs_no_relief(night: Snapshot) -> None:
    cool = tuple(gpu for gpu in night.gpus if gpu.address != "hk-gpu-03/1")
    made = plan(replace(night, gpus=cool))
    assert made.moves == ()
    assert made.before.hot == ()


def test_max_moves_is_kept_and_said() -> None:
    made = plan(snapshot_of(World.load("hk-night")), goal="balance", max_moves=3)
    assert len(made.moves) <= 3
    assert any("moves_per_run" in warning for warning in made.warnings)


def test_only_vms_moves_no_pod(night: Snapshot) -> None:
    made = plan(night, goal="balance", only="vms")
    assert all(move.action == "migrate" for move in made.moves)


def test_only_what_runs_on_the_named_nodes_moves(night: Snapshot) -> None:
    made = plan(night, goal="balance", nodes=("hk-gpu-03",))
    assert made.moves
    assert {move.source.node for move in made.moves} == {"hk-gpu-03"}


def test_one_tenant_that_saturates_its_instance_is_a_finding_and_no_move() -> None:
    made = plan(snapshot_of(World.load("mig-mixed")))
    assert made.moves == ()
    kinds = {(finding.kind, finding.subject) for finding in made.findings}
    assert ("one-tenant", "mig-01/0:2") in kinds
    assert ("lost", "mig-02/2") in kinds


def test_the_first_move_buys_most_of_the_latency(night: Snapshot) -> None:
    points = plan(night, goal="balance").frontier
    p95 = [point.p95_ms for point in points]
    assert all(value is not None for value in p95)
    start, first, last = p95[0] or 0.0, p95[1] or 0.0, p95[-1] or 0.0
    assert start - first > 0.6 * (start - last)
    assert [point.moves for point in points] == sorted({point.moves for point in points})


def test_every_move_pays(night: Snapshot) -> None:
    """Without any one of its moves the plan misses its goal."""
    made = plan(night, goal="relief")
    world = World.load("hk-night")
    for left_out in range(len(made.moves)):
        rest = made.moves[:left_out] + made.moves[left_out + 1 :]
        after = snapshot_of(applied(world, replace(made, moves=rest)))
        assert plan(after).before.hot != ()

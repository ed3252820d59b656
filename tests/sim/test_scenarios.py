"""The built-in scenarios tell their stories, and each has a cure."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from statistics import fmean

import pytest

from gpuctl.sim.generate import STORIES, scenario_file
from gpuctl.sim.loading import DEFAULT_SCENARIO, SCENARIO_FOLDER, scenario_names
from gpuctl.sim.scenario import MigSpec, Place
from gpuctl.sim.world import World
from tests.sim.cures import evened_out, fewest_moves_to_relief, is_movable, loads, spread

HOT = Place("hk-gpu-03", 1)
WINDOW = [timedelta(seconds=-30 * step) for step in range(11)]


@pytest.mark.parametrize("name", scenario_names())
def test_file_is_what_its_generator_makes(name: str) -> None:
    assert (SCENARIO_FOLDER / f"{name}.json").read_bytes() == scenario_file(STORIES[name]())


def test_every_story_has_a_file_and_the_default_comes_first() -> None:
    assert scenario_names()[0] == DEFAULT_SCENARIO == "hk-night"
    assert sorted(scenario_names()) == sorted(STORIES)


def test_hk_night_has_the_stated_load_at_its_epoch() -> None:
    all_loads = loads(World.load())
    ordered = sorted(all_loads.values())
    assert max(all_loads, key=lambda place: all_loads[place]) == HOT
    assert 95 <= ordered[-1] <= 97
    assert ordered[-2] < 90
    assert 20 <= ordered[0] <= 27
    assert 53 <= fmean(ordered) <= 57
    assert 70 <= ordered[-1] - ordered[0] <= 76
    assert all(all_loads[Place("hk-gpu-03", gpu)] < 25 for gpu in (0, 2, 3))


def test_hk_night_consists_of_what_the_latency_model_says() -> None:
    world = World.load()
    vms = [workload for workload in world.workloads() if workload.kind == "vm"]
    pods = [workload for workload in world.workloads() if workload.kind == "pod"]
    replicas = Counter(pod.owner for pod in pods)
    assert len(world.devices()) == 32
    assert len(vms) == 16
    assert all(34 <= vm.load_pct <= 56 and "training" in vm.tags for vm in vms)
    assert sum(vm.live_migratable for vm in vms) == 4
    assert len(pods) == 80
    assert len(replicas) == 26
    assert set(replicas.values()) <= {2, 3, 4}
    assert all(3 * 1024 <= pod.memory_mib <= 8 * 1024 for pod in pods)
    for place in world.devices():
        there = world.tenants_of(place.node, place.gpu)
        assert 1 <= len(there) <= 6
        assert len({workload.owner for workload in there if workload.owner}) == sum(
            workload.kind == "pod" for workload in there
        ), "no two replicas on one card"


def test_hk_night_is_hot_since_47_minutes_and_on_no_other_card() -> None:
    world = World.load()
    for minutes in range(47):
        assert world.utilization_pct(HOT, world.epoch - timedelta(minutes=minutes)) > 90
    before = world.utilization_pct(HOT, world.epoch - timedelta(minutes=48))
    assert 65 <= before <= 75
    for offset in WINDOW:
        others = [place for place in world.devices() if place != HOT]
        assert all(world.utilization_pct(place, world.epoch + offset) < 90 for place in others)


def test_hk_night_hot_card_is_shared_and_partly_protected() -> None:
    there = World.load().tenants_of(HOT.node, HOT.gpu)
    assert [workload.kind for workload in there].count("vm") == 1
    assert sum(is_movable(workload) for workload in there) == 3


def test_hk_night_is_relieved_by_at_most_three_moves() -> None:
    world = World.load()
    assert fewest_moves_to_relief(world, HOT, mark=90, most=3) == 1


def test_hk_night_is_evened_out_by_fewer_than_24_moves() -> None:
    before = World.load()
    after, moves = evened_out(before, target=20, most=24)
    assert moves <= 20
    assert spread(after) <= 20
    assert all(after.memory_used_mib(place) <= 81304 for place in after.devices())
    assert len(after.workloads()) == len(before.workloads())


def test_three_nodes_are_full_and_five_idle() -> None:
    world = World.load("three-full-five-idle")
    by_node: dict[str, list[float]] = {}
    for place, load in loads(world).items():
        by_node.setdefault(place.node, []).append(load)
    full = [node for node, there in by_node.items() if min(there) >= 84]
    idle = [node for node, there in by_node.items() if max(there) < 10]
    assert (len(full), len(idle)) == (3, 5)
    assert all(len(there) == 8 and max(there) <= 97 for there in by_node.values())


def test_three_full_five_idle_can_be_brought_near_its_mean() -> None:
    world = World.load("three-full-five-idle")
    after, _ = evened_out(world, target=20, most=150)
    mean = fmean(loads(world).values())
    assert all(abs(load - mean) <= 15 for load in loads(after).values())


def test_mig_mixed_has_one_hot_instance_and_one_lost_card() -> None:
    world = World.load("mig-mixed")
    hot = Place("mig-01", 0, 2)
    for offset in WINDOW:
        at = world.epoch + offset
        assert [p for p in world.devices() if world.utilization_pct(p, at) > 90] == [hot]
    profiles = {d.profile for d in world.devices().values() if isinstance(d, MigSpec)}
    assert profiles == {
        "1g.6gb", "1g.10gb", "1g.10gb+me", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"
    }  # fmt: skip
    cards = [gpu for node in world.scenario.nodes for gpu in node.gpus]
    assert sum(card.lost_for_seconds is not None for card in cards) == 1
    assert sum(not card.profiling for card in cards) == 1
    assert len(world.tenants_of("mig-02", 1)) == 3

"""A world answers the same each time, and moving gives another world."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime, timedelta

import pytest

from gpuctl.sim.loading import problems
from gpuctl.sim.scenario import Place
from gpuctl.sim.world import World

UTIL = "DCGM_FI_DEV_GPU_UTIL"


def hot_pod(world: World) -> str:
    """A movable pod of the hot card."""
    there = world.tenants_of("hk-gpu-03", 1)
    return next(one.id for one in there if one.kind == "pod" and one.evictable)


def test_samples_are_the_same_in_every_process() -> None:
    program = (
        "import hashlib; from gpuctl.sim.world import World; w = World.load();"
        "print(hashlib.sha256(repr(list(w.samples(w.epoch))).encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


def test_newest_sample_is_seven_seconds_old_at_the_epoch() -> None:
    world = World.load()
    ages = {world.epoch.timestamp() - (sample.at or 0) for sample in world.samples(world.epoch)}
    assert ages == {7.0}


def test_scrapes_are_fifteen_seconds_apart() -> None:
    world = World.load()
    times = {world.scraped_at(world.epoch + timedelta(seconds=second)) for second in range(60)}
    first = min(times)
    assert sorted(time - first for time in times) == [0, 15, 30, 45, 60]
    for second in range(60):
        at = world.epoch + timedelta(seconds=second)
        assert 0 <= at.timestamp() - world.scraped_at(at) < 15


def test_time_without_zone_is_refused() -> None:
    world = World.load()
    with pytest.raises(ValueError, match="no time zone"):
        world.scraped_at(datetime(2025, 3, 1, 2, 10))  # noqa: DTZ001 - that is the point


def test_names_restrict_the_families_and_nothing_else() -> None:
    world = World.load("mig-mixed")
    everything = [sample for sample in world.samples(world.epoch) if sample.name == UTIL]
    assert list(world.samples(world.epoch, {UTIL})) == everything


def test_history_shows_the_rise_of_the_hot_card() -> None:
    world = World.load()

    def reading(minutes: int) -> float:
        at = world.epoch - timedelta(minutes=minutes)
        return max(
            sample.value
            for sample in world.samples(at, {UTIL})
            if (sample.labels["Hostname"], sample.labels["gpu"]) == ("hk-gpu-03", "1")
        )

    assert reading(46) > 90 > 76 > reading(48)


def test_move_takes_load_and_memory_along_and_leaves_the_old_world_alone() -> None:
    world = World.load()
    pod = world.workload(hot_pod(world))
    hot, cool = Place("hk-gpu-03", 1), Place("hk-gpu-03", 0)
    after = world.moved(pod.id, "hk-gpu-03", 0)
    for place, sign in ((hot, -1), (cool, 1)):
        change = after.memory_used_mib(place) - world.memory_used_mib(place)
        assert change == sign * pod.memory_mib
    at = world.epoch
    assert after.utilization_pct(hot, at) == pytest.approx(
        world.utilization_pct(hot, at) - world.load_pct(pod.id, at)
    )
    assert world.workload(pod.id) is pod
    assert after.workload(pod.id).placements == (cool,)
    assert list(problems(after.scenario)) == []


def test_move_there_and_back_gives_an_equal_world() -> None:
    world = World.load()
    pod = hot_pod(world)
    assert world.moved(pod, "hk-gpu-02", 0).moved(pod, "hk-gpu-03", 1) == world


def test_moved_pod_is_named_on_its_new_card_alone() -> None:
    world = World.load()
    pod = hot_pod(world)
    after = world.moved(pod, "hk-gpu-02", 0)
    rows = [s for s in after.samples(after.epoch) if s.labels.get("pod") == pod.partition("/")[2]]
    assert {(s.labels["Hostname"], s.labels["gpu"]) for s in rows} == {("hk-gpu-02", "0")}


@pytest.mark.parametrize(
    ("scenario", "workload", "target", "reason"),
    [
        ("hk-night", "vm/104", ("hk-gpu-03", 9, None), "no such device"),
        ("hk-night", "vm/999", ("hk-gpu-03", 0, None), "no workload vm/999"),
        ("mig-mixed", "prod/chat-0", ("mig-02", 1, None), "runs there already"),
        ("mig-mixed", "prod/chat-0", ("mig-02", 2, None), "lost"),
        ("mig-mixed", "prod/chat-0", ("a30-01", 1, None), "NVIDIA A30"),
        ("mig-mixed", "prod/chat-0", ("mig-01", 0, 10), "whole card, not 1g.10gb"),
        ("mig-mixed", "prod/ocr-0", ("mig-01", 1, 8), "taken"),
        (
            "mig-mixed",
            "train/full-0",
            ("mig-02", 1, None),
            "needs 52224 MiB of memory, 49002 are free",
        ),
        ("three-full-five-idle", "train/pretrain-a-worker-0", ("h100-01", 0, None), "2 devices"),
    ],
)
def test_impossible_move_says_why(
    scenario: str, workload: str, target: tuple[str, int, int | None], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        World.load(scenario).moved(workload, *target)


def test_card_takes_no_more_workloads_than_it_has_slots() -> None:
    world = World.load()
    target = Place("hk-gpu-03", 0)
    others = (one for one in world.workloads() if target not in one.placements)
    small = [one.id for one in others if one.kind == "pod" and one.memory_mib < 5000]
    for pod in small[:4]:
        world = world.moved(pod, target.node, target.gpu)
    assert len(world.tenants_of(target.node, target.gpu)) == 6
    with pytest.raises(ValueError, match="all 6 slots are taken"):
        world.moved(small[4], target.node, target.gpu)


def test_moved_to_a_free_instance_of_the_same_profile() -> None:
    world = World.load("mig-mixed").moved("prod/ocr-0", "mig-01", 0, 10)
    assert [one.id for one in world.tenants_of("mig-01", 0, 10)] == ["prod/ocr-0"]
    assert world.tenants_of("mig-01", 1, 7) == ()


@pytest.mark.parametrize("name", ["hk-night", "mig-mixed", "three-full-five-idle"])
@pytest.mark.parametrize(("nodes", "gpus"), [(1, 1), (3, 2), (20, 8), (17, 11)])
def test_resized_world_has_the_size_and_no_contradictions(name: str, nodes: int, gpus: int) -> None:
    world = World.load(name).resized(nodes, gpus)
    assert [len(node.gpus) for node in world.scenario.nodes] == [gpus] * nodes
    assert list(problems(world.scenario)) == []
    assert len({world.instance(node.name) for node in world.scenario.nodes}) == nodes


def test_resized_to_its_own_size_changes_nothing() -> None:
    world = World.load()
    again = world.resized(8, 4)
    assert again.scenario.nodes == world.scenario.nodes
    assert sorted(again.workloads(), key=lambda one: one.id) == sorted(
        world.workloads(), key=lambda one: one.id
    )


def test_resized_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        World.load().resized(0, 4)

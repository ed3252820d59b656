"""Fragmentation by hand, and how full a generated cluster gets."""

from __future__ import annotations

import pytest

from gpuctl.policy.scoring.fragmentation import (
    WHOLE,
    Demand,
    Mix,
    Placing,
    Room,
    fragmentation,
    placement,
    taken,
)
from tests.benchmarks.bench_allocation import Cluster, fill, history, nodes, pods, strategy

ONE, HALF, FIFTH = Demand(1, WHOLE), Demand(1, 500), Demand(1, 200)


def test_what_a_demand_cannot_use_is_a_fragment() -> None:
    room = Room((1000, 400, 0))
    assert fragmentation(room, Mix.of({ONE: 1})) == pytest.approx(0.4)
    assert fragmentation(room, Mix.of({FIFTH: 1})) == 0
    assert fragmentation(room, Mix.of({HALF: 1})) == pytest.approx(0.4)
    assert fragmentation(room, Mix.of({ONE: 3, FIFTH: 1})) == pytest.approx(0.3)


def test_a_demand_that_does_not_fit_makes_all_of_it_a_fragment() -> None:
    room = Room((1000, 400), "T4", cpu_milli=4_000, memory_mib=8_000)
    for demand in (
        Demand(2, WHOLE),
        Demand(1, WHOLE, cpu_milli=5_000),
        Demand(1, WHOLE, memory_mib=9_000),
        Demand(1, WHOLE, models=frozenset({"A10"})),
    ):
        assert fragmentation(room, Mix.of({demand: 1})) == pytest.approx(1.4)
        assert placement(room, demand, Mix.of({ONE: 1})) is None


def test_unknown_cpu_and_memory_are_no_obstacle() -> None:
    room = Room((1000,))
    assert fragmentation(room, Mix.of({Demand(1, WHOLE, 10**9, 10**9): 1})) == 0


def test_members_of_a_group_are_told_apart_when_cpu_is_short() -> None:
    room = Room((1000,), cpu_milli=4_000)
    mix = Mix.of({Demand(1, WHOLE, 2_000): 3, Demand(1, WHOLE, 8_000): 1})
    assert fragmentation(room, mix) == pytest.approx(0.25)


def test_a_part_goes_where_it_fits_exactly() -> None:
    room = Room((1000, 500, 700))
    assert placement(room, HALF, Mix.of({ONE: 1, HALF: 1})) == Placing(-0.25, (1,))
    assert placement(room, HALF, Mix.of({ONE: 1, HALF: 1}), allowed=[0, 2]) == Placing(-0.15, (2,))


def test_equals_are_decided_by_the_fullest_card_then_the_first() -> None:
    assert placement(Room((900, 800, 800)), FIFTH, Mix.of({ONE: 1})) == Placing(-0.2, (1,))
    assert placement(Room((1000, 1000)), ONE, Mix.of({ONE: 1})) == Placing(0.0, (0,))


def test_taking_leaves_the_rest() -> None:
    room = Room((1000, 500), "T4", 8_000, 16_000)
    after = taken(room, Demand(1, 300, 1_000, 2_000), (1,))
    assert after == Room((1000, 200), "T4", 7_000, 14_000)


def test_demands_without_gpus_say_nothing_about_them() -> None:
    assert Mix.of({Demand(0, 0, 1_000): 9}).shares == ()
    assert fragmentation(Room((1000,)), Mix(())) == 0
    assert placement(Room((1000,), cpu_milli=2_000), Demand(0, 0, 1_000), Mix(())) == Placing(
        0.0, ()
    )


def test_a_mix_does_not_depend_on_the_order_of_its_counts() -> None:
    demands = [ONE, HALF, FIFTH, Demand(2, WHOLE), Demand(1, 300)]
    counts = {demand: 1 / (i + 3) for i, demand in enumerate(demands)}
    backwards = dict(reversed(counts.items()))
    assert Mix.of(counts) == Mix.of(backwards)


SHARE, SEED = 0.05, 7


def test_fragmentation_fills_a_cluster_that_least_loaded_leaves_in_pieces() -> None:
    rooms, mix = nodes(SHARE), history(SEED)
    total = sum(sum(room.free) for room in rooms.values())
    arriving = pods(total * 6 // 5, SEED)
    by_fragments = fill(rooms, arriving, strategy("fragmentation", mix))
    by_load = fill(rooms, arriving, strategy("least-loaded", mix))
    assert by_fragments.at_end_pct > 98
    assert by_fragments.at_full_demand_pct > 92
    assert by_fragments.at_full_demand_pct > by_load.at_full_demand_pct + 5


def test_the_order_of_the_candidates_changes_no_placement() -> None:
    rooms, mix = nodes(SHARE), history(SEED)
    arriving = pods(100 * WHOLE, SEED)
    names = list(rooms)
    names.sort(key=lambda name: name[::-1])
    first = Cluster(dict(rooms), strategy("fragmentation", mix))
    second = Cluster({name: rooms[name] for name in names}, strategy("fragmentation", mix))
    assert [first.place(pod) for pod in arriving] == [second.place(pod) for pod in arriving]

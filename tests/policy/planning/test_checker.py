"""The checker judges each rule on its own, on plans small enough to judge by eye."""

from __future__ import annotations

import pytest

from gpuctl.policy.planning import GroupSpec, Move, Problem, evaluate, violations
from tests.policy.planning.builders import a_gpu, a_problem, an_item


def rules(problem: Problem, *moves: Move) -> list[str]:
    return [violation.rule for violation in violations(problem, moves)]


def two_gpus(*items: dict, target: dict | None = None, **params) -> Problem:
    return a_problem(a_gpu("a", *items), a_gpu("b", **(target or {})), **params)


A_TO_B = Move("x", "a", "b", 0)


def test_an_empty_plan_is_valid_and_reports_the_start() -> None:
    problem = two_gpus(an_item("x", 60), an_item("y", 35))
    start = evaluate(problem, ())
    assert violations(problem, ()) == []
    assert (start.excess, start.spread, start.objective) == (5, 95, 595)
    assert (start.hot, start.hottest) == (("a",), "a")


def test_a_good_move_pays_its_cost_in_the_objective() -> None:
    problem = two_gpus(an_item("x", 60), an_item("y", 35), move_weight=3)
    reached = evaluate(problem, [A_TO_B])
    assert rules(problem, A_TO_B) == []
    assert (reached.excess, reached.spread, reached.cost) == (0, 25, 1)
    assert reached.objective == 28


def test_a_gpu_out_of_balance_counts_as_hot_but_not_in_the_spread() -> None:
    problem = a_problem(a_gpu("a", an_item("x", 95), balance=False), a_gpu("b"))
    start = evaluate(problem, ())
    assert (start.excess, start.spread, start.max_pct) == (5, 0, 0)


@pytest.mark.parametrize(
    ("item", "target", "rule"),
    [
        ({"movable": False}, {}, "movable"),
        ({"models": frozenset({"H100"})}, {}, "model"),
        ({"profiles": frozenset({"1g.10gb"})}, {}, "profile"),
        ({"nodes": frozenset({"elsewhere"})}, {}, "node"),
        ({}, {"cordoned": True}, "cordoned"),
        ({}, {"mem_mib": 999}, "room"),
        ({}, {"base_mem_mib": 9001}, "room"),
        ({}, {"slots": 0}, "room"),
    ],
)
def test_a_target_that_does_not_suit_is_refused(item: dict, target: dict, rule: str) -> None:
    problem = two_gpus(an_item("x", 60, **item), target=target)
    assert rule in rules(problem, A_TO_B)


def test_an_item_moves_once_and_elsewhere_and_from_where_it_is() -> None:
    problem = two_gpus(an_item("x", 60))
    assert "moved-once" in rules(problem, A_TO_B, Move("x", "a", "b", 1))
    assert rules(problem, Move("x", "a", "a", 0)) == ["own-device"]
    assert rules(problem, Move("x", "b", "a", 0)) == ["source"]
    assert rules(problem, Move("z", "a", "b", 0)) == ["unknown-item"]
    assert rules(problem, Move("x", "a", "c", 0)) == ["unknown-device"]


def test_a_device_that_receives_nothing_may_stay_overfull() -> None:
    crowded = an_item("y", 10, mem_mib=20_000)
    problem = a_problem(a_gpu("a", crowded, an_item("x", 60)), a_gpu("b"), a_gpu("c"))
    assert rules(problem, A_TO_B) == []


def test_members_of_a_group_keep_apart_by_node_and_gpu() -> None:
    def problem(**limits: int) -> Problem:
        return a_problem(
            a_gpu("a", an_item("x", 60, group="g")),
            a_gpu("b", an_item("y", 5, group="g"), node="n"),
            a_gpu("c", node="n"),
            groups=[GroupSpec("g", **limits)],
        )

    to_c = Move("x", "a", "c", 0)
    assert rules(problem(max_per_gpu=1), A_TO_B) == ["max-per-gpu"]
    assert rules(problem(max_per_node=1), to_c) == ["max-per-node"]
    assert rules(problem(max_per_gpu=1), to_c) == []


def test_a_group_over_its_limit_may_stay_but_not_take_a_newcomer() -> None:
    problem = a_problem(
        a_gpu("a", *(an_item(name, 20, group="g") for name in ("p", "q", "r"))),
        a_gpu("b", an_item("x", 5, group="g")),
        groups=[GroupSpec("g", max_per_gpu=1)],
    )
    assert rules(problem, Move("p", "a", "b", 0)) == ["max-per-gpu"]
    assert rules(problem, Move("x", "b", "a", 0)) == ["max-per-gpu"]
    assert rules(problem, Move("p", "a", "b", 0), Move("x", "b", "a", 1)) == ["max-per-gpu"]


def test_budgets_of_the_plan_and_of_a_group() -> None:
    items = [an_item(name, 20, group="g") for name in ("x", "y")]
    moves = [Move("x", "a", "b", 0), Move("y", "a", "b", 1)]
    problem = two_gpus(*items, max_moves=1)
    assert rules(problem, *moves) == ["max-moves"]
    limited = a_problem(a_gpu("a", *items), a_gpu("b"), groups=[GroupSpec("g", max_moves=1)])
    assert rules(limited, *moves) == ["group-moves"]


def test_within_a_wave_who_leaves_still_takes_its_room() -> None:
    problem = a_problem(
        a_gpu("a", an_item("x", 60, mem_mib=6000)),
        a_gpu("b", an_item("y", 30, mem_mib=6000)),
        a_gpu("c"),
        node_inflight=9,
    )
    first, then = Move("y", "b", "c", 0), Move("x", "a", "b", 1)
    assert rules(problem, first, then) == []
    assert rules(problem, first, Move("x", "a", "b", 0)) == ["order"]
    assert rules(problem, Move("y", "b", "c", 1), Move("x", "a", "b", 0)) == ["order"]


def test_a_swap_without_room_has_no_order() -> None:
    problem = a_problem(
        a_gpu("a", an_item("x", 60, mem_mib=6000)), a_gpu("b", an_item("y", 30, mem_mib=6000))
    )
    swap = [Move("x", "a", "b"), Move("y", "b", "a")]
    assert rules(problem, *swap) == ["order"]
    roomy = a_problem(
        a_gpu("a", an_item("x", 60, mem_mib=6000)), a_gpu("b", an_item("y", 30, mem_mib=4000))
    )
    assert rules(roomy, *swap) == []


def test_moves_per_node_and_group_are_limited_within_a_wave() -> None:
    items = [an_item(name, 20, group="g") for name in ("x", "y")]
    together = [Move("x", "a", "b", 0), Move("y", "a", "b", 0)]
    problem = two_gpus(*items, node_inflight=1, group_inflight=2)
    assert rules(problem, *together) == ["node-inflight", "node-inflight"]
    problem = two_gpus(*items, node_inflight=2, group_inflight=1)
    assert rules(problem, *together) == ["group-inflight"]


def test_waves_are_for_all_moves_or_for_none() -> None:
    problem = two_gpus(an_item("x", 20), an_item("y", 20))
    assert rules(problem, A_TO_B, Move("y", "a", "b")) == ["order"]

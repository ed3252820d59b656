"""Plans for problems whose answer can be seen by eye, and what is said about them."""

from __future__ import annotations

import pytest

from gpuctl.policy.planning import (
    Goal,
    GroupSpec,
    ItemSpec,
    MalformedProblemError,
    Move,
    Problem,
    Solution,
    solve,
    violations,
)
from gpuctl.policy.planning.search import Effort
from tests.policy.planning.builders import a_gpu, a_problem, an_item
from tests.policy.planning.instances import FAMILIES

QUICK = Effort(walks=3, work=2000)


def brief(solution: Solution) -> list[tuple[str, str, int | None]]:
    return [(move.item, move.target, move.wave) for move in solution.moves]


def relief(problem: Problem) -> Solution:
    return solve(problem, Goal.RELIEF, QUICK)


def test_relief_takes_the_one_item_that_is_enough() -> None:
    problem = a_problem(
        a_gpu("a", an_item("small", 3), an_item("right", 15), an_item("vm", 78, cost=6)),
        a_gpu("b"),
    )
    solution = relief(problem)
    assert brief(solution) == [("right", "b", 0)]
    assert solution.certificate.proven
    assert solution.certificate.statements == (
        "no plan with fewer than 1 move brings every device to 90 % or below",
        "no such plan costs less than 1: this one is as cheap as any",
    )


def test_the_load_of_one_item_cannot_be_cured_by_moving_it() -> None:
    problem = a_problem(a_gpu("a", an_item("x", 97)), a_gpu("b"))
    solution = relief(problem)
    assert solution.moves == ()
    assert solution.certificate.min_excess == 7
    assert "7 points stay above it" in solution.certificate.statements[0]


def test_one_saturating_item_moves_to_a_faster_gpu() -> None:
    problem = a_problem(a_gpu("a", an_item("x", 97)), a_gpu("b"), a_gpu("h", cap=200.0))
    assert brief(relief(problem)) == [("x", "h", 0)]


def test_someone_leaves_first_where_memory_is_tight() -> None:
    problem = a_problem(
        a_gpu("a", an_item("x", 50, mem_mib=6000), an_item("rest", 45, movable=False)),
        a_gpu("b", an_item("y", 10, mem_mib=6000)),
        a_gpu("c", an_item("z", 70, mem_mib=100)),
    )
    solution = relief(problem)
    assert violations(problem, solution.moves) == []
    assert brief(solution) == [("y", "c", 0), ("x", "b", 1)]


def test_a_swap_that_has_no_room_on_the_way_is_not_planned() -> None:
    problem = a_problem(
        a_gpu("a", an_item("x", 95, mem_mib=9000)), a_gpu("b", an_item("y", 10, mem_mib=9000))
    )
    assert solve(problem, Goal.BALANCE, QUICK).moves == ()


def test_the_first_moves_buy_most() -> None:
    problem = a_problem(
        a_gpu("a", *(an_item(f"a{number}", 24) for number in range(4))),
        a_gpu("b", *(an_item(f"b{number}", 20) for number in range(4))),
        a_gpu("c"),
        a_gpu("d"),
        node_inflight=1,
    )
    solution = solve(problem, Goal.BALANCE, QUICK)
    assert solution.moves[0].source == "a"
    assert solution.frontier[0].excess == 6
    assert solution.frontier[1].excess == 0
    assert [step.moves for step in solution.frontier] == [0, 1, 2, 4, 6]


def test_balance_stops_where_a_move_no_longer_pays() -> None:
    def problem(weight: float) -> Problem:
        return a_problem(
            a_gpu("a", an_item("x", 20), an_item("y", 20)), a_gpu("b"), move_weight=weight
        )

    assert brief(solve(problem(39), Goal.BALANCE, QUICK)) == [("x", "b", 0)]
    assert solve(problem(41), Goal.BALANCE, QUICK).moves == ()


def test_moves_that_cost_nothing_level_everything() -> None:
    problem = a_problem(a_gpu("a", an_item("x", 20), an_item("y", 20)), a_gpu("b"), move_weight=0)
    assert solve(problem, Goal.BALANCE, QUICK).evaluation.spread == 0


def test_members_of_a_group_go_one_wave_after_the_other() -> None:
    problem = a_problem(
        a_gpu("a", *(an_item(f"x{number}", 31, group="g") for number in range(4))),
        a_gpu("b"),
        a_gpu("c"),
        groups=[GroupSpec("g", max_per_gpu=9)],
    )
    solution = relief(problem)
    assert [move.wave for move in solution.moves] == [0, 1]


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (a_problem(a_gpu("a"), a_gpu("a")), "two GPUs have the same id"),
        (a_problem(a_gpu("a", cap=0.0)), "cap of 0"),
        (a_problem(a_gpu("a"), node_inflight=0), "at least one move"),
        (
            Problem(
                devices=(),
                gpus=(),
                items=(ItemSpec("x", "pod", "nowhere", load=1, mem_mib=1, cost=1),),
            ),
            "nowhere",
        ),
    ],
)
def test_a_problem_that_contradicts_itself_is_refused(problem: Problem, words: str) -> None:
    with pytest.raises(MalformedProblemError, match=words):
        relief(problem)


@pytest.mark.parametrize("goal", Goal)
def test_nothing_to_plan_is_no_plan(goal: Goal) -> None:
    empty = solve(Problem((), (), ()), goal, QUICK)
    assert (empty.moves, empty.evaluation.objective) == ((), 0)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("goal", Goal)
def test_families_of_a_middle_size_get_valid_plans_near_their_bound(
    family: str, goal: Goal
) -> None:
    problem = FAMILIES[family](16, 4, 5)
    solution = solve(problem, goal, Effort(walks=2, work=8000))
    assert violations(problem, solution.moves) == []
    assert solution.certificate.value <= solution.certificate.reached
    assert solution.evaluation.objective <= solution.before.objective


def test_a_thousand_gpus_get_a_plan_close_to_the_bound() -> None:
    problem = FAMILIES["hk-night"](125, 8, 3)
    solution = solve(problem, Goal.BALANCE)
    assert violations(problem, solution.moves) == []
    assert solution.evaluation.excess == 0
    assert solution.certificate.gap <= 0.03 * solution.certificate.value


def test_without_waves_the_moves_still_have_an_order() -> None:
    problem = FAMILIES["tight-memory"](4, 2, 7)
    solution = solve(problem, Goal.BALANCE, QUICK)
    bare = [Move(move.item, move.source, move.target) for move in solution.moves]
    assert violations(problem, bare) == []

"""What holds for every plan of every problem, checked by the independent checker."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuctl.policy.planning import (
    Goal,
    Move,
    Problem,
    Solution,
    evaluate,
    solve,
    violations,
)
from gpuctl.policy.planning.search import Effort
from tests.policy.planning.builders import after, all_valid_plans
from tests.policy.planning.strategies import problems

QUICK = Effort(walks=3, work=1500)
GOALS = st.sampled_from(Goal)
SOME = settings(max_examples=60, deadline=None, derandomize=True)


def quick(problem: Problem, goal: Goal) -> Solution:
    return solve(problem, goal, QUICK)


def value(problem: Problem, goal: Goal, moves: list[Move]) -> tuple[float, ...]:
    """Smaller is better, by the figures of the checker."""
    reached = evaluate(problem, moves)
    if goal is Goal.BALANCE:
        return (round(reached.objective, 6), reached.moves)
    return (
        round(reached.excess, 6),
        round(reached.cost, 6),
        reached.moves,
        round(reached.spread, 6),
    )


@SOME
@given(problems(), GOALS)
def test_no_plan_breaks_a_rule(problem: Problem, goal: Goal) -> None:
    solution = quick(problem, goal)
    assert violations(problem, solution.moves) == []
    assert solution.evaluation == evaluate(problem, solution.moves)
    movable = {item.id for item in problem.items if item.movable}
    open_devices = {device.id for device in problem.devices if not device.cordoned}
    assert {move.item for move in solution.moves} <= movable
    assert {move.target for move in solution.moves} <= open_devices


@SOME
@given(problems(), GOALS)
def test_a_plan_is_never_worse_than_doing_nothing_and_every_move_pays(
    problem: Problem, goal: Goal
) -> None:
    moves = list(quick(problem, goal).moves)
    reached = value(problem, goal, moves)
    if moves:
        assert reached < value(problem, goal, [])
    for number in range(len(moves)):
        rest = [replace(move, wave=None) for move in moves[:number] + moves[number + 1 :]]
        assert violations(problem, rest) or value(problem, goal, rest) > reached


@SOME
@given(problems(), GOALS, st.randoms(use_true_random=False))
def test_the_order_of_the_input_means_nothing(problem: Problem, goal: Goal, dice) -> None:
    def mixed(values: tuple) -> tuple:
        return tuple(dice.sample(values, len(values)))

    other = replace(
        problem,
        devices=mixed(problem.devices),
        gpus=mixed(problem.gpus),
        items=mixed(problem.items),
        groups=mixed(problem.groups),
    )
    one, two = quick(problem, goal), quick(other, goal)
    assert one.moves == two.moves
    assert one.certificate == two.certificate
    assert one.frontier == two.frontier


@settings(max_examples=80, deadline=None, derandomize=True)
@given(problems(most_gpus=3, most_items=4), GOALS)
def test_small_problems_are_solved_to_the_optimum_and_bounds_hold(
    problem: Problem, goal: Goal
) -> None:
    plans = list(all_valid_plans(problem))
    best = min(value(problem, goal, plan) for plan in plans)
    solution = quick(problem, goal)
    assert value(problem, goal, list(solution.moves))[:2] == best[:2]
    certificate = solution.certificate
    least = min(evaluate(problem, plan).excess for plan in plans)
    assert certificate.min_excess <= least + 1e-6
    if goal is Goal.BALANCE:
        assert certificate.value <= best[0] + 1e-6
    else:
        assert certificate.value <= best[1] + 1e-6
        assert certificate.min_moves <= min(
            evaluate(problem, plan).moves
            for plan in plans
            if evaluate(problem, plan).excess <= solution.evaluation.excess + 1e-6
        )


@SOME
@given(problems(), GOALS)
def test_planning_again_after_the_plan_gives_no_moves(problem: Problem, goal: Goal) -> None:
    unlimited = replace(
        problem,
        groups=tuple(replace(group, max_moves=None) for group in problem.groups),
        params=replace(problem.params, max_moves=None),
    )
    solution = quick(unlimited, goal)
    again = quick(after(unlimited, solution.moves), goal)
    target = {move.item: move.target for move in (*solution.moves, *again.moves)}
    both = [
        Move(item.id, item.device, target[item.id])
        for item in problem.items
        if target.get(item.id, item.device) != item.device
    ]
    # Only what could not have been part of the first plan may be left for a second.
    assert again.moves == () or violations(unlimited, both)


@SOME
@given(problems(), GOALS)
def test_the_frontier_goes_from_the_start_to_the_plan(problem: Problem, goal: Goal) -> None:
    solution = quick(problem, goal)
    for step in solution.frontier:
        reached = evaluate(problem, solution.moves[: step.moves])
        assert (step.excess, step.spread, step.cost) == pytest.approx(
            (reached.excess, reached.spread, reached.cost), abs=1e-6
        )
    assert solution.frontier[0].moves == 0
    assert solution.frontier[-1].moves == len(solution.moves)

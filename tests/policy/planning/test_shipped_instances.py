"""Every shipped instance against its reference result, for both goals."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuctl.policy.planning import Goal, evaluate, solve, violations
from tests.policy.planning.instance_files import plan_moves, read, reference, shipped

PATHS = pytest.mark.parametrize("path", shipped(), ids=lambda path: path.stem)
NEARNESS = 1.02


@PATHS
def test_the_checker_agrees_with_the_reference(path: Path) -> None:
    problem, known = read(path), reference(path)
    plan = plan_moves(known, problem)
    assert violations(problem, plan) == []
    reached, best = evaluate(problem, plan), known["best"]
    assert reached.objective == pytest.approx(known["J_best"])
    assert (reached.excess, reached.spread, reached.cost) == pytest.approx(
        (best["H"], best["S"], best["C"])
    )
    assert evaluate(problem, ()).objective == pytest.approx(known["before"]["J"])


@PATHS
def test_balance_is_within_two_percent_of_the_best_known_and_beats_greedy(path: Path) -> None:
    problem, known = read(path), reference(path)
    solution = solve(problem, Goal.BALANCE)
    assert violations(problem, solution.moves) == []
    reached = solution.evaluation.objective
    assert reached <= NEARNESS * known["J_best"]
    assert reached < known["greedy"]["J"]
    assert solution.certificate.value <= known["J_best"] + 1e-6


@PATHS
def test_relief_is_as_cheap_as_the_reference(path: Path) -> None:
    problem, known = read(path), reference(path)["relieve"]
    solution = solve(problem, Goal.RELIEF)
    assert violations(problem, solution.moves) == []
    reached = solution.evaluation
    assert reached.excess == pytest.approx(known["H"])
    assert reached.cost == known["C"]
    assert reached.moves <= known["moves"]
    assert solution.certificate.value <= known["C"]
    assert solution.certificate.min_moves <= known["moves"]

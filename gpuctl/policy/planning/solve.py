"""From a problem to a plan in waves, with its frontier and a bound on any other plan."""

from __future__ import annotations

from gpuctl.policy.planning.certificate import certify
from gpuctl.policy.planning.checker import evaluate
from gpuctl.policy.planning.index import Index
from gpuctl.policy.planning.problem import Goal, Move, Problem, Solution
from gpuctl.policy.planning.schedule import frontier, waves
from gpuctl.policy.planning.search import Effort, search
from gpuctl.policy.planning.shed import Residents
from gpuctl.policy.planning.state import State


def solve(problem: Problem, goal: Goal, effort: Effort | None = None) -> Solution:
    """The cheapest set of moves found for the goal, in an order that can be carried out.

    Relief: least excess over the hot mark, then least cost, fewest moves, smallest spread.
    Balance: least objective, then fewest moves. Equal input in any order gives an equal plan.
    Raises MalformedProblem when the problem contradicts itself.
    """
    index = Index(problem)
    residents = Residents(index)
    state = State(index)
    state.go_to(search(index, goal, residents, effort or Effort()))
    order = waves(state) or []
    targets = [(item, state.at[item]) for item, _ in order]
    moves = tuple(
        Move(
            item=index.items[item].id,
            source=index.devices[index.home[item]].id,
            target=index.devices[state.at[item]].id,
            wave=wave,
        )
        for item, wave in order
    )
    evaluation = evaluate(problem, moves)
    return Solution(
        goal=goal,
        moves=moves,
        before=evaluate(problem, ()),
        evaluation=evaluation,
        certificate=certify(index, residents, goal, evaluation),
        frontier=frontier(index, targets),
    )

"""From a problem to a plan in waves, with its frontier and a bound on any other plan."""

from __future__ import annotations

from gpuctl.policy.planning.certificate import certify
from gpuctl.policy.planning.checker import evaluate
from gpuctl.policy.planning.index import Index
from gpuctl.policy.planning.objective import Objective
from gpuctl.policy.planning.problem import Goal, Move, Problem, Solution
from gpuctl.policy.planning.schedule import frontier, waves
from gpuctl.policy.planning.search import Effort, search
from gpuctl.policy.planning.shed import Residents
from gpuctl.policy.planning.state import State

# How often a plan is continued by what the search finds after it; once is rare already.
_MOST_CONTINUATIONS = 2


def solve(problem: Problem, goal: Goal, effort: Effort | None = None) -> Solution:
    """The cheapest set of moves found for the goal, in an order that can be carried out.

    Relief: least excess over the hot mark, then least cost, fewest moves, smallest spread.
    Balance: least objective, then fewest moves. Equal input in any order gives an equal plan.
    Solving again once the plan is made gives no moves, unless a budget or the rule that no item
    moves twice kept them out of this plan.
    Raises MalformedProblemError when the problem contradicts itself.
    """
    index = Index(problem)
    residents = Residents(index)
    state = _settled(index, goal, residents, effort or Effort())
    order = waves(state) or []
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
        frontier=frontier(index, [(item, state.at[item]) for item, _ in order]),
    )


def _settled(index: Index, goal: Goal, residents: Residents, effort: Effort) -> State:
    """A plan after which the same search finds nothing more that could have been part of it."""
    objective = Objective(index, goal)
    state = State(index)
    state.go_to(search(index, goal, residents, effort))
    for _ in range(_MOST_CONTINUATIONS):
        if not state.moved:
            break
        later = index.after(state.at, state.group_moved, len(state.moved))
        more = search(later, goal, Residents(later), effort)
        if not more:
            break
        one, key = state.targets(), objective.key(state)
        both = {**one, **more}
        state.go_to({item: device for item, device in both.items() if device != index.home[item]})
        if not (state.is_valid() and objective.key(state) < key):
            state.go_to(one)
            break
    return state

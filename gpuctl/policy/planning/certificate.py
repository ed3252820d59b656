"""Bounds in words: what no plan can do better, and how far this one may be from it."""

from __future__ import annotations

from gpuctl.policy.planning.bounds import balance_bound, least_excess, relief_bound
from gpuctl.policy.planning.index import MILLI, Index
from gpuctl.policy.planning.problem import Certificate, Evaluation, Goal
from gpuctl.policy.planning.shed import Residents
from gpuctl.policy.planning.state import State

# Figures of the evaluation and of the bound are added up in different orders.
_TOLERANCE = 1e-6


def certify(index: Index, residents: Residents, goal: Goal, reached: Evaluation) -> Certificate:
    """The bound that goes with a plan for the goal."""
    start = State(index)
    floor = least_excess(index, start, residents)
    left = round(reached.excess * MILLI)
    relief = relief_bound(index, start, residents, left)
    if goal is Goal.RELIEF:
        value, is_value = relief.cost / MILLI, reached.cost
        proven = left <= floor and is_value <= value + _TOLERANCE
    else:
        value, is_value = balance_bound(index, start, residents), reached.objective
        value = min(value, is_value)
        proven = is_value <= value + _TOLERANCE
    statements = [*_about_excess(index, floor, left), *_about_moves(index, relief.moves, reached)]
    if goal is Goal.BALANCE:
        statements.append(_about_balance(value, is_value, proven))
    elif reached.moves:
        statements.append(_about_cost(value, is_value))
    return Certificate(
        value=value,
        reached=is_value,
        proven=proven,
        min_moves=relief.moves,
        min_excess=floor / MILLI,
        statements=tuple(statements),
    )


def _about_excess(index: Index, floor: int, left: int) -> list[str]:
    high = f"{index.params.high:g} %"
    if floor > 0:
        text = f"no plan brings every device to {high}: {floor / MILLI:g} points stay above it"
        if left > floor:
            text += f", this plan leaves {left / MILLI:g}"
        return [text]
    if left > 0:
        return [f"{left / MILLI:g} points stay above {high}; that none could is not proven"]
    return []


def _about_moves(index: Index, moves: int, reached: Evaluation) -> list[str]:
    if not moves:
        return []
    aim = f"brings every device to {index.params.high:g} % or below"
    if reached.excess > _TOLERANCE:
        aim = f"leaves as little above {index.params.high:g} %"
    return [f"no plan with fewer than {moves} move{'s' * (moves > 1)} {aim}"]


def _about_cost(value: float, reached: float) -> str:
    if reached <= value + _TOLERANCE:
        return f"no such plan costs less than {value:g}: this one is as cheap as any"
    return f"no such plan costs less than {value:g}; this one costs {reached:g}"


def _about_balance(value: float, reached: float, proven: bool) -> str:
    if proven:
        return f"no plan has an objective below {value:.1f}: this one is as good as any"
    return (
        f"no plan has an objective below {value:.1f}; this one has {reached:.1f}, "
        f"so at most {reached - value:.1f} points are left to gain"
    )

"""What makes one plan better than another, for either goal."""

from __future__ import annotations

from gpuctl.policy.planning.index import MILLI, Index
from gpuctl.policy.planning.problem import Goal
from gpuctl.policy.planning.state import State

Key = tuple[float, ...]
# Points of the objective per point of load above the hot mark.
EXCESS_WEIGHT = 100.0
# For relief: how the three aims weigh during the search, each well above the next.
_RELIEF_EXCESS, _RELIEF_COST, _RELIEF_SPREAD = 1000.0, 10.0, 0.25
# Digits of a key that count: below them is noise of adding in another order.
_DIGITS = 6


class Objective:
    """Exact order of plans (`key`, smaller is better) and the weights that lead the search."""

    def __init__(self, index: Index, goal: Goal) -> None:
        self.index, self.goal = index, goal
        if goal is Goal.BALANCE:
            self.excess_weight = EXCESS_WEIGHT / MILLI
            self.cost_weight = index.params.move_weight / MILLI
            self.spread_weight = 1.0
            self.per_move = 0.0
        else:
            self.excess_weight = _RELIEF_EXCESS / MILLI
            self.cost_weight = _RELIEF_COST / MILLI
            self.spread_weight = _RELIEF_SPREAD
            self.per_move = 0.5

    def price(self, item: int) -> float:
        """What moving this item weighs in the search."""
        return self.index.cost[item] * self.cost_weight + self.per_move

    def key(self, state: State) -> Key:
        """Balance: objective, then moves. Relief: excess, cost, moves, then spread."""
        if self.goal is Goal.BALANCE:
            value = state.excess * self.excess_weight + state.cost * self.cost_weight
            return (round(value + state.spread(), _DIGITS), len(state.moved))
        return (state.excess, state.cost, len(state.moved), round(state.spread(), _DIGITS))

    def may_beat(self, state: State, key: Key) -> bool:
        """Whether the state can be better than a key at all, told without the spread."""
        if self.goal is Goal.BALANCE:
            return state.excess * self.excess_weight + state.cost * self.cost_weight <= key[0]
        return (state.excess, state.cost, len(state.moved)) <= key[:3]

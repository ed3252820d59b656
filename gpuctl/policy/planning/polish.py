"""The last strokes of a plan: no move in it that does not pay, no better target next to it."""

from __future__ import annotations

from collections.abc import Sequence

from gpuctl.policy.planning.objective import Key, Objective
from gpuctl.policy.planning.state import State

# Passes over a plan; each one makes it better, so this many are hardly ever needed.
_PASSES = 20
# Other targets are tried for each move while that is this few trials; beyond, walks were enough.
_MOST_TRIALS = 8_000


def polish(state: State, objective: Objective, targets: Sequence[int]) -> None:
    """Take out moves that do not pay and send the rest where it is best, until nothing helps.

    Afterwards taking out any single move makes the plan worse or invalid.
    """
    for _ in range(_PASSES):
        redirected = _redirect(state, objective, targets)
        if not (_take_out(state, objective) or redirected):
            return


def _take_out(state: State, objective: Objective) -> bool:
    """Undo each move whose absence is better, or as good: fewer moves win a tie."""
    changed = False
    again = True
    while again:
        again = False
        key = objective.key(state)
        for item in sorted(state.moved, key=lambda item: (-state.index.cost[item], item)):
            if _try(state, objective, item, state.index.home[item], key):
                key = objective.key(state)
                changed = again = True
    return changed


def _redirect(state: State, objective: Objective, targets: Sequence[int]) -> bool:
    changed = False
    if len(state.moved) * len(targets) > _MOST_TRIALS:
        return False
    key = objective.key(state)
    for item in sorted(state.moved):
        for target in targets:
            if target not in (state.at[item], state.index.home[item]) and _try(
                state, objective, item, target, key
            ):
                key = objective.key(state)
                changed = True
    return changed


def _try(state: State, objective: Objective, item: int, target: int, key: Key) -> bool:
    if not state.fits(item, target):
        return False
    before = state.at[item]
    state.shift(item, target)
    if objective.may_beat(state, key) and objective.key(state) < key and state.keeps_order(target):
        return True
    state.shift(item, before)
    return False

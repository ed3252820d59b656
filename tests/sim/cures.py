"""Plain searches for a set of moves: proof that a scenario can be cured, not a planner."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

from gpuctl.sim.scenario import Place, Workload
from gpuctl.sim.world import World

CRITICAL_PRIORITY = 1_000_000

Move = tuple[str, Place]


def is_movable(workload: Workload) -> bool:
    """Whether the usual policy would let a workload be moved."""
    if len(workload.placements) > 1:
        return False
    if workload.kind == "vm":
        return workload.live_migratable and "gpuctl-pinned" not in workload.tags
    return workload.evictable and workload.priority < CRITICAL_PRIORITY


def loads(world: World) -> dict[Place, float]:
    """Load of every device at the epoch as the scenario states it, jitter aside, uncut."""
    return {
        place: sum(
            there.load_pct for there in world.tenants_of(place.node, place.gpu, place.mig_id)
        )
        for place in world.devices()
    }


def spread(world: World) -> float:
    """Highest minus lowest load."""
    all_loads = loads(world).values()
    return max(all_loads) - min(all_loads)


def apply(world: World, moves: Iterator[Move] | tuple[Move, ...]) -> World | None:
    """The world after some moves, None when one of them is impossible."""
    for workload_id, place in moves:
        try:
            world = world.moved(workload_id, place.node, place.gpu, place.mig_id)
        except ValueError:
            return None
    return world


def fewest_moves_to_relief(world: World, hot: Place, mark: float, most: int) -> int | None:
    """The least number of moves off `hot` that leaves every device at or under `mark`."""
    there = world.tenants_of(hot.node, hot.gpu, hot.mig_id)
    movable = [workload for workload in there if is_movable(workload)]
    coolest = sorted((load, str(place), place) for place, load in loads(world).items())[:8]
    targets = [place for _, _, place in coolest]
    for count in range(1, most + 1):
        for chosen in combinations(movable, count):
            for places in product(targets, repeat=count):
                names = [workload.id for workload in chosen]
                after = apply(world, tuple(zip(names, places, strict=True)))
                if after is not None and max(loads(after).values()) <= mark:
                    return count
    return None


def evened_out(world: World, target: float, most: int) -> tuple[World, int]:
    """The world after the moves of a steepest descent, and their number.

    Each step takes the move that brings the loads closest to each other (least sum of squares),
    of workloads not moved yet; it ends at the target spread, at `most` moves, or when none helps.
    """
    moved: set[str] = set()
    while len(moved) < most and spread(world) > target:
        step = _best_move(world, moved)
        if step is None:
            break
        workload_id, place = step
        world = world.moved(workload_id, place.node, place.gpu, place.mig_id)
        moved.add(workload_id)
    return world, len(moved)


def _best_move(world: World, moved: set[str]) -> Move | None:
    now = loads(world)
    options = []
    for workload in world.workloads():
        if workload.id in moved or not is_movable(workload):
            continue
        (source,) = workload.placements
        # Taking x from a load a and adding it to b changes the sum of squares by 2x(b - a + x).
        for place, load in now.items():
            gain = workload.load_pct * (now[source] - load - workload.load_pct)
            if gain > 0.5:
                options.append((-gain, workload.id, str(place), place))
    for _, workload_id, _, place in sorted(options):
        if apply(world, ((workload_id, place),)) is not None:
            return workload_id, place
    return None

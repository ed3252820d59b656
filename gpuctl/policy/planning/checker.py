"""Judges a plan by the rules alone: slow, simple, and sharing nothing with the search but types."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gpuctl.policy.planning.problem import (
    DeviceSpec,
    Evaluation,
    ItemSpec,
    Move,
    Problem,
    Violation,
)

# Sums of fractional loads differ in the last digits with the order of adding.
_TOLERANCE = 1e-6
# Without waves a valid order has to be found; past this many tries it counts as not found.
_ORDER_TRIES = 20_000


def evaluate(problem: Problem, moves: Iterable[Move]) -> Evaluation:
    """Objective and its parts after all moves; says nothing about their validity."""
    made = list(moves)
    target = {move.item: move.target for move in made}
    load = {device.id: device.base_load for device in problem.devices}
    for item in problem.items:
        load[target.get(item.id, item.device)] += item.load
    cost_of = {item.id: item.cost for item in problem.items}
    cost = sum(cost_of[move.item] for move in made)
    excess, hot = _heat(problem, load)
    level = _utilization(problem, load)
    highest = max(level.values(), default=0.0)
    lowest = min(level.values(), default=0.0)
    return Evaluation(
        objective=100 * excess + highest - lowest + problem.params.move_weight * cost,
        excess=excess,
        spread=highest - lowest,
        cost=cost,
        moves=len(made),
        hot=hot,
        max_pct=highest,
        min_pct=lowest,
        hottest=min((gpu for gpu in level if level[gpu] == highest), default=None),
    )


def _heat(problem: Problem, load: Mapping[str, float]) -> tuple[float, tuple[str, ...]]:
    over = {
        device.id: load[device.id] - problem.params.high / 100 * device.cap
        for device in problem.devices
    }
    hot = sorted(device for device, points in over.items() if points > _TOLERANCE)
    return sum(over[device] for device in hot), tuple(hot)


def _utilization(problem: Problem, load: Mapping[str, float]) -> dict[str, float]:
    total: dict[str, float] = defaultdict(float)
    for device in sorted(problem.devices, key=lambda each: each.id):
        total[device.gpu] += load[device.id]
    return {gpu.id: 100 * total[gpu.id] / gpu.cap for gpu in problem.gpus if gpu.balance}


def violations(problem: Problem, moves: Iterable[Move]) -> list[Violation]:
    """Every broken rule of a plan; empty for a valid plan. Moves without waves need some order."""
    plan = _Plan(problem, list(moves))
    found = list(_unknown(plan))
    if found:
        return found
    for rule in _RULES:
        found.extend(rule(plan))
    return found


class _Plan:
    """The moves, with what each rule looks up."""

    def __init__(self, problem: Problem, moves: Sequence[Move]) -> None:
        self.problem = problem
        self.moves = moves
        self.items = {item.id: item for item in problem.items}
        self.devices = {device.id: device for device in problem.devices}
        self.groups = {group.id: group for group in problem.groups}

    def device_of(self, item: ItemSpec) -> DeviceSpec:
        return self.devices[item.device]

    def residents(self, moves: Iterable[Move]) -> dict[str, list[ItemSpec]]:
        """Items of each device once these moves are made."""
        target = {move.item: move.target for move in moves}
        on: dict[str, list[ItemSpec]] = defaultdict(list)
        for item in self.problem.items:
            on[target.get(item.id, item.device)].append(item)
        return on


def _unknown(plan: _Plan) -> Iterator[Violation]:
    for move in plan.moves:
        if move.item not in plan.items:
            yield Violation("unknown-item", move.item, "the problem has no such item")
        elif move.source != plan.items[move.item].device:
            where = plan.items[move.item].device
            yield Violation("source", move.item, f"is on {where}, the plan says {move.source}")
        if move.target not in plan.devices:
            yield Violation("unknown-device", move.target, "the problem has no such device")


def _movable_once_elsewhere(plan: _Plan) -> Iterator[Violation]:
    for item, times in Counter(move.item for move in plan.moves).items():
        if times > 1:
            yield Violation("moved-once", item, f"is moved {times} times")
    for move in plan.moves:
        if not plan.items[move.item].movable:
            yield Violation("movable", move.item, "may not be moved")
        if move.target == plan.items[move.item].device:
            yield Violation("own-device", move.item, f"is on {move.target} already")


def _target_allowed(plan: _Plan) -> Iterator[Violation]:
    for move in plan.moves:
        item, target = plan.items[move.item], plan.devices[move.target]
        if target.cordoned:
            yield Violation("cordoned", move.item, f"{target.id} takes no newcomer")
        if item.models is not None and target.model not in item.models:
            yield Violation("model", move.item, f"may not run on {target.model}")
        if item.profiles is not None and target.profile not in item.profiles:
            yield Violation("profile", move.item, f"may not run on {target.profile or 'a GPU'}")
        if item.nodes is not None and target.node not in item.nodes:
            yield Violation("node", move.item, f"may not run on node {target.node}")
        if item.leaves_node and target.node == plan.devices[item.device].node:
            yield Violation("leaves-node", move.item, f"has to leave node {target.node}")


def _room_after(plan: _Plan) -> Iterator[Violation]:
    on = plan.residents(plan.moves)
    for target in sorted({move.target for move in plan.moves}):
        reason = _overfull(plan.devices[target], on[target])
        if reason:
            yield Violation("room", target, f"{reason} after the plan")


def _overfull(device: DeviceSpec, residents: Sequence[ItemSpec]) -> str | None:
    used = device.base_mem_mib + sum(item.mem_mib for item in residents)
    if used > device.mem_mib + _TOLERANCE:
        return f"holds {used:g} of {device.mem_mib:g} MiB"
    if device.slots is not None and len(residents) > device.slots:
        return f"holds {len(residents)} items in {device.slots} slots"
    return None


def _apart(plan: _Plan) -> Iterator[Violation]:
    """A place over its limit may stay as it was, but must not have received a member."""
    target = {move.item: plan.devices[move.target] for move in plan.moves}
    counts: Counter[tuple[str, str, str]] = Counter()
    entered: set[tuple[str, str, str]] = set()
    for item in plan.problem.items:
        if item.group is None:
            continue
        source = plan.device_of(item)
        place = target.get(item.id, source)
        for kind, here, there in (
            ("node", place.node, source.node),
            ("gpu", place.gpu, source.gpu),
        ):
            counts[item.group, kind, here] += 1
            if here != there:
                entered.add((item.group, kind, here))
    for group, kind, place_id in sorted(entered):
        spec = plan.groups.get(group)
        if spec is None:
            continue
        limit = spec.max_per_node if kind == "node" else spec.max_per_gpu
        count = counts[group, kind, place_id]
        if limit is not None and count > limit:
            reason = f"{count} members on {kind} {place_id}, limit {limit}"
            yield Violation(f"max-per-{kind}", group, reason)


def _budgets(plan: _Plan) -> Iterator[Violation]:
    limit = plan.problem.params.max_moves
    if limit is not None and len(plan.moves) > limit:
        yield Violation("max-moves", "plan", f"{len(plan.moves)} moves, limit {limit}")
    per_group = Counter(plan.items[move.item].group for move in plan.moves)
    for group in plan.problem.groups:
        if group.max_moves is not None and per_group[group.id] > group.max_moves:
            reason = f"{per_group[group.id]} moves, limit {group.max_moves}"
            yield Violation("group-moves", group.id, reason)


def _order(plan: _Plan) -> Iterator[Violation]:
    waves = {move.wave for move in plan.moves}
    if waves == {None}:
        if not _some_order_exists(plan):
            yield Violation("order", "plan", "no order keeps every target within its room")
        return
    if None in waves:
        yield Violation("order", "plan", "some moves have a wave and some have none")
        return
    done: list[Move] = []
    for wave in sorted(wave for wave in waves if wave is not None):
        now = [move for move in plan.moves if move.wave == wave]
        yield from _wave(plan, wave, now, done)
        done.extend(now)


def _wave(plan: _Plan, wave: int, now: Sequence[Move], done: Sequence[Move]) -> Iterator[Violation]:
    on = plan.residents(done)
    touched: Counter[str] = Counter()
    grouped: Counter[str] = Counter()
    for move in now:
        item, target = plan.items[move.item], plan.devices[move.target]
        touched.update({plan.device_of(item).node, target.node})
        if item.group is not None:
            grouped[item.group] += 1
    for target_id in sorted({move.target for move in now}):
        arrivals = [plan.items[move.item] for move in now if move.target == target_id]
        reason = _overfull(plan.devices[target_id], on[target_id] + arrivals)
        if reason:
            yield Violation("order", target_id, f"{reason} during wave {wave}")
    params = plan.problem.params
    for node, count in sorted(touched.items()):
        if count > params.node_inflight:
            reason = f"{count} moves in wave {wave}, limit {params.node_inflight}"
            yield Violation("node-inflight", node, reason)
    for group, count in sorted(grouped.items()):
        if count > params.group_inflight:
            reason = f"{count} moves in wave {wave}, limit {params.group_inflight}"
            yield Violation("group-inflight", group, reason)


def _some_order_exists(plan: _Plan) -> bool:
    """Depth-first over the sets of moves made so far."""
    dead: set[frozenset[int]] = set()
    stack = [frozenset[int]()]
    while stack and len(dead) < _ORDER_TRIES:
        made = stack.pop()
        if len(made) == len(plan.moves):
            return True
        if made in dead:
            continue
        dead.add(made)
        on = plan.residents(plan.moves[index] for index in made)
        for index, move in enumerate(plan.moves):
            if index not in made:
                residents = [*on[move.target], plan.items[move.item]]
                if _overfull(plan.devices[move.target], residents) is None:
                    stack.append(made | {index})
    return False


_RULES = (_movable_once_elsewhere, _target_allowed, _room_after, _apart, _budgets, _order)

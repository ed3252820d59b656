"""From a snapshot to a plan: the fewest and cheapest moves, each with its reason.

Pure: the same snapshot and policy give the same plan, byte for byte. Times derive from the
snapshot's own.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from datetime import timedelta

import msgspec
from msgspec.structs import replace

from gpuctl.model.gpu import GpuState
from gpuctl.model.plan import (
    ClusterState,
    DeviceRef,
    Expected,
    Finding,
    FrontierPoint,
    MoveCost,
    PlanDocument,
    PlanGoal,
    PlannedMove,
    Skipped,
)
from gpuctl.model.policy import Policy
from gpuctl.model.snapshot import Snapshot
from gpuctl.policy.attribution import DeviceLoad, attributed, device_loads
from gpuctl.policy.balance import balance_ratio, mean, spread
from gpuctl.policy.causes import Cause, HotSpot, hot_spots, trigger
from gpuctl.policy.latency import request_latency
from gpuctl.policy.plan_problem import (
    Lowered,
    PlanOptions,
    lowered,
    move_seconds,
)
from gpuctl.policy.planning.checker import evaluate, violations
from gpuctl.policy.planning.problem import Goal, Move, Solution
from gpuctl.policy.planning.solve import solve

PLAN_LIFETIME = timedelta(minutes=10)

# Points of spread that a move of cost 1 has to buy, tried in turn until the target is reached:
# what is worth it first, the rest only if the target needs it.
_MOVE_WEIGHTS = (2.0, 0.5, 0.05)


def plan_rebalance(snapshot: Snapshot, policy: Policy, options: PlanOptions) -> PlanDocument:
    """The plan for a goal.

    relief: fewest moves, then least cost, that bring every curable hot device under the mark; no
    moves when nothing is hot, or when no GPU is idle. balance: also the spread to the target.
    """
    devices = device_loads(snapshot)
    workloads = {one.id: one for one in attributed(snapshot, policy, devices)}
    fires = trigger(snapshot, policy, devices)
    found, solution, moves = _solved(lowered(workloads, devices, policy, options), policy, options)
    if options.goal == "relief" and fires.fires is not True:
        moves = ()
    states = _States(found, policy)
    plan = PlanDocument(
        created_at=snapshot.taken_at,
        expires_at=snapshot.taken_at + PLAN_LIFETIME,
        context=snapshot.context,
        cluster=snapshot.cluster,
        source=snapshot.source,
        simulated=snapshot.source.simulated,
        goal=options.goal,
        target_spread_pct=_target(policy, options),
        policy_hash=policy_hash(policy),
        moves=_planned_moves(moves, found, policy, states),
        skipped=_skipped(found, moves),
        before=states.after(()),
        after=states.after(moves),
        frontier=_frontier(moves, found, states),
        certificate=_certificate(options.goal, solution),
        findings=_findings(snapshot, hot_spots(snapshot, policy, devices, workloads)),
        warnings=(*snapshot.warnings, *_warnings(moves, found, policy, options, states)),
    )
    return replace(plan, digest=plan_digest(plan))


def policy_hash(policy: Policy) -> str:
    """SHA-256 of the policy, keys in order of declaration."""
    return hashlib.sha256(msgspec.json.encode(policy)).hexdigest()


def plan_digest(plan: PlanDocument) -> str:
    """SHA-256 of the plan without its digest: what `apply` checks before it believes a file."""
    return hashlib.sha256(msgspec.json.encode(replace(plan, digest=""))).hexdigest()


def _target(policy: Policy, options: PlanOptions) -> float | None:
    if options.goal == "relief":
        return None
    return policy.target_spread if options.target_spread_pct is None else options.target_spread_pct


def _solved(
    found: Lowered, policy: Policy, options: PlanOptions
) -> tuple[Lowered, Solution, tuple[Move, ...]]:
    target = _target(policy, options)
    if target is None:
        solution = solve(found.problem, Goal.RELIEF)
        return found, solution, solution.moves
    for weight in _MOVE_WEIGHTS:
        params = dataclasses.replace(found.problem.params, move_weight=weight)
        found = dataclasses.replace(
            found, problem=dataclasses.replace(found.problem, params=params)
        )
        solution = solve(found.problem, Goal.BALANCE)
        if solution.evaluation.spread <= target or len(solution.moves) == _limit(found):
            break
    return found, solution, _enough(found, solution, target)


def _limit(found: Lowered) -> int | None:
    return found.problem.params.max_moves


def _certificate(goal: PlanGoal, solution: Solution) -> tuple[str, ...]:
    """Sentences about any other plan. Relief's cost is in units of the search, not for people."""
    statements = solution.certificate.statements
    return statements[:1] if goal == "relief" else statements


def _enough(found: Lowered, solution: Solution, target: float) -> tuple[Move, ...]:
    """The shortest beginning of the moves that relieves as much and reaches the target spread."""
    for count in range(len(solution.moves) + 1):
        reached = evaluate(found.problem, solution.moves[:count])
        relieved = reached.excess <= solution.evaluation.excess + 1e-6
        enough = relieved and reached.spread <= max(target, solution.evaluation.spread)
        # A replica may have to leave before another comes: not every beginning can stand alone.
        if enough and not violations(found.problem, solution.moves[:count]):
            return solution.moves[:count]
    return solution.moves


class _States:
    """Utilization of devices and GPUs after any number of moves."""

    def __init__(self, found: Lowered, policy: Policy):
        self._found = found
        self._policy = policy
        self._load = {item.id: item.load for item in found.problem.items}
        self._start: dict[str, float] = {d.id: d.base_load for d in found.problem.devices}
        for item in found.problem.items:
            self._start[item.device] += item.load

    def devices(self, moves: Sequence[Move]) -> dict[str, float]:
        """Load points by device."""
        loads = dict(self._start)
        for move in moves:
            loads[move.source] -= self._load[move.item]
            loads[move.target] += self._load[move.item]
        return loads

    def gpus(self, moves: Sequence[Move]) -> dict[str, float]:
        """Percent by GPU; a card with MIG instances has theirs together."""
        loads = self.devices(moves)
        gpus: dict[str, float] = {}
        for device in self._found.problem.devices:
            gpus[device.gpu] = gpus.get(device.gpu, 0.0) + loads[device.id]
        return gpus

    def percent(self, device: str, loads: Mapping[str, float]) -> float:
        """A device's utilization in percent of itself."""
        instance = self._found.devices[device].instance
        if instance is None:
            return loads[device]
        total = self._found.devices[device].gpu.total_slices or 7
        return loads[device] * total / (instance.compute_slices or 1)

    def hot(self, moves: Sequence[Move]) -> tuple[str, ...]:
        """Devices over their mark, the hottest first."""
        loads = self.devices(moves)
        over = [
            name
            for name, device in self._found.devices.items()
            if self.percent(name, loads) > self._policy.hot_mark(device.profile) + 1e-6
        ]
        return tuple(sorted(over, key=lambda name: (-self.percent(name, loads), name)))

    def after(self, moves: Sequence[Move]) -> ClusterState:
        """The cluster after these moves."""
        gpus = self.gpus(moves)
        nodes: dict[str, list[float]] = {}
        for spec in self._found.problem.gpus:
            nodes.setdefault(spec.node, []).append(gpus[spec.id])
        means = {node: round(mean(values) or 0.0, 2) for node, values in sorted(nodes.items())}
        return ClusterState(
            hot=self.hot(moves),
            spread_pct=_rounded(spread(gpus.values())),
            balance_ratio=_rounded(balance_ratio(means.values())),
            max_utilization_pct=_rounded(max(gpus.values(), default=None)),
            min_utilization_pct=_rounded(min(gpus.values(), default=None)),
            nodes=means,
        )


def _planned_moves(
    moves: Sequence[Move], found: Lowered, policy: Policy, states: _States
) -> tuple[PlannedMove, ...]:
    planned = []
    for number, move in enumerate(moves):
        before, after = states.devices(moves[:number]), states.devices(moves[: number + 1])
        workload, share = found.workloads[move.item], found.shares[move.item]
        source, target = found.devices[move.source], found.devices[move.target]
        verdict = found.verdicts[move.item]
        expected = Expected(
            from_before_pct=round(states.percent(move.source, before), 2),
            from_after_pct=round(states.percent(move.source, after), 2),
            to_before_pct=round(states.percent(move.target, before), 2),
            to_after_pct=round(states.percent(move.target, after), 2),
            error_points=round(share.load_error_pct or 0.0, 2),
        )
        is_vm = workload.kind == "vm"
        planned.append(
            PlannedMove(
                id=f"m{number + 1}",
                action="migrate" if is_vm else "evict",
                workload=move.item,
                source=_ref(source),
                target=_ref(target),
                wave=move.wave or 0,
                reason=_reason(move, source, states, before, policy),
                expected=expected,
                cost=MoveCost(
                    memory_mib=float(workload.ram_mib or 0) if is_vm else 0.0,
                    seconds=round(move_seconds(workload), 1),
                ),
                unknown=(verdict.rule,) if verdict.is_unknown else (),
            )
        )
    return tuple(planned)


def _reason(
    move: Move, source: DeviceLoad, states: _States, before: Mapping[str, float], policy: Policy
) -> str:
    load = states.percent(move.source, before)
    mark = policy.hot_mark(source.profile)
    if load > mark:
        others = len(source.shares) - 1
        return f"{move.source} is hot at {load:.0f} % and shared with {others} more"
    return f"{move.source} carries {load:.0f} %, {move.target} {_of(move, states, before):.0f} %"


def _of(move: Move, states: _States, loads: Mapping[str, float]) -> float:
    return states.percent(move.target, loads)


def _ref(device: DeviceLoad) -> DeviceRef:
    return DeviceRef(node=device.gpu.node, gpu=device.gpu.gpu, mig_id=device.key.mig_id)


def _skipped(found: Lowered, moves: Sequence[Move]) -> tuple[Skipped, ...]:
    moved = {move.item for move in moves}
    return tuple(
        Skipped(workload=name, rule=verdict.rule, reason=verdict.reason)
        for name, verdict in sorted(found.verdicts.items())
        if verdict.is_refusal and name not in moved
    )


def _frontier(moves: Sequence[Move], found: Lowered, states: _States) -> tuple[FrontierPoint, ...]:
    """After 0, 1, 2, 4, 8 ... moves and after all of them."""
    counts = [0, *(2**i for i in range(20) if 2**i < len(moves)), len(moves)]
    start = states.gpus(())
    hottest = max(sorted(start), key=lambda name: start[name], default=None)
    points = []
    for count in dict.fromkeys(counts):
        done = moves[:count]
        gpus = states.gpus(done)
        top = max(sorted(gpus), key=lambda name: gpus[name], default=None)
        points.append(
            FrontierPoint(
                moves=count,
                hot=len(states.hot(done)),
                spread_pct=round(spread(gpus.values()) or 0.0, 2),
                max_utilization_pct=round(gpus[top], 2) if top is not None else 0.0,
                hottest=top,
                p95_ms=None if hottest is None else _p95_ms(hottest, done, found),
            )
        )
    return tuple(points)


def _p95_ms(hottest: str, moves: Sequence[Move], found: Lowered) -> float | None:
    """P95 of the inference pods that sat on the hottest GPU, by load, where they are now."""
    at = {item.id: item.device for item in found.problem.items}
    start = dict(at)
    at.update({move.item: move.target for move in moves})
    gpu_of = {device.id: device.gpu for device in found.problem.devices}
    training: dict[str, float] = {}
    inference: dict[str, float] = {}
    followed: list[tuple[str, float]] = []
    for item in found.problem.items:
        kind = found.workloads[item.id].workload_class
        place = gpu_of[at[item.id]]
        was_there = gpu_of[start[item.id]] == hottest
        if kind == "unknown" and (was_there or place in {gpu for gpu, _ in followed}):
            return None
        loads = training if kind == "training" else inference
        loads[place] = loads.get(place, 0.0) + item.load
        if was_there and kind == "inference":
            followed.append((place, item.load))
    total = sum(load for _, load in followed)
    if not total:
        return None
    weighed = 0.0
    for place, load in followed:
        latency = request_latency(training.get(place, 0.0), inference.get(place, 0.0))
        if latency is None:
            return None
        weighed += latency.p95_ms * load / total
    return round(weighed, 1)


def _findings(snapshot: Snapshot, spots: Sequence[HotSpot]) -> tuple[Finding, ...]:
    findings = [
        Finding(kind=str(spot.cause), subject=spot.address, text=spot.reason, advice=spot.advice)
        for spot in spots
        if spot.cause is not Cause.SHARED
    ]
    for gpu in snapshot.gpus:
        if gpu.state is GpuState.LOST:
            xid = f", its last XID is {gpu.xid}" if gpu.xid else ""
            findings.append(
                Finding(
                    kind="lost",
                    subject=gpu.address,
                    text=f"silent now, seen within the last hour{xid}",
                    advice="drain the node and reset the card, or reboot the node",
                )
            )
        held = gpu.memory_pct
        idle_all_along = gpu.window is not None and gpu.window.max_pct < 1
        if held is not None and held >= 20 and idle_all_along and gpu.workloads:
            findings.append(
                Finding(
                    kind="idle-memory",
                    subject=gpu.address,
                    text=f"{', '.join(gpu.workloads)} holds {held:.0f} % of its memory at 0 % load",
                    advice="ask the owner whether it is still needed",
                )
            )
    return tuple(findings)


def _warnings(
    moves: Sequence[Move],
    found: Lowered,
    policy: Policy,
    options: PlanOptions,
    states: _States,
) -> list[str]:
    warnings = []
    target = _target(policy, options)
    reached = states.after(moves).spread_pct
    limit = _limit(found)
    if target is not None and reached is not None and reached > target and len(moves) == limit:
        warnings.append(
            f"limits.moves_per_run ({limit}) stops the plan at a spread of {reached:.0f} points, "
            f"the target is {target:.0f}"
        )
    unknown = sorted(
        {found.verdicts[m.item].rule for m in moves if found.verdicts[m.item].is_unknown}
    )
    if unknown:
        warnings.append(
            f"not checked for want of an inventory: {', '.join(unknown)}; these moves could not "
            "be made as they stand"
        )
    return warnings


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)

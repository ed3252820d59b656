"""Whether the world is still the one a plan was made for, and whether the moves did what it said.

A plan's figures are those of its snapshot. What its moves should lead to follows from the moves
that were really made, so that a run that stopped half way is judged by its half.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from gpuctl.model.gpu import GpuState
from gpuctl.model.outcome import DeviceOutcome
from gpuctl.model.plan import DeviceRef, PlanDocument, PlannedMove
from gpuctl.model.policy import Policy
from gpuctl.model.snapshot import Snapshot
from gpuctl.policy.attribution import DeviceLoad, device_loads
from gpuctl.policy.hotspots import gpu_heat, instance_heat
from gpuctl.policy.verdict import Verdict

#: Beyond its own error band a prediction may be off by so much before it is called wrong.
TOLERANCE_POINTS = 15.0


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a device should carry, in percent of itself, and how far that may be off."""

    percent: float
    error_points: float


def loads_by_address(snapshot: Snapshot) -> dict[str, float]:
    """Utilization by device address, the mean over the snapshot's window where there is one.

    Devices whose figures can't be trusted are missing.
    """
    return {
        ref_of(device).address: device.load_pct
        for device in device_loads(snapshot)
        if device.load_pct is not None and device.gpu.state not in (GpuState.LOST, GpuState.STALE)
    }


def ref_of(device: DeviceLoad) -> DeviceRef:
    """How plans and outcomes name a device."""
    return DeviceRef(node=device.gpu.node, gpu=device.gpu.gpu, mig_id=device.key.mig_id)


def hot_now(snapshot: Snapshot, policy: Policy) -> tuple[str, ...]:
    """Addresses of the devices that are hot over the window, in the snapshot's order."""
    return tuple(
        ref_of(device).address
        for device in device_loads(snapshot)
        if (
            gpu_heat(device.gpu, policy).hot
            if device.instance is None
            else instance_heat(device.gpu, device.instance, policy).hot
        )
    )


def expectations(plan: PlanDocument, done: Collection[str]) -> dict[str, Expectation]:
    """What the devices of a plan should carry once the moves with these ids are made.

    Each move shifts what the plan said it shifts, whatever other moves were left out. Errors of
    several moves at one device add up.
    """
    found: dict[str, Expectation] = {}
    for move in plan.moves:
        expected = move.expected
        ends = (
            (move.source, expected.from_before_pct, expected.from_after_pct),
            (move.target, expected.to_before_pct, expected.to_after_pct),
        )
        for device, before, after in ends:
            known = found.setdefault(device.address, Expectation(before, 0.0))
            if move.id in done:
                found[device.address] = Expectation(
                    known.percent + after - before, known.error_points + expected.error_points
                )
    return found


# -- before a move ---------------------------------------------------------------------------------


def still_stands(
    plan: PlanDocument, move: PlannedMove, done: Collection[str], now: Snapshot
) -> Verdict:
    """Whether a move may still be made: its workload is where the plan saw it, its target can be
    seen, and no device that the moves so far have reached, nor the target, is hotter than they
    should have made it."""
    reason = _gone(move, now) or _blind(move, now)
    if reason:
        return Verdict(False, "overtaken", reason)
    loads = loads_by_address(now)
    expected = expectations(plan, done)
    reached = [one.target for one in plan.moves if one.id in done]
    for device in (*reached, move.target):
        should = expected[device.address]
        is_at = loads.get(device.address)
        if is_at is not None and is_at > should.percent + _slack(should):
            return Verdict(
                False,
                "hotter-than-predicted",
                f"{device.address} is at {is_at:.0f} %, the plan says {should.percent:.0f} %",
            )
    return Verdict(True, "overtaken", "the cluster is as the plan saw it")


def _slack(should: Expectation) -> float:
    return TOLERANCE_POINTS + should.error_points


def _gone(move: PlannedMove, now: Snapshot) -> str:
    """Why the workload is not where it was; "" when it is."""
    places = _places(now).get(move.workload)
    if places is None:
        return f"{move.workload} does not run any more"
    if move.source.address not in places:
        return f"{move.workload} runs on {', '.join(places)} by now, not on {move.source.address}"
    return ""


def _places(snapshot: Snapshot) -> dict[str, list[str]]:
    """Addresses of the devices of each workload."""
    places: dict[str, list[str]] = {}
    for device in device_loads(snapshot):
        for share in device.shares:
            places.setdefault(share.workload, []).append(ref_of(device).address)
    return places


def _blind(move: PlannedMove, now: Snapshot) -> str:
    """Why the target can't be seen; "" when it can."""
    if move.target.address in loads_by_address(now):
        return ""
    return f"{move.target.address} has no fresh metrics"


def overtaken(plan: PlanDocument, now: Snapshot, done: Collection[str] = ()) -> tuple[str, ...]:
    """What has moved since the plan was made, as clauses; empty when it can be carried out.

    `done`: ids of moves that were made already, which are expected to have moved.
    """
    return tuple(_changes(plan, now, done))


def _changes(plan: PlanDocument, now: Snapshot, done: Collection[str]) -> Iterator[str]:
    left = [move for move in plan.moves if move.id not in done]
    for move in left:
        if reason := _gone(move, now):
            yield reason
    loads = loads_by_address(now)
    expected = expectations(plan, done)
    touched = dict.fromkeys(d.address for move in left for d in (move.source, move.target))
    for address in touched:
        should, is_at = expected[address], loads.get(address)
        if is_at is None:
            yield f"{address} has no fresh metrics"
        elif abs(is_at - should.percent) > _slack(should):
            yield f"{address} is at {is_at:.0f} %, it was at {should.percent:.0f} %"


# -- after the moves -------------------------------------------------------------------------------


def verified(
    plan: PlanDocument, done: Collection[str], before: Snapshot, after: Snapshot | None
) -> tuple[DeviceOutcome, ...]:
    """Every device of the nodes that the plan changes: before, predicted, after."""
    nodes = {device.node for move in plan.moves for device in (move.source, move.target)}
    was = loads_by_address(before)
    is_now = {} if after is None else loads_by_address(after)
    expected = expectations(plan, done)
    devices = {ref_of(one).address: ref_of(one) for one in _of_nodes(before, nodes)}
    return tuple(
        _outcome(devices[address], was.get(address), expected, is_now) for address in devices
    )


def _of_nodes(snapshot: Snapshot, nodes: Collection[str]) -> Iterable[DeviceLoad]:
    return (device for device in device_loads(snapshot) if device.gpu.node in nodes)


def _outcome(
    device: DeviceRef,
    before_pct: float | None,
    expected: Mapping[str, Expectation],
    is_now: Mapping[str, float],
) -> DeviceOutcome:
    should = expected.get(device.address)
    predicted = before_pct if should is None else should.percent
    error = 0.0 if should is None else should.error_points
    after_pct = is_now.get(device.address)
    wrong = None
    # Of a device that no move touches nothing was predicted: its load is its own affair.
    if should is not None and after_pct is not None:
        wrong = abs(after_pct - should.percent) > _slack(should)
    return DeviceOutcome(
        device=device,
        before_pct=_rounded(before_pct),
        predicted_pct=_rounded(predicted),
        after_pct=_rounded(after_pct),
        error_points=round(error, 2),
        wrong=wrong,
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def wrong_words(devices: Iterable[DeviceOutcome]) -> tuple[str, ...]:
    """What is to be said aloud: each prediction that was wrong."""
    return tuple(
        f"the prediction was wrong: {one.device.address} is at {one.after_pct:.0f} %, "
        f"{one.predicted_pct:.0f} % was expected"
        for one in devices
        if one.wrong and one.after_pct is not None and one.predicted_pct is not None
    )

"""Cool-down, back-off, moves per hour, ping-pong and hysteresis, by hand and by property."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuctl.model.gpu import GpuState
from gpuctl.model.plan import DeviceRef
from gpuctl.model.policy import Limits, Policy
from gpuctl.model.workload import Workload
from gpuctl.policy.causes import Trigger
from gpuctl.policy.pace import (
    BACKOFF_MEMORY,
    HOUR,
    MOST_COOLDOWNS,
    PastMove,
    cooling,
    hour_budget,
    hysteresis_guard,
    moves_of,
    ping_pong_guard,
    still_hot,
)
from tests.policy.cards import a_card, a_snapshot, a_window, an_instance

NOW = datetime(2025, 3, 1, 12, 0, tzinfo=UTC)
COOLDOWN = timedelta(minutes=30)
POLICY = Policy(limits=Limits(moves_per_hour=3, cooldown=COOLDOWN))
VM = Workload(id="vm/101", kind="vm")
A, B, C = (DeviceRef(node=f"gpu-{name}", gpu=0) for name in "abc")


def a_move(minutes_ago: float, workload: str = "vm/101", **more: object) -> PastMove:
    """One that succeeded, of a VM that keeps its id, from gpu-a/0 to gpu-b/0."""
    fields: dict[str, object] = {"heir": workload, "source": A, "target": B, **more}
    at = NOW - timedelta(minutes=minutes_ago)
    return PastMove(at=at, workload=workload, **fields)  # type: ignore[arg-type]


def a_pod(name: str, owner: str = "Deployment/chat") -> Workload:
    return Workload(id=f"prod/{name}", kind="pod", owner=owner)


# -- moves per hour --------------------------------------------------------------------------------


def test_the_hour_is_used_up_by_failed_moves_too_and_says_when_the_next_is_free() -> None:
    past = [a_move(90), a_move(50), a_move(40, changed=False, heir=None), a_move(10)]
    budget = hour_budget(past, POLICY, NOW)
    assert (budget.made, budget.left) == (3, 0)
    assert budget.verdict.is_refusal
    assert budget.next_at == NOW + timedelta(minutes=10)
    assert "3 of 3 moves" in budget.verdict.reason
    assert "12:10:00Z" in budget.verdict.reason


def test_a_move_of_exactly_an_hour_ago_no_longer_counts() -> None:
    budget = hour_budget([a_move(60), a_move(59)], POLICY, NOW)
    assert (budget.made, budget.left, budget.next_at) == (1, 2, None)
    assert budget.verdict.allowed


minutes = st.floats(0, 26 * 60, allow_nan=False)


@given(st.lists(minutes, max_size=12), st.integers(1, 6))
def test_when_the_next_move_is_free_is_the_first_moment_at_which_it_is(
    ages: list[float], limit: int
) -> None:
    policy = Policy(limits=Limits(moves_per_hour=limit))
    past = [a_move(age) for age in ages]
    budget = hour_budget(past, policy, NOW)
    assert budget.left == max(0, limit - sum(move.at > NOW - HOUR for move in past))
    if budget.next_at is not None:
        assert hour_budget(past, policy, budget.next_at).left > 0
        assert hour_budget(past, policy, budget.next_at - timedelta(microseconds=1)).left == 0


# -- cool-down and back-off ------------------------------------------------------------------------


@pytest.mark.parametrize(("ago", "rests"), [(0, True), (29.9, True), (30, False), (500, False)])
def test_a_workload_rests_for_its_cooldown(ago: float, rests: bool) -> None:
    rest = cooling([a_move(ago)], [VM], POLICY, NOW)
    assert ("vm/101" in rest.workloads) is rests


@pytest.mark.parametrize(("moves", "cooldowns"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 8), (9, 8)])
def test_each_move_of_a_day_doubles_the_rest_up_to_a_limit(moves: int, cooldowns: int) -> None:
    past = [a_move(100 * number) for number in range(moves)]
    rest = cooling(past, [VM], POLICY, NOW)
    assert rest.workloads_until["vm/101"] == NOW + cooldowns * COOLDOWN
    if moves > 1:
        assert f"after {moves} moves in 1d" in rest.workloads["vm/101"].reason


@given(st.lists(minutes, min_size=1, max_size=8), st.floats(0, 600))
def test_rest_ends_when_it_says_and_is_never_longer_than_the_limit(
    ages: list[float], later: float
) -> None:
    past = [a_move(age) for age in ages]
    last = max(move.at for move in past)
    rest = cooling(past, [VM], POLICY, NOW)
    until = rest.workloads_until.get("vm/101")
    if until is None:
        assert last + COOLDOWN <= NOW
        return
    assert last + COOLDOWN <= until <= last + MOST_COOLDOWNS * COOLDOWN
    assert "vm/101" not in cooling(past, [VM], POLICY, until).workloads
    # Moves drop out of the day's memory as time goes on: the rest gets shorter, never longer.
    then = NOW + timedelta(minutes=later)
    assert cooling(past, [VM], POLICY, then).workloads_until.get("vm/101", until) <= until


@given(st.lists(minutes, max_size=6), minutes)
def test_one_more_move_never_shortens_anything(ages: list[float], more: float) -> None:
    past = [a_move(age) for age in ages]
    fewer = cooling(past, [VM], POLICY, NOW)
    greater = cooling([*past, a_move(more)], [VM], POLICY, NOW)
    assert set(fewer.workloads) <= set(greater.workloads)
    assert all(greater.workloads_until[one] >= at for one, at in fewer.workloads_until.items())
    assert set(fewer.cards) <= set(greater.cards)
    assert set(fewer.homes.get("vm/101", {})) <= set(greater.homes.get("vm/101", {}))


@given(st.permutations([a_move(5), a_move(20), a_move(300), a_move(25, "vm/102", target=C)]))
def test_the_order_of_the_records_does_not_matter(past: Sequence[PastMove]) -> None:
    in_order = sorted(past, key=lambda move: move.at)
    assert cooling(past, [VM], POLICY, NOW) == cooling(in_order, [VM], POLICY, NOW)


def test_moves_that_are_older_than_a_day_add_nothing_to_the_rest() -> None:
    old = BACKOFF_MEMORY / timedelta(minutes=1) + 1
    rest = cooling([a_move(old), a_move(1)], [VM], POLICY, NOW)
    assert rest.workloads_until["vm/101"] == NOW - timedelta(minutes=1) + COOLDOWN


# -- who is who ------------------------------------------------------------------------------------


def test_a_pods_moves_are_those_of_all_its_predecessors() -> None:
    first = a_move(300, "prod/chat-1", heir="prod/chat-2")
    second = a_move(100, "prod/chat-2", heir="prod/chat-3")
    other = a_move(50, "prod/other-1", heir="prod/other-2")
    assert moves_of(a_pod("chat-3"), [other, second, first]) == (first, second)
    assert moves_of(a_pod("chat-9"), [other, second, first]) == ()


def test_where_nobody_saw_the_successor_every_pod_of_the_owner_rests() -> None:
    past = [a_move(5, "prod/chat-1", heir=None, owner="prod/Deployment/chat")]
    pods = [a_pod("chat-2"), a_pod("chat-3"), a_pod("web-1", "Deployment/web"), a_pod("x", "")]
    rest = cooling(past, pods, POLICY, NOW)
    assert set(rest.workloads) == {"prod/chat-2", "prod/chat-3"}


def test_the_sibling_of_a_known_successor_does_not_rest() -> None:
    past = [a_move(5, "prod/chat-1", heir="prod/chat-2", owner="prod/Deployment/chat")]
    assert set(cooling(past, [a_pod("chat-2"), a_pod("chat-3")], POLICY, NOW).workloads) == {
        "prod/chat-2"
    }


def test_a_move_of_another_namespace_with_the_same_owner_is_another_ones() -> None:
    past = [a_move(5, "dev/chat-1", heir=None, owner="dev/Deployment/chat")]
    assert not cooling(past, [a_pod("chat-2")], POLICY, NOW).workloads


# -- cards -----------------------------------------------------------------------------------------


def test_what_gave_may_give_more_and_what_took_rests_on_both_sides() -> None:
    rest = cooling([a_move(5)], [], POLICY, NOW)
    assert rest.no_sources == {"gpu-b/0"}
    assert rest.no_targets == {"gpu-a/0", "gpu-b/0"}
    assert rest.next_at == NOW + timedelta(minutes=25)
    other = Workload(id="vm/7", kind="vm")
    assert [v.is_refusal for v in rest.guard(other, "gpu-a/0", "gpu-c/0")] == [False] * 4
    refused = {v.rule for v in rest.guard(other, "gpu-b/0", "gpu-a/0") if v.is_refusal}
    assert refused == {"card-cooldown"}


def test_a_card_that_took_and_then_gave_still_gives_nothing() -> None:
    past = [a_move(20), a_move(5, "vm/9", source=B, target=C)]
    rest = cooling(past, [], POLICY, NOW)
    assert rest.cards["gpu-b/0"].role == "took"
    assert rest.cards["gpu-b/0"].until == NOW + timedelta(minutes=25)


def test_a_move_that_changed_nothing_lets_cards_and_homes_alone() -> None:
    rest = cooling([a_move(5, changed=False)], [VM], POLICY, NOW)
    assert not rest.cards
    assert not rest.homes
    assert "vm/101" in rest.workloads


def test_a_card_without_an_index_does_not_rest() -> None:
    past = [a_move(5, target=DeviceRef(node="gpu-b", gpu=None))]
    assert set(cooling(past, [], POLICY, NOW).cards) == {"gpu-a/0"}


def test_a_mig_instance_rests_alone() -> None:
    target = DeviceRef(node="gpu-b", gpu=0, mig_id=2)
    rest = cooling([a_move(5, target=target)], [], POLICY, NOW)
    assert rest.no_sources == {"gpu-b/0:2"}


# -- ping-pong -------------------------------------------------------------------------------------


def test_a_workload_must_not_return_to_the_node_that_it_left() -> None:
    past = [a_move(100)]
    rest = cooling(past, [VM], POLICY, NOW)
    assert "vm/101" not in rest.workloads
    back = {v.rule: v for v in rest.guard(VM, "gpu-b/0", "gpu-a/3")}
    assert back["ping-pong"].is_refusal
    assert "moved away from gpu-a 1h40m ago" in back["ping-pong"].reason
    assert all(v.allowed for v in rest.guard(VM, "gpu-b/0", "gpu-c/0"))
    assert ping_pong_guard(VM, "gpu-a", past, POLICY, NOW).is_refusal
    assert ping_pong_guard(VM, "gpu-c", past, POLICY, NOW).allowed
    assert ping_pong_guard(VM, "gpu-a", [a_move(120)], POLICY, NOW).allowed


hops = st.lists(
    st.tuples(st.sampled_from((A, B, C)), st.sampled_from((A, B, C)), minutes), max_size=8
)


@given(hops, st.sampled_from((A, B, C)))
def test_no_allowed_move_leads_back_to_a_node_left_within_the_memory(
    made: list[tuple[DeviceRef, DeviceRef, float]], target: DeviceRef
) -> None:
    past = [a_move(age, source=source, target=to) for source, to, age in made]
    left = {m.source.node for m in past if m.source and m.at + 4 * COOLDOWN > NOW}
    assert ping_pong_guard(VM, target.node, past, POLICY, NOW).allowed is (target.node not in left)


# -- hysteresis ------------------------------------------------------------------------------------


def lingering(*loads: float, now: float | None = None, was: tuple[str, ...] = ("n/0",)) -> bool:
    card = a_card("n", 0, loads[-1] if now is None else now, window=a_window(*loads))
    return still_hot(a_snapshot(card), POLICY, was) == ("n/0",)


def test_a_hot_card_stays_hot_until_its_whole_window_is_under_the_lower_mark() -> None:
    assert lingering(95, was=())
    assert not lingering(85, was=())
    assert lingering(85)
    assert lingering(*[85.0] + [60.0] * 10)
    assert not lingering(79)
    assert lingering(79, now=85)


def test_a_card_that_fell_silent_while_hot_stays_hot_and_one_that_was_cool_does_not() -> None:
    for state in (GpuState.LOST, GpuState.STALE, GpuState.NO_UTIL):
        silent = a_card("n", 0, 20 if state is GpuState.STALE else None)
        snapshot = a_snapshot(replace(silent, state=state))
        assert still_hot(snapshot, POLICY, ("n/0",)) == ("n/0",)
        assert still_hot(snapshot, POLICY, ()) == ()


def test_stale_figures_make_nothing_hot() -> None:
    stale = replace(a_card("n", 0, 99), state=GpuState.STALE)
    assert still_hot(a_snapshot(stale), POLICY, ()) == ()


def test_instances_are_judged_one_by_one_the_hottest_first() -> None:
    card = a_card("n", 0, 60, mig=(an_instance(1, "3g.40gb", 92), an_instance(2, "2g.20gb", 97)))
    assert still_hot(a_snapshot(card), POLICY, ("n/0",)) == ("n/0:2", "n/0:1")


def a_trigger(fires: bool | None, hot: tuple[str, ...] = (), idle: tuple[str, ...] = ()) -> Trigger:
    return Trigger(fires, hot, idle, "why")


def test_the_trigger_holds_on_while_a_card_lingers_and_a_gpu_is_idle() -> None:
    on = hysteresis_guard(a_trigger(False, idle=("m/0",)), ("n/0",), POLICY)
    assert (on.allowed, on.rule) == (True, "hysteresis")
    assert "n/0" in on.reason
    assert hysteresis_guard(a_trigger(False), ("n/0",), POLICY).is_refusal
    assert hysteresis_guard(a_trigger(False, idle=("m/0",)), (), POLICY).is_refusal
    assert hysteresis_guard(a_trigger(True, ("n/0",), ("m/0",)), ("n/0",), POLICY).allowed


def test_what_cannot_be_judged_stays_unknown_whatever_was_hot() -> None:
    assert hysteresis_guard(a_trigger(None), ("n/0",), POLICY).is_unknown

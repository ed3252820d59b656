"""Why a hot card can or can't be cured, since when it is hot, and when there is reason to act."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from gpuctl.model.gpu import Gpu, GpuState
from gpuctl.model.policy import Policy
from gpuctl.policy.causes import Cause, HotSpot, hot_spots, stays_hot, trigger
from tests.policy.building import (
    NOON,
    a_gpu,
    a_pod,
    a_snapshot,
    a_tenant,
    a_vm,
    a_window,
    an_instance,
)

POLICY = Policy()
TWO = (a_tenant("p/a", 50, 30_000), a_tenant("p/b", 45, 30_000))


def spot_of(*gpus: Gpu, policy: Policy = POLICY, **pods: dict[str, object]) -> HotSpot:
    """The only hot spot; `a` and `b` are pods of a Deployment on the first card."""
    workloads = [a_pod(f"p/{name}", gpus[0], **changes) for name, changes in pods.items()]
    (spot,) = hot_spots(a_snapshot(*gpus, workloads=workloads), policy)
    return spot


def a_hot_card(*tenants: object, **more: object) -> Gpu:
    return a_gpu("hot", 0, 95, 60_000, *(tenants or TWO), **more)  # type: ignore[arg-type]


def test_a_shared_card_with_an_idle_neighbour_can_be_cured() -> None:
    hot = a_hot_card(hot_for_seconds=600.0)
    spot = spot_of(hot, a_gpu("cold", 0, 5), a={}, b={})
    assert (spot.cause, spot.curable, spot.address) == (Cause.SHARED, True, "hot/0")
    assert (spot.since, spot.hot_for_seconds) == (NOON - timedelta(minutes=10), 600)
    assert [(t.workload, t.share.load_pct) for t in spot.tenants] == [("p/a", 50), ("p/b", 45)]
    assert spot.advice


def test_one_tenant_that_saturates_a_card_would_do_so_anywhere() -> None:
    tenants = (a_tenant("p/a", 92), a_tenant("p/b", 3))
    spot = spot_of(a_hot_card(*tenants), a_gpu("cold", 0, 5), a={}, b={})
    assert (spot.cause, spot.curable) == (Cause.ONE_TENANT, False)
    assert "p/a saturates it alone" in spot.reason
    assert "scale it out" in spot.advice


def test_protected_tenants_are_named_with_their_rules() -> None:
    spot = spot_of(
        a_hot_card(), a_gpu("cold", 0, 5), a={"priority": 2_000_000}, b={"evictable": False}
    )
    assert (spot.cause, spot.curable) == (Cause.ALL_PROTECTED, False)
    assert "p/a (critical-priority: " in spot.reason
    assert "p/b (not-evictable: " in spot.reason


def test_moving_what_may_move_must_be_enough() -> None:
    tenants = (a_tenant("p/a", 46), a_tenant("p/b", 46), a_tenant("p/c", 3))
    keep: dict[str, object] = {"evictable": False}
    spot = spot_of(a_hot_card(*tenants), a_gpu("cold", 0, 5), a=keep, b=keep, c={})
    assert (spot.cause, spot.curable) == (Cause.ALL_PROTECTED, False)
    assert "still be at 92 %" in spot.reason


NO_ROOM = [
    (a_gpu("cold", 0, 35), Cause.NO_IDLE_OF_MODEL),
    (a_gpu("cold", 0, 5, model="NVIDIA L4"), Cause.NO_IDLE_OF_MODEL),
    (a_gpu("cold", 0, None, state=GpuState.NO_UTIL), Cause.NO_IDLE_OF_MODEL),
    (a_gpu("cold", 0, 5, state=GpuState.STALE), Cause.NO_IDLE_OF_MODEL),
    (a_gpu("cold", 0, 5, 79_000), Cause.NO_MEMORY),
    (a_gpu("cold", 0, 5, 0, a_tenant("p/x"), slots=1), Cause.NO_SLOT),
]


@pytest.mark.parametrize(("other", "cause"), NO_ROOM)
def test_there_must_be_room_elsewhere(other: Gpu, cause: Cause) -> None:
    spot = spot_of(a_hot_card(), other, a={}, b={})
    assert (spot.cause, spot.curable) == (cause, False)
    assert spot.reason


def test_an_idle_card_that_would_become_hot_is_no_room() -> None:
    tenants = (a_tenant("p/a", 70), a_tenant("p/b", 25))
    spot = spot_of(a_hot_card(*tenants), a_gpu("cold", 0, 28), a={}, b={"evictable": False})
    assert spot.cause is Cause.NO_IDLE_OF_MODEL
    assert "become hot itself" in spot.reason


def test_without_an_inventory_a_cure_is_possible_but_not_sure() -> None:
    spot = spot_of(a_hot_card(), a_gpu("cold", 0, 5))
    assert (spot.cause, spot.curable) == (Cause.SHARED, None)
    assert "owner unknown: no Kubernetes inventory" in spot.reason


def test_unknown_memory_leaves_the_cure_open() -> None:
    spot = spot_of(a_hot_card(), a_gpu("cold", 0, 5, None, state=GpuState.NO_MEM), a={}, b={})
    assert (spot.cause, spot.curable) == (Cause.SHARED, None)
    assert "memory" in spot.reason


def test_a_card_without_a_known_tenant() -> None:
    (spot,) = hot_spots(a_snapshot(a_gpu("hot", 0, 95), a_gpu("cold", 0, 5)), POLICY)
    assert (spot.cause, spot.curable) == (Cause.NO_TENANT, None)


def test_a_card_that_was_hot_when_its_metrics_stopped() -> None:
    stale = a_hot_card(state=GpuState.STALE, age_seconds=420.0, hot_for_seconds=900.0)
    spot = spot_of(stale, a_gpu("cold", 0, 5))
    assert (spot.cause, spot.curable, spot.hot_for_seconds) == (Cause.STALE, None, None)
    assert "95 % 420s ago" in spot.reason


def test_instances_are_cured_by_instances_of_their_profile() -> None:
    hot = an_instance(1, "3g.40gb", 95, a_tenant("p/a", 50, 9_000), a_tenant("p/b", 45, 9_000))
    card = a_gpu("n1", 0, 50, mig=(hot, an_instance(2, "1g.10gb", 0)))
    pods = [a_pod("p/a", (card, 1)), a_pod("p/b", (card, 1))]
    (spot,) = hot_spots(a_snapshot(card, a_gpu("n2", 0, 0), workloads=pods), POLICY)
    assert (spot.address, spot.cause) == ("n1/0:1", Cause.NO_IDLE_OF_MODEL)
    free = a_gpu("n2", 0, 0, mig=(an_instance(5, "3g.40gb", 0),))
    (spot,) = hot_spots(a_snapshot(card, free, workloads=pods), POLICY)
    assert (spot.cause, spot.curable) == (Cause.SHARED, True)


def test_a_pinned_vm_leaves_the_pods_to_move() -> None:
    hot = a_gpu("hot", 0, 95, 60_000, a_tenant("p/a", 30, 5_000), a_tenant("vm/1"))
    pods = [a_pod("p/a", hot), a_vm("vm/1", hot, tags=("gpuctl-pinned",))]
    (spot,) = hot_spots(a_snapshot(hot, a_gpu("cold", 0, 5), workloads=pods), POLICY)
    assert (spot.cause, spot.curable) == (Cause.SHARED, True)


def test_spots_come_hottest_first_whatever_the_order_of_the_input() -> None:
    gpus = [a_gpu("b", 0, 95), a_gpu("a", 1, 95), a_gpu("c", 0, 99), a_gpu("d", 0, 10)]
    for order in (gpus, gpus[::-1]):
        spots = hot_spots(a_snapshot(*order), POLICY)
        assert [spot.address for spot in spots] == ["c/0", "a/1", "b/0"]


def test_streaks_of_another_mark_are_not_quoted() -> None:
    snapshot = a_snapshot(a_gpu("hot", 0, 95, hot_for_seconds=600.0))
    (spot,) = hot_spots(snapshot, Policy(hot_above=85))
    assert (spot.since, spot.hot_for_seconds) == (None, None)


TRIGGERS = [
    ([a_gpu("a", 0, 95), a_gpu("b", 0, 5)], True),
    ([a_gpu("a", 0, 95), a_gpu("b", 0, 50)], False),
    ([a_gpu("a", 0, 60), a_gpu("b", 0, 5)], False),
    ([a_gpu("a", 0, 95, window=a_window(93, 89, 96)), a_gpu("b", 0, 5)], False),
    ([a_gpu("a", 0, 95), a_gpu("b", 0, 5, window=None)], None),
    ([a_gpu("a", 0, 95, window=None), a_gpu("b", 0, 5, window=None)], None),
    ([], False),
]


@pytest.mark.parametrize(("gpus", "fires"), TRIGGERS)
def test_the_trigger(gpus: list[Gpu], fires: bool | None) -> None:
    assert trigger(a_snapshot(*gpus), POLICY).fires is fires


def test_the_trigger_names_both_sides() -> None:
    said = trigger(a_snapshot(a_gpu("a", 0, 95), a_gpu("b", 1, 5)), POLICY)
    assert (said.hot, said.idle, said.reason) == (("a/0",), ("b/1",), "1 hot and 1 idle")


def test_once_hot_it_is_cleared_only_well_under_the_mark() -> None:
    for window, was_hot, expected in [
        (a_window(95), False, True),
        (a_window(85), False, False),
        (a_window(85), True, True),
        (a_window(75, 70, 81), True, True),
        (a_window(75, 70, 79), True, False),
        (None, True, True),
        (None, False, None),
        (replace(a_window(10), samples=2), True, True),
    ]:
        assert stays_hot(window, POLICY, was_hot=was_hot) is expected
    low = Policy(hot_above=70)
    assert stays_hot(a_window(75), low, was_hot=True) is True
    assert stays_hot(a_window(65), low, was_hot=True) is False

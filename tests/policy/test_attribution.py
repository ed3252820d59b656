"""Who causes which part of a card's load: measured, shared out, or unknown."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuctl.model.gpu import Gpu, GpuState
from gpuctl.model.policy import Policy
from gpuctl.policy.attribution import DeviceLoad, attributed, device_loads
from tests.policy.building import (
    a_gpu,
    a_pod,
    a_snapshot,
    a_tenant,
    a_vm,
    a_window,
    an_instance,
)

POLICY = Policy()


def loads_of(device: DeviceLoad) -> dict[str, float | None]:
    return {share.workload: share.load_pct for share in device.shares}


def test_a_measured_share_stands_and_the_rest_goes_to_the_unmeasured() -> None:
    gpu = a_gpu("n1", 0, 90, 60_000, a_tenant("p/a", 30, 4_000), a_tenant("vm/1"))
    (device,) = device_loads(a_snapshot(gpu))
    assert loads_of(device) == {"p/a": 30, "vm/1": 60}
    measured, estimated = device.shares
    assert (measured.load_measured, measured.load_error_pct) == (True, 0)
    # The only one without a measurement causes all that is left: no guess, yet not measured.
    assert (estimated.load_measured, estimated.load_error_pct) == (False, 0)
    assert (measured.memory_mib, estimated.memory_mib) == (4_000, 56_000)
    assert device.unattributed_pct == 0


def test_an_equal_split_says_how_wrong_it_may_be() -> None:
    gpu = a_gpu("n1", 0, 90, 60_000, a_tenant("p/a"), a_tenant("p/b"), a_tenant("p/c"))
    (device,) = device_loads(a_snapshot(gpu))
    for share in device.shares:
        assert share.load_pct == pytest.approx(30)
        assert share.load_error_pct == pytest.approx(60)  # it may be the whole 90
        assert share.memory_mib == pytest.approx(20_000)
        assert not share.load_measured


def test_requested_slots_weigh_the_split_when_all_are_known() -> None:
    gpu = a_gpu("n1", 0, 80, 0, a_tenant("p/a"), a_tenant("p/b"))
    pods = [a_pod("p/a", gpu, requested_slots=3), a_pod("p/b", gpu, requested_slots=1)]
    assert loads_of(device_loads(a_snapshot(gpu, workloads=pods))[0]) == {"p/a": 60, "p/b": 20}
    half_known = [pods[0], replace(pods[1], requested_slots=None)]
    assert loads_of(device_loads(a_snapshot(gpu, workloads=half_known))[0]) == {
        "p/a": 40,
        "p/b": 40,
    }


def test_measurements_of_now_are_parts_of_the_window() -> None:
    tenants = (a_tenant("p/a", 20), a_tenant("p/b"))
    gpu = a_gpu("n1", 0, 40, 0, *tenants, window=a_window(80))
    (device,) = device_loads(a_snapshot(gpu))
    assert (device.load_pct, device.basis) == (80, "window")
    assert loads_of(device) == {"p/a": 40, "p/b": 40}
    (device,) = device_loads(a_snapshot(replace(gpu, window=None)))
    assert (device.load_pct, device.basis) == (40, "now")
    assert loads_of(device) == {"p/a": 20, "p/b": 20}


def test_load_of_strangers_stays_unattributed() -> None:
    (device,) = device_loads(a_snapshot(a_gpu("n1", 0, 90, 0, a_tenant("p/a", 30))))
    assert loads_of(device) == {"p/a": 30}
    assert device.unattributed_pct == 60


@pytest.mark.parametrize(
    "changes",
    [
        {"state": GpuState.STALE},
        {"state": GpuState.LOST},
        {"state": GpuState.NO_UTIL, "utilization_pct": None},
    ],
)
def test_an_unknown_card_gives_unknown_loads(changes: dict[str, Any]) -> None:
    gpu = replace(a_gpu("n1", 0, 90, 0, a_tenant("p/a", 30), a_tenant("p/b")), **changes)
    (device,) = device_loads(a_snapshot(gpu))
    assert loads_of(device) == {"p/a": None, "p/b": None}
    one, _ = attributed(a_snapshot(gpu), POLICY)
    assert (one.load_pct, one.load_error_pct, one.load_basis) == (None, None, None)


def test_containers_of_one_pod_are_one_tenant() -> None:
    both = (a_tenant("p/a", 10, 100, container="x"), a_tenant("p/a", 15, 200, container="y"))
    (device,) = device_loads(a_snapshot(a_gpu("n1", 0, 60, 1_000, *both, a_tenant("p/b"))))
    assert loads_of(device) == {"p/a": 25, "p/b": 35}
    assert device.shares[0].memory_mib == 300
    half = (both[0], replace(both[1], measured=False, utilization_pct=None))
    (device,) = device_loads(a_snapshot(a_gpu("n1", 0, 60, 1_000, *half)))
    assert loads_of(device) == {"p/a": 60}
    assert not device.shares[0].load_measured


def test_a_mig_instance_is_a_device_of_its_own() -> None:
    parts = (
        an_instance(1, "3g.40gb", 80, a_tenant("p/a"), a_tenant("p/b")),
        an_instance(2, "1g.10gb", 10, a_tenant("p/c")),
    )
    gpu = a_gpu("n1", 0, 40, 0, mig=parts)
    card, first, second = device_loads(a_snapshot(gpu))
    assert (card.load_pct, card.shares) == (None, ())
    assert loads_of(first) == {"p/a": 40, "p/b": 40}
    assert loads_of(second) == {"p/c": 10}
    assert [d.profile for d in (card, first, second)] == [None, "3g.40gb", "1g.10gb"]
    on_it = attributed(a_snapshot(gpu), POLICY)[0].placements
    assert [(place.uuid, place.mig_id) for place in on_it] == [("GPU-n1-0", 1)]


def test_the_inventory_says_where_a_workload_is() -> None:
    here, there = a_gpu("n1", 0, 50, 0, a_tenant("p/a")), a_gpu("n1", 1, 30, 0)
    # Under time-slicing an exporter names one arbitrary pod of a card.
    loads = device_loads(a_snapshot(here, there, workloads=[a_pod("p/a", there)]))
    assert [loads_of(device) for device in loads] == [{}, {"p/a": 30}]
    nowhere = a_pod("p/a")
    loads = device_loads(a_snapshot(here, there, workloads=[nowhere]))
    assert [loads_of(device) for device in loads] == [{"p/a": 50}, {}]


def test_an_inventory_may_name_a_card_by_its_index() -> None:
    gpu = a_gpu("n1", 0, 50, 0)
    vm = a_vm("vm/7", gpu)
    vm = replace(vm, placements=(replace(vm.placements[0], uuid=""),))
    assert loads_of(device_loads(a_snapshot(gpu, workloads=[vm]))[0]) == {"vm/7": 50}


def test_without_an_inventory_only_the_labels_are_known() -> None:
    gpu = a_gpu("n1", 0, 50, 9_000, a_tenant("p/a"), a_tenant("vm/1"))
    pod, vm = attributed(a_snapshot(gpu), POLICY)
    assert (pod.id, pod.kind, pod.owner, pod.priority) == ("p/a", "pod", None, None)
    assert (pod.workload_class, pod.load_pct, pod.memory_mib) == ("unknown", 25, 4_500)
    assert (vm.id, vm.kind, vm.load_basis) == ("vm/1", "vm", "window")


def test_a_workload_on_two_cards_has_their_mean() -> None:
    gpus = [a_gpu("n1", 0, 80, 100, a_tenant("p/a")), a_gpu("n1", 1, 60, 300, a_tenant("p/a"))]
    (one,) = attributed(a_snapshot(*gpus), POLICY)
    assert (one.load_pct, one.memory_mib, len(one.placements)) == (70, 300, 2)
    lost = replace(gpus[1], state=GpuState.LOST)
    assert attributed(a_snapshot(gpus[0], lost), POLICY)[0].load_pct is None


def test_the_policy_gives_the_class() -> None:
    gpu = a_gpu()
    pods = [a_pod("p/a", gpu), a_pod("p/b", gpu, labels={"app": "train"}), a_vm("vm/1", gpu)]
    classes = {w.id: w.workload_class for w in attributed(a_snapshot(gpu, workloads=pods), POLICY)}
    assert classes == {"p/a": "inference", "p/b": "training", "vm/1": "training"}


figures = st.floats(0, 100, allow_nan=False)


@st.composite
def cards(draw: st.DrawFn) -> Gpu:
    tenants = draw(
        st.lists(
            st.builds(
                a_tenant,
                st.sampled_from(["p/a", "p/b", "p/c", "vm/1"]),
                st.none() | figures,
                st.none() | st.floats(0, 90_000),
            ),
            max_size=6,
        )
    )
    window = draw(st.none() | st.builds(a_window, figures))
    return a_gpu("n1", 0, draw(figures), draw(st.floats(0, 80_000)), *tenants, window=window)


@given(cards())
def test_tenants_never_add_up_to_more_than_their_card(gpu: Gpu) -> None:
    (device,) = device_loads(a_snapshot(gpu))
    assert device.load_pct is not None
    loads = [share.load_pct or 0.0 for share in device.shares]
    assert all(load >= 0 for load in loads)
    assert sum(loads) <= device.load_pct + 1e-9
    assert sum(loads) + (device.unattributed_pct or 0) == pytest.approx(device.load_pct)
    assert sum(share.memory_mib or 0.0 for share in device.shares) <= 80_000 + 1e-6


@given(cards())
def test_attribution_is_settled_by_itself(gpu: Gpu) -> None:
    """A snapshot that carries attributed workloads gives them again, whatever their order."""
    once = attributed(a_snapshot(gpu), POLICY)
    twice = attributed(a_snapshot(gpu, workloads=once[::-1]), POLICY)
    for before, after in zip(once, twice, strict=True):
        assert after.id == before.id
        assert after.load_measured == before.load_measured
        assert after.load_pct == pytest.approx(before.load_pct)
        assert after.load_error_pct == pytest.approx(before.load_error_pct)

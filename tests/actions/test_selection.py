"""Which pods are chosen, in which order, and which a rule keeps."""

from __future__ import annotations

from typing import Any

import pytest

from gpuctl.actions.selection import (
    OVERRIDES,
    EvictionRequest,
    PodFacts,
    find_target,
    select,
)
from gpuctl.errors import UsageError
from gpuctl.model.gpu import Gpu, GpuState
from gpuctl.model.policy import Policy
from gpuctl.model.snapshot import Snapshot, Source
from gpuctl.model.workload import Placement, Workload
from gpuctl.policy.selectors import parse_selector
from tests.actions.playing import NOON

POLICY = Policy()


def a_gpu(node: str, index: int, load: float) -> Gpu:
    return Gpu(
        node=node,
        gpu=index,
        uuid=f"GPU-{node}-{index}",
        state=GpuState.OK,
        utilization_pct=load,
        memory_used_mib=10_000,
        memory_total_mib=80_000,
    )


def a_pod(name: str, node: str = "a", gpu: int = 0, **more: Any) -> Workload:
    facts: dict[str, Any] = {"owner": "Deployment/chat", "priority": 0, "labels": {"app": "chat"}}
    return Workload(
        id=name if "/" in name else f"prod/{name}",
        kind="pod",
        placements=(Placement(node=node, gpu=gpu, uuid=f"GPU-{node}-{gpu}"),),
        **(facts | more),
    )


def a_snapshot(*workloads: Workload) -> Snapshot:
    return Snapshot(
        taken_at=NOON,
        source=Source(kind="prometheus", location="test"),
        gpus=(a_gpu("a", 0, 96), a_gpu("a", 1, 20), a_gpu("b", 0, 10)),
        inventories=("kubernetes",),
        workloads=workloads,
    )


def chosen(snapshot: Snapshot, facts: dict[str, PodFacts] | None = None, **asked: Any) -> list[str]:
    found = select(EvictionRequest(**asked), snapshot, POLICY, facts or {})
    return [one.workload.id for one in found.chosen]


def refused(
    snapshot: Snapshot, facts: dict[str, PodFacts] | None = None, **asked: Any
) -> list[str]:
    found = select(EvictionRequest(**asked), snapshot, POLICY, facts or {})
    return [one.verdict.rule for one in found.refused]


def test_conditions_must_all_hold() -> None:
    snapshot = a_snapshot(
        a_pod("x"),
        a_pod("y", gpu=1),
        a_pod("z", labels={"app": "other"}),
        a_pod("test/w"),
        a_pod("v", node="b"),
    )
    assert chosen(snapshot, node="a") == ["prod/x", "prod/z", "test/w", "prod/y"]
    assert chosen(snapshot, gpu="a/0") == ["prod/x", "prod/z", "test/w"]
    assert chosen(snapshot, gpu="a/0", namespace="prod") == ["prod/x", "prod/z"]
    assert chosen(snapshot, node="a", selector=parse_selector("app=other")) == ["prod/z"]


def test_the_least_important_goes_first_then_the_heaviest() -> None:
    snapshot = a_snapshot(
        a_pod("low-light", gpu=1, priority=1), a_pod("high", priority=9), a_pod("low", priority=1)
    )
    assert chosen(snapshot, node="a") == ["prod/low", "prod/low-light", "prod/high"]
    assert chosen(snapshot, node="a", most=1) == ["prod/low"]


def test_named_pods_keep_their_order_and_count_once() -> None:
    snapshot = a_snapshot(a_pod("x"), a_pod("y"))
    assert chosen(snapshot, pods=("y", "prod/x", "y")) == ["prod/y", "prod/x"]


def test_an_unknown_name_is_refused_and_an_ambiguous_one_asked_back() -> None:
    snapshot = a_snapshot(a_pod("x"), a_pod("test/x"))
    assert refused(snapshot, pods=("nobody",)) == ["no-such-pod"]
    assert chosen(snapshot, pods=("x",), namespace="test") == ["test/x"]
    with pytest.raises(UsageError):
        chosen(snapshot, pods=("x",))


PROTECTED = {
    "protected-namespace": a_pod("kube-system/x"),
    "critical-priority": a_pod("x", priority=1_000_000),
    "not-evictable": a_pod("x", evictable=False),
    "node-bound": a_pod("x", owner="DaemonSet/d"),
    "bare-pod": a_pod("x", owner=""),
    "stays-by-default": a_pod("x", owner="StatefulSet/s"),
    "emptydir": a_pod("x"),
}
DISKS = {"prod/x": PodFacts("uid", "owner", ("scratch",))}


@pytest.mark.parametrize("rule", OVERRIDES)
def test_each_rule_is_overridden_by_its_own_option_and_no_other(rule: str) -> None:
    pod = PROTECTED[rule]
    snapshot = a_snapshot(pod)
    facts = DISKS if rule == "emptydir" else {}
    others = frozenset(OVERRIDES) - {rule}
    assert refused(snapshot, facts, pods=(pod.id,), overrides=others) == [rule]
    assert chosen(snapshot, facts, pods=(pod.id,), overrides=frozenset({rule})) == [pod.id]


def test_a_pod_that_only_the_metrics_name_is_not_touched() -> None:
    snapshot = a_snapshot(a_pod("x", owner=None, labels={}, priority=None))
    assert refused(snapshot, node="a", overrides=frozenset(OVERRIDES)) == ["owner-unknown"]


def test_what_is_protected_does_not_matter_once_max_is_reached() -> None:
    snapshot = a_snapshot(a_pod("x"), a_pod("keep", evictable=False), a_pod("y"))
    found = select(EvictionRequest(node="a", most=1), snapshot, POLICY, {})
    assert found.refused == ()
    assert any("prod/keep" in note for note in found.notes)
    assert any("1 more" in note for note in found.notes)
    found = select(EvictionRequest(node="a", most=3), snapshot, POLICY, {})
    assert [one.workload.id for one in found.refused] == ["prod/keep"]


def test_vms_are_left_and_mentioned() -> None:
    vm = Workload(id="vm/7", kind="vm", placements=a_pod("x").placements)
    found = select(EvictionRequest(node="a"), a_snapshot(vm, a_pod("x")), POLICY, {})
    assert [one.workload.id for one in found.chosen] == ["prod/x"]
    assert any("vm/7" in note for note in found.notes)


def test_an_unknown_target_is_a_usage_error_with_the_nearest_name() -> None:
    snapshot = a_snapshot(a_pod("x"))
    for asked in ({"gpu": "a/7"}, {"node": "aa"}):
        with pytest.raises(UsageError):
            find_target(EvictionRequest(**asked), snapshot)  # type: ignore[arg-type]
    card = find_target(EvictionRequest(gpu="a/1"), snapshot)
    assert card is not None
    assert card.utilization_pct == 20

"""Classes by selector, and who may not be moved, by which rule."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from gpuctl.errors import ConfigError
from gpuctl.model.policy import Classes, ClassSelector, Policy
from gpuctl.model.workload import Workload
from gpuctl.policy.classes import protection, workload_class
from gpuctl.policy.selectors import parse_selector
from gpuctl.policy.verdict import Verdict, decisive
from tests.policy.building import a_pod, a_vm

POLICY = Policy()

SELECTED = [
    ("app=train", {"app": "train"}, True),
    ("app==train", {"app": "train"}, True),
    ("app = train", {"app": "serve"}, False),
    ("app!=train", {"app": "serve"}, True),
    ("app!=train", {}, True),
    ("app in (train, tune)", {"app": "tune"}, True),
    ("app in (train,tune)", {}, False),
    ("app notin (train)", {}, True),
    ("app notin(train)", {"app": "train"}, False),
    ("gpu", {"gpu": ""}, True),
    ("gpu", {}, False),
    ("!gpu", {}, True),
    ("! gpu", {"gpu": "x"}, False),
    ("app=", {"app": ""}, True),
    ("example.com/tier in (a), app, !debug", {"example.com/tier": "a", "app": "b"}, True),
    ("example.com/tier in (a), app, !debug", {"example.com/tier": "a"}, False),
    ("in in (in)", {"in": "in"}, True),
]


@pytest.mark.parametrize(("text", "labels", "expected"), SELECTED)
def test_selectors_as_kubernetes_reads_them(
    text: str, labels: dict[str, str], expected: bool
) -> None:
    assert parse_selector(text).matches(labels) is expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "empty"),
        ("app=train,", "after the last comma"),
        (",app", "no condition at ',app'"),
        ("app in train", "expected a comma before 'in train'"),
        ("app in (a b)", "'a b' can't be the value of a label"),
        ("app=a b", "'a b' can't be"),
        ("app>1", "expected a comma before '>1'"),
        ("app===x", "expected a comma before '=x'"),
        ("-app", "no condition at '-app'"),
    ],
)
def test_a_bad_selector_names_its_bad_part(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        parse_selector(text)


def test_the_inventory_outranks_the_selectors() -> None:
    pod = a_pod("p/a", workload_class="training")
    assert workload_class(pod, POLICY) == "training"


def test_both_selectors_matching_means_training() -> None:
    pod = a_pod("p/a", labels={"app": "train", "tier": "inference"})
    assert workload_class(pod, POLICY) == "training"


def test_labels_that_nobody_read_match_nothing() -> None:
    policy = Policy(classes=Classes(training=ClassSelector(pods="!tier")))
    unread = Workload(id="p/a", kind="pod")
    assert workload_class(unread, policy) == "unknown"
    assert workload_class(replace(unread, owner="Deployment/a"), policy) == "training"


def test_vms_are_classed_by_tags_alone() -> None:
    policy = Policy(classes=Classes(inference=ClassSelector(pods="!x", vm_tags=("serve",))))
    assert workload_class(a_vm("vm/1", tags=("serve",)), policy) == "inference"
    assert workload_class(a_vm("vm/1", tags=()), policy) == "unknown"


def test_a_bad_selector_of_the_policy_names_its_key() -> None:
    policy = Policy(classes=Classes(inference=ClassSelector(pods="a b")))
    with pytest.raises(ConfigError, match=r"policy\.classes\.inference\.pods"):
        workload_class(a_pod("p/a"), policy)


PROTECTED: list[tuple[Workload, str, bool | None]] = [
    (a_pod("p/a"), "movable", True),
    (a_pod("kube-system/a"), "protected-namespace", False),
    (a_pod("p/a", priority=1_000_000), "critical-priority", False),
    (a_pod("p/a", priority=999_999), "movable", True),
    (a_pod("p/a", evictable=False), "not-evictable", False),
    (a_pod("p/a", owner="DaemonSet/x"), "node-bound", False),
    (a_pod("p/a", owner="Node/n1"), "node-bound", False),
    (a_pod("p/a", owner=""), "bare-pod", False),
    (a_pod("p/a", owner="", evictable=True), "bare-pod", False),
    (a_pod("p/a", labels={"app": "train"}), "stays-by-default", False),
    (a_pod("p/a", labels={"app": "train"}, evictable=True), "movable", True),
    (a_pod("p/a", owner="Job/x"), "stays-by-default", False),
    (a_pod("p/a", owner="PyTorchJob/x"), "stays-by-default", False),
    (a_pod("p/a", owner="StatefulSet/x"), "stays-by-default", False),
    (a_pod("p/a", owner="StatefulSet/x", evictable=True), "movable", True),
    (a_vm("vm/1"), "movable", True),
    (a_vm("vm/1", tags=("training", "gpuctl-pinned")), "pinned", False),
    (a_vm("vm/1", live_migratable=False), "not-live-migratable", False),
    (a_vm("vm/1", live_migratable=None), "not-live-migratable", None),
    (Workload(id="p/a", kind="pod"), "owner-unknown", None),
    (a_pod("p/a", priority=None), "critical-priority", None),
    (Workload(id="kube-system/a", kind="pod"), "protected-namespace", False),
    (Workload(id="p/a", kind="job"), "batch-job", False),
]


@pytest.mark.parametrize(("workload", "rule", "allowed"), PROTECTED)
def test_protection(workload: Workload, rule: str, allowed: bool | None) -> None:
    verdict = protection(workload, POLICY)
    assert (verdict.rule, verdict.allowed) == (rule, allowed)
    assert verdict.reason


def test_a_missing_inventory_is_named() -> None:
    verdict = protection(Workload(id="p/a", kind="pod"), POLICY)
    assert verdict.is_unknown
    assert not verdict.is_refusal
    assert verdict.reason == "owner unknown: no Kubernetes inventory"


def test_a_refusal_outweighs_what_is_unknown() -> None:
    yes, no, unknown = (Verdict(allowed, "r", "") for allowed in (True, False, None))
    assert decisive([yes, unknown, no]) is no
    assert decisive([unknown, yes]) is unknown
    assert decisive([yes, yes]) is None


def test_a_vm_that_is_a_kubernetes_node_is_drained_not_moved() -> None:
    vm = Workload(
        id="vm/101",
        kind="vm",
        labels={"gpuctl.io/kubernetes-node": "gpu-node-1"},
        live_migratable=True,
    )
    verdict = protection(vm, Policy())
    assert (verdict.allowed, verdict.rule) == (False, "kubernetes-node")
    assert "gpu-node-1" in verdict.reason

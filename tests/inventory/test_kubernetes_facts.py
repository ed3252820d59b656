"""Requests, offers, shared slots, selectors and annotations of single objects."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuctl.clients.kubernetes.meta import LabelSelector
from gpuctl.clients.kubernetes.wire import Node, Pod
from gpuctl.inventory.kubernetes_facts import (
    evictable,
    gpu_requests,
    is_mirror,
    offered,
    selects,
    slots_per_gpu,
)
from tests.fakes.kubernetes_objects import PodSpec, node_json
from tests.fakes.kubernetes_recordings import recorded
from tests.fakes.kubernetes_selection import matches_selector

GPU, SHARED, MIG = "nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb.me"


def pod(spec: dict[str, Any], **metadata: Any) -> Pod:
    return msgspec.convert({"metadata": metadata, "spec": spec}, Pod)


def node(allocatable: dict[str, int], **labels: str) -> Node:
    named = {f"nvidia.com/gpu.{key}": value for key, value in labels.items()}
    return msgspec.convert(node_json("n", allocatable, labels=named), Node)


def asks(count: object, resource: str = GPU, kind: str = "requests", **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {kind: {resource: count, "cpu": "4"}}, **more}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [asks("2")]}, {GPU: 2}),
        ({"containers": [asks(2)]}, {GPU: 2}),
        ({"containers": [asks("1", kind="limits")]}, {GPU: 1}),
        ({"containers": [asks("1"), asks("2"), asks("1", MIG)]}, {GPU: 3, MIG: 1}),
        ({"containers": [asks("1")], "initContainers": [asks("4")]}, {GPU: 4}),
        ({"containers": [asks("4")], "initContainers": [asks("1")]}, {GPU: 4}),
        (
            {"containers": [asks("1")], "initContainers": [asks("1", restartPolicy="Always")]},
            {GPU: 2},
        ),
        ({"containers": [asks("3", SHARED)]}, {SHARED: 3}),
        ({"containers": [asks("0")]}, {}),
        ({"containers": [asks("half")]}, {}),
        ({"containers": [{"name": "c"}]}, {}),
        ({"containers": None}, {}),
        ({"containers": [asks("1", "amd.com/gpu")]}, {}),
    ],
)
def test_requests(spec: dict[str, Any], expected: dict[str, int]) -> None:
    assert gpu_requests(pod(spec)) == expected


def test_offers_of_the_recorded_node() -> None:
    found = msgspec.convert(recorded("node")["response"]["body"], Node)
    assert offered(found) == {GPU: 4}
    assert slots_per_gpu(found, 4) == 1
    assert found.is_ready
    assert found.is_schedulable


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (node({GPU: 4}), 1),
        (node({SHARED: 24}), 6),
        (node({SHARED: 24}, count="4", replicas="6"), 6),
        (node({GPU: 24}, count="4"), 6),
        (node({GPU: 4}, replicas="0"), 1),
        (node({SHARED: 23}), None),
        (node({}), None),
        (node({MIG: 7}), None),
    ],
)
def test_slots_of_a_card(found: Node, expected: int | None) -> None:
    assert slots_per_gpu(found, 4) == expected


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, None),
        ({"gpuctl.io/evictable": "true"}, True),
        ({"gpuctl.io/evictable": "False"}, False),
        ({"gpuctl.io/evictable": "nope"}, False),
        ({"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}, False),
        ({"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}, None),
        (
            {
                "gpuctl.io/evictable": "true",
                "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
            },
            True,
        ),
    ],
)
def test_what_annotations_allow(annotations: dict[str, str], expected: bool | None) -> None:
    assert evictable(pod({}, annotations=annotations)) is expected


def test_mirror_pods() -> None:
    assert is_mirror(pod({}, annotations={"kubernetes.io/config.mirror": "x"}))
    assert is_mirror(msgspec.convert(PodSpec("p", owner=("Node", "n")).json(), Pod))
    assert not is_mirror(msgspec.convert(PodSpec("p").json(), Pod))


LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"), max_size=3)
REQUIREMENTS = st.fixed_dictionaries(
    {
        "key": st.sampled_from("abc"),
        "operator": st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
        "values": st.lists(st.sampled_from("xyz"), max_size=2),
    }
)


@given(labels=LABELS, wanted=LABELS, expressions=st.lists(REQUIREMENTS, max_size=2))
def test_selectors_are_those_of_the_api_server(
    labels: dict[str, str], wanted: dict[str, str], expressions: list[dict[str, Any]]
) -> None:
    selector = {"matchLabels": wanted, "matchExpressions": expressions}
    decoded = msgspec.json.decode(json.dumps(selector), type=LabelSelector)
    assert selects(decoded, labels) == matches_selector(selector, labels)


def test_no_selector_selects_nothing_and_an_unknown_operator_is_no_loophole() -> None:
    assert not selects(None, {})
    assert selects(LabelSelector(), {"a": "x"})
    future = msgspec.convert({"matchExpressions": [{"key": "a", "operator": "Gt"}]}, LabelSelector)
    assert selects(future, {})

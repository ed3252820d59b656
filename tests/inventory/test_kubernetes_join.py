"""Pods joined to GPUs by the exporter's labels; contradictions are warnings, nothing is guessed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuctl.clients.kubernetes.wire import Budget, Node, Pod
from gpuctl.inventory.kubernetes import ClusterInventory, Owner
from gpuctl.metrics.sim_source import SimSource
from gpuctl.metrics.source import Want
from gpuctl.model.gpu import Gpu, GpuState, MigInstance, Tenant
from gpuctl.model.policy import Policy
from gpuctl.model.snapshot import Snapshot, Source
from gpuctl.model.workload import Placement, Workload
from gpuctl.sim.world import World
from tests.fakes.kubernetes import FakeKubernetes
from tests.fakes.kubernetes_answers import BY_KIND
from tests.fakes.kubernetes_objects import PodSpec, budget_json, node_json

NOON = datetime(2025, 3, 1, 12, tzinfo=UTC)
GPU, SHARED, MIG = "nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb"


def a_gpu(node: str, gpu: int, *pods: str, **more: Any) -> Gpu:
    values: dict[str, Any] = {
        "state": GpuState.OK,
        "utilization_pct": 50.0,
        "memory_used_mib": 1.0,
        "memory_total_mib": 2.0,
        "tenants": tuple(Tenant(workload=pod) for pod in pods),
    }
    return Gpu(node=node, gpu=gpu, uuid=f"GPU-{node}-{gpu}", **(values | more))


def an_instance(id_: int, *pods: str) -> MigInstance:
    return MigInstance(
        id=id_,
        profile="1g.10gb",
        compute_slices=1,
        utilization_pct=1.0,
        memory_used_mib=1.0,
        memory_total_mib=2.0,
        tenants=tuple(Tenant(workload=pod) for pod in pods),
    )


def a_snapshot(*gpus: Gpu, **more: Any) -> Snapshot:
    source = Source(kind="prometheus", location="http://p")
    return Snapshot(taken_at=NOON, source=source, gpus=gpus, **more)


def an_inventory(
    *pods: PodSpec, nodes: dict[str, dict[str, int]] | None = None, **more: Any
) -> ClusterInventory:
    """As the fake cluster's API would tell it."""
    fake = FakeKubernetes(NOON)
    for pod in pods:
        fake.state.add_pod(pod)
    made = [msgspec.convert(pod, Pod) for pod in fake.state.all(BY_KIND["Pod"])]
    owners = {
        one["metadata"]["uid"]: msgspec.convert(one, Pod).metadata.controller
        for one in fake.state.all(BY_KIND["ReplicaSet"])
    }
    offers = {"a": {GPU: 4}, "b": {GPU: 4}} if nodes is None else nodes
    return ClusterInventory(
        server="https://api",
        nodes={n: msgspec.convert(node_json(n, offer), Node) for n, offer in offers.items()},
        pods={pod.id: pod for pod in made},
        replica_owners={uid: owner for uid, owner in owners.items() if owner is not None},
        **more,
    )


def the_workload(snapshot: Snapshot, id_: str) -> Workload:
    (found,) = [one for one in snapshot.workloads if one.id == id_]
    return found


def test_a_pod_is_on_the_gpu_whose_labels_name_it() -> None:
    spec = PodSpec(
        "chat-5d8-x",
        node="a",
        labels={"tier": "inference"},
        owner=("ReplicaSet", "chat-5d8"),
        priority=7,
        annotations={"gpuctl.io/evictable": "true"},
    )
    joined = an_inventory(spec).joined(a_snapshot(a_gpu("a", 2, "prod/chat-5d8-x"), a_gpu("b", 0)))
    found = the_workload(joined, "prod/chat-5d8-x")
    assert found.placements == (Placement(node="a", gpu=2, uuid="GPU-a-2"),)
    assert (found.owner, found.priority, found.evictable) == ("Deployment/chat", 7, True)
    assert found.labels == {"tier": "inference"}
    assert joined.inventories == ("kubernetes",)
    assert joined.warnings == ()


@pytest.mark.parametrize(
    ("owner", "expected"),
    [
        (None, ""),
        (("Job", "train"), "Job/train"),
        (("StatefulSet", "db"), "StatefulSet/db"),
        (("DaemonSet", "ds"), "DaemonSet/ds"),
        (("Node", "a"), "Node/a"),
        (("ReplicaSet", "lonely"), "ReplicaSet/lonely"),
        (("ReplicaSet", "chat-5d8"), "Deployment/chat"),
        (("PyTorchJob", "x"), "PyTorchJob/x"),
    ],
)
def test_owners(owner: tuple[str, str] | None, expected: str) -> None:
    inventory = an_inventory(PodSpec("p", node="a", owner=owner))
    joined = inventory.joined(a_snapshot(a_gpu("a", 0, "prod/p")))
    assert the_workload(joined, "prod/p").owner == expected


def test_mig_instances_and_several_cards() -> None:
    inventory = an_inventory(
        PodSpec("small", node="a", requests={MIG: 1}), PodSpec("big", node="b", requests={GPU: 2})
    )
    joined = inventory.joined(
        a_snapshot(
            a_gpu("a", 0, mig=(an_instance(9, "prod/small"), an_instance(11))),
            a_gpu("b", 0, "prod/big"),
            a_gpu("b", 1, "prod/big"),
        )
    )
    small, big = the_workload(joined, "prod/small"), the_workload(joined, "prod/big")
    assert small.placements == (Placement(node="a", gpu=0, uuid="GPU-a-0", mig_id=9),)
    assert [place.gpu for place in big.placements] == [0, 1]
    assert joined.warnings == ()


def test_a_pod_that_no_label_names_is_somewhere_on_its_node() -> None:
    inventory = an_inventory(PodSpec("p", node="a", requests={GPU: 2}))
    joined = inventory.joined(a_snapshot(a_gpu("a", 0), a_gpu("b", 0)))
    found = the_workload(joined, "prod/p")
    assert found.placements == (Placement(node="a", gpu=None, uuid=""),) * 2
    (warning,) = joined.warnings
    assert "1 pod with GPU requests is on no GPU's labels" in warning
    assert "prod/p" in warning


def test_a_pod_that_is_just_starting_or_waits_is_no_warning() -> None:
    inventory = an_inventory(
        PodSpec("new", node="a", phase="Pending"), PodSpec("waiting", node=None)
    )
    joined = inventory.joined(a_snapshot(a_gpu("a", 0), a_gpu("b", 0)))
    assert joined.warnings == ()
    assert the_workload(joined, "prod/waiting").placements == ()


def test_a_tenant_that_kubernetes_does_not_know_is_a_warning_not_a_workload() -> None:
    gpus = (a_gpu("a", 0, "prod/ghost"), a_gpu("b", 0))
    joined = an_inventory().joined(a_snapshot(*gpus))
    assert joined.workloads == ()
    (warning,) = joined.warnings
    assert "1 pod on GPUs is unknown to Kubernetes at https://api, or ended: prod/ghost" in warning


def test_vms_and_batch_jobs_are_no_concern_of_kubernetes() -> None:
    others = (Tenant(workload="vm/104", kind="vm"), Tenant(workload="4711", kind="job"))
    joined = an_inventory().joined(a_snapshot(a_gpu("a", 0, tenants=others), a_gpu("b", 0)))
    assert joined.warnings == ()
    assert joined.workloads == ()


def test_labels_of_a_predecessor_on_another_node_do_not_count() -> None:
    inventory = an_inventory(PodSpec("db-0", node="b", owner=("StatefulSet", "db")))
    joined = inventory.joined(a_snapshot(a_gpu("a", 0, "prod/db-0"), a_gpu("b", 0)))
    assert the_workload(joined, "prod/db-0").placements == (Placement(node="b", gpu=None, uuid=""),)
    assert any(
        "on another node by Kubernetes than by the GPUs' labels" in w for w in joined.warnings
    )


def test_nodes_by_other_names_are_no_contradiction() -> None:
    inventory = an_inventory(PodSpec("p", node="a"), nodes={"a": {GPU: 1}})
    joined = inventory.joined(a_snapshot(a_gpu("a.example.com", 0, "prod/p")))
    assert the_workload(joined, "prod/p").placements[0].node == "a.example.com"
    assert not any("another node" in warning for warning in joined.warnings)


def test_gpu_nodes_without_metrics_are_named() -> None:
    inventory = an_inventory(PodSpec("p", node="b"), nodes={"a": {GPU: 4}, "b": {GPU: 4}, "c": {}})
    joined = inventory.joined(a_snapshot(a_gpu("a", 0)))
    assert joined.warnings == ("1 node offers GPUs in Kubernetes and has no GPU metrics: b",)


def test_slots_and_requested_slots_of_shared_cards() -> None:
    inventory = an_inventory(
        PodSpec("p", node="a", requests={SHARED: 2}), nodes={"a": {SHARED: 12}, "b": {GPU: 2}}
    )
    gpus = (
        a_gpu("a", 0, "prod/p"),
        a_gpu("a", 1),
        a_gpu("b", 0),
        a_gpu("b", 1),
        a_gpu("x", 0),
        a_gpu("a", 2, slots=3),
    )
    joined = inventory.joined(a_snapshot(*gpus))
    assert [gpu.slots for gpu in joined.gpus] == [4, 4, 1, 1, None, 3]
    assert the_workload(joined, "prod/p").requested_slots == 2


def test_measured_memory_is_taken_over_and_other_inventories_stay() -> None:
    tenant = Tenant(workload="prod/p", memory_used_mib=700.0, measured=True)
    vm = Workload(id="vm/1", kind="vm")
    joined = an_inventory(PodSpec("p", node="a")).joined(
        a_snapshot(
            a_gpu("a", 0, tenants=(tenant,)),
            a_gpu("b", 0),
            workloads=(vm,),
            inventories=("proxmox",),
            warnings=("old",),
        )
    )
    assert the_workload(joined, "prod/p").memory_mib == 700.0
    assert joined.workloads[0] == vm
    assert joined.inventories == ("proxmox", "kubernetes")
    assert joined.warnings == ("old",)


def test_questions_about_budgets_and_free_devices() -> None:
    budget = msgspec.convert(budget_json("prod", "b", {"app": "x"}, min_available=1), Budget)
    inventory = an_inventory(
        PodSpec("p", node="a", labels={"app": "x"}, requests={GPU: 3}, owner=("Job", "j")),
        PodSpec("q", "dev", node="a", labels={"app": "x"}, owner=("Job", "j")),
        budgets=(budget,),
    )
    pod, other = inventory.pods["prod/p"], inventory.pods["dev/q"]
    assert inventory.budgets_of(pod) == (budget,)
    assert inventory.budgets_of(other) == ()
    assert an_inventory(PodSpec("p")).budgets_of(pod) is None
    assert inventory.free_devices("a") == {GPU: 0}
    assert inventory.free_devices("b") == {GPU: 4}
    assert inventory.free_devices("z") == {}
    owner = inventory.owner_of(pod)
    assert isinstance(owner, Owner)
    assert [one.id for one in inventory.pods_of(owner)] == ["prod/p"]


@pytest.mark.parametrize("scenario", ["hk-night", "mig-mixed", "three-full-five-idle"])
def test_a_simulated_cluster_is_found_again(scenario: str) -> None:
    """What the simulation knows by itself, from its exporters' labels and its fake API alone."""
    world = World.load(scenario)
    truth = SimSource(world).read(Want.by(Policy()))
    fake = FakeKubernetes.of(world)
    owners = {
        one["metadata"]["uid"]: msgspec.convert(one, Pod).metadata.controller
        for one in fake.state.all(BY_KIND["ReplicaSet"])
    }
    nodes = [msgspec.convert(one, Node) for one in fake.state.all(BY_KIND["Node"])]
    pods = [msgspec.convert(one, Pod) for one in fake.state.all(BY_KIND["Pod"])]
    inventory = ClusterInventory(
        server="sim",
        nodes={node.name: node for node in nodes},
        pods={pod.id: pod for pod in pods},
        replica_owners={uid: owner for uid, owner in owners.items() if owner},
    )
    joined = inventory.joined(replace(truth, workloads=(), inventories=()))
    assert joined.warnings == truth.warnings
    found = {one.id: one for one in joined.workloads}
    expected = [one for one in truth.workloads if one.kind == "pod"]
    assert len(found) == len(expected)
    for one in expected:
        mine = found[one.id]
        assert set(mine.placements) == set(one.placements)
        assert (mine.owner, mine.priority, mine.evictable) == (
            one.owner,
            one.priority,
            one.evictable,
        )
        assert one.labels.items() <= mine.labels.items()


PODS = [f"p{i}" for i in range(5)]


@given(
    known=st.dictionaries(
        st.sampled_from(PODS),
        st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 2)),
    ),
    labels=st.lists(
        st.tuples(st.sampled_from(["a", "b", "z"]), st.integers(0, 3), st.sampled_from(PODS)),
        max_size=8,
    ),
)
def test_the_join_neither_invents_nor_loses(
    known: dict[str, tuple[str | None, int]], labels: list[tuple[str, int, str]]
) -> None:
    inventory = an_inventory(
        *(
            PodSpec(name, node=node, requests={GPU: count} if count else {})
            for name, (node, count) in known.items()
        )
    )
    cards: dict[tuple[str, int], list[str]] = {}
    for node, gpu, name in labels:
        cards.setdefault((node, gpu), []).append(name)
    gpus = [
        a_gpu(node, gpu, *(f"prod/{name}" for name in dict.fromkeys(names)))
        for (node, gpu), names in sorted(cards.items())
    ]
    joined = inventory.joined(a_snapshot(*gpus))
    by_id = {one.id: one for one in joined.workloads}
    assert len(by_id) == len(joined.workloads)
    assert by_id.keys() <= inventory.pods.keys()
    named = {f"prod/{name}" for _, _, name in labels}
    for id_, one in by_id.items():
        for place in one.placements:
            if place.gpu is None:
                assert place.node == inventory.pods[id_].spec.node_name
            else:
                assert (place.node, place.gpu) in cards
    for name, (_, count) in known.items():
        if count or (f"prod/{name}" in named and f"prod/{name}" in by_id):
            assert f"prod/{name}" in by_id
    text = " ".join(joined.warnings)
    assert ("unknown to Kubernetes" in text) == bool(named - inventory.pods.keys())

"""One pass over the API, and what views say with it, without it, and with half of it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuctl.clients.kubernetes.problems import ForbiddenError
from gpuctl.errors import BackendError
from gpuctl.inventory.kubernetes import ClusterInventory, KubernetesInventory
from tests.cli.calling import Called, call
from tests.clients.kubernetes_clients import client_of
from tests.fakes.gpu_cluster import GpuCluster
from tests.fakes.http_server import Reply
from tests.fakes.kubernetes import FakeKubernetes, Right, times
from tests.fakes.kubernetes_answers import NODES
from tests.fakes.kubernetes_objects import PodSpec, budget_json, node_json
from tests.fakes.kubernetes_recordings import NOON
from tests.fakes.prometheus import FakePrometheus

VIEWER = (
    Right(("list",), ("nodes", "pods")),
    Right(("list",), ("replicasets",), "apps"),
)


@pytest.fixture
def fake() -> Iterator[FakeKubernetes]:
    """The pods of the small GPU cluster of the fake Prometheus."""
    with FakeKubernetes(NOON) as made:
        for node in ("gpu-a", "gpu-b"):
            made.state.add(NODES, node_json(node, {"nvidia.com/gpu": 2}))
        for name, node in (("llm-0", "gpu-a"), ("llm-1", "gpu-b"), ("llm-2", "gpu-b")):
            made.state.add_pod(
                PodSpec(name, node=node, labels={"app": "llm"}, owner=("ReplicaSet", "llm-5d8"))
            )
        made.state.add_pod(PodSpec("nb-1", "dev", node="gpu-a"))
        made.state.add_pod(PodSpec("done", "dev", node="gpu-a", phase="Succeeded"))
        made.state.add_budget(budget_json("prod", "llm", {"app": "llm"}, min_available=2))
        yield made


def read(fake: FakeKubernetes, folder: Path, *, with_budgets: bool = True) -> ClusterInventory:
    with client_of(fake.kubeconfig(folder)) as client:
        return KubernetesInventory(client, with_budgets=with_budgets).read()


def paths(fake: FakeKubernetes) -> list[str]:
    return sorted(request.path for request in fake.requests)


def test_one_pass_of_four_lists(fake: FakeKubernetes, tmp_path: Path) -> None:
    inventory = read(fake, tmp_path)
    assert paths(fake) == [
        "/api/v1/nodes",
        "/api/v1/pods",
        "/apis/apps/v1/replicasets",
        "/apis/policy/v1/poddisruptionbudgets",
    ]
    assert sorted(inventory.nodes) == ["gpu-a", "gpu-b"]
    assert sorted(inventory.pods) == ["dev/nb-1", "prod/llm-0", "prod/llm-1", "prod/llm-2"]
    owner = inventory.owner_of(inventory.pods["prod/llm-0"])
    assert str(owner) == "Deployment/llm"
    budgets = inventory.budgets_of(inventory.pods["prod/llm-0"])
    assert budgets is not None
    assert [budget.status.disruptions_allowed for budget in budgets] == [1]
    assert inventory.warnings == ()


def test_views_need_three_lists_and_no_more_rights(fake: FakeKubernetes, tmp_path: Path) -> None:
    fake.rights["oncall"] = VIEWER
    inventory = read(fake, tmp_path, with_budgets=False)
    assert inventory.warnings == ()
    assert inventory.budgets is None
    assert len(fake.requests) == 3


def test_what_may_not_be_read_is_named_with_what_is_lost(
    fake: FakeKubernetes, tmp_path: Path
) -> None:
    fake.rights["oncall"] = VIEWER[:1]
    inventory = read(fake, tmp_path)
    first, second = inventory.warnings
    assert "no right to list poddisruptionbudgets in every namespace" in first
    assert "can't be foreseen" in first
    assert "verbs: [list]" in first
    assert "listed by their ReplicaSet" in second
    assert inventory.budgets is None
    assert str(inventory.owner_of(inventory.pods["prod/llm-0"])) == "ReplicaSet/llm-5d8"


def test_without_pods_there_is_no_inventory(fake: FakeKubernetes, tmp_path: Path) -> None:
    fake.rights["oncall"] = (Right(("list",), ("nodes",)),)
    with pytest.raises(ForbiddenError, match="no right to list pods"):
        read(fake, tmp_path)


def test_a_server_that_dies_in_between_is_an_error(fake: FakeKubernetes, tmp_path: Path) -> None:
    fake.intercept = times(99, Reply(drop=True), lambda request: "replicasets" in request.path)
    with pytest.raises(BackendError):
        read(fake, tmp_path)


# -- views ---------------------------------------------------------------------------------------


def view(command: str, folder: Path, kubernetes: str | None, *words: str) -> Called:
    """A view of the small GPU cluster with this kubeconfig in its context."""
    with FakePrometheus(GpuCluster()) as prometheus:
        context: dict[str, object] = {"prometheus": {"url": prometheus.url}}
        if kubernetes is not None:
            context["kubernetes"] = {"kubeconfig": kubernetes}
        config = folder / "gpuctl.yaml"
        config.write_text(json.dumps({"current_context": "hk", "contexts": {"hk": context}}))
        return call(command, "--config", str(config), *words)


def test_a_snapshot_says_who_runs_where(fake: FakeKubernetes, tmp_path: Path) -> None:
    fake.rights["oncall"] = VIEWER
    called = view("snapshot", tmp_path, fake.kubeconfig(tmp_path), "-o", "json")
    assert (called.code, called.err) == (0, "")
    document = called.document
    assert document["inventories"] == ["kubernetes"]
    found = {
        one["id"]: (one["owner"], one["placements"][0]["gpu"]) for one in document["workloads"]
    }
    assert found == {
        "dev/nb-1": ("", 1),
        "prod/llm-0": ("Deployment/llm", 0),
        "prod/llm-1": ("Deployment/llm", 0),
        "prod/llm-2": ("Deployment/llm", 1),
    }
    assert {gpu["slots"] for gpu in document["gpus"]} == {1}
    assert len(fake.requests) == 3


def test_without_kubernetes_in_the_context_nobody_asks(
    fake: FakeKubernetes, tmp_path: Path
) -> None:
    called = view("snapshot", tmp_path, None, "-o", "json")
    assert called.code == 0
    assert called.document["inventories"] == []
    assert fake.requests == []


def test_an_api_out_of_reach_is_a_warning_and_the_heatmap_stands(tmp_path: Path) -> None:
    with FakeKubernetes(NOON) as gone:
        path = gone.kubeconfig(tmp_path)
    called = view("heatmap", tmp_path, path)
    assert called.code == 0
    assert "gpu-a" in called.out
    assert "prod/llm-0" in called.out
    assert "not from kubernetes: can't connect to the Kubernetes API" in called.err
    assert "connection refused" in called.err


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ("denied", "no right to list"),
        ("expired", "does not accept the credentials"),
        ("html", "does not answer as a Kubernetes API"),
        ("truncated", "can't be read"),
    ],
)
def test_an_api_that_refuses_is_a_warning(
    fake: FakeKubernetes, tmp_path: Path, trouble: str, words: str
) -> None:
    match trouble:
        case "denied":
            fake.rights.clear()
        case "expired":
            fake.tokens.clear()
        case "html":
            fake.intercept = lambda request: Reply(200, b"<html>", content_type="text/html")
        case _:
            fake.intercept = lambda request: Reply(200, b'{"items": [{"meta')
    called = view("snapshot", tmp_path, fake.kubeconfig(tmp_path), "-o", "json")
    assert called.code == 0
    assert called.document["inventories"] == []
    assert len(called.document["gpus"]) == 4
    assert words in called.err
    assert words in called.document["warnings"][0]


def test_a_failing_plugin_and_a_missing_kubeconfig_are_warnings(
    fake: FakeKubernetes, tmp_path: Path
) -> None:
    user = {"exec": {"command": "no-such-plugin", "apiVersion": "client.authentication.k8s.io/v1"}}
    called = view("heatmap", tmp_path, fake.kubeconfig(tmp_path, user))
    assert called.code == 0
    assert "the credential plugin no-such-plugin failed" in called.err
    assert fake.requests == []
    called = view("heatmap", tmp_path, str(tmp_path / "nowhere"))
    assert called.code == 0
    assert "there is no kubeconfig" in called.err


def test_a_slow_api_is_left_after_the_request_timeout(fake: FakeKubernetes, tmp_path: Path) -> None:
    never = threading.Event()
    fake.intercept = lambda request: Reply(wait_for=never)
    path = fake.kubeconfig(tmp_path)
    called = view("heatmap", tmp_path, path, "--request-timeout", "300ms")
    assert called.code == 0
    assert "did not answer within 0.3s" in called.err


def test_the_library_is_loaded_only_where_a_cluster_is_asked() -> None:
    code = (
        "import sys, gpuctl.inventory.kubernetes, gpuctl.cli.world;"
        "bad = {'kubernetes', 'urllib3', 'yaml', 'httpx'} & set(sys.modules); sys.exit(bool(bad))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == 0

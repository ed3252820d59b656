"""`gpuctl evict` on a Kubernetes cluster, from the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.calling import CLOCK, Called, call
from tests.fakes.gpu_cluster import Card, GpuCluster
from tests.fakes.http_server import Request
from tests.fakes.kubernetes import FakeKubernetes, Right
from tests.fakes.kubernetes_answers import NODES, PODS
from tests.fakes.kubernetes_objects import SHARED, PodSpec, budget_json, node_json
from tests.fakes.prometheus import Answer, FakePrometheus, Query, error

CHAT = ("ReplicaSet", "chat-5d8f7c")
HOT = "gpu-a/0"
CARDS = (
    Card("gpu-a", 0, 96, 70_000, "prod/chat-5d8f7c-a"),
    Card("gpu-a", 1, 30, 10_000, "prod/train-0"),
    Card("gpu-b", 0, 12, 8_000),
)


class Live:
    """A cluster of two nodes with metrics, and calls of gpuctl on it."""

    def __init__(self, fake: FakeKubernetes, metrics: FakePrometheus, folder: Path) -> None:
        self.fake, self.folder = fake, folder
        self.cards = GpuCluster(CARDS)
        self.answer: Callable[[Query], Answer] = self.cards
        self.metrics = metrics
        for node in ("gpu-a", "gpu-b"):
            fake.state.add(NODES, node_json(node, {SHARED: 8}))
        fake.state.settles_at_once = True
        fake.state.landing = lambda pod: "gpu-b"
        labels = {"app": "chat", "tier": "inference", "pod-template-hash": "5d8f7c"}
        shared = {SHARED: 1}
        self.add(PodSpec("chat-5d8f7c-a", owner=CHAT, labels=labels, requests=shared))
        self.add(
            PodSpec("train-0", owner=("Job", "train"), labels={"app": "train"}, requests=shared)
        )
        config = folder / "config.yaml"
        config.write_text(
            "current_context: hk\n"
            "contexts:\n"
            "  hk:\n"
            "    cluster: hk\n"
            f"    prometheus: {{url: {metrics.url}}}\n"
            f"    kubernetes: {{kubeconfig: {fake.kubeconfig(folder)}}}\n"
        )
        self.environ = {"GPUCTL_CONFIG": str(config), "XDG_STATE_HOME": str(folder / "state")}

    def add(self, spec: PodSpec) -> Any:
        return self.fake.state.add_pod(spec)

    def __call__(self, *words: str) -> Called:
        return call("evict", *words, environ=self.environ)

    def history(self) -> Any:
        return call("history", "-o", "json", environ=self.environ).document["items"]

    @property
    def evicted(self) -> list[str]:
        return self.fake.state.evicted


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    holder: list[Live] = []
    with (
        FakeKubernetes(CLOCK.at) as fake,
        FakePrometheus(lambda query: holder[0].answer(query)) as metrics,
    ):
        holder.append(Live(fake, metrics, tmp_path))
        yield holder[0]


def follow_to(live: Live, node: str) -> None:
    """The exporter of `node` names the new pod as soon as there is one."""

    def follow(_: Request) -> None:
        new = [pod["metadata"]["name"] for pod in live.fake.state.all(PODS)]
        name = next((one for one in new if "-new" in one), None)
        if name is not None:
            live.cards.cards = (*CARDS[1:2], Card(node, 0, 41, 8_000, f"prod/{name}"))

    live.fake.intercept = follow  # type: ignore[assignment]


def test_the_hot_card_sheds_its_pod_and_the_outcome_says_where_it_landed(live: Live) -> None:
    follow_to(live, "gpu-b")
    called = live("--gpu", HOT, "--class", "inference", "--soft-taint", "--yes", "-o", "json")
    assert called.code == 0, called.err
    (step,) = called.document["steps"]
    assert (step["workload"], step["status"]) == ("prod/chat-5d8f7c-a", "done")
    assert step["landed"] == {
        "node": "gpu-b",
        "gpu": 0,
        "mig_id": None,
        "utilization_pct": 41.0,
        "cooler": True,
    }
    assert called.document["holds"][0]["removed"] is True
    assert live.evicted == ["prod/chat-5d8f7c-a"]
    (run,) = live.history()
    assert (run["state"], run["exit_code"]) == ("ended", 0)


def test_a_dry_run_sends_no_write_and_leaves_no_journal(live: Live) -> None:
    called = live("--node", "gpu-a", "--dry-run", "--cordon")
    assert called.code == 0, called.err
    assert "would be evicted" in called.out
    assert live.evicted == []
    assert {request.method for request in live.fake.requests} == {"GET", "POST"}
    posts = [request for request in live.fake.requests if request.method == "POST"]
    reviews = [request for request in posts if "selfsubjectaccessreviews" in request.path]
    assert [r.param("dryRun") for r in posts if r not in reviews] == ["All"]
    assert not (live.folder / "state").exists()


def test_training_stays_and_is_named_with_the_way_out(live: Live) -> None:
    called = live("--node", "gpu-a", "--yes", "--no-wait")
    assert called.code == 4
    assert "prod/train-0 from gpu-a/1: refused" in called.out
    assert "--force-stateful" in called.out
    assert live.evicted == ["prod/chat-5d8f7c-a"]


@pytest.mark.parametrize(
    ("spec", "rule", "option"),
    [
        (PodSpec("dns", namespace="kube-system", owner=CHAT), "protected-namespace",
         "--force-protected-namespace"),
        (PodSpec("top", owner=CHAT, priority=2_000_000), "critical-priority", "--force-critical"),
        (PodSpec("pin", owner=CHAT, annotations={"gpuctl.io/evictable": "false"}), "not-evictable",
         "--force-not-evictable"),
        (PodSpec("exp", owner=("DaemonSet", "exp")), "node-bound", "--force-daemonset"),
        (PodSpec("lone"), "bare-pod", "--force-unmanaged"),
        (PodSpec("db-0", owner=("StatefulSet", "db")), "stays-by-default", "--force-stateful"),
        (PodSpec("tmp", owner=CHAT, volumes=({"name": "scratch", "emptyDir": {}},)), "emptydir",
         "--delete-emptydir-data"),
    ],
)  # fmt: skip
def test_each_rule_protects_and_has_its_own_override(
    live: Live, spec: PodSpec, rule: str, option: str
) -> None:
    live.add(spec)
    name = f"{spec.namespace}/{spec.name}"
    called = live(name, "--yes", "-o", "json")
    assert called.code == 5
    assert called.document["steps"][0]["detail"] == {"rule": rule}
    assert option in called.document["steps"][0]["reason"]
    assert live.evicted == []
    assert live(name, "--yes", "--no-wait", option).code == 0
    assert live.evicted == [name]


def test_an_emptydir_in_memory_is_no_data(live: Live) -> None:
    volumes = ({"name": "shm", "emptyDir": {"medium": "Memory"}},)
    live.add(PodSpec("llm", owner=CHAT, volumes=volumes))
    assert live("prod/llm", "--yes", "--no-wait").code == 0


def test_a_mirror_pod_stays_whatever_is_overridden(live: Live) -> None:
    annotations = {"kubernetes.io/config.mirror": "x"}
    live.add(PodSpec("static", owner=("Node", "gpu-a"), annotations=annotations))
    called = live("prod/static", "--yes", "--force-daemonset", "--force-unmanaged")
    assert called.code == 5
    assert live.evicted == []


def test_a_name_that_fits_several_pods_is_asked_back(live: Live) -> None:
    live.add(PodSpec("chat-5d8f7c-a", namespace="test", owner=CHAT))
    called = live("chat-5d8f7c-a", "--dry-run")
    assert called.code == 2
    assert "-n NAMESPACE" in called.err
    assert live("chat-5d8f7c-a", "-n", "prod", "--dry-run").code == 0


def test_the_plan_foresees_a_budget_that_never_lets_go(live: Live) -> None:
    live.fake.state.add_budget(budget_json("prod", "chat", {"app": "chat"}, min_available=1))
    called = live("--gpu", HOT, "--yes")
    assert called.code == 5
    assert "no eviction ever passes" in called.err
    assert "no eviction ever passes" in called.out
    assert live.evicted == []


def test_without_prometheus_names_and_nodes_still_work_and_gpus_do_not(live: Live) -> None:
    live.answer = lambda query: error(400, "bad_data", "not today")
    called = live("--gpu", HOT, "--yes")
    assert called.code == 6
    assert "use --node" in called.err
    called = live("prod/chat-5d8f7c-a", "--yes", "-o", "json")
    assert called.code == 0, called.err
    assert "no GPU metrics" in called.err
    assert called.document["steps"][0]["landed"]["node"] == "gpu-b"


def test_a_card_without_fresh_metrics_is_no_base_for_a_choice(live: Live) -> None:
    live.cards.cards = (Card("gpu-a", 0, 96, 70_000, "prod/chat-5d8f7c-a", age_seconds=900),)
    called = live("--gpu", HOT, "--yes")
    assert called.code == 6
    assert live.evicted == []


def test_a_missing_right_names_the_rule_to_add(live: Live) -> None:
    live.fake.rights["oncall"] = (Right(("get", "list"), ("*",), "*"),)
    called = live("--gpu", HOT, "--yes")
    assert called.code == 7
    assert "resources: [pods/eviction], verbs: [create]" in called.out
    assert live.evicted == []


def test_an_api_that_lets_nobody_in_changes_nothing(live: Live) -> None:
    live.fake.tokens.clear()
    called = live("--gpu", HOT, "--yes")
    assert called.code == 7
    assert "does not accept the credentials" in called.err


def test_nothing_that_matches_is_nothing_to_do(live: Live) -> None:
    called = live("--node", "gpu-a", "-l", "app=none", "--yes")
    assert called.code == 0
    assert "nothing to do" in called.out


def test_an_unknown_cluster_without_metrics_says_so_once(tmp_path: Path) -> None:
    with FakeKubernetes(CLOCK.at) as fake:
        fake.state.add(NODES, node_json("gpu-a", {SHARED: 8}))
        fake.state.settles_at_once = True
        fake.state.add_pod(PodSpec("chat-5d8f7c-a", owner=CHAT))
        called = call(
            "evict",
            "--node",
            "gpu-a",
            "--yes",
            "--kubeconfig",
            fake.kubeconfig(tmp_path),
            environ={"XDG_STATE_HOME": str(tmp_path / "state")},
        )
    assert called.code == 0, called.err
    assert called.err.count("no GPU metrics") == 1


def test_the_hold_is_on_the_node_as_kubernetes_calls_it(live: Live) -> None:
    """Metrics may name nodes by another name, which no API object has."""
    live.cards.cards = (Card("10.1.2.3", 0, 96, 70_000, "prod/chat-5d8f7c-a"),)
    follow_to(live, "10.1.2.4")
    called = live("--gpu", "10.1.2.3/0", "--cordon", "--yes", "-o", "json")
    assert called.code == 0, called.err
    assert [hold["node"] for hold in called.document["holds"]] == ["gpu-a"]
    landed = called.document["steps"][0]["landed"]
    assert (landed["node"], landed["gpu"], landed["cooler"]) == ("gpu-b", 0, True)


def test_the_log_names_run_step_and_object_of_every_write(live: Live) -> None:
    follow_to(live, "gpu-b")
    called = live("--gpu", HOT, "--soft-taint", "--yes", "-v", "-o", "name")
    assert called.out == "evict/prod/chat-5d8f7c-a\n"
    run = live.history()[0]["run_id"]
    for line in (
        f'INFO placing run={run} object="soft-taint of gpu-a"',
        f"INFO sending run={run} step=s1 action=evict object=prod/chat-5d8f7c-a",
        f"INFO answered run={run} step=s1 action=evict object=prod/chat-5d8f7c-a result=evicted",
        f'INFO removing run={run} object="soft-taint of gpu-a"',
    ):
        assert line in called.err.splitlines()
    assert "token" not in called.err


@pytest.mark.parametrize("verbs", [("get", "list", "create"), ("get", "list", "create", "patch")])
def test_a_dry_run_says_whether_the_node_could_be_held(live: Live, verbs: tuple[str, ...]) -> None:
    live.fake.rights["oncall"] = (Right(verbs, ("*",), "*"),)
    called = live("--gpu", HOT, "--cordon", "--dry-run", "-o", "json")
    assert called.code == 0, called.err
    assert bool(called.document["warnings"]) == ("patch" not in verbs)
    assert ("resources: [nodes], verbs: [patch]" in called.err) == ("patch" not in verbs)


def test_a_hold_without_the_right_to_it_evicts_nothing(live: Live) -> None:
    live.fake.rights["oncall"] = (Right(("get", "list", "create"), ("*",), "*"),)
    called = live("--gpu", HOT, "--cordon", "--yes")
    assert called.code == 7
    assert "resources: [nodes], verbs: [patch]" in called.err
    assert live.evicted == []
    assert [run["state"] for run in live.history()] == ["ended"]

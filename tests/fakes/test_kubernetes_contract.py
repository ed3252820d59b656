"""What gpuctl relies on, asked of the fake API server and, when there is one, of a real cluster.

GPUCTL_TEST_KUBECONFIG names the kubeconfig of a real cluster (its current context). There the
suite makes a namespace of its own, puts pods and a budget into it, and deletes it at the end; it
needs the rights for that and a node that runs pods of `registry.k8s.io/pause`
(GPUCTL_TEST_IMAGE names another image).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpuctl.clients.kubernetes import reading
from gpuctl.clients.kubernetes.client import KubernetesClient
from gpuctl.clients.kubernetes.eviction import EvictionResult, eviction_query
from gpuctl.clients.kubernetes.notes import EventNote, Regarding
from gpuctl.clients.kubernetes.problems import Access, ApiRefusedError, ConflictError
from gpuctl.clients.kubernetes.reading import Kind, Selection
from gpuctl.clients.kubernetes.session import Call
from gpuctl.clients.kubernetes.wire import LeaseSpec, Pod
from gpuctl.model.settings import KubernetesSettings
from tests.fakes.kubernetes import FakeKubernetes

REAL = os.environ.get("GPUCTL_TEST_KUBECONFIG")
IMAGE = os.environ.get("GPUCTL_TEST_IMAGE", "registry.k8s.io/pause:3.9")
NAMESPACES = Kind("namespaces")
LABELS = {"app": "gpuctl-contract"}
#: How long a real cluster may take to start a pod or to count a budget.
PATIENCE_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster with a namespace that the test may use as it likes."""

    api: KubernetesClient
    namespace: str

    def make(self, kind: Kind, name: str, body: dict[str, Any], api_version: str) -> None:
        """Create an object the plain way."""
        meta = {"name": name, "namespace": self.namespace, "labels": LABELS}
        content = {"apiVersion": api_version, "metadata": meta, **body}
        path = kind.path(namespace=self.namespace)
        self.api.session.expect(Call("POST", path, kind.access("create"), body=content))

    def running_pod(self, name: str) -> Pod:
        """A pod that serves."""
        _, version = self.api.pods_at(self.mine)
        container = {"name": "main", "image": IMAGE}
        spec = {"containers": [container], "terminationGracePeriodSeconds": 1}
        self.make(reading.PODS, name, {"kind": "Pod", "spec": spec}, "v1")
        events = self.api.watch_pods(version, seconds=PATIENCE_SECONDS, selection=self.mine)
        for event in events:
            if event.pod is not None and event.pod.metadata.name == name and event.pod.is_ready:
                return event.pod
        raise AssertionError(f"{name} did not start in time")

    def budget(self, name: str, minimum: int) -> None:
        """A budget whose numbers are computed."""
        selector = {"matchLabels": LABELS}
        spec = {"minAvailable": minimum, "selector": selector}
        body = {"kind": "PodDisruptionBudget", "spec": spec}
        self.make(reading.BUDGETS, name, body, "policy/v1")
        ends = self.api.session.limits.clock.monotonic() + PATIENCE_SECONDS
        while self.api.session.limits.clock.monotonic() < ends:
            found = self.api.read_budget(self.namespace, name)
            if found is not None and found.is_processed and found.status.expected_pods:
                return
            self.api.session.pause("the budget is not counted yet", 1)
        raise AssertionError(f"the budget {name} was not counted in time")

    @property
    def mine(self) -> Selection:
        """What the test made."""
        return Selection(namespace=self.namespace, labels="app=gpuctl-contract")


@pytest.fixture(params=["fake", "real"] if REAL else ["fake"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    if request.param == "fake":
        with FakeKubernetes(datetime.now(UTC)) as fake:
            yield from _cluster(fake.kubeconfig(tmp_path), {})
    elif REAL:
        yield from _cluster(REAL, dict(os.environ))


def _cluster(kubeconfig: str, environ: dict[str, str]) -> Iterator[Cluster]:
    settings = KubernetesSettings(kubeconfig=kubeconfig)
    with KubernetesClient(settings, request_timeout=30, environ=environ) as api:
        name = f"gpuctl-contract-{uuid.uuid4().hex[:8]}"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        path = NAMESPACES.path()
        api.session.expect(Call("POST", path, NAMESPACES.access("create"), body=body))
        try:
            yield Cluster(api, name)
        finally:
            delete = Call("DELETE", NAMESPACES.path(name), NAMESPACES.access("delete"))  # type: ignore[arg-type]
            api.session.expect(delete)


def test_it_has_a_version_and_a_clock(cluster: Cluster) -> None:
    assert cluster.api.version().startswith("v1.")
    at = cluster.api.server_time()
    assert at is not None
    assert abs(at - datetime.now(UTC)) < timedelta(minutes=5)


def test_pages_hold_every_pod_once(cluster: Cluster) -> None:
    names = [f"p{index}" for index in range(5)]
    for name in names:
        body = {"kind": "Pod", "spec": {"containers": [{"name": "main", "image": IMAGE}]}}
        cluster.make(reading.PODS, name, body, "v1")
    for size in (1, 2, 5, 500):
        found = cluster.api.pods(cluster.mine, page_size=size)
        assert [pod.metadata.name for pod in found] == names


def test_unknown_fields_and_bad_tokens_are_refused(cluster: Cluster) -> None:
    with pytest.raises(ApiRefusedError, match="HTTP 400"):
        cluster.api.pods(Selection(fields="spec.priority=1"))
    call = Call(
        "GET",
        reading.PODS.path(namespace=cluster.namespace),
        reading.PODS.access("list"),
        query=(("limit", "5"), ("continue", "AAAA")),
    )
    assert cluster.api.session.ask(call).status == 400


def test_a_missing_pod_is_gone(cluster: Cluster) -> None:
    assert cluster.api.read_pod(cluster.namespace, "nobody") is None
    answer = cluster.api.evict(cluster.namespace, "nobody", uid=str(uuid.uuid4()))
    assert answer.result is EvictionResult.GONE
    answer = cluster.api.evict("no-such-namespace-here", "nobody", uid=str(uuid.uuid4()))
    assert answer.result is EvictionResult.GONE


def test_dry_runs_evict_nobody_and_misspelt_ones_are_refused(cluster: Cluster) -> None:
    pod = cluster.running_pod("stays")
    uid = pod.metadata.uid
    answer = cluster.api.evict(cluster.namespace, "stays", uid=uid, dry_run=True)
    assert answer.result is EvictionResult.ALLOWED
    misspelt = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "stays", "namespace": cluster.namespace},
        "delete_options": {"dry_run": ["All"]},
    }
    path = reading.PODS.path("stays", namespace=cluster.namespace) + "/eviction"
    access = Access("create", "pods/eviction")
    for query, status in (
        (eviction_query(dry_run=True), 400),
        ((("fieldValidation", "Strict"),), 400),
        ((("dryRun", "All"),), 201),
    ):
        call = Call("POST", path, access, query=query, body=misspelt)
        assert cluster.api.session.ask(call).status == status
    after = cluster.api.read_pod(cluster.namespace, "stays")
    assert after is not None
    assert (after.metadata.uid, after.is_terminating) == (uid, False)


def test_another_uid_evicts_nobody(cluster: Cluster) -> None:
    cluster.running_pod("stays")
    for dry_run in (True, False):
        answer = cluster.api.evict(
            cluster.namespace, "stays", uid=str(uuid.uuid4()), dry_run=dry_run
        )
        assert answer.result is EvictionResult.REPLACED
    after = cluster.api.read_pod(cluster.namespace, "stays")
    assert after is not None
    assert not after.is_terminating


def test_a_budget_refuses_with_its_name_and_numbers(cluster: Cluster) -> None:
    pod = cluster.running_pod("only")
    cluster.budget("strict", 1)
    for dry_run in (True, False):
        answer = cluster.api.evict(cluster.namespace, "only", uid=pod.metadata.uid, dry_run=dry_run)
        assert answer.result is EvictionResult.BUDGET
        assert (answer.budget, answer.needs, answer.has) == ("strict", 1, 1)


def test_two_budgets_are_permanent(cluster: Cluster) -> None:
    pod = cluster.running_pod("only")
    cluster.budget("one", 0)
    cluster.budget("two", 0)
    answer = cluster.api.evict(cluster.namespace, "only", uid=pod.metadata.uid)
    assert answer.result is EvictionResult.SEVERAL_BUDGETS
    assert not answer.may_retry


def test_an_evicted_pod_is_told_to_go_and_the_watch_tells(cluster: Cluster) -> None:
    pod = cluster.running_pod("goes")
    _, version = cluster.api.pods_at(cluster.mine)
    answer = cluster.api.evict(
        cluster.namespace, "goes", uid=pod.metadata.uid, grace_period_seconds=1
    )
    assert answer.result is EvictionResult.EVICTED
    events = cluster.api.watch_pods(version, seconds=PATIENCE_SECONDS, selection=cluster.mine)
    going = next(event for event in events if event.pod is not None and event.pod.is_terminating)
    assert going.kind in ("modified", "deleted")
    assert going.pod is not None
    assert going.pod.metadata.uid == pod.metadata.uid


def test_a_lease_is_changed_by_version_only(cluster: Cluster) -> None:
    def held(by: str) -> LeaseSpec:
        # A whole second: the format wants six digits all the same.
        at = datetime.now(UTC).replace(microsecond=0)
        return LeaseSpec(
            holder_identity=by,
            lease_duration_seconds=15,
            acquire_time=at,
            renew_time=at,
            lease_transitions=0,
        )

    leases = cluster.api.leases
    assert leases.get(cluster.namespace, "lock") is None
    first = leases.create(cluster.namespace, "lock", held("a"))
    with pytest.raises(ConflictError):
        leases.create(cluster.namespace, "lock", held("b"))
    second = leases.update(first.lease, held("a"))
    with pytest.raises(ConflictError):
        leases.update(first.lease, held("b"))
    released = leases.release(second.lease)
    seen = leases.get(cluster.namespace, "lock")
    assert seen is not None
    assert seen.lease.metadata.resource_version == released.lease.metadata.resource_version
    assert not seen.is_held(datetime.now(UTC))


def test_intents_are_changed_by_version_only(cluster: Cluster) -> None:
    maps = cluster.api.config_maps
    assert maps.get(cluster.namespace, "gpuctl-intents") is None
    first = maps.create(cluster.namespace, "gpuctl-intents", {"a": "1"})
    second = maps.update(first, {"b": "2"})
    with pytest.raises(ConflictError):
        maps.update(first, {"c": "3"})
    found = maps.get(cluster.namespace, "gpuctl-intents")
    assert found is not None
    assert (found.data, second.data) == ({"b": "2"}, {"b": "2"})


def test_events_are_accepted(cluster: Cluster) -> None:
    regarding = Regarding("Pod", "goes", cluster.namespace)
    for text in ("Evicted from gpu-a", "x" * 3000):
        note = EventNote(regarding, "Evict", "GPUOverloaded", text)
        cluster.api.record(note, instance="contract")


def test_one_may_ask_what_one_may_do(cluster: Cluster) -> None:
    answer = cluster.api.may("create", reading.PODS, sub="eviction", namespace=cluster.namespace)
    assert answer.allowed

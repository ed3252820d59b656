"""Evictions, nodes, leases, events, intents: each write once, each answer understood."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gpuctl.clients.http import Answer
from gpuctl.clients.kubernetes.client import KubernetesClient
from gpuctl.clients.kubernetes.eviction import (
    EvictionResult,
    eviction_answer,
    eviction_body,
    eviction_query,
)
from gpuctl.clients.kubernetes.notes import EventNote, Regarding, event_body
from gpuctl.clients.kubernetes.problems import (
    Access,
    AnswerLostError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
)
from gpuctl.clients.kubernetes.session import Call
from gpuctl.clients.kubernetes.wire import Budget, LeaseSpec, Pod, as_micro_time
from gpuctl.errors import BackendError
from tests.clients.kubernetes_clients import client_of
from tests.fakes.http_server import Reply, Request
from tests.fakes.kubernetes import FakeKubernetes, Right, times
from tests.fakes.kubernetes_answers import BUDGETS, NODES, OVERLOAD, PODS
from tests.fakes.kubernetes_objects import PodSpec, budget_json, node_json
from tests.fakes.kubernetes_recordings import NOON, recorded

SELECTOR = {"app": "chat"}


@pytest.fixture
def fake() -> Iterator[FakeKubernetes]:
    with FakeKubernetes(NOON) as made:
        for index in range(3):
            made.state.add_pod(
                PodSpec(f"chat-5d8-{index}", labels=SELECTOR, owner=("ReplicaSet", "chat-5d8"))
            )
        made.state.add(NODES, node_json("gpu-a", {"nvidia.com/gpu": 4}))
        yield made


@pytest.fixture
def client(fake: FakeKubernetes, tmp_path: Path) -> Iterator[KubernetesClient]:
    with client_of(fake.kubeconfig(tmp_path)) as made:
        yield made


def pod_of(client: KubernetesClient, name: str = "chat-5d8-0") -> Pod:
    pod = client.read_pod("prod", name)
    assert pod is not None
    return pod


def is_eviction(request: Request) -> bool:
    return request.path.endswith("/eviction")


def sent(fake: FakeKubernetes) -> list[Request]:
    return [request for request in fake.requests if is_eviction(request)]


# -- evictions -------------------------------------------------------------------------------------


def test_an_eviction_tells_the_pod_to_go(client: KubernetesClient, fake: FakeKubernetes) -> None:
    pod = pod_of(client)
    answer = client.evict("prod", pod.metadata.name, uid=pod.metadata.uid, grace_period_seconds=5)
    assert answer.result is EvictionResult.EVICTED
    assert fake.state.evicted == ["prod/chat-5d8-0"]
    after = pod_of(client)
    assert after.is_terminating
    assert after.is_ready
    assert after.metadata.deletion_grace_period_seconds == 5
    (request,) = sent(fake)
    assert request.param("fieldValidation") == "Strict"
    assert json.loads(request.body)["deleteOptions"]["preconditions"] == {"uid": pod.metadata.uid}


def test_a_dry_run_changes_nothing_and_books_nothing(
    client: KubernetesClient, fake: FakeKubernetes
) -> None:
    fake.state.add_budget(budget_json("prod", "chat", SELECTOR, min_available=2))
    version = fake.state.version
    for name in ("chat-5d8-0", "chat-5d8-1"):
        pod = pod_of(client, name)
        answer = client.evict("prod", name, uid=pod.metadata.uid, dry_run=True)
        assert (answer.result, answer.dry_run) == (EvictionResult.ALLOWED, True)
    assert fake.state.version == version
    assert fake.state.evicted == []


def test_a_dry_run_with_a_misspelt_body_is_refused_and_cannot_evict(
    client: KubernetesClient, fake: FakeKubernetes
) -> None:
    """The request asks for the dry run outside the body as well, and strictly."""
    pod = pod_of(client)
    body = eviction_body(
        "prod", "chat-5d8-0", uid=pod.metadata.uid, grace_period_seconds=None, dry_run=True
    )
    options = body.pop("deleteOptions")
    misspelt = {**body, "delete_options": {"dry_run": options["dryRun"]}}
    path = "/api/v1/namespaces/prod/pods/chat-5d8-0/eviction"
    query = eviction_query(dry_run=True)
    # Either of the two alone is enough; without both the same body is a real eviction.
    for kept in (query, query[:1], query[1:], ()):
        call = Call(
            "POST", path, Access("create", "pods/eviction", "", "prod"), query=kept, body=misspelt
        )
        answer = client.session.ask(call)
        is_strict = ("fieldValidation", "Strict") in kept
        assert answer.status == (400 if is_strict else 201)
        assert fake.state.evicted == ([] if kept else ["prod/chat-5d8-0"])


def test_a_grace_of_zero_is_never_sent(client: KubernetesClient, fake: FakeKubernetes) -> None:
    with pytest.raises(ValueError, match="still in use"):
        client.evict("prod", "chat-5d8-0", uid="u", grace_period_seconds=0)
    assert fake.requests == []


def test_a_budget_says_no_with_its_numbers(client: KubernetesClient, fake: FakeKubernetes) -> None:
    fake.state.add_budget(budget_json("prod", "chat-budget", SELECTOR, min_available=3))
    answer = client.evict("prod", "chat-5d8-0", uid=pod_of(client).metadata.uid)
    assert answer.result is EvictionResult.BUDGET
    assert (answer.budget, answer.needs, answer.has) == ("chat-budget", 3, 3)
    assert answer.retry_after_seconds is None
    assert answer.may_retry
    budget = client.read_budget("prod", "chat-budget")
    assert isinstance(budget, Budget)
    assert budget.status.disruptions_allowed == 0


def test_a_wrong_uid_spends_the_budget_for_two_minutes(
    client: KubernetesClient, fake: FakeKubernetes
) -> None:
    fake.state.add_budget(budget_json("prod", "chat-budget", SELECTOR, min_available=2))
    other = client.evict("prod", "chat-5d8-0", uid="another")
    assert other.result is EvictionResult.REPLACED
    assert not other.may_retry
    uid = pod_of(client, "chat-5d8-1").metadata.uid
    assert client.evict("prod", "chat-5d8-1", uid=uid).result is EvictionResult.BUDGET
    fake.state.step(120)
    assert client.evict("prod", "chat-5d8-1", uid=uid).result is EvictionResult.EVICTED
    assert fake.state.evicted == ["prod/chat-5d8-1"]


def test_overload_is_no_budget_and_is_not_repeated(
    client: KubernetesClient, fake: FakeKubernetes
) -> None:
    fake.intercept = times(9, OVERLOAD, is_eviction)
    answer = client.evict("prod", "chat-5d8-0", uid="u")
    assert answer.result is EvictionResult.OVERLOADED
    assert answer.retry_after_seconds == 1.0
    assert answer.budget is None
    assert len(sent(fake)) == 1


def test_a_missing_right_stops_with_the_rule(
    client: KubernetesClient, fake: FakeKubernetes
) -> None:
    fake.rights["oncall"] = (Right(("get", "list"), ("pods",)),)
    with pytest.raises(ForbiddenError) as caught:
        client.evict("prod", "chat-5d8-0", uid="u")
    assert caught.value.rule == '{apiGroups: [""], resources: [pods/eviction], verbs: [create]}'
    assert "create pods/eviction in namespace prod" in caught.value.what


@pytest.mark.parametrize("kind", ["drop", "cut", "slow"])
def test_a_lost_answer_is_not_a_failure_and_not_repeated(
    fake: FakeKubernetes, tmp_path: Path, kind: str
) -> None:
    """The pod is gone all the same: only the cluster knows."""

    def evict_and_break(request: Request) -> Reply | None:
        if not is_eviction(request):
            return None
        pod = fake.state.get(PODS, "chat-5d8-0", "prod")
        assert pod is not None
        fake.state.terminate(pod, None)
        return {
            "drop": Reply(drop=True),
            "cut": Reply(201, b"x" * 50, cut_at=5),
            "slow": Reply(wait_for=threading.Event()),
        }[kind]

    fake.intercept = evict_and_break
    timeout = 0.05 if kind == "slow" else 20
    with (
        client_of(fake.kubeconfig(tmp_path), request_timeout=timeout) as client,
        pytest.raises(AnswerLostError) as caught,
    ):
        client.evict("prod", "chat-5d8-0", uid="u")
    assert "not known whether create pods/eviction in namespace prod" in caught.value.what
    assert fake.state.evicted == ["prod/chat-5d8-0"]
    assert len(sent(fake)) == 1


def test_a_lost_dry_run_is_a_plain_failure(client: KubernetesClient, fake: FakeKubernetes) -> None:
    """Nothing can have happened."""
    fake.intercept = times(9, Reply(drop=True), is_eviction)
    with pytest.raises(BackendError) as caught:
        client.evict("prod", "chat-5d8-0", uid="u", dry_run=True)
    assert not isinstance(caught.value, AnswerLostError)


def test_what_never_arrived_is_a_plain_failure(tmp_path: Path) -> None:
    with FakeKubernetes(NOON) as fake:
        path = fake.kubeconfig(tmp_path)
    with client_of(path) as client, pytest.raises(BackendError) as caught:
        client.evict("prod", "chat-5d8-0", uid="u")
    assert not isinstance(caught.value, AnswerLostError)
    assert "connection refused" in (caught.value.cause or "")


def test_an_expired_token_is_renewed_before_an_eviction_too(
    client: KubernetesClient, fake: FakeKubernetes
) -> None:
    """A 401 was not carried out, so this is no second eviction."""
    uid = pod_of(client).metadata.uid
    fake.intercept = times(1, Reply(401, b"{}"), is_eviction)
    assert client.evict("prod", "chat-5d8-0", uid=uid).result is EvictionResult.EVICTED
    assert len(sent(fake)) == 2


MEANING = {
    "evict-201": EvictionResult.EVICTED,
    "evict-201-unready-alwaysallow": EvictionResult.EVICTED,
    "evict-404": EvictionResult.GONE,
    "evict-404-namespace": EvictionResult.GONE,
    "evict-409-uid": EvictionResult.REPLACED,
    "evict-409-resourceversion": EvictionResult.REPLACED,
    "evict-403-namespace-terminating": EvictionResult.LEAVING,
    "evict-429-pdb": EvictionResult.BUDGET,
    "evict-429-pdb-bare-pods": EvictionResult.BUDGET,
    "evict-429-pdb-budget-burnt": EvictionResult.BUDGET,
    "evict-429-pdb-used-up": EvictionResult.BUDGET,
    "evict-429-unready-default-policy": EvictionResult.BUDGET,
    "evict-429-pdb-not-processed": EvictionResult.BUDGET_UNSETTLED,
    "evict-500-two-pdbs": EvictionResult.SEVERAL_BUDGETS,
    "evict-401": None,
    "evict-403-rbac": None,
    "evict-403-anonymous": None,
    "evict-400-name-mismatch": None,
    "evict-422-bad-delete-options": None,
    "evict-415": None,
}


@pytest.mark.parametrize("name", MEANING)
def test_each_recorded_answer_has_its_meaning(name: str) -> None:
    response = recorded(name)["response"]
    headers = {key.lower(): value for key, value in response["headers"].items()}
    found = eviction_answer(
        Answer(response["status"], headers, json.dumps(response["body"]).encode()), dry_run=False
    )
    assert (found.result if found else None) == MEANING[name]
    if found and found.result is EvictionResult.BUDGET_UNSETTLED:
        assert (found.budget, found.retry_after_seconds) == ("bare-pdb", 10.0)
    if name == "evict-429-pdb-bare-pods":
        assert found is not None
        assert (found.budget, found.needs) == ("bare-pdb", None)


def test_a_server_that_gave_up_is_busy() -> None:
    body = b'{"kind":"Status","reason":"Timeout","details":{"retryAfterSeconds":10},"code":504}'
    found = eviction_answer(Answer(504, {}, body), dry_run=False)
    assert found is not None
    assert (found.result, found.retry_after_seconds) == (EvictionResult.BUSY, 10.0)


# -- nodes -----------------------------------------------------------------------------------------


def test_cordon_and_uncordon(client: KubernetesClient) -> None:
    node, changed = client.node.cordon("gpu-a")
    assert (node.is_schedulable, changed) == (False, True)
    assert client.node.cordon("gpu-a")[1] is False
    node, changed = client.node.uncordon("gpu-a")
    assert (node.is_schedulable, node.spec.taints, changed) == (True, (), True)
    assert client.node.uncordon("gpu-a")[1] is False


def test_a_soft_taint_comes_and_goes_beside_others(
    client: KubernetesClient, fake: FakeKubernetes
) -> None:
    theirs = {
        "key": "gpu",
        "value": "x",
        "effect": "NoExecute",
        "timeAdded": "2026-01-01T00:00:00Z",
    }
    fake.state.add(NODES, node_json("gpu-b", {}, taints=[theirs]))
    node, changed = client.node.add_soft_taint("gpu-b", "gpuctl.io/hot", "run-1")
    assert changed
    assert [(t.key, t.value, t.effect) for t in node.spec.taints] == [
        ("gpu", "x", "NoExecute"),
        ("gpuctl.io/hot", "run-1", "PreferNoSchedule"),
    ]
    assert client.node.add_soft_taint("gpu-b", "gpuctl.io/hot", "run-1")[1] is False
    assert client.node.remove_soft_taint("gpu-b", "gpuctl.io/hot")[1]
    assert client.node.remove_soft_taint("gpu-b", "gpuctl.io/hot")[1] is False
    stored = fake.state.get(NODES, "gpu-b")
    assert stored is not None
    assert stored["spec"]["taints"] == [theirs]


def test_annotations(client: KubernetesClient) -> None:
    node, _ = client.node.annotate("gpu-a", {"gpuctl.io/until": "soon"})
    assert node.metadata.annotations == {"gpuctl.io/until": "soon"}
    assert client.node.annotate("gpu-a", {"gpuctl.io/until": "soon"})[1] is False
    node, changed = client.node.annotate("gpu-a", {"gpuctl.io/until": None})
    assert (node.metadata.annotations, changed) == ({}, True)


def test_a_taint_of_somebody_else_in_between_is_not_lost(
    client: KubernetesClient, fake: FakeKubernetes
) -> None:
    done = [False]

    def meddle(request: Request) -> None:
        if request.method == "PATCH" and not done[0]:
            done[0] = True
            node = fake.state.get(NODES, "gpu-a")
            assert node is not None
            taint = {"key": "theirs", "effect": "NoSchedule"}
            fake.state.change(NODES, node | {"spec": node["spec"] | {"taints": [taint]}})

    fake.intercept = meddle
    node, _ = client.node.add_soft_taint("gpu-a", "gpuctl.io/hot")
    assert [taint.key for taint in node.spec.taints] == ["theirs", "gpuctl.io/hot"]


def test_a_node_that_changes_all_the_time_is_given_up(
    client: KubernetesClient, fake: FakeKubernetes
) -> None:
    def meddle(request: Request) -> None:
        node = fake.state.get(NODES, "gpu-a")
        if request.method == "PATCH" and node is not None:
            fake.state.change(NODES, node)

    fake.intercept = meddle
    with pytest.raises(ConflictError):
        client.node.cordon("gpu-a")


def test_an_unknown_node_and_a_missing_right(
    client: KubernetesClient, fake: FakeKubernetes
) -> None:
    with pytest.raises(NotFoundError, match="no node gpu-z"):
        client.node.cordon("gpu-z")
    fake.rights["oncall"] = (Right(("get",), ("nodes",)),)
    with pytest.raises(ForbiddenError) as caught:
        client.node.cordon("gpu-a")
    assert caught.value.rule == '{apiGroups: [""], resources: [nodes], verbs: [patch]}'


# -- leases, intents, events -----------------------------------------------------------------------


def held(by: str, at: datetime = NOON, seconds: int = 15) -> LeaseSpec:
    return LeaseSpec(
        holder_identity=by,
        lease_duration_seconds=seconds,
        acquire_time=at,
        renew_time=at,
        lease_transitions=0,
    )


def test_a_lease_goes_from_hand_to_hand(client: KubernetesClient) -> None:
    assert client.leases.get("prod", "lock") is None
    mine = client.leases.create("prod", "lock", held("me"))
    assert mine.server_time is not None
    with pytest.raises(ConflictError):
        client.leases.create("prod", "lock", held("you"))
    renewed = client.leases.update(mine.lease, held("me", NOON + timedelta(seconds=5)))
    with pytest.raises(ConflictError):
        client.leases.update(mine.lease, held("you"))
    free = client.leases.release(renewed.lease)
    assert free.lease.spec.holder_identity == ""
    assert not free.is_held(NOON)
    yours = client.leases.update(free.lease, held("you"))
    seen = client.leases.get("prod", "lock")
    assert seen is not None
    assert seen.lease == yours.lease


@pytest.mark.parametrize(
    ("spec", "after", "expected"),
    [
        (held("me"), 0, True),
        (held("me"), 20, True),
        (held("me"), 21, False),
        (held(""), 0, False),
        (LeaseSpec(holder_identity="me"), 9999, True),
    ],
)
def test_a_lease_is_held_until_it_expires(spec: LeaseSpec, after: int, expected: bool) -> None:
    from gpuctl.clients.kubernetes.leases import SeenLease
    from gpuctl.clients.kubernetes.wire import Lease

    seen = SeenLease(Lease(spec=spec), None)
    assert seen.is_held(NOON + timedelta(seconds=after)) is expected


def test_times_have_six_digits() -> None:
    assert as_micro_time(datetime(2026, 1, 1, tzinfo=UTC)) == "2026-01-01T00:00:00.000000Z"
    with pytest.raises(ValueError, match="time zone"):
        as_micro_time(datetime(2026, 1, 1))  # noqa: DTZ001 - that is the test


def test_intents_are_kept_by_version(client: KubernetesClient) -> None:
    assert client.config_maps.get("prod", "gpuctl-intents") is None
    first = client.config_maps.create("prod", "gpuctl-intents", {"a": "1"})
    second = client.config_maps.update(first, {"b": "2"})
    assert second.data == {"b": "2"}
    with pytest.raises(ConflictError):
        client.config_maps.update(first, {"c": "3"})
    assert client.config_maps.get("prod", "gpuctl-intents") == second


def test_events_are_written(client: KubernetesClient, fake: FakeKubernetes) -> None:
    regarding = Regarding("Pod", "chat-5d8-0", "prod", uid="u")
    note = EventNote(regarding, "Evict", "GPUOverloaded", "x" * 2000)
    client.record(note, instance="host-a_1")
    client.record(EventNote(Regarding("Node", "gpu-a"), "Cordon", "GPUHot", "t"), instance="h")
    created = [json.loads(r.body) for r in fake.requests if r.method == "POST"]
    assert len(created[0]["note"]) == 1024
    assert created[1]["metadata"]["namespace"] == "default"


def test_an_event_has_the_recorded_shape() -> None:
    at = datetime(2026, 12, 1, 1, 30, 1, 349793, tzinfo=UTC)
    note = EventNote(
        Regarding("Pod", "evd", "rig", uid="c39f8494-efc2-44e9-92e8-c9b4c97449f1"),
        "Evict",
        "GPUOverloaded",
        "Evicted from gpu-node-1",
        related=Regarding("Node", "gpu-node-1"),
    )
    ours, theirs = event_body(note, instance="h", now=at), recorded("event-201")["request"]["body"]
    assert set(ours) == set(theirs)
    assert ours["eventTime"] == theirs["eventTime"]
    assert ours["related"] == theirs["related"]


def test_an_event_into_a_missing_namespace_is_an_error_to_ignore(client: KubernetesClient) -> None:
    with pytest.raises(BackendError):
        client.record(EventNote(Regarding("Pod", "p", "nowhere"), "E", "R", "t"), instance="h")


def test_budgets_are_listed_with_numbers(client: KubernetesClient, fake: FakeKubernetes) -> None:
    fake.state.add_budget(budget_json("prod", "b", SELECTOR, max_unavailable="50%"))
    (budget,) = client.budgets()
    assert budget.status.disruptions_allowed == 2
    made = fake.state.get(BUDGETS, "b", "prod")
    assert made is not None
    assert budget.spec.max_unavailable == "50%"

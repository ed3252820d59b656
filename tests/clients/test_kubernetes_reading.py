"""Lists in pages and single objects, over servers that forget, break, stall or are none."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuctl.clients.kubernetes.problems import (
    ApiRefusedError,
    ForbiddenError,
    GoneError,
    OverloadedError,
)
from gpuctl.clients.kubernetes.reading import Selection
from gpuctl.clock import Deadline, FixedClock
from gpuctl.errors import BackendError, TimeoutReached
from tests.clients.kubernetes_clients import client_of, write_kubeconfig
from tests.fakes.http_server import FakeServer, Reply, Request, script
from tests.fakes.kubernetes import FakeKubernetes, Right, times
from tests.fakes.kubernetes_answers import BY_KIND, OVERLOAD, PODS
from tests.fakes.kubernetes_objects import PodSpec, budget_json
from tests.fakes.kubernetes_recordings import NOON, recorded


def crowd(fake: FakeKubernetes, count: int) -> list[str]:
    for index in range(count):
        fake.state.add_pod(PodSpec(f"p{index:03}", f"ns{index % 3}", labels={"i": str(index % 2)}))
    return sorted(f"ns{index % 3}/p{index:03}" for index in range(count))


def is_list(request: Request) -> bool:
    return request.path == "/api/v1/pods"


def is_next_page(request: Request) -> bool:
    return is_list(request) and request.param("continue") is not None


@pytest.fixture
def fake() -> Any:
    with FakeKubernetes(NOON) as made:
        yield made


def test_pages_are_put_together(fake: FakeKubernetes, tmp_path: Path) -> None:
    names = crowd(fake, 11)
    with client_of(fake.kubeconfig(tmp_path)) as client:
        assert [pod.id for pod in client.pods(page_size=4)] == names
    lists = [request for request in fake.requests if is_list(request)]
    assert [request.param("limit") for request in lists] == ["4", "4", "4"]
    assert all(request.param("resourceVersion") is None for request in lists)


def test_pages_are_of_500(fake: FakeKubernetes, tmp_path: Path) -> None:
    with client_of(fake.kubeconfig(tmp_path)) as client:
        assert client.pods() == ()
    assert fake.requests[0].param("limit") == "500"


@settings(
    deadline=None,
    max_examples=20,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    count=st.integers(0, 25),
    size=st.integers(1, 9),
    expires_before=st.none() | st.integers(1, 6),
    busy=st.integers(0, 2),
)
def test_every_pod_once_however_the_pages_fall(
    tmp_path: Path, count: int, size: int, expires_before: int | None, busy: int
) -> None:
    """One 410 anywhere and a busy server change nothing but the number of requests."""
    with FakeKubernetes(NOON) as fake:
        names = crowd(fake, count)
        overload = times(busy, OVERLOAD, is_list)
        seen = [0]

        def intercept(request: Request) -> Reply | None:
            reply = overload(request)
            if reply is None and is_list(request):
                seen[0] += 1
                if seen[0] == expires_before:
                    fake.lists.forget_moments()
            return reply

        fake.intercept = intercept
        with client_of(fake.kubeconfig(tmp_path)) as client:
            pods, version = client.pods_at(page_size=size)
        assert [pod.id for pod in pods] == names
        assert version == str(fake.state.version)


def test_pages_show_one_moment(fake: FakeKubernetes, tmp_path: Path) -> None:
    """A pod that comes between two pages is not in the list, even when its name would be."""
    names = crowd(fake, 6)

    def add_one(request: Request) -> Reply | None:
        if is_next_page(request) and fake.state.get(PODS, "zzz", "ns9") is None:
            fake.state.add_pod(PodSpec("zzz", "ns9"))
        return None

    fake.intercept = add_one
    with client_of(fake.kubeconfig(tmp_path)) as client:
        assert [pod.id for pod in client.pods(page_size=4)] == names


def test_after_an_expired_token_the_list_is_begun_anew(
    fake: FakeKubernetes, tmp_path: Path
) -> None:
    """Not gone on with: the first pages would be of another moment."""
    crowd(fake, 6)

    def change_and_forget(request: Request) -> Reply | None:
        if is_next_page(request) and fake.state.get(PODS, "p000", "ns0"):
            fake.state.remove(PODS, "p000", "ns0")
            fake.lists.forget_moments()
        return None

    fake.intercept = change_and_forget
    with client_of(fake.kubeconfig(tmp_path)) as client:
        found = [pod.id for pod in client.pods(page_size=4)]
    assert "ns0/p000" not in found
    assert len(found) == 5


def test_a_list_that_expires_again_is_given_up(fake: FakeKubernetes, tmp_path: Path) -> None:
    crowd(fake, 6)

    def forget(request: Request) -> None:
        fake.lists.forget_moments()

    fake.intercept = forget
    with client_of(fake.kubeconfig(tmp_path)) as client, pytest.raises(GoneError) as caught:
        client.pods(page_size=4)
    assert "changed faster than it could be read" in caught.value.what
    assert len(fake.requests) == 4


def test_a_server_that_never_ends_a_list_is_left(tmp_path: Path) -> None:
    page = {"metadata": {"resourceVersion": "1", "continue": "again"}, "items": []}
    reply = Reply(body=json.dumps(page).encode(), content_type="application/json")
    with FakeServer(reply) as server:
        path = write_kubeconfig(tmp_path, server.url, {"token": "t"})
        with client_of(path) as client, pytest.raises(BackendError, match="never ends"):
            client.pods()


def test_selectors_are_the_servers(fake: FakeKubernetes, tmp_path: Path) -> None:
    names = crowd(fake, 8)
    fake.state.add_pod(PodSpec("other", "ns0", node="gpu-b", labels={"i": "0"}))
    with client_of(fake.kubeconfig(tmp_path)) as client:
        inside = client.pods(Selection(namespace="ns1"))
        assert [pod.id for pod in inside] == [name for name in names if name.startswith("ns1")]
        there = client.pods(Selection(fields="spec.nodeName=gpu-b"))
        assert [pod.id for pod in there] == ["ns0/other"]
        odd = client.pods(Selection(labels="i in (1)"))
        assert len(odd) == 4
        with pytest.raises(ApiRefusedError) as caught:
            client.pods(Selection(fields="spec.priority=1"))
    assert "field label not supported: spec.priority" in (caught.value.cause or "")


@pytest.mark.parametrize(
    "trouble",
    [
        OVERLOAD,
        Reply(502, b"bad gateway"),
        Reply(503),
        Reply(drop=True),
        Reply(body=b'{"items": []}' * 100, cut_at=20),
    ],
    ids=["overload", "502", "503", "drop", "cut"],
)
def test_passing_trouble_in_the_middle_of_paging_is_tried_again(
    fake: FakeKubernetes, tmp_path: Path, trouble: Reply
) -> None:
    names = crowd(fake, 6)
    fake.intercept = times(2, trouble, is_next_page)
    with client_of(fake.kubeconfig(tmp_path)) as client:
        assert [pod.id for pod in client.pods(page_size=4)] == names


def test_a_server_that_dies_while_paging_is_an_error_not_half_a_list(
    fake: FakeKubernetes, tmp_path: Path
) -> None:
    crowd(fake, 6)
    fake.intercept = times(99, Reply(drop=True), is_next_page)
    with client_of(fake.kubeconfig(tmp_path)) as client, pytest.raises(BackendError) as caught:
        client.pods(page_size=4)
    assert "closed the connection" in caught.value.what
    assert fake.url in caught.value.what


def test_overload_that_stays_is_no_word_about_a_budget(
    fake: FakeKubernetes, tmp_path: Path
) -> None:
    waits: list[float] = []
    fake.intercept = times(99, OVERLOAD, is_list)
    with (
        client_of(fake.kubeconfig(tmp_path), sleep=waits.append) as client,
        pytest.raises(OverloadedError) as caught,
    ):
        client.pods()
    assert waits == [1.0, 1.0]
    assert caught.value.retry_after_seconds == 1.0
    assert "tried 3 times" in (caught.value.cause or "")


@pytest.mark.parametrize(
    ("reply", "what", "cause"),
    [
        (
            Reply(200, b"<html><title>Sign in</title></html>", content_type="text/html"),
            "does not answer as a Kubernetes API",
            "a web page: Sign in",
        ),
        (Reply(200, b'{"items": [{"metadata": {"na'), "can't be read", "truncated"),
        (Reply(200, b'{"items": [{"metadata": 5}]}'), "can't be read", "metadata"),
        (Reply(200, b'{"items": [{"metadata": {"name": "\xff"}}]}'), "can't be read", "bytes"),
        (Reply(500, b"oops"), "does not answer as a Kubernetes API", "HTTP 500 with text/plain"),
        (Reply(302, b"", headers={"Location": "https://login"}), "does not answer", "HTTP 302"),
        (Reply(418, b'{"kind":"Status","message":"no"}'), "HTTP 418", "no"),
    ],
)
def test_nonsense_is_named(tmp_path: Path, reply: Reply, what: str, cause: str) -> None:
    with FakeServer(reply) as server:
        path = write_kubeconfig(tmp_path, server.url, {"token": "t"})
        with client_of(path) as client, pytest.raises(BackendError) as caught:
            client.pods()
    assert what in caught.value.what
    assert cause in (caught.value.cause or "")


def test_nobody_listens(tmp_path: Path) -> None:
    with FakeServer(Reply()) as server:
        url = server.url
    path = write_kubeconfig(tmp_path, url, {"token": "t"})
    with client_of(path) as client, pytest.raises(BackendError) as caught:
        client.pods()
    assert "connection refused" in (caught.value.cause or "")


def test_a_name_that_nobody_knows(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, "https://no.such.invalid", {"token": "t"})
    with client_of(path) as client, pytest.raises(BackendError) as caught:
        client.pods()
    assert "name resolution failed" in (caught.value.cause or "")


@pytest.mark.parametrize("late", ["head", "body"])
def test_a_slow_server_is_left_after_the_request_timeout(tmp_path: Path, late: str) -> None:
    never = threading.Event()
    reply = Reply(wait_for=never) if late == "head" else Reply(body=b"{}", body_waits_for=never)
    with FakeServer(reply) as server:
        path = write_kubeconfig(tmp_path, server.url, {"token": "t"})
        with (
            client_of(path, request_timeout=0.05) as client,
            pytest.raises(BackendError, match=r"did not answer within 0.05s"),
        ):
            client.pods()
        assert len(server.requests) == 1


def test_the_time_of_the_whole_command_is_another_error(tmp_path: Path) -> None:
    clock = FixedClock(NOON)
    deadline = Deadline.after(5, clock)
    clock.at += timedelta(seconds=6)
    with FakeServer(Reply()) as server:
        path = write_kubeconfig(tmp_path, server.url, {"token": "t"})
        with (
            client_of(path, deadline=deadline, clock=clock) as client,
            pytest.raises(TimeoutReached),
        ):
            client.pods()


def test_a_missing_right_is_named_with_the_rule_to_add(
    fake: FakeKubernetes, tmp_path: Path
) -> None:
    fake.rights["oncall"] = (Right(("list",), ("nodes",)),)
    reads: dict[str, Callable[[Any], object]] = {
        '{apiGroups: [""], resources: [pods], verbs: [list]}': lambda client: client.pods(),
        "{apiGroups: [policy], resources: [poddisruptionbudgets], verbs: [list]}": (
            lambda client: client.budgets()
        ),
        "{apiGroups: [apps], resources: [replicasets], verbs: [list]}": (
            lambda client: client.replica_sets()
        ),
        '{apiGroups: [""], resources: [pods], verbs: [get]}': (
            lambda client: client.read_pod("a", "b")
        ),
    }
    with client_of(fake.kubeconfig(tmp_path)) as client:
        client.nodes()
        for rule, read in reads.items():
            with pytest.raises(ForbiddenError) as caught:
                read(client)
            assert caught.value.rule == rule
            assert rule in (caught.value.hint or "")
            assert 'User "oncall" cannot' in (caught.value.cause or "")


def test_single_objects_are_there_or_not(fake: FakeKubernetes, tmp_path: Path) -> None:
    fake.state.add_pod(PodSpec("p", "ns", labels={"app": "x"}))
    fake.state.add_budget(budget_json("ns", "b", {"app": "x"}, min_available=1))
    with client_of(fake.kubeconfig(tmp_path)) as client:
        pod = client.read_pod("ns", "p")
        assert pod is not None
        assert pod.is_ready
        assert client.read_pod("ns", "q") is None
        assert client.read_node("n") is None
        budget = client.read_budget("ns", "b")
        assert budget is not None
        assert budget.is_processed
        assert budget.status.disruptions_allowed == 0
        assert budget.status.current_healthy == 1


def test_owners_come_as_metadata_only(fake: FakeKubernetes, tmp_path: Path) -> None:
    fake.state.add_pod(PodSpec("chat-5d8-x", "ns", owner=("ReplicaSet", "chat-5d8")))
    with client_of(fake.kubeconfig(tmp_path)) as client:
        (replica_set,) = client.replica_sets()
    assert replica_set.metadata.controller is not None
    assert replica_set.metadata.controller.name == "chat"
    assert "PartialObjectMetadataList" in fake.requests[0].headers["accept"]


def test_priority_classes(fake: FakeKubernetes, tmp_path: Path) -> None:
    kind = BY_KIND["PriorityClass"]
    fake.state.add(kind, {"metadata": {"name": "high"}, "value": 1000})
    with client_of(fake.kubeconfig(tmp_path)) as client:
        (found,) = client.priority_classes()
    assert (found.metadata.name, found.value) == ("high", 1000)


def test_may_asks_the_server(fake: FakeKubernetes, tmp_path: Path) -> None:
    from gpuctl.clients.kubernetes import reading

    fake.rights["oncall"] = (Right(("create",), ("pods/eviction",), namespace="prod"),)
    with client_of(fake.kubeconfig(tmp_path)) as client:
        yes = client.may("create", reading.PODS, sub="eviction", namespace="prod")
        no = client.may("create", reading.PODS, sub="eviction")
    assert (yes.allowed, no.allowed) == (True, False)
    assert no.rule == '{apiGroups: [""], resources: [pods/eviction], verbs: [create]}'
    sent = json.loads(fake.requests[1].body)
    assert sent == recorded("ssar-denied")["request"]["body"]


def test_dying_server_after_a_good_start_of_many_threads(
    fake: FakeKubernetes, tmp_path: Path
) -> None:
    """One login and one renewal, however many threads ask at once."""
    crowd(fake, 3)
    path = fake.kubeconfig(tmp_path)
    refused = threading.Event()

    def refuse_first(request: Request) -> Reply | None:
        if not refused.is_set():
            refused.set()
            return Reply(401, b"{}")
        return None

    fake.intercept = refuse_first
    with client_of(path) as client:
        found: list[int] = []
        threads = [
            threading.Thread(target=lambda: found.append(len(client.pods()))) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [3] * 8
    assert len(fake.requests) == 9


def test_after_half_an_answer_the_connection_is_not_used_again(
    fake: FakeKubernetes, tmp_path: Path
) -> None:
    """What is left of it would be taken for the next answer."""
    names = crowd(fake, 3)
    packed = Reply(body=b"not gzip " * 99, headers={"Content-Encoding": "gzip"})
    fake.intercept = times(1, packed, is_list)
    with client_of(fake.kubeconfig(tmp_path)) as client:
        with pytest.raises(BackendError, match="can't be unpacked"):
            client.pods()
        assert [pod.id for pod in client.pods()] == names


def test_busy_answers_of_a_script_end_well(tmp_path: Path) -> None:
    good = Reply(body=b'{"gitVersion":"v1"}', content_type="application/json")
    with FakeServer(script(OVERLOAD, good)) as server:
        path = write_kubeconfig(tmp_path, server.url, {"token": "t"})
        with client_of(path) as client:
            assert client.version() == "v1"

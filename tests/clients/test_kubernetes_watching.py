"""Watching pods over ends, cuts, forgotten versions and servers that keep nothing open."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gpuctl.clients.kubernetes.problems import ApiRefusedError, ForbiddenError, GoneError
from gpuctl.clients.kubernetes.reading import Selection
from gpuctl.clock import Deadline, FixedClock
from gpuctl.errors import BackendError, TimeoutReached
from tests.clients.kubernetes_clients import client_of, write_kubeconfig
from tests.fakes.http_server import FakeServer, Reply, Request
from tests.fakes.kubernetes import FakeKubernetes, Right, times
from tests.fakes.kubernetes_answers import PODS
from tests.fakes.kubernetes_objects import PodSpec
from tests.fakes.kubernetes_recordings import NOON, recorded


@pytest.fixture
def fake() -> Iterator[FakeKubernetes]:
    with FakeKubernetes(NOON) as made:
        made.state.add_pod(
            PodSpec("chat-5d8-a", labels={"app": "chat"}, owner=("ReplicaSet", "chat-5d8"))
        )
        made.lists.holds_watches = False
        yield made


def is_watch(request: Request) -> bool:
    return request.param("watch") is not None


def move(fake: FakeKubernetes) -> None:
    """One pod goes, its successor comes and serves."""
    pod = fake.state.get(PODS, "chat-5d8-a", "prod")
    assert pod is not None
    fake.state.terminate(pod, 1)
    (new,) = fake.state.run_owners(ready=False)
    fake.state.make_ready("prod", new["metadata"]["name"])
    fake.state.step(1)


def take(events: Iterator[Any], count: int) -> list[tuple[str, bool, bool]]:
    found = []
    for event in events:
        found.append((event.kind, event.pod.is_ready, event.pod.is_terminating))
        if len(found) == count:
            break
    return found


MOVE = [
    ("modified", True, True),
    ("added", False, False),
    ("modified", True, False),
    ("deleted", True, True),
]


def test_the_changes_come_in_order(fake: FakeKubernetes, tmp_path: Path) -> None:
    with client_of(fake.kubeconfig(tmp_path)) as client:
        _, version = client.pods_at()
        move(fake)
        assert take(client.watch_pods(version, seconds=60), 4) == MOVE
    (request,) = [one for one in fake.requests if is_watch(one)]
    assert request.param("allowWatchBookmarks") == "true"
    assert request.param("timeoutSeconds") == "60"


def test_a_held_watch_tells_at_once(fake: FakeKubernetes, tmp_path: Path) -> None:
    fake.lists.holds_watches = True
    with client_of(fake.kubeconfig(tmp_path)) as client:
        _, version = client.pods_at()
        events = client.watch_pods(version, seconds=60)
        fake.intercept = lambda request: move(fake) if is_watch(request) else None
        assert take(events, 4) == MOVE


def test_a_selection_is_that_of_the_watch(fake: FakeKubernetes, tmp_path: Path) -> None:
    chosen = Selection(namespace="prod", labels="app=chat")
    with client_of(fake.kubeconfig(tmp_path)) as client:
        _, version = client.pods_at(chosen)
        fake.state.add_pod(PodSpec("other", "prod"))
        fake.state.add_pod(PodSpec("chat-x", "dev", labels={"app": "chat"}))
        move(fake)
        assert take(client.watch_pods(version, seconds=60, selection=chosen), 4) == MOVE


@pytest.mark.parametrize(
    "trouble",
    [Reply(drop=True), Reply(stream=iter([b'{"type": "MODI']), cut_stream=True)],
    ids=["drop", "cut"],
)
def test_a_cut_watch_is_taken_up_where_it_was(
    fake: FakeKubernetes, tmp_path: Path, trouble: Reply
) -> None:
    fake.intercept = times(1, trouble, is_watch)
    with client_of(fake.kubeconfig(tmp_path)) as client:
        _, version = client.pods_at()
        move(fake)
        assert take(client.watch_pods(version, seconds=60), 4) == MOVE
    assert len([one for one in fake.requests if is_watch(one)]) == 2


def test_an_expired_token_is_renewed_once(fake: FakeKubernetes, tmp_path: Path) -> None:
    fake.intercept = times(1, Reply(401, b"{}"), is_watch)
    with client_of(fake.kubeconfig(tmp_path)) as client:
        _, version = client.pods_at()
        move(fake)
        assert take(client.watch_pods(version, seconds=60), 4) == MOVE
        fake.tokens.clear()
        with pytest.raises(ApiRefusedError, match="does not accept the credentials"):
            list(client.watch_pods(version, seconds=60))


def test_after_a_cut_no_event_comes_twice(fake: FakeKubernetes, tmp_path: Path) -> None:
    with client_of(fake.kubeconfig(tmp_path)) as client:
        _, version = client.pods_at()
        move(fake)
        first = fake.state.changes[-4:]
        line = {"type": "MODIFIED", "object": next(c for c in first if c.kind is PODS).obj}
        broken = Reply(stream=iter([json.dumps(line).encode() + b"\n"]), cut_stream=True)
        fake.intercept = times(1, broken, is_watch)
        assert take(client.watch_pods(version, seconds=60), 4) == MOVE


def test_a_forgotten_version_lists_again(fake: FakeKubernetes, tmp_path: Path) -> None:
    with client_of(fake.kubeconfig(tmp_path)) as client:
        _, version = client.pods_at()
        move(fake)
        fake.state.oldest_version = fake.state.version
        events = client.watch_pods(version, seconds=60)
        event = next(events)
        assert event.kind == "relisted"
        assert [pod.id.partition("-")[0] for pod in event.pods] == ["prod/chat"]
        fake.state.add_pod(PodSpec("later", "prod"))
        assert next(events).kind == "added"


def test_a_version_that_is_always_forgotten_ends_it(fake: FakeKubernetes, tmp_path: Path) -> None:
    fake.state.oldest_version = 10**9
    with client_of(fake.kubeconfig(tmp_path)) as client, pytest.raises(GoneError):
        list(client.watch_pods("1", seconds=60))


def test_the_recorded_events_are_understood(tmp_path: Path) -> None:
    lines = [json.dumps(one).encode() + b"\n" for one in recorded("watch-events")["events"]]
    stream = Reply(stream=iter(lines), content_type="application/json")
    with FakeServer(stream) as server:
        path = write_kubeconfig(tmp_path, server.url, {"token": "t"})
        with client_of(path) as client:
            events = client.watch_pods("1300", seconds=60)
            found = [(e.kind, e.resource_version) for e in (next(events) for _ in range(4))]
    assert found == [
        ("modified", "1357"),
        ("modified", "1358"),
        ("modified", "1360"),
        ("deleted", "1361"),
    ]


def test_a_server_that_ends_every_watch_at_once_is_left(tmp_path: Path) -> None:
    waits: list[float] = []
    with FakeServer(Reply(content_type="application/json")) as server:
        path = write_kubeconfig(tmp_path, server.url, {"token": "t"})
        with (
            client_of(path, sleep=waits.append) as client,
            pytest.raises(BackendError) as caught,
        ):
            list(client.watch_pods("1", seconds=60))
    assert "does not keep a watch open" in caught.value.what
    assert len(waits) == 3
    assert waits[0] < waits[1]


def test_no_right_to_watch(fake: FakeKubernetes, tmp_path: Path) -> None:
    fake.rights["oncall"] = (Right(("list",), ("pods",)),)
    with client_of(fake.kubeconfig(tmp_path)) as client, pytest.raises(ForbiddenError) as caught:
        list(client.watch_pods("1", seconds=60))
    assert caught.value.rule == '{apiGroups: [""], resources: [pods], verbs: [watch]}'


def test_the_watch_ends_with_its_time(fake: FakeKubernetes, tmp_path: Path) -> None:
    clock = FixedClock(NOON)

    def later(request: Request) -> None:
        if is_watch(request):
            clock.at += timedelta(seconds=30)

    fake.intercept = later
    with client_of(fake.kubeconfig(tmp_path), clock=clock) as client:
        _, version = client.pods_at()
        assert list(client.watch_pods(version, seconds=50)) == []
    sent = [one.param("timeoutSeconds") for one in fake.requests if is_watch(one)]
    assert sent == ["50", "20"]


def test_a_watch_obeys_the_time_of_the_whole_command(fake: FakeKubernetes, tmp_path: Path) -> None:
    clock = FixedClock(NOON)
    fake.intercept = times(99, Reply(drop=True), is_watch)
    deadline = Deadline.after(0.1, clock)
    with (
        client_of(fake.kubeconfig(tmp_path), clock=clock, deadline=deadline) as client,
        pytest.raises(TimeoutReached),
    ):
        list(client.watch_pods("1", seconds=60))

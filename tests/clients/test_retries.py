"""When a request is repeated, how long is waited before, and when it is not."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from gpuctl.clients.http import HttpSession, Limits, Request, Retry
from gpuctl.clock import Deadline, FixedClock
from gpuctl.errors import BackendError
from tests.clients.conftest import Connect
from tests.fakes.http_server import FakeServer, Reply, script

NOON = datetime(2025, 3, 1, 12, tzinfo=UTC)
GOOD = Reply(body=b'{"status":"success","data":{"resultType":"vector","result":[]}}')


def busy(status: int = 429, **headers: str) -> Reply:
    return Reply(status, b"busy", headers={k.replace("_", "-"): v for k, v in headers.items()})


@pytest.mark.parametrize(
    "trouble",
    [busy(429), busy(502), busy(503), busy(504), Reply(drop=True), Reply(body=b"{}", cut_at=1)],
    ids=["429", "502", "503", "504", "drop", "cut"],
)
def test_passing_trouble_is_tried_again(
    connect: Connect, slept: list[float], trouble: Reply
) -> None:
    with FakeServer(script(trouble, trouble, GOOD)) as server:
        connect(server.url).instant("X")
        assert len(server.requests) == 3
    first, second = slept
    assert 0 < first < second < 2


def test_the_pause_depends_on_chance(connect: Connect, slept: list[float]) -> None:
    for chance in (0.0, 0.99):
        with FakeServer(script(busy(503), GOOD)) as server:
            connect(server.url, options={"random": lambda c=chance: c}).instant("X")
    assert slept[0] < slept[1]


@pytest.mark.parametrize("status", [400, 401, 422, 500])
def test_lasting_trouble_is_not(connect: Connect, slept: list[float], status: int) -> None:
    with FakeServer(Reply(status, b"no")) as server:
        with pytest.raises(BackendError):
            connect(server.url).instant("X")
        assert len(server.requests) == 1
    assert slept == []


def test_stops_after_two_retries(connect: Connect) -> None:
    with FakeServer(busy(503)) as server:
        with pytest.raises(BackendError) as caught:
            connect(server.url).instant("X")
        assert len(server.requests) == 3
    assert "tried 3 times" in (caught.value.cause or "")


@pytest.mark.parametrize(
    ("headers", "pause"),
    [
        ({"Retry_After": "7"}, 7.0),
        ({"Retry_After": format_datetime(NOON + timedelta(seconds=9), usegmt=True)}, 9.0),
        ({"Retry_After": format_datetime(NOON - timedelta(seconds=9), usegmt=True)}, 0.0),
    ],
)
def test_waits_as_long_as_the_server_asks(
    connect: Connect, slept: list[float], headers: dict[str, str], pause: float
) -> None:
    # Both sides of a date come from the server: our own clock may be minutes off.
    reply = busy(429, Date=format_datetime(NOON, usegmt=True), **headers)
    with FakeServer(script(reply, GOOD)) as server:
        connect(server.url).instant("X")
    assert slept == [pause]


def test_nonsense_in_retry_after_is_ignored(connect: Connect, slept: list[float]) -> None:
    with FakeServer(script(busy(429, Retry_After="soon"), GOOD)) as server:
        connect(server.url).instant("X")
    assert 0 < slept[0] < 1


def test_says_when_the_wait_would_be_longer_than_the_time_left(
    connect: Connect, slept: list[float]
) -> None:
    clock = FixedClock(NOON)
    options = {"clock": clock, "deadline": Deadline.after(timedelta(seconds=40), clock)}
    with FakeServer(busy(429, Retry_After="120")) as server, pytest.raises(BackendError) as caught:
        connect(server.url, options=options).instant("X")
    assert "120s" in (caught.value.cause or "")
    assert "40s of --timeout" in (caught.value.cause or "")
    assert slept == []


def test_never_waits_for_an_hour(connect: Connect, slept: list[float]) -> None:
    with FakeServer(busy(503, Retry_After="3600")) as server, pytest.raises(BackendError) as caught:
        connect(server.url).instant("X")
    assert "asks to wait 3600s" in (caught.value.cause or "")
    assert slept == []


def test_tells_about_each_retry(connect: Connect) -> None:
    told: list[Retry] = []
    with FakeServer(script(busy(503, Retry_After="2"), GOOD)) as server:
        connect(server.url, options={"on_retry": told.append}).instant("X")
        url = server.url
    assert told == [Retry(url, "HTTP 503", 1, 2.0)]


def test_no_retry_once_another_request_has_failed() -> None:
    cancelled = threading.Event()
    session = HttpSession(
        Limits(20.0),
        environ={},
        on_retry=lambda _: cancelled.set(),  # fails during the pause
    )
    with FakeServer(busy(503, Retry_After="50")) as server:
        request = Request("GET", server.url, server.url)
        answers = [session.send(request, cancelled) for _ in range(2)]
        assert len(server.requests) == 2
    session.close()
    assert [a.gave_up for a in answers] == ["another request failed first"] * 2

"""Every way in which Prometheus is not there: the words and the exit code for 3 am."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gpuctl.clock import Deadline, FixedClock, SystemClock
from gpuctl.errors import BackendError, GpuctlError, TimeoutReached
from gpuctl.exitcodes import ExitCode
from tests.clients.conftest import Connect
from tests.fakes.http_server import FakeServer, Reply
from tests.fakes.prometheus import error

HTML = "text/html; charset=utf-8"
JSON = "application/json"
GOOD = b'{"status":"success","data":{"resultType":"vector","result":[]}}'


def failure(connect: Connect, reply: Reply, **settings: str) -> GpuctlError:
    """What a query ends with when the server always gives this reply."""
    with FakeServer(reply) as server, pytest.raises(GpuctlError) as caught:
        connect(server.url, **settings).instant("X")
    assert caught.value.exit_code is ExitCode.BACKEND
    return caught.value


def says(problem: GpuctlError) -> str:
    return f"{problem} | {problem.cause} | {problem.hint}"


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        pytest.param(Reply(404, b"404 page not found"), ["404", "/prometheus"], id="404"),
        pytest.param(Reply(401, b"no"), ["denies access", "no credential", "token_file"], id="401"),
        pytest.param(
            Reply(401, b"<html>Sign in", content_type=HTML), ["denies access", "401"], id="401 page"
        ),
        pytest.param(Reply(401, b"no org id"), ["X-Scope-OrgID"], id="no tenant"),
        pytest.param(Reply(403, b"no"), ["denies access", "403"], id="403"),
        pytest.param(
            Reply(302, b"moved", headers={"Location": "https://sso.example/login?state=abcdef"}),
            ["this is a login page, not Prometheus", "sso.example"],
            id="302 to another host",
        ),
        pytest.param(
            Reply(302, headers={"Location": "/login"}), ["this is a login page"], id="302 here"
        ),
        pytest.param(Reply(302, headers={"Location": "//[oops"}), ["login page"], id="302 broken"),
        pytest.param(
            Reply(200, b"<!DOCTYPE html><title>Sign in", content_type=HTML),
            ["this is a login page, not Prometheus", "HTML"],
            id="200 with a page",
        ),
        pytest.param(
            Reply(200, b" <html>", content_type="text/plain"), ["login page"], id="unnamed page"
        ),
        pytest.param(error(400, "bad_data", "parse error: unexpected }"), ["bad_data", "selector"]),
        pytest.param(
            error(422, "execution", "many-to-many matching not allowed: matching labels"),
            ["execution", "many-to-many", "replicas"],
        ),
        pytest.param(
            error(422, "execution", "query processing would load too many samples into memory"),
            ["too many samples", "--step"],
        ),
        pytest.param(error(422, "execution", "x" * 5000), ["xxx..."], id="long reason"),
        pytest.param(error(503, "timeout", "query timed out in expression"), ["gave up", "timed"]),
        pytest.param(error(503, "unavailable", "starting"), ["not available", "starting"]),
        pytest.param(error(500, "internal", "disk is broken"), ["internal", "disk is broken"]),
        pytest.param(
            Reply(503, b"<html>nginx", content_type=HTML),
            ["not available", "503", "--exporter"],
            id="503 page",
        ),
        pytest.param(Reply(502, b"Bad Gateway"), ["not available", "502"], id="502"),
        pytest.param(Reply(504, b"late"), ["not available", "504"], id="504"),
        pytest.param(Reply(429, b"slow down"), ["429", "tried 3 times"], id="429"),
        pytest.param(Reply(414), ["too long for a URL"], id="414"),
        pytest.param(
            Reply(400, b"Client sent an HTTP request to an HTTPS server.\n"), ["https://"], id="tls"
        ),
        pytest.param(Reply(418, b"tea"), ["418", "tea"], id="anything else"),
        pytest.param(Reply(200, GOOD[:40], content_type=JSON), ["cut off", "40 bytes"]),
        pytest.param(Reply(200, b"", content_type=JSON), ["cut off", "empty body"], id="empty"),
        pytest.param(Reply(200, GOOD, cut_at=20), ["cut off", "announced end"], id="cut"),
        pytest.param(
            Reply(200, GOOD, cut_at=20, chunked=True), ["cut off", "announced end"], id="cut chunks"
        ),
        pytest.param(
            Reply(200, GOOD * 9, cut_at=30, chunked=True, compress=True),
            ["cut off"],
            id="cut gzip in chunks",
        ),
        pytest.param(
            Reply(200, GOOD * 9, cut_at=30, until_close=True, compress=True),
            ["cut off", "compressed data"],
            id="cut gzip without a length",
        ),
        pytest.param(
            Reply(200, GOOD, headers={"Content-Encoding": "gzip"}), ["not valid gzip"], id="no gzip"
        ),
        pytest.param(
            Reply(200, GOOD, headers={"Content-Encoding": "br"}), ["not asked for"], id="brotli"
        ),
        pytest.param(Reply(200, b"pong"), ["does not answer like Prometheus", "pong"], id="text"),
        pytest.param(
            Reply(200, b'{"hello": 1}', content_type=JSON), ["another shape"], id="other JSON"
        ),
        pytest.param(
            Reply(200, b'{"status":"success","data":{"resultType":"tensor","result":[]}}'),
            ["another shape", "tensor"],
            id="unknown type",
        ),
        pytest.param(
            Reply(200, GOOD.replace(b"[]", b'[{"metric":{},"value":[1,"a"]}]')),
            ["another shape", "not a number"],
            id="no number",
        ),
        pytest.param(Reply(200, b'{"a": "\xff"}'), ["does not answer like"], id="not UTF-8"),
        pytest.param(error(200, "internal", "half a store"), ["internal", "half a store"]),
        pytest.param(Reply(drop=True), ["closed the connection"], id="dropped"),
    ],
)
def test_says_what_is_wrong_and_what_to_do(
    connect: Connect, reply: Reply, words: list[str]
) -> None:
    problem = failure(connect, reply)
    text = says(problem)
    assert [word for word in words if word not in text] == []
    assert problem.cause
    assert problem.hint
    assert max(len(part) for part in (problem.what, problem.cause, problem.hint)) < 450
    assert text.isprintable()


def test_names_the_kind_of_credential_that_was_refused(
    connect: Connect, secret_file: object
) -> None:
    path = secret_file("token", "a-very-secret-token\n")  # type: ignore[operator]
    problem = failure(connect, Reply(401, b"no"), token_file=path)
    assert f"a bearer token from {path}" in says(problem)


def test_nothing_listens(connect: Connect) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(BackendError) as caught:
            connect(f"http://127.0.0.1:{port}").instant("X")
    assert "refused" in says(caught.value)


def test_the_name_is_unknown(connect: Connect, slept: list[float]) -> None:
    with pytest.raises(BackendError) as caught:
        connect("http://prometheus.invalid:9090").instant("X")
    assert "can't find the address of http://prometheus.invalid:9090" in says(caught.value)


def test_a_slow_answer_is_the_request_timeouts(connect: Connect, slept: list[float]) -> None:
    reply = Reply(wait_for=threading.Event())
    with FakeServer(reply) as server, pytest.raises(BackendError) as caught:
        connect(server.url, options={"request_timeout": 0.05}).instant("X")
    assert "did not answer within 0.05s" in says(caught.value)
    assert "--request-timeout" in says(caught.value)
    assert slept == []  # another try would be as slow


def test_a_body_that_never_comes_is_a_timeout_too(connect: Connect) -> None:
    reply = Reply(body=GOOD, body_waits_for=threading.Event())
    with FakeServer(reply) as server, pytest.raises(BackendError, match="did not answer within"):
        connect(server.url, options={"request_timeout": 0.05}).instant("X")


def test_the_end_of_the_commands_time_is_another_error(connect: Connect) -> None:
    options = {"deadline": Deadline.after(0.05, SystemClock())}
    reply = Reply(wait_for=threading.Event())
    with FakeServer(reply) as server, pytest.raises(TimeoutReached) as caught:
        connect(server.url, options=options).instant("X")
    assert caught.value.exit_code is ExitCode.TIMEOUT
    assert "--timeout" in says(caught.value)


def test_nothing_is_sent_after_the_deadline(connect: Connect) -> None:
    clock = FixedClock(datetime(2025, 3, 1, tzinfo=UTC))
    options = {"deadline": Deadline.after(0, clock), "clock": clock}
    with FakeServer(Reply(body=GOOD)) as server:
        with pytest.raises(TimeoutReached):
            connect(server.url, options=options).instant("X")
        assert server.requests == []


def test_an_answer_that_drips_is_stopped_as_a_whole(connect: Connect) -> None:
    class Jumping(FixedClock):
        """Every look at it is 4 seconds later."""

        def monotonic(self) -> float:
            self.at = datetime.fromtimestamp(self.at.timestamp() + 4, UTC)
            return super().monotonic()

    clock = Jumping(datetime(2025, 3, 1, tzinfo=UTC))
    reply = Reply(body=b"x" * 5_000_000, chunked=True)
    with FakeServer(reply) as server, pytest.raises(BackendError, match="within 10s"):
        connect(server.url, options={"clock": clock, "request_timeout": 10}).instant("X")


def test_an_endless_answer_is_not_read_to_its_end(connect: Connect) -> None:
    with FakeServer(Reply(body=b" " * 3_000_000, compress=True)) as server:
        client = connect(server.url)
        session = client._session
        session.limits = replace(session.limits, most_bytes=2 << 20)
        with pytest.raises(BackendError, match="larger than 2 MiB"):
            client.instant("X")

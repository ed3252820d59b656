"""How we authenticate, and that nothing of it is ever shown."""

from __future__ import annotations

import base64
import json
import logging
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuctl.clients.exporter import scrape
from gpuctl.clients.prometheus import PrometheusClient
from gpuctl.errors import ConfigError, GpuctlError
from gpuctl.model.settings import PrometheusSettings
from tests.clients.conftest import Connect
from tests.fakes.http_server import FakeServer, Reply, Request
from tests.fakes.prometheus import FakePrometheus, vector

SecretFile = Callable[[str, str], str]


def sent_by(connect: Connect, path: str = "", user: str = "", **options: Any) -> str | None:
    """The Authorization header that a query carries."""
    environ = options.pop("environ", {})
    with FakePrometheus(lambda _: vector()) as prometheus:
        url = prometheus.url.replace("://", f"://{user}") + path
        connect(url, options={"environ": environ}, **options).instant("X")
        return prometheus.requests[0].headers.get("authorization")


def basic(pair: str) -> str:
    return "Basic " + base64.b64encode(pair.encode()).decode()


def test_no_credential(connect: Connect) -> None:
    assert sent_by(connect) is None


def test_bearer_token_of_a_variable(connect: Connect) -> None:
    sent = sent_by(connect, token_env="TOKEN", environ={"TOKEN": "abc\n"})
    assert sent == "Bearer abc"


def test_password_of_a_file_or_a_variable(connect: Connect, secret_file: SecretFile) -> None:
    path = secret_file("password", "pässword\n")
    assert sent_by(connect, username="me", password_file=path) == basic("me:pässword")
    sent = sent_by(connect, username="me", password_env="PW", environ={"PW": "x"})
    assert sent == basic("me:x")


def test_user_and_password_of_the_url(connect: Connect) -> None:
    assert sent_by(connect, user="me:p%40ss@") == basic("me:p@ss")


def test_an_authorization_header_of_the_configuration(connect: Connect) -> None:
    assert sent_by(connect, headers={"Authorization": "Custom x"}) == "Custom x"


def test_a_file_wins_over_the_url(connect: Connect, secret_file: SecretFile) -> None:
    path = secret_file("token", "abc")
    assert sent_by(connect, user="me:pw@", token_file=path) == "Bearer abc"


def test_the_token_is_read_anew_for_each_request(connect: Connect, secret_file: SecretFile) -> None:
    path = secret_file("token", "first")
    with FakePrometheus(lambda _: vector()) as prometheus:
        client = connect(prometheus.url, token_file=path)
        client.instant("X")
        Path(path).write_text("second\n")
        client.instant("X")
        sent = [request.headers["authorization"] for request in prometheus.requests]
    assert sent == ["Bearer first", "Bearer second"]


def test_a_secret_that_everybody_can_read_is_warned_about_once(
    connect: Connect, secret_file: SecretFile, caplog: pytest.LogCaptureFixture
) -> None:
    path = secret_file("token", "abcdef")
    Path(path).chmod(0o644)
    with FakePrometheus(lambda _: vector()) as prometheus:
        client = connect(prometheus.url, token_file=path)
        client.instant("X")
        client.instant("X")
    warned = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert warned == [f"the token file can be read by every user path={path}"]


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"token_file": "/no/such/file"}, ["can't read the token file /no/such/file"]),
        ({"token_env": "NOT_SET"}, ["NOT_SET is not set"]),
        ({"token_env": "EMPTY"}, ["is empty"]),
        ({"token_env": "TWO_LINES"}, ["more than one line"]),
        ({"token_env": "A", "token_file": "b"}, ["both token_file and token_env"]),
        ({"username": "me"}, ["no password", "password_file"]),
        ({"password_env": "TOKEN"}, ["no username"]),
        ({"username": "me", "password_env": "A", "password_file": "b"}, ["both password_file"]),
        ({"username": "me", "password_env": "A", "token_env": "B"}, ["more than one way"]),
        ({"headers": {"authorization": "x"}, "token_env": "B"}, ["more than one way"]),
        ({"headers": {"X Y": "x"}}, ["'X Y' is not a name of a header"]),
        ({"headers": {"X-Key": "hush\nhush"}}, ["the value of X-Key has control characters"]),
    ],
)
def test_credentials_that_make_no_sense(
    connect: Connect, wanted: dict[str, Any], words: list[str]
) -> None:
    environ = {"EMPTY": " \n", "TWO_LINES": "hush\nhush", "TOKEN": "x"}
    with pytest.raises(ConfigError) as caught:
        connect("http://127.0.0.1:1", options={"environ": environ}, **wanted).instant("X")
    text = shown(caught.value)
    assert [word for word in words if word not in text] == []
    assert "hush" not in text


# Printable, and long enough not to be part of an ordinary word.
SECRET = st.text("abcXYZ789-._~+/@:%é雪", min_size=10, max_size=24)


def echo(request: Request) -> Reply:
    """A server that repeats everything it was told, in the worst places."""
    told = repr(sorted(request.headers.items())) + request.query
    kind, _, value = request.headers.get("authorization", "").partition(" ")
    if kind == "Basic":
        told += base64.b64decode(value).decode()
    status = {"a": 400, "b": 401, "c": 422, "d": 302, "e": 503, "f": 200, "g": 418}[
        request.param("query") or "g"
    ]
    body = told.encode()
    if status in (400, 422):
        body = b'{"status":"error","error":%s}' % _json(told)
    return Reply(status, body, headers={"Location": f"https://login.example/?{request.query}"})


def _json(text: str) -> bytes:
    return json.dumps(text).encode()


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(secrets=st.tuples(SECRET, SECRET, SECRET), way=st.sampled_from(["url", "token", "basic"]))
def test_no_secret_is_in_any_text(
    secrets: tuple[str, str, str], way: str, caplog: pytest.LogCaptureFixture
) -> None:
    one, two, three = (f"s3{secret}" for secret in secrets)
    caplog.clear()
    caplog.set_level(logging.DEBUG)
    texts: list[str] = []
    with FakeServer(echo) as server:
        url = f"{server.url}/p?key={quote(three, safe='')}"
        if way == "url":
            url = url.replace("://", f"://{quote(one, safe='')}:{quote(two, safe='')}@")
        chosen: dict[str, Any] = {"headers": {"X-Key": f"h3{three}"}}
        if way == "token":
            chosen["token_env"] = "ONE"
        if way == "basic":
            chosen |= {"username": one, "password_env": "TWO"}
        client = PrometheusClient(
            PrometheusSettings(url=url, **chosen),
            request_timeout=20,
            environ={"ONE": one, "TWO": two},
            sleep=lambda _: None,
        )
        with client:
            texts += [repr(client), client.shown_url, repr(client._credentials)]
            for query in "abcdefg":
                with pytest.raises(GpuctlError) as caught:
                    client.instant(query)
                texts.append(shown(caught.value))
        scraped = scrape([url], request_timeout=20, environ={}, sleep=lambda _: None)
        texts += [repr(s) + (shown(s.error) if s.error else "") for s in scraped]
    texts += [record.getMessage() for record in caplog.records]
    everything = "\n".join(texts)
    planted = {one, two, three, f"h3{three}"}
    planted |= {quote(secret, safe="") for secret in planted}
    planted.add(base64.b64encode(f"{one}:{two}".encode()).decode())
    assert [secret for secret in planted if secret in everything] == []
    assert "answer method=POST" in everything  # the log was really looked at


@pytest.mark.parametrize(
    "url",
    [
        "http://me:hush-hush@host:port/",
        "http://me:hush/hush@host:9090",
        "me:hush-hush@host:9090",
        "ftp://me:hush-hush@host",
        "http://me:hush-hush@[oops",
    ],
)
def test_a_broken_url_does_not_give_its_password_away(connect: Connect, url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        connect(url)
    assert "hush" not in shown(caught.value)


def test_the_proxy_of_the_environment_is_never_shown(connect: Connect) -> None:
    environ = {"http_proxy": "socks9://me:hush-hush@proxy:1"}
    with pytest.raises(ConfigError) as caught:
        connect("http://prometheus.example", options={"environ": environ}).instant("X")
    assert "hush" not in shown(caught.value)
    assert "NO_PROXY" in shown(caught.value)


def shown(problem: GpuctlError) -> str:
    """Everything that anybody could print of an error."""
    return "\n".join(
        [
            *(str(problem), repr(problem), str(problem.cause), str(problem.hint)),
            *traceback.format_exception(problem),
        ]
    )

"""Addresses, proxies and deadlines, decided without a socket."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gpuctl.clients.connection import address, proxy_for
from gpuctl.clock import Deadline, FixedClock
from gpuctl.errors import BackendError
from tests.clients.conftest import Connect
from tests.fakes.http_server import FakeServer, Reply
from tests.fakes.prometheus import FakePrometheus, vector

PROXY = {"http_proxy": "http://proxy:3128", "HTTPS_PROXY": "proxy:3129"}


@pytest.mark.parametrize(
    ("url", "shown", "joined"),
    [
        ("http://h", "http://h", "http://h/api?q=1"),
        ("HTTPS://H:9/p/", "https://h:9/p/", "https://h:9/p/api?q=1"),
        ("http://u:p@[::1]:9/p?k=v#f", "http://[::1]:9/p", "http://[::1]:9/p/api?k=v&q=1"),
    ],
)
def test_a_url_keeps_its_prefix_and_query(url: str, shown: str, joined: str) -> None:
    where = address(url, setting="the URL")
    assert where.shown == shown
    assert where.url("/api", "q=1") == joined
    assert "u:p" not in repr(where)


@pytest.mark.parametrize(
    ("url", "no_proxy", "proxy"),
    [
        ("http://prometheus", "", "http://proxy:3128"),
        ("https://prometheus", "", "http://proxy:3129"),
        ("http://localhost:9090", "", None),
        ("http://127.0.0.7", "", None),
        ("http://[::1]", "", None),
        ("http://prometheus", "*", None),
        ("http://prometheus", "other, prometheus", None),
        ("http://a.example", ".example", None),
        ("http://a.example", "*.example", None),
        ("http://a.example", "example", None),
        ("http://aexample", "example", "http://proxy:3128"),
        ("http://a.example:9090", "a.example:9090", None),
        ("http://a.example:9091", "a.example:9090", "http://proxy:3128"),
        ("http://10.1.2.3", "10.0.0.0/8", None),
        ("http://11.1.2.3", "10.0.0.0/8", "http://proxy:3128"),
        ("http://[fd00::1]", "fd00::/8", None),
    ],
)
def test_the_proxy_of_the_environment(url: str, no_proxy: str, proxy: str | None) -> None:
    environ = PROXY | {"NO_PROXY": no_proxy}
    assert proxy_for(address(url, setting="the URL"), environ) == proxy


def test_no_proxy_without_an_environment() -> None:
    assert proxy_for(address("http://h", setting="the URL"), {}) is None
    assert proxy_for(address("http://h", setting="x"), {"ALL_PROXY": "http://p"}) == "http://p"


def test_queries_go_through_the_proxy(connect: Connect) -> None:
    with FakePrometheus(lambda _: vector(({}, 5))) as behind:
        # A proxy gets the whole URL; the fake takes its path.
        options = {"environ": {"http_proxy": behind.url}}
        answer = connect("http://prometheus.invalid/", options=options).instant("X")
        (request,) = behind.requests
    assert answer.series[0].value == 5
    assert request.headers["host"] == "prometheus.invalid"


def test_a_proxy_that_refuses_is_named_as_such(connect: Connect) -> None:
    with FakeServer(Reply(407)) as proxy:
        environ = {"https_proxy": proxy.url.replace("://", "://me:hush-hush@")}
        client = connect("https://prometheus.invalid", options={"environ": environ})
        with pytest.raises(BackendError, match=r"the proxy on the way .* refused") as caught:
            client.instant("X")
    assert "hush" not in f"{caught.value} {caught.value!r}"


def test_a_deadline_counts_down_to_nothing() -> None:
    clock = FixedClock(datetime(2025, 3, 1, tzinfo=UTC))
    deadline = Deadline.after(timedelta(minutes=1), clock)
    assert deadline.remaining() == 60
    clock.at += timedelta(seconds=59.5)
    assert deadline.remaining() == 0.5
    clock.at += timedelta(hours=1)
    assert deadline.remaining() == 0

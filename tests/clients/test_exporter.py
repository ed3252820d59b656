"""Scraping exporters over real sockets, the dead ones among them too."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpuctl.clients.connection import TlsSettings
from gpuctl.clients.exporter import Scrape, expand_targets, scrape
from gpuctl.clock import Deadline, FixedClock, SystemClock
from gpuctl.errors import BackendError, ConfigError, TimeoutReached, UsageError
from tests.fakes.certificates import CertificateAuthority
from tests.fakes.http_server import FakeServer, Reply, Request, ServerTls, script

NOON = datetime(2025, 3, 1, 12, tzinfo=UTC)
PAGE = b'# TYPE u gauge\nu{gpu="0"} 96\nu{gpu="1"} 20\n'


def scraped(*targets: str, timeout: float = 20.0) -> list[Scrape]:
    return scrape(
        targets,
        request_timeout=timeout,
        environ={},
        clock=FixedClock(NOON),
        sleep=lambda _: None,
    )


def failure(reply: Reply, timeout: float = 20.0) -> str:
    """The error of a scrape that gets this reply; there must be no samples."""
    with FakeServer(reply) as server:
        (result,) = scraped(server.address, timeout=timeout)
    assert result.samples == []
    assert isinstance(result.error, BackendError)
    return f"{result.error} | {result.error.cause} | {result.error.hint}"


@pytest.mark.parametrize(
    "reply",
    [Reply(body=PAGE), Reply(body=PAGE, chunked=True), Reply(body=PAGE, compress=True)],
    ids=["plain", "chunked", "gzip"],
)
def test_a_page_becomes_samples(reply: Reply) -> None:
    with FakeServer(reply) as server:
        (result,) = scraped(server.address)
        (request,) = server.requests
        where = server.address
    assert result.error is None
    assert [(s.name, dict(s.labels), s.value) for s in result.samples] == [
        ("u", {"gpu": "0"}, 96.0),
        ("u", {"gpu": "1"}, 20.0),
    ]
    assert result.scraped_at == NOON.timestamp()
    assert (result.target, result.url) == (where, f"http://{where}/metrics")
    assert (request.method, request.path) == ("GET", "/metrics")
    assert request.headers["accept"].startswith("text/plain;version=0.0.4")


def test_a_path_and_a_user_in_the_url() -> None:
    with FakeServer(Reply(body=PAGE)) as server:
        url = server.url.replace("://", "://me:hush-hush@") + "/nodes/a/metrics?x=1"
        (result,) = scraped(url)
        (request,) = server.requests
    assert (request.path, request.query) == ("/nodes/a/metrics", "x=1")
    assert request.headers["authorization"].startswith("Basic ")
    assert "hush" not in repr(result)
    assert "me" not in result.target.partition("/nodes")[0]


def test_the_dead_do_not_hide_the_living() -> None:
    with FakeServer(Reply(body=PAGE)) as good, FakeServer(Reply(500, b"boom")) as bad:
        results = scraped(good.address, "127.0.0.1:1", bad.address, good.address)
    assert [r.error is None for r in results] == [True, False, False, True]
    assert "refused" in str(results[1].error and results[1].error.cause)
    assert len(results[3].samples) == 2


def test_many_targets_at_once_but_never_more_than_allowed() -> None:
    lock, gate = threading.Lock(), threading.Event()
    running: list[int] = []
    peaks: list[int] = []

    def answer(_: Request) -> Reply:
        with lock:
            running.append(1)
            peaks.append(len(running))
            if len(running) == 4:
                gate.set()
        gate.wait(20)
        with lock:
            running.pop()
        return Reply(body=PAGE)

    with FakeServer(answer) as server:
        targets = [f"{server.url}/{n}" for n in range(12)]
        results = scrape(targets, request_timeout=20, environ={}, most_at_once=4)
    assert [r.url for r in results] == targets
    assert max(peaks) == 4


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        pytest.param(Reply(404, b"nope"), ["404", "9400"], id="404"),
        pytest.param(Reply(401), ["denies access", "no credential", "@FILE"], id="401"),
        pytest.param(Reply(302, headers={"Location": "/x"}), ["redirects"], id="302"),
        pytest.param(Reply(500, b"XID 79\nmore"), ["500", "XID 79 more", "bus"], id="500"),
        pytest.param(Reply(503, b"busy"), ["503", "busy", "tried 2 times"], id="503"),
        pytest.param(
            Reply(body=b"<html>hi", content_type="text/html"), ["web page"], id="a web page"
        ),
        pytest.param(Reply(body=b"<h1>Node</h1>\n"), ["web page"], id="an unnamed web page"),
        pytest.param(
            Reply(body=b"{}", content_type="application/json"), ["answers with JSON"], id="JSON"
        ),
        pytest.param(Reply(body=b'{"a": 1}\n'), ["line 1 is no sample"], id="unnamed JSON"),
        pytest.param(Reply(body=PAGE + b"hello world\n"), ["line 4", "hello world"], id="prose"),
        pytest.param(Reply(body=b'u{a="\xff"} 1\n'), ["not UTF-8"], id="bytes"),
        pytest.param(Reply(body=b""), ["is empty", "nvidia-smi"], id="empty"),
        pytest.param(Reply(body=PAGE[:-1]), ["cut off"], id="no end of line"),
        pytest.param(
            Reply(body=PAGE, content_type="application/openmetrics-text; version=1.0.0"),
            ["cut off"],
            id="OpenMetrics without its end",
        ),
        pytest.param(Reply(body=PAGE, cut_at=len(PAGE) - 16), ["cut off"], id="cut"),
        pytest.param(
            Reply(body=PAGE, cut_at=40, until_close=True, compress=True), ["cut off"], id="cut gzip"
        ),
        pytest.param(Reply(drop=True), ["closed the connection"], id="dropped"),
    ],
)
def test_what_is_no_page_is_an_error_and_never_a_part_of_the_data(
    reply: Reply, words: list[str]
) -> None:
    text = failure(reply)
    assert [word for word in words if word not in text] == []
    assert text.isprintable()


def test_a_slow_exporter_costs_one_request_timeout() -> None:
    assert "did not answer" in failure(Reply(wait_for=threading.Event()), timeout=0.05)


def test_an_interrupted_scrape_is_tried_once_more() -> None:
    with FakeServer(script(Reply(body=PAGE, cut_at=3), Reply(body=PAGE))) as server:
        (result,) = scraped(server.address)
    assert result.error is None


def test_the_end_of_the_commands_time_is_told_apart() -> None:
    with FakeServer(Reply(wait_for=threading.Event())) as server:
        (result,) = scrape(
            [server.address],
            request_timeout=20,
            environ={},
            deadline=Deadline.after(0.05, SystemClock()),
        )
    assert isinstance(result.error, TimeoutReached)


def test_a_page_without_end_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuctl.clients.exporter._MOST_BYTES", 1 << 20)
    text = failure(Reply(body=b"u 1\n" * 300_000, compress=True))
    assert "larger than 1 MiB" in text


def test_exporters_behind_tls(authority: CertificateAuthority) -> None:
    pair = authority.issue("exporter")
    with FakeServer(Reply(body=PAGE), tls=ServerTls(pair.cert, pair.key)) as server:
        (refused,) = scraped(server.url)
        (trusted,) = scrape(
            [server.url],
            request_timeout=20,
            environ={},
            tls=TlsSettings(ca_file=authority.cert, section="exporters"),
        )
    assert "SSL_CERT_FILE" in str(refused.error and refused.error.hint)
    assert trusted.error is None


def test_targets_as_people_write_them() -> None:
    assert expand_targets(
        ["gpu-1", "gpu-2:9401", "http://gpu-3", "gpu-1:9400", "fd00::1", "gpu-4/m", " gpu-5 "]
    ) == [
        "gpu-1:9400",
        "gpu-2:9401",
        "http://gpu-3",
        "[fd00::1]:9400",
        "gpu-4:9400/m",
        "gpu-5:9400",
    ]
    assert expand_targets(["a"], 9999) == ["a:9999"]


def test_targets_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "nodes"
    path.write_text("# the rack\ngpu-1  # spare\n\nhttp://me:pw@gpu-2:9400/metrics\ngpu-2\n")
    assert expand_targets(["gpu-0", f"@{path}"]) == [
        "gpu-0:9400",
        "gpu-1:9400",
        "http://me:pw@gpu-2:9400/metrics",
    ]


@pytest.mark.parametrize("write", [None, b"\xff\xfe"])
def test_a_list_that_cannot_be_read(tmp_path: Path, write: bytes | None) -> None:
    path = tmp_path / "nodes"
    if write is not None:
        path.write_bytes(write)
    with pytest.raises(UsageError, match=r"can't read the list of exporters"):
        expand_targets([f"@{path}"])


@pytest.mark.parametrize("target", ["gpu 1", "http://", "gpu-1:port", "ftp://gpu-1"])
@pytest.mark.parametrize("use", [expand_targets, scraped])
def test_what_is_no_address_is_said_at_once(target: str, use: Callable[..., object]) -> None:
    with pytest.raises(ConfigError, match="the address of an exporter"):
        use([target]) if use is expand_targets else use(target)

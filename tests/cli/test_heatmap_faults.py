"""What `gpuctl heatmap` says, and how it ends, when the metrics side fails."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gpuctl.clock import FixedClock
from tests.cli.calling import CLOCK, Called, call
from tests.fakes.gpu_cluster import Card, GpuCluster, two_nodes
from tests.fakes.http_server import FakeServer, Reply, Request
from tests.fakes.prometheus import NOW, FakePrometheus, Query, Result, error, vector


def heatmap(answer: Callable[[Query], Result | Reply], *words: str, **more: object) -> Called:
    with FakePrometheus(answer, **more) as server:  # type: ignore[arg-type]
        return call("heatmap", "--prometheus-url", server.url, *words)


def served(reply: Callable[[Request], Reply], *words: str) -> Called:
    with FakeServer(reply) as server:
        return call("heatmap", "--prometheus-url", server.url, *words)


def test_a_healthy_cluster_is_shown() -> None:
    called = heatmap(GpuCluster())
    assert called.code == 0
    assert "gpu-a" in called.out
    assert "prod/llm-0" in called.out
    assert called.err == ""


def test_exit_code_three_only_on_request_and_only_when_hot() -> None:
    cool = GpuCluster(tuple(replace(c, load_pct=50) for c in two_nodes()))
    assert heatmap(GpuCluster(), "--exit-code").code == 3
    assert heatmap(GpuCluster()).code == 0
    assert heatmap(cool, "--exit-code").code == 0


def test_nobody_listens() -> None:
    called = call("heatmap", "--prometheus-url", "http://127.0.0.1:9")
    assert called.code == 7
    assert called.out == ""
    assert "connection refused" in called.err
    assert "127.0.0.1:9" in called.err


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, ("401", "credential")), (403, ("403",))],
)
def test_access_denied(status: int, words: tuple[str, ...]) -> None:
    called = served(lambda _: Reply(status, b"no", content_type="text/plain"))
    assert called.code == 7
    for word in words:
        assert word in called.err


def test_a_redirect_to_a_login_page() -> None:
    called = served(
        lambda _: Reply(302, b"<html>", headers={"Location": "https://sso.example/login"})
    )
    assert called.code == 7
    assert "login page" in called.err
    assert "sso.example" in called.err


def test_html_instead_of_json() -> None:
    called = served(lambda _: Reply(200, b"<html><title>Sign in</title>", content_type="text/html"))
    assert called.code == 7
    assert "login page" in called.err


def test_the_servers_own_words_on_422() -> None:
    text = "query processing would load too many samples into memory"
    called = heatmap(lambda _: error(422, "execution", text))
    assert called.code == 7
    assert "too many samples" in called.err


def test_429_that_asks_for_more_patience_than_there_is() -> None:
    def reply(_: Request) -> Reply:
        return Reply(429, b"slow down", headers={"Retry-After": "600"})

    called = served(reply)
    assert called.code == 7
    assert "429" in called.err
    assert "10m" in called.err or "600" in called.err


def test_truncated_json() -> None:
    body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": []}})
    called = served(
        lambda _: Reply(200, body[: len(body) // 2].encode(), content_type="application/json"),
        "--timeout",
        "2s",
    )
    assert called.code in (7, 9)
    assert "error:" in called.err
    assert "Traceback" not in called.err


def test_no_dcgm_metrics_says_what_was_looked_for_and_found() -> None:
    called = heatmap(lambda _: vector(), names=["up", "nvidia_smi_temperature_gpu", "go_threads"])
    assert called.code == 6
    assert "no DCGM metrics" in called.err
    assert "DCGM_FI_DEV_GPU_UTIL" in called.err
    assert "nvidia_smi_temperature_gpu" in called.err
    assert "go_threads" not in called.err


def test_half_the_nodes_silent_is_a_picture_with_a_warning() -> None:
    cards = [replace(c, silent=c.node == "gpu-b") for c in two_nodes()]
    called = heatmap(GpuCluster(cards), "-o", "json")
    assert called.code == 0
    doc = called.document
    assert doc["summary"]["lost"] == 2
    assert doc["summary"]["coverage_pct"] == 50
    silent = [item for item in doc["items"] if item["node"] == "gpu-b"]
    assert {item["state"] for item in silent} == {"lost"}
    assert {item["utilization_pct"] for item in silent} == {None}
    assert "gpu-b" in called.err


def test_all_nodes_silent_is_an_error() -> None:
    called = heatmap(GpuCluster([replace(c, silent=True, age_seconds=1500) for c in two_nodes()]))
    assert called.code == 6
    assert "silent" in called.err
    assert "25m" in called.err


def test_three_hours_old_is_an_error_with_the_age() -> None:
    def answer(query: Query) -> Result:
        return vector(({}, 10_800.0)) if "time() - max" in query.text else vector()

    called = heatmap(answer)
    assert called.code == 6
    assert "3h" in called.err


def test_stale_everywhere_is_shown_and_refused() -> None:
    called = heatmap(GpuCluster([replace(c, age_seconds=200) for c in two_nodes()]), "-o", "json")
    assert called.code == 6
    assert {item["state"] for item in called.document["items"]} == {"stale"}
    assert {item["hot"] for item in called.document["items"]} == {None}
    assert "200s" in called.err


def test_max_age_decides_what_is_stale() -> None:
    cluster = GpuCluster([replace(c, age_seconds=200) for c in two_nodes()])
    called = heatmap(cluster, "--max-age", "5m", "-o", "json")
    assert called.code == 0
    assert {item["state"] for item in called.document["items"]} == {"ok"}


@pytest.mark.parametrize("minutes", [-2, 2])
def test_a_clock_two_minutes_off_changes_no_age_and_is_said(minutes: int) -> None:
    with FakePrometheus(GpuCluster(), now=NOW) as server:
        clock = FixedClock(datetime.fromtimestamp(NOW + 60 * minutes, UTC))
        called = call("heatmap", "--prometheus-url", server.url, "-o", "json", clock=clock)
    assert called.code == 0
    assert called.document["metrics_age_seconds"] == 5
    assert "clock is 2m" in called.err


def test_warnings_of_the_server_are_shown() -> None:
    def answer(query: Query) -> Result:
        return GpuCluster()(query).with_warnings("store store-3 is out of reach")

    called = heatmap(answer, "-o", "json")
    assert called.code == 0
    assert any("store-3" in text for text in called.document["warnings"])
    assert "store-3" in called.err


def test_json_errors_are_documents_on_stdout() -> None:
    called = heatmap(lambda _: error(422, "execution", "no"), "-o", "json")
    assert called.code == 7
    assert called.document["kind"] == "error"
    assert called.document["exit_code"] == 7


def test_a_snapshot_costs_at_most_six_queries() -> None:
    cards = [Card(f"n{i:03}", g, 95) for i in range(50) for g in range(8)]
    with FakePrometheus(GpuCluster(cards)) as server:
        called = call("heatmap", "--prometheus-url", server.url)
        assert called.code == 0
        assert len(server.server.requests) <= 6


def test_a_slow_server_names_the_timeout() -> None:
    never = threading.Event()
    with FakeServer(lambda _: Reply(200, b"{}", wait_for=never)) as server:
        called = call("heatmap", "--prometheus-url", server.url, "--request-timeout", "200ms",
                      clock=CLOCK)  # fmt: skip
    assert called.code in (7, 9)
    assert "200ms" in called.err or "0.2s" in called.err


def test_gzip_that_breaks_off() -> None:
    body = gzip.compress(json.dumps({"status": "success"}).encode())[:-6]
    called = served(
        lambda _: Reply(
            200, body, content_type="application/json", headers={"Content-Encoding": "gzip"}
        )
    )
    assert called.code == 7
    assert "Traceback" not in called.err

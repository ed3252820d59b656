"""What the client makes of good answers, over a real socket."""

from __future__ import annotations

import json
import math
import signal
import threading

import pytest

from gpuctl import __version__
from gpuctl.clients.prometheus import MOST_POINTS
from gpuctl.errors import BackendError, ConfigError, GpuctlError
from tests.clients.conftest import Connect
from tests.fakes.http_server import FakeServer, Reply, Request
from tests.fakes.prometheus import (
    NOW,
    Answer,
    FakePrometheus,
    Query,
    Result,
    error,
    matrix,
    scalar,
    vector,
)


def test_vector_has_labels_values_and_the_servers_time(connect: Connect) -> None:
    result = vector(({"gpu": "0"}, 96.5), ({"gpu": "1"}, 0))
    with FakePrometheus(lambda _: result) as prometheus:
        answer = connect(prometheus.url).instant("X")
    assert [(s.metric, s.value, s.at) for s in answer.series] == [
        ({"gpu": "0"}, 96.5, NOW),
        ({"gpu": "1"}, 0.0, NOW),
    ]
    assert answer.evaluated_at == NOW
    assert answer.server_date == NOW
    assert not answer.is_partial


def test_infinite_and_missing_numbers_are_floats(connect: Connect) -> None:
    result = vector(({"n": "a"}, "+Inf"), ({"n": "b"}, "-Inf"), ({"n": "+Inf"}, "NaN"))
    with FakePrometheus(lambda _: result) as prometheus:
        up, down, none = connect(prometheus.url).instant("X").series
    assert (up.value, down.value) == (math.inf, -math.inf)
    assert math.isnan(none.value)
    assert none.metric == {"n": "+Inf"}


def test_empty_vector_takes_its_time_from_the_date_header(connect: Connect) -> None:
    with FakePrometheus(lambda _: vector(), now=NOW + 120) as prometheus:
        answer = connect(prometheus.url).instant("absent")
    assert answer.series == []
    assert answer.evaluated_at == NOW + 120


def test_scalar_is_one_series_without_labels(connect: Connect) -> None:
    with FakePrometheus(lambda _: scalar("+Inf")) as prometheus:
        answer = connect(prometheus.url).instant("1/0")
    assert [(s.metric, s.value) for s in answer.series] == [({}, math.inf)]
    assert answer.evaluated_at == NOW


def test_string_is_text(connect: Connect) -> None:
    with FakePrometheus(lambda _: Result("string", [NOW, "hello"])) as prometheus:
        answer = connect(prometheus.url).instant('"hello"')
    assert (answer.text, answer.series) == ("hello", [])


def test_range_selector_keeps_every_sample_at_its_own_time(connect: Connect) -> None:
    samples = [(NOW - 40, 1.0), (NOW - 10, 2.0)]
    with FakePrometheus(lambda _: matrix(({"gpu": "0"}, samples))) as prometheus:
        answer = connect(prometheus.url).instant("X[5m]")
    assert answer.matrix[0].values == samples
    assert [(s.value, s.at) for s in answer.series] == [(2.0, NOW - 10)]


def test_histograms_are_left_out_and_said(connect: Connect) -> None:
    mixed = Result(
        "vector",
        [
            {"metric": {"a": "1"}, "histogram": [NOW, {"count": "1", "sum": "2"}]},
            {"metric": {"a": "2"}, "value": [NOW, "3"]},
        ],
    )
    with FakePrometheus(lambda _: mixed) as prometheus:
        answer = connect(prometheus.url).instant("X")
    assert [s.metric for s in answer.series] == [{"a": "2"}]
    assert answer.infos == ("1 series hold histograms instead of numbers",)


@pytest.mark.parametrize(
    ("result", "is_partial"),
    [
        (vector().with_warnings("store gpu-a is unavailable"), True),
        (vector().with_warnings("results truncated due to limit"), True),
        (vector().with_warnings("PromQL warning: bucket label missing"), False),
        (Result("vector", [], is_partial=True), True),
        (Result("vector", [], is_partial=False), False),
        (Result("vector", [], infos=("PromQL info: might not be a counter",)), False),
    ],
)
def test_missing_data_is_told_from_remarks(
    connect: Connect, result: Result, is_partial: bool
) -> None:
    with FakePrometheus(lambda _: result) as prometheus:
        answer = connect(prometheus.url).instant("X")
    assert answer.is_partial is is_partial
    assert answer.warnings == result.warnings


@pytest.mark.parametrize("base", ["", "/", "/prometheus", "/select/0/prometheus/", "/a?key=1"])
def test_the_path_of_the_url_is_kept(connect: Connect, base: str) -> None:
    with FakeServer(_ok()) as server:
        connect(server.url + base).instant("X", partial_response="false")
        (request,) = server.requests
    path, _, query = base.partition("?")
    assert request.path == path.rstrip("/") + "/api/v1/query"
    assert request.query == query
    assert request.method == "POST"
    assert request.param("query") == "X"
    assert request.param("partial_response") == "false"


def test_says_who_asks_and_takes_compressed_answers(connect: Connect) -> None:
    with FakePrometheus(lambda _: vector(({"a": "b" * 5000}, 1))) as prometheus:
        client = connect(prometheus.url, headers={"X-Scope-OrgID": "hk|sg"})
        answer = client.instant("X")
        headers = prometheus.requests[0].headers
    assert headers["user-agent"] == f"gpuctl/{__version__}"
    assert headers["accept-encoding"] == "gzip"
    assert headers["x-scope-orgid"] == "hk|sg"
    assert answer.series[0].metric == {"a": "b" * 5000}


@pytest.mark.parametrize("status", [403, 404, 405, 501])
def test_falls_back_to_get_once_and_remembers(connect: Connect, status: int) -> None:
    def answer(query: Query) -> Answer:
        if query.request.method == "POST":
            return Reply(status, b"POST? no")
        return vector(({"q": query.text}, 1))

    with FakePrometheus(answer) as prometheus:
        client = connect(prometheus.url)
        first, second = client.instant("a + b"), client.instant("c")
        methods = [request.method for request in prometheus.requests]
    assert [a.series[0].metric["q"] for a in (first, second)] == ["a + b", "c"]
    assert methods == ["POST", "GET", "GET"]


def test_get_is_not_remembered_when_it_fails_too(connect: Connect) -> None:
    with FakeServer(Reply(404, b"404 page not found")) as server:
        client = connect(server.url)
        for _ in range(2):
            with pytest.raises(BackendError, match="no Prometheus API"):
                client.instant("X")
        methods = [request.method for request in server.requests]
    assert methods == ["POST", "GET"] * 2


def test_a_redirect_to_https_on_the_same_host_is_taken_once(connect: Connect) -> None:
    replies = {"count": 0}

    def answer(request: Request) -> Reply:
        replies["count"] += 1
        return Reply(308, headers={"Location": f"https://127.0.0.1:1{request.path}"})

    with FakeServer(answer) as server:
        client = connect(server.url)
        with pytest.raises(BackendError, match=r"can't connect to https://127\.0\.0\.1:1"):
            client.instant("X")
    assert replies["count"] == 1


def test_range_gives_the_points_asked_for(connect: Connect) -> None:
    def answer(query: Query) -> Answer:
        assert (query.start, query.end, query.step) == (NOW, NOW + 60, 15)
        return matrix(({"gpu": "0"}, [(NOW, 1.0), (NOW + 15, "+Inf")]))

    with FakePrometheus(answer) as prometheus:
        found = connect(prometheus.url).range("X", NOW, NOW + 60, 15)
        (request,) = prometheus.requests
    assert found.series[0].values == [(NOW, 1.0), (NOW + 15, math.inf)]
    assert request.path == "/api/v1/query_range"


def test_long_ranges_are_asked_in_pieces_and_joined(connect: Connect) -> None:
    step, points = 15.0, 2 * MOST_POINTS + 3

    def answer(query: Query) -> Answer:
        assert query.start is not None
        assert query.end is not None
        count = round((query.end - query.start) / step) + 1
        if count > MOST_POINTS:
            return error(400, "bad_data", "exceeded maximum resolution of 11,000 points")
        values = [(query.start + i * step, float(i % 7)) for i in range(count)]
        late = [({"gpu": "1"}, values[:1])] if query.start > NOW else []
        return matrix(({"gpu": "0"}, values), *late).with_warnings("slow store")

    with FakePrometheus(answer) as prometheus:
        found = connect(prometheus.url).range("X", NOW, NOW + (points - 1) * step, step)
        count = len(prometheus.requests)
    always, late = found.series
    assert [at for at, _ in always.values] == [NOW + i * step for i in range(points)]
    assert [at for at, _ in late.values] == [NOW + i * MOST_POINTS * step for i in (1, 2)]
    assert count == 3
    assert found.warnings == ("slow store",)
    assert found.is_partial


def test_impossible_ranges_are_refused_before_anything_is_sent(connect: Connect) -> None:
    client = connect("http://127.0.0.1:1")
    with pytest.raises(ValueError, match="no times"):
        client.range("X", NOW, NOW - 1, 15)
    with pytest.raises(ValueError, match="no times"):
        client.range("X", NOW, NOW + 1, 0)


def test_many_queries_run_at_once_but_never_more_than_six(connect: Connect) -> None:
    lock, gate = threading.Lock(), threading.Event()
    running: list[int] = []
    peaks: list[int] = []

    def answer(query: Query) -> Answer:
        with lock:
            running.append(1)
            peaks.append(len(running))
            if len(running) == 6:
                gate.set()  # six really are in flight together
        gate.wait(20)
        with lock:
            running.pop()
        return vector(({"q": query.text}, 1))

    with FakePrometheus(answer) as prometheus:
        found = connect(prometheus.url).instant_many({n: f"q{n}" for n in range(20)})
    assert {n: a.series[0].metric["q"] for n, a in found.items()} == {n: f"q{n}" for n in range(20)}
    assert list(found) == list(range(20))
    assert max(peaks) == 6


def test_of_many_queries_one_failure_fails_all(connect: Connect) -> None:
    def answer(query: Query) -> Answer:
        return error(422, "execution", "no way") if query.text == "bad" else vector()

    with FakePrometheus(answer) as prometheus, pytest.raises(BackendError) as caught:
        connect(prometheus.url).instant_many({"a": "good", "b": "bad", "c": "good"})
    assert "no way" in (caught.value.cause or "")


def test_ctrl_c_leaves_slow_queries_behind(connect: Connect) -> None:
    hang, all_in_flight = threading.Event(), threading.Barrier(3)

    def answer(query: Query) -> Answer:
        all_in_flight.wait(20)
        if query.text == "a":
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        return Reply(wait_for=hang)

    with FakePrometheus(answer) as prometheus:
        client = connect(prometheus.url)
        with pytest.raises(KeyboardInterrupt), client:
            client.instant_many({text: text for text in "abc"})
        assert not hang.is_set()


def test_helpers_for_an_empty_result(connect: Connect) -> None:
    with FakePrometheus(
        lambda _: vector(), names=["up", "DCGM_FI_DEV_GPU_UTIL"], label_values={"job": ["a/b"]}
    ) as prometheus:
        client = connect(prometheus.url)
        assert client.series_names('{job="x"}') == ["DCGM_FI_DEV_GPU_UTIL", "up"]
        assert client.label_values("job", ["a", "b"]) == ["a/b"]
        info = client.buildinfo()
        matches = [
            [value for key, value in request.params if key == "match[]"]
            for request in prometheus.requests
        ]
    assert info is not None
    assert info.version == "2.53.0"
    assert matches == [['{job="x"}'], ["a", "b"], []]


def test_buildinfo_is_only_a_hint(connect: Connect) -> None:
    with FakePrometheus(lambda _: vector(), version=None) as prometheus:
        assert connect(prometheus.url).buildinfo() is None


@pytest.mark.parametrize("host", ["a" * 70, "a..b", "xn--\u00e9"])
def test_a_host_that_cannot_be_looked_up(connect: Connect, host: str) -> None:
    with pytest.raises(GpuctlError) as caught:
        connect(f"http://{host}:9090").instant("X")
    assert caught.value.hint


@pytest.mark.parametrize(
    "url", [None, "prometheus:9090", "ftp://x", "http://", "http://h:port", "http://h/a b"]
)
def test_what_is_no_url_is_a_mistake_of_the_configuration(
    connect: Connect, url: str | None
) -> None:
    with pytest.raises(ConfigError):
        connect(url)


def test_ten_thousand_series_through_every_layer(connect: Connect) -> None:
    series = [({"UUID": f"GPU-{n}", "Hostname": f"node-{n // 8}"}, n % 101) for n in range(10_000)]
    with FakePrometheus(lambda _: vector(*series)) as prometheus:
        answer = connect(prometheus.url).instant("X")
    assert sum(s.value for s in answer.series) == sum(value for _, value in series)


def _ok() -> Reply:
    body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": []}})
    return Reply(body=body.encode(), content_type="application/json")

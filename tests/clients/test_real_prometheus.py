"""The client against the real program: what the fake claims has to be so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpuctl.errors import BackendError
from tests.clients.conftest import Connect
from tests.real.prometheus_server import Job, Pages, RealPrometheus, prometheus

pytestmark = pytest.mark.real

PAGE = "".join(f'u{{gpu="{n}",replica="{r}"}} {n * 10}\n' for n in range(3) for r in "ab")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPrometheus]:
    pages = Pages({"/metrics": PAGE})
    with pages.serving():
        job = Job("exporter", pages.port, "/metrics")
        with prometheus(tmp_path_factory.mktemp("prometheus"), jobs=[job]) as server:
            server.await_series("u", 6)
            yield server


def test_every_type_of_answer(connect: Connect, server: RealPrometheus) -> None:
    client = connect(server.url)
    answers = client.instant_many(
        {"vector": "max by (gpu) (u)", "matrix": "u[5m]", "scalar": "1/0", "string": '"s"'}
    )
    assert {s.metric["gpu"]: s.value for s in answers["vector"].series} == {
        "0": 0.0,
        "1": 10.0,
        "2": 20.0,
    }
    assert len(answers["matrix"].matrix) == 6
    assert answers["scalar"].series[0].value == float("inf")
    assert answers["string"].text == "s"
    for answer in answers.values():
        assert answer.evaluated_at is not None
        assert answer.server_date is not None
        assert abs(answer.evaluated_at - answer.server_date) < 60


def test_a_range_longer_than_the_server_allows_at_once(
    connect: Connect, server: RealPrometheus
) -> None:
    client = connect(server.url)
    end = client.instant("vector(1)").evaluated_at or 0
    (series,) = client.range("vector(1)", end - 25_000, end, 1).series
    assert len(series.values) == 25_001
    assert len({at for at, _ in series.values}) == 25_001


def test_what_is_there_when_a_query_finds_nothing(connect: Connect, server: RealPrometheus) -> None:
    client = connect(server.url)
    assert client.instant("DCGM_FI_DEV_GPU_UTIL").series == []
    assert {"u", "up"} <= set(client.series_names())
    assert client.series_names('{gpu="0"}') == ["u"]
    assert client.label_values("gpu") == ["0", "1", "2"]
    info = client.buildinfo()
    assert info is not None
    assert info.version


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("u{", ["bad_data", "parse error", "prometheus.selector"]),
        ("u + on (gpu) u", ["execution", "many-to-many", "replicas"]),
    ],
)
def test_the_servers_own_words(
    connect: Connect, server: RealPrometheus, query: str, words: list[str]
) -> None:
    with pytest.raises(BackendError) as caught:
        connect(server.url).instant(query)
    text = f"{caught.value} {caught.value.cause} {caught.value.hint}"
    assert [word for word in words if word not in text] == []


def test_a_prefix_that_is_not_there(connect: Connect, server: RealPrometheus) -> None:
    with pytest.raises(BackendError) as caught:
        connect(server.url + "/prometheus").instant("u")
    assert "404" in (caught.value.cause or "")

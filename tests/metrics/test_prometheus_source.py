"""What a snapshot asks of a Prometheus, and what it takes from the answers' edges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gpuctl.clients.prometheus import PrometheusClient
from gpuctl.clock import FixedClock
from gpuctl.metrics.prometheus_source import PrometheusSource
from gpuctl.metrics.source import Want
from gpuctl.model.policy import Policy
from gpuctl.model.settings import ContextSettings, PrometheusSettings
from gpuctl.model.snapshot import Snapshot
from tests.fakes.gpu_cluster import Card, GpuCluster
from tests.fakes.prometheus import NOW, FakePrometheus, Query, Result, vector

Answer = Callable[[Query], Result]


def read(
    answer: Answer, policy: Policy | None = None, clock: FixedClock | None = None
) -> tuple[Snapshot, int]:
    """The snapshot and the number of requests it took."""
    clock = clock or FixedClock(datetime.fromtimestamp(NOW, UTC))
    with FakePrometheus(answer) as server:
        settings = ContextSettings(prometheus=PrometheusSettings(url=server.url))
        with PrometheusClient(settings.prometheus, request_timeout=30, environ={}) as client:
            source = PrometheusSource(client, settings, clock)
            snapshot = source.read(Want.by(policy or Policy()))
        return snapshot, len(server.requests)


@pytest.mark.parametrize("nodes", [1, 60, 300])
@pytest.mark.parametrize("load", [40.0, 97.0])
def test_a_snapshot_costs_at_most_six_queries_at_any_size(nodes: int, load: float) -> None:
    cards = [Card(f"n{i:03}", gpu, load) for i in range(nodes) for gpu in range(4)]
    snapshot, requests = read(GpuCluster(cards))
    assert len(snapshot.gpus) == 4 * nodes
    assert requests == (6 if load > 90 else 5)


@pytest.mark.parametrize("hot_for", ["10s", "1m", "30m", "7d"])
def test_no_length_of_window_costs_more(hot_for: str) -> None:
    amount, unit = int(hot_for[:-1]), {"s": "seconds", "m": "minutes", "d": "days"}[hot_for[-1]]
    policy = Policy(hot_for=timedelta(**{unit: amount}))
    snapshot, requests = read(GpuCluster(), policy)
    assert requests <= 6
    assert snapshot.window_seconds is not None
    assert snapshot.window_seconds >= policy.hot_for.total_seconds()


def test_a_partial_answer_marks_the_snapshot() -> None:
    cluster = GpuCluster()
    assert read(cluster)[0].is_partial is False

    def lossy(query: Query) -> Result:
        answer = cluster(query)
        return answer.with_warnings("store b is down") if "FB_USED" in query.text else answer

    snapshot, _ = read(lossy)
    assert snapshot.is_partial is True
    assert "Prometheus: store b is down" in snapshot.warnings


@pytest.mark.parametrize("which", ["window", "streak"])
def test_a_partial_window_marks_the_snapshot_and_is_said(which: str) -> None:
    cluster = GpuCluster()

    def lossy(query: Query) -> Result:
        answer = cluster(query)
        streak = query.is_range and query.step == 60
        return (
            answer.with_warnings("half of it")
            if query.is_range and streak == (which == "streak")
            else answer
        )

    snapshot, _ = read(lossy)
    assert snapshot.is_partial is True
    assert "Prometheus: half of it" in snapshot.warnings


def test_a_remark_on_the_query_is_no_loss_of_data() -> None:
    cluster = GpuCluster()
    snapshot, _ = read(lambda q: cluster(q).with_warnings("PromQL info: odd name"))
    assert snapshot.is_partial is False


class Ticking(FixedClock):
    """A clock on which every look takes a while, as a slow answer does."""

    def now(self) -> datetime:
        self.at += timedelta(seconds=45)
        return super().now()


def test_a_slow_answer_is_not_taken_for_a_wrong_clock() -> None:
    # Asked 20 s before the server evaluated, answered 25 s after.
    clock = Ticking(datetime.fromtimestamp(NOW - 65, UTC))
    snapshot, _ = read(GpuCluster(), clock=clock)
    assert snapshot.clock_skew_seconds == 0
    assert snapshot.warnings == ()


@pytest.mark.parametrize("minutes", [-2, 2])
def test_a_wrong_clock_is_said_and_changes_no_age(minutes: int) -> None:
    clock = FixedClock(datetime.fromtimestamp(NOW + 60 * minutes, UTC))
    snapshot, _ = read(GpuCluster(), clock=clock)
    assert snapshot.clock_skew_seconds == 60 * minutes
    assert snapshot.metrics_age_seconds == 5
    assert any("clock" in text for text in snapshot.warnings)


@pytest.mark.parametrize(
    ("samples", "interval", "max_age"),
    [(60.0, 15, 60), (15.0, 60, 120), (7.5, 120, 240), (1.0, None, 60), (None, None, 60)],
)
def test_freshness_follows_the_scrape_interval_when_that_is_known(
    samples: float | None, interval: float | None, max_age: float
) -> None:
    cluster = GpuCluster()

    def counted(query: Query) -> Result:
        if "unless on" in query.text and samples is not None:
            return vector(({"gpuctl_samples_counted": "1"}, samples))
        return cluster(query)

    snapshot, _ = read(counted)
    assert snapshot.scrape_interval_seconds == interval
    assert snapshot.max_age_seconds == max_age


def test_a_silent_node_stays_known() -> None:
    cards = [Card("a", 0, 50), replace(Card("b", 0, 50), silent=True)]
    snapshot, _ = read(GpuCluster(cards))
    assert snapshot.known_nodes == ("a", "b")
    assert [str(g.state) for g in snapshot.gpus] == ["ok", "lost"]

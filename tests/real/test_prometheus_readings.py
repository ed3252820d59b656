"""The sample files through a real Prometheus give the readings of their tables."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpuctl.clients.prometheus import PrometheusClient
from gpuctl.clock import SystemClock
from gpuctl.metrics.prometheus_source import PrometheusSource
from gpuctl.metrics.source import Want
from gpuctl.model.policy import Policy
from gpuctl.model.settings import ContextSettings, PrometheusSettings
from gpuctl.model.snapshot import Snapshot
from tests.metrics import dcgm_samples
from tests.metrics.test_data_samples import check_row
from tests.real.prometheus_server import Job, Pages, RealPrometheus, prometheus

pytestmark = pytest.mark.real


def read(server: RealPrometheus, selector: str | None = None) -> Snapshot:
    settings = ContextSettings(prometheus=PrometheusSettings(url=server.url, selector=selector))
    with PrometheusClient(settings.prometheus, request_timeout=30, environ={}) as client:
        source = PrometheusSource(client, settings, SystemClock())
        return source.read(Want.by(Policy()))


def page(name: str) -> str:
    """A sample file as an exporter would print it now.

    `stored` files carry the labels of their target; scraping them with honor_labels keeps those.
    """
    lines = [line for line in dcgm_samples.text(name).splitlines() if not line.startswith("#")]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPrometheus]:
    """One Prometheus that scrapes every sample file, told apart by a label of the target."""
    names = dcgm_samples.files()
    pages = Pages({f"/{name}": page(name) for name in names})
    with pages.serving():
        jobs = [
            Job(
                name=f"dcgm-{name}",
                port=pages.port,
                path=f"/{name}",
                honor_labels=dcgm_samples.kind(name) == "stored",
                labels={"sample": name, **_target_labels(name)},
            )
            for name in names
        ]
        with prometheus(tmp_path_factory.mktemp("prometheus"), jobs=jobs) as server:
            server.await_series('count by (sample) ({__name__=~"(?i)dcgm_.*"})', len(names))
            yield server


def _target_labels(name: str) -> dict[str, str]:
    labels = dcgm_samples.target_labels(name)
    labels.pop("job", None)
    return labels


@pytest.mark.parametrize("name", dcgm_samples.files())
def test_prometheus_gives_the_readings_of_the_table(scraped: RealPrometheus, name: str) -> None:
    snapshot = read(scraped, f'sample="{name}"')
    rows = dcgm_samples.expected(name)
    by_index = {gpu.gpu: gpu for gpu in snapshot.gpus}
    assert {row.gpu for row in rows} == set(by_index)
    for row in rows:
        check_row(by_index[row.gpu], row)


def test_age_is_that_of_the_newest_scrape(scraped: RealPrometheus) -> None:
    snapshot = read(scraped, 'sample="k8s-honor"')
    assert snapshot.metrics_age_seconds is not None
    assert 0 <= snapshot.metrics_age_seconds < 10

"""Odd label sets through a real Prometheus: every query of ours is valid and reads them right."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from gpuctl.clients.prometheus import PrometheusClient
from gpuctl.clock import SystemClock
from gpuctl.metrics.prometheus_source import PrometheusSource
from gpuctl.metrics.source import Explanation, History, Want
from gpuctl.model.gpu import Gpu
from gpuctl.model.history import Metric
from gpuctl.model.policy import Policy
from gpuctl.model.settings import (
    ContextSettings,
    LabelSettings,
    MetricSettings,
    PrometheusSettings,
)
from gpuctl.model.snapshot import Snapshot
from tests.real.prometheus_server import Job, Pages, RealPrometheus, prometheus

pytestmark = pytest.mark.real

WANT = Want.by(Policy())
METRICS: tuple[Metric, ...] = ("util", "mem", "membw", "tensor", "temp", "power")


def card(uuid: str, gpu: int, util: float, *, host: str = "n1", more: str = "") -> str:
    """The usual series of a card in one naming."""
    labels = f'gpu="{gpu}",UUID="{uuid}",device="nvidia{gpu}",Hostname="{host}"{more}'
    return (
        f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} {util}\n"
        f"DCGM_FI_DEV_FB_USED{{{labels}}} 1000\n"
        f"DCGM_FI_DEV_FB_FREE{{{labels}}} 3000\n"
        f"DCGM_FI_DEV_GPU_TEMP{{{labels}}} 50\n"
        f"DCGM_FI_DEV_POWER_USAGE{{{labels}}} 200\n"
        f"DCGM_FI_DEV_XID_ERRORS{{{labels}}} 0\n"
    )


def no_uuid(page: str) -> str:
    return page.replace('UUID="x",', "")


def newer_names(page: str) -> str:
    for old, new in (
        ("DEV_GPU_UTIL", "DEV_GPU_UTIL_RATIO"),
        ("DEV_POWER_USAGE", "DEV_BOARD_POWER_WATTS"),
        ("DEV_GPU_TEMP", "DEV_GPU_TEMP_CELSIUS"),
        ("DEV_XID_ERRORS", "DEV_XID_ERROR"),
    ):
        page = page.replace(old, new)
    return page


def lower(page: str) -> str:
    return "\n".join(
        line.partition("}")[0].lower().replace("gpu-l", "GPU-l") + "}" + line.partition("}")[2]
        for line in page.splitlines()
    )


BOTH = card("GPU-b", 0, 60)
PODS = (("a", 47, 600), ("b", 31, 400))
SHARED = card("GPU-s", 0, 83) + "".join(
    f'{name}{{gpu="0",UUID="GPU-s",device="nvidia0",Hostname="n1",namespace="t",pod="{pod}"}} {v}\n'
    for pod, util, used in PODS
    for name, v in (("DCGM_FI_DEV_GPU_UTIL", util), ("DCGM_FI_DEV_FB_USED", used))
)
MIG = "".join(
    f'{name}{{gpu="0",UUID="GPU-m",Hostname="n1",modelName="NVIDIA A30",GPU_I_PROFILE="2g.12gb",'
    f'GPU_I_ID="{i}"}} {value}\n'
    for i, busy in ((1, 0.9), (2, 0.1))
    for name, value in (
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", busy),
        ("DCGM_FI_PROF_DRAM_ACTIVE", busy / 2),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", busy / 3),
        ("DCGM_FI_DEV_FB_USED", 1000 * i),
        ("DCGM_FI_DEV_FB_FREE", 12000 - 1000 * i),
        ("DCGM_FI_DEV_GPU_TEMP", 41),
        ("DCGM_FI_DEV_POWER_USAGE", 90),
    )
)

#: name of a group -> (labels of the target, page); groups of one case share their first word.
TARGETS: dict[str, tuple[dict[str, str], str]] = {
    "both": ({}, BOTH + newer_names(BOTH)),
    "lower": ({}, lower(card("GPU-l", 0, 33))),
    "nouuid-1": ({}, no_uuid(card("x", 0, 10) + card("x", 1, 20))),
    "nouuid-2": ({}, no_uuid(card("x", 0, 30, host="n2"))),
    "ha-1": ({"prometheus_replica": "a"}, card("GPU-h", 0, 127622)),
    "ha-2": ({"prometheus_replica": "b"}, card("GPU-h", 0, 45)),
    "shared-1": ({"prometheus_replica": "a"}, SHARED),
    "shared-2": ({"prometheus_replica": "b"}, SHARED),
    "clusters-1": ({"cluster": "hk"}, card("GPU-c", 0, 11)),
    "clusters-2": ({"cluster": "sg"}, card("GPU-c", 0, 22)),
    "renamed-1": ({}, card("GPU-r", 0, 70)),
    "renamed-2": ({}, card("GPU-q", 1, 71).replace("Hostname", "hostname")),
    "ratio-1": ({}, newer_names(card("GPU-1", 0, 55))),
    "ratio-2": ({}, newer_names(card("GPU-2", 1, 0.55))),
    "full-1": ({"job": "full"}, newer_names(card("GPU-4", 0, 1))),
    "full-2": ({"job": "full"}, newer_names(card("GPU-5", 1, 0.25))),
    "jobs": ({}, card("GPU-j", 0, 50, more=',hpc_job="1"') + card("GPU-j", 0, 50)),
    "mig": ({}, MIG),
    "blank": ({"replica": "old"}, card("GPU-k", 0, 9223372036854775808)),
    "blank-2": ({"replica": "new"}, card("GPU-k", 0, 66)),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPrometheus]:
    pages = Pages({f"/{name}": page for name, (_, page) in TARGETS.items()})
    with pages.serving():
        jobs = [
            Job(
                name=name,
                port=pages.port,
                path=f"/{name}",
                honor_labels=True,
                labels={"case": name.partition("-")[0], "instance": f"{name}:9400", **labels},
            )
            for name, (labels, _) in TARGETS.items()
        ]
        folder = tmp_path_factory.mktemp("labels")
        with prometheus(folder, jobs=jobs) as running:
            running.await_series(
                'count by (case, instance) ({__name__=~"(?i)dcgm_.*"})', len(TARGETS)
            )
            yield running


class Site:
    """One case read through our source."""

    def __init__(self, server: RealPrometheus, case: str, **settings: object) -> None:
        selector = settings.pop("selector", f'case="{case}"')
        self._settings = ContextSettings(
            prometheus=PrometheusSettings(url=server.url, selector=str(selector)),
            **settings,  # type: ignore[arg-type]
        )

    def read(self) -> Snapshot:
        with self._client() as client:
            return self._source(client).read(WANT)

    def history(self, metric: Metric) -> History:
        with self._client() as client:
            span, step = timedelta(seconds=40), timedelta(seconds=2)
            return self._source(client).history(metric, span, step, WANT)

    def explain(self, node: str, gpu: int) -> Explanation:
        with self._client() as client:
            return self._source(client).explain(node, gpu, WANT)

    def _client(self) -> PrometheusClient:
        return PrometheusClient(self._settings.prometheus, request_timeout=30, environ={})

    def _source(self, client: PrometheusClient) -> PrometheusSource:
        return PrometheusSource(client, self._settings, SystemClock())


def loads(snapshot: Snapshot) -> list[tuple[str, float | None]]:
    return [(gpu.address, gpu.utilization_pct) for gpu in snapshot.gpus]


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("both", [("n1/0", 60)]),
        ("lower", [("n1/0", 33)]),
        ("nouuid", [("n1/0", 10), ("n1/1", 20), ("n2/0", 30)]),
        ("ha", [("n1/0", 45)]),
        ("shared", [("n1/0", 83)]),
        ("clusters", [("n1/0", 11), ("n1/0", 22)]),
        ("renamed", [("n1/0", 70), ("n1/1", 71)]),
        ("ratio", [("n1/0", 55), ("n1/1", 55)]),
        ("full", [("n1/0", 100), ("n1/1", 25)]),
        ("jobs", [("n1/0", 50)]),
        ("mig", [("n1/0", 50)]),
        ("blank", [("n1/0", 66)]),
    ],
)
def test_each_card_has_one_reading_and_a_window(
    server: RealPrometheus, case: str, expected: list[tuple[str, float]]
) -> None:
    snapshot = Site(server, case).read()
    assert loads(snapshot) == expected
    for gpu in snapshot.gpus:
        assert gpu.window is not None
        assert gpu.window.max_pct == gpu.utilization_pct


@pytest.mark.parametrize("case", sorted({name.partition("-")[0] for name in TARGETS}))
@pytest.mark.parametrize("metric", METRICS)
def test_every_figure_has_a_past_in_every_case(
    server: RealPrometheus, case: str, metric: Metric
) -> None:
    past = Site(server, case).history(metric)
    assert {(s.node, s.gpu) for s in past.series} >= {(g.node, g.gpu) for g in past.snapshot.gpus}
    now: dict[Metric, float | None] = {}
    for series in past.series:
        gpu = next(g for g in past.snapshot.gpus if (g.uuid, g.gpu) == (series.uuid, series.gpu))
        instance = next((i for i in gpu.mig if i.id == series.mig_id), None)
        if len(past.snapshot.gpus) == 2 and case == "clusters":
            continue  # told apart by their order only
        device = instance or gpu
        now = {
            "util": device.utilization_pct,
            "membw": device.memory_bandwidth_pct,
            "tensor": device.tensor_pct,
            "temp": gpu.temperature_c,
            "power": gpu.power_w,
        }
        newest = [v for v in series.values if v is not None][-1:]
        if metric in now and now[metric] is not None:
            assert newest == [pytest.approx(now[metric], abs=0.01)]
        elif metric in now:
            assert newest == []
        elif gpu.memory_pct is not None:
            assert newest


@pytest.mark.parametrize("case", sorted({name.partition("-")[0] for name in TARGETS}))
def test_every_card_can_be_explained(server: RealPrometheus, case: str) -> None:
    site = Site(server, case)
    for gpu in site.read().gpus:
        assert gpu.gpu is not None
        found = site.explain(gpu.node, gpu.gpu)
        assert found.trace.used
        assert found.trace.kept
        assert len({s.labels.get("UUID", s.labels.get("uuid")) for s, _ in found.trace.kept}) == 1


def test_the_corrupt_replica_is_listed_with_the_reason(server: RealPrometheus) -> None:
    rejected = Site(server, "ha").explain("n1", 0).trace.rejected
    assert [(r.sample.value, r.reason) for r in rejected] == [(127622, "outside 0..100")]


def test_replicas_do_not_double_the_shares_of_pods(server: RealPrometheus) -> None:
    (gpu,) = Site(server, "shared").read().gpus
    assert [(t.workload, t.utilization_pct, t.memory_used_mib) for t in gpu.tenants] == [
        ("t/a", 47, 600),
        ("t/b", 31, 400),
    ]


def test_several_clusters_are_pointed_out_and_a_selector_picks_one(server: RealPrometheus) -> None:
    both = Site(server, "clusters").read()
    assert any("prometheus.selector" in text for text in both.warnings)
    one = Site(server, "clusters", selector='case="clusters", cluster="hk"').read()
    assert loads(one) == [("n1/0", 11)]
    assert one.warnings == ()


@pytest.mark.parametrize(
    "selector",
    [
        "case='both'",
        '{case="both"}',
        ' case = "both" , ',
        'case=~"bo(th|d}y)"',
        r'case=~"both", job!="quo\"te}"',
    ],
)
def test_a_selector_may_be_written_in_any_way(server: RealPrometheus, selector: str) -> None:
    site = Site(server, "", selector=selector)
    assert loads(site.read()) == [("n1/0", 60)]
    assert site.explain("n1", 0).trace.used
    assert site.history("mem").series


def test_aliases_with_odd_names_break_no_query(server: RealPrometheus) -> None:
    site = Site(
        server,
        "both",
        labels=LabelSettings(node=("no-such.label", "Hostname"), aliases={"UUID": ("card-id",)}),
        metrics=MetricSettings(aliases={"utilization": ("my.gpu-util", "a:b:c")}),
    )
    assert loads(site.read()) == [("n1/0", 60)]
    assert site.history("util").series
    assert site.explain("n1", 0).trace.used


def test_a_card_of_instances_is_weighed_and_each_is_there(server: RealPrometheus) -> None:
    (gpu,) = Site(server, "mig").read().gpus
    assert [(i.id, i.profile, i.utilization_pct) for i in gpu.mig] == [
        (1, "2g.12gb", 90),
        (2, "2g.12gb", 10),
    ]
    assert _figures(gpu) == (3000, 24000, 41, 90)


def _figures(gpu: Gpu) -> tuple[float | None, ...]:
    return (gpu.memory_used_mib, gpu.memory_total_mib, gpu.temperature_c, gpu.power_w)

"""Windows over gaps, slow scrapes, churn and rows that outlive their pods, on a real Prometheus.

Back-filled samples carry no staleness markers, as those of some agents.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from gpuctl.clients.prometheus import PrometheusClient
from gpuctl.clock import SystemClock
from gpuctl.metrics.prometheus_source import PrometheusSource
from gpuctl.metrics.source import Want
from gpuctl.model.gpu import GpuState
from gpuctl.model.policy import Policy
from gpuctl.model.settings import ContextSettings, PrometheusSettings
from gpuctl.model.snapshot import Snapshot
from gpuctl.policy.hotspots import gpu_heat, instance_heat
from tests.real.prometheus_server import RealPrometheus, prometheus

pytestmark = pytest.mark.real

UTIL, USED, FREE = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"
ENGINE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
Series = tuple[str, Mapping[str, str], Iterable[tuple[float, float]]]


def every(seconds: float, start: float, end: float, value: float) -> list[tuple[float, float]]:
    """Samples from `start` to `end`, seconds relative to now."""
    count = int((end - start) / seconds) + 1
    return [(end - i * seconds, value) for i in reversed(range(count))]


def past(now: float, *series: Series) -> str:
    """OpenMetrics text of series whose times are relative to now."""
    by_name: dict[str, list[str]] = {}
    for name, more, samples in series:
        labels = {"UUID": "GPU-1", "gpu": "0", "Hostname": "n1", "job": "dcgm", **more}
        block = ",".join(f'{key}="{text}"' for key, text in labels.items())
        lines = by_name.setdefault(name, [])
        lines += [f"{name}{{{block}}} {value} {now + at:.3f}" for at, value in samples]
    body = [f"# TYPE {name} gauge\n" + "\n".join(lines) for name, lines in by_name.items()]
    return "\n".join([*body, "# EOF"]) + "\n"


def memory(samples: list[tuple[float, float]]) -> tuple[Series, Series]:
    times = [at for at, _ in samples]
    return (USED, {}, [(at, 1000.0) for at in times]), (FREE, {}, [(at, 3000.0) for at in times])


def read(server: RealPrometheus, policy: Policy | None = None) -> Snapshot:
    settings = ContextSettings(prometheus=PrometheusSettings(url=server.url))
    with PrometheusClient(settings.prometheus, request_timeout=30, environ={}) as client:
        return PrometheusSource(client, settings, SystemClock()).read(Want.by(policy or Policy()))


def test_a_gap_of_the_server_is_not_filled_with_its_last_value(tmp_path: Path) -> None:
    """The look-back repeats a sample for five minutes: a window of copies would look full."""
    hot = [*every(15, -1800, -270, 97), *every(15, -45, -2, 97)]
    with prometheus(tmp_path, past=past(time.time(), (UTIL, {}, hot), *memory(hot))) as server:
        (gpu,) = read(server).gpus
        assert gpu.state is GpuState.OK
        assert gpu.window is not None
        assert gpu.window.samples < 7
        heat = gpu_heat(gpu, Policy())
        assert (heat.hot, heat.idle) == (None, False)


@pytest.mark.parametrize("interval", [15, 30, 60, 120])
def test_scrape_interval_is_found_and_judges_freshness(tmp_path: Path, interval: int) -> None:
    hot = every(interval, -3600, -interval + 5, 97)
    with prometheus(tmp_path, past=past(time.time(), (UTIL, {}, hot), *memory(hot))) as server:
        snapshot = read(server)
        assert snapshot.scrape_interval_seconds == pytest.approx(interval, rel=0.15)
        assert snapshot.max_age_seconds == pytest.approx(max(60, 2 * interval), rel=0.15)
        (gpu,) = snapshot.gpus
        assert gpu.state is GpuState.OK
        assert gpu_heat(gpu, Policy()).hot is True


def test_new_pods_every_minute_do_not_look_like_slow_scrapes(tmp_path: Path) -> None:
    """A series per pod has few samples; the scrapes are as frequent as ever."""
    rows: list[Series] = []
    for index, start in enumerate(range(-3600, -60, 60)):
        pod = {"pod": f"p{index}", "namespace": "x"}
        rows.append((UTIL, pod, every(15, start, start + 45, 50)))
    idle = every(15, -3600, -2, 3)
    rows += [(UTIL, {"UUID": f"GPU-{n}", "gpu": str(n)}, idle) for n in (2, 3)]
    with prometheus(tmp_path, past=past(time.time(), *rows)) as server:
        assert read(server).scrape_interval_seconds == pytest.approx(15, rel=0.1)


def test_a_young_server_claims_no_scrape_interval(tmp_path: Path) -> None:
    hot = every(15, -300, -2, 97)
    with prometheus(tmp_path, past=past(time.time(), (UTIL, {}, hot), *memory(hot))) as server:
        snapshot = read(server)
        assert snapshot.scrape_interval_seconds is None
        assert snapshot.max_age_seconds == 60


@pytest.mark.parametrize(
    ("hot_for", "at_least"), [(10, 3), (60, 5), (300, 11), (1800, 61)], ids=lambda v: str(v)
)
def test_any_length_of_window_is_judged_on_real_samples(
    tmp_path: Path, hot_for: int, at_least: int
) -> None:
    dipped = [*every(15, -3600, -1500, 96), *every(15, -1485, -1455, 20), *every(15, -1440, -2, 96)]
    text = past(time.time(), (UTIL, {}, dipped), *memory(dipped))
    policy = Policy(hot_for=timedelta(seconds=hot_for))
    with prometheus(tmp_path, past=text) as server:
        (gpu,) = read(server, policy).gpus
        assert gpu.window is not None
        assert gpu.window.samples >= at_least
        assert gpu.window.step_seconds >= 14
        assert gpu.window.seconds >= hot_for
        # The dip lies 24 minutes back: only the window of half an hour sees it.
        assert gpu_heat(gpu, policy).hot is (hot_for < 1500)


def test_rows_of_a_pod_that_ended_do_not_keep_a_card_hot(tmp_path: Path) -> None:
    old = every(15, -1800, -100, 97)
    new = every(15, -85, -2, 4)
    text = past(
        time.time(),
        (UTIL, {"pod": "old", "namespace": "x"}, old),
        (UTIL, {"pod": "new", "namespace": "x"}, new),
        *memory([*old, *new]),
    )
    with prometheus(tmp_path, past=text) as server:
        (gpu,) = read(server).gpus
        assert (gpu.utilization_pct, gpu.workloads) == (4, ("x/new",))
        assert gpu_heat(gpu, Policy()).hot is False


def test_engine_and_free_memory_of_an_ended_pod_are_not_read_as_the_instances(
    tmp_path: Path,
) -> None:
    part = {"GPU_I_ID": "1", "GPU_I_PROFILE": "7g.80gb"}
    ended = part | {"pod": "old", "namespace": "x"}
    old, new = every(15, -1800, -100, 1.0), every(15, -85, -2, 1.0)
    text = past(
        time.time(),
        (ENGINE, ended, [(at, 0.99) for at, _ in old]),
        (USED, ended, [(at, 100.0) for at, _ in old]),
        (FREE, ended, [(at, 79_900.0) for at, _ in old]),
        (ENGINE, part, [(at, 0.05) for at, _ in new]),
        (USED, part, [(at, 70_000.0) for at, _ in new]),
        (FREE, part, [(at, 10_000.0) for at, _ in new]),
    )
    with prometheus(tmp_path, past=text) as server:
        (gpu,) = read(server).gpus
        (instance,) = gpu.mig
        assert instance.utilization_pct == 5
        assert (instance.memory_used_mib, instance.memory_total_mib) == (70_000, 80_000)
        assert instance_heat(gpu, instance, Policy()).hot is False


def test_a_reused_id_does_not_inherit_the_window_of_the_earlier_instance(tmp_path: Path) -> None:
    before = {"GPU_I_ID": "1", "GPU_I_PROFILE": "3g.40gb"}
    after = {"GPU_I_ID": "1", "GPU_I_PROFILE": "1g.10gb"}
    text = past(
        time.time(),
        (ENGINE, before, [(at, 0.99) for at, _ in every(15, -1800, -95, 1)]),
        (ENGINE, after, [(at, 0.95) for at, _ in every(15, -80, -2, 1)]),
    )
    with prometheus(tmp_path, past=text) as server:
        (gpu,) = read(server).gpus
        (instance,) = gpu.mig
        assert instance.profile == "1g.10gb"
        assert instance.window is not None
        assert instance.window.span_seconds <= 90
        assert instance_heat(gpu, instance, Policy()).hot is None


def test_a_card_without_uuid_that_fell_silent_is_lost_too(tmp_path: Path) -> None:
    nameless = {"UUID": ""}
    live, gone = every(15, -1800, -2, 40), every(15, -1800, -400, 40)
    text = past(
        time.time(),
        (UTIL, nameless | {"gpu": "0"}, live),
        (UTIL, nameless | {"gpu": "1"}, gone),
        (UTIL, nameless | {"gpu": "0", "Hostname": "n2"}, live),
    )
    with prometheus(tmp_path, past=text) as server:
        found = [(g.address, str(g.state)) for g in read(server).gpus]
        assert found == [("n1/0", "no-mem"), ("n1/1", "lost"), ("n2/0", "no-mem")]

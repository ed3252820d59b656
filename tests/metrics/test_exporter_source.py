"""Readings scraped from exporters and Pushgateways, with a clock and a wait of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from gpuctl.clients.exporter import Scrape
from gpuctl.clients.exposition import parse
from gpuctl.clock import FixedClock
from gpuctl.errors import BackendError, MetricsError, UsageError
from gpuctl.metrics.exporter_source import ExporterSource
from gpuctl.metrics.source import Want
from gpuctl.model.gpu import GpuState
from gpuctl.model.policy import Policy
from gpuctl.model.settings import ContextSettings, LabelSettings
from gpuctl.policy.balance import coverage_pct
from gpuctl.policy.hotspots import gpu_heat
from tests.metrics import dcgm_samples
from tests.metrics.test_data_samples import check_row

NOON = datetime(2025, 6, 1, 12, tzinfo=UTC)
WANT = Want.by(Policy())
DOWN = BackendError("x", cause="connection refused")


def scrape(page: str, host: str = "n1", *, at: datetime = NOON) -> Scrape:
    """A page as the client gives it."""
    url = f"http://{host}:9400/metrics"
    return Scrape(f"{host}:9400", url, list(parse(page)), at.timestamp())


def dead(host: str) -> Scrape:
    return Scrape(f"{host}:9400", f"http://{host}:9400/metrics", [], NOON.timestamp(), DOWN)


def card(util: float, *, uuid: str = "GPU-1", gpu: int = 0, host: str = "n1") -> str:
    labels = f'gpu="{gpu}",UUID="{uuid}",Hostname="{host}"'
    return (
        f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} {util}\n"
        f"DCGM_FI_DEV_FB_USED{{{labels}}} 1000\n"
        f"DCGM_FI_DEV_FB_FREE{{{labels}}} 3000\n"
    )


def source(
    rounds: Iterable[Sequence[Scrape]] | Sequence[Scrape],
    *,
    sample_for: float | None = None,
    clock: FixedClock | None = None,
    settings: ContextSettings | None = None,
) -> ExporterSource:
    """A source that gets one list of scrapes a round, the last one again and again."""
    left = list(rounds)
    if left and isinstance(left[0], Scrape):
        left = [left]  # type: ignore[list-item]
    clock = clock or FixedClock(NOON)

    def scraper() -> list[Scrape]:
        return list(left.pop(0) if len(left) > 1 else left[0])  # type: ignore[arg-type]

    def wait(seconds: float) -> None:
        clock.at += timedelta(seconds=seconds)

    return ExporterSource(
        scraper,
        settings or ContextSettings(),
        clock,
        wait=wait,
        sample_for=None if sample_for is None else timedelta(seconds=sample_for),
    )


@pytest.mark.parametrize(
    "name", [n for n in dcgm_samples.files() if dcgm_samples.kind(n) == "scrape"]
)
def test_a_scraped_page_gives_the_readings_of_its_table(name: str) -> None:
    labels = dcgm_samples.target_labels(name)
    host = labels.get("node") or labels.get("instance", "exporter").partition(":")[0]
    settings = ContextSettings(labels=LabelSettings(node_map={host: labels.get("node", host)}))
    snapshot = source([scrape(dcgm_samples.text(name), host)], settings=settings).read(WANT)
    rows = dcgm_samples.expected(name)
    by_index = {gpu.gpu: gpu for gpu in snapshot.gpus}
    assert {row.gpu for row in rows} == set(by_index)
    for row in rows:
        gpu = by_index[row.gpu]
        if row.node == "nvidia-dcgm-exporter-cwbcm":
            assert gpu.node == host  # the address is better than the exporter's pod
            continue
        check_row(gpu, row)


def test_one_moment_judges_neither_hot_nor_idle() -> None:
    snapshot = source([scrape(card(99))]).read(WANT)
    assert snapshot.window_seconds is None
    heat = gpu_heat(snapshot.gpus[0], Policy())
    assert (heat.hot, heat.idle) == (None, None)


def test_dead_exporters_are_named_with_reasons_and_lower_the_coverage() -> None:
    settings = ContextSettings(labels=LabelSettings(node_map={"10.0.0.9": "n9"}))
    scrapes = [scrape(card(5)), dead("n2"), dead("10.0.0.9"), dead("n4")]
    snapshot = source(scrapes, settings=settings).read(WANT)
    (warning,) = snapshot.warnings
    assert "3 of 4 exporters" in warning
    assert "n2:9400" in warning
    assert "connection refused" in warning
    assert snapshot.known_nodes == ("n1", "n2", "n4", "n9")
    assert coverage_pct(snapshot.gpus, snapshot.known_nodes) == 25


def test_no_living_exporter_is_an_error_that_says_why() -> None:
    with pytest.raises(BackendError) as caught:
        source([dead("n1"), dead("n2")]).read(WANT)
    assert "none of 2" in caught.value.what
    assert "connection refused" in str(caught.value.cause)


def test_a_page_without_gpus_is_an_error_that_names_what_it_has() -> None:
    with pytest.raises(MetricsError) as caught:
        source([scrape("node_load1 3\nnvidia_smi_power 4\n")]).read(WANT)
    assert "nvidia_smi_power" in str(caught.value.cause)


def test_no_target_is_a_usage_error() -> None:
    with pytest.raises(UsageError):
        source([[]]).read(WANT)


def test_an_exporter_has_no_past() -> None:
    with pytest.raises(UsageError):
        source([scrape(card(5))]).history("util", timedelta(1), timedelta(1), WANT)


# -- sampling for a while ------------------------------------------------------------------------


def sampled(loads: Sequence[float | None], seconds: float = 60) -> ExporterSource:
    """Rounds with these loads of one card beside a living one; None: its exporter fails."""
    other = scrape(card(50, uuid="GPU-2", host="n2"), "n2")
    rounds = [[dead("n1") if v is None else scrape(card(v)), other] for v in loads]
    return source(rounds, sample_for=seconds)


def test_sampling_gives_a_window_at_even_steps() -> None:
    snapshot = sampled([97, 96, 98, 99, 95]).read(WANT)
    assert snapshot.window_seconds == 60
    window = snapshot.gpus[0].window
    assert window is not None
    assert (window.samples, window.step_seconds, window.span_seconds) == (5, 15, 60)
    assert (window.min_pct, window.max_pct, window.mean_pct) == (95, 99, 97)
    assert gpu_heat(snapshot.gpus[0], Policy()).hot is True
    assert snapshot.taken_at == NOON + timedelta(seconds=60)


def test_sampling_says_for_how_long_a_card_has_been_hot_at_least() -> None:
    gpu = sampled([97] * 5).read(WANT).gpus[0]
    assert (gpu.hot_for_seconds, gpu.hot_for_capped) == (60, True)


def test_one_dip_while_sampling_is_not_hot() -> None:
    assert gpu_heat(sampled([97, 96, 20, 99, 95]).read(WANT).gpus[0], Policy()).hot is False


def test_an_exporter_that_fails_half_the_time_is_not_judged_hot() -> None:
    snapshot = sampled([97, None, None, 97, 97]).read(WANT)
    assert gpu_heat(snapshot.gpus[0], Policy()).hot is None


def test_one_moment_without_any_answer_does_not_end_the_sampling() -> None:
    rounds = [[scrape(card(97))], [dead("n1")], *([scrape(card(97))] for _ in range(8))]
    gpu = source(rounds, sample_for=120).read(WANT).gpus[0]
    assert gpu.window is not None
    assert gpu.window.samples == 8
    with pytest.raises(BackendError):
        source([[scrape(card(97))], [dead("n1")]], sample_for=60).read(WANT)


def test_a_slow_exporter_does_not_stretch_the_grid() -> None:
    clock = FixedClock(NOON)
    calls: list[float] = []

    def slow() -> list[Scrape]:
        calls.append(clock.at.timestamp())
        clock.at += timedelta(seconds=20)
        return [scrape(card(97), at=clock.at)]

    def wait(seconds: float) -> None:
        clock.at += timedelta(seconds=seconds)

    read = ExporterSource(
        slow, ContextSettings(), clock, wait=wait, sample_for=timedelta(seconds=60)
    ).read
    window = read(WANT).gpus[0].window
    assert len(calls) == 5
    assert window is not None
    assert window.samples == 5


# -- Pushgateway ---------------------------------------------------------------------------------


def pushed(groups: Sequence[tuple[str, float, str]]) -> str:
    """A Pushgateway's page: (labels of the group, age of the push, samples of the group)."""
    return "".join(
        f"push_time_seconds{{{labels}}} {NOON.timestamp() - age}\n"
        + "".join(line.replace("{", f"{{{labels},", 1) + "\n" for line in page.splitlines())
        for labels, age, page in groups
    )


def test_pages_of_a_pushgateway_have_the_age_of_their_push() -> None:
    page = pushed(
        [
            ('instance="n1",job="dcgm"', 20, card(40)),
            ('instance="n2",job="dcgm"', 900, card(97, uuid="GPU-2", host="n2")),
        ]
    )
    fresh, old = source([scrape(page, "gateway")]).read(WANT).gpus
    assert (fresh.node, fresh.age_seconds, fresh.state) == ("n1", 20, GpuState.OK)
    assert (old.node, old.age_seconds, old.state) == ("n2", 900, GpuState.STALE)


@pytest.mark.parametrize("turn", [1, -1])
def test_groups_told_apart_by_other_labels_keep_their_own_age(turn: int) -> None:
    groups = [
        ('instance="",job="dcgm",node="m1"', 15.0, card(40, host="localhost")),
        ('instance="",job="dcgm",node="m2"', 7200.0, card(97, uuid="GPU-2", host="localhost")),
    ]
    gpus = source([scrape(pushed(groups[::turn]), "gateway")]).read(WANT).gpus
    assert [(g.node, g.age_seconds) for g in gpus] == [("m1", 15), ("m2", 7200)]


# -- explain -------------------------------------------------------------------------------------


Page = Callable[[], str]


def test_explain_lists_what_was_used_merged_and_rejected() -> None:
    one = card(67).replace("GPU_UTIL{", 'GPU_UTIL{pod="a",namespace="x",')
    two = card(66) + "DCGM_FI_PROF_GR_ENGINE_ACTIVE" + card(1980).splitlines()[0][20:] + "\n"
    scrapes = [scrape(one), scrape(two, "n1b"), scrape(card(9, uuid="GPU-2", gpu=1), "n1c")]
    found = source(scrapes).explain("n1", 0, WANT)
    assert found.gpu.utilization_pct == 67
    used = {(s.name, s.value) for s, _ in found.trace.used}
    kept = {(s.name, s.value) for s, _ in found.trace.kept}
    assert ("DCGM_FI_DEV_GPU_UTIL", 67) in used
    assert ("DCGM_FI_DEV_GPU_UTIL", 66) in kept - used
    assert [(r.sample.value, r.reason) for r in found.trace.rejected] == [(1980, "outside 0..2")]
    assert all(s.labels["UUID"] == "GPU-1" for s, _ in found.trace.kept)


def test_explain_works_for_a_card_without_uuid() -> None:
    page = card(67).replace('UUID="GPU-1",', "") + card(5, gpu=1).replace('UUID="GPU-1",', "")
    found = source([scrape(page)]).explain("n1", 0, WANT)
    assert {s.value for s, _ in found.trace.used} == {67, 1000, 3000}


def test_explain_of_an_unknown_gpu_says_what_there_is() -> None:
    with pytest.raises(UsageError) as caught:
        source([scrape(card(5))]).explain("n1", 7, WANT)
    assert "n1/0" in str(caught.value.cause)


def test_a_card_that_vanishes_while_sampling_is_lost() -> None:
    both = [scrape(card(50)), scrape(card(60, uuid="GPU-2", host="n2"), "n2")]
    snapshot = source([both, both, [both[0], dead("n2")]], sample_for=60).read(WANT)
    assert [(g.address, g.state) for g in snapshot.gpus] == [
        ("n1/0", GpuState.OK),
        ("n2/0", GpuState.LOST),
    ]
    assert snapshot.gpus[1].utilization_pct is None
    assert snapshot.known_nodes == ("n1", "n2")

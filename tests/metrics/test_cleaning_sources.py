"""One GPU from many series: replicas, exporters, generations, clusters, nodes."""

from __future__ import annotations

from gpuctl.metrics.cleaning import PRESENCE, Trace
from gpuctl.model.gpu import GpuState
from gpuctl.model.sample import Sample
from gpuctl.model.settings import LabelSettings
from tests.metrics.rows import (
    ENGINE,
    FREE,
    NOW,
    RATIO,
    RESERVED,
    TOTAL,
    USED,
    UTIL,
    XID,
    clean,
    only,
    row,
)

MEMORY = [row(USED, 1000), row(FREE, 3000)]


def test_a_corrupt_value_of_one_replica_leaves_the_other_its_say() -> None:
    gpu = only(
        [
            row(UTIL, 808334905, prometheus_replica="a"),
            row(UTIL, 45, prometheus_replica="b"),
            *MEMORY,
        ]
    )
    assert (gpu.utilization_pct, gpu.state) == (45, GpuState.OK)


def test_one_card_under_hostname_and_its_new_spelling_stays_on_its_node() -> None:
    settings = LabelSettings(node=("node", "Hostname", "instance"))
    renamed = {"Hostname": None, "hostname": "n1", "UUID": "GPU-2", "gpu": "1"}
    gpus = clean(
        [
            row(UTIL, 1, instance="10.0.0.1:9400"),
            row(UTIL, 2, instance="10.0.0.2:9400", **renamed),
        ],
        labels=settings,
    ).gpus
    assert [(g.node, g.uuid) for g in gpus] == [("n1", "GPU-1"), ("n1", "GPU-2")]


def test_the_better_of_two_node_names_counts_whichever_exporter_was_scraped_last() -> None:
    for ages in ((5, 20), (20, 5)):
        gpu = only(
            [
                row(UTIL, 60, NOW - ages[0], instance="10.0.0.1:9400", job="operator"),
                row(UTIL, 60, NOW - ages[1], instance="192.168.7.1:9400", job="own", Hostname=None),
            ]
        )
        assert gpu.node == "n1"


def test_localhost_as_host_name_of_every_node_falls_back_to_the_target() -> None:
    cleaned = clean(
        row(UTIL, 10, UUID=f"GPU-{i}", Hostname="localhost", instance=f"10.0.0.{i}:9400")
        for i in (1, 2)
    )
    assert [g.node for g in cleaned.gpus] == ["10.0.0.1", "10.0.0.2"]
    assert cleaned.warnings == ()


def test_two_cards_at_one_address_are_a_warning() -> None:
    cleaned = clean([row(UTIL, 10), row(UTIL, 20, UUID="GPU-2")])
    assert len(cleaned.gpus) == 2
    assert "n1/0" in cleaned.warnings[0]
    assert "node_map" in cleaned.warnings[0]


def test_the_same_uuid_in_two_clusters_is_two_cards_and_a_hint_to_choose() -> None:
    cleaned = clean([row(UTIL, 10, cluster="hk"), row(UTIL, 90, cluster="sg")])
    assert [(g.cluster, g.utilization_pct) for g in cleaned.gpus] == [("hk", 10), ("sg", 90)]
    (warning,) = cleaned.warnings
    assert "prometheus.selector" in warning
    assert "hk" in warning
    assert "sg" in warning


def test_the_cluster_label_may_have_another_name() -> None:
    settings = LabelSettings(aliases={"cluster": ("k8s_cluster",)})
    assert only([row(UTIL, 10, k8s_cluster="hk")], labels=settings).cluster == "hk"


def test_without_a_uuid_node_and_index_tell_cards_apart() -> None:
    gpus = clean(
        [
            row(UTIL, 10, UUID=None),
            row(USED, 5, UUID=None),
            row(UTIL, 20, UUID=None, gpu="1"),
            row(UTIL, 30, UUID=None, Hostname="n2"),
        ]
    ).gpus
    assert [(g.address, g.utilization_pct) for g in gpus] == [
        ("n1/0", 10),
        ("n1/1", 20),
        ("n2/0", 30),
    ]


def test_rows_that_name_no_card_make_no_gpu() -> None:
    nothing = {"UUID": None, "gpu": None}
    trace = Trace()
    cleaned = clean([row(UTIL, 50, **nothing), row(UTIL, 40)], trace=trace)
    assert [g.utilization_pct for g in cleaned.gpus] == [40]
    assert "names no card" in trace.rejected[0].reason


def test_links_cpus_and_switches_are_no_gpus() -> None:
    others = [
        row("DCGM_FI_DEV_GPU_TEMP", 50, UUID=None, gpu=None, cpu="0"),
        row("DCGM_FI_DEV_GPU_TEMP", 50, UUID=None, nvswitch="nvswitch0"),
        Sample(UTIL, {"gpu_uuid": "GPU-7", "nvlink": "3", "gpu": "3"}, 5.0, NOW),
    ]
    assert len(clean([row(UTIL, 40), *others]).gpus) == 1


def test_a_node_label_called_cpu_does_not_hide_a_gpu() -> None:
    assert only([row(UTIL, 40, cpu="epyc")]).utilization_pct == 40


def test_lower_cased_names_and_labels_are_the_same_figures() -> None:
    names = {"gpu_i_id": "3", "gpu_i_profile": "3g.40gb", "uuid": "GPU-1", "gpu": "0"}
    lower = names | {"hostname": "n1", "modelname": "NVIDIA A100-SXM4-80GB"}
    gpu = only(
        [
            Sample("dcgm_fi_prof_gr_engine_active", lower, 0.5, NOW),
            Sample("dcgm_fi_dev_fb_used", lower, 10.0, NOW),
            Sample("dcgm_fi_dev_fb_free", lower, 30.0, NOW),
        ]
    )
    assert (gpu.node, gpu.model) == ("n1", "NVIDIA A100-SXM4-80GB")
    (instance,) = gpu.mig
    assert (instance.id, instance.profile, instance.utilization_pct) == (3, "3g.40gb", 50)
    assert instance.memory_total_mib == 40


def test_both_naming_generations_at_once_are_one_reading() -> None:
    gpu = only(
        [
            row(UTIL, 60),
            row(RATIO, 61),
            row(ENGINE, 0.5),
            row("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", 0.51),
            *MEMORY,
        ]
    )
    assert (gpu.utilization_pct, gpu.utilization_source) == (60, UTIL)


def test_ratio_named_utilization_is_per_cent_on_one_node_and_a_ratio_on_another() -> None:
    """A rolling upgrade from DCGM 4.6 to 4.7: one scrape job, both meanings."""
    old = {"instance": "n1:9400"}
    new = {"instance": "n2:9400", "Hostname": "n2"}
    gpus = clean(
        [
            row(RATIO, 55, **old),
            row(RATIO, 0.55, UUID="GPU-2", **new),
            row(RATIO, 1, UUID="GPU-3", gpu="1", **new),
        ]
    ).gpus
    assert [g.utilization_pct for g in gpus] == [55, 55, 100]


def test_a_one_that_could_be_one_or_a_hundred_per_cent_is_unknown() -> None:
    gpu = only([row(RATIO, 1), *MEMORY])
    assert (gpu.utilization_pct, gpu.state) == (None, GpuState.NO_UTIL)
    engine = only([row(RATIO, 1), row(ENGINE, 0.97), *MEMORY])
    assert engine.utilization_pct == 97
    assert only([row(RATIO, 0), *MEMORY]).utilization_pct == 0


def test_zero_engine_activity_of_busy_cards_is_a_warning_and_no_reading() -> None:
    cleaned = clean([row(UTIL, 99), row(ENGINE, 0)])
    assert cleaned.gpus[0].utilization_pct == 99
    assert "stuck" in cleaned.warnings[0]


def test_an_alias_of_the_site_is_trusted_first() -> None:
    (gpu,) = clean([row(UTIL, 10), row("my_util", 20)], aliases={"utilization": ["my_util"]}).gpus
    assert (gpu.utilization_pct, gpu.utilization_source) == (20, "my_util")


def test_memory_total_adds_the_reserved_part_and_prefers_the_real_total() -> None:
    assert only([*MEMORY, row(UTIL, 1)]).memory_total_mib == 4000
    assert only([*MEMORY, row(RESERVED, 50), row(UTIL, 1)]).memory_total_mib == 4050
    assert only([*MEMORY, row(RESERVED, 50), row(TOTAL, 4096)]).memory_total_mib == 4096


def test_used_and_free_of_different_exporters_are_not_mixed() -> None:
    gpu = only(
        [
            row(USED, 1000, job="a"),
            row(FREE, 3000, job="a"),
            row(USED, 500, job="b"),
            row(FREE, 3500, job="b"),
        ]
    )
    assert (gpu.memory_used_mib, gpu.memory_total_mib) == (1000, 4000)


def test_memory_without_used_or_free_is_unknown() -> None:
    assert only([row(UTIL, 5)]).state is GpuState.NO_MEM
    assert only([row(UTIL, 5), row(USED, 100)]).memory_total_mib is None


# -- age, lost, lingering -----------------------------------------------------------------------


def test_a_card_with_nothing_but_an_xid_row_is_lost() -> None:
    gpu = only([row(XID, 79, err_code="79")])
    assert (gpu.state, gpu.xid, gpu.utilization_pct) == (GpuState.LOST, 79, None)


def test_a_card_whose_figures_stopped_while_its_xid_row_goes_on_is_lost() -> None:
    """An agent without staleness markers: the last utilization is still in the answer."""
    gpu = only([row(UTIL, 99, NOW - 200), row(USED, 10, NOW - 200), row(XID, 79, NOW - 5)])
    assert (gpu.state, gpu.utilization_pct, gpu.memory_used_mib) == (GpuState.LOST, None, None)


def test_a_silent_card_is_lost_and_says_where_it_was() -> None:
    silent = Sample(PRESENCE, {"UUID": "GPU-9", "gpu": "5", "Hostname": "n3"}, 1.0)
    live, lost = clean([row(UTIL, 50)], silent=[silent]).gpus
    assert live.state is GpuState.NO_MEM
    assert (lost.address, lost.state, lost.utilization_pct) == ("n3/5", GpuState.LOST, None)


def test_a_silent_series_of_a_live_card_is_only_its_past() -> None:
    silent = Sample(PRESENCE, {"uuid": "GPU-1", "gpu": "0", "Hostname": "old-pod"}, 1.0)
    (gpu,) = clean([row(UTIL, 50), *MEMORY], silent=[silent]).gpus
    assert (gpu.node, gpu.state) == ("n1", GpuState.OK)


def test_utilization_gone_within_the_hour_is_lost_even_if_memory_is_still_told() -> None:
    silent = Sample(PRESENCE, {"UUID": "GPU-1", "gpu": "0", "Hostname": "n1"}, 1.0)
    (gpu,) = clean(MEMORY, silent=[silent]).gpus
    assert gpu.state is GpuState.LOST


def test_a_card_that_never_told_its_utilization_is_unknown_and_not_lost() -> None:
    assert only(MEMORY).state is GpuState.NO_UTIL


def test_blank_values_alone_are_no_utilization_and_not_a_lost_card() -> None:
    assert only([row(UTIL, 2147483632.0)]).state is GpuState.NO_UTIL


def test_an_old_sample_is_stale_and_a_fresh_one_is_not() -> None:
    assert only([row(UTIL, 50, NOW - 61), row(USED, 1, NOW - 61)]).state is GpuState.STALE
    fresh = only([row(UTIL, 50, NOW - 59), *[row(n, 9, NOW - 59) for n in (USED, FREE)]])
    assert (fresh.state, fresh.age_seconds) == (GpuState.OK, 59)


def test_a_time_in_the_future_is_no_negative_age() -> None:
    assert only([row(UTIL, 50, NOW + 30)]).age_seconds == 0


def test_a_lingering_row_of_a_pod_that_ended_gives_way_to_the_newest() -> None:
    trace = Trace()
    (gpu,) = clean(
        [
            row(UTIL, 97, NOW - 240, pod="gone", namespace="x"),
            row(UTIL, 5, NOW - 10, pod="here", namespace="x"),
            *MEMORY,
        ],
        trace=trace,
    ).gpus
    assert (gpu.utilization_pct, gpu.workloads) == (5, ("x/here",))
    assert "230s older" in trace.rejected[0].reason


def test_the_newest_of_several_xid_codes_counts() -> None:
    rows = [row(XID, 94, NOW - 40, err_code="94"), row(XID, 13, NOW - 5, err_code="13")]
    assert only([row(UTIL, 1), *rows]).xid == 13
    assert only([row(UTIL, 1), row(XID, 0)]).xid is None

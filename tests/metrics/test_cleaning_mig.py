"""MIG instances, the card made of them, and who shares a card."""

from __future__ import annotations

import pytest

from gpuctl.metrics.mig import compute_slices, total_slices, weighed
from gpuctl.model.gpu import GpuState
from gpuctl.model.sample import Sample
from tests.metrics.rows import ENGINE, FREE, NOW, RATIO, USED, UTIL, clean, mig, only, row

A100 = "NVIDIA A100-SXM4-80GB"


def instance(mig_id: int, profile: str, ratio: float, **more: str | float | None) -> list[Sample]:
    """An instance with a ratio, 100 MiB used and 900 free."""
    return [
        mig(name, value, mig_id, profile, **more)
        for name, value in ((ENGINE, ratio), (USED, 100.0), (FREE, 900.0))
    ]


@pytest.mark.parametrize(
    ("profile", "slices"),
    [
        ("3g.40gb", 3),
        ("1g.10gb+me", 1),
        ("1c.2g.20gb", 2),
        ("MIG 4g.24gb", 4),
        ("7g.80gb", 7),
        ("<<<NULL>>>", None),
        ("", None),
    ],
)
def test_compute_slices_are_the_leading_digit(profile: str, slices: int | None) -> None:
    assert compute_slices(profile) == slices


@pytest.mark.parametrize(
    ("model", "slices"),
    [
        ("NVIDIA A30", 4),
        ("NVIDIA-A30", 4),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 4),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 4),
        ("NVIDIA A100-SXM4-80GB", 7),
        ("NVIDIA H100 80GB HBM3", 7),
        ("NVIDIA B200", 7),
        (None, 7),
    ],
)
def test_slices_of_a_card_follow_its_model(model: str | None, slices: int) -> None:
    assert total_slices(model) == slices


def test_weighed_is_idle_for_free_slices_and_unknown_with_one_unknown() -> None:
    assert weighed([(1, 100.0)], 7) == pytest.approx(14.2857)
    assert weighed([(3, 50.0), (None, 5.0)], 7) is None
    assert weighed([(3, 50.0), (2, None)], 7) is None


def test_one_full_small_instance_is_a_seventh_of_the_card() -> None:
    gpu = only(instance(9, "1g.10gb", 1.02, modelName=A100))
    assert gpu.utilization_pct == pytest.approx(14.29, abs=0.01)
    assert (gpu.allocated_slices, gpu.total_slices) == (1, 7)
    assert gpu.mig[0].utilization_pct == 100


def test_gpu_util_of_an_instance_is_never_a_reading() -> None:
    gpu = only([mig(UTIL, 0, 1, "3g.40gb"), mig(USED, 1, 1, "3g.40gb")])
    assert gpu.mig[0].utilization_pct is None
    assert (gpu.utilization_pct, gpu.state) == (None, GpuState.NO_UTIL)


def test_whole_card_and_instances_at_once_are_one_card_by_its_instances() -> None:
    gpu = only([row(UTIL, 99), row(USED, 5000), row(FREE, 1000), *instance(1, "7g.80gb", 0.4)])
    assert gpu.utilization_pct == 40
    assert (gpu.memory_used_mib, gpu.memory_total_mib) == (100, 1000)


def test_the_cards_own_memory_counts_where_instances_have_none() -> None:
    gpu = only([row(USED, 5000), row(FREE, 1000), mig(ENGINE, 0.4, 1, "7g.80gb")])
    assert (gpu.memory_used_mib, gpu.memory_total_mib) == (5000, 6000)
    assert gpu.mig[0].memory_used_mib is None


def test_instances_without_memory_leave_it_unknown_and_not_zero() -> None:
    gpu = only([mig(ENGINE, 0.5, 1, "7g.80gb")])
    assert (gpu.memory_used_mib, gpu.memory_total_mib, gpu.state) == (None, None, GpuState.NO_MEM)


def test_an_instance_with_nothing_but_blanks_is_not_an_unassigned_slice() -> None:
    blank = mig(ENGINE, 140737488355328.0, 2, "3g.40gb")
    gpu = only([*instance(1, "4g.40gb", 0.5), blank])
    assert [i.id for i in gpu.mig] == [1, 2]
    assert (gpu.utilization_pct, gpu.allocated_slices) == (None, 7)


@pytest.mark.parametrize("profile", ["<<<NULL>>>", ""])
def test_an_unknown_profile_makes_the_card_unknown_and_its_own_figure_stays(profile: str) -> None:
    gpu = only([*instance(1, profile, 0.5), *instance(2, "3g.40gb", 0.1)])
    assert gpu.utilization_pct is None
    assert (gpu.mig[0].profile, gpu.mig[0].utilization_pct) == ("unknown", 50)


def test_a_dra_profile_stands_in_for_a_missing_one() -> None:
    gpu = only([mig(ENGINE, 0.5, 1, "<<<NULL>>>", dra_mig_profile="7g.80gb")])
    assert (gpu.mig[0].profile, gpu.utilization_pct) == ("7g.80gb", 50)


@pytest.mark.parametrize("turn", [1, -1])
def test_an_id_that_was_reused_has_the_newest_profile_and_only_its_figures(turn: int) -> None:
    old = instance(2, "3g.40gb", 0.99, at=NOW - 40)
    new = instance(2, "1g.10gb", 0.10, at=NOW - 5)
    (found,) = only([*old, *new][::turn]).mig
    assert (found.profile, found.utilization_pct) == ("1g.10gb", 10)


def test_instances_of_an_earlier_partitioning_give_way_when_slices_run_out() -> None:
    old = [s for i in (1, 2) for s in instance(i, "3g.40gb", 0.99, at=NOW - 40)]
    new = [s for i in range(7, 14) for s in instance(i, "1g.10gb", 0.5, at=NOW - 5)]
    gpu = only([*old, *new])
    assert [i.id for i in gpu.mig] == list(range(7, 14))
    assert (gpu.allocated_slices, gpu.utilization_pct) == (7, 50)


def test_more_slices_than_the_card_has_at_one_time_is_unknown_and_said() -> None:
    cleaned = clean([*instance(1, "4g.40gb", 0.5), *instance(2, "4g.40gb", 0.5)])
    assert cleaned.gpus[0].utilization_pct is None
    assert "8 of 7" in cleaned.warnings[0]


def test_ratio_named_utilization_does_not_count_on_instances_either() -> None:
    gpu = only([mig(RATIO, 0.7, 1, "7g.80gb"), mig(ENGINE, 0.2, 1, "7g.80gb")])
    assert gpu.utilization_pct == 20


# -- who shares a card ---------------------------------------------------------------------------


def per_process(**source: str) -> list[Sample]:
    """The rows of dcgm-exporter 4.8.2: the card, and what each pod takes of it."""
    pod = {"namespace": "team", "container": "main"}
    return [
        row(UTIL, 83, **source),
        row(UTIL, 47, pod="a", vgpu="0", **pod, **source),
        row(UTIL, 31, pod="b", vgpu="1", **pod, **source),
        row(USED, 30000, **source),
        row(USED, 20000, pod="a", vgpu="0", **pod, **source),
        row(USED, 10000, pod="b", vgpu="1", **pod, **source),
    ]


def shares(samples: list[Sample]) -> list[tuple[str, float | None, float | None]]:
    return [(t.workload, t.utilization_pct, t.memory_used_mib) for t in only(samples).tenants]


TRUE_SHARES = [("team/a", 47, 20000), ("team/b", 31, 10000)]


def test_per_process_rows_are_shares() -> None:
    assert shares(per_process()) == TRUE_SHARES


@pytest.mark.parametrize("label", ["job", "instance", "replica", "prometheus_replica"])
def test_shares_seen_twice_are_not_added(label: str) -> None:
    twice = [*per_process(**{label: "one"}), *per_process(**{label: "two"})]
    assert shares(twice) == TRUE_SHARES


def test_shares_under_two_names_are_not_added() -> None:
    renamed = [Sample(RATIO, s.labels, s.value, s.at) for s in per_process() if s.name == UTIL]
    assert shares([*per_process(), *renamed]) == TRUE_SHARES


def test_a_pod_with_two_slots_on_a_card_has_one_share() -> None:
    again = row(UTIL, 47, pod="a", vgpu="2", namespace="team", container="main")
    assert shares([*per_process(), again])[0][1] == 47


def test_two_containers_of_a_pod_add_up() -> None:
    side = row(UTIL, 5, pod="b", vgpu="2", namespace="team", container="side")
    assert shares([*per_process(), side])[1][1] == 36


def test_copies_per_pod_are_no_shares() -> None:
    copies = [row(UTIL, 71, pod=p, namespace="t", vgpu=v) for p, v in (("a", "0"), ("b", "1"))]
    assert [(t.utilization_pct, t.measured) for t in only(copies).tenants] == [(None, False)] * 2
    assert only(copies).utilization_pct == 71


def test_a_copy_per_batch_job_is_one_gpu_with_all_its_jobs() -> None:
    gpu = only([row(UTIL, 50, hpc_job=job) for job in ("11", "12")])
    assert gpu.workloads == ("job/11", "job/12")
    assert gpu.utilization_pct == 50

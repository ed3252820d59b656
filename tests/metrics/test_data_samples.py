"""Every sample file must give the readings of its table."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpuctl.metrics.cleaning import Cleaner
from gpuctl.metrics.labels import LabelRules
from gpuctl.metrics.names import MetricNames
from gpuctl.model.gpu import Gpu, MigInstance
from gpuctl.model.sample import Sample
from tests.metrics import dcgm_samples
from tests.metrics.dcgm_samples import Expected


def cleaned(name: str) -> dict[int, Gpu]:
    target = dcgm_samples.target_labels(name)
    samples = [
        Sample(s.name, {**target, **s.labels}, s.value, at=1000.0)
        for family in text_string_to_metric_families(dcgm_samples.text(name))
        for s in family.samples
    ]
    cleaner = Cleaner(MetricNames.of(), LabelRules(), now=1010.0, max_age_seconds=60)
    gpus = cleaner.clean(samples).gpus
    by_index = {gpu.gpu: gpu for gpu in gpus if gpu.gpu is not None}
    assert len(by_index) == len(gpus)
    return by_index


@pytest.mark.parametrize("name", dcgm_samples.files())
def test_sample_file_gives_the_readings_of_its_table(name: str) -> None:
    gpus = cleaned(name)
    rows = dcgm_samples.expected(name)
    assert rows
    assert {row.gpu for row in rows} == set(gpus)
    for row in rows:
        check_row(gpus[row.gpu], row)


def check_row(gpu: Gpu, row: Expected) -> None:
    """One line of a table against the reading of its GPU."""
    assert gpu.node == row.node
    device: Gpu | MigInstance = gpu
    if row.mig is not None and row.mig != "whole card":
        profile, mig_id = row.mig.split("/")
        device = next(instance for instance in gpu.mig if instance.id == int(mig_id))
        assert device.profile == profile
    if row.mig == "whole card":
        assert row.source == f"slices {gpu.allocated_slices}/{gpu.total_slices}"
    else:
        source = device.utilization_source
        assert row.source == (None if source is None else source.removeprefix("DCGM_FI_"))
        assert tuple(tenant.workload for tenant in device.tenants) == row.workloads
        assert str(gpu.state) == row.state or (row.mig is not None and row.state == "ok")
    assert device.utilization_pct == (
        None if row.utilization_pct is None else pytest.approx(row.utilization_pct, abs=0.05)
    )
    assert device.memory_used_mib == row.used_mib
    assert device.memory_total_mib == row.total_mib
    if row.memory_pct is None:
        assert gpu.memory_pct is None
    else:
        assert device.memory_used_mib is not None
        assert device.memory_total_mib
        share = 100 * device.memory_used_mib / device.memory_total_mib
        assert share == pytest.approx(row.memory_pct, abs=0.06)


def test_per_process_rows_are_shares_of_the_card() -> None:
    tenants = cleaned("timeslice-perprocess")[0].tenants
    shares = [(t.workload, t.utilization_pct, t.memory_used_mib, t.measured) for t in tenants]
    assert shares == [
        ("team-a/ts-0", 47, 18210, True),
        ("team-b/ts-1", 31, 12044, True),
        ("team-c/ts-2", 0, 0, True),
    ]


def test_copied_rows_are_not_shares() -> None:
    tenants = cleaned("timeslice-copies")[0].tenants
    assert [(t.utilization_pct, t.memory_used_mib, t.measured) for t in tenants] == [
        (None, None, False)
    ] * 3


def test_the_lost_card_names_its_xid() -> None:
    assert cleaned("xid79-lost")[5].xid == 79

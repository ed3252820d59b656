"""The table of metric names and its aliases."""

from __future__ import annotations

import pytest

from gpuctl.errors import ConfigError
from gpuctl.metrics import names as n
from gpuctl.metrics.names import MetricNames


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("DCGM_FI_DEV_GPU_UTIL", n.UTILIZATION),
        ("dcgm_fi_dev_gpu_util", n.UTILIZATION),
        ("dcgm_gpu_utilization", n.UTILIZATION),
        ("DCGM_FI_DEV_GPU_UTIL_RATIO", n.UTILIZATION),
        ("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", n.ENGINE_ACTIVE),
        ("DCGM_FI_DEV_XID_ERROR", n.XID),
        ("DCGM_FI_DEV_BOARD_POWER_WATTS", n.POWER),
        ("dcgm_fb_used", n.MEMORY_USED),
    ],
)
def test_every_generation_of_a_name_belongs_to_its_family(name: str, family: str) -> None:
    assert MetricNames.of().family_of[name] == family


def test_bandwidth_activity_is_not_memory_in_use() -> None:
    assert MetricNames.of().family_of["DCGM_FI_DEV_MEM_COPY_UTIL"] == n.MEMORY_COPY
    assert "DCGM_FI_DEV_FB_USED_PERCENT" not in MetricNames.of().family_of


def test_no_name_is_of_two_families() -> None:
    every = [name for names in MetricNames.of().by_family.values() for name in names]
    assert len(every) == len(set(every))


def test_an_alias_is_trusted_before_the_built_in_names_and_wins_their_family() -> None:
    names = MetricNames.of({"utilization": ["mine"], "tensor": ["DCGM_FI_PROF_SM_ACTIVE"]})
    assert names.rank("mine") == 0
    assert names.rank("DCGM_FI_DEV_GPU_UTIL") > 0
    assert names.family_of["DCGM_FI_PROF_SM_ACTIVE"] == n.TENSOR


def test_an_alias_of_no_family_is_an_error_that_lists_them() -> None:
    with pytest.raises(ConfigError) as caught:
        MetricNames.of({"utilisation": ["mine"]})
    assert "utilisation" in caught.value.what
    assert "utilization" in str(caught.value.hint)

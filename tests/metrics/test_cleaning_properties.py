"""What holds for the cleaning whatever the rows are."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from gpuctl.metrics import names as n
from gpuctl.metrics.bounds import reading
from gpuctl.metrics.cleaning import Trace
from gpuctl.model.gpu import Gpu, GpuState
from gpuctl.model.sample import Sample
from tests.metrics.rows import ENGINE, FREE, NOW, RATIO, TOTAL, USED, UTIL, XID, clean

BAD = [
    math.nan,
    math.inf,
    -math.inf,
    -1.0,
    1980.0,
    127622.0,
    808334905.0,
    4294967295.0,
    2147483632.0,
    2147483635.0,
    9223372036854775808.0,
    140737488355328.0,
]
_LABEL = st.sampled_from(["", "a", "b"])

_DEVICE = st.fixed_dictionaries(
    {"UUID": st.sampled_from(["GPU-1", "GPU-2", ""]), "Hostname": st.sampled_from(["n1", "n2"])},
    optional={
        "gpu": st.sampled_from(["0", "1"]),
        "GPU_I_ID": st.sampled_from(["1", "2"]),
        "GPU_I_PROFILE": st.sampled_from(["3g.40gb", "1g.10gb", "<<<NULL>>>"]),
        "pod": st.sampled_from(["p", "q"]),
        "exported_pod": st.sampled_from(["x", "y"]),
        "container": st.sampled_from(["c", "d"]),
        "job": _LABEL,
        "instance": st.sampled_from(["h1:9400", "h2:9400"]),
        "prometheus_replica": _LABEL,
        "node": st.sampled_from(["m1", "m2"]),
    },
)


def _value(name: str) -> st.SearchStrategy[float]:
    if name == ENGINE:
        good = st.floats(0, 1)
    elif name in (UTIL, RATIO):
        good = st.integers(0, 100).map(float)
    else:
        good = st.integers(0, 80_000).map(float)
    return st.one_of(good, st.sampled_from(BAD))


@st.composite
def _sample(draw: st.DrawFn) -> Sample:
    name = draw(st.sampled_from([UTIL, ENGINE, USED, FREE, TOTAL, XID, RATIO]))
    at = draw(st.sampled_from([None, NOW - 5, NOW - 20, NOW - 90, NOW - 400]))
    return Sample(name, draw(_DEVICE), draw(_value(name)), at)


SAMPLES = st.lists(_sample(), max_size=14)


def keys(gpus: Sequence[Gpu]) -> set[tuple[str | None, str]]:
    return {(g.cluster, g.uuid) for g in gpus}


@given(SAMPLES, st.randoms(use_true_random=False))
def test_readings_do_not_depend_on_the_order_of_rows(samples: list[Sample], random: object) -> None:
    shuffled = list(samples)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert clean(samples) == clean(shuffled)


@given(
    st.lists(_sample(), min_size=1, max_size=10),
    st.data(),
    st.sampled_from(["job", "instance", "replica", "prometheus_replica", "vgpu", "pod"]),
)
def test_a_copy_of_a_row_under_another_source_is_no_second_gpu(
    samples: list[Sample], data: st.DataObject, label: str
) -> None:
    # A card without UUID is told by its node, and that may be the instance.
    samples = [s for s in samples if s.labels["UUID"]]
    if not samples:
        return
    original = data.draw(st.sampled_from(samples))
    copy = Sample(original.name, {**original.labels, label: "other"}, original.value, original.at)
    before, after = clean(samples).gpus, clean([*samples, copy]).gpus
    assert keys(before) == keys(after)
    assert len(after) == len(keys(after))
    highest = max((s.value for s in samples if s.name in (UTIL, RATIO)), default=0)
    for old, new in zip(before, after, strict=True):
        if old.utilization_pct is not None and not old.mig and new.utilization_pct is not None:
            assert new.utilization_pct <= max(old.utilization_pct, highest, 100)


@given(st.sampled_from([UTIL, ENGINE, USED, FREE, TOTAL]), st.sampled_from(BAD))
def test_an_impossible_value_never_becomes_a_figure(name: str, bad: float) -> None:
    labels = {"UUID": "GPU-1", "gpu": "0", "Hostname": "n1"}
    if name in (USED, FREE, TOTAL) and 0 <= bad <= 1e7:
        return
    (gpu,) = clean([Sample(name, labels, bad, NOW)]).gpus
    assert gpu.utilization_pct is None
    assert gpu.memory_used_mib is None
    assert gpu.memory_total_mib is None
    assert gpu.state in (GpuState.NO_UTIL, GpuState.LOST)


@given(SAMPLES)
def test_figures_are_in_their_range_or_unknown(samples: list[Sample]) -> None:
    for gpu in clean(samples).gpus:
        for device in (gpu, *gpu.mig):
            assert device.utilization_pct is None or 0 <= device.utilization_pct <= 100
            for memory in (device.memory_used_mib, device.memory_total_mib):
                assert memory is None or 0 <= memory <= 2e8
        if gpu.state is GpuState.OK:
            assert gpu.utilization_pct is not None
            assert gpu.memory_total_mib is not None
        if gpu.state is GpuState.LOST:
            assert gpu.utilization_pct is None


@given(SAMPLES)
def test_each_row_has_one_fate(samples: list[Sample]) -> None:
    trace = Trace()
    clean(samples, trace=trace)
    kept = {id(sample) for sample, _ in trace.kept}
    rejected = [id(r.sample) for r in trace.rejected]
    assert len(rejected) == len(set(rejected))
    assert {id(s) for s in samples} == kept | set(rejected)
    assert {id(sample) for sample, _ in trace.used} <= kept
    assert all(r.reason for r in trace.rejected)


@given(st.sampled_from(n.FAMILIES), st.floats(allow_nan=True, allow_infinity=True))
def test_a_reading_is_a_number_in_range_or_a_reason(family: str, raw: float) -> None:
    value = reading(family, raw)
    if isinstance(value, str):
        assert value
    else:
        assert math.isfinite(value)
        assert value < 2147483632

"""Figures over time: every metric, whole cards and MIG, lost cards included."""

from __future__ import annotations

import pytest

from gpuctl.metrics.past import UNITS, history_families, history_series
from gpuctl.metrics.windows import WHOLE, Grid
from gpuctl.model.gpu import Gpu, GpuState
from gpuctl.model.history import HistorySeries, Metric
from tests.policy.cards import a_card, an_instance

METRICS: tuple[Metric, ...] = ("util", "mem", "membw", "tensor", "temp", "power")
Row = list[float | None]


def past(metric: Metric, gpu: Gpu, rows: dict[int, Row]) -> tuple[HistorySeries, ...]:
    count = len(next(iter(rows.values()))) if rows else 2
    values = {("", gpu.uuid, part): row for part, row in rows.items()}
    return history_series(metric, [gpu], Grid(start=0, step=60, count=count, values=values))


def mig_card() -> Gpu:
    mig = (
        an_instance(1, "4g.40gb", 1, memory_total_mib=4000.0),
        an_instance(2, "3g.40gb", 1, memory_total_mib=3000.0),
    )
    fields = {"memory_used_mib": 700.0, "memory_total_mib": 7000.0, "total_slices": 7}
    return a_card("n", 0, 1, mig=tuple(mig), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_has_families_and_a_unit(metric: Metric) -> None:
    assert history_families(metric)
    assert UNITS[metric]


@pytest.mark.parametrize("metric", METRICS)
def test_a_whole_card_shows_its_values_with_gaps_as_gaps(metric: Metric) -> None:
    (series,) = past(metric, a_card("n", 0, 1), {WHOLE: [40.0, None]})
    assert series.values == ((1.0, None) if metric == "mem" else (40, None))


@pytest.mark.parametrize("metric", METRICS)
def test_a_card_without_past_is_a_row_of_gaps(metric: Metric) -> None:
    lost = a_card("n", 0, None, state=GpuState.LOST)
    for gpu in (lost, a_card("n", 0, 1)):
        (series,) = past(metric, gpu, {})
        assert series.values == (None, None)


@pytest.mark.parametrize("metric", ["util", "membw", "tensor"])
def test_instances_are_weighed_into_the_card_and_shown_beside_it(metric: Metric) -> None:
    card, first, second = past(metric, mig_card(), {1: [70.0, 70.0], 2: [0.0, None]})
    assert card.values == (40, None)
    assert (first.mig_id, first.profile, first.values) == (1, "4g.40gb", (70, 70))
    assert (second.mig_id, second.values) == (2, (0, None))


def test_memory_of_instances_adds_up_and_each_has_its_own_total() -> None:
    card, first, second = past("mem", mig_card(), {1: [400.0, 400.0], 2: [300.0, None]})
    assert card.values == (10, None)
    assert first.values == (10, 10)
    assert second.values == (10, None)


@pytest.mark.parametrize("metric", ["temp", "power"])
@pytest.mark.parametrize("part", [1, 2, WHOLE])
def test_temperature_and_power_are_the_cards_whichever_instance_tells(
    metric: Metric, part: int
) -> None:
    (card,) = past(metric, mig_card(), {part: [50.0, 51.0]})
    assert card.mig_id is None
    assert card.values == (50, 51)


def test_memory_without_a_known_total_is_unknown_and_not_zero() -> None:
    (series,) = past("mem", a_card("n", 0, 1, memory_total_mib=None), {WHOLE: [100.0, 100.0]})
    assert series.values == (None, None)

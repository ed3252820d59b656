"""The heat map's document: counts, order, what is shown of what is unknown."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuctl.model.gpu import Gpu, GpuState
from gpuctl.model.policy import Policy
from gpuctl.policy.filters import Selection, parse_condition
from gpuctl.policy.overview import heatmap_document
from tests.policy.cards import NOON, a_card, a_snapshot, a_window, an_instance, overview

Sort = Literal["spread", "name", "util", "mem"]

FLEET = (
    a_card("b", 0, 96, memory_used_mib=400.0),
    a_card("b", 1, 21, memory_used_mib=400.0),
    a_card("a", 0, 50, memory_used_mib=3000.0),
    a_card("a", 1, 52, memory_used_mib=3000.0),
    a_card("c", 0, 99, memory_used_mib=2000.0),
    a_card("c", 1, 97, memory_used_mib=2000.0),
    a_card("d", 0, None, state=GpuState.LOST, memory_used_mib=None, window=a_window(None, None)),
    a_card("e", 0, 10, state=GpuState.STALE, memory_used_mib=3999.0),
)


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("spread", "bcade"),
        ("name", "abcde"),
        ("util", "cbade"),
        ("mem", "acbde"),
    ],
)
def test_nodes_are_sorted_worst_first_and_unknown_last(sort: Sort, order: str) -> None:
    doc = overview(*FLEET, sort=sort)
    assert "".join(load.node for load in doc.nodes) == order
    assert "".join(dict.fromkeys(item.node for item in doc.items)) == order
    assert [item.gpu for item in doc.items if item.node == "b"] == [0, 1]


def test_counts_of_the_summary() -> None:
    summary = overview(*FLEET).summary
    assert (summary.nodes, summary.gpus) == (5, 8)
    assert (summary.hot, summary.idle) == (3, 1)
    assert (summary.lost, summary.unknown) == (1, 1)
    assert summary.spread_pct == 78
    assert summary.balance_ratio == pytest.approx(98 / 51, abs=0.01)
    assert summary.coverage_pct == 60


def test_stale_figures_are_in_no_mean_spread_or_ratio() -> None:
    doc = overview(*FLEET)
    (stale,) = (load for load in doc.nodes if load.node == "e")
    assert (stale.utilization_mean_pct, stale.utilization_spread_pct) == (None, None)
    assert stale.memory_mean_pct is None
    assert (stale.hot, stale.idle, stale.unknown) == (0, 0, 1)


def test_an_empty_cluster_has_no_figures() -> None:
    summary = overview().summary
    assert (summary.nodes, summary.gpus, summary.hot, summary.lost) == (0, 0, 0, 0)
    assert (summary.spread_pct, summary.balance_ratio, summary.coverage_pct) == (None, None, None)


def test_a_filter_narrows_the_counts_and_not_the_coverage() -> None:
    doc = overview(*FLEET, selection=Selection(conditions=(parse_condition("util>90"),)))
    assert (doc.summary.gpus, doc.summary.hot, doc.summary.coverage_pct) == (3, 3, 60)
    assert "filtered: 3 of 8 GPUs shown" in doc.warnings


def test_hot_instances_are_counted_beside_cards() -> None:
    card = a_card("m", 0, 14, mig=(an_instance(9, "1g.10gb", 99, hot_for_seconds=600.0),))
    doc = overview(card)
    assert (doc.summary.hot, doc.summary.hot_instances, doc.summary.idle) == (0, 1, 1)
    (instance,) = doc.items[0].mig
    assert (instance.hot, instance.hot_for_seconds) == (True, 600)


def test_how_long_it_was_hot_counts_only_for_the_mark_it_was_measured_at() -> None:
    card = a_card("n", 0, 97, hot_for_seconds=900.0, hot_for_capped=True)
    (item,) = overview(card).items
    assert (item.hot, item.hot_for_seconds, item.hot_for_capped) == (True, 900, True)
    (item,) = overview(card, policy=Policy(hot_above=80)).items
    assert (item.hot, item.hot_for_seconds, item.hot_for_capped) == (True, None, False)
    cool = a_card("n", 0, 50, hot_for_seconds=900.0)
    assert overview(cool).items[0].hot_for_seconds is None


def test_what_can_not_be_judged_is_said() -> None:
    one_moment = overview(a_card("n", 0, 97, window=None), snapshot={"window_seconds": None})
    assert one_moment.items[0].hot is None
    assert any("one moment" in text for text in one_moment.warnings)
    short = overview(a_card("n", 0, 97), snapshot={"window_seconds": 60.0})
    assert any("60s" in text and "300s" in text for text in short.warnings)
    assert overview(a_card("n", 0, 97)).warnings == ()
    longer = overview(a_card("n", 0, 97), policy=Policy(hot_for=timedelta(seconds=10)))
    assert longer.warnings == ()


def test_silent_nodes_are_named_in_a_warning() -> None:
    doc = overview(*FLEET, snapshot={"known_nodes": ("a", "z")})
    assert "3 of 6 nodes have no fresh GPU metrics: d, e, z" in doc.warnings
    assert any(text.startswith("1 GPUs have no fresh metrics") for text in doc.warnings)


@given(st.permutations(range(len(FLEET))), st.sampled_from(["spread", "name", "util", "mem"]))
def test_the_document_does_not_depend_on_the_order_of_cards(order: list[int], sort: Sort) -> None:
    shuffled = [FLEET[index] for index in order]
    assert overview(*shuffled, sort=sort) == overview(*FLEET, sort=sort)


def _card(load: float | None, state: GpuState, node: str, index: int) -> Gpu:
    return a_card(node, index, load, state=state)


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.floats(0, 100)),
            st.sampled_from(list(GpuState)),
            st.sampled_from("abc"),
        ),
        max_size=12,
    )
)
def test_every_card_is_counted_once_and_unknown_is_never_idle(
    rows: list[tuple[float | None, GpuState, str]],
) -> None:
    cards = [_card(load, state, node, i) for i, (load, state, node) in enumerate(rows)]
    doc = overview(*cards)
    summary = doc.summary
    assert len(doc.items) == summary.gpus == len(cards) == sum(n.gpus for n in doc.nodes)
    known = [g for g in doc.items if g.hot is not None or g.idle is not None]
    assert summary.lost + summary.unknown + len(known) >= summary.gpus
    for item in doc.items:
        if item.utilization_pct is None or item.state in ("lost", "stale", "no-util"):
            assert (item.hot, item.idle) == (None, None)
    assert summary.hot == sum(n.hot for n in doc.nodes)
    assert summary.idle == sum(n.idle for n in doc.nodes)


def test_same_snapshot_same_bytes() -> None:
    snapshot = a_snapshot(*FLEET)
    first, second = (
        msgspec.json.encode(heatmap_document(snapshot, Policy(), generated_at=NOON))
        for _ in range(2)
    )
    assert first == second
    again = replace(snapshot, gpus=tuple(reversed(snapshot.gpus)))
    assert msgspec.json.encode(heatmap_document(again, Policy(), generated_at=NOON)) == first

"""`--where` conditions, globs and what they do with unknown figures."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gpuctl.model.gpu import GpuState
from gpuctl.policy.filters import FIELDS, BadCondition, Selection, parse_condition
from tests.policy.cards import a_card, a_window, an_instance, overview

CARDS = overview(
    a_card(
        "gpu-01",
        0,
        96,
        pods=["prod/llm-0"],
        model="NVIDIA A100-SXM4-80GB",
        temperature_c=70.0,
        power_w=300.0,
        memory_bandwidth_pct=55.0,
        tensor_pct=20.0,
        xid=79,
        age_seconds=12.0,
    ),
    a_card("gpu-01", 1, 5, pods=["dev/nb-1", "prod/x"], model="NVIDIA L40S", age_seconds=3.0),
    a_card("gpu-02", 0, None, state=GpuState.NO_UTIL, window=a_window(None, None)),
    a_card("gpu-02", 1, 40, mig=(an_instance(1, "3g.40gb", 95), an_instance(2, "2g.20gb", 1))),
    sort="name",
).items


def kept(*conditions: str, **selection: Any) -> list[str]:
    chosen = Selection(conditions=tuple(map(parse_condition, conditions)), **selection)
    return [f"{g.node}/{g.gpu}" for g in CARDS if chosen.keeps(g)]


@pytest.mark.parametrize(
    ("condition", "addresses"),
    [
        ("util>90", ["gpu-01/0"]),
        ("util>=40", ["gpu-01/0", "gpu-02/1"]),
        ("util<90", ["gpu-01/1", "gpu-02/1"]),
        ("util <= 5%", ["gpu-01/1"]),
        ("util=96", ["gpu-01/0"]),
        ("util==96", ["gpu-01/0"]),
        ("util!=96", ["gpu-01/1", "gpu-02/1"]),
        ("mem>=25", ["gpu-01/0", "gpu-01/1", "gpu-02/0", "gpu-02/1"]),
        ("membw>50", ["gpu-01/0"]),
        ("tensor<50", ["gpu-01/0"]),
        ("temp>=70", ["gpu-01/0"]),
        ("power>250", ["gpu-01/0"]),
        ("age<10", ["gpu-01/1"]),
        ("gpu=1", ["gpu-01/1", "gpu-02/1"]),
        ("xid=79", ["gpu-01/0"]),
        ("node=gpu-01", ["gpu-01/0", "gpu-01/1"]),
        ("node==gpu-01", ["gpu-01/0", "gpu-01/1"]),
        ("node!=gpu-01", ["gpu-02/0", "gpu-02/1"]),
        ("node~=-02$", ["gpu-02/0", "gpu-02/1"]),
        ("node!~=-02$", ["gpu-01/0", "gpu-01/1"]),
        ("model~=A100", ["gpu-01/0"]),
        ("uuid=GPU-gpu-01-1", ["gpu-01/1"]),
        ("state=no-util", ["gpu-02/0"]),
        ("state!=ok", ["gpu-02/0"]),
        ("workload=prod/llm-0", ["gpu-01/0"]),
        ("ns=prod", ["gpu-01/0", "gpu-01/1"]),
        ("ns!=prod", ["gpu-02/0", "gpu-02/1"]),
        ("pod~=^nb", ["gpu-01/1"]),
        ("profile=3g.40gb", ["gpu-02/1"]),
        ("hot=true", ["gpu-01/0"]),
        ("hot=unknown", ["gpu-02/0"]),
        ("idle=true", ["gpu-01/1"]),
    ],
)
def test_a_condition_keeps_what_it_says(condition: str, addresses: list[str]) -> None:
    assert kept(condition) == addresses


def test_every_field_was_tried() -> None:
    (mark,) = test_a_condition_keeps_what_it_says.pytestmark  # type: ignore[attr-defined]
    assert {re.split(r"\W", condition)[0] for condition, _ in mark.args[1]} == set(FIELDS)


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">=", "=", "!="])
def test_an_unknown_figure_satisfies_no_comparison(operator: str) -> None:
    assert "gpu-02/0" not in kept(f"util{operator}0")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("util", "FIELD OPERATOR VALUE"),
        ("", "FIELD OPERATOR VALUE"),
        (">90", "FIELD OPERATOR VALUE"),
        ("load>90", "unknown field 'load'"),
        ("util>hot", "is a number"),
        ("util>nan", "is a number"),
        ("util~=9", "compares with"),
        ("util>", "is a number"),
        ("node>5", "is text"),
        ("node~=(", "bad regular expression"),
    ],
)
def test_a_condition_that_makes_no_sense_is_refused_with_what_would(text: str, says: str) -> None:
    with pytest.raises(BadCondition) as caught:
        parse_condition(text)
    assert says in str(caught.value)


def test_conditions_and_globs_all_have_to_hold() -> None:
    assert kept("util>1", "ns=prod", nodes=("GPU-0?",)) == ["gpu-01/0", "gpu-01/1"]
    assert kept(nodes=("gpu-02", "x*")) == ["gpu-02/0", "gpu-02/1"]
    assert kept(models=("*l40s",)) == ["gpu-01/1"]
    assert kept(nodes=("gpu-9*",)) == []


def test_hot_keeps_cards_and_cards_with_a_hot_instance() -> None:
    assert kept(only_hot=True) == ["gpu-01/0", "gpu-02/1"]


def test_a_selection_knows_when_it_filters_nothing() -> None:
    assert Selection().is_everything
    assert not Selection(only_hot=True).is_everything
    assert not Selection(nodes=("a",)).is_everything

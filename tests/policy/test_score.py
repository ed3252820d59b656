"""What each strategy prefers, who is refused and why, and what is unknown."""

from __future__ import annotations

from typing import Any

import pytest

from gpuctl.errors import ConfigError, UsageError
from gpuctl.model.gpu import Gpu, GpuState
from gpuctl.model.policy import Policy
from gpuctl.model.score import Request, Scored
from gpuctl.model.snapshot import Snapshot
from gpuctl.policy.scoring.parts import neutral
from gpuctl.policy.scoring.ranking import score_devices, score_document, score_nodes
from gpuctl.policy.scoring.weights import weights_of
from tests.policy.building import NOON, a_gpu, a_pod, a_snapshot, a_tenant, a_vm, an_instance

POLICY = Policy()
T = a_tenant("p/x")


def order(*gpus: Gpu, strategy: str = "least-loaded", **request: Any) -> list[str]:
    report = score_nodes(a_snapshot(*gpus), POLICY, Request(**request), strategy)
    return [item.node for item in report.items]


def only(*gpus: Gpu, policy: Policy = POLICY, **request: Any) -> Scored:
    (item,) = score_nodes(a_snapshot(*gpus), policy, Request(**request), explain=True).items
    return item


def shared(node: str, load: float, used: float = 10_000.0, gpu: int = 0, **more: Any) -> Gpu:
    return a_gpu(node, gpu, load, used, T, **{"slots": 4, **more})


# -- preferences ----------------------------------------------------------------------------------


def test_least_loaded_prefers_headroom() -> None:
    assert order(shared("busy", 70), shared("cool", 20), shared("warm", 45)) == [
        "cool",
        "warm",
        "busy",
    ]


def test_headroom_weighs_memory_as_much_as_load() -> None:
    cool_full, warm_empty = shared("a-cool", 20, 70_000), shared("b-warm", 40, 5_000)
    assert order(cool_full, warm_empty) == ["a-cool", "b-warm"]
    assert order(cool_full, warm_empty, strategy="headroom") == ["b-warm", "a-cool"]


def test_pack_fills_up_but_heats_nothing() -> None:
    empty = a_gpu("empty", 0, 0, 0, slots=4)
    ranked = order(empty, shared("half", 50), shared("nearly-hot", 89), strategy="pack")
    assert ranked == ["half", "nearly-hot", "empty"]


def test_fragmentation_uses_what_is_broken_already() -> None:
    whole = [a_gpu("whole", g, 0, 0, slots=2) for g in range(2)]
    broken = [a_gpu("broken", 0, 10, 0, T, slots=2), a_gpu("broken", 1, 0, 0, slots=2)]
    big = [a_gpu("big", g, 50, 0, a_tenant("p/big"), slots=1) for g in range(2)]
    assert order(*whole, *broken, *big, strategy="fragmentation") == ["broken", "whole"]


def test_simple_is_the_formula_people_start_with() -> None:
    gpus = [a_gpu("a", 0, 30, 20 * 1024), a_gpu("b", 0, 60, 60 * 1024)]
    report = score_nodes(a_snapshot(*gpus), POLICY, Request(), "simple")
    assert [(item.node, item.score) for item in report.items] == [("a", 50), ("b", 0)]
    assert report.items[1].parts.memory == -40


def test_a_hot_neighbour_costs_points() -> None:
    calm = [shared("calm", 30, gpu=0), shared("calm", 60, gpu=1)]
    heated = [shared("heated", 25, gpu=0), shared("heated", 95, gpu=1)]
    report = score_nodes(a_snapshot(*calm, *heated), POLICY, Request())
    assert [item.node for item in report.items] == ["calm", "heated"]
    assert report.items[1].parts.hot < 0
    assert report.items[1].reason == "1 of 2 hot"
    assert report.items[1].gpus_free == 1


def test_the_node_counts_as_well_as_its_best_card() -> None:
    uneven = [shared("uneven", 20, gpu=0), shared("uneven", 85, gpu=1)]
    even = [shared("even", 25, gpu=0), shared("even", 25, gpu=1)]
    assert order(*uneven, *even) == ["even", "uneven"]


def test_training_and_inference_keep_apart() -> None:
    train, serve = shared("train", 40), shared("serve", 40)
    gpus = [train, serve]
    pods = [a_vm("vm/1", train), a_pod("p/y", serve)]
    snapshot = a_snapshot(*gpus, workloads=pods)
    for kind, best in (("training", "train"), ("inference", "serve")):
        request = Request(workload_class=kind)  # type: ignore[arg-type]
        items = score_nodes(snapshot, POLICY, request, explain=True).items
        assert items[0].node == best
        assert items[0].score > items[1].score
        assert items[1].explanation is not None
        assert "beside" in items[1].explanation.compute


def test_ties_are_broken_by_load_then_by_name() -> None:
    gpus = [shared("b", 40), shared("a", 40), shared("c", 30)]
    assert order(*gpus) == ["c", "a", "b"]
    assert order(*gpus, strategy="fragmentation") == ["c", "a", "b"]


def test_weights_of_the_policy_count() -> None:
    cool_full, warm_empty = shared("a-cool", 20, 70_000), shared("b-warm", 40, 5_000)
    policy = Policy(weights={"compute": 0, "spread": 0, "memory": 1})
    report = score_nodes(a_snapshot(cool_full, warm_empty), policy, Request())
    assert [item.node for item in report.items] == ["b-warm", "a-cool"]
    assert report.items[0].parts.compute == 0


@pytest.mark.parametrize(
    ("weights", "complaint"),
    [
        ({"headroom": 1}, "'headroom' is not a part of a score"),
        ({"compute": -1}, "policy.weights.compute must be 0 or more"),
        ({"compute": 0, "memory": 0, "spread": 0}, "leaves nothing to score by"),
    ],
)
def test_bad_weights_are_errors(weights: dict[str, float], complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        weights_of("least-loaded", Policy(weights=weights))
    assert complaint in str(caught.value)


def test_an_unknown_strategy_is_an_error() -> None:
    with pytest.raises(UsageError, match="no strategy 'best'"):
        score_nodes(a_snapshot(a_gpu()), POLICY, Request(), "best")


# -- refusals -------------------------------------------------------------------------------------

HOT = a_gpu("n1", 0, 95)
REFUSED: list[tuple[list[Gpu], dict[str, Any], str, str]] = [
    ([HOT, a_gpu("n1", 1, 97)], {}, "hot", "both free GPUs are hot"),
    ([HOT], {}, "hot", "the only free GPU is hot"),
    ([HOT, a_gpu("n1", 1, 97), a_gpu("n1", 2, 99)], {}, "hot", "all 3 free GPUs are hot"),
    ([HOT, a_gpu("n1", 1, 5, 0, T)], {}, "hot", "the only free GPU is hot"),
    ([HOT, a_gpu("n1", 1, 5)], {"gpus": 2}, "hot", "1 of 2 free GPUs is hot"),
    ([a_gpu("n1", 0, 5, 0, T)], {}, "no-free-gpu", "its only GPU is in use"),
    (
        [a_gpu("n1", 0, 5, 0, T), a_gpu("n1", 1, 5)],
        {"gpus": 2},
        "no-free-gpu",
        "1 of 2 GPUs free, 2 are asked for",
    ),
    ([a_gpu("n1", 0, 5)], {"gpus": 2}, "too-few", "it has 1 GPU, 2 are asked for"),
    ([a_gpu("n1", 0, 5, 0, T, a_tenant("p/y"), slots=2)], {}, "no-free-slot", "no slot free"),
    (
        [a_gpu("n1", 0, 5, 70_000)],
        {"memory_mib": 20_480},
        "memory",
        "20.0 GiB are asked for, the free ones have 9.8 GiB left",
    ),
    ([a_gpu("n1", 0, 5)], {"gpu_model": "*H100*"}, "gpu-model", "no GPU of model *H100*"),
    ([a_gpu("n1", 0, 5)], {"mig_profile": "1g.10gb"}, "mig-profile", "no 1g.10gb instance"),
    (
        [a_gpu("n1", 0, 5, mig=(an_instance(1, "1g.10gb", 5, T),))],
        {"mig_profile": "1g.10gb"},
        "no-free-instance",
        "no 1g.10gb instance free",
    ),
    (
        [a_gpu("n1", 0, 5, mig=(an_instance(1, "1g.10gb", 5),))],
        {},
        "mig-mode",
        "all its GPUs are cut into MIG instances",
    ),
    ([a_gpu("n1", 0, 5)], {"shared": True}, "not-shared", "its GPUs are not shared"),
    (
        [a_gpu("n1", 0, 5, 0, T), a_gpu("n1", 1, None, None, state=GpuState.LOST)],
        {},
        "no-free-gpu",
        "none of its 2 GPUs is free (1 GPU lost)",
    ),
]


@pytest.mark.parametrize(("gpus", "request_", "rule", "reason"), REFUSED)
def test_refusals_name_rule_and_reason(
    gpus: list[Gpu], request_: dict[str, Any], rule: str, reason: str
) -> None:
    report = score_nodes(a_snapshot(*gpus), POLICY, Request(**request_))
    assert report.items == ()
    (refusal,) = report.refused
    assert refusal.rule == rule
    assert reason in refusal.reason


@pytest.mark.parametrize(
    ("device", "rule", "reason"),
    [
        (HOT, "hot", "it is hot, at 95 %"),
        (a_gpu("n1", 0, 5, 0, T), "no-free-gpu", "it is in use"),
        (a_gpu("n1", 0, 5, 79_000), "memory", "20.0 GiB asked for, 1000 MiB free"),
        (a_gpu("n1", 0, 5, 0, T, T, slots=1), "no-free-gpu", "it is in use"),
    ],
)
def test_single_gpus_are_refused_for_themselves(device: Gpu, rule: str, reason: str) -> None:
    free = a_gpu("n1", 1, 10)
    report = score_devices(a_snapshot(device, free), POLICY, Request(memory_mib=20_480))
    assert [(item.node, item.gpu) for item in report.items] == [("n1", 1)]
    (refusal,) = report.refused
    assert (refusal.gpu, refusal.rule, refusal.reason) == (0, rule, reason)


def test_a_lost_gpu_of_a_live_node_is_broken() -> None:
    lost = a_gpu("n1", 0, None, None, state=GpuState.LOST, xid=79)
    report = score_devices(a_snapshot(lost, a_gpu("n1", 1, 10)), POLICY, Request())
    assert [(r.rule, r.reason) for r in report.refused] == [("lost", "lost, XID 79")]


def test_cards_seen_with_several_tenants_are_shared() -> None:
    crowded = a_gpu("n1", 0, 50, 0, T, a_tenant("p/y"))
    item = only(crowded, a_gpu("n1", 1, 30, 0, a_tenant("p/z")))
    assert (item.gpus_free, item.gpus) == (2, 2)
    assert item.reason == "free slots not known"


def test_gpus_and_instances_rank_for_themselves() -> None:
    parts = (an_instance(3, "1g.10gb", 40), an_instance(4, "1g.10gb", 0))
    card = a_gpu("n1", 0, 30, mig=parts)
    report = score_devices(a_snapshot(card), POLICY, Request(mig_profile="1g.10gb"))
    assert [(item.mig_id, item.mig_profile) for item in report.items] == [
        (4, "1g.10gb"),
        (3, "1g.10gb"),
    ]
    assert report.items[0].utilization_mean_pct == 0


# -- unknown --------------------------------------------------------------------------------------

STALE = {"state": GpuState.STALE, "age_seconds": 420.0}


def with_stale(*fresh: Gpu, **changes: Any) -> Snapshot:
    return a_snapshot(*fresh, a_gpu("old", 0, 5, **{**STALE, **changes}))


def test_a_stale_node_is_neutral_and_says_so() -> None:
    report = score_nodes(with_stale(shared("a", 60), shared("b", 20)), POLICY, Request())
    old = next(item for item in report.items if item.node == "old")
    assert old.stale
    assert old.reason == "metrics 7 min old"
    assert 0 < old.score < report.items[0].score
    assert old.parts.freshness == old.score
    assert any("1 node is unknown or stale" in warning for warning in report.warnings)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"state": GpuState.NO_UTIL, "utilization_pct": None}, "GPU 0: utilization unknown"),
        ({"state": GpuState.NO_MEM, "memory_used_mib": None}, "GPU 0: memory unknown"),
        ({"state": GpuState.LOST}, "metrics 7 min old"),
        ({"age_seconds": None}, "no fresh metrics"),
    ],
)
def test_what_is_unknown_is_neither_refused_nor_best(changes: dict[str, Any], reason: str) -> None:
    report = score_nodes(with_stale(shared("busy", 88), **changes), POLICY, Request())
    assert [item.node for item in report.items] == ["busy", "old"]
    assert (report.items[1].stale, report.items[1].reason) == (True, reason)


def test_a_known_node_without_any_reading_is_unknown() -> None:
    snapshot = a_snapshot(a_gpu("a", 0, 80), known_nodes=("a", "mute"))
    mute = score_nodes(snapshot, POLICY, Request()).items[1]
    assert (mute.node, mute.stale, mute.gpus, mute.gpus_free) == ("mute", True, None, None)


def test_an_unknown_card_among_known_ones_is_just_not_used() -> None:
    item = only(a_gpu("n", 0, 10), a_gpu("n", 1, 10, **STALE))
    assert (item.stale, item.gpus_free, item.reason) == (False, 1, "1 of 2 unknown")


def test_an_unknown_node_that_is_too_small_is_refused_all_the_same() -> None:
    report = score_nodes(with_stale(a_gpu("a", 0, 10)), POLICY, Request(gpus=2))
    assert {refusal.rule for refusal in report.refused} == {"too-few"}


def test_only_unknown_nodes_left_is_said() -> None:
    report = score_nodes(with_stale(HOT), POLICY, Request())
    assert [item.node for item in report.items] == ["old"]
    assert any("only unknown ones could take it" in warning for warning in report.warnings)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([], 5_000),
        ([9_000, 8_000, 1_000], 5_000),
        ([3_000, 2_000, 1_000], 2_000),
        ([3_000], 2_999),
        ([0, 0, 500], 1),
        ([0], 0),
        ([1], 0),
    ],
)
def test_the_neutral_score(scores: list[int], expected: int) -> None:
    assert neutral(scores) == expected


def test_without_a_window_heat_is_not_judged_and_that_is_said() -> None:
    gpu = a_gpu("n", 0, 97, window=None)
    report = score_nodes(a_snapshot(gpu, window_seconds=None), POLICY, Request())
    assert [item.node for item in report.items] == ["n"]
    assert any("--sample-for" in warning for warning in report.warnings)


def test_conditions_that_nobody_checked_are_named() -> None:
    request = Request(unchecked=("taints and tolerations",))
    warnings = score_nodes(a_snapshot(a_gpu()), POLICY, request).warnings
    assert "not checked against the nodes: taints and tolerations" in warnings


# -- the document ---------------------------------------------------------------------------------


def test_every_part_has_its_sentence() -> None:
    item = only(shared("n", 95, gpu=0), shared("n", 20, gpu=1), memory_mib=1_024)
    said = item.explanation
    assert said is not None
    assert said.compute.startswith("GPU 1 at 20 % over the window, the node at 58 %")
    assert "58.4 GiB" not in said.memory
    assert "1.0 GiB asked for" in said.memory
    assert said.hot == "1 of its 2 GPUs is hot; all of them would cost 80 % of the points"
    assert said.fragmentation == "not counted by this strategy"


def test_fragmentation_says_what_becomes_useless() -> None:
    gpus = [a_gpu("n", g, 0, 0, slots=2) for g in range(2)]
    big = a_gpu("big", 0, 50, 0, a_tenant("p/big"), slots=1)
    report = score_nodes(
        a_snapshot(*gpus, big), POLICY, Request(), "fragmentation", nodes=["n"], explain=True
    )
    said = report.items[0].explanation
    assert said is not None
    assert said.fragmentation.startswith("0.500 cards more of free GPU that the current mix")
    assert said.hot == "not counted by this strategy"


def test_globs_choose_the_candidates() -> None:
    gpus = [a_gpu("hk-1"), a_gpu("hk-2"), a_gpu("sg-1")]
    for globs, expected in [
        (("HK-*",), ["hk-1", "hk-2"]),
        (("sg-1", "hk-[2-9]"), ["hk-2", "sg-1"]),
        (("hk",), []),
    ]:
        report = score_nodes(a_snapshot(*gpus), POLICY, Request(), nodes=globs)
        assert [item.node for item in report.items] == expected


def test_the_document_says_what_was_asked() -> None:
    snapshot = a_snapshot(a_gpu())
    report = score_nodes(snapshot, POLICY, Request(gpus=1), "pack")
    doc = score_document(report, snapshot, generated_at=NOON)
    assert (doc.kind, doc.level, doc.strategy, doc.request) == (
        "score_list",
        "node",
        "pack",
        Request(),
    )
    assert doc.weights == {
        "compute": 40,
        "memory": 20,
        "spread": 0,
        "fragmentation": 40,
        "hot": 30,
    }

"""What holds for every score, whatever the cluster, the request and the strategy."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import astuple, replace

from gpuctl.model.gpu import Gpu, GpuState
from gpuctl.model.policy import Policy
from gpuctl.model.score import Request
from gpuctl.model.snapshot import Snapshot
from gpuctl.policy.scoring.ranking import ScoreReport, score_devices, score_nodes
from gpuctl.policy.scoring.weights import STRATEGIES
from tests.policy.building import TOTAL_MIB, a_gpu, a_snapshot, a_tenant, a_window, an_instance

POLICY = Policy()
STATES = [GpuState.OK] * 6 + [GpuState.STALE, GpuState.LOST, GpuState.NO_UTIL, GpuState.NO_MEM]
percent = st.floats(0, 100, allow_nan=False)
requests = st.builds(
    Request,
    gpus=st.integers(1, 3),
    memory_mib=st.none() | st.floats(1, 90_000),
    mig_profile=st.sampled_from([None, None, None, "1g.10gb"]),
    gpu_model=st.sampled_from([None, None, "*a100*"]),
    workload_class=st.sampled_from([None, "inference", "training"]),
)
strategies = st.sampled_from(STRATEGIES)


@st.composite
def cards(draw: st.DrawFn, node: str, index: int, slots: int | None) -> Gpu:
    state = draw(st.sampled_from(STATES))
    used = None if state is GpuState.NO_MEM else draw(st.floats(0, TOTAL_MIB))
    names = draw(st.lists(st.sampled_from(["p/a", "p/b", "vm/1"]), max_size=3, unique=True))
    load = None if state is GpuState.NO_UTIL else draw(percent)
    changes: dict[str, Any] = {"state": state, "slots": slots}
    if draw(st.integers(0, 9)) == 0:
        changes["mig"] = (
            an_instance(1, "1g.10gb", draw(percent)),
            an_instance(2, "1g.10gb", draw(st.none() | percent), a_tenant("p/c")),
        )
    return a_gpu(node, index, load, used, *map(a_tenant, names), **changes)


@st.composite
def clusters(draw: st.DrawFn) -> Snapshot:
    gpus = []
    for number in range(draw(st.integers(1, 5))):
        slots = draw(st.sampled_from([None, 1, 2, 4]))
        count = draw(st.integers(1, 4))
        gpus += [draw(cards(f"n{number}", index, slots)) for index in range(count)]
    silent = draw(st.sampled_from([(), ("zz",)]))
    known = (*sorted({gpu.node for gpu in gpus}), *silent)
    return a_snapshot(*gpus, known_nodes=known)


def both(snapshot: Snapshot, request: Request, strategy: str) -> list[ScoreReport]:
    return [
        score_nodes(snapshot, POLICY, request, strategy),
        score_devices(snapshot, POLICY, request, strategy, explain=True),
    ]


@given(clusters(), requests, strategies)
def test_parts_add_up_to_a_score_of_0_to_100(
    snapshot: Snapshot, request: Request, strategy: str
) -> None:
    for report in both(snapshot, request, strategy):
        for item in report.items:
            assert 0 <= item.score <= 100
            assert sum(Decimal(str(part)) for part in astuple(item.parts)) == Decimal(
                str(item.score)
            )


@given(clusters(), requests, strategies, st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(
    snapshot: Snapshot, request: Request, strategy: str, shuffler: Any
) -> None:
    gpus = list(snapshot.gpus)
    shuffler.shuffle(gpus)
    other = replace(
        snapshot,
        known_nodes=snapshot.known_nodes[::-1],
        gpus=tuple(replace(g, tenants=g.tenants[::-1], mig=g.mig[::-1]) for g in gpus),
    )
    assert both(other, request, strategy) == both(snapshot, request, strategy)


@given(clusters(), requests, strategies)
def test_unknown_is_never_the_best_and_never_0_for_lack_of_data(
    snapshot: Snapshot, request: Request, strategy: str
) -> None:
    more = (a_gpu("fresh", 0, 50, 0, slots=4), a_gpu("old", 0, 5, 0, state=GpuState.STALE))
    for report in both(replace(snapshot, gpus=(*snapshot.gpus, *more)), request, strategy):
        fresh = [item.score for item in report.items if not item.stale]
        stale = [item.score for item in report.items if item.stale]
        if fresh and stale:
            assert not report.items[0].stale
        if stale and max(fresh, default=0) > 0.01:
            assert 0 < max(stale) < max(fresh)


@given(clusters(), requests, strategies)
def test_every_node_is_scored_or_refused_with_a_reason(
    snapshot: Snapshot, request: Request, strategy: str
) -> None:
    report = score_nodes(snapshot, POLICY, request, strategy)
    named = sorted([item.node for item in report.items] + [one.node for one in report.refused])
    assert named == sorted(snapshot.known_nodes)
    assert all(one.rule and one.reason for one in report.refused)
    assert all(item.reason for item in report.items if item.stale)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[list[Gpu], list[Gpu]]:
    """Two nodes with the same cards, the first better or equal in every respect."""
    better, worse = [], []
    slots = draw(st.sampled_from([1, 4]))
    tenants = [a_tenant("p/a"), a_tenant("p/b"), a_tenant("vm/1")][: 1 if slots == 1 else 3]
    for index in range(draw(st.integers(1, 4))):
        load, used, count = draw(percent), draw(st.floats(0, TOTAL_MIB)), len(tenants)
        many = draw(st.integers(0, count))
        less = [draw(st.floats(0, 1)) for _ in range(2)]
        few = draw(st.integers(0, many))
        worse.append(a_gpu("worse", index, load, used, *tenants[:many], slots=slots))
        better.append(
            a_gpu("better", index, load * less[0], used * less[1], *tenants[:few], slots=slots)
        )
    return better, worse


@given(pairs(), clusters(), requests)
def test_what_is_better_in_every_respect_never_scores_lower(
    pair: tuple[list[Gpu], list[Gpu]], around: Snapshot, request: Request
) -> None:
    snapshot = a_snapshot(*pair[0], *pair[1], *around.gpus)
    report = score_nodes(snapshot, POLICY, replace(request, mig_profile=None), "least-loaded")
    scores = {item.node: item.score for item in report.items}
    assume("worse" in scores)
    assert scores["better"] >= scores["worse"]


@given(percent, percent)
def test_a_hot_gpu_is_never_offered(load: float, mean: float) -> None:
    """Hot by its window and by the present reading."""
    snapshot = a_snapshot(a_gpu("n1", 0, load, window=a_window(mean)))
    report = score_nodes(snapshot, POLICY, Request(), "least-loaded")
    assert bool(report.refused) == (min(load, mean) > 90)

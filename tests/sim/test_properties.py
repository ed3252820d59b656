"""What holds in any world, whatever its load, sharing and instances."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuctl.sim.loading import devices_of, problems
from gpuctl.sim.scenario import (
    Constant,
    Earlier,
    GpuSpec,
    MigSpec,
    NodeSpec,
    Place,
    Scenario,
    Sine,
    Steps,
    Workload,
)
from gpuctl.sim.world import World

EPOCH = datetime(2025, 1, 1, tzinfo=UTC)
UTIL = "DCGM_FI_DEV_GPU_UTIL"
USED, FREE, RESERVED = (f"DCGM_FI_DEV_FB_{part}" for part in ("USED", "FREE", "RESERVED"))

percents = st.floats(0, 100, allow_nan=False)
jitters = st.floats(0, 20)
shapes = st.one_of(
    st.builds(Constant, jitter_pct=jitters),
    st.builds(
        Sine,
        amplitude_pct=st.floats(0, 50),
        period_seconds=st.floats(60, 86400),
        phase=st.floats(0, 1),
        jitter_pct=jitters,
    ),
    st.builds(
        Steps,
        st.tuples(st.builds(Earlier, st.floats(-7200, 0), percents)),
        jitter_pct=jitters,
    ),
)
cards = st.sampled_from(
    (
        GpuSpec(fb_mib=40000),
        GpuSpec(fb_mib=40000, profiling=False, xid=31),
        GpuSpec(
            fb_mib=40000,
            mig=(MigSpec(1, "4g.20gb", 20000), MigSpec(2, "3g.20gb", 19000)),
        ),
        GpuSpec(fb_mib=40000, lost_for_seconds=600),
    )
)
offsets = st.integers(-100_000, 1000).map(lambda seconds: timedelta(seconds=seconds))


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Up to three nodes with up to three cards each, and up to ten workloads where they fit."""
    nodes = tuple(
        NodeSpec(f"n{index}", "NVIDIA A100-PCIE-40GB", tuple(gpus))
        for index, gpus in enumerate(
            draw(st.lists(st.lists(cards, min_size=1, max_size=3), min_size=1, max_size=3))
        )
    )
    scenario = Scenario("s", "a drawn one", EPOCH, draw(st.integers(0, 9)), "c", nodes, ())
    places = [place for place, _ in devices_of(scenario)]
    for number in range(draw(st.integers(0, 10))):
        is_pod = draw(st.booleans())
        workload = Workload(
            id=f"ns/pod-{number}" if is_pod else f"vm/{number}",
            kind="pod" if is_pod else "vm",
            workload_class=draw(st.sampled_from(("training", "inference", "unknown"))),
            placements=(draw(st.sampled_from(places)),),
            load_pct=draw(percents),
            shape=draw(shapes),
            memory_mib=draw(st.integers(0, 9000)),
        )
        grown = Scenario(
            *(getattr(scenario, field) for field in scenario.__struct_fields__[:-1]),
            (*scenario.workloads, workload),
        )
        if next(problems(grown), None) is None:
            scenario = grown
    return World(scenario)


@given(worlds(), offsets)
@settings(max_examples=60, deadline=None)
def test_figures_are_possible(world: World, offset: timedelta) -> None:
    for sample in world.samples(EPOCH + offset):
        assert sample.value >= 0
        if sample.name.endswith("_UTIL"):
            assert sample.value <= 100
            assert sample.value == int(sample.value)
        if "_PROF_" in sample.name:
            assert sample.value <= 1
        if sample.name.endswith("_UTIL") and sample.labels.get("GPU_I_ID"):
            raise AssertionError("a MIG instance has no utilization field")


@given(worlds(), offsets)
@settings(max_examples=60, deadline=None)
def test_memory_adds_up_to_the_card(world: World, offset: timedelta) -> None:
    highest: dict[tuple[str, int, str | None], dict[str, float]] = {}
    for sample in world.samples(EPOCH + offset, {USED, FREE, RESERVED}):
        labels = sample.labels
        device = (labels["Hostname"], int(labels["gpu"]), labels.get("GPU_I_ID"))
        row = highest.setdefault(device, {})
        row[sample.name] = max(row.get(sample.name, 0), sample.value)
    for (node, gpu, mig_id), row in highest.items():
        device = world.devices()[Place(node, gpu, None if mig_id is None else int(mig_id))]
        assert sum(row.values()) == device.fb_mib


@given(worlds(), offsets)
@settings(max_examples=60, deadline=None)
def test_shares_of_pods_are_within_the_card(world: World, offset: timedelta) -> None:
    card: dict[str, float] = {}
    shares: dict[str, list[float]] = {}
    for sample in world.samples(EPOCH + offset, {UTIL}):
        if "vgpu" in sample.labels:
            shares.setdefault(sample.labels["UUID"], []).append(sample.value)
        else:
            assert sample.labels["UUID"] not in card
            card[sample.labels["UUID"]] = sample.value
    for uuid, parts in shares.items():
        assert sum(parts) <= card[uuid] + 0.5 * (len(parts) + 1)


@given(worlds())
@settings(max_examples=60, deadline=None)
def test_load_at_the_epoch_is_the_stated_one_but_for_jitter(world: World) -> None:
    for workload in world.workloads():
        if not isinstance(workload.shape, Steps):
            load = world.load_pct(workload.id, EPOCH)
            assert abs(load - workload.load_pct) <= workload.shape.jitter_pct + 1e-6


@given(worlds(), st.data())
@settings(max_examples=60, deadline=None)
def test_allowed_moves_keep_a_world_sound(world: World, data: st.DataObject) -> None:
    if not world.workloads():
        return
    workload = data.draw(st.sampled_from(world.workloads()))
    target = data.draw(st.sampled_from(list(world.devices())))
    try:
        after = world.moved(workload.id, target.node, target.gpu, target.mig_id)
    except ValueError:
        return
    assert list(problems(after.scenario)) == []
    assert target in after.workload(workload.id).placements
    assert [one.id for one in after.workloads()] == [one.id for one in world.workloads()]
    assert sum(map(after.memory_used_mib, after.devices())) == sum(
        map(world.memory_used_mib, world.devices())
    )

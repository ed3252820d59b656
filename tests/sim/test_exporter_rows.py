"""Simulated rows look like those of a real exporter, and are read as the world has them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpuctl.clients.exposition import parse
from gpuctl.metrics.cleaning import Cleaner
from gpuctl.metrics.labels import LabelRules
from gpuctl.metrics.names import MetricNames
from gpuctl.model.gpu import Gpu, GpuState
from gpuctl.model.sample import Sample
from gpuctl.model.settings import LabelSettings
from gpuctl.sim.loading import scenario_names
from gpuctl.sim.scenario import Place
from gpuctl.sim.world import World
from tests.metrics import dcgm_samples

TARGET_LABELS = ("instance", "job")


def shapes(samples: Iterable[Sample]) -> dict[str, set[tuple[str, ...]]]:
    """The label names, in their order, that occur with each metric."""
    found: dict[str, set[tuple[str, ...]]] = {}
    for sample in samples:
        found.setdefault(sample.name, set()).add(tuple(sample.labels))
    return found


def rows_of(world: World, *places: tuple[str, int]) -> list[Sample]:
    return [
        sample
        for sample in world.samples(world.epoch)
        if (sample.labels["Hostname"], int(sample.labels["gpu"])) in places
    ]


def recorded(name: str) -> dict[str, set[tuple[str, ...]]]:
    return shapes(parse(dcgm_samples.text(name)))


def cleaned(world: World) -> tuple[Gpu, ...]:
    cleaner = Cleaner(
        MetricNames.of(),
        LabelRules.of(LabelSettings()),
        now=world.epoch.timestamp(),
        max_age_seconds=60,
    )
    result = cleaner.clean(world.samples(world.epoch))
    assert result.warnings == ()
    return result.gpus


def test_shared_card_has_the_rows_of_a_real_exporter() -> None:
    ours = shapes(rows_of(World.load("mig-mixed"), ("mig-02", 1)))
    for name, labels in recorded("timeslice-perprocess").items():
        assert ours[name] == labels


def test_mig_instances_have_the_rows_of_a_real_exporter() -> None:
    ours = shapes(rows_of(World.load("mig-mixed"), ("mig-01", 0), ("mig-02", 0)))
    for name, labels in recorded("mig-mixed").items():
        assert ours[name] == labels


def test_used_and_free_cards_have_the_rows_of_a_real_exporter() -> None:
    ours = shapes(rows_of(World.load("three-full-five-idle"), ("h100-01", 0), ("h100-01", 1)))
    for name, labels in recorded("k8s-honor").items():
        assert ours[name] == labels


def test_lost_card_has_nothing_but_its_xid_row() -> None:
    (row,) = rows_of(World.load("mig-mixed"), ("mig-02", 2))
    assert (row.name, row.value) == ("DCGM_FI_DEV_XID_ERRORS", 79)
    assert (row.labels["err_code"], row.labels["err_msg"]) == ("79", "GPU has fallen off the bus")


def test_card_without_profiling_has_no_profiling_rows() -> None:
    rows = rows_of(World.load("mig-mixed"), ("a30-01", 1))
    assert rows
    assert not [row.name for row in rows if "PROF" in row.name]


def test_vm_is_named_by_no_label() -> None:
    world = World.load()
    for sample in world.samples(world.epoch):
        assert not any(value.startswith("vm/") for value in sample.labels.values())


@pytest.mark.parametrize("name", scenario_names())
def test_every_row_has_its_identity_once(name: str) -> None:
    world = World.load(name)
    keys = [(s.name, *sorted(s.labels.items())) for s in world.samples(world.epoch)]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("name", scenario_names())
def test_page_of_each_node_is_the_samples_without_target_labels(name: str) -> None:
    world = World.load(name)
    for node in world.scenario.nodes:
        scraped = datetime.fromtimestamp(world.scraped_at(world.epoch), UTC)
        page = world.exposition(node.name, scraped)
        read = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(page)
            for sample in family.samples
        }
        stored = {
            (
                sample.name,
                tuple(sorted((k, v) for k, v in sample.labels.items() if k not in TARGET_LABELS)),
            ): sample.value
            for sample in world.samples(world.epoch)
            if sample.labels["instance"] == world.instance(node.name)
        }
        assert read.keys() == stored.keys()
        assert read == pytest.approx(stored, abs=1e-6)
        families = [line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")]
        assert len(families) == len(set(families))


def test_page_of_an_unknown_node_is_refused() -> None:
    world = World.load()
    with pytest.raises(ValueError, match="no node nowhere"):
        world.exposition("nowhere", world.epoch)


@pytest.mark.parametrize("name", scenario_names())
def test_readings_are_what_the_world_has(name: str) -> None:
    world = World.load(name)
    for gpu in cleaned(world):
        if gpu.state is GpuState.LOST:
            assert gpu.utilization_pct is None
            continue
        assert gpu.gpu is not None
        assert gpu.state is GpuState.OK
        for mig_id, util, used, tenants in [
            *((m.id, m.utilization_pct, m.memory_used_mib, m.tenants) for m in gpu.mig),
            *([] if gpu.mig else [(None, gpu.utilization_pct, gpu.memory_used_mib, gpu.tenants)]),
        ]:
            place = Place(gpu.node, gpu.gpu, mig_id)
            assert used == 4 + world.memory_used_mib(place)
            # Collected up to 37 s before the epoch: jitter is all that may differ.
            assert util == pytest.approx(world.utilization_pct(place, world.epoch), abs=6)
            pods = [w for w in world.tenants_of(gpu.node, gpu.gpu, mig_id) if w.kind == "pod"]
            assert sorted(tenant.workload for tenant in tenants) == sorted(pod.id for pod in pods)


def test_shares_of_a_shared_card_are_measured() -> None:
    world = World.load()
    (hot,) = [gpu for gpu in cleaned(world) if gpu.address == "hk-gpu-03/1"]
    assert hot.utilization_pct is not None
    assert hot.utilization_pct > 90
    for tenant in hot.tenants:
        assert tenant.measured
        assert tenant.memory_used_mib == world.workload(tenant.workload).memory_mib
        assert tenant.utilization_pct == pytest.approx(
            world.load_pct(tenant.workload, world.epoch), abs=2
        )

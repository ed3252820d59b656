"""The heat map as rows for programs and as a wide table for people: complete, whatever the size."""

from __future__ import annotations

from collections.abc import Iterator

from gpuctl.model.heatmap import HeatmapDocument, HeatmapGpu, HeatmapInstance
from gpuctl.render.tables import Cell

#: Names of the columns: those of the JSON document, with the MIG instance a row is about.
HEADERS = (
    "node",
    "gpu",
    "mig_id",
    "mig_profile",
    "state",
    "utilization_pct",
    "memory_pct",
    "memory_used_mib",
    "memory_total_mib",
    "hot",
    "hot_for_seconds",
    "hot_for_capped",
    "idle",
    "temperature_c",
    "power_w",
    "memory_bandwidth_pct",
    "tensor_pct",
    "xid",
    "age_seconds",
    "allocated_slices",
    "total_slices",
    "utilization_source",
    "model",
    "pci_bus_id",
    "uuid",
    "workloads",
)

_TEXTS = frozenset(
    {
        "node",
        "mig_profile",
        "state",
        "hot",
        "hot_for_capped",
        "idle",
        "utilization_source",
        "model",
        "pci_bus_id",
        "uuid",
        "workloads",
    }
)
#: The columns of the wide table that hold figures.
NUMERIC = frozenset(HEADERS) - _TEXTS

Row = tuple[Cell | bool, ...]


def heatmap_rows(
    doc: HeatmapDocument, *, by_mig: bool = False
) -> tuple[tuple[str, ...], list[Row]]:
    """Headers and one row for each GPU; with `by_mig` its instances follow, one row each.

    Raw numbers, None for unknown. `mig_id` is None in the row of a whole card, so that sums over
    cards can leave the instances out. Workloads are separated by blanks, which no name holds.
    """
    return HEADERS, list(_rows(doc, by_mig=by_mig))


def _rows(doc: HeatmapDocument, *, by_mig: bool) -> Iterator[Row]:
    for gpu in doc.items:
        yield _gpu(gpu)
        if by_mig:
            for instance in gpu.mig:
                yield _instance(gpu, instance)


def _gpu(gpu: HeatmapGpu) -> Row:
    return (
        gpu.node,
        gpu.gpu,
        None,
        None,
        str(gpu.state),
        gpu.utilization_pct,
        gpu.memory_pct,
        gpu.memory_used_mib,
        gpu.memory_total_mib,
        gpu.hot,
        gpu.hot_for_seconds,
        gpu.hot_for_capped,
        gpu.idle,
        gpu.temperature_c,
        gpu.power_w,
        gpu.memory_bandwidth_pct,
        gpu.tensor_pct,
        gpu.xid,
        gpu.age_seconds,
        gpu.allocated_slices,
        gpu.total_slices,
        gpu.utilization_source,
        gpu.model,
        gpu.pci_bus_id,
        gpu.uuid,
        " ".join(gpu.workloads),
    )


def _instance(gpu: HeatmapGpu, instance: HeatmapInstance) -> Row:
    """What an instance has of its own; temperature, power and slices are the card's alone."""
    return (
        gpu.node,
        gpu.gpu,
        instance.id,
        instance.profile,
        str(gpu.state),
        instance.utilization_pct,
        instance.memory_pct,
        instance.memory_used_mib,
        instance.memory_total_mib,
        instance.hot,
        instance.hot_for_seconds,
        instance.hot_for_capped,
        instance.idle,
        None,
        None,
        instance.memory_bandwidth_pct,
        instance.tensor_pct,
        None,
        gpu.age_seconds,
        None,
        None,
        None,
        gpu.model,
        gpu.pci_bus_id,
        gpu.uuid,
        " ".join(instance.workloads),
    )


def wide_table(
    doc: HeatmapDocument, *, by_mig: bool = False
) -> tuple[tuple[str, ...], list[tuple[Cell, ...]], frozenset[str]]:
    """Headers, rows and the names of the numeric columns, for `-o wide`.

    The same columns as the CSV; verdicts are yes and no.
    """
    headers, rows = heatmap_rows(doc, by_mig=by_mig)
    return headers, [tuple(_for_people(value) for value in row) for row in rows], NUMERIC


def _for_people(value: Cell | bool) -> Cell:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return None if value == "" else value


def heatmap_names(doc: HeatmapDocument) -> list[str]:
    """`gpu/NODE/INDEX` of each GPU in the document's order; its UUID where it has no index."""
    return [f"gpu/{gpu.node}/{gpu.uuid if gpu.gpu is None else gpu.gpu}" for gpu in doc.items]

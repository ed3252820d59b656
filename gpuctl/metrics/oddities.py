"""What a person should know about the data although it could be read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from gpuctl.errors import shorten
from gpuctl.metrics import names as n
from gpuctl.metrics.rows import WHOLE, Device, Row
from gpuctl.model.gpu import Gpu, GpuState


def oddities(gpus: Iterable[Gpu], devices: Iterable[Device]) -> tuple[str, ...]:
    """A sentence for each thing that is odd about the readings of a cluster."""
    gpus = list(gpus)
    return (
        *_stuck_engines(devices),
        *_doubled_addresses(gpus),
        *_too_many_slices(gpus),
        *_several_clusters(gpus),
    )


def _stuck_engines(devices: Iterable[Device]) -> Iterator[str]:
    def highest(rows: Iterable[Row], family: str) -> float | None:
        values = (r.value for r in rows if r.family == family and r.value is not None)
        return max(values, default=None)

    stuck = 0
    for device in devices:
        rows = device.parts.get(WHOLE, ())
        busy = highest(rows, n.UTILIZATION)
        if busy is not None and busy > 50 and highest(rows, n.ENGINE_ACTIVE) == 0:
            stuck += 1
    if stuck:
        yield (
            f"GR_ENGINE_ACTIVE is exactly 0 on {stuck} GPUs whose GPU_UTIL is over 50: the "
            "profiling counters are stuck, MIG and tensor figures can't be trusted"
        )


def _doubled_addresses(gpus: Iterable[Gpu]) -> Iterator[str]:
    places: dict[tuple[str | None, str, int], int] = defaultdict(int)
    for gpu in gpus:
        if gpu.gpu is not None and gpu.state is not GpuState.LOST:
            places[gpu.cluster, gpu.node, gpu.gpu] += 1
    doubled = sorted(f"{node}/{index}" for (_, node, index), count in places.items() if count > 1)
    if doubled:
        yield (
            f"{len(doubled)} GPU addresses are claimed by more than one card "
            f"({', '.join(doubled[:3])}): the node labels may lie, see labels.node_map"
        )


def _too_many_slices(gpus: Iterable[Gpu]) -> Iterator[str]:
    over = [
        f"{gpu.address}: {gpu.allocated_slices} of {gpu.total_slices}"
        for gpu in gpus
        if (gpu.allocated_slices or 0) > (gpu.total_slices or 0)
    ]
    if over:
        yield (
            f"{len(over)} cards show more MIG slices than they have ({shorten(over)}): instances "
            "of an earlier partitioning are still reported, their utilization is unknown"
        )


def _several_clusters(gpus: Iterable[Gpu]) -> Iterator[str]:
    clusters = sorted({gpu.cluster for gpu in gpus if gpu.cluster})
    if len(clusters) > 1:
        yield (
            f"the answer holds {len(clusters)} clusters ({shorten(clusters)}); nodes of the same "
            f"name look like one: set prometheus.selector, e.g. 'cluster=\"{clusters[0]}\"'"
        )

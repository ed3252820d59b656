"""How uneven a cluster is, in two figures with the same definition everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gpuctl.model.gpu import Gpu, GpuState

# A lowest load under this counts as this, else one idle node makes the ratio meaningless.
RATIO_FLOOR_PCT = 1.0

_TRUSTED = frozenset({GpuState.OK, GpuState.NO_MEM})


def trusted_utilization(gpu: Gpu) -> float | None:
    """A GPU's utilization if it is fresh and known, else None."""
    return gpu.utilization_pct if gpu.state in _TRUSTED else None


def spread(values: Iterable[float | None]) -> float | None:
    """Highest minus lowest of the known values, in points; None without any."""
    known = [value for value in values if value is not None]
    return max(known) - min(known) if known else None


def mean(values: Iterable[float | None]) -> float | None:
    """Mean of the known values; None without any."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def balance_ratio(node_means: Iterable[float | None]) -> float | None:
    """Highest over lowest node load, a lowest under 1 % counting as 1 %; None without any."""
    known = [value for value in node_means if value is not None]
    if not known:
        return None
    return max(max(known), RATIO_FLOOR_PCT) / max(min(known), RATIO_FLOOR_PCT)


def by_node(gpus: Iterable[Gpu]) -> Mapping[str, list[Gpu]]:
    """GPUs of each node, nodes in order of first appearance."""
    nodes: dict[str, list[Gpu]] = {}
    for gpu in gpus:
        nodes.setdefault(gpu.node, []).append(gpu)
    return nodes


def silent_nodes(gpus: Iterable[Gpu], known_nodes: Iterable[str] = ()) -> list[str]:
    """Known GPU nodes without one fresh reading, by name."""
    nodes = by_node(gpus)
    fresh = {
        node
        for node, own in nodes.items()
        if any(gpu.state not in (GpuState.LOST, GpuState.STALE) for gpu in own)
    }
    return sorted((set(known_nodes) | set(nodes)) - fresh)


def coverage_pct(gpus: Sequence[Gpu], known_nodes: Iterable[str] = ()) -> float | None:
    """Percent of known GPU nodes with at least one fresh reading; None when no node is known."""
    known = {*known_nodes, *(gpu.node for gpu in gpus)}
    if not known:
        return None
    return 100 * (len(known) - len(silent_nodes(gpus, known))) / len(known)

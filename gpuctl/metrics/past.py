"""Series for the picture of GPUs over time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuctl.metrics import names as n
from gpuctl.metrics.mig import weighed
from gpuctl.metrics.windows import WHOLE, DeviceId, Grid, Values, card_values
from gpuctl.model.gpu import Gpu, MigInstance, memory_pct
from gpuctl.model.history import HistorySeries, Metric

UNITS: dict[Metric, str] = {
    "util": "%",
    "mem": "%",
    "membw": "%",
    "tensor": "%",
    "temp": "C",
    "power": "W",
}

_FAMILIES: dict[Metric, tuple[tuple[str, ...], ...]] = {
    "util": ((n.UTILIZATION, n.ENGINE_ACTIVE),),
    "mem": ((n.MEMORY_USED,),),
    "membw": ((n.DRAM_ACTIVE,), (n.MEMORY_COPY,)),
    "tensor": ((n.TENSOR,),),
    "temp": ((n.TEMPERATURE,),),
    "power": ((n.POWER,),),
}


def history_families(metric: Metric) -> tuple[tuple[str, ...], ...]:
    """Metric families behind a figure; of several groups the first that knows a device counts."""
    return _FAMILIES[metric]


def figures_of(metric: Metric, gpus: Iterable[Gpu]) -> Iterator[tuple[DeviceId, float]]:
    """The present figure of every device as a grid holds it: memory in MiB, of MIG instances
    where a card has them, temperature and power of the card.
    """
    for gpu in gpus:
        key = (gpu.cluster or "", gpu.uuid)
        if gpu.mig and metric not in ("temp", "power"):
            for instance in gpu.mig:
                value = _figure(metric, instance)
                if value is not None:
                    yield (*key, instance.id), value
        else:
            value = _figure(metric, gpu)
            if value is not None:
                yield (*key, WHOLE), value


def _figure(metric: Metric, device: Gpu | MigInstance) -> float | None:
    match metric:
        case "util":
            return device.utilization_pct
        case "mem":
            return device.memory_used_mib
        case "membw":
            return device.memory_bandwidth_pct
        case "tensor":
            return device.tensor_pct
        case "temp":
            return device.temperature_c if isinstance(device, Gpu) else None
        case "power":
            return device.power_w if isinstance(device, Gpu) else None


def history_series(metric: Metric, gpus: Iterable[Gpu], grid: Grid) -> tuple[HistorySeries, ...]:
    """A series per GPU and per MIG instance, in the GPUs' order; memory in percent of the total."""
    return tuple(series for gpu in gpus for series in _of_gpu(metric, gpu, grid))


def _of_gpu(metric: Metric, gpu: Gpu, grid: Grid) -> Iterator[HistorySeries]:
    cluster = gpu.cluster or ""
    whole = grid.values.get((cluster, gpu.uuid, WHOLE))
    if metric in ("temp", "power"):
        # They are the card's, and every instance that tells them repeats the same.
        told = (grid.values.get((cluster, gpu.uuid, instance.id)) for instance in gpu.mig)
        values = next((row for row in (whole, *told) if row is not None), None)
    else:
        values = _card(metric, gpu, grid, whole)
    yield HistorySeries(
        node=gpu.node,
        gpu=gpu.gpu,
        uuid=gpu.uuid,
        values=tuple(values if values is not None else [None] * grid.count),
    )
    for instance in gpu.mig:
        own = grid.values.get((cluster, gpu.uuid, instance.id))
        if own is not None and metric not in ("temp", "power"):
            yield HistorySeries(
                node=gpu.node,
                gpu=gpu.gpu,
                uuid=gpu.uuid,
                mig_id=instance.id,
                profile=instance.profile,
                values=_as_shown(metric, own, instance),
            )


def _card(metric: Metric, gpu: Gpu, grid: Grid, whole: Values | None) -> Values | None:
    if metric == "util":
        return card_values(gpu, grid)
    if not gpu.mig:
        return None if whole is None else _as_shown(metric, whole, gpu)
    cluster = gpu.cluster or ""
    rows = [grid.values.get((cluster, gpu.uuid, instance.id)) for instance in gpu.mig]
    at_step = [[None if row is None else row[i] for row in rows] for i in range(grid.count)]
    if metric == "mem":
        return [_memory_of_instances(used, gpu) for used in at_step]
    widths = [instance.compute_slices for instance in gpu.mig]
    slices = gpu.total_slices or 7
    return [weighed(zip(widths, step, strict=True), slices) for step in at_step]


def _memory_of_instances(used: Iterable[float | None], gpu: Gpu) -> float | None:
    known = [value for value in used if value is not None]
    return memory_pct(sum(known), gpu.memory_total_mib) if len(known) == len(gpu.mig) else None


def _as_shown(
    metric: Metric, values: Values, device: Gpu | MigInstance
) -> tuple[float | None, ...]:
    if metric != "mem":
        return tuple(values)
    shares = (memory_pct(value, device.memory_total_mib) for value in values)
    return tuple(None if share is None else round(share, 2) for share in shares)

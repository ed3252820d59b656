"""All that is known of one GPU, as a page of text for the live view."""

from __future__ import annotations

from collections.abc import Sequence

from gpuctl.model.durations import format_duration
from gpuctl.model.gpu import GpuState, Tenant
from gpuctl.model.heatmap import HeatmapDocument, HeatmapGpu, HeatmapInstance
from gpuctl.render.cells import UNKNOWN
from gpuctl.render.heatmap_frame import short_duration
from gpuctl.render.heatmap_lists import address
from gpuctl.render.screen import Piece, Screen
from gpuctl.render.watch_text import wrapped

_LABEL = 12

_STATES = {
    GpuState.OK: "ok",
    GpuState.LOST: "lost: it had metrics within the last hour and has none now",
    GpuState.STALE: "stale: its newest sample is too old to decide on",
    GpuState.NO_UTIL: "no-util: it reports, its utilization is missing or impossible",
    GpuState.NO_MEM: "no-mem: it reports, its memory is missing or impossible",
}


def detail_lines(doc: HeatmapDocument, gpu: HeatmapGpu, screen: Screen) -> list[Piece]:
    """The page; `doc` gives the marks that hot and idle were judged by."""
    title = f"{address(gpu.node, gpu.gpu)}  {gpu.model or 'model unknown'}"
    lines = wrapped(title, screen, is_strong=True)
    for label, text in _facts(doc, gpu):
        lines += _fact(label, text, screen)
    lines += _workloads(gpu.tenants, gpu.workloads, gpu.mig, screen)
    for instance in gpu.mig:
        lines += _instance(doc, instance, screen)
    return lines


def _facts(doc: HeatmapDocument, gpu: HeatmapGpu) -> list[tuple[str, str]]:
    source = f" by {gpu.utilization_source}" if gpu.utilization_source else ""
    facts = [
        ("state", _STATES[gpu.state]),
        ("utilization", f"{_percent(gpu.utilization_pct)}{source}"),
        ("verdict", _verdict(doc, gpu)),
        ("memory", _memory(gpu)),
        ("temperature", _figure(gpu.temperature_c, "C")),
        ("power", _figure(gpu.power_w, "W")),
        ("bandwidth", f"{_percent(gpu.memory_bandwidth_pct)} of the memory's"),
        ("tensor", f"{_percent(gpu.tensor_pct)} active"),
    ]
    if gpu.xid:
        facts.append(("XID", str(gpu.xid)))
    if gpu.total_slices:
        used = UNKNOWN if gpu.allocated_slices is None else gpu.allocated_slices
        facts.append(("MIG", f"{used} of {gpu.total_slices} slices in {len(gpu.mig)} instances"))
    return [
        *facts,
        ("uuid", gpu.uuid),
        ("PCI", gpu.pci_bus_id or UNKNOWN),
        ("sample", "age unknown" if gpu.age_seconds is None else _old(gpu.age_seconds)),
    ]


def _old(seconds: float) -> str:
    return f"{short_duration(seconds)} old when it was read"


def _verdict(doc: HeatmapDocument, of: HeatmapGpu | HeatmapInstance) -> str:
    """hot or idle, since when, and what that means."""
    if of.hot is None and of.idle is None:
        return "not judged: too few fresh samples"
    window = "" if doc.window_seconds is None else f" for {format_duration(doc.window_seconds)}"
    if of.hot:
        since = ""
        if of.hot_for_seconds is not None:
            least = "at least " if of.hot_for_capped else ""
            since = f" for {least}{short_duration(of.hot_for_seconds)}"
        return f"hot{since} (over {doc.hot_above_pct:g} % at every sample{window})"
    if of.idle:
        return f"idle (under {doc.idle_below_pct:g} % at every sample{window})"
    return "neither hot nor idle"


def _memory(of: HeatmapGpu | HeatmapInstance) -> str:
    used, total = _gib(of.memory_used_mib), _gib(of.memory_total_mib)
    return f"{used} of {total} GiB ({_percent(of.memory_pct)})"


def _gib(mib: float | None) -> str:
    return UNKNOWN if mib is None else f"{mib / 1024:.1f}"


def _percent(value: float | None) -> str:
    return _figure(value, "%")


def _figure(value: float | None, unit: str) -> str:
    return f"{UNKNOWN if value is None else f'{value:.0f}'} {unit}"


def _workloads(
    tenants: Sequence[Tenant],
    names: Sequence[str],
    mig: Sequence[HeatmapInstance],
    screen: Screen,
) -> list[Piece]:
    """Who is on the card itself; those on its instances are listed there."""
    on_instances = {name for instance in mig for name in instance.workloads}
    named = {tenant.workload for tenant in tenants}
    rest = [name for name in names if name not in on_instances and name not in named]
    texts = [*map(_tenant, tenants), *rest]
    if not texts and not mig:
        return _fact("workloads", "none known", screen)
    lines: list[Piece] = []
    for text in texts:
        lines += _fact("" if lines else "workloads", text, screen)
    return lines


def _tenant(tenant: Tenant) -> str:
    name = tenant.workload
    if tenant.container:
        name += f" [{tenant.container}]"
    if not tenant.measured:
        return f"{name}  share not measured"
    shares = [_percent(tenant.utilization_pct)]
    if tenant.memory_used_mib is not None:
        shares.append(f"{_gib(tenant.memory_used_mib)} GiB")
    return f"{name}  {', '.join(shares)} measured"


def _instance(doc: HeatmapDocument, one: HeatmapInstance, screen: Screen) -> list[Piece]:
    text = f"{one.profile}  {_percent(one.utilization_pct)}, {_memory(one)}; {_verdict(doc, one)}"
    lines = _fact(f"instance {one.id}", text, screen)
    for tenant in one.tenants:
        lines += _fact("", _tenant(tenant), screen)
    return lines


def _fact(label: str, text: str, screen: Screen) -> list[Piece]:
    """`label  text`; text that is too long goes on below itself."""
    width = screen.width or 80
    indent = " " * (_LABEL if width >= 3 * _LABEL else 2)
    return wrapped(text, screen, lead=f"{label:<{len(indent) - 1}}", indent=indent)

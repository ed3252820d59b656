"""How a GPU's figures came about, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpuctl.model.explanation import ExplanationDocument, SeriesFate
from gpuctl.model.gpu import Tenant
from gpuctl.render.screen import Screen

_TITLES = {
    "used": "used",
    "merged": "merged: copies, replicas, shares of pods, or a figure that was not needed",
    "rejected": "rejected",
}


def explanation_lines(doc: ExplanationDocument, screen: Screen) -> list[str]:
    """The reading, then each raw series by what became of it."""
    gpu = doc.gpu
    lines = [
        f"{screen.name(gpu.address)}  {screen.name(gpu.model or 'unknown model')}  {gpu.uuid}",
        f"  state {gpu.state}  utilization {_figure(gpu.utilization_pct, '%')}"
        f" from {gpu.utilization_source or 'nothing'}"
        f"  memory {_figure(gpu.memory_used_mib, ' MiB')}"
        f" of {_figure(gpu.memory_total_mib, ' MiB')}"
        f"  age {_figure(gpu.age_seconds, 's')}",
    ]
    window = gpu.window
    if window is not None:
        lines.append(
            f"  last {window.seconds:.0f}s: {window.samples} samples, "
            f"min {window.min_pct:g} % mean {window.mean_pct:.1f} % max {window.max_pct:g} %"
        )
    lines += [f"  workload {screen.name(t.workload)}{_share(t)}" for t in gpu.tenants]
    shared = _shared_labels(doc.series)
    if shared:
        lines += ["", "labels of every series below", f"  {_labels_text(shared, screen)}"]
    for fate, title in _TITLES.items():
        series = [s for s in doc.series if s.fate == fate]
        if series:
            lines += ["", f"{title} ({len(series)})"]
            lines += [line for one in series for line in _series_lines(one, shared, screen)]
    return [*lines, *(f"note: {screen.name(note)}" for note in doc.notes)]


def _shared_labels(series: Sequence[SeriesFate]) -> Mapping[str, str]:
    """Labels that all series carry alike: said once, so that the differences stand out."""
    if len(series) < 2:
        return {}
    first, *rest = (one.labels for one in series)
    return {k: v for k, v in first.items() if all(labels.get(k) == v for labels in rest)}


def _series_lines(one: SeriesFate, shared: Mapping[str, str], screen: Screen) -> Iterator[str]:
    value = f"{one.value:g}" if isinstance(one.value, float) else one.value
    because = f"  as {one.family}" if one.fate == "used" else ""
    because = f"  because: {one.reason}" if one.reason else because
    yield f"  {value:>12}  {one.name}{because}"
    own = {k: v for k, v in one.labels.items() if k not in shared and k != "__name__"}
    if own:
        yield f"{'':16}{_labels_text(own, screen)}"


def _labels_text(labels: Mapping[str, str], screen: Screen) -> str:
    return screen.name(", ".join(f'{k}="{v}"' for k, v in sorted(labels.items())))


def explanation_rows(doc: ExplanationDocument) -> tuple[list[str], list[list[str | float | None]]]:
    """One row per series, for CSV."""
    headers = ["fate", "name", "value", "family", "reason", "labels"]
    rows: list[list[str | float | None]] = [
        [
            s.fate,
            s.name,
            s.value,
            s.family,
            s.reason,
            ",".join(f"{k}={v}" for k, v in sorted(s.labels.items())),
        ]
        for s in doc.series
    ]
    return headers, rows


def _figure(value: float | None, unit: str) -> str:
    return "unknown" if value is None else f"{value:g}{unit}"


def _share(tenant: Tenant) -> str:
    if not tenant.measured:
        return ", share not measured"
    utilization = _figure(tenant.utilization_pct, " %")
    return f", measured share {utilization}, {_figure(tenant.memory_used_mib, ' MiB')}"

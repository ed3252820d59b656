"""Samples as the text that an exporter serves."""

from __future__ import annotations

from collections.abc import Iterable

from gpuctl.model.sample import Sample
from gpuctl.sim import exporter

_HELP = {
    exporter.UTIL: "GPU utilization (in %).",
    exporter.COPY_UTIL: "Memory utilization (in %).",
    exporter.FB_USED: "Framebuffer memory used (in MiB).",
    exporter.FB_FREE: "Framebuffer memory free (in MiB).",
    exporter.FB_RESERVED: "Framebuffer memory reserved (in MiB).",
    exporter.TEMPERATURE: "GPU temperature (in C).",
    exporter.POWER: "Power draw (in W).",
    exporter.ENGINE: "Ratio of time the graphics engine is active.",
    exporter.TENSOR: "Ratio of cycles the tensor (HMMA) pipe is active.",
    exporter.DRAM: "Ratio of cycles the device memory interface is active sending or receiving.",
    exporter.XID: "Value of the last XID error encountered.",
}
_RATIOS = frozenset({exporter.ENGINE, exporter.TENSOR, exporter.DRAM})
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def page(samples: Iterable[Sample]) -> str:
    """The text exposition of some samples, without times, grouped by family."""
    families: dict[str, list[str]] = {}
    for sample in samples:
        families.setdefault(sample.name, []).append(_line(sample))
    lines: list[str] = []
    for name, rows in families.items():
        lines += [f"# HELP {name} {_HELP[name]}", f"# TYPE {name} gauge", *rows]
    return "\n".join(lines) + "\n"


def _line(sample: Sample) -> str:
    labels = ",".join(
        f'{key}="{value.translate(_ESCAPES)}"' for key, value in sample.labels.items()
    )
    value = f"{sample.value:.6f}" if sample.name in _RATIOS else f"{sample.value:.10g}"
    return f"{sample.name}{{{labels}}} {value}"

"""How long the heat map takes to draw once its document is there."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from gpuctl.model.gpu import Gpu, GpuState, WindowStats
from gpuctl.model.heatmap import HeatmapDocument
from gpuctl.model.policy import Policy
from gpuctl.model.snapshot import Snapshot, Source
from gpuctl.policy.overview import heatmap_document
from gpuctl.render.heatmap import heatmap_lines
from gpuctl.render.screen import Screen

_TRUECOLOR = 16_777_216
CASES = (
    ("8 nodes x 4 GPUs, 80x24", (8, 4), Screen(80, 24, _TRUECOLOR)),
    ("125 nodes x 8 GPUs, 160x50", (125, 8), Screen(160, 50, _TRUECOLOR)),
    ("1,250 nodes x 8 GPUs, 160x50", (1250, 8), Screen(160, 50, _TRUECOLOR)),
    ("1,250 nodes x 8 GPUs, every node", (1250, 8), Screen(None, None, 0)),
)


def best_ms(size: tuple[int, int], screen: Screen, rounds: int = 5) -> float:
    """Best of some rounds, in milliseconds."""
    doc = _document(*size)
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        "\n".join(heatmap_lines(doc, screen))
        times.append(1000 * (time.perf_counter() - begun))
    return min(times)


def _document(nodes: int, gpus: int) -> HeatmapDocument:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    snapshot = Snapshot(
        taken_at=at,
        source=Source(kind="prometheus", location="http://prometheus"),
        metrics_age_seconds=7,
        window_seconds=300,
        gpus=tuple(_gpu(n, g) for n in range(nodes) for g in range(gpus)),
    )
    return heatmap_document(snapshot, Policy(), generated_at=at)


def _gpu(node: int, index: int) -> Gpu:
    load = float((node * 37 + index * 53) % 97)
    return Gpu(
        node=f"gpu-{node:04}",
        gpu=index,
        uuid=f"GPU-{node}-{index}",
        state=GpuState.OK,
        utilization_pct=load,
        memory_used_mib=800 * load,
        memory_total_mib=81_920,
        window=WindowStats(
            seconds=300,
            step_seconds=30,
            samples=11,
            span_seconds=300,
            min_pct=load,
            mean_pct=load,
            max_pct=load,
        ),
    )

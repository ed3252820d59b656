"""How long it takes to draw the heat map of 1,250 nodes with 8 GPUs each, on one core.

Run: python -m tests.benchmarks.bench_render. Prints the best of several runs in milliseconds,
what a quiet machine would need; the aim of a screen is 100 ms.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter

from gpuctl.render.heatmap import heatmap_lines
from gpuctl.render.heatmap_rows import heatmap_rows
from gpuctl.render.history import history_lines
from gpuctl.render.picture import html, svg
from gpuctl.render.screen import Screen
from gpuctl.render.tables import csv_text
from tests.render.builders import a_cluster, a_history

_RUNS = 7


def best_ms(draw: Callable[[], object]) -> float:
    """Milliseconds of the fastest of several runs."""
    times = []
    for _ in range(_RUNS):
        start = perf_counter()
        draw()
        times.append(perf_counter() - start)
    return min(times) * 1000


def views() -> dict[str, Callable[[], object]]:
    """What is drawn, by name."""
    doc, past = a_cluster(1250, 8), a_history(1_000, 72)
    return {
        "every node in a line, truecolor": lambda: heatmap_lines(
            doc, Screen(width=140, color_level=16_777_216)
        ),
        "every node in a line, no terminal": lambda: heatmap_lines(doc, Screen(width=None)),
        "screen 160x50, 256 colours": lambda: heatmap_lines(
            doc, Screen(width=160, height=50, color_level=256)
        ),
        "screen 80x24, no colour": lambda: heatmap_lines(doc, Screen(width=80, height=24)),
        "compact, all nodes, truecolor": lambda: heatmap_lines(
            doc, Screen(width=160, height=400, color_level=16_777_216)
        ),
        "csv": lambda: csv_text(*heatmap_rows(doc)),
        "svg": lambda: svg(doc),
        "html": lambda: html(doc),
        "history, 1,000 GPUs x 72 steps": lambda: history_lines(
            past, Screen(width=140, color_level=256)
        ),
    }


def main() -> None:
    for name, draw in views().items():
        sys.stdout.write(f"{name:<36} {best_ms(draw):7.1f} ms\n")


if __name__ == "__main__":
    main()

"""How long the installed command takes to do next to nothing."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

CASES = {
    "gpuctl --help": ("--help",),
    "gpuctl heatmap --help": ("heatmap", "--help"),
    "TAB on a node's name": ("__complete", "nodes", "hk"),
    "gpuctl --demo heatmap": ("--demo", "heatmap"),
}


def median_ms(words: tuple[str, ...], rounds: int = 15) -> float:
    """Median wall time of the installed script, in milliseconds."""
    script = str(Path(sys.executable).parent / "gpuctl")
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        subprocess.run([script, *words], check=True, capture_output=True)
        times.append(1000 * (time.perf_counter() - begun))
    return statistics.median(times)

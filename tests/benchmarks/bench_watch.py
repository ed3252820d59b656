"""What `gpuctl heatmap --watch` costs while it runs: `python -m tests.benchmarks.bench_watch`.

The installed script in a pseudo-terminal, 32 GPUs, a read every 5 seconds; its own CPU time as
the kernel counts it, start-up taken off by what a watch that quits at once costs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.fakes.gpu_cluster import Card, GpuCluster
from tests.fakes.prometheus import Answer, FakePrometheus, Query
from tests.real.live_screen import on_screen
from tests.spawning import installed_script, script_environ

SECONDS = 20.0
_NODES, _GPUS = 8, 4


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds of the watch after its start, and the wall seconds they were spent in."""

    cpu_seconds: float
    wall_seconds: float

    @property
    def core_pct(self) -> float:
        """Share of one core."""
        return 100 * self.cpu_seconds / self.wall_seconds


def cost(words: Sequence[str], seconds: float = SECONDS) -> Cost:
    """Watch for so long, after the first picture."""
    started = _cpu_seconds(words, 0.0)[0]
    cpu, wall = _cpu_seconds(words, seconds)
    return Cost(max(0.0, cpu - started), wall)


def _cpu_seconds(words: Sequence[str], seconds: float) -> tuple[float, float]:
    command = [installed_script(), *words]
    environ = script_environ(TERM="xterm-256color", GPUCTL_CONFIG="/dev/null", HOME="/nonexistent")
    with on_screen(command, environ, columns=140, lines=40) as screen:
        screen.wait("? keys")
        begun = time.monotonic()
        screen.watch_for(seconds)
        wall = time.monotonic() - begun
        screen.type("q")
        _, status, usage = os.wait4(screen.process.pid, 0)
        screen.process.returncode = os.waitstatus_to_exitcode(status)
    assert screen.process.returncode == 0
    return usage.ru_utime + usage.ru_stime, wall


def _answer(query: Query) -> Answer:
    cards = [
        Card(f"gpu-{n}", g, (n * 37 + g * 29 + time.time() // 5) % 100, pod=f"prod/llm-{n}-{g}")
        for n in range(_NODES)
        for g in range(_GPUS)
    ]
    return GpuCluster(cards, now=time.time())(query)


def main() -> None:
    """Print the shares of a core."""
    demo = cost(["--demo", "heatmap", "--watch"])
    with FakePrometheus(_answer, now=time.time()) as server:
        live = cost(["heatmap", "--prometheus-url", server.url, "--watch"])
    for name, found in (("--demo", demo), ("a Prometheus, 32 GPUs", live)):
        print(  # noqa: T201 - printing is what this program is for
            f"{name}: {found.cpu_seconds:.2f} s of CPU in {found.wall_seconds:.0f} s, "
            f"{found.core_pct:.1f} % of a core"
        )


if __name__ == "__main__":
    main()

"""A snapshot from a real Prometheus against curl fetching the same answers.

Both ask the same queries of the same server in the same order: four at once, then the window,
then the streaks of hot cards. curl only receives; gpuctl also decodes, cleans and judges.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from gpuctl.clients.prometheus import PrometheusClient
from gpuctl.clock import SystemClock
from gpuctl.metrics.prometheus_source import PrometheusSource
from gpuctl.metrics.source import Want
from gpuctl.model.policy import Policy
from gpuctl.model.settings import ContextSettings, PrometheusSettings
from tests.real.fleet import fleet, past
from tests.real.prometheus_server import RealPrometheus, prometheus

SIZES = ((8, 4), (125, 8), (1250, 8))
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds are the best of several rounds; memory is the peak of `gpuctl heatmap`."""

    gpus: int
    snapshot_seconds: float
    curl_seconds: float
    view_seconds: float
    view_peak_mib: float
    json_seconds: float
    json_peak_mib: float

    @property
    def ratio(self) -> float:
        return self.snapshot_seconds / self.curl_seconds


@contextmanager
def server(nodes: int, gpus: int) -> Iterator[RealPrometheus]:
    """A Prometheus whose past holds the random fleet at this size and goes on for 15 minutes."""
    text = past(
        fleet("fleet", size=(nodes, gpus)),
        minutes=25,
        step_seconds=30,
        end=time.time() + 900,
    )
    with tempfile.TemporaryDirectory() as folder, prometheus(Path(folder), past=text) as running:
        yield running


def measure(running: RealPrometheus, gpus: int) -> Measured:
    """All figures of one size."""
    queries = _queries(running.url)
    snapshot = min(_timed(lambda: _snapshot(running.url)) for _ in range(_ROUNDS))
    curl = min(_timed(lambda: _curl(running.url, queries)) for _ in range(_ROUNDS))
    view = [_gpuctl(running.url) for _ in range(2)]
    document = [_gpuctl(running.url, "-o", "json") for _ in range(2)]
    return Measured(
        gpus=gpus,
        snapshot_seconds=snapshot,
        curl_seconds=curl,
        view_seconds=min(seconds for seconds, _ in view),
        view_peak_mib=max(peak for _, peak in view),
        json_seconds=min(seconds for seconds, _ in document),
        json_peak_mib=max(peak for _, peak in document),
    )


def _timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _want() -> Want:
    return Want.by(Policy(), details=False)


def _snapshot(url: str) -> None:
    settings = ContextSettings(prometheus=PrometheusSettings(url=url))
    with PrometheusClient(settings.prometheus, request_timeout=120, environ={}) as client:
        PrometheusSource(client, settings, SystemClock()).read(_want())


class _Recorder(PrometheusClient):
    """Notes what is asked, in batches of what goes out at once."""

    batches: list[list[tuple[str, dict[str, str]]]]

    def instant_many(self, queries: Mapping[Any, str], **params: str) -> Any:
        self.batches.append([("query", {"query": text}) for text in queries.values()])
        return super().instant_many(queries, **params)

    def range(self, query: str, start: float, end: float, step: float, **params: str) -> Any:
        form = {"query": query, "start": str(start), "end": str(end), "step": str(step)}
        self.batches.append([("query_range", form)])
        return super().range(query, start, end, step, **params)


def _queries(url: str) -> list[list[tuple[str, dict[str, str]]]]:
    settings = ContextSettings(prometheus=PrometheusSettings(url=url))
    with _Recorder(settings.prometheus, request_timeout=120, environ={}) as client:
        client.batches = []
        PrometheusSource(client, settings, SystemClock()).read(_want())
        return client.batches


def _curl(url: str, batches: list[list[tuple[str, dict[str, str]]]]) -> None:
    curl = shutil.which("curl") or "curl"
    for batch in batches:
        running = []
        for path, form in batch:
            # By stdin: a query that names a thousand cards is too long for an argument.
            command = [curl, "-sS", "--compressed", "-o", os.devnull, "--data", "@-"]
            process = subprocess.Popen([*command, f"{url}/api/v1/{path}"], stdin=subprocess.PIPE)
            assert process.stdin is not None
            process.stdin.write(urlencode(form).encode())
            process.stdin.close()
            running.append(process)
        if any(process.wait() != 0 for process in running):
            raise RuntimeError("curl failed")


_MEASURER = """
import os, sys, time
begun = time.perf_counter()
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ,
                     file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
_, status, usage = os.wait4(pid, 0)
print(time.perf_counter() - begun, usage.ru_maxrss, os.waitstatus_to_exitcode(status))
"""


def _gpuctl(url: str, *words: str) -> tuple[float, float]:
    """Seconds and peak memory (MiB) of the installed command, from start to end.

    Started by a small process of its own: a child's peak begins at that of its parent.
    """
    script = Path(sys.executable).parent / "gpuctl"
    command = [str(script), "-q", "heatmap", "--prometheus-url", url, "--timeout", "5m",
               "--request-timeout", "2m", *words]  # fmt: skip
    printed = subprocess.run(
        [sys.executable, "-S", "-c", _MEASURER, *command], check=True, capture_output=True
    )
    seconds, peak_kib, code = printed.stdout.split()
    if int(code) != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {code.decode()}")
    return float(seconds), int(peak_kib) / 1024

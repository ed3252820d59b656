"""How request latency follows from the load of a shared GPU: an estimate, not a forecast.

An M/G/1 queue with processor sharing whose speed is what training leaves over. Parameters are
those of a reference inference service (5.6 ms of GPU work a request, 50 ms beside the GPU); the
fits for P95 and P99 hold to about 2 % between 30 % and 90 % of the remaining capacity.
"""

from __future__ import annotations

from dataclasses import dataclass

WORK_MS = 5.6
FIXED_MS = 50.0
# How much of its share training takes away from inference beside it, with default time-slicing.
INTERFERENCE = 0.92


@dataclass(frozen=True, slots=True)
class Latency:
    """Estimated percentiles of a request's latency, in milliseconds."""

    p95_ms: float
    p99_ms: float


def request_latency(training_pct: float, inference_pct: float) -> Latency | None:
    """Latency on a GPU that carries these loads; None when it can't keep up with its requests."""
    capacity = 1 - INTERFERENCE * min(100.0, training_pct) / 100
    load = inference_pct / 100
    headroom = capacity - load
    if headroom <= 0:
        return None
    rho = load / capacity
    wait = WORK_MS / headroom
    return Latency(
        p95_ms=FIXED_MS + wait * (2.2 + 1.45 * rho),
        p99_ms=FIXED_MS + wait * (3.2 + 3.5 * rho),
    )

"""The load of a workload as a pure function of the scenario's seed, the workload and the time."""

from __future__ import annotations

import math
from hashlib import blake2b

from gpuctl.sim.scenario import Sine, Steps, Workload

#: dcgm-exporter collects every 30 s: between two collections scrapes repeat a reading.
COLLECT_SECONDS = 30


def noise_key(seed: int, workload_id: str) -> bytes:
    """What makes the jitter of one workload its own."""
    return blake2b(f"{seed}|{workload_id}".encode(), digest_size=32).digest()


def level_pct(workload: Workload, seconds: float) -> float:
    """The load without jitter at `seconds` from the epoch; `load_pct` at the epoch itself."""
    shape = workload.shape
    if isinstance(shape, Sine):
        turn = 2 * math.pi
        here = math.sin(turn * (seconds / shape.period_seconds + shape.phase))
        return workload.load_pct + shape.amplitude_pct * (here - math.sin(turn * shape.phase))
    if isinstance(shape, Steps):
        for level in shape.earlier:
            if seconds < level.until_seconds:
                return level.load_pct
    return workload.load_pct


def load_pct(workload: Workload, key: bytes, epoch: float, at: float) -> float:
    """The load that an exporter would have collected at unix time `at`, 0..100.

    `key` is the workload's `noise_key`, `epoch` the scenario's in unix time.
    """
    slot = math.floor(at / COLLECT_SECONDS)
    load = level_pct(workload, slot * COLLECT_SECONDS - epoch)
    jitter = workload.shape.jitter_pct
    if jitter:
        digest = blake2b(slot.to_bytes(8, "big", signed=True), digest_size=8, key=key).digest()
        load += jitter * (int.from_bytes(digest, "big") / 2**63 - 1)
    return min(100.0, max(0.0, load))

"""How long a migration will take: memory that is copied again while the guest dirties it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpuctl.model.migration import MigrationFacts
from gpuctl.policy.migration.checks_devices import copied_bytes

#: One stream through SSH on one core, or 10 GbE: what a migration makes of most links.
DEFAULT_RATE = 1.1e9
_SETUP_SECONDS = 6.0
_FINISH_SECONDS = 4.0
_DOWNTIME_LIMIT_SECONDS = 0.1
# Moving the configuration and letting the twin run, beyond what the log calls downtime.
_RESUME_SECONDS = 0.5
_OFFLINE_SECONDS = 3.0
#: From this share of the rate on, QEMU throttles the guest and lets the pause grow.
_CONVERGES_BELOW = 0.8


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a move should cost. Bytes per second and seconds.

    `copy_bytes` is what there is to copy once: memory and local disks; None when a size is
    unknown, and then `seconds` is None as well. `converges` is False when the guest dirties its
    memory about as fast as it is copied, None when the dirty rate is not known.
    """

    copy_bytes: int | None
    rate_bytes: float
    seconds: float | None
    most_seconds: float | None
    pause_seconds: float | None
    converges: bool | None
    inputs: tuple[str, ...]


def estimate(
    facts: MigrationFacts,
    *,
    rate_bytes: float = DEFAULT_RATE,
    dirty_bytes: float | None = None,
    touched_mib: float | None = None,
    bwlimit_kib: int | None = None,
) -> Estimate:
    """The cost of the move that the facts describe.

    `rate_bytes`: usable bytes per second of the link, as observed or assumed; `bwlimit_kib` caps
    it (0 and None do not). `dirty_bytes`: memory the guest writes, per second. `touched_mib`:
    memory it has ever used, since pages of zeros cost little; else all of it counts.
    """
    rate = min(rate_bytes, bwlimit_kib * 1024) if bwlimit_kib else rate_bytes
    disks = copied_bytes(facts.verdict.local_volumes) if facts.verdict else None
    memory = _memory_bytes(facts, touched_mib)
    total = None if memory is None or disks is None else memory + disks
    inputs = _inputs(facts, rate, dirty_bytes, touched_mib, bwlimit_kib)
    if total is None or memory is None or disks is None or rate <= 0:
        return Estimate(total, rate, None, None, None, None, inputs)
    if not facts.is_live:
        seconds = _OFFLINE_SECONDS + total / rate
        return Estimate(total, rate, seconds, seconds, None, True, inputs)
    first = _SETUP_SECONDS + disks / rate + _FINISH_SECONDS
    pause = _DOWNTIME_LIMIT_SECONDS + _RESUME_SECONDS
    if dirty_bytes is None:
        return Estimate(total, rate, first + memory / rate, None, pause, None, inputs)
    ratio = dirty_bytes / rate
    if ratio >= 1:
        return Estimate(total, rate, None, None, None, False, inputs)
    converges = ratio < _CONVERGES_BELOW
    return Estimate(
        total,
        rate,
        first + _copy_seconds(memory, rate, ratio),
        first + memory / (rate - dirty_bytes),
        pause if converges else None,
        converges,
        inputs,
    )


def _copy_seconds(memory: float, rate: float, ratio: float) -> float:
    """The sum of the rounds: each copies what was dirtied during the one before."""
    if ratio <= 0:
        return memory / rate
    last_round = rate * _DOWNTIME_LIMIT_SECONDS
    rounds = 1
    if memory > last_round:
        rounds = max(1, math.ceil(math.log(last_round / memory) / math.log(ratio)))
    return memory / rate * (1 - ratio**rounds) / (1 - ratio)


def _memory_bytes(facts: MigrationFacts, touched_mib: float | None) -> int | None:
    if not facts.is_live:
        return 0
    whole = facts.vm.ram_mib if facts.vm else None
    mib = touched_mib if touched_mib is not None else whole
    return None if mib is None else int(mib * (1 << 20))


def _inputs(
    facts: MigrationFacts,
    rate: float,
    dirty: float | None,
    touched_mib: float | None,
    bwlimit_kib: int | None,
) -> tuple[str, ...]:
    """What the estimate rests on, for people."""
    said = [f"{rate / 1e9:.2f} GB/s" + (", the limit" if bwlimit_kib else ", one stream")]
    if facts.is_live:
        said.append("memory in use" if touched_mib is not None else "all memory counted as in use")
        said.append("dirty rate unknown" if dirty is None else f"dirties {dirty / 1e9:.2f} GB/s")
    return tuple(said)

"""Which GPUs and MIG instances are hot or idle. One verdict for every command.

Judged over a window, never by the current value alone, and left open where the samples are too
few, too old or missing.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from gpuctl.model.gpu import Gpu, GpuState, MigInstance, WindowStats
from gpuctl.model.policy import Policy

# Of the samples that a full window has, and of its length: one lost scrape in ten is normal.
_ENOUGH = 0.8
_ENOUGH_SPAN = 0.9

_UNJUDGED_STATES = frozenset({GpuState.LOST, GpuState.STALE, GpuState.NO_UTIL})


@dataclass(frozen=True, slots=True)
class Heat:
    """hot and idle, each None where it can't be known, and the reason for that."""

    hot: bool | None
    idle: bool | None
    unknown_because: str | None = None


def gpu_heat(gpu: Gpu, policy: Policy) -> Heat:
    """Whether a whole card is hot or idle."""
    if gpu.state in _UNJUDGED_STATES:
        return Heat(None, None, f"state is {gpu.state}")
    window = _with_present(gpu.window, gpu.utilization_pct)
    return window_heat(window, policy.hot_mark(), policy.idle_below)


def instance_heat(gpu: Gpu, instance: MigInstance, policy: Policy) -> Heat:
    """Whether one MIG instance is hot or idle; `gpu` is the card it is on."""
    if gpu.state in (GpuState.LOST, GpuState.STALE):
        return Heat(None, None, f"state is {gpu.state}")
    if instance.utilization_pct is None:
        return Heat(None, None, "its utilization is unknown")
    window = _with_present(instance.window, instance.utilization_pct)
    return window_heat(window, policy.hot_mark(instance.profile), policy.idle_below)


def _with_present(window: WindowStats | None, present_pct: float | None) -> WindowStats | None:
    """The window with the present reading as one more sample.

    Rows of a pod that has ended can live on in a window where no staleness markers arrive; the
    reading itself is always the newest.
    """
    if window is None or present_pct is None:
        return window
    return replace(
        window,
        min_pct=min(window.min_pct, present_pct),
        max_pct=max(window.max_pct, present_pct),
    )


def window_heat(window: WindowStats | None, hot_above: float, idle_below: float) -> Heat:
    """hot: every sample over the mark; idle: every sample under its mark; both over the window.

    A single sample on the other side of a mark settles a "no", so that it needs no full window.
    """
    if window is None:
        return Heat(None, None, "no samples over time")
    full = is_full(window)
    hot: bool | None = window.min_pct > hot_above
    idle: bool | None = window.max_pct < idle_below
    if not full:
        hot = None if hot else False
        idle = None if idle else False
    reason = None if full else f"only {window.samples} samples in {window.seconds:.0f}s"
    return Heat(hot, idle, reason)


def is_full(window: WindowStats) -> bool:
    """Whether a window has enough samples, spread over enough of it, to say "at every sample"."""
    if window.step_seconds <= 0:
        return False
    due = window.seconds / window.step_seconds + 1
    return window.samples >= _ENOUGH * due and window.span_seconds >= _ENOUGH_SPAN * window.seconds

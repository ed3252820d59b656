"""Utilization over time on an even grid, and what a window of it says about a device.

Values are aggregated over pods before they come here, so that a pod's start or end neither
breaks a window nor fakes one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from msgspec.structs import replace

from gpuctl.metrics.mig import weighed
from gpuctl.model.gpu import Gpu, MigInstance, WindowStats
from gpuctl.model.policy import Policy

WHOLE = -1
DeviceId = tuple[str, str, int]
"""Cluster (or ""), UUID, and the MIG instance's id or WHOLE."""

Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Grid:
    """Percent of utilization per device at `count` steps from `start` (unix time), oldest first."""

    start: float
    step: float
    count: int
    values: Mapping[DeviceId, Values]

    @property
    def seconds(self) -> float:
        """From the first step to the last."""
        return (self.count - 1) * self.step

    def index(self, at: float) -> int:
        """The step that a time belongs to."""
        return round((at - self.start) / self.step)


def grid_of(
    points: Iterable[tuple[DeviceId, float, float]], *, start: float, step: float, count: int
) -> Grid:
    """A grid from (device, unix time, percent); the highest of several values at a step counts."""
    values: dict[DeviceId, list[float | None]] = {}
    for device, at, percent in points:
        row = values.get(device)
        if row is None:
            row = values[device] = [None] * count
        index = round((at - start) / step)
        if 0 <= index < count:
            held = row[index]
            row[index] = percent if held is None or percent > held else held
    return Grid(start=start, step=step, count=count, values=values)


def window_step_seconds(window: timedelta, interval_seconds: float = 0.0) -> float:
    """Spacing of the samples that judge a window.

    A tenth of it, 1 s to 30 s, since dcgm-exporter reads the GPU every 30 s by default and a finer
    grid repeats its readings; never finer than the scrapes, which would be repeated as well, and
    never more than 1000 samples.
    """
    seconds = window.total_seconds()
    return max(1.0, min(30.0, seconds / 10), seconds / 1000, interval_seconds)


def window_samples(window: timedelta, step_seconds: float) -> int:
    """How many samples judge a window: at least three, though a short one grows longer by that.

    Two scrapes are no proof of "all the time".
    """
    return max(2, math.ceil(window.total_seconds() / step_seconds - 1e-9)) + 1


def stats(values: Values, *, step: float) -> WindowStats | None:
    """What a row of a grid says; None without any value."""
    known = [(i, v) for i, v in enumerate(values) if v is not None]
    if not known:
        return None
    figures = [v for _, v in known]
    return WindowStats(
        seconds=(len(values) - 1) * step,
        step_seconds=step,
        samples=len(figures),
        span_seconds=(known[-1][0] - known[0][0]) * step,
        min_pct=min(figures),
        mean_pct=round(sum(figures) / len(figures), 4),
        max_pct=max(figures),
    )


def card_values(gpu: Gpu, grid: Grid) -> Values | None:
    """The card's utilization at each step; of a MIG card, its instances weighed by slices."""
    cluster = gpu.cluster or ""
    if not gpu.mig:
        return grid.values.get((cluster, gpu.uuid, WHOLE))
    rows = [
        (instance.compute_slices, grid.values.get((cluster, gpu.uuid, instance.id)))
        for instance in gpu.mig
    ]
    slices = gpu.total_slices or 7
    return [
        weighed(((width, None if row is None else row[i]) for width, row in rows), slices)
        for i in range(grid.count)
    ]


def with_windows(gpus: Iterable[Gpu], grid: Grid) -> list[Gpu]:
    """The same GPUs, each device with the window that the grid holds for it."""
    done = []
    for gpu in gpus:
        cluster = gpu.cluster or ""
        values = card_values(gpu, grid)
        mig = tuple(
            replace(
                instance,
                window=stats(grid.values.get((cluster, gpu.uuid, instance.id), ()), step=grid.step),
            )
            for instance in gpu.mig
        )
        window = None if values is None else stats(values, step=grid.step)
        done.append(replace(gpu, window=window, mig=mig))
    return done


def was_over_throughout(gpu: Gpu, policy: Policy) -> bool:
    """Whether the card or one of its instances was over its mark at every sample of its window."""
    devices = [(gpu.window, policy.hot_mark())]
    devices += [(instance.window, policy.hot_mark(instance.profile)) for instance in gpu.mig]
    return any(window is not None and window.min_pct > mark for window, mark in devices)


def streak_seconds(values: Values, mark_pct: float, *, step: float) -> tuple[float, bool]:
    """How long the row has been over a mark, counted back from its end, and if that is all of it.

    One missing step in a row is bridged: a lost scrape does not cool a card.
    """
    reached = len(values)
    missing = 0
    for index in range(len(values) - 1, -1, -1):
        value = values[index]
        if value is None:
            missing += 1
            if missing > 1:
                break
        elif value > mark_pct:
            missing = 0
            reached = index
        else:
            break
    if reached == len(values):
        return 0.0, False
    return (len(values) - 1 - reached) * step, reached == 0


def with_streaks(gpus: Iterable[Gpu], grid: Grid, policy: Policy) -> list[Gpu]:
    """The same GPUs; those over the mark all through their window get `hot_for_seconds`.

    The longer of window and grid counts: a grid may be coarser than the window.
    """
    done = []
    for gpu in gpus:
        cluster = gpu.cluster or ""
        mig = tuple(
            _streak_instance(
                i, grid.values.get((cluster, gpu.uuid, i.id)), grid, policy.hot_mark(i.profile)
            )
            for i in gpu.mig
        )
        seconds, capped = _streak(gpu.window, card_values(gpu, grid), grid, policy.hot_mark())
        done.append(replace(gpu, hot_for_seconds=seconds, hot_for_capped=capped, mig=mig))
    return done


def _streak_instance(
    instance: MigInstance, values: Values | None, grid: Grid, mark_pct: float
) -> MigInstance:
    seconds, capped = _streak(instance.window, values, grid, mark_pct)
    return replace(instance, hot_for_seconds=seconds, hot_for_capped=capped)


def _streak(
    window: WindowStats | None, values: Values | None, grid: Grid, mark_pct: float
) -> tuple[float | None, bool]:
    if window is None or window.min_pct <= mark_pct:
        return None, False
    seconds, capped = (
        (0.0, False) if values is None else streak_seconds(values, mark_pct, step=grid.step)
    )
    if window.span_seconds >= seconds:
        # The grid is shorter than the window or lags behind it: the window is all that is known.
        return window.span_seconds, capped or values is None
    return seconds, capped

"""Which raw values are readings, and in what unit.

DCGM prints "blank" constants where it has no value (NVIDIA/DCGM `dcgmlib/dcgm_structs.h`), and
about one sample in a million is corrupt (NVIDIA/dcgm-exporter#418). Both are dropped, never
clamped: a corrupt 1980 % turned into 100 would be a hot card that does not exist.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from gpuctl.metrics import names

# The smallest int32 blank. Int64 and double blanks are larger still, and once stored as floats
# they can't be told apart, hence a bound and not a list.
_SMALLEST_BLANK = 2147483632

_LIMITS: dict[str, tuple[float, float]] = {
    names.UTILIZATION: (0, 100),
    names.MEMORY_COPY: (0, 100),
    names.ENGINE_ACTIVE: (0, 2),
    names.DRAM_ACTIVE: (0, 2),
    names.TENSOR: (0, 2),
    names.MEMORY_USED: (0, 1e7),
    names.MEMORY_FREE: (0, 1e7),
    names.MEMORY_RESERVED: (0, 1e7),
    names.MEMORY_TOTAL: (0, 1e7),
    names.TEMPERATURE: (-50, 200),
    names.POWER: (0, 5000),
    names.XID: (0, 65535),
}
_RATIOS = frozenset({names.ENGINE_ACTIVE, names.DRAM_ACTIVE, names.TENSOR})


def limits(family: str) -> tuple[float, float]:
    """The lowest and the highest raw value of a family that can be real."""
    return _LIMITS[family]


def reading(family: str, raw: float) -> float | str:
    """The value of a sample in the model's unit, or why it is none.

    Ratios come out in percent, at most 100: values slightly over 1 exist and mean full
    (NVIDIA/DCGM#152).
    """
    if math.isnan(raw):
        return "not a number"
    if raw >= _SMALLEST_BLANK:
        return "DCGM's blank value: no data"
    low, high = _LIMITS[family]
    if not low <= raw <= high:
        return f"outside {low:g}..{high:g}"
    if family in _RATIOS:
        return min(100.0, round(raw * 100, 4))
    if family == names.MEMORY_TOTAL and raw == 0:
        return "a total of 0"
    return raw


def ratio_named_scale(raw_values: Iterable[float]) -> float | None:
    """What a 1 of DCGM_FI_DEV_GPU_UTIL_RATIO has to be multiplied by, judged from other values.

    DCGM 4.6 gave this name to field 203, an integer per cent; 4.7 gives it to a new field that
    is a ratio 0..1. Above 1 it is per cent, a fraction is a ratio; without either, or with both,
    a 1 may be 1 % or 100 % and the answer is None.
    """
    percent = ratio = False
    for raw in raw_values:
        percent = percent or 1 < raw <= 100
        ratio = ratio or 0 < raw < 1
    if percent == ratio:
        return None
    return 1.0 if percent else 100.0


def ratio_named_reading(raw: float, scale: float | None) -> float | str:
    """Percent from one value of DCGM_FI_DEV_GPU_UTIL_RATIO, or why it is no reading.

    `scale` (see ratio_named_scale) only matters for a 1: all other values tell what they are.
    """
    if raw == 1:
        return "1 can mean 1 % or a ratio of 1 here" if scale is None else scale
    if 0 < raw < 1:
        return round(100 * raw, 4)
    return reading(names.UTILIZATION, raw)

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


def reading(family: str, raw: float, *, scale: float = 1.0) -> float | str:
    """The value of a sample in the model's unit, or why it is none.

    Ratios come out in percent, at most 100: values slightly over 1 exist and mean full
    (NVIDIA/DCGM#152). `scale` multiplies the raw value first.
    """
    if math.isnan(raw):
        return "not a number"
    if raw >= _SMALLEST_BLANK:
        return "DCGM's blank value: no data"
    value = raw * scale
    low, high = _LIMITS[family]
    if not low <= value <= high:
        return f"outside {low:g}..{high:g}"
    if family in _RATIOS:
        return min(100.0, round(value * 100, 4))
    if family == names.MEMORY_TOTAL and value == 0:
        return "a total of 0"
    return value


def ratio_named_scale(raw_values: Iterable[float]) -> float:
    """What to multiply DCGM_FI_DEV_GPU_UTIL_RATIO by, judged from all its values of one job.

    DCGM 4.6 gave this name to field 203, an integer per cent; 4.7 gives it to a new field that
    is a ratio 0..1. Only fractions prove a ratio; when all values are 0 or 1 per cent is meant,
    since a fleet of exact ratios is less likely than an idle one.
    """
    fraction = False
    for raw in raw_values:
        if 1 < raw <= 100:
            return 1.0
        fraction = fraction or 0 < raw < 1
    return 100.0 if fraction else 1.0

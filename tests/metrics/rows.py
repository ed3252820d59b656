"""Raw samples for tests of the cleaning, in one line each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuctl.metrics.cleaning import Cleaned, Cleaner, Trace
from gpuctl.metrics.labels import LabelRules
from gpuctl.metrics.names import MetricNames
from gpuctl.model.gpu import Gpu
from gpuctl.model.sample import Sample
from gpuctl.model.settings import LabelSettings

NOW = 10_000.0
UTIL = "DCGM_FI_DEV_GPU_UTIL"
ENGINE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
USED = "DCGM_FI_DEV_FB_USED"
FREE = "DCGM_FI_DEV_FB_FREE"
RESERVED = "DCGM_FI_DEV_FB_RESERVED"
TOTAL = "DCGM_FI_DEV_FB_TOTAL"
XID = "DCGM_FI_DEV_XID_ERRORS"
RATIO = "DCGM_FI_DEV_GPU_UTIL_RATIO"


def row(name: str, value: float, at: float | None = NOW - 10, **labels: str | None) -> Sample:
    """A sample of card GPU-1 (index 0 on node n1); a label set to None is left out."""
    every: dict[str, str | None] = {"UUID": "GPU-1", "gpu": "0", "Hostname": "n1", **labels}
    return Sample(name, {key: text for key, text in every.items() if text is not None}, value, at)


def mig(name: str, value: float, mig_id: int, profile: str, **more: str | float | None) -> Sample:
    """A sample of one MIG instance of that card."""
    at = more.pop("at", NOW - 10)
    assert at is None or isinstance(at, float)
    labels = {key: text for key, text in more.items() if text is None or isinstance(text, str)}
    return row(name, value, at, GPU_I_ID=str(mig_id), GPU_I_PROFILE=profile, **labels)


def clean(
    samples: Iterable[Sample],
    silent: Iterable[Sample] = (),
    *,
    labels: LabelSettings | None = None,
    aliases: Mapping[str, Iterable[str]] | None = None,
    trace: Trace | None = None,
) -> Cleaned:
    """What the cleaning makes of some samples at NOW; a minute old is stale."""
    rules = LabelRules.of(labels or LabelSettings())
    cleaner = Cleaner(MetricNames.of(aliases), rules, now=NOW, max_age_seconds=60, trace=trace)
    return cleaner.clean(samples, silent)


def only(samples: Iterable[Sample], **more: LabelSettings | None) -> Gpu:
    """The one GPU that these samples are of."""
    (gpu,) = clean(samples, **more).gpus
    return gpu

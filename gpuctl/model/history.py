"""Figures over time: what `gpuctl heatmap --since` draws."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct

from gpuctl.model.snapshot import Source

Metric = Literal["util", "mem", "membw", "tensor", "temp", "power"]


class HistorySeries(Struct, frozen=True, kw_only=True):
    """One GPU or MIG instance (`mig_id`) over time: a value per step, None where there was none."""

    node: str
    gpu: int | None
    uuid: str
    mig_id: int | None = None
    profile: str | None = None
    values: tuple[float | None, ...]


class HistoryDocument(Struct, frozen=True, kw_only=True):
    """`kind: heatmap_history`. `times` are the steps, oldest first; a series has one value each."""

    schema: Literal["gpuctl/v1"] = "gpuctl/v1"
    kind: Literal["heatmap_history"] = "heatmap_history"
    generated_at: datetime
    context: str | None
    cluster: str | None
    source: Source
    simulated: bool
    metric: Metric
    unit: str
    step_seconds: float
    times: tuple[datetime, ...]
    items: tuple[HistorySeries, ...]
    warnings: tuple[str, ...] = ()

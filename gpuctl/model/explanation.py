"""The `heatmap_explanation` document: which raw series became a GPU's figures."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct

from gpuctl.model.gpu import Gpu


class SeriesFate(Struct, frozen=True, kw_only=True):
    """One raw series of the card.

    - used: its value is the reading of `family`
    - merged: a copy, a replica or a lower value of the same figure, or part of a sum
    - rejected: not a reading; `reason` says why
    """

    fate: Literal["used", "merged", "rejected"]
    name: str
    labels: dict[str, str]
    value: float | str
    family: str | None = None
    reason: str | None = None


class ExplanationDocument(Struct, frozen=True, kw_only=True):
    """`kind: heatmap_explanation`. Series are ordered by fate (as listed there), then by name."""

    schema: Literal["gpuctl/v1"] = "gpuctl/v1"
    kind: Literal["heatmap_explanation"] = "heatmap_explanation"
    generated_at: datetime
    gpu: Gpu
    series: tuple[SeriesFate, ...]
    notes: tuple[str, ...]

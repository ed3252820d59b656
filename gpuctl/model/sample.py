"""One raw sample, as an exporter printed it or Prometheus stored it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """A value with its labels, before any cleaning.

    `name` is the metric's name as the site spells it. `at` is the unix time of the sample itself
    (not of the query), None where the source can't tell.
    """

    name: str
    labels: Mapping[str, str]
    value: float
    at: float | None = None

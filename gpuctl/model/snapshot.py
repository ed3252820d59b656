"""The cluster at one moment: everything a decision may use, as one value that can be saved."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct

from gpuctl.model.gpu import Gpu
from gpuctl.model.workload import Workload

SCHEMA = "gpuctl/v1"


class Source(Struct, frozen=True, kw_only=True):
    """Where the figures come from. `location` is a URL without user info, a file or a scenario."""

    kind: Literal["prometheus", "exporter", "simulation", "file"]
    location: str
    simulated: bool = False


class Snapshot(Struct, frozen=True, kw_only=True):
    """All GPUs of one cluster at `taken_at`, ordered by node, then GPU index, then UUID.

    `metrics_age_seconds` is the age of the newest sample, `max_age_seconds` the age from which a
    sample was called stale. `window_seconds` is the length of the window behind each GPU's
    `window`; None when the source has only one moment, and then neither hot nor idle can be
    judged. `hot_above_pct` is the mark behind `hot_for_seconds`. `is_partial`: the server said that
    its answer is not whole. `known_nodes` are the nodes that had GPU metrics within the last hour,
    silent ones included. `inventories` names what told who runs where beyond the metrics' labels:
    without any, `workloads` is empty and the GPUs' tenants are all that is known.
    """

    schema: Literal["gpuctl/v1"] = "gpuctl/v1"
    kind: Literal["snapshot"] = "snapshot"
    taken_at: datetime
    source: Source
    context: str | None = None
    cluster: str | None = None
    scrape_interval_seconds: float | None = None
    metrics_age_seconds: float | None = None
    max_age_seconds: float | None = None
    clock_skew_seconds: float | None = None
    window_seconds: float | None = None
    hot_above_pct: float | None = None
    is_partial: bool = False
    known_nodes: tuple[str, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    inventories: tuple[Literal["kubernetes", "proxmox", "simulation"], ...] = ()
    workloads: tuple[Workload, ...] = ()
    warnings: tuple[str, ...] = ()

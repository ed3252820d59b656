"""Why there is nothing to look at: asked only when a snapshot came back empty."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpuctl.clients.prometheus import PrometheusClient
from gpuctl.errors import GpuctlError, MetricsError, shorten
from gpuctl.metrics import names as n
from gpuctl.metrics.queries import QuerySet
from gpuctl.model.durations import format_duration
from gpuctl.model.gpu import Gpu

_GPU_LIKE = re.compile(r"dcgm|nvidia|gpu|cuda", re.IGNORECASE)


def nothing_live(
    client: PrometheusClient, queries: QuerySet, silent: Sequence[Gpu], location: str
) -> GpuctlError:
    """The error for a server without one live GPU, after a closer look at what it does have."""
    age = _newest_age_seconds(client, queries)
    if silent:
        nodes = sorted({gpu.node for gpu in silent})
        aged = f", the newest sample is {format_duration(round(age))} old" if age else ""
        return MetricsError(
            f"all {len(silent)} GPUs have gone silent",
            cause=f"{len(nodes)} nodes ({shorten(nodes)}) had GPU metrics within the last hour "
            f"and have none now{aged}",
            hint="check the dcgm-exporter pods and Prometheus' targets page; --exporter NODE:9400 "
            "reads an exporter without Prometheus",
        )
    if age is not None:
        return MetricsError(
            f"the newest GPU sample is {format_duration(round(age))} old",
            cause=f"{location} holds DCGM metrics, but none from the last 5 minutes",
            hint="check the dcgm-exporter pods and Prometheus' targets page",
        )
    return _no_dcgm(client, queries, location)


def _newest_age_seconds(client: PrometheusClient, queries: QuerySet) -> float | None:
    """Age of the newest utilization sample of the last day; None when there is none."""
    names = queries.names.of_families(n.UTILIZATION, n.ENGINE_ACTIVE)
    times = " or ".join(f"max_over_time(timestamp({queries.one(name)})[1d:5m])" for name in names)
    try:
        answer = client.instant(f"time() - max({times})")
    except GpuctlError:
        # The look-up only refines a message that stands without it.
        return None
    return max(0.0, answer.series[0].value) if answer.series else None


def _no_dcgm(client: PrometheusClient, queries: QuerySet, location: str) -> GpuctlError:
    looked_for = (
        queries.names.by_family[n.UTILIZATION][0],
        queries.names.by_family[n.ENGINE_ACTIVE][0],
    )
    selected = f" with {queries.selector}" if queries.selector else ""
    try:
        names = client.label_values("__name__")
    except GpuctlError:
        found = "the list of metric names could not be read"
    else:
        gpu_like = sorted(name for name in names if _GPU_LIKE.search(name))
        found = f"it has {len(names)} metric names, " + (
            f"GPU-like ones: {shorten(gpu_like, 6)}" if gpu_like else "none that looks like a GPU's"
        )
    return MetricsError(
        "no DCGM metrics found",
        cause=f"looked on {location} for {', '.join(looked_for)} and their older and newer "
        f"names{selected}; {found}",
        hint="is dcgm-exporter scraped by this Prometheus? other names go to metrics.aliases in "
        "the context, a wrong cluster label to prometheus.selector",
    )

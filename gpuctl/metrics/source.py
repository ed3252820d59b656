"""The port through which every command gets its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from gpuctl.errors import UsageError, shorten
from gpuctl.metrics.cleaning import Trace
from gpuctl.model.gpu import Gpu
from gpuctl.model.history import HistorySeries, Metric
from gpuctl.model.policy import Policy
from gpuctl.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Want:
    """What a caller needs of a snapshot. What it does not need is not fetched.

    `policy` gives the window that hot and idle are judged over and the marks. An older sample
    than `max_age` is stale, though never one younger than two scrape intervals. `details`:
    temperature, power, bandwidth and tensor activity as well.
    """

    policy: Policy
    max_age: timedelta
    details: bool = True
    streak_history: timedelta = timedelta(hours=3)

    @classmethod
    def by(cls, policy: Policy, *, details: bool = True, max_age: timedelta | None = None) -> Want:
        """What a policy needs to decide."""
        age = policy.limits.metrics_max_age if max_age is None else max_age
        return cls(policy=policy, max_age=age, details=details)


@dataclass(frozen=True, slots=True)
class History:
    """One figure over time: unix times of the steps, and a value per step of each device.

    `snapshot` is the cluster at the end of it, which says where each device stands.
    """

    snapshot: Snapshot
    times: tuple[float, ...]
    step_seconds: float
    series: tuple[HistorySeries, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """Which raw series made a GPU's reading, and which did not and why.

    `snapshot` is the cluster that the reading is part of.
    """

    gpu: Gpu
    snapshot: Snapshot
    trace: Trace
    notes: tuple[str, ...] = field(default=())


class MetricsSource(Protocol):
    """Prometheus, exporters, a saved snapshot or a simulation.

    `read` raises MetricsError when there is nothing to decide on and BackendError when the
    source can't be asked. `history` raises UsageError where the source has no past.
    """

    def read(self, want: Want) -> Snapshot:
        """The cluster now."""

    def history(self, metric: Metric, span: timedelta, step: timedelta, want: Want) -> History:
        """One figure of every device over the last `span`, on the source's own clock."""

    def explain(self, node: str, gpu: int, want: Want) -> Explanation:
        """How the reading of one GPU came about."""

    def close(self) -> None:
        """Give connections back."""


def find_gpu(gpus: Sequence[Gpu], node: str, index: int) -> Gpu:
    """The GPU at NODE/INDEX. Raises UsageError naming what there is instead."""
    for gpu in gpus:
        if gpu.node == node and gpu.gpu == index:
            return gpu
    known = [gpu.address for gpu in gpus if gpu.node == node]
    known = known or sorted({gpu.node for gpu in gpus})
    raise UsageError(
        f"no GPU {node}/{index}",
        cause=f"known here: {shorten(known, 8)}",
        hint="name it as NODE/GPU, as in the heat map",
    )

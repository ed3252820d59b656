"""A saved snapshot instead of a live cluster."""

from __future__ import annotations

from datetime import timedelta

from gpuctl.errors import UsageError
from gpuctl.metrics.cleaning import Trace
from gpuctl.metrics.source import Explanation, History, Want, find_gpu
from gpuctl.model.history import Metric
from gpuctl.model.snapshot import Snapshot


class SnapshotSource:
    """MetricsSource over one Snapshot; freshness was judged when it was taken."""

    def __init__(self, snapshot: Snapshot):
        self._snapshot = snapshot

    def close(self) -> None:
        """Nothing is open."""

    def read(self, want: Want) -> Snapshot:
        """The saved snapshot as it is."""
        return self._snapshot

    def history(self, metric: Metric, span: timedelta, step: timedelta, want: Want) -> History:
        """Raises UsageError: a snapshot is one moment."""
        raise UsageError(
            "--since needs Prometheus",
            cause="a snapshot holds one moment and its window, no past",
            hint="leave out --snapshot",
        )

    def explain(self, node: str, gpu: int, want: Want) -> Explanation:
        """The GPU's reading; the raw series behind it are not in a snapshot."""
        card = find_gpu(self._snapshot.gpus, node, gpu)
        notes = ("a snapshot does not hold the raw series",)
        return Explanation(card, self._snapshot, Trace(), notes=notes)

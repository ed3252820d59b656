"""Readings scraped from the exporters themselves, for the night when Prometheus is down."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gpuctl.clock import Clock
from gpuctl.errors import BackendError, GpuctlError, MetricsError, UsageError, shorten
from gpuctl.metrics.cleaning import Cleaned, Cleaner, Trace, in_order
from gpuctl.metrics.labels import LabelRules, without_port
from gpuctl.metrics.names import MetricNames
from gpuctl.metrics.past import figures_of
from gpuctl.metrics.source import Explanation, History, Want, find_gpu
from gpuctl.metrics.windows import Grid, grid_of, with_streaks, with_windows
from gpuctl.model.gpu import Gpu, GpuState
from gpuctl.model.history import Metric
from gpuctl.model.sample import Sample
from gpuctl.model.settings import ContextSettings
from gpuctl.model.snapshot import Snapshot, Source

if TYPE_CHECKING:
    from gpuctl.clients.exporter import Scrape

Scraper = Callable[[], "list[Scrape]"]
_Batch = tuple[float, "list[Scrape]", Cleaned]

_PUSH_TIME = "push_time_seconds"
_GPU_LIKE = re.compile(r"dcgm|nvidia|gpu", re.IGNORECASE)
_LONGEST_STEP_SECONDS = 15.0


class ExporterSource:
    """MetricsSource over dcgm-exporter endpoints, or a Pushgateway that holds their figures.

    `sample_for`: scrape again and again for so long and judge hot and idle over that span;
    without it one moment is all there is. `wait` pauses between scrapes.
    """

    def __init__(
        self,
        scraper: Scraper,
        settings: ContextSettings,
        clock: Clock,
        *,
        wait: Callable[[float], object],
        sample_for: timedelta | None = None,
    ):
        self._scrape = scraper
        self._names = MetricNames.of(settings.metrics.aliases)
        self._rules = LabelRules.of(settings.labels)
        self._clock = clock
        self._wait = wait
        self._sample_for = sample_for

    def close(self) -> None:
        """Nothing is kept open between scrapes."""

    def read(self, want: Want) -> Snapshot:
        """The exporters' figures now. A dead exporter is a warning, all of them dead an error."""
        return self._snapshot(list(self._batches(want)), want)

    def _snapshot(self, batches: Sequence[_Batch], want: Want) -> Snapshot:
        taken_at, scrapes, cleaned = batches[-1]
        gpus: Sequence[Gpu] = cleaned.gpus
        grid = None
        if len(batches) > 1:
            grid = _grid((at, batch.gpus) for at, _, batch in batches)
            gpus = with_streaks(with_windows(gpus, grid), grid, want.policy)
            gpus = _with_lost(gpus, (batch.gpus for _, _, batch in batches))
        dead = [scrape for scrape in scrapes if scrape.error is not None]
        ages = [gpu.age_seconds for gpu in gpus if gpu.age_seconds is not None]
        return Snapshot(
            taken_at=datetime.fromtimestamp(taken_at, UTC),
            source=Source(kind="exporter", location=shorten([s.target for s in scrapes])),
            metrics_age_seconds=min(ages, default=None),
            max_age_seconds=want.max_age.total_seconds(),
            window_seconds=grid.seconds if grid is not None else None,
            hot_above_pct=want.policy.hot_above,
            known_nodes=tuple(
                sorted({*(gpu.node for gpu in gpus), *(self._node_of(each) for each in dead)})
            ),
            gpus=tuple(gpus),
            warnings=(*_dead_warnings(dead, len(scrapes)), *cleaned.warnings),
        )

    def history(self, metric: Metric, span: timedelta, step: timedelta, want: Want) -> History:
        """Raises UsageError: an exporter has no past."""
        raise UsageError(
            "--since needs Prometheus",
            cause="an exporter only knows its present figures",
            hint="leave out --exporter, or use --sample-for to watch for a while",
        )

    def explain(self, node: str, gpu: int, want: Want) -> Explanation:
        """How the reading of one GPU came about."""
        batches = list(self._batches(want, once=True))
        snapshot = self._snapshot(batches, want)
        card = find_gpu(snapshot.gpus, node, gpu)
        trace = Trace()
        key = (card.cluster or "", card.uuid)
        _, scrapes, _ = batches[-1]
        self._cleaner(want, trace).clean(
            s for s in _samples(scrapes) if self._rules.device_key(s.labels) == key
        )
        return Explanation(card, snapshot, trace)

    def _node_of(self, dead: Scrape) -> str:
        """What the node of a silent exporter is called, by its address."""
        target = dead.target
        netloc = urlsplit(target if "://" in target else f"//{target}").netloc
        host = without_port(netloc)
        names = self._rules.settings.node_map
        return names.get(netloc) or names.get(host, host)

    # -- scraping -----------------------------------------------------------------------------

    def _batches(self, want: Want, *, once: bool = False) -> Iterator[_Batch]:
        """One scrape, or as many as `sample_for` holds, the last one at its end."""
        span = 0.0 if once or self._sample_for is None else self._sample_for.total_seconds()
        steps = max(4, round(span / _LONGEST_STEP_SECONDS)) if span else 0
        begun = self._clock.monotonic()
        for index in range(steps + 1):
            due = begun + index * span / steps if steps else begun
            self._wait(max(0.0, due - self._clock.monotonic()))
            scrapes = self._scrape()
            if not scrapes:
                raise UsageError("no exporter to scrape", hint="give --exporter HOST:PORT")
            at = self._clock.now().timestamp()
            if index < steps:
                # A moment without any answer is a hole in the window; only the last one, which
                # gives the figures, has to be there. Raw rows are not kept.
                yield at, [], self._cleaner(want).clean(_samples(scrapes))
            else:
                _refuse_silence(scrapes)
                yield at, scrapes, self._clean(scrapes, want)

    def _cleaner(self, want: Want, trace: Trace | None = None) -> Cleaner:
        return Cleaner(
            self._names,
            self._rules,
            now=self._clock.now().timestamp(),
            max_age_seconds=want.max_age.total_seconds(),
            trace=trace,
        )

    def _clean(self, scrapes: list[Scrape], want: Want) -> Cleaned:
        cleaned = self._cleaner(want).clean(_samples(scrapes))
        if not cleaned.gpus:
            found = sorted({s.name for scrape in scrapes for s in scrape.samples})
            gpu_like = [name for name in found if _GPU_LIKE.search(name)]
            raise MetricsError(
                "no DCGM metrics found",
                cause=f"{shorten([s.target for s in scrapes])} gave {len(found)} metric names, "
                + (f"GPU-like: {shorten(gpu_like, 6)}" if gpu_like else "none of a GPU"),
                hint="is this a dcgm-exporter? other metric names go to metrics.aliases",
            )
        return cleaned


def _refuse_silence(scrapes: Sequence[Scrape]) -> None:
    if all(scrape.error is not None for scrape in scrapes):
        raise BackendError(
            f"none of {len(scrapes)} exporters answered",
            cause=f"{scrapes[0].target}: {_reason(scrapes[0].error)}",
            hint="check the addresses and that dcgm-exporter runs; the port is 9400 by default",
        )


def _with_lost(gpus: Sequence[Gpu], earlier: Iterable[Sequence[Gpu]]) -> list[Gpu]:
    """The GPUs of the last scrape and, as lost, those that only an earlier one had."""
    seen = {(gpu.cluster, gpu.uuid): gpu for batch in earlier for gpu in batch}
    present = {(gpu.cluster, gpu.uuid) for gpu in gpus}
    lost = [
        Gpu(
            node=gpu.node,
            gpu=gpu.gpu,
            uuid=gpu.uuid,
            cluster=gpu.cluster,
            model=gpu.model,
            pci_bus_id=gpu.pci_bus_id,
            state=GpuState.LOST,
            utilization_pct=None,
            memory_used_mib=None,
            memory_total_mib=None,
        )
        for key, gpu in seen.items()
        if key not in present
    ]
    return sorted([*gpus, *lost], key=in_order)


def _samples(scrapes: Iterable[Scrape]) -> Iterator[Sample]:
    """Every sample with the labels Prometheus would add, and the time it was taken."""
    for scrape in scrapes:
        pushed = _PushTimes.of(scrape.samples)
        instance = urlsplit(scrape.url).netloc
        # All samples of a card share one mapping, and go on sharing it.
        completed: dict[int, Mapping[str, str]] = {}
        for sample in scrape.samples:
            labels = sample.labels
            if not labels.get("instance"):
                labels = completed.get(id(sample.labels)) or {**labels, "instance": instance}
                completed[id(sample.labels)] = labels
            at = sample.at
            if at is None:
                at = pushed.of_group(sample.labels, scrape.scraped_at)
            yield Sample(sample.name, labels, sample.value, at)


@dataclass(frozen=True, slots=True)
class _PushTimes:
    """When each group of a Pushgateway was pushed; nothing else on a page tells its age.

    A group is a set of labels, whichever the pusher chose; its samples carry all of them.
    """

    by_labels: Mapping[tuple[str, ...], Mapping[tuple[str, ...], float]]

    @classmethod
    def of(cls, samples: Iterable[Sample]) -> _PushTimes:
        """The groups of a page, those with more labels first."""
        found: dict[tuple[str, ...], dict[tuple[str, ...], float]] = {}
        for sample in samples:
            if sample.name == _PUSH_TIME:
                group = sorted((key, text) for key, text in sample.labels.items() if text)
                names, texts = tuple(k for k, _ in group), tuple(t for _, t in group)
                found.setdefault(names, {})[texts] = sample.value
        return cls({names: found[names] for names in sorted(found, key=lambda n: (-len(n), n))})

    def of_group(self, labels: Mapping[str, str], otherwise: float) -> float:
        """When the samples with these labels were pushed; `otherwise` when they were not."""
        for names, times in self.by_labels.items():
            at = times.get(tuple(labels.get(name, "") for name in names))
            if at is not None:
                return at
        return otherwise


def _grid(batches: Iterable[tuple[float, Sequence[Gpu]]]) -> Grid:
    taken = list(batches)
    start, end = taken[0][0], taken[-1][0]
    step = max((end - start) / (len(taken) - 1), 1e-3)
    points = (
        # The n-th scrape is the n-th step even if a slow exporter delayed it.
        (device, start + index * step, percent)
        for index, (_, gpus) in enumerate(taken)
        for device, percent in figures_of("util", gpus)
    )
    return grid_of(points, start=start, step=step, count=len(taken))


def _dead_warnings(dead: Sequence[Scrape], total: int) -> list[str]:
    if not dead:
        return []
    reasons: dict[str, list[str]] = {}
    for scrape in dead:
        reasons.setdefault(_reason(scrape.error), []).append(scrape.target)
    listed = "; ".join(f"{shorten(targets)}: {why}" for why, targets in reasons.items())
    return [f"{len(dead)} of {total} exporters gave nothing: {listed}"]


def _reason(error: GpuctlError | None) -> str:
    return "" if error is None else (error.cause or error.what)

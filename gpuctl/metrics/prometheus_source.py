"""Readings from a Prometheus-compatible API."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from gpuctl.clients.prometheus import MatrixAnswer, PrometheusClient, VectorAnswer
from gpuctl.clock import Clock
from gpuctl.metrics import diagnosis
from gpuctl.metrics.bounds import ratio_named_scale, reading
from gpuctl.metrics.cleaning import PRESENCE, Cleaner, Trace
from gpuctl.metrics.labels import LabelRules
from gpuctl.metrics.names import ENGINE_ACTIVE, RATIO_NAMED_UTILIZATION, MetricNames
from gpuctl.metrics.past import history_families, history_series
from gpuctl.metrics.queries import INTERVAL_MARK, INTERVAL_SECONDS, QuerySet
from gpuctl.metrics.source import Explanation, History, Want, find_gpu
from gpuctl.metrics.windows import (
    WHOLE,
    DeviceId,
    Grid,
    Values,
    grid_of,
    was_over_throughout,
    window_samples,
    window_step_seconds,
    with_streaks,
    with_windows,
)
from gpuctl.model.durations import format_duration
from gpuctl.model.gpu import Gpu, GpuState
from gpuctl.model.history import Metric
from gpuctl.model.sample import Sample
from gpuctl.model.settings import ContextSettings
from gpuctl.model.snapshot import Snapshot, Source
from gpuctl.model.urls import redact_url

# An estimate of the scrape interval above this is not believed: twice as much is the server's
# look-back, and a gap in all series would make everything look fresh.
_LONGEST_INTERVAL_SECONDS = 150.0
# A sample stands for a step of the window for two scrapes and a bit, and never for less than this.
_STANDS_AT_LEAST_SECONDS = 90.0
_SKEW_WORTH_A_WARNING_SECONDS = 30.0
_STREAKS_AT_MOST = 1000


@dataclass(slots=True)
class _Round:
    """The answers of one snapshot's instant queries, as samples, and what came along with them."""

    samples: list[Sample]
    silent: list[Sample]
    present: frozenset[str]
    one_means: float | None
    interval_seconds: float | None
    now: float
    skew_seconds: float
    is_partial: bool = False
    warnings: list[str] = field(default_factory=list)

    def note(self, *answers: VectorAnswer | MatrixAnswer) -> None:
        """Keep an answer's warnings, and whether some of its data is missing."""
        for answer in answers:
            self.warnings += (f"Prometheus: {text}" for text in answer.warnings)
            self.is_partial = self.is_partial or answer.is_partial


class PrometheusSource:
    """MetricsSource over one Prometheus, Thanos, Mimir or VictoriaMetrics."""

    def __init__(self, client: PrometheusClient, settings: ContextSettings, clock: Clock):
        self._client = client
        self._location = redact_url(settings.prometheus.url or "")
        self._clock = clock
        self._names = MetricNames.of(settings.metrics.aliases)
        self._rules = LabelRules.of(settings.labels)
        self._queries = QuerySet.of(self._names, self._rules, settings.prometheus.selector)

    def close(self) -> None:
        self._client.close()

    def read(self, want: Want) -> Snapshot:
        """The cluster now: four instant queries at once, then the window, then hot streaks."""
        return self._observed(self._ask(want), want)

    def _observed(self, found: _Round, want: Want) -> Snapshot:
        max_age = self._max_age(want, found.interval_seconds)
        cleaner = Cleaner(self._names, self._rules, now=found.now, max_age_seconds=max_age)
        cleaned = cleaner.clean(found.samples, found.silent)
        # A hundred thousand rows; the windows and the documents can use their memory.
        found.samples.clear()
        if not any(gpu.state is not GpuState.LOST for gpu in cleaned.gpus):
            raise diagnosis.nothing_live(self._client, self._queries, cleaned.gpus, self._location)
        window = self._window(found, cleaned.gpus, want)
        gpus = with_windows(cleaned.gpus, window)
        gpus = self._streaks(gpus, found, want)
        ages = [gpu.age_seconds for gpu in gpus if gpu.age_seconds is not None]
        return Snapshot(
            taken_at=datetime.fromtimestamp(found.now, UTC),
            source=Source(kind="prometheus", location=self._location),
            scrape_interval_seconds=found.interval_seconds,
            metrics_age_seconds=min(ages, default=None),
            max_age_seconds=max_age,
            clock_skew_seconds=round(found.skew_seconds, 3),
            window_seconds=window.seconds,
            hot_above_pct=want.policy.hot_above,
            is_partial=found.is_partial,
            known_nodes=tuple(sorted({gpu.node for gpu in gpus})),
            gpus=tuple(gpus),
            warnings=tuple(
                dict.fromkeys(
                    [*found.warnings, *cleaned.warnings, *_skew_warning(found.skew_seconds)]
                )
            ),
        )

    def history(self, metric: Metric, span: timedelta, step: timedelta, want: Want) -> History:
        """One figure of every device over the last `span`."""
        found = self._ask(want)
        snapshot = self._observed(found, want)
        end = snapshot.taken_at.timestamp()
        start = end - span.total_seconds()
        count = math.floor(span / step) + 1
        seconds = step.total_seconds()
        warnings = list(snapshot.warnings)

        def over_time(query: str) -> MatrixAnswer:
            answer = self._client.range(query, start, start + (count - 1) * seconds, seconds)
            warnings.extend(answer.warnings)
            return answer

        cards: dict[DeviceId, Values] = {}
        places = _without_uuid(snapshot.gpus)
        for families in history_families(metric):
            if metric == "util":
                names = frozenset(self._names.of_families(*families))
                query = self._queries.utilization_over_time(
                    names, one_means=found.one_means, places=places
                )
            else:
                query = self._queries.figure_over_time(families, places=places)
            grid = self._grid(over_time(query), snapshot.gpus, start, seconds, count)
            # The first family that knows a device speaks for it.
            cards = {**grid.values, **cards}
        grid = Grid(start=start, step=seconds, count=count, values=cards)
        return History(
            snapshot=snapshot,
            times=tuple(start + i * seconds for i in range(count)),
            step_seconds=seconds,
            series=history_series(metric, snapshot.gpus, grid),
            warnings=tuple(dict.fromkeys(warnings)),
        )

    def explain(self, node: str, gpu: int, want: Want) -> Explanation:
        """How the reading of one GPU came about, from every raw series of its card."""
        snapshot = self.read(want)
        card = find_gpu(snapshot.gpus, node, gpu)
        answer = self._client.instant(self._queries.raw(card.uuid))
        times = self._client.instant(self._queries.presence())
        trace = Trace()
        cleaner = Cleaner(
            self._names,
            self._rules,
            now=snapshot.taken_at.timestamp(),
            max_age_seconds=snapshot.max_age_seconds or 0.0,
            trace=trace,
        )
        key = (card.cluster or "", card.uuid)
        known = [*_presence(times), *_named(answer)]
        cleaner.clean(s for s in known if self._rules.device_key(s.labels) == key)
        return Explanation(card, snapshot, trace, notes=tuple(answer.warnings))

    # -- asking -------------------------------------------------------------------------------

    def _ask(self, want: Want) -> _Round:
        local_now = self._clock.now().timestamp()
        answers = self._client.instant_many(
            {
                "presence": self._queries.presence(),
                "utilization": self._queries.utilization(),
                "figures": self._queries.figures(details=want.details),
                "silent": self._queries.silent(),
            }
        )
        now = _evaluated_at(answers.values(), local_now)
        answered_at = self._clock.now().timestamp()
        utilization = list(_named(answers["utilization"]))
        ratios = [s.value for s in utilization if s.name in RATIO_NAMED_UTILIZATION]
        found = _Round(
            samples=[*_presence(answers["presence"]), *utilization, *_named(answers["figures"])],
            silent=[
                Sample(PRESENCE, series.metric, series.value)
                for series in answers["silent"].series
                if INTERVAL_MARK not in series.metric
            ],
            present=frozenset(s.name for s in utilization),
            one_means=ratio_named_scale(ratios),
            interval_seconds=_interval(answers["silent"]),
            now=now,
            skew_seconds=_skew(now, local_now, answered_at),
        )
        found.note(*answers.values())
        return found

    @staticmethod
    def _max_age(want: Want, interval_seconds: float | None) -> float:
        return max(want.max_age.total_seconds(), 2 * (interval_seconds or 0.0))

    def _window(self, found: _Round, gpus: Sequence[Gpu], want: Want) -> Grid:
        interval = found.interval_seconds or 0.0
        step = window_step_seconds(want.policy.hot_for, interval)
        count = window_samples(want.policy.hot_for, step)
        start = found.now - (count - 1) * step
        query = self._queries.utilization_over_time(
            self._speaking(found.present, gpus),
            one_means=found.one_means,
            younger_than=max(_STANDS_AT_LEAST_SECONDS, 2.5 * interval),
            places=_without_uuid(gpus),
        )
        if not query:
            return Grid(start=start, step=step, count=count, values={})
        answer = self._client.range(query, start, found.now, step)
        found.note(answer)
        return self._grid(answer, gpus, start, step, count)

    def _speaking(self, present: frozenset[str], gpus: Iterable[Gpu]) -> frozenset[str]:
        """The metric names that some card's utilization comes from.

        On a large fleet the server needs seconds for activity that nobody reads.
        """
        engine = frozenset(self._names.of_families(ENGINE_ACTIVE))
        is_read = any(gpu.mig or gpu.utilization_source in engine for gpu in gpus)
        return present if is_read else present - engine

    def _streaks(self, gpus: list[Gpu], found: _Round, want: Want) -> list[Gpu]:
        """For how long each GPU that is hot over the window has been so."""
        hot = [gpu for gpu in gpus if was_over_throughout(gpu, want.policy)][:_STREAKS_AT_MOST]
        if not hot:
            return gpus
        step = 60.0 if len(hot) <= 200 else 300.0
        count = round(want.streak_history.total_seconds() / step) + 1
        start = found.now - (count - 1) * step
        places = _without_uuid(hot)
        query = self._queries.utilization_over_time(
            self._speaking(found.present, hot),
            one_means=found.one_means,
            uuids=() if places else [gpu.uuid for gpu in hot],
            places=places,
        )
        answer = self._client.range(query, start, found.now, step)
        found.note(answer)
        return with_streaks(gpus, self._grid(answer, gpus, start, step, count), want.policy)

    def _grid(
        self, answer: MatrixAnswer, gpus: Iterable[Gpu], start: float, step: float, count: int
    ) -> Grid:
        """The values of the devices that exist now, on an even grid.

        A series of an earlier instance whose id was used again is not the present one's past.
        """
        profiles = {
            (gpu.cluster or "", gpu.uuid, instance.id): instance.profile
            for gpu in gpus
            for instance in gpu.mig
        }

        def points() -> Iterable[tuple[DeviceId, float, float]]:
            for series in answer.series:
                device = self._device(series.metric)
                profile = self._rules.get(series.metric, "profile")
                if device is None or profile not in (None, profiles.get(device, profile)):
                    continue
                family = self._names.family_of.get(series.metric.get("__name__", ""))
                for at, raw in series.values:
                    value = raw if family is None else reading(family, raw)
                    if not isinstance(value, str):
                        # The server's 100 * 0.55 is 55.00000000000001.
                        yield device, at, round(value, 4)

        return grid_of(points(), start=start, step=step, count=count)

    def _device(self, labels: Mapping[str, str]) -> DeviceId | None:
        key = self._rules.device_key(labels)
        if key is None:
            return None
        mig_id = self._rules.mig_id(labels)
        return (*key, WHOLE if mig_id is None else mig_id)


def _without_uuid(gpus: Iterable[Gpu]) -> bool:
    """Whether some cards are known by their place only."""
    return any("#" in gpu.uuid for gpu in gpus)


def _skew(now: float, asked_at: float, answered_at: float) -> float:
    """How far this machine's clock is ahead of the server's, at least.

    A server that takes its time evaluates at any moment between question and answer.
    """
    return max(0.0, asked_at - now) + min(0.0, answered_at - now)


def _evaluated_at(answers: Iterable[VectorAnswer], local_now: float) -> float:
    """The server's time: ages are differences on its clock, a laptop's may be wrong."""
    times = [a.evaluated_at or a.server_date for a in answers]
    return max((t for t in times if t is not None), default=local_now)


def _interval(answer: VectorAnswer) -> float | None:
    """The median scrape interval, from the number of samples that a series has in a while."""
    for series in answer.series:
        if INTERVAL_MARK in series.metric and series.value > 0:
            interval = INTERVAL_SECONDS / series.value
            return round(interval, 1) if interval <= _LONGEST_INTERVAL_SECONDS else None
    return None


def _presence(answer: VectorAnswer) -> Iterable[Sample]:
    for series in answer.series:
        yield Sample(PRESENCE, series.metric, series.value, at=series.value)


def _named(answer: VectorAnswer) -> Iterable[Sample]:
    for series in answer.series:
        name = series.metric.get("__name__")
        if name is not None:
            yield Sample(name, series.metric, series.value)


def _skew_warning(skew_seconds: float) -> list[str]:
    if abs(skew_seconds) < _SKEW_WORTH_A_WARNING_SECONDS:
        return []
    side = "ahead of" if skew_seconds > 0 else "behind"
    return [
        f"this machine's clock is {format_duration(abs(skew_seconds))} {side} the server's; "
        "ages are counted on the server's clock"
    ]

"""Queries to Prometheus and to what speaks its API: Thanos, Mimir, VictoriaMetrics."""

from __future__ import annotations

import logging
import math
import random as random_module
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from threading import Event
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from msgspec import DecodeError

from gpuctl.clients import faults
from gpuctl.clients import prometheus_wire as wire
from gpuctl.clients.concurrently import map_concurrently
from gpuctl.clients.connection import Address, TlsSettings, address
from gpuctl.clients.credentials import Credentials
from gpuctl.clients.http import Answer, HttpSession, Limits, Request, Retry
from gpuctl.clients.prometheus_errors import Explainer, depends_on_method
from gpuctl.clients.prometheus_wire import (
    BuildInfo,
    MatrixAnswer,
    MatrixSeries,
    VectorAnswer,
    VectorSeries,
)
from gpuctl.clock import Clock, Deadline, SystemClock
from gpuctl.errors import ConfigError
from gpuctl.model.settings import PrometheusSettings

__all__ = [
    "BuildInfo",
    "MatrixAnswer",
    "MatrixSeries",
    "PrometheusClient",
    "VectorAnswer",
    "VectorSeries",
]

log = logging.getLogger(__name__)

Key = TypeVar("Key", bound=Hashable)
Params = Sequence[tuple[str, str]]

# The server's own limit for one range query; more is HTTP 400.
MOST_POINTS = 11_000
# A quarter of the server's default of 20, which all its users share.
MOST_AT_ONCE = 6
_FORM = (b"content-type", b"application/x-www-form-urlencoded")
_ACCEPT = (b"accept", b"application/json")


class PrometheusClient:
    """One Prometheus-compatible API. Safe to share between threads; a context manager.

    Every method raises BackendError when the API is out of reach, denies access or answers
    nonsense, TimeoutReached when the deadline has passed, and ConfigError when a secret or a
    certificate can't be read. No text of an error or of the log holds a secret.
    """

    def __init__(
        self,
        settings: PrometheusSettings,
        *,
        request_timeout: timedelta | float,
        environ: Mapping[str, str],
        deadline: Deadline | None = None,
        on_retry: Callable[[Retry], None] | None = None,
        clock: Clock | None = None,
        sleep: Callable[[float], None] | None = None,
        random: Callable[[], float] = random_module.random,
    ) -> None:
        """Open nothing yet. `request_timeout` is for one call, `deadline` for the command."""
        if not settings.url:
            raise ConfigError(
                "no Prometheus is configured",
                hint="give --prometheus-url, or set prometheus.url in the configuration",
            )
        self._base = address(settings.url, setting="the URL of Prometheus")
        self._credentials = Credentials(settings, environ, user_info=self._base.user_info)
        for part in self._base.query.split("&"):
            self._credentials.remember(part.partition("=")[2])
        self._explain = Explainer(self._base.shown, self._credentials)
        self._session = HttpSession(
            Limits(
                request_timeout,
                deadline,
                most_connections=MOST_AT_ONCE,
                sleep=sleep,
                random=random,
                clock=clock or SystemClock(),
            ),
            environ=environ,
            tls=TlsSettings(
                settings.ca_file,
                settings.client_cert,
                settings.client_key,
                settings.insecure_skip_verify,
            ),
            hints=faults.TlsHints(
                trust="set prometheus.ca_file to the file of the CA that signed it",
                client="set prometheus.client_cert and prometheus.client_key to ones it accepts",
            ),
            on_retry=on_retry,
        )
        self._is_get_only = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"PrometheusClient({self._base.shown})"

    @property
    def shown_url(self) -> str:
        """The address for people: without user, password and query."""
        return self._base.shown

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def instant(self, query: str, **params: str) -> VectorAnswer:
        """The value of an expression now, by the server's clock unless `time` is given."""
        return self._instant(query, params, None)

    def instant_many(self, queries: Mapping[Key, str], **params: str) -> dict[Key, VectorAnswer]:
        """Several instant queries at once, at most six in flight.

        The first failure is raised once those in flight have ended; the rest is not sent.
        """
        answers = map_concurrently(
            lambda query, cancelled: self._instant(query, params, cancelled),
            list(queries.values()),
            most_at_once=MOST_AT_ONCE,
        )
        return dict(zip(queries, answers, strict=True))

    def range(
        self, query: str, start: float, end: float, step: float, **params: str
    ) -> MatrixAnswer:
        """The values from `start` to `end` (unix seconds, both included), every `step` seconds.

        Asked in pieces when the server would refuse that many points at once.
        """
        if step <= 0 or end < start:
            raise ValueError(f"no times between {start} and {end} by {step}")
        points = math.floor((end - start) / step + 1e-9) + 1
        pieces = []
        for first in range(0, points, MOST_POINTS):
            last = min(first + MOST_POINTS, points) - 1
            form = {
                "query": query,
                "start": _seconds(start + first * step),
                "end": _seconds(start + last * step),
                "step": _seconds(step),
                **params,
            }
            pieces.append(self._range_piece(list(form.items())))
        return wire.joined(pieces)

    def buildinfo(self) -> BuildInfo | None:
        """Name and version of the server, None where it does not tell (managed services)."""
        answer = self._get("/api/v1/status/buildinfo")
        if answer.status in (400, 404, 405, 501):
            return None
        return self._decoded(answer, BuildInfo)

    def label_values(self, label: str, match: Sequence[str] | str | None = None) -> list[str]:
        """The values a label has, of series that match any of the selectors, or of all."""
        selectors = [match] if isinstance(match, str) else list(match or ())
        path = f"/api/v1/label/{quote(label, safe='')}/values"
        return self._decoded(self._get(path, [("match[]", s) for s in selectors]), list[str])

    def series_names(self, match: Sequence[str] | str | None = None) -> list[str]:
        """The names of all metrics: what is there when a query found nothing."""
        return self.label_values("__name__", match)

    def _instant(
        self, query: str, params: Mapping[str, str], cancelled: Event | None
    ) -> VectorAnswer:
        form = [("query", query), *params.items()]
        answer, wrapped = self._ask("/api/v1/query", form, cancelled)
        return self._read(answer, lambda a: wire.vector_answer(wrapped, a.date))

    def _range_piece(self, form: Params) -> MatrixAnswer:
        answer, wrapped = self._ask("/api/v1/query_range", form)
        return self._read(answer, lambda a: wire.matrix_answer(wrapped, a.date))

    def _ask(
        self, path: str, form: Params, cancelled: Event | None = None
    ) -> tuple[Answer, wire.Envelope]:
        """Send a query by POST; by GET where a proxy lets nothing else through."""
        if self._is_get_only:
            answer = self._get(path, form, cancelled)
        else:
            answer = self._send("POST", path, form, cancelled)
            if depends_on_method(answer):
                by_get = self._get(path, form, cancelled)
                if not depends_on_method(by_get):
                    log.info("POST is refused, using GET address=%s", self._base.shown)
                    self._is_get_only = True
                answer = by_get
        return answer, self._unwrapped(answer)

    def _get(self, path: str, params: Params = (), cancelled: Event | None = None) -> Answer:
        return self._send("GET", path, params, cancelled)

    def _send(self, method: str, path: str, params: Params, cancelled: Event | None) -> Answer:
        """One request; a redirect is followed only from http to https on the same host."""
        answer = self._session.send(self._request(method, path, params), cancelled)
        secure = _secure_twin(self._base, path, answer)
        if secure is not None:
            log.info("redirected to https address=%s", secure.shown)
            self._base, self._explain = secure, replace(self._explain, shown=secure.shown)
            answer = self._session.send(self._request(method, path, params), cancelled)
        return answer

    def _request(self, method: str, path: str, params: Params) -> Request:
        headers = (_ACCEPT, *self._credentials.headers())
        form = urlencode(list(params))
        shown = self._base.shown
        if method == "POST":
            url = self._base.url(path)
            return Request(method, url, shown, (_FORM, *headers), form.encode())
        return Request(method, self._base.url(path, form), shown, headers)

    def _unwrapped(self, answer: Answer) -> wire.Envelope:
        """The envelope of a good answer; anything else raises."""
        if answer.status != 200:
            raise self._explain.status_error(answer)
        if answer.is_html:
            raise self._explain.body_error(answer)
        wrapped = self._read(answer, lambda a: wire.envelope(a.body))
        if wrapped.status != "success":
            raise self._explain.api_error(answer, wrapped)
        return wrapped

    def _decoded(self, answer: Answer, shape: type[Result]) -> Result:
        wrapped = self._unwrapped(answer)
        result: Result = self._read(answer, lambda _: wire.decoded(wrapped.data, shape))
        return result

    def _read(self, answer: Answer, decode: Callable[[Answer], Result]) -> Result:
        try:
            return decode(answer)
        except (DecodeError, UnicodeDecodeError) as exc:
            error = exc if isinstance(exc, DecodeError) else None
            # The decoder's own text may quote the body, and the body may echo what was sent.
            raise self._explain.body_error(answer, error) from None


Result = TypeVar("Result")


def _seconds(value: float) -> str:
    """A time or a step as the API takes it; the server counts in milliseconds."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def _secure_twin(base: Address, path: str, answer: Answer) -> Address | None:
    """The same address by https, when that is all that a redirect asks for."""
    if answer.status not in (301, 302, 307, 308) or base.scheme != "http":
        return None
    try:
        parts = urlsplit(answer.headers.get("location", ""))
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    is_same_place = host == base.host and parts.path == base.path.rstrip("/") + path
    if parts.scheme != "https" or not is_same_place:
        return None
    return Address("https", base.host, port, base.path, base.query, base.user_info)

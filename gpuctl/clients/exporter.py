"""Scrape exporters and Pushgateways directly: for the night when Prometheus is down."""

from __future__ import annotations

import logging
import random as random_module
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from threading import Event

from gpuctl.clients import exposition, faults
from gpuctl.clients.concurrently import map_concurrently
from gpuctl.clients.connection import Address, TlsSettings
from gpuctl.clients.credentials import Credentials
from gpuctl.clients.http import Answer, HttpSession, Limits, Request, Retry
from gpuctl.clients.targets import DEFAULT_PORT, expand_targets, target_address
from gpuctl.clock import Clock, Deadline, SystemClock
from gpuctl.errors import BackendError, GpuctlError
from gpuctl.model.sample import Sample
from gpuctl.model.settings import PrometheusSettings

__all__ = ["DEFAULT_PORT", "Scrape", "expand_targets", "scrape"]

log = logging.getLogger(__name__)

_MOST_BYTES = 64 << 20
# The format of Prometheus: OpenMetrics counts its times in other units.
_ACCEPT = (b"accept", b"text/plain;version=0.0.4;q=1,*/*;q=0.1")


@dataclass(frozen=True, slots=True)
class Scrape:
    """What one exporter said. `target` is for people: no user, no query.

    `scraped_at` is this machine's unix time when the answer was complete. When there is an
    `error`, there are no samples: a part of a page is never taken for the page.
    """

    target: str
    url: str
    samples: list[Sample]
    scraped_at: float
    error: GpuctlError | None = None


def scrape(
    targets: Sequence[str],
    *,
    request_timeout: timedelta | float,
    environ: Mapping[str, str],
    deadline: Deadline | None = None,
    most_at_once: int = 32,
    default_port: int = DEFAULT_PORT,
    tls: TlsSettings | None = None,
    clock: Clock | None = None,
    on_retry: Callable[[Retry], None] | None = None,
    sleep: Callable[[float], None] | None = None,
    random: Callable[[], float] = random_module.random,
) -> list[Scrape]:
    """Ask every target at once; one result each, in their order.

    A target that fails carries its error and hides no other. Only what is wrong with all of them
    (an address that is none, a CA file that can't be read) is raised.
    """
    limits = Limits(
        request_timeout,
        deadline,
        most_retries=1,  # the caller wants the nodes that live, now
        most_bytes=_MOST_BYTES,
        most_connections=most_at_once,
        sleep=sleep,
        random=random,
        clock=clock or SystemClock(),
    )
    pages = [_Page(target, target_address(target, default_port)) for target in targets]
    hints = faults.TlsHints(
        trust="set SSL_CERT_FILE to the file of the CA that signed it",
        client="this exporter can't be scraped directly: it wants a client certificate",
    )
    session = HttpSession(limits, environ=environ, tls=tls, hints=hints, on_retry=on_retry)
    try:
        return map_concurrently(
            lambda page, cancelled: _scrape_one(session, page, environ, cancelled),
            pages,
            most_at_once=most_at_once,
        )
    finally:
        session.close()


@dataclass(frozen=True, slots=True)
class _Page:
    written: str
    address: Address

    @property
    def target(self) -> str:
        """As the user wrote it, unless that holds what must not be shown."""
        has_more = "://" in self.written or "@" in self.written or "?" in self.written
        return self.address.shown if has_more else self.written.strip()


def _scrape_one(
    session: HttpSession, page: _Page, environ: Mapping[str, str], cancelled: Event
) -> Scrape:
    shown = page.address.shown
    credentials = Credentials(
        PrometheusSettings(), environ, user_info=page.address.user_info, section="exporters"
    )
    samples: list[Sample] = []
    error: GpuctlError | None = None
    try:
        headers = (_ACCEPT, *credentials.headers())
        answer = session.send(Request("GET", page.address.url(), shown, headers), cancelled)
        samples = _samples(answer, shown, credentials)
    except GpuctlError as failure:
        log.info("scrape failed address=%s error=%s", shown, failure)
        error = failure
    return Scrape(page.target, shown, samples, session.now().timestamp(), error)


def _samples(answer: Answer, shown: str, credentials: Credentials) -> list[Sample]:
    """All samples of a good page; BackendError for every other answer."""
    if answer.status != 200:
        raise _status_error(answer, shown, credentials)
    body = answer.body
    if answer.is_html or body[:1] == b"<" or "json" in answer.content_type:
        kind = "JSON" if "json" in answer.content_type else "a web page"
        raise _not_an_exporter(shown, f"it answers with {kind}")
    if not body.strip():
        raise BackendError(
            f"the page of {shown} is empty",
            cause="the exporter runs, but has nothing to tell",
            hint="look at the exporter's log; does nvidia-smi see the cards?",
        )
    is_open_metrics = answer.content_type == "application/openmetrics-text"
    if not body.endswith(b"\n") or (is_open_metrics and not body.endswith(b"# EOF\n")):
        raise faults.cut_off_error(shown, "its last line has no end")
    try:
        return list(exposition.parse(body.decode()))
    except UnicodeDecodeError as exc:
        raise _not_an_exporter(shown, f"byte {exc.start} is not UTF-8") from None
    except exposition.NotExpositionError as exc:
        line = faults.shortened(credentials.scrub(exc.text), 80)
        raise _not_an_exporter(shown, f"line {exc.line} is no sample: {line}") from None


def _not_an_exporter(shown: str, cause: str) -> BackendError:
    return BackendError(
        f"{shown} does not answer like an exporter",
        cause=cause,
        hint=f"check host, port and path: dcgm-exporter listens on port {DEFAULT_PORT}, /metrics",
    )


def _status_error(answer: Answer, shown: str, credentials: Credentials) -> BackendError:
    """What a status other than 200 means for an exporter."""
    status = answer.status
    if status == 404:
        return _not_an_exporter(shown, "HTTP 404: there is no such page")
    if status in (401, 403):
        return BackendError(
            f"{shown} denies access (HTTP {status})",
            cause=f"sent: {credentials.description}",
            hint="give https://user:password@host:port/metrics in a file: --exporter @FILE",
        )
    if 300 <= status < 400:
        return BackendError(
            f"{shown} redirects to another page (HTTP {status})",
            cause="gpuctl does not follow it: the metrics of another host would be a lie",
            hint="give the address that it redirects to",
        )
    text = credentials.scrub(answer.body[:2000].decode(errors="replace"))
    says = "a web page" if answer.is_html else faults.shortened(text, 160) or "nothing more"
    return BackendError(
        f"{shown} answered HTTP {status}",
        cause=f"it says: {says}" + (f" ({answer.gave_up})" if answer.gave_up else ""),
        hint="look at the exporter's log; a card that fell off the bus makes it fail (XID 79)",
    )

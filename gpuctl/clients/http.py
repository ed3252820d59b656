"""One HTTP session for all metrics: time limits, retries, compression, sizes, and no secrets."""

from __future__ import annotations

import logging
import random as random_module
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, NoReturn

from gpuctl import __version__
from gpuctl.clients import faults
from gpuctl.clients.connection import Address, TlsSettings, address, proxy_for
from gpuctl.clock import Clock, Deadline, SystemClock, seconds
from gpuctl.errors import BackendError, ConfigError, TimeoutReached

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)

USER_AGENT = f"gpuctl/{__version__}"
_BUSY_STATUSES = frozenset({429, 502, 503, 504})
_MOST_RETRIES = 2
# Longer than this nobody waits at 3 am, even without a --timeout.
_LONGEST_WAIT = 60.0
_CHUNK = 65536


@dataclass(frozen=True, slots=True)
class Retry:
    """A request is about to be repeated."""

    address: str
    reason: str
    attempt: int
    wait_seconds: float


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how often to try; how much to read.

    `sleep` (seconds) and `random` (0..1) are arguments so that nobody has to wait for a test.
    """

    request_timeout: timedelta | float = 10.0
    deadline: Deadline | None = None
    most_retries: int = _MOST_RETRIES
    most_bytes: int = 256 << 20
    most_connections: int = 6
    sleep: Callable[[float], None] | None = None
    random: Callable[[], float] = random_module.random
    clock: Clock = field(default_factory=SystemClock)


@dataclass(frozen=True, slots=True)
class Request:
    """What to send. `shown` is the address in messages; `headers` are already checked bytes."""

    method: str
    url: str
    shown: str
    headers: tuple[tuple[bytes, bytes], ...] = field(default=(), repr=False)
    form: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer, whatever its status."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    attempts: int = 1
    gave_up: str | None = None

    @property
    def content_type(self) -> str:
        """Such as `text/html`, in lower case, without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def is_html(self) -> bool:
        """Whether it is a page for people."""
        return "html" in self.content_type or self.body[:200].lstrip().lower().startswith(
            (b"<!doctype html", b"<html")
        )

    @property
    def date(self) -> float | None:
        """The server's clock (unix seconds, whole ones), if it told."""
        return _http_date(self.headers.get("date", ""))


class _TransientError(Exception):
    """A failure of the connection that another try may cure."""

    def __init__(self, error: BackendError) -> None:
        super().__init__(str(error))
        self.error = error


class HttpSession:
    """Sends requests over pooled connections; safe to share between threads."""

    def __init__(
        self,
        limits: Limits,
        *,
        environ: Mapping[str, str],
        tls: TlsSettings | None = None,
        hints: faults.TlsHints | None = None,
        on_retry: Callable[[Retry], None] | None = None,
    ) -> None:
        self.limits = limits
        self._request_timeout = seconds(limits.request_timeout)
        self._environ = environ
        self._tls = tls or TlsSettings()
        self._hints = hints or faults.TlsHints()
        self._on_retry = on_retry
        self._clients: dict[tuple[str, str | None], httpx.Client] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close every connection."""
        with self._lock:
            for client in self._clients.values():
                client.close()
            self._clients.clear()

    def send(self, request: Request, cancelled: threading.Event | None = None) -> Answer:
        """The answer, after at most two more tries when the server is busy or the line breaks.

        A last 429, 502, 503 or 504 is returned, with why it was not tried again; what it means is
        for the caller to say. Raises BackendError, ConfigError, and TimeoutReached when the time
        of the whole command is used up.
        """
        attempt = 1
        while True:
            try:
                answer = self._once(request, attempt)
            except _TransientError as failure:
                gave_up = self._wait(request, str(failure), attempt, None, cancelled)
                if gave_up is not None:
                    raise failure.error from failure.error.__cause__
            else:
                if answer.status not in _BUSY_STATUSES:
                    return answer
                gave_up = self._wait(
                    request, f"HTTP {answer.status}", attempt, _retry_after(answer, self), cancelled
                )
                if gave_up is not None:
                    return Answer(answer.status, answer.headers, answer.body, attempt, gave_up)
            attempt += 1

    def now(self) -> datetime:
        """The time of this machine."""
        return self.limits.clock.now()

    def _wait(
        self,
        request: Request,
        reason: str,
        attempt: int,
        asked: float | None,
        cancelled: threading.Event | None,
    ) -> str | None:
        """Wait before the next try; or say why there is none."""
        if attempt > self.limits.most_retries:
            return f"tried {attempt} times"
        pause = 0.25 * 2**attempt * (0.5 + self.limits.random() / 2) if asked is None else asked
        deadline = self.limits.deadline
        if deadline is not None and pause >= deadline.remaining():
            left = deadline.remaining()
            return (
                f"the next try would be in {pause:.3g}s, but only {left:.3g}s of --timeout are left"
            )
        if pause > _LONGEST_WAIT:
            return f"it asks to wait {pause:.0f}s, longer than gpuctl waits ({_LONGEST_WAIT:.0f}s)"
        if cancelled is not None and cancelled.is_set():
            return "another request failed first"
        log.info("retry address=%s reason=%s wait=%.2fs", request.shown, reason, pause)
        if self._on_retry is not None:
            self._on_retry(Retry(request.shown, reason, attempt, pause))
        if self.limits.sleep is not None:
            self.limits.sleep(pause)
        elif (cancelled or threading.Event()).wait(pause):
            return "another request failed first"
        return None

    def _once(self, request: Request, attempt: int) -> Answer:
        """One exchange, translated at the border."""
        import httpx

        clock, deadline = self.limits.clock, self.limits.deadline
        budget = self._request_timeout
        is_last_chance = deadline is not None and deadline.remaining() <= budget
        if deadline is not None and is_last_chance:
            budget = deadline.remaining()
        if budget <= 0:
            self._timed_out(request, is_last_chance=is_last_chance)
        ends = clock.monotonic() + budget
        try:
            client = self._client(request.url)
            with client.stream(
                request.method,
                request.url,
                headers=list(request.headers),
                content=request.form,
                timeout=budget,
            ) as response:
                body = self._body(request, response, ends)
        except (httpx.InvalidURL, UnicodeError):
            # Such as a name in the host that is too long, or a URL beyond 64 KiB.
            raise ConfigError(
                f"{request.shown} is not an address that can be asked",
                cause="its host can't be looked up, or the query is too long for a URL",
                hint="check the URL; allow POST in the proxy if there is one",
            ) from None
        except (httpx.TimeoutException, _TooSlowError) as exc:
            self._timed_out(request, is_last_chance=is_last_chance, exc=exc)
        except httpx.ProxyError as exc:
            raise faults.proxy_error(request.shown, exc) from exc
        except httpx.ConnectError as exc:
            _failed(exc, faults.connection_error(request.shown, exc, self._hints))
        except httpx.TransportError as exc:
            _failed(exc, faults.dropped_error(request.shown, exc, self._hints))
        except zlib.error as exc:
            raise faults.garbled_error(request.shown) from exc
        taken = clock.monotonic() - ends + budget
        log.debug(
            "answer method=%s address=%s status=%d bytes=%d seconds=%.3f",
            request.method,
            request.shown,
            response.status_code,
            len(body),
            taken,
        )
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status_code, headers, body, attempt)

    def _timed_out(
        self, request: Request, *, is_last_chance: bool, exc: Exception | None = None
    ) -> NoReturn:
        if is_last_chance:
            raise TimeoutReached(
                f"the time for the whole command ran out while waiting for {request.shown}",
                cause=f"{request.shown} had not answered when --timeout was reached",
                hint="raise --timeout, or look why the service is slow",
            ) from exc
        raise BackendError(
            f"{request.shown} did not answer within {self._request_timeout:g}s",
            cause="the request timeout of one call was reached",
            hint="raise --request-timeout; if it is never enough, the service hangs or a firewall "
            "drops the packets",
        ) from exc

    def _body(self, request: Request, response: httpx.Response, ends: float) -> bytes:
        """The whole body, unpacked; what is too big, too slow or cut off raises."""
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity", "gzip", "x-gzip"):
            raise BackendError(
                f"{request.shown} answers in an encoding that was not asked for",
                cause=f"Content-Encoding: {faults.shortened(encoding, 40)}",
                hint="a proxy in between is broken",
            )
        raw = self._in_time(response, ends)
        parts: list[bytes] = []
        size = 0
        for part in _unpacked(raw, request.shown) if "gzip" in encoding else raw:
            size += len(part)
            if size > self.limits.most_bytes:
                raise BackendError(
                    f"the answer of {request.shown} is larger than "
                    f"{self.limits.most_bytes >> 20} MiB",
                    cause="gpuctl stops reading there, to spare this machine's memory",
                    hint="check that the URL is right; ask for fewer series with a selector",
                )
            parts.append(part)
        return b"".join(parts)

    def _in_time(self, response: httpx.Response, ends: float) -> Iterator[bytes]:
        """The raw chunks; httpx limits only the pause between two of them, this all together."""
        for chunk in response.iter_raw(_CHUNK):
            if self.limits.clock.monotonic() > ends:
                raise _TooSlowError
            yield chunk

    def _client(self, url: str) -> httpx.Client:
        """The pool for a URL's scheme and proxy; built when first needed."""
        target = address(url, setting="the URL")
        proxy = proxy_for(target, self._environ)
        key = (target.scheme, proxy)
        with self._lock:
            if key not in self._clients:
                self._clients[key] = self._new_client(target, proxy)
            return self._clients[key]

    def _new_client(self, target: Address, proxy: str | None) -> httpx.Client:
        import httpx

        # They log URLs and headers on their own; ours say the same without secrets.
        for name in ("httpx", "httpcore"):
            logging.getLogger(name).setLevel(logging.WARNING)
        if target.scheme == "https" and self._tls.insecure_skip_verify:
            log.warning("TLS certificates are NOT checked host=%s", target.host)
        needs_tls = target.scheme == "https" or (proxy or "").startswith("https")
        most = self.limits.most_connections
        try:
            return httpx.Client(
                verify=self._tls.context() if needs_tls else False,
                proxy=proxy,
                trust_env=False,
                limits=httpx.Limits(max_connections=most, max_keepalive_connections=most),
                headers={"user-agent": USER_AGENT, "accept-encoding": "gzip"},
            )
        except (ImportError, ValueError, httpx.InvalidURL):
            # The exception's text holds the proxy's address, perhaps with a password.
            raise ConfigError(
                f"the proxy that the environment names for {target.host} can't be used",
                cause="it is not the URL of an HTTP proxy",
                hint=f"correct {target.scheme.upper()}_PROXY or ALL_PROXY, or add the host to "
                "NO_PROXY",
            ) from None


def _failed(exc: Exception, error: BackendError) -> NoReturn:
    """Raise what another try can't cure as it is, the rest as transient."""
    error.__cause__ = exc
    if faults.is_lasting(exc):
        raise error
    raise _TransientError(error) from exc


class _TooSlowError(Exception):
    """The answer drips in, and its time is over."""


def _unpacked(raw: Iterator[bytes], shown: str) -> Iterator[bytes]:
    """Gunzip in bounded steps; unlike the usual decoders, notice when the end is missing."""
    unpack = zlib.decompressobj(wbits=31)
    has_data = False
    for chunk in raw:
        rest = chunk
        while rest:
            if unpack.eof:  # another gzip member may follow
                unpack = zlib.decompressobj(wbits=31)
            has_data = True
            yield unpack.decompress(rest, 16 * _CHUNK)
            rest = unpack.unused_data or unpack.unconsumed_tail
    if has_data and not unpack.eof:
        error = faults.cut_off_error(shown, "the compressed data ends in the middle")
        raise _TransientError(error)


def _retry_after(answer: Answer, session: HttpSession) -> float | None:
    """Seconds that the server asks to wait; a date is compared with the server's own clock."""
    text = answer.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    until = _http_date(text)
    if until is None:
        return None
    now = answer.date
    return max(0.0, until - (session.now().timestamp() if now is None else now))


def _http_date(text: str) -> float | None:
    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()

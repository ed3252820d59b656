"""Requests to one API server over the library's own connections: limits, retries, one new login.

Retries, pauses and time limits are those of every other client (`gpuctl.clients.http`); the
connections, with certificates and proxies, are made by the official library from the kubeconfig.
"""

from __future__ import annotations

import json
import logging
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn
from urllib.parse import quote, urlencode

from gpuctl.clients import faults
from gpuctl.clients.http import (
    USER_AGENT,
    Answer,
    HttpSession,
    Limits,
    Request,
    Retry,
    _TooSlowError,
    _TransientError,
)
from gpuctl.clients.kubernetes.login import Login
from gpuctl.clients.kubernetes.problems import Access, AnswerLostError, refusal
from gpuctl.errors import BackendError, ConfigError, TimeoutReached

log = logging.getLogger(__name__)

Method = Literal["GET", "POST", "PUT", "PATCH"]

_CHUNK = 65536
_HINTS = faults.TlsHints(
    trust="set certificate-authority of the cluster in the kubeconfig to the CA that signed it",
    client="set client-certificate and client-key of the user in the kubeconfig",
)
_JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `path` has quoted parts already; `body` is sent as JSON.

    Only a GET is repeated when it fails, unless `is_harmless` says the same of another one.
    """

    method: Method
    path: str
    access: Access
    query: tuple[tuple[str, str], ...] = ()
    body: Any = field(default=None, repr=False)
    content_type: str = _JSON
    accept: str = _JSON
    is_harmless: bool = False

    @property
    def may_repeat(self) -> bool:
        """Whether sending it twice is the same as sending it once."""
        return self.method == "GET" or self.is_harmless


def path_of(*parts: str) -> str:
    """A path of which every part is quoted."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


class ApiSession(HttpSession):
    """One API server. Safe to share between threads."""

    def __init__(
        self,
        log_in: Callable[[], Login],
        limits: Limits,
        *,
        on_retry: Callable[[Retry], None] | None = None,
    ) -> None:
        """Open nothing and read no kubeconfig yet: the first call logs in."""
        super().__init__(limits, environ={}, hints=_HINTS, on_retry=on_retry)
        self._log_in = log_in
        self._login: Login | None = None
        self._pool: Any = None
        self._login_lock = threading.Lock()

    # -- what callers use ------------------------------------------------------------------------

    @property
    def login(self) -> Login:
        """Who we are; the first use logs in. Raises ConfigError and BackendError."""
        return self._connected()[0]

    @property
    def server(self) -> str:
        """The server for messages."""
        return f"the Kubernetes API at {self.login.server}"

    def close(self) -> None:
        """Close every connection."""
        with self._login_lock:
            if self._pool is not None:
                self._pool.clear()
            self._pool = None
            self._login = None

    def ask(self, call: Call) -> Answer:
        """The answer, whatever its status; after a 401 once more with credentials loaded anew.

        Raises BackendError and TimeoutReached; for a write whose answer was lost AnswerLostError.
        """
        login = self.login
        answer = self._ask_as(call, login)
        if answer.status != 401:
            return answer
        log.info("the credentials were refused, loading them anew server=%s", login.server)
        return self._ask_as(call, self._renewed(login))

    def expect(self, call: Call) -> Answer:
        """The answer of a call that has to succeed; else the ApiRefusedError that it stands for."""
        answer = self.ask(call)
        if 200 <= answer.status < 300:
            return answer
        raise self.refused(answer, call)

    def refused(self, answer: Answer, call: Call) -> BackendError:
        """What an answer that is no success stands for."""
        return refusal(answer, call.access, self.server, self.login.who)

    @property
    def request_timeout_seconds(self) -> float:
        """How long one call may take."""
        return self._request_timeout

    def pause(self, reason: str, attempt: int) -> None:
        """Wait before another try, longer each time. Raises TimeoutReached when there is none."""
        request = Request("GET", "", f"the Kubernetes API at {self.login.server}")
        gave_up = self._wait(request, reason, min(attempt, self.limits.most_retries), None, None)
        if gave_up is not None:
            raise TimeoutReached(
                f"the time ran out while waiting for {request.shown}",
                cause=f"{reason}; {gave_up}",
                hint="raise --timeout",
            )

    def lines(self, call: Call, *, quiet_seconds: float) -> Iterator[bytes]:
        """The lines of an answer that comes bit by bit, until the server ends it.

        A pause of more than `quiet_seconds` ends it as a failure. Raises like `expect`.
        """
        login, pool = self._connected()
        for is_second_try in (False, True):
            try:
                yield from self._lines_as(call, login, pool, quiet_seconds)
            except _UnauthorizedError as refused:
                if is_second_try:
                    raise self.refused(refused.answer, call) from None
                self._renewed(login)
                login, pool = self._connected()
            else:
                return

    # -- how ---------------------------------------------------------------------------------------

    def _lines_as(
        self, call: Call, login: Login, pool: Any, quiet_seconds: float
    ) -> Iterator[bytes]:
        request = self._request(call, login)
        with _translated(request, _Progress()):
            response = _open(pool, request, timeout_seconds=quiet_seconds)
            try:
                if response.status >= 300:
                    answer = _answer(response, response.read(_CHUNK, decode_content=True), 1)
                    if answer.status == 401:
                        raise _UnauthorizedError(answer)
                    raise self.refused(answer, call)
                yield from _lines(response.stream(_CHUNK, decode_content=True))
            finally:
                response.close()

    def _connected(self) -> tuple[Login, Any]:
        with self._login_lock:
            if self._login is None:
                self._take(self._log_in())
            assert self._login is not None  # noqa: S101 - just taken
            return self._login, self._pool

    def _renewed(self, refused: Login) -> Login:
        """A new login, unless another thread has logged in again meanwhile."""
        with self._login_lock:
            if self._login is refused:
                self._take(self._log_in())
            assert self._login is not None  # noqa: S101 - only close() clears it
            return self._login

    def _take(self, login: Login) -> None:
        from kubernetes.client.rest import RESTClientObject

        # They tell URLs and bodies on their own; ours say the same without secrets.
        for name in ("urllib3", "kubernetes"):
            logging.getLogger(name).setLevel(logging.ERROR)
        if not login.configuration.verify_ssl and login.server.startswith("https"):
            log.warning("TLS certificates are NOT checked server=%s", login.server)
            _silence_the_same_warning()
        login.configuration.connection_pool_maxsize = self.limits.most_connections
        try:
            pool = RESTClientObject(login.configuration).pool_manager
        except (ValueError, OSError, ImportError):
            # The text holds the proxy's address, perhaps with a password.
            raise ConfigError(
                f"can't prepare a connection to {login.server}",
                cause="the proxy or a certificate file of the kubeconfig can't be used",
                hint="check proxy-url, certificate-authority and client-certificate",
            ) from None
        if self._pool is not None:
            self._pool.clear()
        self._login, self._pool = login, pool

    def _ask_as(self, call: Call, login: Login) -> Answer:
        request = self._request(call, login)
        if call.may_repeat:
            return self.send(request)
        progress = _Progress()
        try:
            return self._exchange(request, 1, progress)
        except (_TransientError, BackendError, TimeoutReached) as exc:
            error = exc.error if isinstance(exc, _TransientError) else exc
            if progress.may_have_arrived:
                raise AnswerLostError(
                    f"it is not known whether {call.access} happened",
                    cause=f"{error.what}: {error.cause}",
                    hint="look at the object itself before doing it again",
                ) from exc
            if error is exc:
                raise
            raise error from exc

    def _once(self, request: Request, attempt: int) -> Answer:
        return self._exchange(request, attempt, _Progress())

    def _exchange(self, request: Request, attempt: int, progress: _Progress) -> Answer:
        """One exchange, with every failure in our own words."""
        clock, deadline = self.limits.clock, self.limits.deadline
        budget = self._request_timeout
        is_last_chance = deadline is not None and deadline.remaining() <= budget
        if deadline is not None and is_last_chance:
            budget = deadline.remaining()
        if budget <= 0:
            self._timed_out(request, is_last_chance=is_last_chance)
        began = clock.monotonic()
        _, pool = self._connected()
        try:
            with _translated(request, progress):
                response = _open(pool, request, timeout_seconds=budget)
                try:
                    body = self._body(request, response, began + budget)
                except BaseException:
                    # Half an answer is left in it: nobody else may get this connection.
                    response.close()
                    raise
                response.release_conn()
        except (TimeoutError, _TooSlowError) as exc:
            self._timed_out(request, is_last_chance=is_last_chance, exc=exc)
        log.debug(
            "answer method=%s path=%s status=%d bytes=%d seconds=%.3f",
            request.method,
            request.url.partition("?")[0],
            response.status,
            len(body),
            clock.monotonic() - began,
        )
        return _answer(response, body, attempt)

    def _in_time(self, response: Any, ends: float) -> Iterator[bytes]:
        for chunk in response.stream(_CHUNK, decode_content=False):
            if self.limits.clock.monotonic() > ends:
                raise _TooSlowError
            yield chunk

    def _request(self, call: Call, login: Login) -> Request:
        query = f"?{urlencode(call.query)}" if call.query else ""
        headers = {"accept": call.accept, "accept-encoding": "gzip", "user-agent": USER_AGENT}
        if login.authorization is not None:
            headers["authorization"] = login.authorization
        body = None
        if call.body is not None:
            headers["content-type"] = call.content_type
            body = json.dumps(call.body).encode()
        return Request(
            call.method,
            str(login.configuration.host).rstrip("/") + call.path + query,
            f"the Kubernetes API at {login.server}",
            tuple((name.encode(), value.encode()) for name, value in headers.items()),
            body,
        )


def _silence_the_same_warning() -> None:
    """Ours was said once; urllib3 would say it for every request."""
    import urllib3

    urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)


class _UnauthorizedError(Exception):
    """The credentials of a stream were refused before it began."""

    def __init__(self, answer: Answer) -> None:
        super().__init__("401")
        self.answer = answer


@dataclass(slots=True)
class _Progress:
    """How far an exchange came: from the first byte sent on, the server may have acted on it."""

    may_have_arrived: bool = False


def _open(pool: Any, request: Request, *, timeout_seconds: float) -> Any:
    """The head of the answer; the body is read by the caller."""
    import urllib3

    return pool.request(
        request.method,
        request.url,
        body=request.form,
        headers={name.decode(): value.decode() for name, value in request.headers},
        timeout=urllib3.Timeout(connect=timeout_seconds, read=timeout_seconds),
        retries=False,
        redirect=False,
        preload_content=False,
        decode_content=False,
    )


@contextmanager
def _translated(request: Request, progress: _Progress) -> Iterator[None]:
    """Failures of the connection in our words; TimeoutError when the time was up."""
    from urllib3 import exceptions as ex

    try:
        progress.may_have_arrived = True
        yield
    except ex.NewConnectionError as exc:  # name resolution, too
        progress.may_have_arrived = False
        _failed(exc, faults.connection_error(request.shown, exc, _HINTS))
    except ex.ConnectTimeoutError as exc:
        progress.may_have_arrived = False
        raise TimeoutError from exc
    except ex.ReadTimeoutError as exc:
        raise TimeoutError from exc
    except ex.ProxyError as exc:
        progress.may_have_arrived = False
        raise faults.proxy_error(request.shown, exc) from exc
    except ex.SSLError as exc:
        progress.may_have_arrived = not faults.is_lasting(exc)
        _failed(exc, faults.connection_error(request.shown, exc, _HINTS))
    except (ex.IncompleteRead, ex.InvalidChunkLength) as exc:
        _failed(exc, faults.cut_off_error(request.shown, "the connection closed in the middle"))
    except ex.ProtocolError as exc:
        if any(isinstance(arg, ex.IncompleteRead | ex.InvalidChunkLength) for arg in exc.args):
            why = "the connection closed before the announced end"
            _failed(exc, faults.cut_off_error(request.shown, why))
        _failed(exc, faults.dropped_error(request.shown, exc, _HINTS))
    except (ex.LocationValueError, ex.DecodeError, zlib.error) as exc:
        raise faults.garbled_error(request.shown) from exc


def _failed(exc: Exception, error: BackendError) -> NoReturn:
    """Raise what another try can't cure as it is, the rest as transient."""
    error.__cause__ = exc
    if faults.is_lasting(exc):
        raise error
    raise _TransientError(error) from exc


def _answer(response: Any, body: bytes, attempt: int) -> Answer:
    headers: Mapping[str, str] = {k.lower(): v for k, v in response.headers.items()}
    return Answer(int(response.status), headers, body, attempt)


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Whole lines of a stream; what is behind the last line's end was cut off."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line for line in whole if line.strip())

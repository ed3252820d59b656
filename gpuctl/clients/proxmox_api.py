"""Calls to one Proxmox VE cluster over any of its endpoints: reads fail over, writes do not.

Every node answers for the whole cluster. A read goes to the next endpoint when one is out of
reach or gets no answer from the node it asks, and round again after a pause. A write moves on
only while it is certain that nothing was sent.
"""

from __future__ import annotations

import logging
import random as random_module
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import msgspec

from gpuctl.clients import faults
from gpuctl.clients.proxmox_errors import ELSEWHERE, Asked, ProxmoxError, Trouble
from gpuctl.clients.proxmox_session import (
    Endpoint,
    Envelope,
    Sessions,
    TokenSecret,
    endpoints_of,
)
from gpuctl.clock import Clock, Deadline, SystemClock, seconds
from gpuctl.errors import TimeoutReached
from gpuctl.model.settings import ProxmoxSettings

log = logging.getLogger(__name__)

Kind = TypeVar("Kind")
Values = Mapping[str, str | int]

#: Proxied calls take up to 30 s, and stopping a task blocks for 5.
REQUEST_SECONDS = 35.0
_MOST_ROUNDS = 2
_AGAIN = frozenset({Trouble.UNREACHABLE, Trouble.DROPPED, Trouble.GATEWAY, Trouble.CUT_OFF})
_PAUSE_SECONDS = 0.5
_NOTHING: Values = {}


class ProxmoxApi:
    """Sends requests and decodes answers; safe to share between threads, a context manager."""

    def __init__(
        self,
        settings: ProxmoxSettings,
        *,
        environ: Mapping[str, str],
        request_timeout: timedelta | float = REQUEST_SECONDS,
        deadline: Deadline | None = None,
        clock: Clock | None = None,
        sleep: Callable[[float], None] | None = None,
        random: Callable[[], float] = random_module.random,
    ) -> None:
        """Open nothing yet; raise ConfigError for settings that can't work."""
        self._endpoints = endpoints_of(settings)
        self._token = TokenSecret(settings, environ)
        self._sessions = Sessions(settings, self._token, environ)
        self._request_seconds = seconds(request_timeout)
        self._deadline = deadline
        self._clock = clock or SystemClock()
        self._sleep = sleep or _wait
        self._random = random
        # The endpoint that answered last is asked first; a race between threads does no harm.
        self._first = 0

    def __repr__(self) -> str:
        return f"ProxmoxApi({', '.join(one.shown for one in self._endpoints)})"

    def close(self) -> None:
        """Close every connection."""
        self._sessions.close()

    @property
    def token_id(self) -> str:
        """Whose rights count: `USER@REALM!NAME`."""
        return self._token.id

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The addresses of the API, in their order."""
        return tuple(one.shown for one in self._endpoints)

    def read(
        self, what: str, path: Sequence[str], kind: type[Kind], values: Values = _NOTHING
    ) -> Kind:
        """The `data` of a GET as `kind`. `what` completes "can't ..." in an error."""
        envelope, asked = self._read(what, path, values)
        return _converted(envelope.data, kind, asked)

    def read_with_total(
        self, what: str, path: Sequence[str], kind: type[Kind], values: Values = _NOTHING
    ) -> tuple[Kind, int | None]:
        """The same with the `total` that comes beside a page of something longer."""
        envelope, asked = self._read(what, path, values)
        return _converted(envelope.data, kind, asked), envelope.total

    def write(self, what: str, method: str, path: Sequence[str], values: Values = _NOTHING) -> Any:
        """The `data` of a POST or DELETE, sent once.

        Raises ProxmoxError; its `may_have_run` says that nobody knows whether it was carried out.
        """
        skipped: list[ProxmoxError] = []
        for endpoint in self._in_order():
            asked = self._asked(endpoint, what, is_write=True)
            try:
                answer = self._once(endpoint, asked, (method, path), values)
            except ProxmoxError as exc:
                is_unsent = exc.kind in (Trouble.UNREACHABLE, Trouble.TLS) and not exc.may_have_run
                if not is_unsent:
                    raise
                log.info("endpoint=%s is out of reach, nothing was sent: %s", asked.shown, exc)
                skipped.append(exc)
            else:
                self._prefer(endpoint)
                return answer.data
        raise self._all_failed(what, skipped)

    # -- one request -----------------------------------------------------------------------------

    def _read(self, what: str, path: Sequence[str], values: Values) -> tuple[Envelope, Asked]:
        failed: list[ProxmoxError] = []
        for attempt in range(_MOST_ROUNDS):
            if failed and not self._may_try_again(failed, attempt):
                break
            failed = []
            for endpoint in self._in_order():
                asked = self._asked(endpoint, what)
                try:
                    answer = self._once(endpoint, asked, ("GET", path), values)
                except ProxmoxError as exc:
                    if exc.kind not in ELSEWHERE:
                        raise
                    level = logging.WARNING if exc.kind is Trouble.TLS else logging.INFO
                    log.log(level, "endpoint=%s reason=%s cause=%s", asked.shown, exc, exc.cause)
                    failed.append(exc)
                else:
                    self._prefer(endpoint)
                    return answer, asked
        raise self._all_failed(what, failed)

    def _once(
        self, endpoint: Endpoint, asked: Asked, request: tuple[str, Sequence[str]], values: Values
    ) -> Envelope:
        """One exchange, and another one when the token was replaced in the meantime."""
        before = self._token.read()
        try:
            return self._sessions.call(endpoint, asked, request, values, self._budget(asked))
        except ProxmoxError as exc:
            # A 401 comes before anything is done, so that even a write may be sent again.
            if exc.kind is not Trouble.AUTH or self._token.read() == before:
                raise
            log.info("the token was replaced, asking again endpoint=%s", asked.shown)
            return self._sessions.call(endpoint, asked, request, values, self._budget(asked))

    def _budget(self, asked: Asked) -> float:
        if self._deadline is None:
            return self._request_seconds
        left = self._deadline.remaining()
        if left <= 0:
            raise TimeoutReached(
                f"the time for the whole command ran out before {asked.shown} was asked",
                cause=f"it was about to {asked.what}",
                hint="raise --timeout; a migration that runs goes on without gpuctl",
            )
        return min(self._request_seconds, left)

    def _asked(self, endpoint: Endpoint, what: str, *, is_write: bool = False) -> Asked:
        return Asked(endpoint.shown, what, self._token.id, is_write)

    # -- which endpoint --------------------------------------------------------------------------

    def _in_order(self) -> list[Endpoint]:
        first = self._first
        return [*self._endpoints[first:], *self._endpoints[:first]]

    def _prefer(self, endpoint: Endpoint) -> None:
        self._first = self._endpoints.index(endpoint)

    def _may_try_again(self, failed: Sequence[ProxmoxError], attempt: int) -> bool:
        # About a node behind the endpoints all of them agree by now, and time-outs took half a
        # minute each: whether to go on asking is for the caller to decide.
        if not any(exc.kind in _AGAIN for exc in failed):
            return False
        pause = _PAUSE_SECONDS * 2 ** (attempt - 1) * (0.5 + self._random())
        if self._deadline is not None and self._deadline.remaining() <= pause:
            return False
        self._sleep(pause)
        return True

    def _all_failed(self, what: str, failed: Sequence[ProxmoxError]) -> ProxmoxError:
        """One error for all endpoints; a lone one speaks for itself."""
        if len(failed) == 1:
            return failed[0]
        kinds = {exc.kind for exc in failed}
        worst = failed[0]
        if len(kinds) == 1 and worst.kind in (Trouble.NODE_UNREACHABLE, Trouble.NODE_SILENT):
            return worst
        error = ProxmoxError(
            f"can't {what}: none of {len(failed)} endpoints of Proxmox VE answers",
            kind=worst.kind if len(kinds) == 1 else Trouble.UNREACHABLE,
            cause="; ".join(f"{exc}: {exc.cause}" for exc in failed),
            hint=worst.hint,
        )
        error.__cause__ = worst
        return error


def _converted(data: Any, kind: type[Kind], asked: Asked) -> Kind:
    """The answer as the type it should have: flags and numbers may come as texts."""
    try:
        return msgspec.convert(data, kind, strict=False)
    except msgspec.ValidationError as exc:
        raise ProxmoxError(
            f"{asked.shown} answers in a shape that gpuctl does not know",
            kind=Trouble.OTHER,
            cause=f"asked to {asked.what}: {faults.shortened(str(exc), 160)}",
            hint="gpuctl reads Proxmox VE 7, 8 and 9; report the release of that node",
            may_have_run=asked.is_write,
        ) from exc


def _wait(pause_seconds: float) -> None:
    threading.Event().wait(pause_seconds)

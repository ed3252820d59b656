"""Pods as they change: one stream of events over broken connections and forgotten versions."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NoReturn

import msgspec

from gpuctl.clients.http import Answer, _TransientError
from gpuctl.clients.kubernetes.meta import Status, WatchLine
from gpuctl.clients.kubernetes.problems import GoneError, nonsense
from gpuctl.clients.kubernetes.session import ApiSession, Call
from gpuctl.clients.kubernetes.wire import Pod
from gpuctl.errors import BackendError

log = logging.getLogger(__name__)

# The server's own ends a stream after half an hour or more; proxies in between do far earlier.
_LONGEST_STREAM_SECONDS = 300
_MOST_FAILURES_IN_A_ROW = 3

EventKind = Literal["added", "modified", "deleted", "relisted"]
_KINDS: dict[str, EventKind] = {"ADDED": "added", "MODIFIED": "modified", "DELETED": "deleted"}


@dataclass(frozen=True, slots=True)
class PodEvent:
    """One change. For `relisted` events were missed: `pods` is all there are now, `pod` is None."""

    kind: EventKind
    resource_version: str
    pod: Pod | None = None
    pods: tuple[Pod, ...] = ()


@dataclass(frozen=True, slots=True)
class PodWatch:
    """Watches for `seconds`, beginning after `resource_version`.

    `relist` lists the pods again, with the version of that list. The iteration ends when the time
    is over. Raises BackendError when the API stays out of reach or refuses.
    """

    session: ApiSession
    call: Call
    resource_version: str
    seconds: float
    relist: Callable[[], tuple[tuple[Pod, ...], str]]

    def events(self) -> Iterator[PodEvent]:
        """The changes, in order."""
        clock = self.session.limits.clock
        position = _Position(self.resource_version)
        ends = clock.monotonic() + self.seconds
        while (left := ends - clock.monotonic()) > 0:
            before = position.version
            try:
                yield from self._stream(position, min(left, _LONGEST_STREAM_SECONDS))
            except GoneError:
                position.failures += 1
                if position.failures > _MOST_FAILURES_IN_A_ROW:
                    raise
                pods, position.version = self.relist()
                yield PodEvent("relisted", position.version, pods=pods)
            except (_TransientError, TimeoutError) as failure:
                self._pause(position, failure)
            else:
                if position.version == before and left > 1:
                    self._pause(position, None)

    def _stream(self, position: _Position, seconds: float) -> Iterator[PodEvent]:
        """One connection's worth of changes; ends when the server ends it."""
        query = (
            *self.call.query,
            ("watch", "1"),
            ("resourceVersion", position.version),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(max(1, math.ceil(seconds)))),
        )
        call = replace(self.call, query=query)
        quiet = seconds + self.session.request_timeout_seconds
        for line in self.session.lines(call, quiet_seconds=quiet):
            event = self._event(line, call)
            position.failures = 0
            if isinstance(event, str):
                position.version = event
            else:
                position.version = event.resource_version
                yield event

    def _event(self, line: bytes, call: Call) -> PodEvent | str:
        """An event, or only the version of a bookmark. Raises GoneError and BackendError."""
        try:
            found = msgspec.json.decode(line, type=WatchLine)
            if found.type == "ERROR":
                self._refuse(bytes(found.object), call)
            pod = msgspec.json.decode(found.object, type=Pod)
        except msgspec.DecodeError as exc:
            answer = Answer(200, {}, line)
            raise nonsense(answer, call.access, self.session.server, str(exc)) from exc
        kind = _KINDS.get(found.type)
        if kind is None:  # a bookmark
            return pod.metadata.resource_version
        return PodEvent(kind, pod.metadata.resource_version, pod)

    def _refuse(self, body: bytes, call: Call) -> NoReturn:
        """The server reports a failure within a stream that began well."""
        code = msgspec.json.decode(body, type=Status).code or 500
        raise self.session.refused(Answer(code, {}, body), call)

    def _pause(self, position: _Position, failure: Exception | None) -> None:
        """Wait before the next connection; give up after a few in a row without an event."""
        position.failures += 1
        reason = "it ended at once" if failure is None else str(failure) or "it was silent too long"
        log.info("the watch broke reason=%s version=%s", reason, position.version)
        if position.failures > _MOST_FAILURES_IN_A_ROW:
            if isinstance(failure, _TransientError):
                raise failure.error from failure
            raise BackendError(
                f"{self.session.server} does not keep a watch open",
                cause=f"{position.failures} connections in a row brought nothing: {reason}",
                hint="a proxy or load balancer in between may cut long answers",
            ) from failure
        self.session.pause(reason, position.failures)


@dataclass(slots=True)
class _Position:
    """How far the watch has come, and how often it failed since the last event."""

    version: str
    failures: int = 0

"""One acting run at a time in a whole cluster: a Kubernetes Lease, renewed while the run goes on.

A Lease does not fence: a process that slept past its end still believes to hold it. So the holder
is read again before each write, and nothing is written once renewals have failed for too long.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from secrets import token_hex

from gpuctl.actions.lock import Holder, LockedError
from gpuctl.clients.kubernetes.client import KubernetesClient
from gpuctl.clients.kubernetes.leases import SeenLease
from gpuctl.clients.kubernetes.problems import ConflictError
from gpuctl.clients.kubernetes.wire import LeaseSpec
from gpuctl.clock import Clock
from gpuctl.errors import BackendError
from gpuctl.model.durations import format_duration

log = logging.getLogger(__name__)

NAME = "gpuctl-run"
DURATION_SECONDS = 60
RENEW_SECONDS = 20.0
#: This long before its end a Lease that could not be renewed counts as lost.
_MARGIN_SECONDS = 10.0
_POLL_SECONDS = 2.0


class ClusterLease:
    """The Lease of one run. All times in it are the server's. Safe to use from two threads."""

    def __init__(
        self, client: KubernetesClient, namespace: str, holder: Holder, clock: Clock
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._clock = clock
        # The token tells two runs of one recycled pid apart.
        self._identity = f"{holder.command}/{holder.host}/{holder.pid}/{token_hex(4)}"
        self._lock = threading.Lock()
        self._held: SeenLease | None = None
        self._renewed_at = 0.0
        self._is_lost = False

    def acquire(self, *, patience_seconds: float, wait: Callable[[float], object]) -> None:
        """Take it, or wait for it. Raises LockedError in one line, and BackendError."""
        leases, clock = self._client.leases, self._clock
        ends = clock.monotonic() + patience_seconds
        while True:
            asked = clock.monotonic()
            seen = leases.get(self._namespace, NAME)
            now = self._now(seen)
            left = ends - asked
            if seen is not None and seen.is_held(now):
                if left <= 0:
                    raise _locked(seen, now)
                wait(min(left, _POLL_SECONDS))
                continue
            try:
                if seen is None:
                    made = leases.create(self._namespace, NAME, self._spec(now, now, 0))
                else:
                    turns = (seen.lease.spec.lease_transitions or 0) + 1
                    made = leases.update(seen.lease, self._spec(now, now, turns))
            except ConflictError:  # somebody was quicker: look again who it is
                continue
            self._held, self._renewed_at = made, asked
            return

    def renew(self) -> None:
        """Push its end away; a failure is only noted, `check` decides."""
        with self._lock:
            held = self._held
            if held is None or self._is_lost:
                return
            asked = self._clock.monotonic()
            try:
                seen = self._look()
                if seen is None:
                    return
                spec = seen.lease.spec
                taken = spec.acquire_time or self._now(seen)
                mine = self._spec(taken, self._now(seen), spec.lease_transitions or 0)
                self._held = self._client.leases.update(seen.lease, mine)
            except BackendError as exc:
                log.warning("the lease could not be renewed", extra={"why": exc.what})
                return
            self._renewed_at = asked

    def check(self) -> None:
        """Whether it is still ours, by what the cluster says now. Raises LockedError otherwise."""
        with self._lock:
            age = self._clock.monotonic() - self._renewed_at
            if not self._is_lost:
                self._look()
            if self._is_lost:
                raise LockedError(
                    "another run took over the lock of this cluster",
                    cause=f"the Lease {self._namespace}/{NAME} is no longer this run's",
                )
            if age > DURATION_SECONDS - _MARGIN_SECONDS:
                raise LockedError(
                    "the lock of this cluster has run out",
                    cause=f"the Lease {self._namespace}/{NAME} could not be renewed for "
                    f"{format_duration(round(age))}",
                )

    def release(self) -> None:
        """Give it back at once, if it is still ours."""
        with self._lock:
            if self._held is None or self._is_lost:
                return
            with suppress(BackendError):
                self._client.leases.release(self._held.lease)
            self._held = None

    def _look(self) -> SeenLease | None:
        """The lease now; None, and lost for good, when it is somebody else's."""
        seen = self._client.leases.get(self._namespace, NAME)
        before = self._held
        if (
            seen is None
            or before is None
            or seen.lease.spec.holder_identity != self._identity
            or seen.lease.spec.lease_transitions != before.lease.spec.lease_transitions
        ):
            self._is_lost = True
            return None
        self._held = seen
        return seen

    def _spec(self, taken: datetime, renewed: datetime, turns: int) -> LeaseSpec:
        return LeaseSpec(
            holder_identity=self._identity,
            lease_duration_seconds=DURATION_SECONDS,
            acquire_time=taken,
            renew_time=renewed,
            lease_transitions=turns,
        )

    def _now(self, seen: SeenLease | None) -> datetime:
        """The server's clock: two machines need not agree on the time."""
        found = seen.server_time if seen is not None else self._client.server_time()
        return found or self._clock.now()


@contextmanager
def cluster_lease(
    client: KubernetesClient,
    namespace: str,
    holder: Holder,
    *,
    clock: Clock,
    patience_seconds: float,
    wait: Callable[[float], object],
) -> Iterator[ClusterLease]:
    """Hold the cluster's Lease within, renewed by a thread."""
    lease = ClusterLease(client, namespace, holder, clock)
    lease.acquire(patience_seconds=patience_seconds, wait=wait)
    over = threading.Event()

    def keep() -> None:
        while not over.wait(RENEW_SECONDS):
            lease.renew()

    thread = threading.Thread(target=keep, name="lease", daemon=True)
    thread.start()
    try:
        yield lease
    finally:
        over.set()
        thread.join()
        lease.release()


def _locked(seen: SeenLease, now: datetime) -> LockedError:
    spec = seen.lease.spec
    parts = (spec.holder_identity or "").split("/")
    who = f"{parts[0]}, pid {parts[2]} on {parts[1]}" if len(parts) == 4 else parts[0]
    age = "" if spec.acquire_time is None else f", for {_length(now - spec.acquire_time)}"
    ends = ""
    if spec.renew_time is not None and spec.lease_duration_seconds is not None:
        left = spec.renew_time + timedelta(seconds=spec.lease_duration_seconds + 5) - now
        ends = f"; its Lease ends in {_length(left)} unless renewed"
    return LockedError(f"another gpuctl acts on this cluster: {who}{age}{ends}")


def _length(span: timedelta) -> str:
    return format_duration(max(0, round(span.total_seconds())))

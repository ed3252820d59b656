"""Following a migration's task to its end, through lost connections, and looking where the VM is.

Nothing here starts or repeats anything; the only write is to stop a task when that was asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from gpuctl.actions.interruption import Patience
from gpuctl.clients.proxmox import ProxmoxClient, ProxmoxError, Trouble, Upid
from gpuctl.clients.proxmox_wire import TaskStatus
from gpuctl.clock import Clock
from gpuctl.errors import TimeoutReached
from gpuctl.policy.migration.task_log import LogReading, read_log

log = logging.getLogger(__name__)

#: ended: the task has stopped. left: a signal came, the task goes on. late: so has the time.
#: lost: nobody can tell any more. locked-out: the token is not accepted any more.
FollowEnd = Literal["ended", "left", "late", "lost", "locked-out"]

_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 10.0
# After so long a migration is a long one, and its figures need no look each second.
_SLOWER_EVERY_SECONDS = 60.0
_LONGEST_RETRY_SECONDS = 15.0
_PROGRESS_EVERY_SECONDS = 5.0
# A token that is replaced in its file is used at once; longer than this nobody replaces it.
_LOCKED_OUT_SECONDS = 120.0
#: From so many failures in a row on, the node itself may be gone.
_FAILURES_BEFORE_NODE_CHECK = 4


@dataclass(frozen=True, slots=True)
class Followed:
    """How the following ended. `status` is the task's last known one; `why` explains lost ones."""

    end: FollowEnd
    log: LogReading
    status: TaskStatus | None = None
    why: str = ""
    was_stopped: bool = False


@dataclass(slots=True)
class Follower:
    """Follows one task. `say` gets a line now and then, made by `words` from what the log tells.

    `stops`: a signal stops the task instead of leaving it alone.
    """

    client: ProxmoxClient
    upid: Upid
    patience: Patience
    clock: Clock
    say: Callable[[str], None]
    words: Callable[[LogReading], str]
    stops: bool = False
    _reading: LogReading = field(default_factory=LogReading)
    _status: TaskStatus | None = None
    _failures: int = 0
    _locked_out_since: float | None = None
    _said_at: float | None = None
    _said_phase: str = ""
    _is_stopping: bool = False

    def follow(self) -> Followed:
        """Until the task has ended, or there is a reason to stop looking."""
        began = self.clock.monotonic()
        while True:
            ended = self._look()
            if ended is not None:
                return ended
            pause = self._pause_seconds(self.clock.monotonic() - began)
            if self._is_stopping:
                if not self.patience.wait_running(pause):
                    return self._over("left", "it was asked to stop and has not yet done so")
            elif not self.patience.wait_idle(pause):
                left = self._without_patience()
                if left is not None:
                    return left

    def _without_patience(self) -> Followed | None:
        """A signal, or the time is up. None: the task was asked to stop, go on looking."""
        if not self.patience.interruption.is_requested:
            return self._over("late")
        if not self.stops:
            return self._over("left")
        if self._reading.has_moved:
            # The VM's memory is over there: to stop now could leave it on neither side.
            self.say("it is too late to stop it: the VM is on the target; waiting for its end")
        else:
            self.say(f"stopping the task {self.upid}")
            try:
                self.client.stop_task(self.upid)
            except ProxmoxError as exc:
                if not exc.may_have_run:
                    return self._over("left", f"it could not be stopped: {exc.what}; {exc.cause}")
        self._is_stopping = True
        return None

    # -- looks -----------------------------------------------------------------------------------

    def _look(self) -> Followed | None:
        """One look at state and log; None while the task works or can't be seen at the moment."""
        try:
            # In this order: the log of a task that has stopped is whole.
            status = self.client.task_status(self.upid)
            self._status = status
            lines = self.client.task_log_after(self.upid, self._reading.lines)
        except TimeoutReached:
            return self._over("late")
        except ProxmoxError as exc:
            return self._after_failure(exc)
        if self._failures:
            self.say("connected again; the migration was not touched by that")
        self._failures, self._locked_out_since = 0, None
        self._reading = read_log(lines, self._reading)
        if not status.is_running:
            return self._over("ended")
        self._tell()
        return None

    def _after_failure(self, exc: ProxmoxError) -> Followed | None:
        self._failures += 1
        log.info("the task can't be read: %s", exc, extra={"cause": exc.cause})
        if exc.kind is Trouble.AUTH:
            return self._after_lockout(exc)
        if exc.kind in (Trouble.NO_SUCH_TASK, Trouble.UNKNOWN_NODE) or not exc.is_passing:
            if self._status is not None and not self._status.is_running:
                return self._over("ended")
            return self._over("lost", f"{exc.what}: {exc.cause}")
        if self._failures == 1:
            self.say(f"no answer ({exc.what}); the migration goes on, asking again")
        is_about_node = exc.kind in (Trouble.NODE_UNREACHABLE, Trouble.NODE_SILENT)
        if is_about_node and self._failures >= _FAILURES_BEFORE_NODE_CHECK and self._node_is_gone():
            return self._over("lost", f"node {self.upid.node}, which ran the task, is offline")
        return None

    def _after_lockout(self, exc: ProxmoxError) -> Followed | None:
        now = self.clock.monotonic()
        if self._locked_out_since is None:
            self._locked_out_since = now
            self.say(f"{exc.what}; the migration goes on; {exc.hint}")
        if now - self._locked_out_since >= _LOCKED_OUT_SECONDS:
            return self._over("locked-out", f"{exc.what}; {exc.hint}")
        return None

    def _node_is_gone(self) -> bool:
        try:
            rows = self.client.nodes()
        except ProxmoxError:
            return False
        return any(row.node == self.upid.node and row.status == "offline" for row in rows)

    # -- pace and words --------------------------------------------------------------------------

    def _pause_seconds(self, elapsed: float) -> float:
        if self._failures:
            return min(_LONGEST_RETRY_SECONDS, float(2 ** (self._failures - 1)))
        slower = 1 + elapsed // _SLOWER_EVERY_SECONDS
        return min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * slower)

    def _tell(self) -> None:
        now, phase = self.clock.monotonic(), self._reading.phase
        is_due = self._said_at is None or now - self._said_at >= _PROGRESS_EVERY_SECONDS
        if not is_due and phase == self._said_phase:
            return
        text = self.words(self._reading)
        if text:
            self._said_at, self._said_phase = now, phase
            self.say(text)

    def _over(self, end: FollowEnd, why: str = "") -> Followed:
        return Followed(end, self._reading, self._status, why, self._is_stopping)


# -- where the VM is -----------------------------------------------------------------------------

_LOOKS = 6
_BETWEEN_LOOKS_SECONDS = 2.0
_ON_ITS_WAY = ("inmigrate", "postmigrate", "finish-migrate", "prelaunch")


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """A VM as the cluster shows it now. `node` None with `problem`: nobody could say."""

    node: str | None
    status: str | None = None
    qmpstatus: str | None = None
    lock: str | None = None
    problem: str = ""

    @property
    def is_settled(self) -> bool:
        """Whether nothing of a migration is left to come."""
        has_state = self.node is not None and self.status is not None
        return has_state and self.lock is None and self.qmpstatus not in _ON_ITS_WAY

    @property
    def shown(self) -> str:
        """`running on gpu-b`, with what is odd about it."""
        if self.node is None:
            return f"nobody knows where ({self.problem})"
        odd = [] if self.qmpstatus in (None, self.status) else [f"QEMU says {self.qmpstatus}"]
        odd += [f"locked ({self.lock})"] if self.lock else []
        extra = f", {', '.join(odd)}" if odd else ""
        return f"{self.status or 'in an unknown state'} on {self.node}{extra}"


def whereabouts(client: ProxmoxClient, vmid: int) -> Whereabouts:
    """One look at a VM: where its configuration lies, and its state there."""
    try:
        rows = client.resources("vm")
        node = next((row.node for row in rows if row.vmid == vmid and row.type == "qemu"), None)
        if node is None:
            return Whereabouts(None, problem=f"VM {vmid} is not among the VMs the token sees")
    except ProxmoxError as exc:
        return Whereabouts(None, problem=f"{exc.what}: {exc.cause}")
    try:
        status = client.vm_status(node, vmid)
    except ProxmoxError as exc:
        return Whereabouts(node, problem=f"{exc.what}: {exc.cause}")
    return Whereabouts(node, status.status, status.qmpstatus, status.lock)


def settled_whereabouts(client: ProxmoxClient, vmid: int, patience: Patience) -> Whereabouts:
    """The same, looking a few times more while a lock or QEMU's state is about to pass."""
    found = whereabouts(client, vmid)
    for _ in range(_LOOKS - 1):
        if found.is_settled or not patience.wait_running(_BETWEEN_LOOKS_SECONDS):
            break
        found = whereabouts(client, vmid)
    return found

"""Moves VMs between the nodes of a Proxmox VE cluster: asked for once, followed, and read back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpuctl.actions.migrate_end import Ending, StepEnds
from gpuctl.actions.migrate_follow import Followed, Follower, settled_whereabouts, whereabouts
from gpuctl.actions.steps import Conduct, Hold, Step, StepResult
from gpuctl.clients.proxmox import (
    MIGRATIONS,
    MigrateOptions,
    ProxmoxClient,
    ProxmoxError,
    Trouble,
    Upid,
    parse_upid,
)
from gpuctl.clients.proxmox_wire import TaskRow
from gpuctl.clock import Clock
from gpuctl.errors import GpuctlError
from gpuctl.exitcodes import ExitCode
from gpuctl.policy.migration.task_log import LogReading, read_log

# The HA manager works in rounds of some ten seconds; after so many of them it has other plans.
_HA_BEGINS_WITHIN_SECONDS = 120.0
_HA_LOOK_SECONDS = 3.0
_LOOKS_FOR_LOST_TASK = 5
_LOOK_SECONDS = 2.0
#: Refusals of the call itself: nothing was changed, and asking again helps only later.
_REFUSALS = frozenset(
    {
        Trouble.LOCKED,
        Trouble.NO_QUORUM,
        Trouble.NOT_ONLINE,
        Trouble.REPLICATED,
        Trouble.STORAGE_MISSING,
        Trouble.UNKNOWN_TARGET,
        Trouble.PARAMETERS,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MigratorOptions:
    """How to move. `follow_command`: what a person types before a UPID to follow it.

    `cancels`: a signal stops the migration instead of leaving it alone.
    """

    wanted: MigrateOptions
    follow_command: str
    cancels: bool = False


@dataclass(frozen=True, slots=True)
class Migrator:
    """The actuator of one cluster. `check` reads and judges everything anew before the move.

    A step's facts: `vmid`, `online` (1 or 0), `was` (the VM's state before), `last_task` (UPID of
    its newest migration at that time, "" for none). `words` makes a line of progress.
    """

    client: ProxmoxClient
    clock: Clock
    options: MigratorOptions
    check: Callable[[Step], StepResult | None]
    words: Callable[[LogReading], str]

    def preflight(self, step: Step, conduct: Conduct) -> StepResult | None:
        """The whole checklist, again: a person may have thought for a while."""
        return self.check(step)

    def execute(self, step: Step, conduct: Conduct) -> StepResult:
        """Ask for the migration, once; the UPID is in the journal when this returns."""
        assert step.source is not None  # noqa: S101 - who makes the step knows the VM's node
        assert step.target is not None  # noqa: S101
        vmid, node, target = int(step.facts["vmid"]), step.source.node, step.target.node
        if conduct.patience.interruption.is_requested:
            return StepResult(status="skipped", reason="a signal came before it was asked for")
        rows = [row for row in self.client.tasks(node, vmid=vmid) if row.type in MIGRATIONS]
        running = next((row.upid for row in rows if row.is_running), None)
        if running is not None:  # its lock may not be there yet
            how = f"{self.options.follow_command} '{running}' follows it"
            return StepResult(
                status="refused",
                reason=f"it is being migrated already; {how}",
                detail={"rule": "lock", "upid": running},
                exit_code=ExitCode.REFUSED,
            )
        known = frozenset(row.upid for row in rows)
        conduct.sending(vmid=vmid, to=target)
        try:
            upid = self.client.start_migration(node, vmid, target, self.options.wanted)
        except ProxmoxError as exc:
            if not exc.may_have_run:
                conduct.answered(result="refused", message=exc.what)
                return _refused(exc)
            found = self._after_lost_answer(step, known, conduct, exc)
            if isinstance(found, StepResult):
                return found
            upid = found
        conduct.answered(result="started", upid=upid.text)
        how = f"{self.options.follow_command} '{upid}'"
        conduct.say(f"started as {upid.text}")
        conduct.say(f"to follow it from elsewhere: {how}")
        return StepResult(
            status="done",
            reason=f"started and not waited for; {how} tells how it ends",
            changed=True,
            detail={"upid": upid.text},
        )

    def verify(self, step: Step, done: StepResult, conduct: Conduct) -> StepResult:
        """Follow it to its end, then see where the VM is: that alone is success."""
        return self.followed(step, parse_upid(str(done.detail["upid"])), conduct)

    def followed(self, step: Step, upid: Upid, conduct: Conduct) -> StepResult:
        """The end of a migration that runs, or has run, as `upid`."""
        ends = StepEnds(step, upid, self.options.follow_command)
        end = self._follow(upid, conduct)
        if end.end == "ended" and upid.type == "hamigrate":
            if end.status is not None and end.status.succeeded is False:
                return ends.of(self._ending(step, end, conduct))
            return self._followed_by_ha(step, upid, conduct, ends)
        return ends.of(self._ending(step, end, conduct))

    def look_up(self, step: Step) -> StepResult:
        """What became of a step that nobody saw end.

        Raises GpuctlError while the migration is still under way: it stays open until it has ended.
        """
        assert step.source is not None  # noqa: S101
        assert step.target is not None  # noqa: S101
        vmid, node = int(step.facts["vmid"]), step.source.node
        rows = self._newer_tasks(step)
        running = next((row for row in rows if row.is_running), None)
        if running is not None:
            raise GpuctlError(
                f"VM {vmid} is still being migrated",
                cause=f"by {running.upid}",
                hint=f"{self.options.follow_command} '{running.upid}' tells how it ends",
            )
        found = whereabouts(self.client, vmid)
        detail = {"upid": rows[0].upid} if rows else {}
        if found.node is None:
            raise GpuctlError(f"where VM {vmid} is can't be found out", cause=found.problem)
        if found.node == step.target.node:
            reason = f"the VM is {found.shown}"
            return StepResult(status="done", reason=reason, changed=True, detail=detail)
        if not rows and found.node == node:
            return StepResult(status="skipped", reason="no migration of it was begun")
        return StepResult(
            status="failed",
            reason=f"the VM is {found.shown}",
            changed=found.node != node or found.lock is not None,
            detail=detail,
            exit_code=ExitCode.BACKEND,
        )

    def _newer_tasks(self, step: Step) -> list[TaskRow]:
        """Migrations of the VM that began after the step was made, the newest first."""
        assert step.source is not None  # noqa: S101
        rows = self.client.tasks(step.source.node, vmid=int(step.facts["vmid"]))
        moves = [row for row in rows if row.type in MIGRATIONS]
        known = step.facts.get("last_task", "")
        began = parse_upid(known).started_at if known else 0
        return [row for row in moves if row.upid != known and (row.starttime or 0) >= began]

    # -- after the POST --------------------------------------------------------------------------

    def _after_lost_answer(
        self, step: Step, known: frozenset[str], conduct: Conduct, lost: ProxmoxError
    ) -> Upid | StepResult:
        """The task that the call has started after all. It is never sent again."""
        assert step.source is not None  # noqa: S101
        vmid, node = int(step.facts["vmid"]), step.source.node
        conduct.say("the answer was lost; looking for the task")
        why = ""
        for look in range(_LOOKS_FOR_LOST_TASK):
            if look and not conduct.patience.wait_running(_LOOK_SECONDS):
                break
            try:
                found = self.client.started_since(node, vmid, known)
            except ProxmoxError as exc:
                why = f", and its tasks can't be read: {exc.what}"
                continue
            why = ""
            if found is not None:
                conduct.say("the call has been carried out")
                return found
        seen = whereabouts(self.client, vmid)
        if not why and seen.is_settled and seen.node == node:
            conduct.answered(result="nothing", looked_up=True)
            return StepResult(
                status="failed",
                reason=f"{lost.what}; no migration was begun: the VM is {seen.shown}, and the "
                "same command may be given again",
                exit_code=ExitCode.BACKEND,
            )
        return StepResult(
            status="unknown",
            reason=f"{lost.what}{why}; the VM is {seen.shown}; look at its tasks before it is "
            "asked for again",
            exit_code=ExitCode.BACKEND,
        )

    def _follow(self, upid: Upid, conduct: Conduct) -> Followed:
        return Follower(
            client=self.client,
            upid=upid,
            patience=conduct.patience,
            clock=self.clock,
            say=conduct.say,
            words=self.words,
            stops=self.options.cancels,
        ).follow()

    def _ending(self, step: Step, end: Followed, conduct: Conduct) -> Ending:
        if end.end in ("left", "late"):
            return Ending(end, None)
        vmid = int(step.facts["vmid"])
        return Ending(end, settled_whereabouts(self.client, vmid, conduct.patience))

    # -- high availability -----------------------------------------------------------------------

    def _followed_by_ha(
        self, step: Step, asked: Upid, conduct: Conduct, ends: StepEnds
    ) -> StepResult:
        """The request is queued: wait for the task that the HA stack makes of it, follow that."""
        conduct.say("queued: the HA stack moves it, in its own time")
        ends_at = self.clock.monotonic() + _HA_BEGINS_WITHIN_SECONDS
        while True:
            task = self._task_of_ha(asked)
            if task is not None:
                conduct.say(f"the HA stack moves it as {task.text}")
                conduct.answered(result="started-by-ha", upid=task.text)
                moved = StepEnds(step, task, self.options.follow_command)
                return moved.of(self._ending(step, self._follow(task, conduct), conduct))
            found = whereabouts(self.client, int(step.facts["vmid"]))
            if step.target is not None and found.node == step.target.node:
                return ends.of(self._ending(step, Followed("ended", _QUEUED), conduct))
            if found.lock == "migrate":
                # It moves, by a task that this token may not see: that can take its time.
                ends_at = self.clock.monotonic() + _HA_BEGINS_WITHIN_SECONDS
            if self.clock.monotonic() >= ends_at:
                return ends.never_begun(found, _HA_BEGINS_WITHIN_SECONDS)
            if not conduct.patience.wait_idle(_HA_LOOK_SECONDS):
                is_left = conduct.patience.interruption.is_requested
                return ends.of(Ending(Followed("left" if is_left else "late", _QUEUED), None))

    def _task_of_ha(self, asked: Upid) -> Upid | None:
        try:
            rows = self.client.tasks(asked.node, vmid=int(asked.id))
        except ProxmoxError:
            return None
        for row in rows:
            if row.type == "qmigrate" and (row.starttime or 0) >= asked.started_at:
                return parse_upid(row.upid)
        return None


_QUEUED = read_log(("Requesting HA migration",))


@dataclass(frozen=True, slots=True)
class Following:
    """The actuator of --follow: it starts nothing, and looks how `upid` ends."""

    migrator: Migrator
    upid: Upid

    def preflight(self, step: Step, conduct: Conduct) -> StepResult | None:
        """Nothing is to be checked."""
        return None

    def execute(self, step: Step, conduct: Conduct) -> StepResult:
        """Follow it to its end."""
        return self.migrator.followed(step, self.upid, conduct)

    def verify(self, step: Step, done: StepResult, conduct: Conduct) -> StepResult:
        """It is verified already."""
        return done

    def look_up(self, step: Step) -> StepResult:
        """As for any migration."""
        return self.migrator.look_up(step)


@dataclass(frozen=True, slots=True)
class ForeignHolds:
    """Migrations hold no nodes; holds that other runs left are not theirs to write off."""

    def is_on(self, hold: Hold) -> bool:
        """Never by this run."""
        return False

    def place(self, hold: Hold, run_id: str) -> None:
        """Not asked for."""

    def remove(self, hold: Hold) -> None:
        """Raises GpuctlError: only a run that can reach the node's API may say that it is off."""
        raise GpuctlError(f"a migration can't take off the {hold}", cause="it is Kubernetes' own")


def _refused(exc: ProxmoxError) -> StepResult:
    """The call said no: nothing was changed."""
    is_refusal = exc.kind in _REFUSALS
    reason = "; ".join(part for part in (exc.what, exc.cause, exc.hint) if part)
    return StepResult(
        status="refused" if is_refusal else "failed",
        reason=reason,
        detail={"rule": str(exc.kind)} if is_refusal else {},
        exit_code=ExitCode.REFUSED if is_refusal else ExitCode.BACKEND,
    )

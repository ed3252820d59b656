"""What the end of a migration means: by where the VM is, and only then by what its task says."""

from __future__ import annotations

from dataclasses import dataclass

from gpuctl.actions.migrate_follow import Followed, Whereabouts
from gpuctl.actions.steps import Step, StepResult
from gpuctl.clients.proxmox import Upid
from gpuctl.exitcodes import ExitCode
from gpuctl.model.durations import format_duration
from gpuctl.model.outcome import DetailValue, Landing
from gpuctl.policy.migration.task_log import LogReading

_LAST_LINES = 5
_UNLOCK = "look for a second QEMU process of it on both nodes before `qm unlock {vmid}` on its node"


@dataclass(frozen=True, slots=True)
class Ending:
    """How the following ended, and where the VM was found after it; None while it goes on."""

    followed: Followed
    found: Whereabouts | None


@dataclass(frozen=True, slots=True)
class StepEnds:
    """The ends that one migration can come to. `follow_command` precedes a UPID."""

    step: Step
    upid: Upid
    follow_command: str

    def of(self, ending: Ending) -> StepResult:
        """The result of the step."""
        followed, found = ending.followed, ending.found
        if found is None:
            return self._goes_on(followed)
        target = self.step.target.node if self.step.target is not None else None
        is_lost = target is None and followed.end == "lost"
        is_lost = is_lost or (followed.end == "lost" and found.lock == "migrate")
        is_seen = found.node is not None and found.status is not None
        if followed.end == "locked-out" or not is_seen or is_lost:
            return self._unknown(followed, found)
        if target is None:
            return self._without_target(followed, found)
        if found.node == target:
            return self._arrived(followed, found)
        return self._failed(followed, found)

    def never_begun(self, found: Whereabouts, seconds: float) -> StepResult:
        """The HA stack has not acted on the request."""
        return StepResult(
            status="unknown",
            reason=f"the HA stack took the request and has begun nothing for "
            f"{format_duration(seconds)}; the VM is {found.shown}; it may still be moved, or "
            "never: see ha-manager status, and the HA rules",
            detail=self._detail(None),
            exit_code=ExitCode.BACKEND,
        )

    # -- the ends --------------------------------------------------------------------------------

    def _goes_on(self, followed: Followed) -> StepResult:
        how = f"{self.follow_command} '{self.upid}' follows it"
        if followed.end == "left":
            because = followed.why or "left alone after a signal"
            reason = f"the migration goes on ({because}); {how}"
            return StepResult(
                status="interrupted", reason=reason, detail=self._detail(followed.log)
            )
        return StepResult(
            status="interrupted",
            reason=f"still under way when --timeout was used up, and goes on; {how}",
            detail=self._detail(followed.log),
            exit_code=ExitCode.TIMEOUT,
        )

    def _unknown(self, followed: Followed, found: Whereabouts) -> StepResult:
        why = "; ".join(part for part in (followed.why, found.problem) if part)
        return StepResult(
            status="unknown",
            reason=f"what became of it is not known: {why}; the migration may go on: "
            f"{self.follow_command} '{self.upid}' follows it",
            detail=self._detail(followed.log),
            exit_code=ExitCode.BACKEND,
        )

    def _arrived(self, followed: Followed, found: Whereabouts) -> StepResult:
        assert found.node is not None  # noqa: S101 - it is the target
        # Of a migration that somebody else began it is not known.
        was = self.step.facts.get("was")
        detail = self._detail(followed.log)
        is_as_before = was is None or found.status == was or was != "stopped" != found.status
        if found.lock is not None or not is_as_before or not found.is_settled:
            hint = f"; {_UNLOCK.format(vmid=self.upid.id)}" if found.lock else ""
            return StepResult(
                status="failed",
                reason=f"it was moved and is {found.shown}"
                + (f", it was {was} before" if was else "")
                + hint,
                changed=True,
                detail=detail,
                landed=Landing(node=found.node),
                exit_code=ExitCode.BACKEND,
            )
        parts = [f"{found.shown}{took_words(followed.log)}", *self._blemishes(followed)]
        return StepResult(
            status="done",
            reason="; ".join(parts),
            changed=True,
            detail=detail,
            landed=Landing(node=found.node),
        )

    def _blemishes(self, followed: Followed) -> list[str]:
        """What a task that moved the VM has to complain about all the same."""
        if followed.end == "lost":
            return [f"its task could not be read to the end: {followed.why}"]
        status = followed.status
        end = (status.exitstatus or "") if status is not None else ""
        if status is None or end == "OK":
            return []
        if end.startswith("WARNINGS"):
            said = [line for line in followed.log.last_lines if line.startswith("WARN")]
            return [f"with warnings: {'; '.join(said) or end}"]
        why = followed.log.reason or "no reason given"
        return [f"its task ended with {end!r} ({why}): look for left-overs on {self.upid.node}"]

    def _failed(self, followed: Followed, found: Whereabouts) -> StepResult:
        source = self.step.source.node if self.step.source is not None else self.upid.node
        is_elsewhere = found.node != source
        where = f"the VM is {found.shown}"
        if not is_elsewhere and found.lock is None and found.status is not None:
            where = f"the VM is still {found.shown}"
        parts = [self._why(followed), where]
        if found.lock is not None:
            parts.append(_UNLOCK.format(vmid=self.upid.id))
        return StepResult(
            status="failed",
            reason="; ".join(parts),
            changed=is_elsewhere or found.lock is not None,
            detail=self._detail(followed.log, with_lines=True),
            exit_code=ExitCode.BACKEND,
        )

    def _why(self, followed: Followed) -> str:
        if followed.was_stopped:
            return "stopped on request"
        if followed.log.reason is not None:
            return followed.log.reason
        if followed.end == "lost":
            return followed.why
        end = followed.status.exitstatus if followed.status is not None else None
        if followed.status is not None and followed.status.succeeded:
            return f"its task ended with {end}, and yet it was not moved"
        return f"its task ended with {end or 'no status'}"

    def _without_target(self, followed: Followed, found: Whereabouts) -> StepResult:
        """A task that is followed whose log names no target: its own word has to do."""
        assert found.node is not None  # noqa: S101 - the caller has looked
        is_good = followed.status is not None and followed.status.succeeded
        if is_good and found.is_settled and found.node != self.upid.node:
            return self._arrived(followed, found)
        return self._failed(followed, found)

    def _detail(
        self, log: LogReading | None, *, with_lines: bool = False
    ) -> dict[str, DetailValue]:
        detail: dict[str, DetailValue] = {"upid": self.upid.text}
        if log is None:
            return detail
        if log.duration_seconds is not None:
            detail["duration_seconds"] = log.duration_seconds
        if log.downtime_seconds is not None:
            detail["downtime_seconds"] = log.downtime_seconds
        if log.average_rate is not None:
            detail["mean_mib_per_second"] = round(log.average_rate / (1 << 20), 1)
        if log.copied_bytes is not None:
            detail["copied_mib"] = round(log.copied_bytes / (1 << 20), 1)
        if with_lines and log.last_lines:
            detail["log"] = "\n".join(log.last_lines[-_LAST_LINES:])
        return detail


def took_words(log: LogReading) -> str:
    """`, took 14s by its log, downtime 73 ms`; "" for what the log does not tell."""
    parts = []
    if log.duration_seconds is not None:
        parts.append(f"took {format_duration(log.duration_seconds)} by its log")
    if log.downtime_seconds is not None:
        parts.append(f"downtime {log.downtime_seconds * 1000:.0f} ms")
    return f" ({', '.join(parts)})" if parts else ""

"""Evicts pods through policy/v1, one at a time, and never in any other way."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from gpuctl.actions.budgets import Outlook, outlook
from gpuctl.actions.eviction_results import (
    NOTHING,
    by_budget,
    forbidden,
    no_time,
    result_of,
    unknown,
    until_words,
)
from gpuctl.actions.landing import Locator, landing_words
from gpuctl.actions.steps import Conduct, Step, StepResult
from gpuctl.actions.successor import (
    Succeeded,
    Succession,
    SuccessionWatch,
    pods_of_owner,
)
from gpuctl.clients.kubernetes.client import KubernetesClient
from gpuctl.clients.kubernetes.eviction import EvictionAnswer, EvictionResult
from gpuctl.clients.kubernetes.notes import EventNote, Regarding
from gpuctl.clients.kubernetes.problems import AnswerLostError, ApiRefusedError, ForbiddenError
from gpuctl.clients.kubernetes.wire import Budget
from gpuctl.clock import Clock
from gpuctl.errors import BackendError
from gpuctl.exitcodes import ExitCode
from gpuctl.model.durations import format_duration
from gpuctl.model.outcome import DetailValue

log = logging.getLogger(__name__)

#: How often a budget is tried again that says nothing about when.
BUDGET_POLL_SECONDS = 5.0
_LOOKS_AFTER_LOST_ANSWER = 3
_LOOK_SECONDS = 2.0
_MOST_LOST_ANSWERS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictorOptions:
    """`instance` says in Events which gpuctl it was; `ready_within` is for each successor."""

    grace_seconds: int | None = None
    dry_run: bool = False
    ready_within: timedelta = timedelta(minutes=10)
    instance: str = "gpuctl"


@dataclass(slots=True)
class Evictor:
    """The actuator of evictions. A Step's facts are the pod's `uid`, its `owner` (`Kind/name`),
    the controller's `owner_uid`; where known also `controller` (`Kind/name`), `controller_api`,
    `template_hash` and `from_utilization_pct`.

    `budgets_of` names the budgets that select a pod, by what was read before.
    """

    client: KubernetesClient
    clock: Clock
    locator: Locator
    options: EvictorOptions
    budgets_of: Callable[[str], Sequence[Budget]] = lambda pod: ()
    _booked: Counter[str] = field(default_factory=Counter)
    _siblings: dict[str, frozenset[str]] = field(default_factory=dict)

    # -- the port ----------------------------------------------------------------------------------

    def preflight(self, step: Step, conduct: Conduct) -> StepResult | None:
        """The pod as it is now, and the server's own dry run."""
        try:
            over = self._over_already(step)
            if over is not None:
                return over
            while True:
                answer = self._ask(step, dry_run=True)
                if answer.result in (EvictionResult.BUDGET, EvictionResult.BUDGET_UNSETTLED):
                    return self._refusedby_budget(step, answer) if self.options.dry_run else None
                result = result_of(answer)
                if result is not None or answer.result is EvictionResult.ALLOWED:
                    return result or self._rehearsed(step)
                if not self._wait_for_server(answer, conduct):
                    return no_time(answer.message or "the API server is busy", conduct)
        except ForbiddenError as exc:
            return forbidden(exc)

    def execute(self, step: Step, conduct: Conduct) -> StepResult:
        """Evict, waiting for budgets as long as there is time and a chance."""
        self._siblings[step.id] = self._siblings_of(step)
        lost, last_said = 0, ""
        while True:
            over = self._over_already(step)
            if over is not None:
                return over
            try:
                answer = self._send(step, conduct)
            except AnswerLostError as exc:
                lost += 1
                result = self._after_lost_answer(
                    step, exc, conduct, is_last=lost >= _MOST_LOST_ANSWERS
                )
                if result is not None:
                    return result
                continue
            except ForbiddenError as exc:
                return forbidden(exc)
            if answer.result is EvictionResult.EVICTED:
                self._tell(step)
                return StepResult(status="done", reason="evicted", changed=True)
            result = result_of(answer)
            if result is not None:
                return result
            if answer.result in (EvictionResult.BUDGET, EvictionResult.BUDGET_UNSETTLED):
                wait, text, refusal = self._budget(step, answer)
                if refusal is not None:
                    return refusal
                if text != last_said:
                    conduct.say(f"waiting: {text}")
                    last_said = text
                if not conduct.patience.wait_idle(wait):
                    return no_time(text, conduct, self._numbers(step, answer))
            elif not self._wait_for_server(answer, conduct):
                return no_time(answer.message or "the API server is busy", conduct)

    def verify(self, step: Step, done: StepResult, conduct: Conduct) -> StepResult:
        """Until the pod is gone and its successor is Ready, and where that one runs."""
        namespace, name = _names(step)
        watch = SuccessionWatch(
            self.client, self.clock, conduct.patience, conduct.say, self.options.ready_within
        )
        old = Succeeded(
            namespace,
            name,
            step.facts["uid"],
            step.facts.get("owner", ""),
            step.facts.get("owner_uid", ""),
            step.facts.get("template_hash", ""),
            self._siblings.get(step.id, frozenset()),
        )
        return self._verified(step, watch.until_served(old), conduct)

    def look_up(self, step: Step) -> StepResult:
        """By its UID: one that is gone or terminating was evicted, one that runs was not."""
        namespace, name = _names(step)
        pod = self.client.read_pod(namespace, name)
        if pod is None or pod.metadata.uid != step.facts.get("uid"):
            return StepResult(status="done", reason="the pod is gone", changed=True)
        if pod.is_terminating:
            return StepResult(status="done", reason="the pod is terminating", changed=True)
        return StepResult(status="skipped", reason=f"the pod still runs: {NOTHING}")

    # -- before and after a call -------------------------------------------------------------------

    def _over_already(self, step: Step) -> StepResult | None:
        """Why there is nothing to evict any more; read anew, since a wrong UID costs a budget."""
        namespace, name = _names(step)
        pod = self.client.read_pod(namespace, name)
        if pod is None:
            return StepResult(status="unchanged", reason="gone already")
        if pod.metadata.uid != step.facts["uid"]:
            return StepResult(
                status="unchanged", reason="gone already; another pod has its name now"
            )
        if pod.is_terminating:
            return StepResult(status="unchanged", reason=f"terminating already{until_words(pod)}")
        return None

    def _ask(self, step: Step, *, dry_run: bool) -> EvictionAnswer:
        namespace, name = _names(step)
        return self.client.evict(
            namespace,
            name,
            uid=step.facts["uid"],
            grace_period_seconds=self.options.grace_seconds,
            dry_run=dry_run,
        )

    def _send(self, step: Step, conduct: Conduct) -> EvictionAnswer:
        conduct.sending(uid=step.facts["uid"])
        try:
            answer = self._ask(step, dry_run=False)
        except ApiRefusedError as exc:
            conduct.answered(result="error", status=exc.status, message=exc.what)
            raise
        conduct.answered(result=str(answer.result), status=answer.status, message=answer.message)
        return answer

    def _after_lost_answer(
        self, step: Step, lost: AnswerLostError, conduct: Conduct, *, is_last: bool
    ) -> StepResult | None:
        """What became of a call without an answer; None when it did nothing and may be repeated.

        To repeat it is safe: it names the UID, and a terminating pod is not evicted again.
        """
        conduct.say("the answer was lost; looking at the pod")
        try:
            for look in range(_LOOKS_AFTER_LOST_ANSWER):
                if look and not conduct.patience.wait_running(_LOOK_SECONDS):
                    break
                found = self.look_up(step)
                if found.changed:
                    conduct.answered(result="evicted", looked_up=True)
                    self._tell(step)
                    return StepResult(
                        status="done", reason="evicted (the answer was lost)", changed=True
                    )
        except BackendError as exc:
            return unknown(f"{lost.cause}, and the pod can't be read: {exc.what}")
        conduct.answered(result="nothing", looked_up=True)
        return unknown(f"{lost.cause}; the pod was still running after that") if is_last else None

    def _tell(self, step: Step) -> None:
        """An Event on the pod and on its owner. Whatever happens to it, the run goes on."""
        namespace, name = _names(step)
        text = f"gpuctl evicted pod {name}"
        load = step.facts.get("from_utilization_pct")
        if load and step.source is not None:
            text += f" from GPU {step.source.address} at {float(load):.0f} % utilization"
        about = [Regarding("Pod", name, namespace, step.facts["uid"])]
        kind, _, owner = step.facts.get("controller", "").partition("/")
        if owner:
            version = step.facts.get("controller_api", "v1")
            uid = step.facts.get("owner_uid", "")
            about.append(Regarding(kind, owner, namespace, uid, version))
        for regarding in about:
            try:
                note = EventNote(regarding, "Evict", "EvictedByGpuctl", text)
                self.client.record(note, instance=self.options.instance)
            except BackendError as exc:
                log.info("the event could not be written", extra={"why": exc.what})

    def _siblings_of(self, step: Step) -> frozenset[str]:
        owner = step.facts.get("owner_uid", "")
        if not owner:
            return frozenset()
        namespace, _ = _names(step)
        pods = pods_of_owner(self.client, namespace, owner, step.facts.get("template_hash", ""))
        return frozenset(pod.metadata.uid for pod in pods)

    # -- what an answer means ----------------------------------------------------------------------

    def _wait_for_server(self, answer: EvictionAnswer, conduct: Conduct) -> bool:
        """The server protects itself and has looked at nothing: wait as it asks; False: no time."""
        seconds = max(1.0, answer.retry_after_seconds or 0.0)
        conduct.say(f"the API server is busy, trying again in {format_duration(seconds)}")
        return conduct.patience.wait_idle(seconds)

    # -- budgets -----------------------------------------------------------------------------------

    def _outlook(self, step: Step, answer: EvictionAnswer) -> Outlook | None:
        """The budget's numbers of now; None when it can't be read."""
        if answer.budget is None:
            return None
        try:
            budget = self.client.read_budget(_names(step)[0], answer.budget)
        except BackendError as exc:
            log.info("the budget could not be read", extra={"why": exc.what})
            return None
        return None if budget is None else outlook(budget, self.clock.now())

    def _budget(self, step: Step, answer: EvictionAnswer) -> tuple[float, str, StepResult | None]:
        """Seconds to wait, why, and the refusal when waiting is of no use."""
        seen = self._outlook(step, answer)
        text = f"{seen.text}; {seen.chance}" if seen else answer.message
        wait = max(BUDGET_POLL_SECONDS, answer.retry_after_seconds or 0.0)
        if seen is not None and seen.is_hopeless:
            return wait, text, by_budget(text, seen.detail)
        return wait, text, None

    def _refusedby_budget(self, step: Step, answer: EvictionAnswer) -> StepResult:
        """A dry run doesn't wait; it says what a real one would do."""
        _, text, refusal = self._budget(step, answer)
        later = f"{text}; a real run would wait for it, within --timeout"
        return refusal or by_budget(later, self._numbers(step, answer))

    def _numbers(self, step: Step, answer: EvictionAnswer) -> dict[str, DetailValue]:
        seen = self._outlook(step, answer)
        known = seen.detail if seen is not None else None
        return known or {"budget": answer.budget, "status": answer.status}

    def _rehearsed(self, step: Step) -> StepResult | None:
        """Book a passed dry run: the server books nothing, so ten of them would all pass."""
        if not self.options.dry_run:
            return None
        for budget in self.budgets_of(step.workload):
            name = f"{budget.metadata.namespace}/{budget.metadata.name}"
            allows, used = budget.status.disruptions_allowed, self._booked[name]
            self._booked[name] += 1
            if used and used >= allows:
                return StepResult(
                    status="allowed",
                    reason=f"would wait until budget {budget.metadata.name} allows one more: it "
                    f"allows {allows} now, and this run would use {used} before",
                    detail={"budget": budget.metadata.name, "budget_allows": allows},
                )
        return None

    # -- afterwards --------------------------------------------------------------------------------

    def _verified(self, step: Step, seen: Succession, conduct: Conduct) -> StepResult:
        successor = seen.successor
        detail: dict[str, DetailValue] = {}
        if successor is not None:
            detail["successor"] = successor.id
        match seen.end:
            case "ready":
                assert successor is not None  # noqa: S101 - that is what ready means
                before = step.facts.get("from_utilization_pct")
                # Where the exporter did not name the pod, it won't name its successor.
                is_named = step.source is not None and step.source.gpu is not None
                locator = self.locator if is_named else Locator(None)
                landed = locator.landing(
                    successor.id,
                    successor.spec.node_name,
                    float(before) if before else None,
                    conduct.patience,
                    names_agree=step.source is None
                    or step.facts.get("node", step.source.node) == step.source.node,
                )
                text = f"its successor {successor.metadata.name} serves {landing_words(landed)}"
                return StepResult(
                    status="done", reason=text, changed=True, detail=detail, landed=landed
                )
            case "none":
                return StepResult(status="done", reason=seen.text, changed=True)
            case "interrupted":
                return StepResult(
                    status="interrupted",
                    reason=f"evicted; {seen.text} when it was interrupted",
                    changed=True,
                    detail=detail,
                )
            case "late":
                return StepResult(
                    status="failed",
                    reason=f"evicted; {seen.text}",
                    changed=True,
                    detail=detail,
                    exit_code=ExitCode.TIMEOUT,
                )


def _names(step: Step) -> tuple[str, str]:
    namespace, _, name = step.workload.partition("/")
    return namespace, name

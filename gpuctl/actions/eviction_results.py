"""What the answers to an eviction mean for its step."""

from __future__ import annotations

from gpuctl.actions.steps import Conduct, StepResult
from gpuctl.clients.kubernetes.eviction import EvictionAnswer, EvictionResult
from gpuctl.clients.kubernetes.problems import ForbiddenError
from gpuctl.clients.kubernetes.wire import Pod
from gpuctl.exitcodes import ExitCode
from gpuctl.model.outcome import DetailValue

NOTHING = "nothing was evicted"


def result_of(answer: EvictionAnswer) -> StepResult | None:
    """The end that an answer stands for; None when the call passed, or may be made again."""
    match answer.result:
        case EvictionResult.GONE:
            return StepResult(status="unchanged", reason="gone already")
        case EvictionResult.LEAVING:
            return StepResult(
                status="unchanged", reason="its namespace is being deleted, and it goes anyway"
            )
        case EvictionResult.REPLACED:
            return StepResult(
                status="unchanged",
                reason="gone already; another pod has its name now. Its budget may be held "
                "for two minutes",
            )
        case EvictionResult.SEVERAL_BUDGETS:
            return StepResult(
                status="refused",
                reason="more than one PodDisruptionBudget selects it, and the API then refuses "
                "every eviction; edit their selectors so that one is left",
                detail={"status": answer.status},
                exit_code=ExitCode.REFUSED,
            )
    return None


def until_words(pod: Pod) -> str:
    """By when a terminating pod is gone, as a clause."""
    at = pod.metadata.deletion_timestamp
    return "" if at is None else f", to be gone by {at:%H:%M:%SZ}"


def by_budget(text: str, detail: dict[str, DetailValue] | None) -> StepResult:
    """A disruption budget says no."""
    return StepResult(
        status="refused", reason=text, detail=detail or {}, exit_code=ExitCode.REFUSED
    )


def forbidden(exc: ForbiddenError) -> StepResult:
    """A right is missing: no other pod would fare better."""
    parts = [exc.what, exc.cause or "", exc.hint or ""]
    return StepResult(
        status="failed",
        reason="; ".join(part for part in parts if part),
        detail={"rbac_rule": exc.rule},
        exit_code=ExitCode.BACKEND,
        ends_run=True,
    )


def unknown(why: str) -> StepResult:
    """An answer was lost, and with it what became of the pod."""
    return StepResult(
        status="unknown",
        reason=f"whether it was evicted is not known: {why}",
        exit_code=ExitCode.BACKEND,
    )


def no_time(why: str, conduct: Conduct, detail: dict[str, DetailValue] | None = None) -> StepResult:
    """Given up while waiting, with nothing evicted."""
    interruption = conduct.patience.interruption
    if interruption.is_requested:
        return StepResult(
            status="interrupted",
            reason=f"{NOTHING}: {interruption.signal_name} came while waiting: {why}",
        )
    return StepResult(
        status="refused",
        reason=f"{NOTHING}: the time (--timeout) does not suffice to wait: {why}",
        detail=detail or {},
        exit_code=ExitCode.TIMEOUT,
    )

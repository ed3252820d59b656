"""The API's refusals as errors: what was asked, what it said, and which right is missing."""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from gpuctl.clients.faults import shortened
from gpuctl.clients.http import Answer
from gpuctl.clients.kubernetes.meta import Status
from gpuctl.errors import BackendError

_ANONYMOUS = "system:anonymous"
_BUDGET = "DisruptionBudget"


@dataclass(frozen=True, slots=True)
class Access:
    """What a request does, in the terms of RBAC. `namespace` None: the whole cluster."""

    verb: str
    resource: str
    group: str = ""
    namespace: str | None = None

    @property
    def rule(self) -> str:
        """The line for a Role or ClusterRole that allows it."""
        group = f'"{self.group}"' if not self.group else self.group
        return f"{{apiGroups: [{group}], resources: [{self.resource}], verbs: [{self.verb}]}}"

    def __str__(self) -> str:
        """`list pods in every namespace`."""
        if self.resource in ("nodes", "priorityclasses", "selfsubjectaccessreviews"):
            return f"{self.verb} {self.resource}"
        where = "every namespace" if self.namespace is None else f"namespace {self.namespace}"
        return f"{self.verb} {self.resource} in {where}"


class ApiRefusedError(BackendError):
    """The API answered, and not with what was asked for.

    `status` is HTTP's, `reason` Kubernetes' ("" when it gave none), `message` its own text.
    """

    def __init__(
        self, what: str, *, answer: Answer, said: Status | None, cause: str, hint: str | None = None
    ) -> None:
        super().__init__(what, cause=cause, hint=hint)
        self.status = answer.status
        self.reason = said.reason if said else ""
        self.message = said.message if said else ""


class NotFoundError(ApiRefusedError):
    """There is no such object, or no such namespace."""


class ConflictError(ApiRefusedError):
    """The object exists already, or it changed since it was read."""


class GoneError(ApiRefusedError):
    """A list or watch went on from a state that the server has forgotten."""


class ForbiddenError(ApiRefusedError):
    """A right is missing. `rule` is the RBAC rule to add, None for an anonymous user."""

    rule: str | None = None


class OverloadedError(ApiRefusedError):
    """The server protects itself; it says nothing about what was asked."""

    retry_after_seconds: float | None = None


class AnswerLostError(BackendError):
    """A write was sent and its answer never came: ask the cluster what became of it."""


def status_of(answer: Answer) -> Status | None:
    """The API's own report; None for what is not one: overload, a proxy's page, a success."""
    try:
        said = msgspec.json.decode(answer.body, type=Status)
    except msgspec.DecodeError:
        return None
    return said if said.kind == "Status" else None


def retry_after(answer: Answer, said: Status | None) -> float | None:
    """Seconds that the server asks to wait."""
    text = answer.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    if said is not None and said.details.retry_after_seconds is not None:
        return float(said.details.retry_after_seconds)
    return None


def refusal(answer: Answer, access: Access, server: str, who: str) -> ApiRefusedError:
    """The error that an answer with a status of 300 or more stands for."""
    said = status_of(answer)
    if said is None and answer.status not in (401, 429):
        return _not_kubernetes(answer, server)
    text = shortened(said.message, 500) if said and said.message else ""
    match answer.status:
        case 401:
            return ApiRefusedError(
                f"{server} does not accept the credentials",
                answer=answer,
                said=said,
                cause=f"HTTP 401 for {who}, also after they were loaded anew: expired or revoked",
                hint="log in again; kubectl get nodes with the same kubeconfig has to work",
            )
        case 403:
            return _forbidden(answer, said, access, server, who, text)
        case 404:
            return NotFoundError(f"can't {access}: not found", answer=answer, said=said, cause=text)
        case 409:
            return ConflictError(
                f"can't {access}: it changed meanwhile", answer=answer, said=said, cause=text
            )
        case 410:
            return GoneError(
                f"can't {access}: the list changed faster than it could be read",
                answer=answer,
                said=said,
                cause=text,
                hint="try again; if it stays, the API server keeps too little history",
            )
        case 429:
            return _overloaded(answer, said, access, server)
    return ApiRefusedError(
        f"can't {access}: HTTP {answer.status}",
        answer=answer,
        said=said,
        cause=text or "no reason given",
        hint="a bug in gpuctl, please report it" if answer.status in (400, 415, 422) else None,
    )


def _forbidden(
    answer: Answer, said: Status | None, access: Access, server: str, who: str, text: str
) -> ForbiddenError:
    if _ANONYMOUS in text:
        return ForbiddenError(
            f"{server} takes gpuctl for an anonymous user",
            answer=answer,
            said=said,
            cause=f"no credentials reached it, though they should come from {who}",
            hint="check the user in the kubeconfig, and proxies that drop the Authorization header",
        )
    error = ForbiddenError(
        f"no right to {access}",
        answer=answer,
        said=said,
        cause=text or "HTTP 403",
        hint=f"add to its role: {access.rule}",
    )
    error.rule = access.rule
    return error


def _overloaded(
    answer: Answer, said: Status | None, access: Access, server: str
) -> OverloadedError:
    error = OverloadedError(
        f"{server} is overloaded",
        answer=answer,
        said=said,
        cause=f"HTTP 429 on {access}" + (f", {answer.gave_up}" if answer.gave_up else ""),
        hint="try again later; it limits how much one user may ask",
    )
    error.retry_after_seconds = retry_after(answer, said)
    return error


def _not_kubernetes(answer: Answer, server: str) -> ApiRefusedError:
    kind = "a web page" if answer.is_html else answer.content_type or "something unknown"
    gave_up = f", {answer.gave_up}" if answer.gave_up else ""
    return ApiRefusedError(
        f"{server} does not answer as a Kubernetes API",
        answer=answer,
        said=None,
        cause=f"HTTP {answer.status} with {kind}: {_beginning(answer)}{gave_up}",
        hint="check the server in the kubeconfig, and for a proxy or login page in between",
    )


def nonsense(answer: Answer, access: Access, server: str, why: str) -> BackendError:
    """A success whose body can't be read."""
    if answer.is_html:
        return _not_kubernetes(answer, server)
    return BackendError(
        f"the answer of {server} on {access} can't be read",
        cause=f"{shortened(why, 200)} ({len(answer.body)} bytes)",
        hint="cut off on the way by a proxy, or not a Kubernetes API",
    )


def _beginning(answer: Answer) -> str:
    text = answer.body[:2000].decode(errors="replace")
    if answer.is_html:
        title = re.search(r"<title[^>]*>(.*?)</title>", text, re.S | re.I)
        text = title[1] if title else "without a title"
    return shortened(text, 120) or "an empty body"


def is_budget_refusal(said: Status | None) -> bool:
    """Whether a 429 comes from a disruption budget and not from an overloaded server."""
    return said is not None and any(said.causes(_BUDGET))


def budget_cause(said: Status) -> str:
    """The sentence that names the budget and its numbers."""
    return next((cause.message for cause in said.causes(_BUDGET)), "")

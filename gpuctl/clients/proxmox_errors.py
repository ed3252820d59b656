"""Answers of the Proxmox VE API that are no answers: their family, what they mean, what to do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gpuctl.clients import faults
from gpuctl.errors import BackendError


class Trouble(StrEnum):
    """Families of failures; callers decide by these and never by texts.

    - auth, denied, parameters: the API knows us not, lets us not, understands us not
    - locked, no-quorum, not-online, replicated, storage-missing, unknown-target: refusals of a call
    - not-here: no such VM, or on another node than the one asked, or it has just moved
    - unknown-node: the node in the path does not exist
    - no-such-task: asked on another node than its own, or rotated away
    - not-implemented: this release has no such call
    - node-unreachable, node-silent, node-trouble: the endpoint answers, the node behind it does not
    - unreachable, no-answer, dropped, gateway, tls, not-proxmox, cut-off: the endpoint itself
    """

    AUTH = "auth"
    DENIED = "denied"
    PARAMETERS = "parameters"
    LOCKED = "locked"
    NO_QUORUM = "no-quorum"
    NOT_ONLINE = "not-online"
    REPLICATED = "replicated"
    STORAGE_MISSING = "storage-missing"
    UNKNOWN_TARGET = "unknown-target"
    NOT_HERE = "not-here"
    UNKNOWN_NODE = "unknown-node"
    NO_SUCH_TASK = "no-such-task"
    NOT_IMPLEMENTED = "not-implemented"
    NODE_UNREACHABLE = "node-unreachable"
    NODE_SILENT = "node-silent"
    NODE_TROUBLE = "node-trouble"
    UNREACHABLE = "unreachable"
    NO_ANSWER = "no-answer"
    DROPPED = "dropped"
    GATEWAY = "gateway"
    TLS = "tls"
    NOT_PROXMOX = "not-proxmox"
    CUT_OFF = "cut-off"
    OTHER = "other"


#: Another endpoint of the cluster may well answer.
ELSEWHERE = frozenset(
    {
        Trouble.NODE_UNREACHABLE,
        Trouble.NODE_SILENT,
        Trouble.NODE_TROUBLE,
        Trouble.UNREACHABLE,
        Trouble.NO_ANSWER,
        Trouble.DROPPED,
        Trouble.GATEWAY,
        Trouble.TLS,
        Trouble.NOT_PROXMOX,
        Trouble.CUT_OFF,
    }
)
#: The same request may work some seconds later.
PASSING = ELSEWHERE - {Trouble.TLS, Trouble.NOT_PROXMOX}


class ProxmoxError(BackendError):
    """The API is out of reach, or said no.

    `text` is the server's own reason. `may_have_run`: nobody knows whether a write was carried
    out; look among the tasks before it is repeated. `fields` are the parameters that it complains
    about, `lock` the lock of a locked VM, `missing` the path and privilege that a 403 names.
    """

    def __init__(
        self,
        what: str,
        *,
        kind: Trouble,
        cause: str | None = None,
        hint: str | None = None,
        answer: Refusal | None = None,
        may_have_run: bool = False,
    ) -> None:
        super().__init__(what, cause=cause, hint=hint)
        self.kind = kind
        self.may_have_run = may_have_run
        self.status = answer.status if answer else None
        self.text = answer.text if answer else ""
        self.fields: Mapping[str, str] = answer.fields if answer else {}
        self.lock = _locked_by(self.text)
        self.missing = _missing(self.text)
        if len(self.fields) > 1:
            self.details = tuple(f"{name}: {text}" for name, text in self.fields.items())

    @property
    def is_passing(self) -> bool:
        """Whether it is worth asking again later: a line that broke, a node that restarts."""
        return self.kind in PASSING


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer other than 2xx. `text` is the reason phrase, else the body's message."""

    status: int
    text: str
    fields: Mapping[str, str] = field(default_factory=dict)
    is_html: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked of whom, for an error text. `is_write`: it may have changed something."""

    shown: str
    what: str
    token_id: str
    is_write: bool = False


_LOCKED = re.compile(r"VM is locked \((?P<lock>[^)]*)\)")
_MISSING = re.compile(r"Permission check failed \((?P<path>/[^,]*), (?P<right>[^)]+)\)")
_FAMILIES: tuple[tuple[Trouble, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        (Trouble.LOCKED, r"VM is locked|can't lock file"),
        (Trouble.NO_QUORUM, r"no quorum"),
        (Trouble.NOT_ONLINE, r"can't migrate running VM without --online"),
        (Trouble.REPLICATED, r"replicated VM"),
        (Trouble.STORAGE_MISSING, r"storage '.*' is not available on node|storage '.*' does not"),
        (Trouble.UNKNOWN_TARGET, r"no such cluster node"),
        (Trouble.NOT_HERE, r"Configuration file '.*' does not exist"),
        (Trouble.UNKNOWN_NODE, r"hostname lookup '.*' failed"),
    )
)
_HINTS: Mapping[Trouble, str] = {
    Trouble.LOCKED: "wait for the job that holds it; if none runs any more, look at the VM's "
    "tasks first and only then use `qm unlock` on its node",
    Trouble.NO_QUORUM: "a majority of nodes has to be up and see each other: check `pvecm status` "
    "on a node; nothing can be changed before",
    Trouble.NOT_ONLINE: "migrate it online, or shut it down first",
    Trouble.REPLICATED: "take a node that it is replicated to, or remove the replication job",
    Trouble.STORAGE_MISSING: "take another target, or name a storage there with --target-storage",
    Trouble.UNKNOWN_TARGET: "check the node's name: it is the one Proxmox VE shows, not the "
    "Kubernetes node's",
    Trouble.NOT_HERE: "there is no such VM, or it is on another node, or it has just moved: ask "
    "where it is",
    Trouble.UNKNOWN_NODE: "check the node's name as Proxmox VE shows it",
    Trouble.OTHER: "look at the task history and the system log of the node",
}


def kind_of(answer: Refusal) -> Trouble:
    """The family of an answer, by status first and by the server's words where status is 500."""
    match answer.status:
        case 400 if answer.fields.get("upid") == "no such task":
            return Trouble.NO_SUCH_TASK
        case 400:
            return Trouble.PARAMETERS
        case 401:
            return Trouble.AUTH
        case 403:
            return Trouble.DENIED
        case 501:
            return Trouble.NOT_IMPLEMENTED
        case 595:
            return Trouble.NODE_UNREACHABLE
        case 596:
            return Trouble.NODE_SILENT
        case 597 | 598 | 599:
            return Trouble.NODE_TROUBLE
        case 502 | 503 | 504:
            return Trouble.GATEWAY
        case _:
            pass
    if answer.is_html or 300 <= answer.status < 400 or answer.status == 404:
        return Trouble.NOT_PROXMOX
    return next((k for k, words in _FAMILIES if words.search(answer.text)), Trouble.OTHER)


def refusal_error(answer: Refusal, asked: Asked) -> ProxmoxError:
    """What an answer other than 2xx means."""
    kind = kind_of(answer)
    text = faults.shortened(answer.text) or f"HTTP {answer.status} without a reason"
    match kind:
        case Trouble.AUTH:
            what, cause, hint = _unknown_token(text, asked)
        case Trouble.DENIED:
            what, cause, hint = _denied(text, asked)
        case Trouble.PARAMETERS | Trouble.NO_SUCH_TASK:
            what, cause, hint = _bad_parameters(answer, asked)
        case Trouble.NOT_IMPLEMENTED:
            what = f"{asked.shown} can't {asked.what}"
            cause = f"this release of Proxmox VE has no such call: {text}"
            hint = "check the version of that node: gpuctl reads releases 7, 8 and 9"
        case Trouble.NODE_UNREACHABLE | Trouble.NODE_SILENT | Trouble.NODE_TROUBLE:
            what, cause, hint = _node_trouble(kind, answer.status, text, asked)
        case Trouble.NOT_PROXMOX:
            return not_proxmox_error(asked, f"HTTP {answer.status}", may_have_run=False)
        case Trouble.GATEWAY:
            what = f"{asked.shown} is not available (HTTP {answer.status})"
            cause = f"a proxy in front has no answer from Proxmox VE: {text}"
            hint = "check pveproxy on that node, or use an endpoint without the proxy"
        case _:
            what = f"Proxmox VE can't {asked.what}"
            cause = f"{asked.shown} says: {text}"
            hint = _HINTS[kind]
    # A request that never reached its node has changed nothing; one that got no answer may have.
    lost = kind in {Trouble.NODE_SILENT, Trouble.NODE_TROUBLE} or answer.status in (502, 504)
    return ProxmoxError(
        what,
        kind=kind,
        cause=cause,
        hint=hint,
        answer=answer,
        may_have_run=asked.is_write and lost,
    )


def not_proxmox_error(asked: Asked, saw: str, *, may_have_run: bool | None = None) -> ProxmoxError:
    """Something else answers at that address: a login page, another service."""
    return ProxmoxError(
        f"{asked.shown} does not answer like Proxmox VE",
        kind=Trouble.NOT_PROXMOX,
        cause=f"{saw}: a web page or another service, not the API",
        hint="proxmox.endpoints needs the address of a node, such as https://pve-1:8006",
        may_have_run=asked.is_write if may_have_run is None else may_have_run,
    )


def cut_off_error(asked: Asked, saw: str) -> ProxmoxError:
    """Only a part of an answer came; a part of the VMs must not pass for all of them."""
    plain = faults.cut_off_error(asked.shown, saw)
    return ProxmoxError(
        plain.what,
        kind=Trouble.CUT_OFF,
        cause=plain.cause,
        hint=plain.hint,
        may_have_run=asked.is_write,
    )


def _unknown_token(text: str, asked: Asked) -> tuple[str, str, str]:
    return (
        f"{asked.shown} does not accept the token {asked.token_id}",
        f"it says: {text}",
        "the secret is wrong, or the token has expired or was removed: check it with "
        f"`pveum user token list {asked.token_id.partition('!')[0]}`, and proxmox.token_file",
    )


def _denied(text: str, asked: Asked) -> tuple[str, str, str]:
    missing = _missing(text)
    what = f"the token {asked.token_id} may not {asked.what}"
    if missing is None:
        return what, f"{asked.shown} says: {text}", "see gpuctl export pve-role for the rights"
    path, right = missing
    return (
        what,
        f"it lacks {right} on {path}",
        f"grant it: pveum acl modify {path} --tokens '{asked.token_id}' --roles ROLE, with a role "
        f"that has {right}; the token's user needs it as well; see gpuctl export pve-role",
    )


def _bad_parameters(answer: Refusal, asked: Asked) -> tuple[str, str, str]:
    named = [f"{name}: {faults.shortened(text)}" for name, text in answer.fields.items()]
    cause = "; ".join(named) or faults.shortened(answer.text) or "it does not say which"
    hint = "check these values"
    if answer.fields.get("upid") == "no such task":
        hint = "ask on the node in the UPID; the log of an old task may be rotated away"
    elif any("Only root" in text for text in answer.fields.values()):
        hint = "leave the option out: no API token may use it, not even one of root@pam"
    elif any("not defined in schema" in text for text in answer.fields.values()):
        hint = "this release of Proxmox VE does not know the parameter"
    return f"Proxmox VE refuses to {asked.what}", cause, hint


def _node_trouble(kind: Trouble, status: int, text: str, asked: Asked) -> tuple[str, str, str]:
    if kind is Trouble.NODE_UNREACHABLE:
        return (
            f"can't {asked.what}: the node is out of reach",
            f"{asked.shown} can't connect to it (HTTP {status}): {text}",
            "check that the node is up and that pveproxy runs on it",
        )
    return (
        f"can't {asked.what}: the node does not answer",
        f"{asked.shown} waited for it (HTTP {status}): {text}",
        "the node is overloaded or has just gone; ask again in some seconds",
    )


def _locked_by(text: str) -> str | None:
    found = _LOCKED.search(text)
    return found.group("lock") if found else None


def _missing(text: str) -> tuple[str, str] | None:
    found = _MISSING.search(text)
    return (found.group("path"), found.group("right")) if found else None

"""The Kubernetes rights of gpuctl as manifests: least privilege, each rule with its reason.

The rules are what the commands really ask for. A test runs the commands with them alone, and
again without each of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from gpuctl.errors import UsageError

#: Objects that gpuctl keeps in its own namespace.
LEASE = "gpuctl-run"
INTENTS = "gpuctl-intents"

_API = "rbac.authorization.k8s.io"
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LONGEST_LABEL = 63


class Purpose(StrEnum):
    """What an account is for; each has the rights of those above it."""

    VIEWS = "views"
    EVICT = "evict"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Rule:
    """One RBAC rule. `names`: only on objects of these names, all when empty."""

    why: str
    resource: str
    verbs: tuple[str, ...]
    group: str = ""
    names: tuple[str, ...] = ()

    def yaml(self) -> str:
        """The rule as one item of a role's list."""
        names = f", resourceNames: [{', '.join(self.names)}]" if self.names else ""
        group = self.group or '""'
        return (
            f"  # {self.why}\n"
            f"  - {{apiGroups: [{group}], resources: [{self.resource}]{names}, "
            f"verbs: [{', '.join(self.verbs)}]}}\n"
        )


VIEW_RULES = (
    Rule("which nodes there are, and what they offer", "nodes", ("list",)),
    Rule("who runs on which GPU", "pods", ("list",)),
    Rule("a pod's Deployment instead of its ReplicaSet", "replicasets", ("list",), "apps"),
)
EVICT_RULES = (
    Rule("the eviction itself; no delete on pods", "pods/eviction", ("create",)),
    Rule("the pod just before it is evicted, and afterwards", "pods", ("get",)),
    Rule(
        "foresees what a disruption budget forbids, and tells its numbers",
        "poddisruptionbudgets",
        ("get", "list"),
        "policy",
    ),
    Rule(
        "--soft-taint and --cordon; leave it out where neither is used. RBAC can't narrow it to "
        "taints",
        "nodes",
        ("get", "patch"),
    ),
    Rule(
        "an Event on each evicted pod and its owner; optional",
        "events",
        ("create",),
        "events.k8s.io",
    ),
)
LEASE_RULES = (
    Rule(
        "one acting run at a time in the whole cluster",
        "leases",
        ("get", "update"),
        "coordination.k8s.io",
        (LEASE,),
    ),
    Rule(
        "its first run; a create can't be limited to a name",
        "leases",
        ("create",),
        "coordination.k8s.io",
    ),
)
INTENT_RULES = (
    Rule(
        "where evicted pods should land, for the scheduler extender",
        "configmaps",
        ("get", "update"),
        names=(INTENTS,),
    ),
    Rule("its first entry; a create can't be limited to a name", "configmaps", ("create",)),
)


@dataclass(frozen=True, slots=True)
class Account:
    """The service account that gets the rights, and the namespace it shares with the Lease."""

    name: str
    namespace: str

    def __post_init__(self) -> None:
        """Raises UsageError for a name that Kubernetes would refuse."""
        for option, value in (("--service-account", self.name), ("--namespace", self.namespace)):
            if not _LABEL.fullmatch(value):
                raise UsageError(
                    f"{option} {value!r} is no name for Kubernetes",
                    cause=f"small letters, digits and '-' inside, at most {_LONGEST_LABEL} of them",
                )


def cluster_rules(purpose: Purpose) -> tuple[tuple[str, tuple[Rule, ...]], ...]:
    """The ClusterRoles: suffix of the name, and rules."""
    views = ("views", VIEW_RULES)
    return (views,) if purpose is Purpose.VIEWS else (views, ("evict", EVICT_RULES))


def own_rules(purpose: Purpose) -> tuple[Rule, ...]:
    """The rules that hold in gpuctl's own namespace alone."""
    match purpose:
        case Purpose.VIEWS:
            return ()
        case Purpose.EVICT:
            return LEASE_RULES
        case Purpose.ALL:
            return (*LEASE_RULES, *INTENT_RULES)


def rbac_manifests(purpose: Purpose, account: Account) -> str:
    """YAML documents for `kubectl apply -f -`; the same bytes for the same arguments."""
    return _heading(purpose, account) + "".join(f"---\n{one}" for one in _objects(purpose, account))


def _heading(purpose: Purpose, account: Account) -> str:
    own = (
        ""
        if purpose is Purpose.VIEWS
        else f"# The configuration has to name the namespace, too: kubernetes: {{namespace: "
        f"{account.namespace}}}\n"
    )
    return (
        f"# What gpuctl may do in this cluster ({purpose.value}), and nothing more.\n"
        "#   kubectl apply -f FILE\n"
        f"#   kubectl create token {account.name} --namespace {account.namespace}\n"
        "# For people, bind their group in place of the ServiceAccount.\n"
        f"{own}"
    )


def _objects(purpose: Purpose, account: Account) -> Iterator[str]:
    yield f"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {_text(account.namespace)}\n"
    yield f"apiVersion: v1\nkind: ServiceAccount\n{_metadata(account.name, account.namespace)}"
    for suffix, rules in cluster_rules(purpose):
        name = f"{account.name}-{suffix}"
        yield _role("ClusterRole", name, "", rules)
        yield _binding("ClusterRole", name, "", account)
    own = own_rules(purpose)
    if own:
        name = f"{account.name}-own"
        yield _role("Role", name, account.namespace, own)
        yield _binding("Role", name, account.namespace, account)


def _role(kind: str, name: str, namespace: str, rules: Iterable[Rule]) -> str:
    listed = "".join(rule.yaml() for rule in rules)
    return f"apiVersion: {_API}/v1\nkind: {kind}\n{_metadata(name, namespace)}rules:\n{listed}"


def _binding(role: str, name: str, namespace: str, account: Account) -> str:
    return (
        f"apiVersion: {_API}/v1\nkind: {role}Binding\n{_metadata(name, namespace)}"
        f"roleRef:\n  apiGroup: {_API}\n  kind: {role}\n  name: {_text(name)}\n"
        f"subjects:\n  - kind: ServiceAccount\n    name: {_text(account.name)}\n"
        f"    namespace: {_text(account.namespace)}\n"
    )


def _metadata(name: str, namespace: str) -> str:
    inside = f"  namespace: {_text(namespace)}\n" if namespace else ""
    return f"metadata:\n  name: {_text(name)}\n{inside}"


def _text(name: str) -> str:
    """A name that YAML reads as text: unquoted, `123`, `1e3` or `no` would be something else."""
    return name if re.fullmatch(r"[a-z][a-z0-9]*-[-a-z0-9]+|gpuctl", name) else f'"{name}"'

"""The configuration file as a whole, and what its values must be beyond their types.

`RULES` is read by the loader, which names the line of what breaks one, and by the generator of
`schemas/config.json`, so an editor and `gpuctl config check` can't disagree about them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

import msgspec
from msgspec import Struct

from gpuctl.model.policy import WEIGHTS, ClassSelector, Limits, Policy
from gpuctl.model.settings import (
    ContextSettings,
    KubernetesSettings,
    LabelSettings,
    MetricSettings,
    PrometheusSettings,
    ProxmoxSettings,
)
from gpuctl.model.urls import redact_url, url_problem

STRATEGIES = ("least-loaded", "headroom", "pack", "fragmentation", "simple")
WORKLOAD_LABELS = ("auto", "exported", "plain")
METRIC_FAMILIES = (
    "utilization",
    "engine_active",
    "memory_used",
    "memory_free",
    "memory_reserved",
    "memory_total",
    "temperature",
    "power",
    "memory_bandwidth",
    "dram_active",
    "tensor",
    "xid",
)


class SlackSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Where Slack messages go.

    `webhook_file`: file that holds the incoming webhook's URL, which is a secret.
    """

    webhook_file: str | None = None


class PagerDutySettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Where PagerDuty events go.

    `routing_key_file`: file that holds the integration's routing key.
    """

    routing_key_file: str | None = None


class NotifySettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Whom to tell; a service that is not named is not used."""

    slack: SlackSettings | None = None
    pagerduty: PagerDutySettings | None = None


class LoopSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The closed loop.

    `mode`: `off`, `advise` (say what it would do) or `act` (do it within the limits).
    """

    mode: Literal["off", "advise", "act"] = "advise"


class ConfigFile(Struct, frozen=True, forbid_unknown_fields=True):
    """gpuctl's configuration: clusters, and the policy that decisions follow.

    `current_context`: the context to use unless --context or GPUCTL_CONTEXT names another.
    `contexts`: name -> one cluster and how to reach everything about it.
    `policy`: marks, windows, weights and limits.
    `notify`: whom to tell.
    `loop`: the closed loop.
    """

    current_context: str | None = None
    contexts: dict[str, ContextSettings] = msgspec.field(default_factory=dict)
    policy: Policy = Policy()
    notify: NotifySettings = NotifySettings()
    loop: LoopSettings = LoopSettings()


@dataclass(frozen=True, slots=True)
class Rule:
    """What a value must be beyond its type; for lists and mappings, what each item must be.

    `check` gives the complaint, None when the value is fine. `schema` says the same, as far as
    JSON Schema can. `is_path` marks file names, which `~` and the file's folder complete.
    `is_private` marks values that must not be quoted in a message.
    """

    check: Callable[[Any], str | None]
    schema: Mapping[str, Any] = field(default_factory=dict)
    is_path: bool = False
    is_private: bool = False


def printable(text: str, longest: int = 60) -> str:
    """`text` cut to `longest`, control characters escaped: safe for a terminal and a log."""
    cut = text if len(text) <= longest else text[: longest - 1] + "…"
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in cut)


def shown(text: str) -> str:
    """`text` in quotes, fit for a message."""
    return f"'{printable(text)}'"


def _number(low: float, high: float, unit: str = "") -> Rule:
    def check(value: float) -> str | None:
        if math.isfinite(value) and low <= value <= high:
            return None
        return f"{value:g} is outside {low:g}..{high:g}{unit}"

    return Rule(check, {"minimum": low, "maximum": high})


def _at_least(low: int) -> Rule:
    def check(value: float) -> str | None:
        if math.isfinite(value) and value >= low:
            return None
        return f"{value:g} is too low: {low} or more is needed"

    return Rule(check, {"minimum": low})


def _longer_than_zero(value: timedelta) -> str | None:
    return None if value > timedelta(0) else "0 is too short: it must be longer than 0"


def _choice(names: Iterable[str]) -> Rule:
    valid = tuple(names)

    def check(value: str) -> str | None:
        return None if value in valid else one_of(value, valid)

    return Rule(check, {"enum": list(valid)})


def one_of(value: str, valid: Iterable[str]) -> str:
    """The complaint about a name that is not among `valid`, with the nearest one."""
    near = nearest(value, valid)
    guess = f" (did you mean {near}?)" if near else ""
    return f"{shown(value)} is not one of {', '.join(valid)}{guess}"


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """The valid name that `name` was probably meant to be, None when none is close."""
    from difflib import get_close_matches

    matches = get_close_matches(name[:100], list(valid), n=1, cutoff=0.6)
    return matches[0] if matches else None


def _pattern(pattern: str, complaint: str, *, is_private: bool = False) -> Rule:
    compiled = re.compile(pattern)

    def check(value: str) -> str | None:
        if compiled.search(value) and "\n" not in value:
            return None
        return complaint if is_private else f"{shown(value)} {complaint}"

    return Rule(check, {"pattern": pattern}, is_private=is_private)


def _not_blank(value: str) -> str | None:
    return None if value.strip() else "it is empty"


def _exporter(value: str) -> str | None:
    """An exporter is a URL, `host:port` or `@file`; only what can be told apart is checked."""
    if "://" in value:
        return url_problem(value)
    if not value.strip("@") or any(ch.isspace() for ch in value):
        return f"{shown(redact_url(value))} is not a URL, HOST:PORT or @FILE"
    return None


_PERCENT = _number(0, 100, " (percent)")
_COUNT = _at_least(1)
_POSITIVE_DURATION = Rule(_longer_than_zero)
_PATH = Rule(_not_blank, {"minLength": 1}, is_path=True)
_TEXT = Rule(_not_blank, {"minLength": 1})
_URL = Rule(url_problem, {"pattern": "^[Hh][Tt][Tt][Pp][Ss]?://[^/]"})
_VARIABLE = _pattern(
    "^[A-Za-z_][A-Za-z0-9_]*$",
    "this must be the name of an environment variable, not the secret itself",
    is_private=True,
)
_LABEL = _pattern("^[A-Za-z_][A-Za-z0-9_]*$", "is not a label name")
_METRIC = _pattern("^[A-Za-z_:][A-Za-z0-9_:]*$", "is not a metric name")
_FINGERPRINT = _pattern(
    "^([0-9A-Fa-f]{2}:){31}[0-9A-Fa-f]{2}$",
    "is not a SHA-256 fingerprint: 32 bytes in hex with colons, as Proxmox VE shows it",
)
_TOKEN_ID = _pattern(
    "^[^@!=\\s]+@[^@!=\\s]+![^@!=\\s]+$",
    "this must read USER@REALM!TOKENNAME; the token's secret goes into token_file",
    is_private=True,
)
_NAMESPACE = _pattern(
    "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$", "is not the name of a Kubernetes namespace"
)
_HEADER = _pattern("^[^\\r\\n\\u0000]*$", "a header's value must be one line", is_private=True)

RULES: Mapping[type[Struct], Mapping[str, Rule]] = {
    ConfigFile: {"current_context": _TEXT},
    SlackSettings: {"webhook_file": _PATH},
    PagerDutySettings: {"routing_key_file": _PATH},
    ContextSettings: {
        "cluster": _TEXT,
        "exporters": Rule(_exporter, {"minLength": 1}),
    },
    PrometheusSettings: {
        "url": _URL,
        "username": _TEXT,
        "password_file": _PATH,
        "password_env": _VARIABLE,
        "token_file": _PATH,
        "token_env": _VARIABLE,
        "ca_file": _PATH,
        "client_cert": _PATH,
        "client_key": _PATH,
        "headers": _HEADER,
        "selector": _TEXT,
    },
    LabelSettings: {
        "node": _LABEL,
        "node_map": _TEXT,
        "workload": _choice(WORKLOAD_LABELS),
        "aliases": _LABEL,
    },
    MetricSettings: {"aliases": _METRIC},
    KubernetesSettings: {"kubeconfig": _PATH, "context": _TEXT, "namespace": _NAMESPACE},
    ProxmoxSettings: {
        "endpoints": _URL,
        "token_id": _TOKEN_ID,
        "token_file": _PATH,
        "token_env": _VARIABLE,
        "ca_file": _PATH,
        "fingerprint": _FINGERPRINT,
        "fingerprints": _FINGERPRINT,
        "kubernetes_nodes": _TEXT,
    },
    ClassSelector: {"pods": _TEXT, "vm_tags": _TEXT},
    Limits: {
        "moves_per_run": _COUNT,
        "moves_per_hour": _COUNT,
        "parallel": _COUNT,
        "per_node": _COUNT,
        "metrics_max_age": _POSITIVE_DURATION,
        "min_coverage": _PERCENT,
    },
    Policy: {
        "hot_above": _PERCENT,
        "hot_for": _POSITIVE_DURATION,
        "hot_above_by_profile": _PERCENT,
        "clear_below": _PERCENT,
        "idle_below": _PERCENT,
        "target_spread": _PERCENT,
        "strategy": _choice(STRATEGIES),
        "weights": _at_least(0),
        "critical_priority": _number(-(2**31), 2**31 - 1),
        "protected_namespaces": _TEXT,
    },
}

#: What the keys of a mapping must be, where they are not free.
KEY_RULES: Mapping[type[Struct], Mapping[str, Rule]] = {
    ConfigFile: {
        "contexts": _pattern(
            "^[^\\s\\u0000-\\u001f\\u007f]{1,100}$",
            "is not a context name: 1 to 100 characters without blanks",
        )
    },
    MetricSettings: {"aliases": _choice(METRIC_FAMILIES)},
    Policy: {"weights": _choice(WEIGHTS)},
    LabelSettings: {"aliases": _LABEL},
    ProxmoxSettings: {"kubernetes_nodes": _pattern("^[1-9][0-9]*$", "is not the id of a VM")},
    PrometheusSettings: {
        "headers": _pattern("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$", "is not the name of an HTTP header")
    },
}

#: Keys that people write when they mean to put the secret itself into the file -> what to write.
SECRET_KEYS: Mapping[str, tuple[str, ...]] = {
    "password": ("password_file", "password_env"),
    "token": ("token_file", "token_env"),
    "bearer_token": ("token_file", "token_env"),
    "token_secret": ("token_file", "token_env"),
    "token_value": ("token_file", "token_env"),
    "api_key": ("token_file", "token_env"),
    "secret": ("token_file", "token_env"),
    "webhook": ("webhook_file",),
    "webhook_url": ("webhook_file",),
    "routing_key": ("routing_key_file",),
    "integration_key": ("routing_key_file",),
}

"""Settings that are each fine and contradict one another, or are dangerous."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from gpuctl.model.durations import format_duration
from gpuctl.model.policy import Policy
from gpuctl.model.settings import (
    ContextSettings,
    KubernetesSettings,
    PrometheusSettings,
    ProxmoxSettings,
)
from gpuctl.model.urls import has_user_info, redact_url

#: Headers that are credentials by definition; there are settings for those.
_CREDENTIAL_HEADERS = ("authorization", "proxy-authorization", "cookie")


@dataclass(frozen=True, slots=True)
class Finding:
    """What does not fit. `keys` are the settings involved, the one to point at first.

    `fatal` ones make the configuration invalid, the others are warnings.
    """

    keys: tuple[str, ...]
    message: str
    hint: str | None = None
    fatal: bool = False


def policy_findings(policy: Policy) -> Iterator[Finding]:
    """What is odd about the policy."""
    if policy.idle_below >= policy.hot_above:
        yield Finding(
            ("policy.idle_below", "policy.hot_above"),
            f"policy.idle_below is {policy.idle_below:g} and policy.hot_above is"
            f" {policy.hot_above:g}: idle_below must be lower",
            fatal=True,
        )
    for profile, mark in policy.hot_above_by_profile.items():
        if policy.idle_below >= mark:
            yield Finding(
                ("policy.hot_above_by_profile", "policy.idle_below"),
                f"policy.hot_above_by_profile.{profile} is {mark:g} and policy.idle_below is"
                f" {policy.idle_below:g}: idle_below must be lower",
                fatal=True,
            )
    limits = policy.limits
    if limits.metrics_max_age > policy.hot_for:
        yield Finding(
            ("policy.limits.metrics_max_age", "policy.hot_for"),
            f"policy.limits.metrics_max_age ({format_duration(limits.metrics_max_age)}) is longer"
            f" than policy.hot_for ({format_duration(policy.hot_for)}): a GPU could be judged on"
            " samples from before the window",
        )
    if limits.moves_per_run > limits.moves_per_hour:
        yield Finding(
            ("policy.limits.moves_per_run", "policy.limits.moves_per_hour"),
            f"policy.limits.moves_per_run ({limits.moves_per_run}) is more than"
            f" policy.limits.moves_per_hour ({limits.moves_per_hour}):"
            " the hourly limit comes first",
        )
    if limits.per_node > limits.parallel:
        yield Finding(
            ("policy.limits.per_node", "policy.limits.parallel"),
            f"policy.limits.per_node ({limits.per_node}) is more than policy.limits.parallel"
            f" ({limits.parallel}): the lower one counts",
        )


def context_findings(context: ContextSettings) -> Iterator[Finding]:
    """What is odd about the settings of one cluster."""
    yield from _prometheus_findings(context.prometheus)
    if context.kubernetes is not None:
        yield from _kubernetes_findings(context.kubernetes)
    if context.proxmox is not None:
        yield from _proxmox_findings(context.proxmox)


def _prometheus_findings(prometheus: PrometheusSettings) -> Iterator[Finding]:
    credentials = _credentials(prometheus)
    if len(credentials) > 1:
        yield Finding(
            tuple(f"prometheus.{key}" for key in credentials),
            f"prometheus: {' and '.join(credentials)} are set; only one can be sent",
            "keep one of them",
            fatal=True,
        )
    password = prometheus.password_file or prometheus.password_env
    if password and not prometheus.username:
        key = "password_file" if prometheus.password_file else "password_env"
        yield Finding(
            (f"prometheus.{key}",),
            f"prometheus.{key} is set without prometheus.username",
            "add username, or use token_file for a bearer token",
            fatal=True,
        )
    if prometheus.username and not password:
        yield Finding(
            ("prometheus.username",),
            "prometheus.username is set without a password: it is sent with an empty one",
            "add password_file or password_env",
        )
    if prometheus.client_key and not prometheus.client_cert:
        yield Finding(
            ("prometheus.client_key",),
            "prometheus.client_key is set without prometheus.client_cert",
            "add client_cert",
            fatal=True,
        )
    for name in prometheus.headers:
        if name.lower() in _CREDENTIAL_HEADERS:
            yield Finding(
                (f"prometheus.headers.{name}",),
                f"prometheus.headers.{name}: a secret must not stand in this file",
                "put it into a file of mode 0600 and name that: token_file, or username and"
                " password_file",
                fatal=True,
            )
    yield from _transport_findings(prometheus, bool(credentials))


def _credentials(prometheus: PrometheusSettings) -> list[str]:
    """The settings that each say how to log in, in the order of the struct."""
    found = [
        key
        for key in ("password_file", "password_env", "token_file", "token_env")
        if getattr(prometheus, key)
    ]
    if prometheus.url and has_user_info(prometheus.url):
        found.insert(0, "url")
    return found


def _transport_findings(prometheus: PrometheusSettings, has_credentials: bool) -> Iterator[Finding]:
    if prometheus.insecure_skip_verify:
        yield Finding(
            ("prometheus.insecure_skip_verify",),
            "prometheus.insecure_skip_verify: TLS CERTIFICATES ARE NOT CHECKED: anybody on the way"
            " can read the credentials and forge the metrics",
            "name the server's CA in ca_file instead",
        )
        if prometheus.ca_file:
            yield Finding(
                ("prometheus.ca_file", "prometheus.insecure_skip_verify"),
                "prometheus.ca_file has no effect under insecure_skip_verify",
                "remove insecure_skip_verify",
            )
    if not prometheus.url:
        return
    parts = urlsplit(prometheus.url)
    if parts.scheme.lower() != "http":
        return
    if has_credentials and not _is_loopback(parts.hostname or ""):
        yield Finding(
            ("prometheus.url",),
            f"prometheus.url: credentials go to {redact_url(prometheus.url)} unencrypted",
            "use https",
        )


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _kubernetes_findings(kubernetes: KubernetesSettings) -> Iterator[Finding]:
    if kubernetes.in_cluster and (kubernetes.kubeconfig or kubernetes.context):
        other = "kubeconfig" if kubernetes.kubeconfig else "context"
        yield Finding(
            ("kubernetes.in_cluster", f"kubernetes.{other}"),
            f"kubernetes.in_cluster and kubernetes.{other} are both set",
            "keep in_cluster inside a pod, kubeconfig elsewhere",
            fatal=True,
        )


def _proxmox_findings(proxmox: ProxmoxSettings) -> Iterator[Finding]:
    if proxmox.token_file and proxmox.token_env:
        yield Finding(
            ("proxmox.token_env", "proxmox.token_file"),
            "proxmox: token_file and token_env are set; only one can be sent",
            "keep one of them",
            fatal=True,
        )
    if not proxmox.endpoints:
        yield Finding(
            ("proxmox", "proxmox.endpoints"),
            "proxmox.endpoints is empty: there are no VMs without one",
            "add for example https://pve-1:8006",
        )
    elif not proxmox.token_id or not (proxmox.token_file or proxmox.token_env):
        missing = "token_file or token_env" if proxmox.token_id else "token_id"
        yield Finding(
            ("proxmox", "proxmox.endpoints"),
            f"proxmox has no {missing}: Proxmox VE answers nothing without a token",
            f"add {missing}",
        )
    for endpoint in proxmox.endpoints:
        if has_user_info(endpoint):
            yield Finding(
                ("proxmox.endpoints",),
                f"proxmox.endpoints: the user info in {redact_url(endpoint)} is not used",
                "log in with token_id and token_file",
            )

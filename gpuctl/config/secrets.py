"""Who else can read the files with secrets. Looks at modes only and never opens one."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from gpuctl.config.document import Document
from gpuctl.config.resolve import Resolved, is_secret_header
from gpuctl.model.settings import ContextSettings
from gpuctl.model.urls import has_user_info


def secret_files(resolved: Resolved) -> Iterator[tuple[str, str]]:
    """Key and path of each file with a secret that the settings in force name."""
    prometheus, proxmox = resolved.context.prometheus, resolved.context.proxmox
    slack, pagerduty = resolved.notify.slack, resolved.notify.pagerduty
    named = (
        ("prometheus.password_file", prometheus.password_file),
        ("prometheus.token_file", prometheus.token_file),
        ("prometheus.client_key", prometheus.client_key),
        ("proxmox.token_file", proxmox.token_file if proxmox else None),
        ("notify.slack.webhook_file", slack.webhook_file if slack else None),
        ("notify.pagerduty.routing_key_file", pagerduty.routing_key_file if pagerduty else None),
    )
    return ((key, path) for key, path in named if path)


def secret_file_warnings(resolved: Resolved) -> Iterator[str]:
    """What is wrong with the modes of those files. A missing one is left to who needs it."""
    for key, path in secret_files(resolved):
        try:
            mode = os.stat(path).st_mode
        except (OSError, ValueError):
            continue
        if stat.S_ISREG(mode) and mode & stat.S_IROTH:
            yield f"{key}: {path} can be read by every user of this machine (chmod 600 {path})"


def missing_secret_files(resolved: Resolved) -> Iterator[str]:
    """The files with secrets that do not exist or can't be looked at."""
    for key, path in secret_files(resolved):
        try:
            os.stat(path)
        except (OSError, ValueError) as exc:
            reason = getattr(exc, "strerror", None) or str(exc)
            yield f"{key}: {path}: {reason.lower()}"


def config_file_warnings(document: Document) -> Iterator[str]:
    """What is wrong with the mode of the configuration file itself."""
    mode, path = document.file.mode, document.file.path
    if mode is None:
        return
    if mode & stat.S_IWOTH:
        yield f"{path} can be changed by every user of this machine (chmod 600 {path})"
    elif mode & stat.S_IROTH and any(map(_holds_secret, document.config.contexts.values())):
        yield (
            f"{path} holds credentials in a URL or a header and can be read by every user of"
            f" this machine (chmod 600 {path})"
        )


def _holds_secret(context: ContextSettings) -> bool:
    urls = (context.prometheus.url or "", *context.exporters)
    return any(map(has_user_info, urls)) or any(map(is_secret_header, context.prometheus.headers))

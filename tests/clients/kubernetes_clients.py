"""Clients of a fake Kubernetes for tests: quick, without waits, closed after the test."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpuctl.clients.kubernetes.client import KubernetesClient
from gpuctl.model.settings import KubernetesSettings


@contextmanager
def client_of(
    kubeconfig: str, *, context: str | None = None, **more: Any
) -> Iterator[KubernetesClient]:
    """A client that never waits for a retry; `more` are options of KubernetesClient."""
    options: dict[str, Any] = {
        "request_timeout": 20.0,
        "environ": {},
        "sleep": lambda seconds: None,
        "random": lambda: 0.5,
    } | more
    settings = KubernetesSettings(kubeconfig=kubeconfig, context=context)
    with KubernetesClient(settings, **options) as client:
        yield client


def write_kubeconfig(folder: Path, server: str, user: object, **cluster: object) -> str:
    """A kubeconfig with one context, for any server."""
    content = {
        "current-context": "only",
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "only", "context": {"cluster": "c", "user": "u"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(content))
    return str(path)


def script_file(folder: Path, text: str) -> str:
    """An executable shell script."""
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)

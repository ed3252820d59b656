"""Clients of the fake Proxmox VE that never wait, for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from gpuctl.clients.proxmox import ProxmoxClient, ProxmoxError
from gpuctl.model.settings import ProxmoxSettings
from tests.fakes.certificates import CertificateAuthority
from tests.fakes.http_server import ServerTls
from tests.fakes.proxmox import SECRET, TOKEN_ID, FakeProxmox
from tests.fakes.proxmox_state import Cluster, recorded_cluster

OpenCluster = Callable[..., tuple[FakeProxmox, ProxmoxClient]]


@contextmanager
def clusters(authority: CertificateAuthority, tls: ServerTls) -> Iterator[OpenCluster]:
    """Opens fakes with a client each: `open("8.4")`, `open(cluster, count=1)`."""
    with ExitStack() as stack:

        def make(
            cluster: Cluster | str = "9.2", *, settings: dict[str, Any] | None = None, **more: Any
        ) -> tuple[FakeProxmox, ProxmoxClient]:
            state = recorded_cluster(cluster) if isinstance(cluster, str) else cluster
            fake = stack.enter_context(FakeProxmox(state, tls=tls, **more))
            return fake, stack.enter_context(client_of(fake, authority, **(settings or {})))

        yield make


def client_of(fake: FakeProxmox, authority: CertificateAuthority, **more: Any) -> ProxmoxClient:
    """A client whose pauses take no time. Settings and options may be mixed in `more`."""
    options = {name: more.pop(name) for name in ("environ", "deadline", "clock") if name in more}
    wanted: dict[str, Any] = {
        "endpoints": fake.endpoints,
        "token_id": TOKEN_ID,
        "token_env": "PVE_TOKEN",
        "ca_file": authority.cert,
    } | more
    return ProxmoxClient(
        ProxmoxSettings(**wanted),
        **{
            "environ": {"PVE_TOKEN": SECRET},
            "request_timeout": 20,
            "sleep": lambda _: None,
            "random": lambda: 0.5,
        }
        | options,
    )


def says(problem: Any) -> str:
    """Everything that is printed of an error."""
    return f"{problem} | {problem.cause} | {problem.hint}"


def refused(call: Callable[[], object]) -> ProxmoxError:
    """The error of a call that must fail."""
    with pytest.raises(ProxmoxError) as caught:
        call()
    return caught.value

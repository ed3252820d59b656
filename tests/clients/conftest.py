"""What the tests of the clients share: a certificate authority, and quick clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from gpuctl.clients.prometheus import PrometheusClient
from gpuctl.model.settings import PrometheusSettings
from tests.clients.proxmox_clients import OpenCluster, clusters
from tests.fakes.certificates import CertificateAuthority
from tests.fakes.http_server import ServerTls

Connect = Callable[..., PrometheusClient]


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    """A CA that nobody trusts by default."""
    return CertificateAuthority.make(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def slept() -> list[float]:
    """The pauses that the clients of this test wanted to make."""
    return []


@pytest.fixture
def connect(slept: list[float]) -> Iterator[Connect]:
    """Makes clients that never really wait for a retry, and closes them after the test."""
    with ExitStack() as stack:

        def make(url: str, *, options: dict[str, Any] | None = None, **settings: Any) -> Any:
            wanted: dict[str, Any] = {
                "request_timeout": 20.0,
                "environ": {},
                "sleep": slept.append,
                "random": lambda: 0.5,
            } | (options or {})
            client = PrometheusClient(PrometheusSettings(url=url, **settings), **wanted)
            return stack.enter_context(client)

        yield make


@pytest.fixture
def secret_file(tmp_path: Path) -> Callable[[str, str], str]:
    """Writes a secret to a file that only its owner can read."""

    def write(name: str, content: str) -> str:
        path = tmp_path / name
        path.touch(mode=0o600)
        path.write_text(content)
        return str(path)

    return write


@pytest.fixture(scope="session")
def pve_tls(authority: CertificateAuthority) -> ServerTls:
    """The certificate that every node of a fake Proxmox VE shows."""
    pair = authority.issue("pve")
    return ServerTls(pair.cert, pair.key)


@pytest.fixture
def open_pve(authority: CertificateAuthority, pve_tls: ServerTls) -> Iterator[OpenCluster]:
    """Opens fake clusters, each with a client of it."""
    with clusters(authority, pve_tls) as make:
        yield make

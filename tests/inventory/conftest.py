"""What the tests of the inventories share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.proxmox_clients import OpenCluster, clusters
from tests.fakes.certificates import CertificateAuthority
from tests.fakes.http_server import ServerTls


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    """A CA that nobody trusts by default."""
    return CertificateAuthority.make(tmp_path_factory.mktemp("ca"))


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

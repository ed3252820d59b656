"""The token and the certificates of Proxmox VE."""

from __future__ import annotations

import ssl
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from gpuctl.clients.proxmox import MigrateOptions, Trouble
from gpuctl.errors import ConfigError
from tests.clients.proxmox_clients import OpenCluster, client_of, refused, says
from tests.fakes.certificates import CertificateAuthority
from tests.fakes.http_server import FakeServer, Reply, Request, ServerTls
from tests.fakes.proxmox import SECRET, TOKEN_ID, FakeProxmox, Fault

LIVE = MigrateOptions(online=True)
ONE, TWO = "gpu-node-1", "gpu-node-2"


def test_a_token_that_is_not_known(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    fake.secret = "another"
    problem = refused(client.version)
    assert problem.kind is Trouble.AUTH
    assert f"does not accept the token {TOKEN_ID}" in says(problem)
    assert "pveum user token list gpuctl@pve" in says(problem)
    assert SECRET not in says(problem)
    assert len(fake.requests) == 1


@dataclass
class Renewal(Fault):
    """A 401, and a token that was written to the file just then."""

    file: str = ""
    content: str = ""

    def matches(self, request: Request) -> bool:
        is_now = super().matches(request)
        if is_now:
            Path(self.file).write_text(self.content)
        return is_now


@pytest.mark.parametrize("content", ["{secret}\n", "{token}={secret}\n"])
def test_a_token_that_is_replaced_in_the_middle(
    open_pve: OpenCluster,
    authority: CertificateAuthority,
    secret_file: Callable[[str, str], str],
    content: str,
) -> None:
    fake, _ = open_pve()
    path = secret_file("token", content.format(secret="the-old-one", token=TOKEN_ID))
    renewed = content.format(secret=SECRET, token=TOKEN_ID)
    expired = Reply(401, reason="Authentication failed!")
    fake.faults.append(Renewal("POST", "/migrate", expired, file=path, content=renewed))
    with client_of(fake, authority, token_file=path, token_env=None) as client:
        assert client.start_migration(ONE, 104, TWO, LIVE).id == "104"
    assert len(fake.sent("POST")) == 2
    assert len(fake.cluster.tasks) == 1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"endpoints": ()}, "no Proxmox VE is configured"),
        ({"endpoints": ("http://pve:8006",)}, "https only"),
        ({"token_env": None}, "no token"),
        ({"token_env": "MISSING"}, "MISSING is not set"),
        ({"token_id": None}, "token_id is not set"),
        ({"token_id": "other@pve!x", "environ": {"PVE_TOKEN": f"{TOKEN_ID}=abc"}}, "another token"),
        ({"environ": {"PVE_TOKEN": "a b"}}, "blanks"),
        ({"ca_file": "/no/such/file"}, "can't use the CA file"),
    ],
)
def test_settings_that_can_not_work(
    authority: CertificateAuthority, settings: dict[str, Any], words: str
) -> None:
    wanted = {"endpoints": ("https://127.0.0.1:9",)} | settings
    with pytest.raises(ConfigError) as caught:
        client_of(FakeProxmox(count=0), authority, **wanted).version()
    assert words in says(caught.value)
    assert "a b" not in says(caught.value)


def test_the_token_alone_may_say_whose_it_is(
    open_pve: OpenCluster, authority: CertificateAuthority
) -> None:
    fake, _ = open_pve()
    environ = {"PVE_TOKEN": f"PVEAPIToken={TOKEN_ID}={SECRET}"}
    with client_of(fake, authority, token_id=None, environ=environ) as client:
        assert client.version().version == "9.2"
        assert client.token_id == TOKEN_ID


def test_a_server_that_echoes_the_secret(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    fake.fail("GET", "/version", Reply(500, reason=f"bad header {SECRET}"))
    problem = refused(client.version)
    assert SECRET not in says(problem)
    assert "bad header ***" in says(problem)


def fingerprint(tls: ServerTls) -> str:
    der = ssl.PEM_cert_to_DER_cert(Path(tls.cert).read_text())
    return ":".join(f"{byte:02X}" for byte in sha256(der).digest())


def test_a_pinned_certificate(
    open_pve: OpenCluster, authority: CertificateAuthority, pve_tls: ServerTls
) -> None:
    fake, _ = open_pve()
    pinned = {"ca_file": None, "fingerprint": fingerprint(pve_tls)}
    with client_of(fake, authority, **pinned) as client:
        assert client.version().version == "9.2"


def test_a_pin_for_one_host_stands_over_the_general_one(
    open_pve: OpenCluster, authority: CertificateAuthority, pve_tls: ServerTls
) -> None:
    fake, _ = open_pve()
    wrong = ":".join(["AB"] * 32)
    pins = {"fingerprint": wrong, "fingerprints": {"127.0.0.1": fingerprint(pve_tls)}}
    with client_of(fake, authority, ca_file=None, **pins) as client:
        assert client.version().version == "9.2"


@pytest.mark.parametrize("ca", [True, False])
def test_another_certificate_than_the_pinned_one_gets_no_token(
    open_pve: OpenCluster, authority: CertificateAuthority, pve_tls: ServerTls, ca: bool
) -> None:
    fake, _ = open_pve()
    ca_file = authority.cert if ca else None
    pins = {"ca_file": ca_file, "fingerprint": ":".join(["AB"] * 32)}
    with client_of(fake, authority, **pins) as client:
        problem = refused(client.version)
    assert problem.kind is Trouble.TLS
    assert fingerprint(pve_tls) in says(problem)
    assert fake.requests == []


def test_a_ca_that_is_not_trusted(
    open_pve: OpenCluster, authority: CertificateAuthority, tmp_path: Path
) -> None:
    fake, _ = open_pve()
    other = CertificateAuthority.make(tmp_path)
    for ca_file in (None, other.cert):
        with client_of(fake, authority, ca_file=ca_file) as client:
            problem = refused(lambda: client.start_migration(ONE, 104, TWO, LIVE))
        assert problem.kind is Trouble.TLS
        assert "pve-root-ca.pem" in says(problem)
        assert not problem.may_have_run
    assert fake.requests == []


def test_a_certificate_for_another_name(
    open_pve: OpenCluster, authority: CertificateAuthority
) -> None:
    pair = authority.issue("elsewhere", "DNS:elsewhere.example")
    with (
        FakeProxmox(tls=ServerTls(pair.cert, pair.key)) as fake,
        client_of(fake, authority) as client,
    ):
        problem = refused(client.version)
    assert "certificate is for another name" in says(problem)


def test_https_to_a_port_without_tls(
    open_pve: OpenCluster, authority: CertificateAuthority
) -> None:
    fake, _ = open_pve()
    with FakeServer(Reply(400, b"what?")) as plain:
        url = plain.url.replace("http", "https")
        with client_of(fake, authority, endpoints=(url,)) as client:
            problem = refused(client.version)
    assert problem.kind is Trouble.TLS
    assert "does not speak TLS" in says(problem)


def test_the_library_is_loaded_with_the_first_call_and_not_before() -> None:
    code = (
        "import sys, gpuctl.clients.proxmox, gpuctl.inventory.proxmox, gpuctl.inventory.observe;"
        "print(sorted({'proxmoxer', 'requests', 'urllib3', 'kubernetes'} & sys.modules.keys()))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"

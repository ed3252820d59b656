"""Certificates for tests, made by the `openssl` program: a CA and what it signed."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

_EXTENSIONS = """\
subjectAltName = {names}
basicConstraints = CA:FALSE
keyUsage = digitalSignature
extendedKeyUsage = serverAuth, clientAuth
authorityKeyIdentifier = keyid
subjectKeyIdentifier = hash
"""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as files."""

    cert: str
    key: str


@dataclass(frozen=True, slots=True)
class CertificateAuthority:
    """A CA in a directory of its own; `cert` is what clients have to trust."""

    directory: Path
    cert: str

    @classmethod
    def make(cls, directory: Path) -> CertificateAuthority:
        """A new self-signed CA."""
        directory.mkdir(parents=True, exist_ok=True)
        cert, key = directory / "ca.pem", directory / "ca.key"
        _openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-nodes", "-days", "2", "-subj", "/CN=gpuctl test CA"),
            *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),
            *("-keyout", str(key), "-out", str(cert)),
        )
        return cls(directory, str(cert))

    def issue(self, name: str, alt_names: str = "IP:127.0.0.1,DNS:localhost") -> Pair:
        """A certificate for a server or a client, signed by this CA."""
        cert, key, request, extensions = (
            self.directory / f"{name}.{ending}" for ending in ("pem", "key", "csr", "ext")
        )
        extensions.write_text(_EXTENSIONS.format(names=alt_names))
        _openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-subj", f"/CN={name}", "-keyout", str(key), "-out", str(request)),
        )
        _openssl(
            *("x509", "-req", "-in", str(request), "-CA", self.cert, "-days", "2"),
            *("-CAkey", str(self.directory / "ca.key"), "-CAcreateserial"),
            *("-extfile", str(extensions), "-out", str(cert)),
        )
        return Pair(str(cert), str(key))


def _openssl(*args: str) -> None:
    subprocess.run(["openssl", *args], check=True, capture_output=True)

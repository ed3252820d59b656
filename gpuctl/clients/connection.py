"""How a connection is made: addresses, TLS and proxies, decided before a socket is opened."""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from gpuctl.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Address:
    """A URL without its user, and that user (name, password) apart so that it is never shown."""

    scheme: str
    host: str
    port: int | None
    path: str
    query: str
    user_info: tuple[str, str] | None

    def __repr__(self) -> str:
        return f"Address({self.shown})"

    @property
    def _netloc(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """The address for a message: no user, and no query, which may hold a key."""
        return urlunsplit((self.scheme, self._netloc, self.path, "", ""))

    def url(self, path: str = "", query: str = "") -> str:
        """The URL of a path below this one; a prefix and a query of the base are kept."""
        joined = "&".join(part for part in (self.query, query) if part)
        return urlunsplit(
            (self.scheme, self._netloc, self.path.rstrip("/") + path or "/", joined, "")
        )


def address(url: str, *, setting: str) -> Address:
    """Take a URL apart; ConfigError names `setting` and never repeats a user or a password."""
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ConfigError(
            f"{setting} is not a URL", cause="its host or port can't be read"
        ) from None
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(
            f"{setting} is not a URL of a web service",
            cause="it has to begin with http:// or https:// and a host",
            hint="for example http://prometheus:9090",
        )
    if not url.strip().isprintable() or " " in url.strip():
        raise ConfigError(f"{setting} is not a URL", cause="it has blanks or worse in it")
    return Address(parts.scheme, host, port, parts.path, parts.query, _user_info(parts))


def _user_info(parts: SplitResult) -> tuple[str, str] | None:
    if parts.username is None and parts.password is None:
        return None
    return unquote(parts.username or ""), unquote(parts.password or "")


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Which certificates to trust and to show. `section` names the settings in messages."""

    ca_file: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    insecure_skip_verify: bool = False
    section: str = "prometheus"

    def context(self) -> ssl.SSLContext:
        """The TLS context; ConfigError when a file is missing or is not what it should be."""
        context = ssl.create_default_context()
        if self.ca_file:
            context = self._with_ca(self.ca_file)
        elif not _has_system_store():
            import certifi

            context.load_verify_locations(certifi.where())
        if self.insecure_skip_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.client_key and not self.client_cert:
            raise ConfigError(f"{self.section}: client_key is set, but not client_cert")
        if self.client_cert:
            self._show_certificate(context, self.client_cert)
        return context

    def _with_ca(self, path: str) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=os.path.expanduser(path))
        except (OSError, ssl.SSLError) as exc:
            raise ConfigError(
                f"can't use the CA file {path}",
                cause=_why(exc, "it holds no certificate in PEM form"),
                hint=f"{self.section}.ca_file names it",
            ) from exc

    def _show_certificate(self, context: ssl.SSLContext, path: str) -> None:
        key = os.path.expanduser(self.client_key) if self.client_key else None
        try:
            # An empty password instead of OpenSSL's own question on the terminal.
            context.load_cert_chain(os.path.expanduser(path), key, password=lambda: b"")
        except (OSError, ssl.SSLError) as exc:
            files = path if self.client_key is None else f"{path} with the key {self.client_key}"
            raise ConfigError(
                f"can't use the client certificate {files}",
                cause=_why(exc, "not a certificate and its key in PEM form without a password"),
                hint=f"{self.section}.client_cert and {self.section}.client_key name them",
            ) from exc


def _has_system_store() -> bool:
    paths = ssl.get_default_verify_paths()
    return bool(paths.cafile or paths.capath)


def _why(exc: OSError, otherwise: str) -> str:
    # An SSLError is an OSError too, but its text is for programmers.
    return otherwise if isinstance(exc, ssl.SSLError) else exc.strerror or otherwise


def proxy_for(target: Address, environ: Mapping[str, str]) -> str | None:
    """The proxy that the environment asks for, None for a direct connection; never for loopback."""
    if _is_loopback(target.host) or _is_excepted(target, environ):
        return None
    for name in (f"{target.scheme}_proxy", "all_proxy"):
        # Servers set HTTP_PROXY from a request's Proxy header under CGI; a command line does not.
        proxy = environ.get(name) or environ.get(name.upper())
        if proxy:
            return proxy if "://" in proxy else f"http://{proxy}"
    return None


def _is_loopback(host: str) -> bool:
    return host == "localhost" or host.endswith(".localhost") or _ip_in(host, "127.0.0.0/8", "::1")


def _is_excepted(target: Address, environ: Mapping[str, str]) -> bool:
    """Whether NO_PROXY names the host: by name, by domain, by address or by network."""
    names = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    host = target.host.lower()
    for raw in names.split(","):
        name = raw.strip().lower()
        if name == "*" or (name and _ip_in(host, name)):
            return True
        bare, _, port = name.rpartition(":") if name.count(":") == 1 else (name, "", "")
        domain = (bare if port else name).lstrip("*").lstrip(".")
        is_port = not port or port == str(target.port or "")
        if domain and is_port and (host == domain or host.endswith("." + domain)):
            return True
    return False


def _ip_in(host: str, *networks: str) -> bool:
    try:
        ip = ipaddress.ip_address(host)
        return any(ip in ipaddress.ip_network(network, strict=False) for network in networks)
    except ValueError:
        return False

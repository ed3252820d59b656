"""proxmoxer, held by a short leash: TLS that is really checked, time limits, and no secrets.

proxmoxer builds URLs, sends the token and raises on status codes. What it lacks is added here: a
pinned fingerprint, no redirects, the body's `total` and `message`, and an error for an answer
that is no JSON, which it would pass on as data.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from gpuctl.clients.connection import Address, TlsSettings, address, proxy_for
from gpuctl.clients.credentials import Credentials
from gpuctl.clients.proxmox_errors import (
    Asked,
    Refusal,
    cut_off_error,
    not_proxmox_error,
    refusal_error,
)
from gpuctl.clients.proxmox_faults import transport_error
from gpuctl.errors import ConfigError
from gpuctl.model.settings import PrometheusSettings, ProxmoxSettings

if TYPE_CHECKING:
    import requests

CONNECT_SECONDS = 5.0
_PORT = 8006


class Envelope(msgspec.Struct, frozen=True):
    """What the API wraps its answers in. `total` only comes with a task's log."""

    data: Any
    total: int | None = None


class _Problem(msgspec.Struct, frozen=True):
    """The body of an error; older releases leave `message` out."""

    message: str | None = None
    errors: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address of the cluster's API, and the certificate it must show."""

    address: Address
    fingerprint: str | None = None

    @property
    def shown(self) -> str:
        """The address for a message."""
        return self.address.shown


def endpoints_of(settings: ProxmoxSettings) -> tuple[Endpoint, ...]:
    """The configured endpoints in their order. Raises ConfigError when there is none."""
    if not settings.endpoints:
        raise ConfigError(
            "no Proxmox VE is configured",
            hint="set proxmox.endpoints in the configuration, for example [https://pve-1:8006]",
        )
    return tuple(_endpoint(url, settings) for url in settings.endpoints)


def _endpoint(url: str, settings: ProxmoxSettings) -> Endpoint:
    where = address(url, setting="proxmox.endpoints")
    if where.scheme != "https":
        raise ConfigError(
            f"{where.shown} can't be an endpoint of Proxmox VE",
            cause="its API speaks https only, and the token must not cross the wire in the clear",
            hint="write https:// in proxmox.endpoints",
        )
    pinned = settings.fingerprints.get(where.host) or settings.fingerprint
    return Endpoint(
        Address("https", where.host, where.port or _PORT, where.path.strip("/"), "", None), pinned
    )


class TokenSecret:
    """The API token, read at the moment of use. Its repr and its errors never show the secret."""

    def __init__(self, settings: ProxmoxSettings, environ: Mapping[str, str]) -> None:
        """Raise ConfigError when the settings don't name a token; the secret is not read yet."""
        if not (settings.token_file or settings.token_env):
            raise ConfigError(
                "proxmox has no token",
                cause="neither token_file nor token_env is set",
                hint="create one with `pveum user token add`, see gpuctl export pve-role",
            )
        self._credentials = Credentials(
            PrometheusSettings(token_file=settings.token_file, token_env=settings.token_env),
            environ,
            section="proxmox",
        )
        self._configured_id = settings.token_id
        self.id = settings.token_id or "(named in the token file)"

    def __repr__(self) -> str:
        return f"TokenSecret({self.id})"

    def read(self) -> tuple[str, str]:
        """`USER@REALM!NAME` and the secret, which may stand behind it as `ID=SECRET`.

        Raises ConfigError when either is missing, or the file is for another token.
        """
        ((_, header),) = self._credentials.headers()
        text = header.decode().removeprefix("Bearer ").removeprefix("PVEAPIToken=")
        named, equals, secret = text.partition("=")
        if not (equals and "@" in named and "!" in named):
            named, secret = "", text
        self._credentials.remember(secret)
        if self._configured_id and named and named != self._configured_id:
            raise ConfigError(
                "the token file is for another token than proxmox.token_id",
                cause=f"token_id is {self._configured_id}, the file is for {named}",
                hint="correct one of them",
            )
        self.id = self._configured_id or named
        if not self.id or "!" not in self.id or "@" not in self.id:
            raise ConfigError(
                "proxmox.token_id is not set",
                cause="the secret alone does not say whose it is",
                hint="set it to USER@REALM!TOKENNAME",
            )
        if not secret.isascii() or not secret.isprintable() or " " in secret or not secret:
            raise ConfigError("the Proxmox VE token has blanks or characters that no token has")
        return self.id, secret

    def scrub(self, text: str) -> str:
        """The text without the secret, for servers that echo what they were sent."""
        return self._credentials.scrub(text)


class Sessions:
    """One requests session per thread and endpoint, as requests wants it."""

    def __init__(
        self, settings: ProxmoxSettings, token: TokenSecret, environ: Mapping[str, str]
    ) -> None:
        self._tls = TlsSettings(settings.ca_file, section="proxmox")
        self._token = token
        self._environ = environ
        self._lock = threading.Lock()
        self._open: dict[tuple[int, Endpoint, str], _Line] = {}
        # Loading CAs takes longer than a call, and every session can share them.
        self._trust: ssl.SSLContext | None = None

    def close(self) -> None:
        """Close every connection of every thread."""
        with self._lock:
            lines, self._open = list(self._open.values()), {}
        for line in lines:
            line.session.close()

    def call(
        self,
        endpoint: Endpoint,
        asked: Asked,
        request: tuple[str, Sequence[str]],
        values: Mapping[str, str | int],
        read_timeout: float,
    ) -> Envelope:
        """One exchange. Raises ProxmoxError for whatever comes back other than an answer."""
        from proxmoxer.core import ResourceException
        from requests.exceptions import RequestException

        method, parts = request
        line = self._line(endpoint)
        # A session belongs to one thread, so nobody else sees this change.
        line.session.auth.timeout = (min(CONNECT_SECONDS, read_timeout), read_timeout)
        try:
            target = line.api([_segment(part) for part in parts])
            answer = getattr(target, method.lower())(**values)
        except ResourceException as exc:
            raise refusal_error(self._refusal(exc), asked) from exc
        except _NotJsonError as exc:
            raise exc.error(asked) from exc
        except RequestException as exc:
            raise transport_error(exc, asked, read_timeout=read_timeout) from exc
        if not isinstance(answer, Envelope):
            raise not_proxmox_error(asked, "it redirects elsewhere", may_have_run=False)
        return answer

    def _line(self, endpoint: Endpoint) -> _Line:
        token_id, secret = self._token.read()
        key = (threading.get_ident(), endpoint, secret)
        with self._lock:
            found = self._open.get(key)
            if found is None:
                proxy = proxy_for(endpoint.address, self._environ)
                found = _open_line(endpoint, self._trusted(endpoint), (token_id, secret), proxy)
                self._open[key] = found
        return found

    def _trusted(self, endpoint: Endpoint) -> dict[str, Any]:
        """What urllib3 checks by: the pinned fingerprint, else the CA file, else public CAs."""
        if endpoint.fingerprint is not None:
            return {"assert_fingerprint": endpoint.fingerprint}
        if self._trust is None:
            self._trust = self._tls.context()
        return {"ssl_context": self._trust}

    def _refusal(self, exc: Any) -> Refusal:
        problem = exc.errors if isinstance(exc.errors, dict) else {}
        reason = str(exc.content or "").strip()
        text = reason if reason and not _is_standard(exc.status_code, reason) else ""
        text = text or str(problem.get("message") or "").strip() or reason
        fields = {
            str(name): self._token.scrub(str(value).strip())
            for name, value in (problem.get("errors") or {}).items()
        }
        return Refusal(
            int(exc.status_code), self._token.scrub(text), fields, bool(problem.get("is_html"))
        )


@dataclass(frozen=True, slots=True)
class _Line:
    session: Any
    api: Any


def _open_line(
    endpoint: Endpoint, trust: dict[str, Any], token: tuple[str, str], proxy: str | None
) -> _Line:
    from proxmoxer.backends.https import Backend
    from proxmoxer.core import ProxmoxResource

    (user, _, name), secret = token[0].partition("!"), token[1]
    where = endpoint.address
    host = f"[{where.host}]" if ":" in where.host else where.host
    backend = Backend(
        host,
        user=user,
        token_name=name,
        token_value=secret,
        port=where.port,
        path_prefix=where.path or None,
        verify_ssl=endpoint.fingerprint is None,
    )
    session = backend.get_session()
    session.trust_env = False
    # A redirected POST would become a GET, and a redirect means a login page anyway.
    session.max_redirects = 0
    if proxy is not None:
        session.proxies = {"https": proxy}
    session.mount("https://", _adapter(trust))
    api = ProxmoxResource(
        base_url=backend.get_base_url(), session=session, serializer=_Serializer()
    )
    return _Line(session, api)


def _adapter(trust: dict[str, Any]) -> requests.adapters.HTTPAdapter:
    """Checks certificates by our rules alone."""
    from requests.adapters import HTTPAdapter

    class Adapter(HTTPAdapter):
        def init_poolmanager(
            self, connections: int, maxsize: int, block: bool = False, **options: Any
        ) -> None:
            super().init_poolmanager(connections, maxsize, block, **options, **trust)

        def proxy_manager_for(self, proxy: Any, **options: Any) -> Any:
            return super().proxy_manager_for(proxy, **options, **trust)

        def build_connection_pool_key_attributes(
            self, request: Any, verify: Any, cert: Any = None
        ) -> Any:
            where, checks = super().build_connection_pool_key_attributes(request, verify, cert)
            # requests would add the public CAs to the ones that were asked for.
            return where, {"cert_reqs": checks.get("cert_reqs", "CERT_REQUIRED")}

        def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
            conn.cert_reqs = "CERT_REQUIRED" if verify else "CERT_NONE"
            conn.ca_certs = conn.ca_cert_dir = None

    return Adapter()


class _NotJsonError(Exception):
    """A 2xx answer that is not the API's."""

    def __init__(self, saw: str, *, is_cut_off: bool) -> None:
        super().__init__(saw)
        self.saw = saw
        self.is_cut_off = is_cut_off

    def error(self, asked: Asked) -> Exception:
        make = cut_off_error if self.is_cut_off else not_proxmox_error
        return make(asked, self.saw)


class _Serializer:
    """In place of proxmoxer's own, which takes any text for an answer."""

    def loads(self, response: requests.Response) -> Envelope:
        body = response.content
        try:
            return msgspec.json.decode(body, type=Envelope)
        except msgspec.DecodeError as exc:
            if _is_html(response):
                raise _NotJsonError("it answers with HTML", is_cut_off=False) from exc
            is_cut_off = not body.strip() or "truncated" in str(exc)
            saw = f"the JSON ends after {len(body)} bytes" if is_cut_off else "it is not its JSON"
            raise _NotJsonError(saw, is_cut_off=is_cut_off) from exc
        except UnicodeDecodeError as exc:
            raise _NotJsonError("it is not text", is_cut_off=False) from exc

    def loads_errors(self, response: requests.Response) -> dict[str, Any]:
        try:
            problem = msgspec.json.decode(response.content, type=_Problem)
        except (msgspec.DecodeError, UnicodeDecodeError):
            problem = _Problem()
        return {
            "message": problem.message,
            "errors": problem.errors,
            "is_html": _is_html(response),
        }


def _is_html(response: requests.Response) -> bool:
    kind = response.headers.get("content-type", "").lower()
    start = response.content[:200].lstrip().lower()
    return "html" in kind or start.startswith((b"<!doctype html", b"<html"))


def _is_standard(status: int, reason: str) -> bool:
    """Whether a gateway has put the status's usual name in place of the server's reason."""
    from http import HTTPStatus

    try:
        return HTTPStatus(status).phrase.lower() == reason.lower()
    except ValueError:
        return False


def _segment(part: str) -> str:
    """One step of a path; an empty one would silently ask for something else."""
    if part in ("", ".", ".."):
        raise ConfigError(f"{part!r} can't be the name of anything in Proxmox VE")
    return quote(part, safe="")

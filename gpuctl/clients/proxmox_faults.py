"""Exceptions of requests on the way to Proxmox VE: was anything sent, and what is broken."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator

from gpuctl.clients import faults
from gpuctl.clients.proxmox_errors import (
    Asked,
    ProxmoxError,
    Trouble,
    cut_off_error,
    not_proxmox_error,
)
from gpuctl.errors import BackendError


def transport_error(exc: Exception, asked: Asked, *, read_timeout: float) -> ProxmoxError:
    """An exception of requests: whether anything was sent, and what is wrong with the line."""
    from requests import exceptions as failed

    reasons = list(_reasons(exc))
    if isinstance(exc, failed.TooManyRedirects):
        return not_proxmox_error(asked, "it redirects elsewhere", may_have_run=False)
    tls = next((r for r in reasons if isinstance(r, ssl.SSLError)), None)
    if tls is not None or isinstance(exc, failed.SSLError):
        return _tls_error(exc, tls, asked)
    if isinstance(exc, failed.ProxyError | failed.InvalidSchema | failed.InvalidURL):
        # The exception's text may hold the proxy's address, perhaps with a password.
        return ProxmoxError(
            f"the proxy on the way to {asked.shown} can't be used",
            kind=Trouble.UNREACHABLE,
            cause=f"it refused, is out of reach or is of an unknown kind ({type(exc).__name__})",
            hint="check HTTPS_PROXY and ALL_PROXY, or add the host to NO_PROXY",
        )
    if isinstance(exc, failed.ConnectTimeout):
        return ProxmoxError(
            f"can't connect to {asked.shown}",
            kind=Trouble.UNREACHABLE,
            cause="no connection within the time limit: the host is down or a firewall drops it",
            hint="check that the node is up, and the way to its port 8006",
        )
    if isinstance(exc, failed.Timeout):
        return ProxmoxError(
            f"{asked.shown} did not answer within {read_timeout:g}s",
            kind=Trouble.NO_ANSWER,
            cause=f"it was asked to {asked.what} and has not answered",
            hint="the node is overloaded or hangs; raise --request-timeout if it is just slow",
            may_have_run=asked.is_write,
        )
    if any(_is_refused_early(reason) for reason in reasons):
        early = next(r for r in reasons if _is_refused_early(r))
        plain = faults.connection_error(asked.shown, _innermost(early, reasons), faults.TlsHints())
        return _passed_on(plain, Trouble.UNREACHABLE, may_have_run=False)
    if isinstance(exc, failed.ChunkedEncodingError | failed.ContentDecodingError):
        return cut_off_error(asked, "the connection closed before the announced end")
    plain = faults.dropped_error(asked.shown, _deepest(reasons), faults.TlsHints())
    return _passed_on(plain, Trouble.DROPPED, may_have_run=asked.is_write)


def _passed_on(plain: BackendError, kind: Trouble, *, may_have_run: bool) -> ProxmoxError:
    return ProxmoxError(
        plain.what, kind=kind, cause=plain.cause, hint=plain.hint, may_have_run=may_have_run
    )


_HINTS_OF_TLS = faults.TlsHints(
    trust="set proxmox.ca_file to a copy of the cluster's /etc/pve/pve-root-ca.pem, or "
    "proxmox.fingerprint to the SHA-256 fingerprint of the node's certificate",
    client="a proxy in front wants a client certificate; use the node's own address",
)


def _tls_error(exc: Exception, tls: ssl.SSLError | None, asked: Asked) -> ProxmoxError:
    """TLS errors come before anything is sent, but for lines that break later."""
    if tls is None:
        seen = re.search(r"Fingerprints did not match.*got \"([0-9a-f]+)\"", str(exc))
        if seen is not None:
            shown = seen.group(1).upper()
            pairs = ":".join(shown[i : i + 2] for i in range(0, len(shown), 2))
            return ProxmoxError(
                f"no secure connection to {asked.shown}",
                kind=Trouble.TLS,
                cause=f"its certificate has another fingerprint than configured: {pairs}",
                hint="each node has its own: if the certificate was renewed, compare with "
                "`pvenode cert info` on that node and correct proxmox.fingerprint or "
                "proxmox.fingerprints",
            )
    plain = faults.connection_error(asked.shown, tls or exc, _HINTS_OF_TLS)
    is_handshake = isinstance(tls, ssl.SSLCertVerificationError)
    return _passed_on(plain, Trouble.TLS, may_have_run=asked.is_write and not is_handshake)


def _reasons(exc: BaseException) -> Iterator[BaseException]:
    """An exception and all that it wraps: urllib3 hides the first cause in arguments."""
    seen: set[int] = set()
    todo: list[BaseException] = [exc]
    while todo:
        one = todo.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        inner = (getattr(one, "reason", None), one.__cause__, one.__context__, *one.args)
        todo += [each for each in inner if isinstance(each, BaseException)]


def _is_refused_early(reason: BaseException) -> bool:
    """Whether it comes from making the connection: nothing can have been sent."""
    if isinstance(reason, socket.gaierror | ConnectionRefusedError):
        return True
    from urllib3.exceptions import NewConnectionError

    return isinstance(reason, NewConnectionError)


def _innermost(early: BaseException, reasons: list[BaseException]) -> Exception:
    known = [r for r in reasons if isinstance(r, socket.gaierror | ConnectionRefusedError)]
    found = known[0] if known else next((r for r in _reasons(early) if _is_os(r)), early)
    return found if isinstance(found, Exception) else OSError(str(found))


def _is_os(reason: BaseException) -> bool:
    return type(reason) is OSError


def _deepest(reasons: list[BaseException]) -> Exception:
    """The system's own error, which says more than the library's around it."""
    of_system = [reason for reason in reasons if isinstance(reason, OSError)]
    return of_system[-1] if of_system else Exception(str(reasons[0]))

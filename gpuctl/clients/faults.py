"""What went wrong on the wire, in the words of the engineer who has to fix it."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass

from gpuctl.errors import BackendError

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]+")
# OpenSSL's X509_V_ERR_* codes.
_EXPIRED, _NOT_YET_VALID, _WRONG_HOST, _WRONG_ADDRESS = 10, 9, 62, 64


@dataclass(frozen=True, slots=True)
class TlsHints:
    """What to advise about certificates; it depends on where the settings of a service are."""

    trust: str = "set ca_file of this service to the file of the CA that signed the certificate"
    client: str = "set client_cert and client_key of this service"


def shortened(text: str, most: int = 300) -> str:
    """Foreign text on one line, without control characters, cut to `most` characters."""
    line = _CONTROL.sub(" ", text).strip()
    line = re.sub(r" {2,}", " ", line)
    return line if len(line) <= most else line[: most - 3].rstrip() + "..."


def connection_error(shown: str, exc: Exception, hints: TlsHints) -> BackendError:
    """An exception of httpx about a connection -> what it means for `shown`, the address."""
    reasons = list(_chain(exc))
    for reason in reasons:
        if isinstance(reason, ssl.SSLError):
            return _tls_error(shown, reason, hints)
        if isinstance(reason, socket.gaierror):
            return BackendError(
                f"can't find the address of {shown}",
                cause=f"name resolution failed: {reason.strerror or 'unknown name'}",
                hint="check the host name in the URL, DNS, and the VPN",
            )
        if isinstance(reason, ConnectionRefusedError):
            return BackendError(
                f"can't connect to {shown}",
                cause="connection refused: nothing listens on that port",
                hint="check that the service runs, and the port in the URL",
            )
    return BackendError(f"can't reach {shown}", cause=_plain(reasons), hint="check the network")


def dropped_error(shown: str, exc: Exception, hints: TlsHints) -> BackendError:
    """The connection was made, and then broke while a request was sent or an answer was read."""
    reasons = list(_chain(exc))
    for reason in reasons:
        if isinstance(reason, ssl.SSLError):
            return _tls_error(shown, reason, hints)
    if "without sending complete" in str(exc) or "incomplete chunked" in str(exc):
        return cut_off_error(shown, "the connection closed before the announced end")
    return BackendError(
        f"{shown} closed the connection before it answered",
        cause=_plain(reasons),
        hint="a server or proxy that restarts does this; look at its log if it stays",
    )


def cut_off_error(shown: str, cause: str) -> BackendError:
    """Only a part of the answer came; a part of a fleet must not pass for all of it."""
    return BackendError(
        f"the answer of {shown} is cut off",
        cause=cause,
        hint="try again; if it stays, look for a size or time limit of a proxy in between",
    )


def garbled_error(shown: str) -> BackendError:
    """The answer says that it is compressed, and is not."""
    return BackendError(
        f"the answer of {shown} can't be unpacked",
        cause="it is marked as gzip, but is not valid gzip",
        hint="a proxy in between is broken",
    )


def is_lasting(exc: Exception) -> bool:
    """Whether the same request half a second later would fail the same way."""
    for reason in _chain(exc):
        if isinstance(reason, socket.gaierror):
            return reason.errno != socket.EAI_AGAIN
        if isinstance(reason, ssl.SSLError):
            return not isinstance(reason, ssl.SSLEOFError | ssl.SSLZeroReturnError)
    return False


def proxy_error(shown: str, exc: Exception) -> BackendError:
    """The proxy of the environment refused; its address may hold a password, so it is not shown."""
    return BackendError(
        f"the proxy on the way to {shown} refused",
        cause=shortened(str(exc)),
        hint="check HTTPS_PROXY and HTTP_PROXY, or add the host to NO_PROXY",
    )


def _tls_error(shown: str, reason: ssl.SSLError, hints: TlsHints) -> BackendError:
    what = f"no secure connection to {shown}"
    if isinstance(reason, ssl.SSLCertVerificationError):
        return _certificate_error(what, reason, hints)
    text = str(reason).lower()
    if "wrong version number" in text or "http request" in text:
        return BackendError(
            what, cause="the other side does not speak TLS", hint="use http:// in the URL"
        )
    if "alert" in text:
        asks = "certificate required" in text or "handshake failure" in text
        detail = "it wants a client certificate" if asks else f"it refused: {reason.reason}"
        return BackendError(what, cause=detail, hint=hints.client)
    return BackendError(
        what, cause=f"TLS failed: {reason.reason or 'the connection ended'}", hint=hints.trust
    )


def _certificate_error(
    what: str, reason: ssl.SSLCertVerificationError, hints: TlsHints
) -> BackendError:
    code = reason.verify_code
    if code in (_WRONG_HOST, _WRONG_ADDRESS):
        return BackendError(
            what,
            cause=f"its certificate is for another name: {shortened(reason.verify_message)}",
            hint="use the name in the certificate, or have one issued for this name",
        )
    if code in (_EXPIRED, _NOT_YET_VALID):
        return BackendError(
            what,
            cause=f"its certificate is not valid now: {reason.verify_message}",
            hint="renew it; or this machine's clock is wrong: check `date`",
        )
    return BackendError(
        what,
        cause=f"its certificate is not signed by a CA that is trusted here: "
        f"{reason.verify_message}",
        hint=hints.trust,
    )


def _chain(exc: BaseException) -> Iterator[BaseException]:
    """An exception and what it came from, outermost first."""
    seen: BaseException | None = exc
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _plain(reasons: list[BaseException]) -> str:
    """The innermost reason that says anything."""
    for reason in reversed(reasons):
        text = getattr(reason, "strerror", None) or str(reason)
        if text:
            return shortened(text)
    return type(reasons[0]).__name__

"""URLs fit to be shown: without the user name and password they may carry."""

from __future__ import annotations

import re

# The authority ends at the first slash, question mark or hash; the last @ in it ends the user
# info. Plain text work on purpose: an error about an unparsable URL has to be redacted as well.
_USER_INFO = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*:)?//[^/?#]*@")
# A password with a bare slash splits the URL in the wrong place: `//me:pa/ss@host` seems to have a
# host "me" with port "pa". No real port is other than digits, so all up to the last @ goes.
_BROKEN_USER_INFO = re.compile(
    r"^([A-Za-z][A-Za-z0-9+.-]*:)?//[^/?#@:\[\]]*:(?!\d*(?:[/?#]|$))[^/?#@]*[/?#].*@"
)
_BARE_USER_INFO = re.compile(r"^[^/?#@\s]+:[^/?#\s]*@")
_SECRET_PARAMETER = re.compile(
    r"([?&][^=&#]*(?:token|key|secret|password|passwd|signature|auth)[^=&#]*=)[^&#]*",
    re.IGNORECASE,
)


def redact_url(url: str) -> str:
    """`url` without user info, and with the values of query parameters that sound secret masked.

    Takes any text, a broken URL too, and never raises: `https://me:pw@host/x` becomes
    `https://host/x`, `me:pw@host:9090` becomes `host:9090`.
    """
    shown = url
    for user_info in (_BROKEN_USER_INFO, _USER_INFO):
        shown = user_info.sub(lambda match: (match.group(1) or "") + "//", shown)
    if shown == url:
        shown = _BARE_USER_INFO.sub("", url)
    return _SECRET_PARAMETER.sub(r"\1***", shown)


def has_user_info(url: str) -> bool:
    """Whether `url` carries a user name or password before its host."""
    return _USER_INFO.match(url) is not None


def url_problem(url: str) -> str | None:
    """Why `url` can't be used as an http(s) address, as the end of a sentence; None when it can.

    The text shows the URL without user info.
    """
    from urllib.parse import urlsplit

    shown = repr(redact_url(url))
    if url != url.strip() or any(ch.isspace() or not ch.isprintable() for ch in url):
        return f"{shown} has blanks or control characters in it"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as exc:
        # urlsplit quotes the offending part, which may be half a password.
        reason = "its port is not a number" if "ort" in str(exc) else "its host is malformed"
        return f"{shown} is not a URL: {reason}"
    if parts.scheme.lower() not in ("http", "https"):
        return f"{shown} must start with http:// or https://"
    if not host:
        return f"{shown} has no host"
    if port == 0:
        return f"{shown} has port 0"
    return None

"""Who we say we are: secrets read at the moment of use, and kept out of every text."""

from __future__ import annotations

import base64
import logging
import os
import re
import stat
from collections.abc import Mapping
from urllib.parse import quote

from gpuctl.errors import ConfigError
from gpuctl.model.settings import PrometheusSettings

log = logging.getLogger(__name__)

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
# Shorter ones would turn ordinary words of a message into asterisks.
_SHORTEST_SECRET = 4
# A tenant is a name, not a secret, and messages about the wrong one have to show it.
_PUBLIC_HEADERS = {"x-scope-orgid"}
# Orchestrators mount secrets there with modes that the reader can't change.
_MOUNTED_SECRETS = ("/var/run/secrets/", "/run/secrets/")


class Credentials:
    """The headers that prove who we are. Its repr and its errors never show a secret."""

    def __init__(
        self,
        settings: PrometheusSettings,
        environ: Mapping[str, str],
        *,
        user_info: tuple[str, str] | None = None,
        section: str = "prometheus",
    ) -> None:
        """Raise ConfigError when the settings contradict each other; secrets are not read yet."""
        self._settings = settings
        self._environ = environ
        self._user_info = user_info
        self._section = section
        # Replaced as a whole, never changed: other threads may be going through it.
        self._secrets: frozenset[str] = frozenset()
        self._warned: set[str] = set()
        self._kind = self._only_kind()
        self.description = self._describe()

    def __repr__(self) -> str:
        return f"Credentials({self.description})"

    def headers(self) -> list[tuple[bytes, bytes]]:
        """The headers of the next request; files are read anew, since tokens rotate.

        Raises ConfigError when a secret is missing, empty or can't be sent.
        """
        sent = [self._header(name, value) for name, value in self._settings.headers.items()]
        for name, value in self._settings.headers.items():
            if name.lower() not in _PUBLIC_HEADERS:
                self.remember(value)
        match self._kind:
            case "bearer":
                token = self._secret("token")
                self.remember(token)
                sent.append((b"authorization", b"Bearer " + token.encode()))
            case "basic":
                sent.append(self._basic(self._settings.username or "", self._secret("password")))
            case "url":
                assert self._user_info is not None  # noqa: S101 - _only_kind looked
                sent.append(self._basic(*self._user_info))
            case _:
                pass
        return sent

    def remember(self, secret: str) -> None:
        """Treat a text as secret from now on."""
        if len(secret) >= _SHORTEST_SECRET:
            self._secrets |= frozenset((secret, quote(secret, safe=""), quote(secret)))

    def scrub(self, text: str) -> str:
        """The text with every known secret replaced, for servers that echo what they were sent."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    def _only_kind(self) -> str:
        """Which of the ways to authenticate is configured; two at once are a mistake."""
        settings = self._settings
        kinds = {
            "bearer": settings.token_file or settings.token_env,
            "basic": settings.username or settings.password_file or settings.password_env,
            "header": any(name.lower() == "authorization" for name in settings.headers),
        }
        chosen = [kind for kind, is_set in kinds.items() if is_set]
        if len(chosen) > 1:
            raise ConfigError(
                f"{self._section}: more than one way to authenticate is configured",
                cause="token_*, username with password_*, and an Authorization header exclude "
                "each other",
                hint="keep one of them",
            )
        if chosen == ["basic"]:
            self._check_basic()
        self._check_pair("token")
        # A user in the URL gives way to what the file says: the file can't be seen in `ps`.
        return chosen[0] if chosen else "url" if self._user_info else "none"

    def _check_basic(self) -> None:
        settings = self._settings
        if settings.username is None:
            raise ConfigError(f"{self._section}: a password is configured, but no username")
        if not (settings.password_file or settings.password_env):
            raise ConfigError(
                f"{self._section}: a username is configured, but no password",
                hint=f"set {self._section}.password_file or {self._section}.password_env",
            )
        self._check_pair("password")

    def _check_pair(self, what: str) -> None:
        if getattr(self._settings, f"{what}_file") and getattr(self._settings, f"{what}_env"):
            raise ConfigError(
                f"{self._section}: both {what}_file and {what}_env are set", hint="keep one"
            )

    def _describe(self) -> str:
        """The credential by kind and source, for an error text."""
        match self._kind:
            case "bearer":
                return f"a bearer token from {self._source('token')}"
            case "basic":
                return f"basic authentication with the password from {self._source('password')}"
            case "url":
                return "the user and password in the URL"
            case "header":
                return f"the Authorization header in {self._section}.headers"
            case _:
                return "no credential"

    def _source(self, what: str) -> str:
        path = getattr(self._settings, f"{what}_file")
        variable = getattr(self._settings, f"{what}_env")
        return str(path) if path else f"the variable {variable}"

    def _secret(self, what: str) -> str:
        """The token or password; raises ConfigError when there is none to send."""
        path = getattr(self._settings, f"{what}_file")
        value = self._from_file(what, path) if path else self._from_variable(what)
        if not value:
            raise ConfigError(
                f"{self._section}: the {what} from {self._source(what)} is empty",
                hint=f"the {what} has to be the only content, with or without a newline",
            )
        if _UNPRINTABLE.search(value):
            raise ConfigError(
                f"{self._section}: the {what} from {self._source(what)} has more than one line "
                "or control characters",
                hint=f"the {what} has to be the only content, with or without a newline",
            )
        return value

    def _from_variable(self, what: str) -> str:
        variable = getattr(self._settings, f"{what}_env")
        if variable not in self._environ:
            raise ConfigError(
                f"{self._section}: the variable {variable} is not set",
                cause=f"{self._section}.{what}_env names it",
                hint=f"export {variable}, or use {self._section}.{what}_file",
            )
        return self._environ[variable].strip()

    def _from_file(self, what: str, path: str) -> str:
        where = os.path.expanduser(path)
        try:
            with open(where, encoding="utf-8") as file:
                mode = os.fstat(file.fileno()).st_mode
                value = file.read().strip()
        except OSError as exc:
            raise ConfigError(
                f"can't read the {what} file {path}",
                cause=exc.strerror or type(exc).__name__,
                hint=f"{self._section}.{what}_file names it; check that this user may read it",
            ) from exc
        except UnicodeDecodeError:
            # The decoder's own error carries the bytes, that is: the secret.
            raise ConfigError(f"the {what} file {path} is not text") from None
        self._warn_if_open(what, where, mode)
        return value

    def _warn_if_open(self, what: str, path: str, mode: int) -> None:
        is_open = bool(mode & stat.S_IROTH) and not path.startswith(_MOUNTED_SECRETS)
        if is_open and path not in self._warned:
            self._warned.add(path)
            log.warning("the %s file can be read by every user path=%s", what, path)

    def _basic(self, username: str, password: str) -> tuple[bytes, bytes]:
        pair = base64.b64encode(f"{username}:{password}".encode()).decode()
        for secret in (username, password, pair):
            self.remember(secret)
        return (b"authorization", b"Basic " + pair.encode())

    def _header(self, name: str, value: str) -> tuple[bytes, bytes]:
        """One extra header; checked here, because h11's own complaint would quote its value."""
        if not _HEADER_NAME.match(name):
            raise ConfigError(f"{self._section}.headers: {name!r} is not a name of a header")
        if _UNPRINTABLE.search(value):
            raise ConfigError(
                f"{self._section}.headers: the value of {name} has control characters"
            )
        return (name.lower().encode(), value.strip().encode())

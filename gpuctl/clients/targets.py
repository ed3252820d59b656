"""What a person writes to name an exporter, and the address it means."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterable, Sequence

from gpuctl.clients.connection import Address, address
from gpuctl.errors import UsageError

DEFAULT_PORT = 9400


def expand_targets(args: Sequence[str], default_port: int = DEFAULT_PORT) -> list[str]:
    """The exporters that the arguments name, each once and in their order.

    `@file` stands for the lines of a file; blank lines and what follows a `#` at the start of a
    word are left out. A host without a port gets `default_port`. Raises UsageError for a file
    that can't be read and ConfigError for what is no address.
    """
    found: dict[str, str] = {}
    for target in _written(args):
        where = target_address(target, default_port)
        is_complete = "://" in target or "@" in target
        short = where.url().removeprefix("http://").removesuffix("/metrics")
        found.setdefault(where.url(), target if is_complete else short)
    return list(found.values())


def target_address(target: str, default_port: int = DEFAULT_PORT) -> Address:
    """The address behind a URL, `host:port` or a bare host; /metrics unless the URL has a path.

    A URL without a port means the port of its scheme, as everywhere.
    """
    url = target.strip()
    if "://" not in url:
        url = f"http://{_with_port(url, default_port)}"
    where = address(url, setting="the address of an exporter")
    if where.path in ("", "/"):
        path = "/metrics"
        return Address(where.scheme, where.host, where.port, path, where.query, where.user_info)
    return where


def _written(args: Sequence[str]) -> Iterable[str]:
    for arg in args:
        if arg.startswith("@"):
            yield from _lines_of(arg[1:])
        elif arg.strip():
            yield arg.strip()


def _lines_of(path: str) -> Iterable[str]:
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise UsageError(
            f"can't read the list of exporters {path}",
            cause=getattr(exc, "strerror", None) or "it is not text",
            hint="after @ comes a file with one host, host:port or URL a line",
        ) from exc
    for line in lines:
        words = line.split()
        if words and not words[0].startswith("#"):
            yield words[0]


def _with_port(host: str, port: int) -> str:
    """`host:port` for a host that may have one, with brackets around a bare IPv6 address."""
    user, at, place = host.rpartition("@")
    name, slash, path = place.partition("/")
    try:
        ipaddress.IPv6Address(name)
    except ValueError:
        pass
    else:
        name = f"[{name}]"
    has_port = name.rpartition("]")[2].count(":") > 0
    return user + at + (name if has_port else f"{name}:{port}") + slash + path

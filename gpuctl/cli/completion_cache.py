"""Names of nodes and GPUs for TAB, left behind by the commands that saw them.

One small text file for each context: a node a line, its GPUs after it. A shell that
completes must not wait for a cluster, and ten minutes later the names are no longer offered.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress

from gpuctl.files import replace_file

USABLE_SECONDS = 600.0
ROOT_CACHE = "/var/cache/gpuctl"
_PREFIX = "nodes-"
_LONGEST_NAME = 100


def remember_nodes(
    context: str | None, addresses: Iterable[str], *, environ: Mapping[str, str]
) -> None:
    """Keep the addresses (`node` or `node/gpu`) of `context` for the next TAB.

    Never raises: a full disk or a foreign folder must not spoil the answer of a command.
    """
    folder = cache_folder(environ)
    if folder is None:
        return
    gpus: dict[str, list[str]] = {}
    for address in addresses:
        node, _, gpu = address.partition("/")
        known = gpus.setdefault(node, [])
        if gpu:
            known.append(gpu)
    # A name with a blank would be read back as a node and its GPUs; no node is called that.
    rows = ([node, *known] for node, known in gpus.items())
    lines = [" ".join(row) + "\n" for row in rows if all(map(_is_one_word, row))]
    with suppress(OSError, UnicodeError):
        _replace(folder, _file_name(context or ""), "".join(lines))


def known_nodes(
    context: str | None, *, environ: Mapping[str, str], now: float
) -> list[tuple[str, list[str]]]:
    """Each node with its GPUs, as long as they are usable; `now` is unix time.

    Without a context it is the one that was looked at last: what "current" means is in the
    configuration, and to read that takes longer than a TAB may.
    """
    folder = cache_folder(environ)
    if folder is None:
        return []
    try:
        name = _file_name(context) if context else _newest(folder)
        if name is None:
            return []
        path = os.path.join(folder, name)
        # A file from the future means a clock that was set back: no younger than any other.
        if abs(now - os.stat(path).st_mtime) > USABLE_SECONDS:
            return []
        with open(path, encoding="utf-8") as file:
            rows = [line.split() for line in file]
    except (OSError, UnicodeError):
        return []
    return [(row[0], row[1:]) for row in rows if row]


def _is_one_word(text: str) -> bool:
    return text.split() == [text]


def cache_folder(environ: Mapping[str, str]) -> str | None:
    """`$XDG_CACHE_HOME/gpuctl`, else `~/.cache/gpuctl`, for root without HOME /var/cache/gpuctl."""
    base = environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):  # the XDG rules say to ignore a relative one
        return os.path.join(base, "gpuctl")
    home = environ.get("HOME", "")
    if os.path.isabs(home):
        return os.path.join(home, ".cache", "gpuctl")
    return ROOT_CACHE if os.geteuid() == 0 else None


def _file_name(context: str) -> str:
    """Quoted, so that a context called `../x` stays a file in this folder."""
    quoted = "".join(ch if ch.isascii() and ch.isalnum() else f"%{ord(ch):x}" for ch in context)
    return _PREFIX + quoted[:_LONGEST_NAME]


def _newest(folder: str) -> str | None:
    with os.scandir(folder) as entries:
        found = [(entry.stat().st_mtime, entry.name) for entry in entries if _is_ours(entry.name)]
    return max(found)[1] if found else None


def _is_ours(name: str) -> bool:
    return name.startswith(_PREFIX)


def _replace(folder: str, name: str, text: str) -> None:
    """Write the file whole or not at all: a shell may read it at this moment."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    replace_file(os.path.join(folder, name), text, mode=0o600)

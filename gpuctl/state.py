"""Where gpuctl keeps what must outlive a run: journals, locks, the moves of the demo."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

from gpuctl.errors import GpuctlError

ROOT_STATE = "/var/lib/gpuctl"
_LONGEST_NAME = 150


def state_folder(environ: Mapping[str, str]) -> str:
    """`$XDG_STATE_HOME/gpuctl`, else `~/.local/state/gpuctl`.

    For root without HOME, as under systemd, /var/lib/gpuctl. Raises GpuctlError when there is
    none of these.
    """
    base = environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(base):  # the XDG rules say to ignore a relative one
        return os.path.join(base, "gpuctl")
    home = environ.get("HOME", "")
    if os.path.isabs(home):
        return os.path.join(home, ".local", "state", "gpuctl")
    if os.geteuid() == 0:
        return ROOT_STATE
    raise GpuctlError(
        "there is no folder for gpuctl's journal",
        cause="neither XDG_STATE_HOME nor HOME is set",
        hint="set XDG_STATE_HOME to a folder that this user may write to",
    )


def make_state_folder(environ: Mapping[str, str]) -> str:
    """The state folder, made with mode 0700 when it is missing. Raises GpuctlError."""
    folder = state_folder(environ)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as exc:
        raise unusable(folder, exc) from exc
    sync_folder(os.path.dirname(folder))
    return folder


def unusable(path: str, exc: OSError) -> GpuctlError:
    """The error for a file or folder of the state that can't be used."""
    return GpuctlError(
        f"can't use {path}, and without a journal nothing is changed",
        cause=exc.strerror or str(exc),
        hint="give this user the folder, or set XDG_STATE_HOME to another one",
    )


def file_name(part: str, key: str, suffix: str) -> str:
    """A file's name for a context; quoted, so that a context called `../x` stays in its folder."""
    kept = "-_"
    quoted = "".join(
        ch if ch.isascii() and (ch.isalnum() or ch in kept) else f"%{ord(ch):x}" for ch in key
    )
    return f"{part}.{quoted[:_LONGEST_NAME]}{suffix}"


def sync_folder(folder: str) -> None:
    """Make the names in a folder durable, where its file system can."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Files that are replaced in one step: a reader or a crash sees the old one or the new one."""

from __future__ import annotations

import os
from contextlib import suppress


def replace_file(
    path: str, text: str, *, mode: int | None = None, keep_owner: bool = False
) -> None:
    """Put `text` (UTF-8) in the place of the file at `path`, new or not, and make it durable.

    A symbolic link stays one; its target is replaced. `mode`: permissions of the file, by default
    what the umask leaves. `keep_owner`: the old file's owner and group, where the user may set
    them. Raises OSError; nothing is left behind then.
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    draft = os.path.join(folder, f".{os.path.basename(target)}.{os.urandom(4).hex()}.tmp")
    created = 0o666 if mode is None else mode
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, created)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8"))
            if keep_owner:
                with suppress(OSError):
                    old = os.stat(target)
                    os.fchown(file.fileno(), old.st_uid, old.st_gid)
            if mode is not None:
                os.fchmod(file.fileno(), mode)  # the umask may have taken some of it
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise
    _sync_folder(folder)


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # Some network file systems can't sync a folder; the file itself is safe by then.
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)

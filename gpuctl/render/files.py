"""Answers that go to a file that somebody named."""

from __future__ import annotations

import os
import stat

from gpuctl.errors import GpuctlError
from gpuctl.files import replace_file


def write_whole(path: str, text: str, *, mode: int | None = None) -> None:
    """Write `text` to `path` through a draft beside it, so that no half file is ever seen.

    What is no regular file (a pipe, /dev/stdout) is written as it is. Raises GpuctlError.
    """
    try:
        if _is_special(path):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return
        replace_file(path, text, mode=mode)
    except (OSError, ValueError) as exc:
        raise GpuctlError(
            f"can't write {path}",
            cause=(exc.strerror if isinstance(exc, OSError) else None) or str(exc),
            hint="name a file in a folder that exists and that you may write to",
        ) from exc


def _is_special(path: str) -> bool:
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return False

"""A long answer through the user's pager."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping


def show_in_pager(text: str, environ: Mapping[str, str]) -> bool:
    """Show `text` and wait until the reader quits; False when there is no pager to show it.

    GPUCTL_PAGER, then PAGER, then `less`; an empty GPUCTL_PAGER or `cat` means none.
    """
    command = pager_command(environ)
    if not command:
        return False
    # Quit at once when it fits, keep colours, leave the text on the screen.
    pager_environ = {"LESS": "FRX", **environ}
    try:
        process = subprocess.Popen(  # noqa: S603 - the user's own program, no shell between
            command,
            stdin=subprocess.PIPE,
            env=pager_environ,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
    except OSError:
        return False
    with process:
        try:
            process.communicate(text)
        except KeyboardInterrupt:
            # ^C belongs to the pager: it ends a search there, not this program.
            process.wait()
    # 126 and 127: found but not run, not found. Anything else means that it was shown.
    return process.returncode not in (126, 127)


def pager_command(environ: Mapping[str, str]) -> list[str]:
    """The pager and its arguments; empty for none."""
    chosen = environ.get("GPUCTL_PAGER")
    if chosen is None:
        chosen = environ.get("PAGER") or "less"
    try:
        words = shlex.split(chosen)
    except ValueError:
        return []
    return [] if words[:1] == ["cat"] else words

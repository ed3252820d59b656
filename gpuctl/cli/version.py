"""`gpuctl version`."""

from __future__ import annotations

import typer

from gpuctl import __version__
from gpuctl.cli.runtime import runtime_of
from gpuctl.exitcodes import ExitCode


def version(ctx: typer.Context) -> ExitCode:
    """Show the version of gpuctl, and of what it runs on.

    Examples:
      gpuctl version
      gpuctl version -o json
    """
    import platform
    import sys

    output = runtime_of(ctx).output
    python = ".".join(map(str, sys.version_info[:3]))
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    headers = ("gpuctl", "python", "platform")
    row = (__version__, python, system)
    if output.format in ("json", "yaml"):
        from gpuctl.model.documents import VersionDocument

        output.document(VersionDocument(version=__version__, python=python, platform=system))
    elif output.format == "csv":
        output.csv(headers, [row])
    elif output.format == "name":
        output.names([f"gpuctl/{__version__}"])
    else:
        output.table(headers, [row])
    return ExitCode.OK

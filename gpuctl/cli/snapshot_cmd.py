"""`gpuctl snapshot`: the cluster's state as a file that every view can be drawn from again."""

from __future__ import annotations

import typer

from gpuctl.cli.runtime import runtime_of
from gpuctl.cli.world import Exporter, MaxAge, SampleFor, open_world
from gpuctl.errors import UsageError
from gpuctl.exitcodes import ExitCode


def snapshot(
    ctx: typer.Context,
    exporter: Exporter = None,
    sample_for: SampleFor = None,
    max_age: MaxAge = None,
) -> ExitCode:
    """Save the cluster's state as a file.

    Prints one JSON document (or YAML, with -o yaml) that holds every GPU's reading with its
    window, so that an incident can be mailed and looked at again: each read-only command
    takes it with --snapshot FILE.

    Examples:
      gpuctl snapshot -o json > incident-4711.json
      gpuctl heatmap --snapshot incident-4711.json
    """
    runtime = runtime_of(ctx)
    if "output" in runtime.options.from_flags and runtime.options.output not in ("json", "yaml"):
        raise UsageError(
            f"a snapshot can't be written as {runtime.options.output}",
            cause="accepted values here: json, yaml",
            hint="for a table use gpuctl heatmap",
        )
    with open_world(runtime, exporters=exporter, sample_for=sample_for, max_age=max_age) as world:
        taken = world.observe()
    runtime.output.document(taken)
    for warning in taken.warnings:
        runtime.output.warn(warning)
    return ExitCode.OK

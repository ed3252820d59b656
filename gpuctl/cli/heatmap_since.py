"""`gpuctl heatmap --since`: GPU by time."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from gpuctl.cli.runtime import Runtime
from gpuctl.exitcodes import ExitCode

if TYPE_CHECKING:
    from gpuctl.cli.heatmap import View
    from gpuctl.cli.world import World
    from gpuctl.model.history import HistoryDocument


def show_history(
    runtime: Runtime, world: World, view: View, span: timedelta, step: timedelta | None
) -> ExitCode:
    """Draw one figure of the selected GPUs over the last `span`."""
    from dataclasses import replace

    from gpuctl.cli.heatmap import generated_at
    from gpuctl.inventory.observe import named
    from gpuctl.inventory.timeline import chosen_step, history_document
    from gpuctl.policy.overview import heatmap_document

    every = chosen_step(span, step, columns=runtime.output.width)
    history = world.source.history(view.metric, span, every, world.want_of_policy)
    snapshot = named(history.snapshot, context=world.context_name, cluster=world.context.cluster)
    at = generated_at(runtime, snapshot)
    now = heatmap_document(snapshot, world.policy, generated_at=at, selection=view.selection)
    doc = history_document(
        replace(history, snapshot=snapshot),
        metric=view.metric,
        generated_at=at,
        uuids={gpu.uuid for gpu in now.items},
    )
    _show(runtime, doc, view)
    for warning in doc.warnings:
        runtime.output.warn(warning)
    return ExitCode.OK


def _show(runtime: Runtime, doc: HistoryDocument, view: View) -> None:
    output = runtime.output
    if view.export is not None:
        from gpuctl.render.picture import html_history, svg_history

        draw = svg_history if view.export.lower().endswith(".svg") else html_history
        output.file(view.export, draw(doc))
        return
    from gpuctl.render.history import history_lines, history_names, history_rows

    match output.format:
        case "json" | "yaml":
            output.document(doc)
        case "csv":
            output.csv(*history_rows(doc))
        case "name":
            output.names(history_names(doc))
        case "table" | "wide":
            output.page("\n".join(history_lines(doc, output.screen())))

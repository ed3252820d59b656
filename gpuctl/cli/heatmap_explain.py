"""`gpuctl heatmap --explain NODE/GPU`: how a GPU's figures came about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuctl.cli.runtime import Runtime
from gpuctl.exitcodes import ExitCode

if TYPE_CHECKING:
    from gpuctl.cli.world import World
    from gpuctl.metrics.source import Explanation
    from gpuctl.model.explanation import SeriesFate


def explain_gpu(runtime: Runtime, world: World, node: str, gpu: int) -> ExitCode:
    """Show the reading of one GPU with every raw series behind it."""
    from gpuctl.cli.heatmap import generated_at
    from gpuctl.model.explanation import ExplanationDocument

    explanation = world.source.explain(node, gpu, world.want_of_policy)
    doc = ExplanationDocument(
        generated_at=generated_at(runtime, explanation.snapshot),
        gpu=explanation.gpu,
        series=fates(explanation),
        notes=explanation.notes,
    )
    output = runtime.output
    if output.format in ("json", "yaml"):
        output.document(doc)
    elif output.format == "csv":
        from gpuctl.render.explanation import explanation_rows

        output.csv(*explanation_rows(doc))
    elif output.format == "name":
        output.names([series.name for series in doc.series])
    else:
        from gpuctl.render.explanation import explanation_lines

        output.page("\n".join(explanation_lines(doc, output.screen())))
    return ExitCode.OK


def fates(explanation: Explanation) -> tuple[SeriesFate, ...]:
    """What became of each raw series, the used ones first."""
    from gpuctl.model.explanation import SeriesFate

    trace = explanation.trace
    rejected = {id(r.sample) for r in trace.rejected}
    used = {id(sample) for sample, _ in trace.used} - rejected
    found = [
        SeriesFate(
            fate="used" if id(sample) in used else "merged",
            name=sample.name,
            labels=dict(sample.labels),
            value=_plain(sample.value),
            family=family,
        )
        for sample, family in trace.kept
        if id(sample) not in rejected
    ]
    found += [
        SeriesFate(
            fate="rejected",
            name=r.sample.name,
            labels=dict(r.sample.labels),
            value=_plain(r.sample.value),
            reason=r.reason,
        )
        for r in trace.rejected
    ]
    order = ("used", "merged", "rejected")
    return tuple(
        sorted(found, key=lambda s: (order.index(s.fate), s.name, sorted(s.labels.items())))
    )


def _plain(value: float) -> float | str:
    """JSON has no NaN and no infinity."""
    return value if value - value == 0 else str(value)

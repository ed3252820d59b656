"""Pictures as files for a ticket: SVG and HTML, of the heat map and of its history."""

from __future__ import annotations

from gpuctl.model.heatmap import HeatmapDocument
from gpuctl.model.history import HistoryDocument, Metric


def svg(doc: HeatmapDocument, *, metric: Metric = "util") -> str:
    """The heat map as an SVG file, the first 200 nodes drawn and the rest summed up."""
    from gpuctl.render.picture_heatmap import heatmap_svg

    return heatmap_svg(doc, metric=metric)


def html(doc: HeatmapDocument, *, metric: Metric = "util") -> str:
    """The heat map as an HTML file without scripts, complete."""
    from gpuctl.render.picture_html import heatmap_html

    return heatmap_html(doc, metric=metric)


def svg_history(doc: HistoryDocument) -> str:
    """GPU by time as an SVG file, the 200 hottest rows drawn and the rest counted."""
    from gpuctl.render.picture_history import history_svg

    return history_svg(doc)


def html_history(doc: HistoryDocument) -> str:
    """GPU by time as an HTML file without scripts, every row in it."""
    from gpuctl.render.picture_history import history_html

    return history_html(doc)

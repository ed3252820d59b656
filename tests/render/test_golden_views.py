"""Every view of the heat map and its history, as it looks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpuctl.model.gpu import GpuState
from gpuctl.model.heatmap import HeatmapDocument
from gpuctl.render.documents import encode_document
from gpuctl.render.heatmap import heatmap_lines
from gpuctl.render.heatmap_rows import heatmap_names, heatmap_rows, wide_table
from gpuctl.render.history import history_lines, history_rows
from gpuctl.render.picture import html, html_history, svg, svg_history
from gpuctl.render.screen import Screen
from gpuctl.render.tables import csv_text, plain_table
from tests.render.builders import (
    SIMULATION,
    a_cluster,
    a_gpu,
    a_heatmap,
    a_history,
    the_night,
)
from tests.render.golden import assert_golden

COLORS = {"plain": 0, "16": 16, "256": 256, "true": 16_777_216}


def simulated() -> HeatmapDocument:
    return the_night(simulated=True, source=SIMULATION)


def all_unknown() -> HeatmapDocument:
    gpus = [a_gpu("gpu-1", g, None, None, state=GpuState.LOST) for g in range(4)]
    return a_heatmap(*gpus, metrics_age_seconds=None)


def big() -> HeatmapDocument:
    return a_cluster(125, 8)


def huge() -> HeatmapDocument:
    return a_cluster(1250, 8)


SCREENS: dict[str, tuple[Callable[[], HeatmapDocument], Screen, dict[str, Any]]] = {
    **{
        f"night-{width}-{name}": (the_night, Screen(width, color_level=level), {})
        for width in (80, 140)
        for name, level in COLORS.items()
    },
    "night-80-ascii": (the_night, Screen(80, utf8=False), {}),
    "night-140-ascii": (the_night, Screen(140, utf8=False), {}),
    "night-80-light": (the_night, Screen(80, color_level=256, light_background=True), {}),
    "night-140-light": (
        the_night,
        Screen(140, color_level=16_777_216, light_background=True),
        {},
    ),
    "night-60": (the_night, Screen(60), {}),
    "night-60-256": (the_night, Screen(60, color_level=256), {}),
    "night-50": (the_night, Screen(50), {}),
    "night-40x10": (the_night, Screen(40, 10), {}),
    "night-40x10-256": (the_night, Screen(40, 10, color_level=256), {}),
    "night-80x24": (the_night, Screen(80, 24), {}),
    "night-pipe": (the_night, Screen(None), {}),
    "night-80-dim": (the_night, Screen(80, color_level=256), {"dim": True}),
    "night-80-mem": (the_night, Screen(80), {"metric": "mem"}),
    "night-80-temp": (the_night, Screen(80), {"metric": "temp"}),
    "night-140-power": (the_night, Screen(140, color_level=256), {"metric": "power"}),
    "night-140-wide-cells": (the_night, Screen(140), {"wide_cells": True}),
    "night-60-wide-cells": (the_night, Screen(60), {"wide_cells": True}),
    "night-80x16-by-mig": (the_night, Screen(80, 16), {"by_mig": True}),
    "simulated-80": (simulated, Screen(80), {}),
    "simulated-40x10": (simulated, Screen(40, 10), {}),
    "empty-80": (a_heatmap, Screen(80), {}),
    "empty-140-256": (a_heatmap, Screen(140, color_level=256), {}),
    "unknown-80": (all_unknown, Screen(80), {}),
    "eight-gpus-80": (lambda: a_cluster(8, 8), Screen(80), {}),
    "eight-gpus-140-256": (lambda: a_cluster(8, 8), Screen(140, color_level=256), {}),
    "125x8-160x50": (big, Screen(160, 50), {}),
    "125x8-160x50-256": (big, Screen(160, 50, color_level=256), {}),
    "125x8-80x24-ascii": (big, Screen(80, 24, utf8=False), {}),
    "1250x8-80x24": (huge, Screen(80, 24), {}),
    "1250x8-140x50-true": (huge, Screen(140, 50, color_level=16_777_216), {}),
}


@pytest.mark.parametrize("name", SCREENS)
def test_heatmap_on_a_screen(name: str) -> None:
    make, screen, wishes = SCREENS[name]
    lines = heatmap_lines(make(), screen, **wishes)
    assert_golden(f"heatmap-{name}.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize("color", COLORS)
def test_history_on_a_screen(width: int, color: str) -> None:
    lines = history_lines(a_history(9, 100), Screen(width, color_level=COLORS[color]))
    assert_golden(f"history-{width}-{color}.txt", "\n".join(lines) + "\n")


HISTORY_SCREENS = {
    "ascii": Screen(80, utf8=False),
    "light": Screen(80, color_level=256, light_background=True),
    "pipe": Screen(None),
    "40x10": Screen(40, 10),
}


@pytest.mark.parametrize("name", HISTORY_SCREENS)
def test_history_on_a_special_screen(name: str) -> None:
    lines = history_lines(a_history(9, 100), HISTORY_SCREENS[name])
    assert_golden(f"history-{name}.txt", "\n".join(lines) + "\n")


def test_history_without_anything_to_show() -> None:
    lines = history_lines(a_history(0, 0), Screen(80))
    assert_golden("history-empty.txt", "\n".join(lines) + "\n")


def test_csv_of_the_night() -> None:
    assert_golden("heatmap-night.csv", csv_text(*heatmap_rows(the_night())))


def test_csv_by_mig_instance() -> None:
    assert_golden("heatmap-night-by-mig.csv", csv_text(*heatmap_rows(the_night(), by_mig=True)))


def test_csv_of_the_history() -> None:
    assert_golden("history.csv", csv_text(*history_rows(a_history(2, 3))))


def test_wide_table_of_the_night() -> None:
    headers, rows, numeric = wide_table(the_night(), by_mig=True)
    assert_golden("heatmap-night-wide.txt", plain_table(headers, rows, numeric=numeric))


def test_names_of_the_night() -> None:
    assert_golden("heatmap-night-names.txt", "\n".join(heatmap_names(the_night())) + "\n")


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_document_of_a_hot_card(form: Any) -> None:
    doc = a_heatmap(a_gpu("gpu-1", 0, 96.4, workloads=("prod/llm-0",)), a_gpu("gpu-1", 1, 20))
    assert_golden(f"heatmap-hot-card.{form}", encode_document(doc, form))


def test_pictures_as_files() -> None:
    assert_golden("heatmap-night.svg", svg(simulated()))
    assert_golden("heatmap-night.html", html(simulated()))
    assert_golden("history.svg", svg_history(a_history(5, 30)))
    assert_golden("history.html", html_history(a_history(5, 30)))

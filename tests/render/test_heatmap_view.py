"""What the heat map says, and how."""

from __future__ import annotations

import re

import pytest

from gpuctl.model.gpu import GpuState
from gpuctl.model.snapshot import Source
from gpuctl.render.heatmap import heatmap_lines
from gpuctl.render.heatmap_rows import heatmap_names, wide_table
from gpuctl.render.picture import html, html_history, svg, svg_history
from gpuctl.render.screen import Screen
from gpuctl.render.terminal import cell_width
from tests.render.builders import (
    SIMULATION,
    a_cluster,
    a_gpu,
    a_heatmap,
    a_history,
    an_instance,
    the_night,
)

SGR = re.compile(r"\x1b\[[0-9;]*m")
PIPE = Screen(None)


def drawn(doc_or_lines: list[str]) -> str:
    return SGR.sub("", "\n".join(doc_or_lines))


def line_of(node: str, lines: list[str]) -> str:
    return next(line for line in lines if line.startswith(node))


def test_eight_nodes_of_four_take_about_a_dozen_lines_and_the_lists() -> None:
    lines = heatmap_lines(a_cluster(8, 4), Screen(80))
    lists = next(i for i, line in enumerate(lines) if line.startswith("hot   "))
    assert lists <= 14


def test_head_names_context_source_age_and_time() -> None:
    head = heatmap_lines(the_night(context="hk", cluster="hongkong"), Screen(120))[0]
    assert head == "hk (hongkong)  prometheus.example:9090  7s old  2026-03-01T03:12:07+00:00"


@pytest.mark.parametrize("screen", [Screen(80), Screen(40, 10), Screen(140, 50, 256), PIPE])
def test_every_view_says_that_it_is_simulated(screen: Screen) -> None:
    doc = the_night(simulated=True, source=SIMULATION, context="a-context-with-a-long-name")
    assert "SIMULATED" in drawn(heatmap_lines(doc, screen))
    assert "SIMULATED" in drawn(heatmap_lines(doc, screen, dim=True))


def test_files_say_that_they_are_simulated() -> None:
    doc = the_night(simulated=True, source=SIMULATION)
    past = a_history(simulated=True, source=SIMULATION)
    for text in (svg(doc), html(doc), svg_history(past), html_history(past)):
        assert "SIMULATED" in text
    for text in (svg(the_night()), html(the_night())):
        assert "SIMULATED" not in text


def test_unknown_lost_and_stale_are_no_cold_cells() -> None:
    lines = heatmap_lines(the_night(), PIPE)
    assert line_of("gpu-node-6", lines).split()[1:5] == ["44", "51", "LOST", "25z"]
    assert line_of("gpu-node-7", lines).split()[4] == "42~"
    assert line_of("gpu-node-8", lines).split()[1] == "--"


def test_only_fresh_figures_are_shaded() -> None:
    lines = heatmap_lines(the_night(), Screen(80, color_level=256))
    stale = next(line for line in lines if "gpu-node-7" in line and "~" in line)
    before, _, after = stale.partition("42~")
    assert before.rstrip(" ").endswith("\x1b[0m")
    assert after.startswith(" ")


def test_verdicts_are_marked_without_colour() -> None:
    lines = heatmap_lines(the_night(), PIPE)
    assert line_of("gpu-node-3", lines).split()[1:3] == ["29z", "96!"]
    legend = drawn(lines)
    assert "! hot: over 90 % for 5m" in legend
    assert "z idle: under 30 % for 5m" in legend


def test_one_moment_is_no_verdict_and_the_legend_says_so() -> None:
    text = drawn(heatmap_lines(a_heatmap(a_gpu(), window_seconds=None), PIPE))
    assert "not judged: one moment only" in text


def test_chinese_names_line_up() -> None:
    lines = heatmap_lines(the_night(), Screen(80))
    rows = [line for line in lines if line.startswith(("gpu-node", "香港"))]
    assert len({cell_width(row) for row in rows}) == 1


def test_long_names_lose_their_middle_and_numbers_stay() -> None:
    node = "gpu-" + "x" * 60 + "-0042"
    doc = a_heatmap(*(a_gpu(node, g, 10.0 + g) for g in range(4)))
    row = next(line for line in heatmap_lines(doc, Screen(80)) if line.startswith("gpu-x"))
    assert "…" in row
    assert all(str(10 + g) in row for g in range(4))
    assert node in drawn(heatmap_lines(doc, PIPE))


def test_hot_list_says_who_and_for_how_long() -> None:
    text = drawn(heatmap_lines(the_night(), PIPE))
    assert "gpu-node-3/1   96 %    47m  prod/llm-server-0, prod/llm-server-1, vm/101" in text
    assert ">=3h  no workload known" in text
    assert "gpu-node-2/3 3g.40gb#1   97 %    10m  prod/embed-7" in text


def test_hot_list_is_cut_and_counts_the_rest() -> None:
    doc = a_heatmap(*(a_gpu(f"n{n:02}", 0, 95, workloads=("prod/a",)) for n in range(40)))
    lines = heatmap_lines(doc, Screen(80, 60))
    shown = [line for line in lines if re.search(r"n\d\d/0 ", line)]
    more = re.search(r"and (\d+) more", "\n".join(lines))
    assert more is not None
    assert len(shown) + int(more.group(1)) == 40


def test_idle_list_groups_the_cards_of_a_node() -> None:
    doc = a_heatmap(*(a_gpu("n1", g, 5.0 + g) for g in (0, 1, 2, 5)), a_gpu("n2", None, 3))
    text = drawn(heatmap_lines(doc, PIPE))
    assert "n1/0-2,5 5-10 %" in text
    assert "n2/? 3 %" in text


def test_lists_stand_beside_the_cells_from_120_columns() -> None:
    beside = heatmap_lines(a_cluster(8, 4), Screen(140))
    below = heatmap_lines(a_cluster(8, 4), Screen(110))
    assert "   hot   " in beside[1]
    assert any(line.startswith("hot   ") for line in below)


def test_memory_is_left_out_last_and_the_foot_says_how_to_see_it() -> None:
    doc = a_cluster(8, 8)
    wide, narrow = (drawn(heatmap_lines(doc, Screen(width))) for width in (110, 72))
    assert "mem0" in wide
    assert "left out" not in wide
    assert "mem per GPU left out" in " ".join(narrow.split())
    assert "--metric mem" in " ".join(narrow.split())


def test_four_gpus_and_their_memory_fit_into_60_columns() -> None:
    for level in (0, 256):
        text = drawn(heatmap_lines(the_night(), Screen(60, color_level=level)))
        assert "left out" not in text


def test_coverage_is_named_only_when_something_is_missing() -> None:
    doc = a_heatmap(a_gpu())
    assert "coverage" not in drawn(heatmap_lines(doc, PIPE))
    from msgspec.structs import replace

    partial = replace(doc, summary=replace(doc.summary, coverage_pct=99.96))
    assert "coverage 99.9 %" in drawn(heatmap_lines(partial, PIPE))


def test_mig_card_shows_its_weighed_figure_and_each_instance() -> None:
    mig = (
        an_instance(1, "3g.40gb", 97, 38_000),
        an_instance(9, "1g.10gb", None, None),
    )
    lines = heatmap_lines(a_heatmap(a_gpu("n1", 0, 46, mig=mig)), PIPE)
    assert line_of("n1", lines).split()[1] == "46"
    assert "GPU 0 MIG  3g.40gb#1 97!/95  1g.10gb#9 --/--  (4 of 7 slices)" in drawn(lines)


def test_instances_give_way_on_a_low_screen_unless_asked_for() -> None:
    mig = (an_instance(1, "3g.40gb", 97, 38_000), an_instance(2, "3g.40gb", 3, 100))
    others = [a_gpu(f"n{n}", g, 50.0) for n in range(2, 9) for g in range(2)]
    doc = a_heatmap(a_gpu("n1", 0, 46, mig=mig), a_gpu("n1", 1, 5), *others)
    lines = heatmap_lines(doc, Screen(80, 16))
    assert "see --by-mig" in drawn(lines)
    assert "n8" in drawn(lines)
    forced = drawn(heatmap_lines(doc, Screen(80, 16), by_mig=True))
    assert "GPU 0 MIG  3g.40gb#1 97!/95  3g.40gb#2 3z/0" in forced
    assert "more nodes" in forced


def test_metric_changes_the_figure_and_its_scale() -> None:
    doc = a_heatmap(a_gpu("n1", 0, 50, temperature_c=71, power_w=612))
    assert line_of("n1", heatmap_lines(doc, PIPE, metric="temp")).split()[1] == "71"
    assert line_of("n1", heatmap_lines(doc, PIPE, metric="power")).split()[1] == "612"
    legend = drawn(heatmap_lines(doc, Screen(80), metric="power"))
    assert "power 0 ▁▂▃▄▅▆▇█ 650 W" in legend
    assert "temperature 20 ▁▂▃▄▅▆▇█ 95 C" in drawn(heatmap_lines(doc, Screen(80), metric="temp"))


def test_memory_view_has_utilization_beside_it() -> None:
    doc = a_heatmap(a_gpu("n1", 0, 50, 40_960))
    lines = heatmap_lines(doc, Screen(80), metric="mem")
    assert lines[1].split() == ["NODE", "mem0", "GPU0", "mean", "spread"]
    assert "GPU: utilization in %" in drawn(lines)


def test_missing_index_in_a_node_leaves_its_column_empty() -> None:
    doc = a_heatmap(a_gpu("n1", 0, 10), a_gpu("n1", 1, 11), a_gpu("n2", 1, 22))
    lines = heatmap_lines(doc, PIPE)
    header = lines[1]
    assert line_of("n2", lines).index("22") == header.index("GPU1") + 1


def test_hot_nodes_are_drawn_even_where_their_spread_is_small() -> None:
    cool = [a_gpu(f"n{n:03}", g, 10.0 + 50 * g) for n in range(200) for g in range(2)]
    doc = a_heatmap(*cool, *(a_gpu("z-full", g, 95) for g in range(2)))
    assert doc.nodes[-1].node == "z-full"
    lines = heatmap_lines(doc, Screen(80, 20))
    assert any("z-full !!" in line for line in lines)
    assert "0 hot" in drawn(lines)


def test_nothing_to_show_is_said_in_words() -> None:
    assert "No GPUs" in drawn(heatmap_lines(a_heatmap(), Screen(80)))
    lost = a_heatmap(a_gpu("n1", 0, None, None, state=GpuState.LOST))
    text = " ".join(drawn(heatmap_lines(lost, Screen(80))).split())
    assert "No GPU has a fresh, known utilization" in text


def test_old_picture_says_so_without_colour() -> None:
    assert "LAST PICTURE" in heatmap_lines(the_night(), Screen(80), dim=True)[0]
    assert "LAST PICTURE" not in heatmap_lines(the_night(), Screen(80))[0]


def test_no_terminal_means_no_glyphs_and_no_cut_names() -> None:
    text = drawn(heatmap_lines(the_night(), PIPE))
    assert not set(text) & set("▁▂▃▄▅▆▇█…")
    assert "and 2 more" not in text


def test_source_is_named_without_its_path() -> None:
    file = Source(kind="file", location="incident.json")
    assert "snapshot incident.json" in heatmap_lines(the_night(source=file), Screen(120))[0]
    scraped = Source(kind="exporter", location="8 exporters")
    assert "8 exporters" in heatmap_lines(the_night(source=scraped), Screen(120))[0]


def test_names_are_fit_for_xargs() -> None:
    doc = a_heatmap(a_gpu("n1", 0), a_gpu("n1", None, uuid="GPU-abc"))
    assert heatmap_names(doc) == ["gpu/n1/0", "gpu/n1/GPU-abc"]


def test_wide_table_says_yes_no_and_nothing() -> None:
    doc = a_heatmap(a_gpu("n1", 0, 95), a_gpu("n1", 1, None, state=GpuState.NO_UTIL))
    headers, rows, numeric = wide_table(doc)
    hot = headers.index("hot")
    assert [row[hot] for row in rows] == ["yes", None]
    assert "utilization_pct" in numeric
    assert "node" not in numeric

"""Frames of the live view: what they show, and that they fit every screen."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuctl.model.gpu import GpuState, Tenant
from gpuctl.model.heatmap import HeatmapDocument
from gpuctl.render.screen import Screen, uncolored
from gpuctl.render.terminal import cell_width
from gpuctl.render.watch_filter import Editor
from gpuctl.render.watch_frame import Feed, Frame, frame
from gpuctl.render.watch_highlight import highlighted
from gpuctl.render.watch_state import Spot, WatchState, on_key
from gpuctl.render.watch_terminal import changed_lines
from tests.render.builders import PROMETHEUS, SIMULATION, a_gpu, a_heatmap, an_instance

WIDE = Screen(100, 30)
REVERSE = "\x1b[7m"


def night() -> HeatmapDocument:
    """A hot card, a lost one, MIG, an unknown one, a Chinese name."""
    return a_heatmap(
        a_gpu("gpu-node-1", 0, 96, workloads=["prod/llm-0", "prod/llm-1"]),
        a_gpu("gpu-node-1", 1, 20),
        a_gpu("香港-节点-2", 0, 55, mig=[an_instance(3, util=97, workloads=["dev/nb-1"])]),
        a_gpu("香港-节点-2", 1, None, None, state=GpuState.LOST, xid=79),
        a_gpu("gpu-node-3", 0, None, state=GpuState.NO_UTIL),
        a_gpu("gpu-node-3", 1, 40, state=GpuState.STALE),
        warnings=("1 of 3 nodes has no fresh GPU metrics: gpu-node-3",),
    )


def shown(
    state: WatchState | None = None,
    doc: HeatmapDocument | None = None,
    screen: Screen = WIDE,
    now: float = 100.0,
    **feed: object,
) -> Frame:
    about = Feed(doc or night(), read_at=100.0, took=0.1, **feed)  # type: ignore[arg-type]
    return frame(state or WatchState(), about, screen, now)


def text(drawn: Frame) -> str:
    return "\n".join(uncolored(line) for line in drawn.lines)


def status(drawn: Frame) -> str:
    return uncolored(drawn.lines[-1])


def selecting(node: str, gpu: int, doc: HeatmapDocument | None = None) -> WatchState:
    found = next(g for g in (doc or night()).items if (g.node, g.gpu) == (node, gpu))
    return WatchState(selected=Spot.of(found))


# What it says


def test_the_map_has_all_that_the_plain_view_has() -> None:
    picture = text(shown())
    for wanted in ("gpu-node-1", "96!", "LOST", "spread", "balance", "hot:", "prod/llm-0"):
        assert wanted in picture
    assert "every 5s" in status(shown())
    assert "? keys" in status(shown())


def test_age_counts_on_while_nothing_new_comes() -> None:
    assert "7s old" in text(shown(now=100.0))
    assert "8s old" in text(shown(now=101.0))
    assert "50s old" in text(shown(now=143.9))


def test_a_source_that_stands_still_does_not_age() -> None:
    still = a_heatmap(a_gpu(), source=SIMULATION, simulated=True)
    assert "7s old" in text(shown(doc=still, now=500.0))
    assert "stands still" in status(shown(doc=still))


def test_a_failure_dims_the_picture_and_says_why_and_how_old_it_is() -> None:
    drawn = shown(now=136.0, failure="can't reach Prometheus: connection refused")
    assert "LAST PICTURE" in text(drawn)
    assert status(drawn).startswith("age 43s: can't reach Prometheus: connection refused")
    again = shown(now=137.0, failure="can't reach Prometheus: connection refused")
    assert status(again).startswith("age 44s:")
    assert "every" not in status(drawn)


def test_a_read_that_never_ends_is_as_bad_as_one_that_failed() -> None:
    assert "LAST PICTURE" not in text(shown(now=109.0, reading_since=100.0))
    late = shown(now=115.0, reading_since=100.0)
    assert "LAST PICTURE" in text(late)
    assert "no answer for 15s" in status(late)


def test_a_source_that_is_always_slow_is_given_its_time() -> None:
    slow = Feed(night(), read_at=100.0, took=60.0, reading_since=100.0)
    assert not slow.is_late(now=170.0, period_seconds=5)
    assert slow.is_late(now=221.0, period_seconds=5)


def test_status_names_what_was_chosen() -> None:
    state = WatchState(sort="mem", metric="temp", is_paused=True)
    line = status(shown(state))
    for wanted in ("PAUSED", "sort mem", "metric temp", "1 warning (w)"):
        assert wanted in line


def test_a_narrow_status_keeps_what_matters() -> None:
    state = WatchState(is_paused=True)
    assert status(shown(state, screen=Screen(30, 12))).startswith("PAUSED")
    line = status(shown(screen=Screen(24, 12), failure="connection refused by prometheus"))
    assert line.startswith("age 7s: connection refu")


def test_the_selected_gpu_is_marked_and_named() -> None:
    drawn = shown(selecting("gpu-node-1", 0))
    row = next(line for line in drawn.lines if "gpu-node-1" in line)
    marked = row.partition(REVERSE)[2].partition("\x1b[0m")[0]
    assert "96!" in marked
    assert "gpu-node-1/0" in status(drawn)


def test_the_selected_gpu_is_marked_in_compact_cells_too() -> None:
    doc = a_heatmap(*(a_gpu(f"n{i:03}", g, 10 * g) for i in range(60) for g in range(8)))
    screen = Screen(80, 24, color_level=256)
    marked = shown(selecting("n037", 5, doc), doc, screen)
    plain = shown(WatchState(), doc, screen)
    assert plain.drawn.per_line > 1
    rows = [i for i in range(23) if marked.lines[i] != plain.lines[i]]
    assert len(rows) == 1
    line = marked.lines[rows[0]]
    assert line.partition(REVERSE)[2].startswith("5\x1b[0m")
    before = uncolored(line.partition(REVERSE)[0])
    assert before.rpartition("n037 ")[2] == "01234"


def test_a_map_too_tall_scrolls_to_the_selected_node() -> None:
    doc = a_heatmap(*(a_gpu(f"n{i:03}", 0, 50) for i in range(200)))
    state = replace(selecting("n150", 0, doc), as_table=True)
    drawn = shown(state, doc, Screen(80, 20))
    assert "n150" in text(drawn)
    assert "n000" not in text(drawn)
    assert "of 200" in status(drawn)
    top = shown(replace(state, selected=None), doc, Screen(80, 20))
    assert "n000" in text(top)
    assert "nodes 1-" in status(top)


def test_instances_without_room_are_one_key_away() -> None:
    cards = [a_gpu(f"n{i}", 0, 50, mig=[an_instance(1), an_instance(2)]) for i in range(8)]
    doc = a_heatmap(*cards, a_gpu("n8", 0, 50))
    small = Screen(80, 16)
    assert "3g.40gb#1" not in text(shown(doc=doc, screen=small))
    assert "i: MIG" in status(shown(doc=doc, screen=small))
    by_mig = shown(WatchState(by_mig=True), doc, small)
    assert "3g.40gb#1" in text(by_mig)
    assert "i: MIG" not in status(by_mig)
    assert "i: MIG" not in status(shown(doc=doc, screen=Screen(80, 60)))


def test_detail_shows_every_figure() -> None:
    state = replace(selecting("gpu-node-1", 0), page="gpu")
    page = text(shown(state))
    for wanted in (
        "gpu-node-1/0 NVIDIA A100-SXM4-80GB",
        "96 % by DCGM_FI_DEV_GPU_UTIL",
        "hot for 47m (over 90 % at every sample for 5m)",
        "39.1 of 80.0 GiB (49 %)",
        "83 C",
        "348 W",
        "48 % of the memory's",
        "24 % active",
        "GPU-gpu-node-1-0",
        "00000000:01:00.0",
        "7s old when it was read",
        "prod/llm-1",
    ):
        assert wanted in page


def test_detail_of_shares_and_instances() -> None:
    tenant = Tenant(
        workload="prod/llm-0", utilization_pct=61.0, memory_used_mib=2048.0, measured=True
    )
    measured = a_gpu("n", 0, 80, workloads=["prod/llm-0"], tenants=(tenant,))
    instance = an_instance(7, "2g.20gb", 97, workloads=["dev/nb-1"], hot_for_capped=True)
    split = a_gpu("n", 1, 55, mig=[instance])
    doc = a_heatmap(measured, split)
    page = text(shown(replace(selecting("n", 0, doc), page="gpu"), doc))
    assert "prod/llm-0 61 %, 2.0 GiB measured" in page
    page = text(shown(replace(selecting("n", 1, doc), page="gpu"), doc))
    assert "instance 7" in page
    assert "2g.20gb 97 %" in page
    assert "hot for at least 10m" in page
    assert page.count("dev/nb-1") == 1
    assert "2 of 7 slices" in page


def test_detail_of_what_is_unknown_never_says_zero() -> None:
    figures = ("temperature_c", "power_w", "memory_bandwidth_pct", "tensor_pct", "age_seconds")
    silent = a_gpu("n", 1, None, None, state=GpuState.LOST, xid=79, **dict.fromkeys(figures))
    doc = a_heatmap(silent)
    page = text(shown(replace(selecting("n", 1, doc), page="gpu"), doc))
    assert "lost: it had metrics" in page
    assert "-- of 80.0 GiB (-- %)" in page
    assert "XID" in page
    assert "not judged" in page
    assert " 0 %" not in page


def test_a_gpu_that_vanishes_while_it_is_open() -> None:
    state = replace(selecting("gpu-node-1", 0), page="gpu")
    assert "gone from the picture" in text(shown(state, a_heatmap(a_gpu("other"))))


def test_help_lists_every_key_and_warnings_are_whole() -> None:
    page = text(shown(WatchState(page="help"), screen=Screen(80, 40)))
    for key in ("q", "hjkl", "Enter", "/", "space", "PgUp", "^L", "^Z"):
        assert key in page
    warnings = text(shown(WatchState(page="warnings"), screen=Screen(30, 20), failure="no route"))
    assert "- no route" in warnings
    assert "gpu-node-3" in warnings


def test_a_page_scrolls() -> None:
    small = Screen(60, 8)
    first = shown(WatchState(page="help"), screen=small)
    assert first.drawn.last_offset > 0
    end = shown(WatchState(page="help", offset=first.drawn.last_offset), screen=small)
    assert "this page" in text(end)
    assert "Keys" not in text(end)


def test_the_filter_line_shows_its_cursor_and_its_error() -> None:
    drawn = shown(WatchState(editor=Editor("util>9", 2)))
    assert status(drawn).startswith("/util>9 ")
    assert drawn.cursor == (29, 3)
    wrong = shown(WatchState(editor=Editor("nix>9", 5, error="unknown field 'nix'")))
    assert "unknown field 'nix'" in status(wrong)
    long = shown(WatchState(editor=Editor("x" * 300 + "end", 303)), screen=Screen(40, 10))
    assert "end" in status(long)
    assert long.cursor is not None
    assert long.cursor[1] < 40


def test_a_screen_too_small_asks_for_room() -> None:
    tiny = shown(screen=Screen(19, 30))
    assert len(tiny.lines) == 1
    assert "20x5" in tiny.lines[0]
    assert len(shown(screen=Screen(80, 4)).lines) == 1
    assert "hot" in text(shown(screen=Screen(20, 5))), "this one is just enough"


def test_ascii_screens_get_ascii() -> None:
    ascii_only = Screen(60, 20, utf8=False)
    for page in ("map", "gpu", "help", "warnings"):
        state = replace(selecting("香港-节点-2", 0), page=page)
        assert all(line.isascii() for line in shown(state, screen=ascii_only).lines)


# That it fits

_KEYS = [
    *"qhjklgGsmMtirw?+-/ x>9=", "up", "down", "left", "right", "enter", "esc", "home", "end",
    "page-up", "page-down", "backspace", "delete", "kill-line", "kill-word", "tab", "redraw", "香",
]  # fmt: skip
_SCREENS = st.builds(
    Screen,
    st.integers(1, 170),
    st.integers(1, 60),
    st.sampled_from([0, 16, 256, 16_777_216]),
    st.booleans(),
)


def _cluster(nodes: int, gpus: int) -> HeatmapDocument:
    return a_heatmap(
        *(
            a_gpu(f"gpu-节点-{n}" if n % 3 else f"gpu-{n}", g, (n * 37 + g * 11) % 100)
            for n in range(nodes)
            for g in range(gpus)
        )
    )


_DOCS = [night(), a_heatmap(), _cluster(8, 4), _cluster(70, 8), _cluster(1, 16)]


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(_DOCS), st.lists(st.sampled_from(_KEYS), max_size=25), _SCREENS, st.booleans()
)
def test_no_keys_and_no_screen_break_a_frame(
    doc: HeatmapDocument, keys: list[str], screen: Screen, is_failing: bool
) -> None:
    feed = Feed(doc, 0.0, failure="can't reach 香港: refused" if is_failing else None)
    state = WatchState()
    for key in [*keys, "redraw"]:
        drawn = frame(state, feed, screen, now=12.0)
        assert len(drawn.lines) <= (screen.height or 0)
        for line in drawn.lines:
            assert cell_width(uncolored(line)) <= (screen.width or 0)
        if drawn.cursor is not None:
            assert drawn.cursor[0] < (screen.height or 0)
            assert drawn.cursor[1] <= (screen.width or 0)
        state = on_key(replace(state, drawn=drawn.drawn), key, doc)


# Lines and what is written of them


def test_only_lines_that_changed_are_written() -> None:
    written = changed_lines(["a", "b", "c"], ["a", "B", "c"], 10)
    assert "\x1b[2;1HB" in written
    assert "a" not in uncolored(written)
    assert "c" not in uncolored(written)
    assert changed_lines(["a", "b"], ["a", "b"], 10) == ""


def test_a_screen_of_unknown_content_is_cleared_and_drawn_in_full() -> None:
    written = changed_lines(None, ["a", "b"], 10)
    assert "\x1b[2J" in written
    assert "\x1b[1;1Ha" in written
    assert "\x1b[2;1Hb" in written


def test_what_a_line_leaves_over_is_erased_but_never_its_last_cell() -> None:
    assert changed_lines(["long"], ["x"], 10).endswith("x\x1b[0m\x1b[K")
    assert not changed_lines(["1"], ["0123456789"], 10).endswith("\x1b[K")
    assert "\x1b[2;1H\x1b[0m\x1b[K" in changed_lines(["a", "b"], ["a"], 10)


def test_the_cursor_shows_where_something_is_typed() -> None:
    assert changed_lines(["a"], ["a"], 10, (0, 3)).endswith("\x1b[1;4H\x1b[?25h")


@pytest.mark.parametrize(
    ("line", "start", "cells", "inside"),
    [
        ("abcdef", 2, 3, "cde"),
        ("abcdef", 0, 6, "abcdef"),
        ("香港cdef", 4, 2, "cd"),
        ("ab\x1b[31mcd\x1b[0mef", 3, 2, "de"),
        ("ab", 4, 2, "  "),
        ("abcd", 3, 3, "d  "),
    ],
)
def test_a_highlight_covers_its_cells_only(line: str, start: int, cells: int, inside: str) -> None:
    marked = highlighted(line, start, cells)
    assert marked.partition(REVERSE)[2].partition("\x1b[0m")[0] == inside
    assert uncolored(marked).rstrip() == uncolored(line).rstrip()


def test_colours_go_on_behind_a_highlight() -> None:
    marked = highlighted("\x1b[44mabcd\x1b[0m", 1, 1)
    assert marked == "\x1b[44ma\x1b[0m\x1b[7mb\x1b[0m\x1b[44mcd\x1b[0m"


def test_the_source_is_named_as_ever() -> None:
    assert PROMETHEUS.location.partition("://")[2].partition("/")[0] in text(shown())

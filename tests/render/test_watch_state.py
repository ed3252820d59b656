"""What keys do to the live view's state."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from gpuctl.model.heatmap import HeatmapDocument
from gpuctl.policy.filters import BadCondition
from gpuctl.render.watch_filter import Editor, Filter, parse_filter
from gpuctl.render.watch_state import Drawn, Spot, WatchState, on_key, selected_gpu
from tests.render.builders import a_gpu, a_heatmap


def two_by_two(hot: float = 96) -> HeatmapDocument:
    """n1 (spread 76) before n2 (spread 10)."""
    return a_heatmap(
        a_gpu("n1", 0, 20), a_gpu("n1", 1, hot), a_gpu("n2", 0, 50), a_gpu("n2", 1, 60)
    )


def pressed(
    *keys: str, state: WatchState | None = None, doc: HeatmapDocument | None = None
) -> WatchState:
    state, doc = state or WatchState(), doc or two_by_two()
    for key in keys:
        state = on_key(state, key, doc)
    return state


def at(state: WatchState) -> str:
    assert state.selected is not None
    return f"{state.selected.node}/{state.selected.gpu}"


def test_q_quits_on_every_page() -> None:
    assert pressed("q").has_quit
    assert pressed("?", "q").has_quit
    assert pressed("enter", "q").has_quit
    assert not pressed("/", "q").has_quit, "there it is a letter"


def test_the_first_move_selects_what_is_hot() -> None:
    assert at(pressed("down")) == "n1/1"
    assert at(pressed("j")) == "n1/1"
    cool = two_by_two(hot=80)
    assert at(pressed("right", doc=cool)) == "n1/0"


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        ("h", "n1/0"),
        ("hh", "n1/0"),
        ("l", "n1/1"),
        ("j", "n2/1"),
        ("jj", "n2/1"),
        ("jh", "n2/0"),
        ("jk", "n1/1"),
        ("k", "n1/1"),
        ("G", "n2/1"),
        ("Gg", "n1/1"),
    ],
)
def test_moves_stay_within_the_cluster(keys: str, place: str) -> None:
    assert at(pressed("l", *keys)) == place


def test_arrows_and_letters_move_alike() -> None:
    letters = pressed("l", "j", "h", "k")
    assert pressed("right", "down", "left", "up") == letters


def test_a_shorter_node_takes_the_selection_to_its_last_gpu() -> None:
    doc = a_heatmap(*(a_gpu("wide", i, 10 * i) for i in range(4)), a_gpu("narrow", 0, 20))
    state = pressed("l", "l", "l", "l", "j", doc=doc)
    assert at(state) == "narrow/0"


def test_nodes_side_by_side_are_walked_along_the_line() -> None:
    doc = a_heatmap(
        *(a_gpu(f"n{i}", g, 50 + (5 - i) * g) for i in range(1, 5) for g in range(2)),
    )
    assert [load.node for load in doc.nodes] == ["n1", "n2", "n3", "n4"]
    state = replace(pressed("l", doc=doc), drawn=Drawn(per_line=3, page=3))
    assert at(pressed("l", "l", state=state, doc=doc)) == "n2/0"
    assert at(pressed("l", "l", "h", state=state, doc=doc)) == "n1/1"
    assert at(pressed("j", state=state, doc=doc)) == "n4/0"
    assert at(pressed("l", "l", "j", state=state, doc=doc)) == "n4/0", "the last line is short"
    assert at(pressed("j", "j", "k", state=state, doc=doc)) == "n1/0"


def test_pages_move_by_what_was_on_the_screen() -> None:
    doc = a_heatmap(*(a_gpu(f"n{i:02}", 0, 50) for i in range(40)))
    state = replace(pressed("l", doc=doc), drawn=Drawn(per_line=1, page=15))
    assert at(pressed("page-down", state=state, doc=doc)) == "n15/0"
    assert at(pressed("page-down", "page-down", "page-down", state=state, doc=doc)) == "n39/0"
    assert at(pressed("end", "page-up", state=state, doc=doc)) == "n24/0"


def test_the_selection_follows_its_gpu_when_the_order_changes() -> None:
    state = pressed("l", "j")
    other = a_heatmap(a_gpu("n2", 0, 5), a_gpu("n2", 1, 99), a_gpu("n1", 0, 50))
    gpu = selected_gpu(state, other)
    assert gpu is not None
    assert gpu.utilization_pct == 99


def test_a_selected_gpu_that_is_gone_is_no_selection() -> None:
    state = pressed("l")
    other = a_heatmap(a_gpu("n7", 3, 50))
    assert selected_gpu(state, other) is None
    assert at(pressed("l", state=state, doc=other)) == "n7/3"


def test_nothing_to_select_in_an_empty_picture() -> None:
    empty = a_heatmap()
    for key in ("j", "l", "enter", "g", "page-down"):
        state = pressed(key, doc=empty)
        assert state.selected is None
        assert state.page == "map"


def test_enter_opens_the_selected_gpu_and_closes_it() -> None:
    state = pressed("j", "enter")
    assert state.page == "gpu"
    assert pressed("enter", state=state).page == "map"
    assert pressed("esc", state=state).page == "map"
    assert at(pressed("esc", state=state)) == "n1/1"


def test_left_and_right_lead_through_the_gpus_while_one_is_open() -> None:
    state = pressed("enter", "right")
    assert state.page == "gpu"
    assert at(state) == "n2/0"
    assert at(pressed("left", "left", "left", state=state)) == "n1/0"


def test_pages_scroll_no_further_than_their_end() -> None:
    state = replace(pressed("?"), drawn=Drawn(page=5, last_offset=7))
    assert pressed("j", "j", state=state).offset == 2
    assert pressed("page-down", "page-down", state=state).offset == 7
    assert pressed("end", state=state).offset == 7
    assert pressed("end", "k", state=state).offset == 6
    assert pressed("end", "home", "up", state=state).offset == 0
    assert pressed("end", "?", "?", state=state).offset == 0


def test_help_and_warnings_open_and_close_by_the_same_key() -> None:
    assert pressed("?").page == "help"
    assert pressed("?", "?").page == "map"
    assert pressed("w").page == "warnings"
    assert pressed("w", "?").page == "help"
    assert pressed("w", "esc").page == "map"


def test_sorts_and_metrics_go_round() -> None:
    assert [pressed(*["s"] * n).sort for n in range(5)] == [
        "spread",
        "name",
        "util",
        "mem",
        "spread",
    ]
    assert pressed("m").metric == "mem"
    assert pressed("M").metric == "power"
    assert pressed(*"mmmmmm").metric == "util"


def test_periods_go_in_steps_and_stop_at_the_ends() -> None:
    assert pressed("+").period == timedelta(seconds=10)
    assert pressed("-").period == timedelta(seconds=2)
    assert pressed(*"-----").period == timedelta(seconds=1)
    assert pressed(*["+"] * 20).period == timedelta(minutes=5)
    odd = WatchState(period=timedelta(seconds=7))
    assert pressed("+", state=odd).period == timedelta(seconds=10)
    assert pressed("-", state=odd).period == timedelta(seconds=5)


def test_space_pauses_and_goes_on_and_r_reads() -> None:
    assert pressed(" ").is_paused
    assert not pressed(" ", " ").is_paused
    assert pressed("r").reads == 1
    assert pressed("redraw").redraws == 1


def test_a_filter_is_typed_and_applied() -> None:
    state = pressed("/", *"gpu-0")
    assert state.editor == Editor("gpu-0", 5)
    assert state.filter.text == "", "nothing changes while it is typed"
    assert pressed("enter", state=state).filter.text == "gpu-0"
    assert pressed("enter", state=state).editor is None


def test_esc_keeps_the_old_filter_and_empty_clears_it() -> None:
    state = pressed("/", *"n1", "enter")
    assert pressed("/", *"xyz", "esc", state=state).filter.text == "n1"
    cleared = pressed("/", "kill-line", "enter", state=state)
    assert cleared.filter == Filter()


def test_a_bad_condition_says_why_and_changes_nothing() -> None:
    state = pressed("/", *"n1", "enter", "/", "kill-line", *"nix>9", "enter")
    assert state.filter.text == "n1"
    assert state.editor is not None
    assert "unknown field 'nix'" in (state.editor.error or "")
    corrected = pressed("backspace", state=state)
    assert corrected.editor == Editor("nix>", 4, error=None)


def test_the_line_is_edited_like_a_shells() -> None:
    def typed(*keys: str) -> tuple[str, int]:
        editor = Editor()
        for key in keys:
            editor = editor.typed(key)
        return editor.text, editor.at

    assert typed(*"abc", "left", "x") == ("abxc", 3)
    assert typed(*"abc", "home", "delete") == ("bc", 0)
    assert typed(*"abc", "left", "backspace") == ("ac", 1)
    assert typed(*"ab", "home", "backspace") == ("ab", 0)
    assert typed(*"one two ", "kill-word") == ("one ", 4)
    assert typed(*"one", "left", "kill-line") == ("e", 0)
    assert typed("香", "left", "left", "right", "right", "end") == ("香", 1)
    assert typed("up", "page-down", "tab") == ("", 0)
    assert len(typed(*"x" * 1000)[0]) == 500


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("", ["n1/0", "n1/1", "n2/0", "n2/1"]),
        ("N2", ["n2/0", "n2/1"]),
        ("util>55", ["n1/1", "n2/1"]),
        ("util > 55", ["n1/1", "n2/1"]),
        ("n1 util>=20 gpu=0", ["n1/0"]),
        ("hot=true", ["n1/1"]),
        ("node~=^n2$ util<55", ["n2/0"]),
        ("nowhere", []),
    ],
)
def test_words_of_a_filter_must_all_hold(text: str, kept: list[str]) -> None:
    chosen = parse_filter(text)
    found = [
        f"{gpu.node}/{gpu.gpu}"
        for gpu in two_by_two().items
        if all(condition.holds(gpu) for condition in chosen.conditions)
    ]
    assert found == kept


def test_a_filter_that_can_not_be_read_is_refused() -> None:
    with pytest.raises(BadCondition, match="compares with"):
        parse_filter("util~=9")


def test_esc_lets_go_of_the_selection() -> None:
    assert pressed("j", "esc").selected is None


def test_a_spot_is_one_gpu_even_where_indices_repeat() -> None:
    first, second = a_gpu("n", None, 10, uuid="GPU-a"), a_gpu("n", None, 20, uuid="GPU-b")
    assert Spot.of(first) != Spot.of(second)
    state = pressed("l", "l", doc=a_heatmap(first, second))
    assert state.selected == Spot.of(second)

"""GPU by time: merging, sorting, what is missing."""

from __future__ import annotations

from gpuctl.model.history import HistorySeries
from gpuctl.render.history import history_lines, history_names, history_rows, ticks, tracks
from gpuctl.render.screen import Screen
from tests.render.builders import a_history

PIPE = Screen(None)


def series(node: str, *values: float | None, gpu: int = 0, **changes: object) -> HistorySeries:
    return HistorySeries(node=node, gpu=gpu, uuid=f"GPU-{node}", values=values, **changes)  # type: ignore[arg-type]


def test_a_short_peak_survives_merging() -> None:
    values = [5.0] * 100
    values[33] = 99.0
    doc = a_history(0, 100, items=(series("n1", *values),))
    rows, merged = tracks(doc, 10)
    assert merged == 10
    assert rows[0].values[3] == 99
    text = "\n".join(history_lines(doc, Screen(40)))
    assert "█" in text
    assert "the highest of" in text


def test_hottest_rows_come_first_and_unknown_ones_last() -> None:
    doc = a_history(
        0, 2, items=(series("cool", 1, 2), series("mute", None, None), series("warm", 3, 90))
    )
    rows, _ = tracks(doc, None)
    assert [row.name for row in rows] == ["warm/0", "cool/0", "mute/0"]


def test_missing_steps_are_no_cold_cells() -> None:
    doc = a_history(0, 3, items=(series("n1", 0, None, 50),))
    assert "▁·▄" in "\n".join(history_lines(doc, PIPE)) or "▁·▅" in "\n".join(
        history_lines(doc, PIPE)
    )
    ascii_only = "\n".join(history_lines(doc, Screen(80, utf8=False)))
    assert "_ no value" in ascii_only
    assert "._" in ascii_only


def test_figures_at_the_right_are_lowest_highest_and_newest() -> None:
    doc = a_history(0, 3, items=(series("n1", 10, 80, 30), series("n2", 10, 5, None)))
    lines = history_lines(doc, PIPE)
    rows = {line.split()[0]: line.split()[-3:] for line in lines if line.startswith("n")}
    assert rows == {"n1/0": ["10", "80", "30"], "n2/0": ["5", "10", "--"]}


def test_instances_have_rows_of_their_own() -> None:
    part = series("n1", 1, 2, mig_id=7, profile="1g.10gb")
    text = "\n".join(history_lines(a_history(0, 2, items=(series("n1", 1, 2), part)), PIPE))
    assert "n1/0 1g.10gb#7" in text


def test_rows_that_do_not_fit_are_counted() -> None:
    lines = history_lines(a_history(40, 24), Screen(80, 12))
    shown = sum(line.startswith("gpu-node") for line in lines)
    assert f"and {40 - shown} more, highest" in "\n".join(lines)


def test_time_axis_has_days_over_long_spans() -> None:
    assert ticks(a_history(1, 24).times, 1)[0][1] == "01:17"
    assert ticks(a_history(1, 600).times, 10)[0][1].startswith("02-27 ")


def test_axis_labels_stand_under_their_columns() -> None:
    doc = a_history(0, 24, items=(series("n1", *[50.0] * 24),))
    lines = history_lines(doc, PIPE)
    row = next(i for i, line in enumerate(lines) if line.startswith("n1/0"))
    assert lines[row + 1].index("01:17") == lines[row].index("▅")


def test_csv_rows_and_names_are_complete() -> None:
    doc = a_history(3, 5)
    headers, rows = history_rows(doc)
    assert len(rows) == 15
    assert all(len(row) == len(headers) for row in rows)
    assert history_names(doc) == ["gpu/gpu-node-1/0", "gpu/gpu-node-1/1", "gpu/gpu-node-1/2"]


def test_simulated_history_says_so() -> None:
    from tests.render.builders import SIMULATION

    doc = a_history(simulated=True, source=SIMULATION)
    assert "SIMULATED hk-night" in history_lines(doc, Screen(80))[0]

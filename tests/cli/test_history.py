"""`gpuctl history`: what the journal tells of runs that ended, run, or died."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpuctl.actions.journal import Journal, read_journal
from gpuctl.actions.lock import run_lock
from gpuctl.actions.scope import Scope, scope_of, this_process
from gpuctl.model.schema import FOLDER
from tests.cli.calling import CLOCK, Called, call

HOT = "hk-gpu-03/1"


class Demo:
    """Calls on a demo with a state folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.environ = {"XDG_STATE_HOME": str(folder)}

    def __call__(self, *words: str) -> Called:
        return call("--demo", *words, environ=self.environ)

    def listed(self, *words: str) -> Any:
        document = self("history", *words, "-o", "json").document
        schema = json.loads((FOLDER / "history_list.json").read_text())
        jsonschema.validate(document, schema, format_checker=jsonschema.FormatChecker())
        return document["items"]

    @property
    def scope(self) -> Scope:
        return scope_of(self.environ, None, "hk-night", make=True)


@pytest.fixture
def demo(tmp_path: Path) -> Demo:
    return Demo(tmp_path)


def cut_journal(demo: Demo, events: int) -> None:
    """The journal as a death after so many records would have left it."""
    path = Path(demo.scope.journal_path)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:events]))


def test_without_any_run_it_says_so(demo: Demo) -> None:
    called = demo("history")
    assert (called.code, called.out) == (0, "")
    assert "no acting run yet" in called.err
    assert demo.listed() == []


def test_each_run_is_listed_newest_first_with_its_steps(demo: Demo) -> None:
    first = demo("evict", "--gpu", HOT, "--max", "1", "--yes", "-o", "json").document
    demo("evict", "--gpu", HOT, "--yes")
    newest, oldest = demo.listed()
    assert (newest["exit_code"], oldest["exit_code"]) == (4, 0)
    assert oldest["run_id"] == first["run_id"]
    assert oldest["steps"] == first["steps"]
    assert demo.listed("--last", "1") == [newest]
    assert demo("history", "-o", "name").out.split() == [newest["run_id"], oldest["run_id"]]
    assert len(demo("history", "-o", "csv").out.splitlines()) == 3
    assert demo("history").out.splitlines()[0].split()[:3] == ["RUN", "COMMAND", "STATE"]


def test_one_run_is_shown_with_reasons_by_the_beginning_of_its_id(demo: Demo) -> None:
    run = demo("evict", "--gpu", HOT, "--max", "1", "--soft-taint", "--yes", "-o", "json").document
    called = demo("history", run["run_id"][:-1])
    assert called.code == 0
    assert run["steps"][0]["workload"] in called.out
    assert run["steps"][0]["reason"] in called.out
    assert "soft-taint of hk-gpu-03: undone" in called.out
    rows = demo("history", run["run_id"], "-o", "csv").out.splitlines()
    assert rows[1].startswith("s1,evict,")
    assert run["steps"][0]["workload"] in demo("history", run["run_id"], "-o", "wide").out


@pytest.mark.parametrize("words", [("no-such-run",), ("20",), ("--last", "0")])
def test_what_is_not_one_run_is_a_usage_error(demo: Demo, words: tuple[str, ...]) -> None:
    demo("evict", "--gpu", HOT, "--max", "1", "--yes")
    demo("evict", "--gpu", HOT, "--yes")
    assert demo("history", *words).code == 2


def test_a_run_that_died_is_abandoned_with_what_it_left_until_the_next_run(demo: Demo) -> None:
    demo("evict", "--gpu", HOT, "--max", "1", "--soft-taint", "--yes")
    events = [record.event for record in read_journal(demo.scope.journal_path).records]
    cut_journal(demo, events.index("sending") + 1)
    (run,) = demo.listed()
    assert run["state"] == "abandoned"
    assert run["open_steps"] == ["s1"]
    assert run["open_holds"] == ["soft-taint of hk-gpu-03"]
    assert run["steps"][0]["status"] == "unknown"
    called = demo("history", run["run_id"])
    assert "STILL ON" in called.out
    assert "the next acting run cleans up" in called.out
    demo("evict", "hk/nobody", "--yes")
    (run,) = demo.listed()
    assert (run["state"], run["open_steps"], run["open_holds"]) == ("ended", [], [])
    assert run["steps"][0]["status"] == "done"
    assert run["closed_by"]


def test_a_run_that_holds_the_lock_is_running(demo: Demo) -> None:
    scope = demo.scope
    holder = this_process("r1", "evict", CLOCK)
    with (
        run_lock(scope.lock_path, holder, clock=CLOCK, subject="x", wait=lambda _: None),
        Journal(scope.journal_path, CLOCK) as journal,
    ):
        journal.write("r1", "run-started", data={"command": "evict", "steps": []})
        assert [run["state"] for run in demo.listed()] == ["running"]
    assert [run["state"] for run in demo.listed()] == ["abandoned"]


def test_a_torn_line_is_a_warning(demo: Demo) -> None:
    demo("evict", "--gpu", HOT, "--max", "1", "--yes")
    path = Path(demo.scope.journal_path)
    path.write_bytes(path.read_bytes()[:-20])
    called = demo("history")
    assert called.code == 0
    assert "cut off by a crash" in called.err
    assert "abandoned" in called.out

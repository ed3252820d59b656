"""Where the journal is kept, also without a home, and what keeps contexts apart."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gpuctl.actions import scope as scope_module
from gpuctl.actions.journal import Event, read_journal
from gpuctl.actions.runs import runs_of
from gpuctl.actions.scope import acting, new_run_id, read_history, scope_of, this_process
from gpuctl.clock import FixedClock
from gpuctl.errors import GpuctlError
from gpuctl.state import ROOT_STATE, make_state_folder, state_folder
from tests.actions.playing import NOON


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"XDG_STATE_HOME": "/x"}, "/x/gpuctl"),
        ({"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/gpuctl"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/h"}, "/h/.local/state/gpuctl"),
        ({"HOME": "/h"}, "/h/.local/state/gpuctl"),
    ],
)
def test_the_folder_follows_the_environment(environ: dict[str, str], folder: str) -> None:
    assert state_folder(environ) == folder


def test_without_a_home_root_has_a_folder_and_others_are_told_what_to_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert state_folder({}) == ROOT_STATE
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(GpuctlError) as caught:
        state_folder({})
    assert "XDG_STATE_HOME" in (caught.value.hint or "")


def test_the_folder_is_for_its_owner_alone(tmp_path: Path) -> None:
    folder = make_state_folder({"XDG_STATE_HOME": str(tmp_path / "deep" / "er")})
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700


def test_a_file_in_the_way_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "gpuctl").write_text("")
    with pytest.raises(GpuctlError) as caught:
        make_state_folder({"XDG_STATE_HOME": str(tmp_path)})
    assert str(tmp_path / "gpuctl") in caught.value.what


def test_contexts_and_demos_have_files_of_their_own(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    scopes = [
        scope_of(environ, context, demo, make=False)
        for context, demo in (
            (None, None),
            ("hk", None),
            ("../hk", None),
            (None, "hk"),
            ("no-context", None),
        )
    ]
    paths = {path for scope in scopes for path in (scope.journal_path, scope.lock_path)}
    assert len(paths) == 2 * len(scopes)
    assert {os.path.dirname(path) for path in paths} == {str(tmp_path / "gpuctl")}


def test_run_ids_sort_by_time_and_differ() -> None:
    ids = {new_run_id(NOON) for _ in range(20)}
    assert len(ids) > 15
    assert all(one.startswith("20250301T120000Z-") for one in ids)


def test_a_long_journal_is_put_aside_once_no_run_of_it_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scope_module, "LONG_BYTES", 1)
    scope = scope_of({"XDG_STATE_HOME": str(tmp_path)}, "hk", None, make=True)
    clock = FixedClock(NOON)

    def act(run: str, *events: Event) -> None:
        who = this_process(run, "evict", clock)
        with acting(scope, who, clock=clock, patience_seconds=0, wait=lambda _: None) as journal:
            for event in events:
                journal.write(run, event, data={})

    act("r1", "run-started")
    act("r2", "run-started", "run-ended")
    assert not os.path.exists(f"{scope.journal_path}.1")
    act("r1", "run-ended")
    act("r3", "run-started", "run-ended")
    assert [record.run for record in read_journal(scope.journal_path).records] == ["r3", "r3"]
    assert [run.run_id for run in runs_of(read_history(scope).records)] == ["r1", "r2", "r3"]

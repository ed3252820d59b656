"""Changing the file leaves every other byte alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gpuctl.config.edit import context_names, create_file, replace_config, with_current_context
from gpuctl.config.files import RawFile
from gpuctl.errors import ConfigError

TAIL = "contexts:\n  hk: {}   # 香港\n  sg: {}\n  '123': {}\n"


def changed(text: str, name: str = "sg") -> str:
    return with_current_context(RawFile("config.yaml", text, None), name)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("current_context: hk\n", "current_context: sg\n"),
        ("# top\n\ncurrent_context:   hk   # why\n", "# top\n\ncurrent_context:   sg   # why\n"),
        ("current_context: 'hk'\n", "current_context: sg\n"),
        ('"current_context": "hk"\n', '"current_context": sg\n'),
        ("current_context:\n", "current_context: sg\n"),
        ("current_context: # none yet\n", "current_context: sg # none yet\n"),
        ("current_context: ~\n", "current_context: sg\n"),
        ("current_context: hk\r\n", "current_context: sg\r\n"),
        ("\ufeffcurrent_context: hk\n", "\ufeffcurrent_context: sg\n"),
        ("---\n# é 😀\ncurrent_context: hk\n", "---\n# é 😀\ncurrent_context: sg\n"),
        ("# a comment\n", "# a comment\ncurrent_context: sg\n"),
        ("---\n", "---\ncurrent_context: sg\n"),
        ("", "current_context: sg\n"),
        ("policy:\r\n  hot_above: 80\r\n", "current_context: sg\r\npolicy:\r\n  hot_above: 80\r\n"),
        ("polcy: {broken: elsewhere}\n", "current_context: sg\npolcy: {broken: elsewhere}\n"),
    ],
)
def test_only_the_current_context_changes(before: str, after: str) -> None:
    assert changed(before + TAIL) == after + TAIL


def test_the_key_may_stand_last_and_the_file_end_without_a_newline() -> None:
    assert changed(TAIL + "current_context: hk") == TAIL + "current_context: sg"


def test_a_name_that_yaml_would_misread_is_quoted() -> None:
    assert changed("current_context: hk\n" + TAIL, "123") == 'current_context: "123"\n' + TAIL


def test_a_layout_in_braces_works_when_the_key_is_there() -> None:
    text = "{current_context: hk, contexts: {hk: {}, sg: {}}}\n"
    assert changed(text) == "{current_context: sg, contexts: {hk: {}, sg: {}}}\n"


@pytest.mark.parametrize(
    "text",
    [
        "{contexts: {hk: {}, sg: {}}}\n",
        "? current_context\n" + TAIL,
        "current_context: |\n  hk\n" + TAIL,
        "",
    ],
)
def test_what_can_not_be_changed_safely_is_left_alone(text: str) -> None:
    with pytest.raises(ConfigError, match="can't be changed") as failure:
        changed(text)
    assert failure.value.hint == "set it by hand: current_context: sg"


def test_contexts_are_found_in_a_file_that_is_wrong_elsewhere() -> None:
    assert context_names(RawFile("x", "polcy: 1\n" + TAIL, None)) == ("hk", "sg", "123")
    assert context_names(RawFile("x", "contexts: 5\n", None)) == ()


def test_a_replaced_file_keeps_its_mode_and_leaves_no_other(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("old")
    path.chmod(0o640)
    replace_config(str(path), "new\r\n", 0o640)
    assert path.read_bytes() == b"new\r\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["config.yaml"]


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    target, link = tmp_path / "real.yaml", tmp_path / "link.yaml"
    target.write_text("old")
    link.symlink_to(target)
    replace_config(str(link), "new", 0o600)
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_failed_replacement_leaves_the_old_file_and_no_debris(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(ConfigError, match="can't be written"):
        replace_config(str(tmp_path / "taken"), "new", 0o600)
    with pytest.raises(ConfigError, match="can't be written"):
        replace_config(str(tmp_path / "absent" / "x"), "new", 0o600)
    assert os.listdir(tmp_path) == ["taken"]


def test_the_standard_input_can_not_be_replaced() -> None:
    with pytest.raises(ConfigError, match="standard input"):
        replace_config("-", "new", 0o600)


def test_a_created_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "config.yaml"
    before = os.umask(0)
    try:
        create_file(str(path), "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("mine")
    with pytest.raises(ConfigError, match="exists already"):
        create_file(str(path), "x")
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="exists already"):
        create_file(str(dangling), "x")
    assert path.read_text() == "mine"


def test_a_folder_that_can_not_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="file' can't be written: file exists"):
        create_file(str(tmp_path / "file" / "config.yaml"), "x")

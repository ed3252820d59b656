"""The completion scripts are current, and what they ask gpuctl for."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gpuctl.cli import suggestions as live
from gpuctl.cli.completion import FILES, script
from gpuctl.cli.completion_cache import USABLE_SECONDS, cache_folder, known_nodes, remember_nodes
from gpuctl.cli.lazy import root_command
from gpuctl.cli.shells.bash import bash_script
from gpuctl.cli.shells.fish import fish_script
from gpuctl.cli.shells.spec import Values, command_spec, global_options
from gpuctl.cli.shells.zsh import zsh_script
from tests.cli.commands import TABLE
from tests.conftest import RunCli
from tests.spawning import run_script, script_environ

SCRIPTS = Path(__file__).parents[2] / "completions"


@pytest.mark.parametrize("name", FILES)
def test_the_files_are_what_the_commands_declare(name: str) -> None:
    current = (SCRIPTS / name).read_text(encoding="utf-8")
    assert current == script(FILES[name]), "run: python -m gpuctl.cli.completion completions"


@pytest.mark.parametrize("name", FILES)
def test_the_command_prints_the_same_script(run_cli: RunCli, name: str) -> None:
    ran = run_cli("completion", FILES[name], tty=True, environ={"LINES": "5"})
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout == (SCRIPTS / name).read_text(encoding="utf-8")


def test_an_unknown_shell_is_a_usage_error(run_cli: RunCli) -> None:
    ran = run_cli("completion", "tcsh")
    assert ran.code == 2
    assert ran.stderr.startswith(
        "error: SHELL does not know 'tcsh'\n  cause: accepted values: bash, zsh, fish\n"
    )


def test_the_description_of_the_command_line() -> None:
    root = command_spec(root_command(TABLE))
    assert [command.path for command in root.walk()] == [
        (),
        ("show",),
        ("end",),
        ("chat",),
        ("lines",),
        ("rows",),
        ("nested",),
        ("nested", "inner"),
    ]
    show = root.commands[0]
    values = {option.names[0]: option.values for option in show.options}
    assert values["--metric"] == Values(("util", "mem"))
    assert values["--every"] is None  # its value may be left out
    assert values["--limit"] == Values()
    assert show.arguments == (Values(),)
    assert "foreseen" in root.commands[1].arguments[0].choices


def test_global_options_are_described_once() -> None:
    values = {name: option.values for option in global_options() for name in option.names}
    assert values["--context"] == Values(kind="contexts")
    assert values["--snapshot"] == Values(kind="files")
    assert values["-o"] == Values(("table", "wide", "name", "csv", "json", "yaml"))
    assert values["--no-color"] is None
    spec = command_spec(root_command(TABLE))
    for generate in (bash_script, zsh_script, fish_script):
        assert generate(spec).count("prometheus-url") <= 2


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A user with three contexts, whose commands have just seen two clusters."""
    own = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    (tmp_path / "config" / "gpuctl").mkdir(parents=True)
    (tmp_path / "config" / "gpuctl" / "config.yaml").write_text(
        "contexts:\n  hk: {}\n  sz: {}\n  'odd name': {}\n  'a;b': {}\n"
    )
    remember_nodes("sz", ["sz-1/0"], environ=own)
    remember_nodes("hk", ["gpu-01/0", "gpu-01/1", "gpu-02/?", "gpu-03"], environ=own)
    os.utime(tmp_path / "cache" / "gpuctl" / "nodes-sz", (NOW - 60, NOW - 60))
    os.utime(tmp_path / "cache" / "gpuctl" / "nodes-hk", (NOW - 30, NOW - 30))
    return own


NOW = 1_740_816_000.0


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["contexts", ""], ["hk", "sz"]),
        (["contexts", "h"], ["hk"]),
        (["contexts", "", "--config", "/no/such/file"], []),
        (["contexts", "", "--config", "-"], []),
        (["nodes", "", "heatmap"], ["gpu-01", "gpu-02", "gpu-03"]),
        (["nodes", "gpu-03"], ["gpu-03"]),
        (["nodes", "", "--context", "sz"], ["sz-1"]),
        (["nodes", "", "--context=sz", "heatmap"], ["sz-1"]),
        (["nodes", "", "--context", "=", "sz"], ["sz-1"]),
        (["nodes", "", "--context", "../hk"], []),
        (["nodes", "", "--demo"], []),
        (["gpus", ""], ["gpu-01/0", "gpu-01/1"]),
        (["gpus", "gpu-01/1"], ["gpu-01/1"]),
        (["pods", ""], []),
        ([], []),
        (["nodes"], ["gpu-01", "gpu-02", "gpu-03"]),
    ],
)
def test_live_values(environ: dict[str, str], words: list[str], offered: list[str]) -> None:
    assert live.suggestions(words, environ, NOW) == offered


def test_the_environment_names_the_context_too(environ: dict[str, str]) -> None:
    assert live.suggestions(["nodes", ""], {**environ, "GPUCTL_CONTEXT": "sz"}, NOW) == ["sz-1"]


def test_old_names_are_not_offered(environ: dict[str, str]) -> None:
    fresh, later = NOW - 30 + USABLE_SECONDS, NOW - 29 + USABLE_SECONDS
    assert live.suggestions(["nodes", "gpu-01"], environ, fresh) == ["gpu-01"]
    assert live.suggestions(["nodes", "gpu-01"], environ, later) == []
    assert live.suggestions(["nodes", "gpu-01"], environ, NOW - 10_000) == []


@pytest.mark.parametrize("text", ["contexts: [", "\x00", "a: &a [*a]", "[]", "contexts: {hk: [1"])
def test_a_broken_file_says_nothing(environ: dict[str, str], text: str) -> None:
    Path(environ["XDG_CONFIG_HOME"], "gpuctl", "config.yaml").write_text(text)
    ran = run_script("__complete", "contexts", "", environ=script_environ(**environ))
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_bad_variables_and_options_do_not_disturb_tab(environ: dict[str, str]) -> None:
    remember_nodes("hk", ["gpu-01/0"], environ=environ)
    odd = script_environ(**environ, GPUCTL_OUTPUT="nonsense", GPUCTL_TIMEOUT="never")
    ran = run_script("__complete", "nodes", "gpu", "--color", "--width", "x", environ=odd)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "gpu-01\n", "")


def test_a_folder_that_hangs_is_given_up(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Opening a pipe that nobody writes to waits for ever, as a dead file server does.
    monkeypatch.setattr(live, "LONGEST_SECONDS", 0.01)
    pipe = tmp_path / "cache" / "gpuctl" / "nodes-hk"
    pipe.unlink()
    os.mkfifo(pipe)
    os.utime(pipe, (NOW, NOW))
    assert live.suggestions(["nodes", ""], environ, NOW) == []


def test_the_cache_is_private_and_leaves_no_drafts(environ: dict[str, str]) -> None:
    folder = Path(environ["XDG_CACHE_HOME"], "gpuctl")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {
        "nodes-hk": 0o600,
        "nodes-sz": 0o600,
    }


def test_any_context_name_stays_inside_the_folder(tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    for context in ("../../evil", "a/b", "北京", "x" * 500, "", None):
        remember_nodes(context, ["n/0"], environ=environ)
        newest = max(path.stat().st_mtime for path in (tmp_path / "gpuctl").iterdir())
        assert known_nodes(context, environ=environ, now=newest) == [("n", ["0"])]
    assert [path.name for path in tmp_path.iterdir()] == ["gpuctl"]


def test_remembering_never_raises(tmp_path: Path) -> None:
    (tmp_path / "gpuctl").write_text("a file where the folder should be")
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    remember_nodes("hk", ["bad \udcff/0", "n/0"], environ=environ)
    assert known_nodes("hk", environ=environ, now=NOW) == []


def test_where_the_cache_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_folder({"XDG_CACHE_HOME": "/c", "HOME": "/h"}) == "/c/gpuctl"
    assert cache_folder({"XDG_CACHE_HOME": "c", "HOME": "/h"}) == "/h/.cache/gpuctl"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert cache_folder({}) == "/var/cache/gpuctl"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert cache_folder({}) is None

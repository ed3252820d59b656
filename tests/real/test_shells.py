"""The completion scripts in the real shells: what one press of TAB does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuctl.cli.completion_cache import remember_nodes
from gpuctl.cli.lazy import COMMANDS
from tests.real.programs import program
from tests.spawning import Terminal, run_shell_line, script_environ, spawn

SCRIPTS = Path(__file__).parents[2] / "completions"

CONFIG = "current_context: hk\ncontexts:\n  hk: {cluster: hk}\n  hk-test: {cluster: t}\n  sz: {}\n"

#: What is typed, and the line after one TAB. Where several values fit, only a beginning can be
#: completed: these are in CANDIDATES.
COMPLETED = [
    ("gpuctl hea", "gpuctl heatmap"),
    ("gpuctl heatmap --metr", "gpuctl heatmap --metric"),
    ("gpuctl heatmap --metric po", "gpuctl heatmap --metric power"),
    ("gpuctl -o ya", "gpuctl -o yaml"),
    ("gpuctl heatmap --output=js", "gpuctl heatmap --output=json"),
    ("gpuctl -v --color nev", "gpuctl -v --color never"),
    ("gpuctl --demo config use", "gpuctl --demo config use-context"),
    ("gpuctl config use-context s", "gpuctl config use-context sz"),
    ("gpuctl heatmap --context s", "gpuctl heatmap --context sz"),
    ("gpuctl --context=s", "gpuctl --context=sz"),
    ("gpuctl completion z", "gpuctl completion zsh"),
    ("gpuctl -o json heatmap --node gpu-b", "gpuctl -o json heatmap --node gpu-beta"),
    ("gpuctl heatmap --explain gpu-beta/1", "gpuctl heatmap --explain gpu-beta/10"),
    ("gpuctl --config conf", "gpuctl --config config.yaml"),
]

CANDIDATES = [
    ("gpuctl ", {name for name, entry in COMMANDS.items() if not entry.hidden}),
    ("gpuctl config ", {"init", "view", "use-context", "check", "contexts"}),
    ("gpuctl heatmap -o ", {"table", "wide", "name", "csv", "json", "yaml"}),
    ("gpuctl heatmap --context ", {"hk", "hk-test", "sz"}),
    ("gpuctl heatmap --node ", {"gpu-alpha", "gpu-beta"}),
    ("gpuctl heatmap --explain gpu-alpha", {"gpu-alpha/0", "gpu-alpha/1"}),
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder with a configuration, and nodes that a command has just seen."""
    (tmp_path / "config" / "gpuctl").mkdir(parents=True)
    (tmp_path / "config" / "gpuctl" / "config.yaml").write_text(CONFIG)
    work = tmp_path / "work"
    work.mkdir()
    (work / "config.yaml").write_text(CONFIG)
    addresses = ["gpu-alpha/0", "gpu-alpha/1", "gpu-beta/10", "gpu $(reboot)/0"]
    remember_nodes("hk", addresses, environ=environ_of(tmp_path))
    return tmp_path


def environ_of(home: Path) -> dict[str, str]:
    return script_environ(
        HOME=str(home),
        XDG_CONFIG_HOME=str(home / "config"),
        XDG_CACHE_HOME=str(home / "cache"),
        ZDOTDIR=str(home),
        LC_ALL="C.UTF-8",
        PS1="$ ",
    )


@pytest.fixture
def bash(home: Path) -> Iterator[Terminal]:
    with spawn(
        [program("bash"), "--norc", "--noprofile", "-i"], environ_of(home), columns=200
    ) as shell:
        shell.type(f"cd {home}/work; bind 'set bell-style none'; source {SCRIPTS}/gpuctl.bash\n")
        shell.type("echo re''ady\n")
        shell.read_until("ready\r\n")
        yield shell


@pytest.fixture
def zsh(home: Path) -> Iterator[Terminal]:
    with spawn([program("zsh"), "-f", "-i"], environ_of(home), columns=200) as shell:
        shell.type(
            f"cd {home}/work; PS1='$ '; bindkey -e; unsetopt beep; fpath=({SCRIPTS} $fpath)\n"
        )
        shell.type("autoload -Uz compinit; compinit -u -D; echo re''ady\n")
        shell.read_until("ready\r\n")
        yield shell


def words_after_tab(shell: Terminal, line: str, tab: str = "\t") -> list[str]:
    """The words of the command line after TAB: `printf` is put before it and shows them."""
    shell.type(f"{line}{tab}\x01printf '<%s>' \x05; echo '<e''nd>'\n")
    shown = shell.read_until("<end>\r\n").rpartition("<gpuctl>")[2]
    return ["gpuctl", *shown.removesuffix("<end>\r\n").strip("<>").split("><")]


@pytest.mark.real("bash")
@pytest.mark.parametrize(("line", "completed"), COMPLETED)
def test_bash_completes_on_the_first_tab(bash: Terminal, line: str, completed: str) -> None:
    assert words_after_tab(bash, line) == completed.split()


@pytest.mark.real("bash")
@pytest.mark.parametrize(("line", "candidates"), CANDIDATES)
def test_bash_offers_all_that_fits(bash: Terminal, line: str, candidates: set[str]) -> None:
    # Esc * is readline's "insert all completions".
    offered = words_after_tab(bash, line, tab="\x1b*")[len(line.split()) - (line[-1] != " ") :]
    assert set(offered) == candidates


@pytest.mark.real("zsh")
@pytest.mark.parametrize(("line", "completed"), COMPLETED)
def test_zsh_completes_on_the_first_tab(zsh: Terminal, line: str, completed: str) -> None:
    assert words_after_tab(zsh, line) == completed.split()


@pytest.mark.real("zsh")
@pytest.mark.parametrize(("line", "candidates"), CANDIDATES)
def test_zsh_offers_all_that_fits(zsh: Terminal, line: str, candidates: set[str]) -> None:
    # Ctrl-X a inserts every match, once the completer for it is chosen.
    zsh.type("zstyle ':completion:all-matches:*' completer _all_matches _complete\n")
    zsh.type("zstyle ':completion:all-matches:*' insert yes\n")
    zsh.type("zle -C all-matches complete-word _generic; bindkey '^Xa' all-matches\n")
    offered = words_after_tab(zsh, line, tab="\x18a")[len(line.split()) - (line[-1] != " ") :]
    assert set(offered) == candidates


@pytest.mark.real("zsh")
def test_zsh_script_can_be_sourced(home: Path) -> None:
    with spawn([program("zsh"), "-f", "-i"], environ_of(home)) as shell:
        shell.type("PS1='$ '; bindkey -e; autoload -Uz compinit; compinit -u -D\n")
        shell.type("source <(gpuctl completion zsh); echo re''ady\n")
        shell.read_until("ready\r\n")
        assert words_after_tab(shell, "gpuctl hea") == ["gpuctl", "heatmap"]


@pytest.mark.real("bash")
def test_bash_script_can_be_sourced_from_the_command(home: Path) -> None:
    with spawn([program("bash"), "--norc", "--noprofile", "-i"], environ_of(home)) as shell:
        shell.type("source <(gpuctl completion bash); echo re''ady\n")
        shell.read_until("ready\r\n")
        assert words_after_tab(shell, "gpuctl hea") == ["gpuctl", "heatmap"]


def fish_offers(home: Path, line: str) -> set[str]:
    """What fish offers; the script lies where fish looks for it by itself."""
    folder = home / "config" / "fish" / "completions"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gpuctl.fish").write_text((SCRIPTS / "gpuctl.fish").read_text())
    ran = run_shell_line(f"cd {home}/work && fish -c 'complete -C \"{line}\"'", environ_of(home))
    assert ran.stderr == ""
    return {offer.partition("\t")[0] for offer in ran.stdout.splitlines()}


@pytest.mark.real("fish", "bash")
@pytest.mark.parametrize(("line", "completed"), COMPLETED)
def test_fish_completes_on_the_first_tab(home: Path, line: str, completed: str) -> None:
    assert fish_offers(home, line) == {completed.split()[-1]}


@pytest.mark.real("fish", "bash")
@pytest.mark.parametrize(("line", "candidates"), CANDIDATES)
def test_fish_offers_all_that_fits(home: Path, line: str, candidates: set[str]) -> None:
    assert fish_offers(home, line) == candidates


@pytest.mark.real("fish", "bash")
def test_a_broken_configuration_gives_no_suggestions_and_no_text(home: Path) -> None:
    (home / "config" / "gpuctl" / "config.yaml").write_text("contexts: [\n")
    assert fish_offers(home, "gpuctl --context ") == set()
    ran = run_shell_line("gpuctl __complete contexts ''", environ_of(home))
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")

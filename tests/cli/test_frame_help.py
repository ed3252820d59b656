"""`--help` and `--version`: plain text, 80 columns, nothing loaded that is not needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gpuctl import __version__
from gpuctl.cli.lazy import COMMANDS
from gpuctl.exitcodes import ExitCode
from tests.cli.commands import TABLE
from tests.conftest import RunCli

HEAVY = {
    "asyncio",
    "gpuctl.clients",
    "gpuctl.config",
    "gpuctl.sim",
    "httpx",
    "kubernetes",
    "logging",
    "msgspec",
    "prometheus_client",
    "proxmoxer",
    "pydantic",
    "requests",
    "rich",
    "tabulate",
    "wcwidth",
    "yaml",
}


def loaded_by(*words: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after `gpuctl words...`."""
    code = (
        "import sys; from gpuctl.cli.main import main; import io\n"
        f"code = main({list(words)!r}, stdout=io.StringIO(), stderr=io.StringIO())\n"
        "print(code, *sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    exit_code, *modules = ran.stdout.split()
    assert exit_code == "0"
    return set(modules)


@pytest.mark.parametrize(
    "words", [(), ("--help",), ("heatmap", "--help"), ("config", "-h"), ("--version",)]
)
def test_help_loads_nothing_heavy(words: tuple[str, ...]) -> None:
    assert loaded_by(*words) & HEAVY == set()


def test_tab_loads_not_even_the_parser() -> None:
    loaded = loaded_by("__complete", "nodes", "x")
    assert loaded & (HEAVY | {"typer", "subprocess"}) == set()


def test_only_the_called_command_is_loaded() -> None:
    loaded = loaded_by("version")
    others = {
        entry.target.partition(":")[0] for name, entry in COMMANDS.items() if name != "version"
    }
    assert "gpuctl.cli.version" in loaded
    assert loaded & (others | {"httpx", "rich", "kubernetes", "yaml"}) == set()


def test_gpuctl_alone_prints_its_help(run_cli: RunCli) -> None:
    alone, asked = run_cli(), run_cli("--help")
    assert alone == asked == run_cli("-h") == run_cli("-q")
    assert (alone.code, alone.stderr) == (0, "")
    for name in COMMANDS:
        assert f"\n  {name} " in alone.stdout


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("heatmap",),
        ("snapshot",),
        ("config",),
        ("config", "view"),
        ("version",),
        ("completion",),
    ],
)
def test_help_is_plain_text_of_80_columns(run_cli: RunCli, words: tuple[str, ...]) -> None:
    ran = run_cli(*words, "--help", tty=True, environ={"COLUMNS": "200"})
    assert ran.code == 0
    assert ran.stdout.isprintable() or "\x1b" not in ran.stdout
    assert max(map(len, ran.stdout.splitlines())) <= 80
    assert f"Usage: {' '.join(['gpuctl', *words])} [OPTIONS]" in ran.stdout
    assert "  -o, --output FMT " in ran.stdout


def test_help_has_purpose_usage_examples_options_and_exit_codes_in_order(run_cli: RunCli) -> None:
    text = run_cli("show", "--help", table=TABLE).stdout
    parts = [
        "Show the options that arrived.\n\n",
        "Usage: gpuctl show [OPTIONS] [NAME]\n\n",
        "Examples:\n  gpuctl show this\n  gpuctl show that -o json\n\n",
        "Arguments:\n  [NAME]  what to show [default: nothing]\n\n",
        "Options:\n  --metric util|mem  figure to show [default: util]\n",
        "  --every [SECONDS]  again and again [default: 5]\n",
        "Filters:\n  --limit N  most lines [default: 7]\n\n",
        "Global options, before or after the command:\n",
        "Exit codes:\n  3  never\n",
    ]
    places = [text.find(part) for part in parts]
    assert -1 not in places, parts[places.index(-1)]
    assert places == sorted(places)


def test_a_group_alone_prints_its_help(run_cli: RunCli) -> None:
    ran = run_cli("nested", table=TABLE)
    assert ran.code == ExitCode.OK
    assert "Commands:\n  inner  Print what the context is\n" in ran.stdout


def test_version_as_an_option_and_as_a_command(run_cli: RunCli) -> None:
    assert run_cli("--version").stdout == f"gpuctl {__version__}\n"
    assert run_cli("version", "-o", "json").document["version"] == __version__
    assert run_cli("version", "-o", "name").stdout == f"gpuctl/{__version__}\n"
    assert run_cli("version", "-o", "csv").stdout.startswith("gpuctl,python,platform\r\n")
    assert run_cli("version", "-o", "yaml").stdout.startswith("schema: gpuctl/v1\nkind: version\n")
    assert run_cli("version").stdout.split()[:4] == ["GPUCTL", "PYTHON", "PLATFORM", __version__]

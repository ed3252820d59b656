"""The installed script: closed pipes, full disks, signals, odd environments, a terminal."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpuctl import __version__
from tests.spawning import (
    PATIENCE_SECONDS,
    installed_script,
    run_script,
    run_shell_line,
    script_environ,
    spawn,
)

NAME = f"gpuctl/{__version__}\n"

#: A program that is gpuctl with one more command, which waits until a signal ends it.
WAITING = """
import sys, typer, types
from gpuctl.cli.lazy import Entry
from gpuctl.cli.main import main
from gpuctl.cli.runtime import runtime_of

def wait(ctx: typer.Context) -> None:
    import signal
    output = runtime_of(ctx).output
    try:
        print("waiting", file=sys.stderr, flush=True)
        signal.pause()
    finally:
        output.info("cleaned up")

def flood(ctx: typer.Context) -> None:
    output = runtime_of(ctx).output
    while True:
        output.text("line")

module = types.ModuleType("extra_commands")
module.wait, module.flood = wait, flood
module.__spec__ = types.SimpleNamespace(name="extra_commands")
sys.modules["extra_commands"] = module
table = {name: Entry("extra_commands:" + name, name) for name in ("wait", "flood")}
sys.exit(main(table=table))
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(WAITING)
    return path


@pytest.mark.parametrize("line", ["gpuctl version", "gpuctl version -o json", "gpuctl --help"])
def test_a_closed_or_full_stdout_is_an_error_with_a_reason(line: str) -> None:
    for redirection, cause in (
        (">&-", "standard output is closed"),
        (">/dev/full", "No space left on device"),
    ):
        ran = run_shell_line(f"{line} {redirection}")
        assert ran.returncode == 1
        assert ran.stderr == (
            "error: can't write the answer to standard output\n"
            f"  cause: {cause}\n"
            "  try:   send it to a file or pipe that can be written, on a disk with free space\n"
        )


def test_a_closed_stderr_changes_nothing() -> None:
    ran = run_shell_line("gpuctl version -o name 2>&-")
    assert (ran.returncode, ran.stdout) == (0, NAME)
    assert run_shell_line("gpuctl nonsense 2>&-").returncode == 2
    assert run_shell_line("gpuctl version <&- >&- 2>&-").returncode == 1


def test_a_reader_that_leaves_ends_a_view_quietly(program: Path) -> None:
    ran = run_shell_line(
        f"set -o pipefail; {sys.executable} {program} flood | head -n 2; echo ${{PIPESTATUS[0]}}"
    )
    assert (ran.stdout, ran.stderr) == ("line\nline\n0\n", "")
    # The answer is shorter than any buffer: it fails only when it is flushed.
    ran = run_shell_line("gpuctl --help | true; echo ${PIPESTATUS[0]}")
    assert (ran.stdout, ran.stderr) == ("0\n", "")


@pytest.mark.parametrize(
    ("signum", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)],
)
def test_a_signal_ends_a_command_after_its_clean_up(
    program: Path, signum: signal.Signals, code: int
) -> None:
    with subprocess.Popen(
        [sys.executable, str(program), "wait", "-o", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=script_environ(),
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "waiting\n"
        process.send_signal(signum)
        stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == code
    assert stderr == f"cleaned up\nerror: interrupted by {signum.name}\n"
    assert json.loads(stdout)["exit_code"] == code


def test_nohup_is_respected(program: Path) -> None:
    line = f"trap '' HUP; exec {sys.executable} {program} wait"
    with subprocess.Popen(
        ["bash", "-c", line], stderr=subprocess.PIPE, text=True, env=script_environ()
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "waiting\n"
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 143


def test_no_environment_at_all() -> None:
    ran = run_script("version", "-o", "name", environ={})
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, NAME, "")


def test_bytes_that_are_no_text_in_the_arguments() -> None:
    for prefix in ("", "LC_ALL=C ", "PYTHONIOENCODING=ascii "):
        ran = run_shell_line(f"{prefix}gpuctl $'v\\xff\\xfe\\x1b[2J' -o json")
        assert ran.returncode == 2
        assert json.loads(ran.stdout)["error"] == "no command 'v\ufffd\ufffd' in gpuctl"
        assert ran.stderr.startswith("error: no command 'v")
        assert "Traceback" not in ran.stderr


def test_the_module_runs_like_the_script() -> None:
    command = [sys.executable, "-m", "gpuctl", "version", "-o", "name"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout) == (0, NAME)


def test_a_terminal_gets_the_same_answer() -> None:
    with spawn([installed_script(), "version", "-o", "name"]) as terminal:
        assert terminal.read_to_end() == NAME.replace("\n", "\r\n")
        assert terminal.process.returncode == 0


def test_control_c_in_a_terminal(program: Path) -> None:
    with spawn([sys.executable, str(program), "wait"]) as terminal:
        terminal.read_until("waiting\r\n")
        terminal.type("\x03")
        assert "cleaned up\r\nerror: interrupted by SIGINT\r\n" in terminal.read_to_end()
        assert terminal.process.returncode == 130

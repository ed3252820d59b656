"""The generated parts of README.md: output of commands, copies of files.

`python -m tests.readme --write` draws them anew; `tests/test_readme.py` holds them to the tool.
"""

from __future__ import annotations

import io
import re
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path

from gpuctl.cli.main import main
from gpuctl.clock import FixedClock

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
WIDTH = "96"

_OUTPUT = re.compile(
    r"<!-- generated -->\n```console\n\$ (?P<command>[^\n]*)\n(?P<body>.*?)```\n", re.DOTALL
)
_FILE = re.compile(
    r"<!-- file: (?P<path>[^ ]+) -->\n```(?P<kind>\w+)\n(?P<body>.*?)```\n", re.DOTALL
)


def commands(text: str) -> list[str]:
    """The commands whose output the page shows."""
    return [match["command"] for match in _OUTPUT.finditer(text)]


def regenerated(text: str) -> str:
    """The page with every generated part drawn anew."""
    text = _OUTPUT.sub(
        lambda m: f"<!-- generated -->\n```console\n$ {m['command']}\n{output(m['command'])}```\n",
        text,
    )
    return _FILE.sub(
        lambda m: (
            f"<!-- file: {m['path']} -->\n```{m['kind']}\n{(ROOT / m['path']).read_text()}```\n"
        ),
        text,
    )


def output(command: str) -> str:
    """stdout of `gpuctl ...`, as a terminal of WIDTH columns without colours shows it.

    `| head -N` is the only pipe that is known.
    """
    words, _, pipe = command.partition(" | ")
    out = io.StringIO()
    code = main(
        [*shlex.split(words)[1:], "--width", WIDTH],
        environ={"GPUCTL_CONFIG": "/dev/null", "LANG": "C.UTF-8"},
        stdin=io.StringIO(),
        stdout=out,
        stderr=io.StringIO(),
        clock=FixedClock(datetime(2025, 3, 1, 2, 10, tzinfo=UTC)),
    )
    if code != 0:
        raise RuntimeError(f"{command} ended with {code}")
    lines = out.getvalue().splitlines()
    if pipe:
        lines = lines[: int(pipe.removeprefix("head -"))]
    return "".join(f"{line.rstrip()}\n" for line in lines)


if __name__ == "__main__":
    page = regenerated(README.read_text())
    if "--write" in sys.argv[1:]:
        README.write_text(page)
    elif page != README.read_text():
        sys.exit("README.md is out of date: python -m tests.readme --write")

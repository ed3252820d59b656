"""What all tests share: the marker `real`, and ways to run gpuctl as a user does."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from gpuctl.cli.lazy import Entry
from gpuctl.cli.main import main
from gpuctl.clock import Clock
from tests.real.programs import program

#: An environment with nothing of the developer's own in it.
BARE = {"PATH": "/usr/bin:/bin", "TERM": "xterm"}


def pytest_runtest_setup(item: pytest.Item) -> None:
    """`@pytest.mark.real("zsh")`: without zsh the test is skipped by name, or fails in CI."""
    for mark in item.iter_markers("real"):
        for name in mark.args:
            program(name)


class Stream(io.StringIO):
    """A captured stream that is a terminal or not, with an encoding that a test chooses."""

    def __init__(self, text: str = "", *, tty: bool = False, encoding: str = "utf-8") -> None:
        super().__init__(text)
        self._tty = tty
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return self._tty

    def write(self, text: str) -> int:
        text.encode(self._encoding)  # a real stream refuses here what it can't carry
        return super().write(text)


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended and what it left on each stream."""

    code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> dict[str, Any]:
        """stdout as one JSON document."""
        answer: dict[str, Any] = json.loads(self.stdout)
        return answer


RunCli = Callable[..., Ran]


@pytest.fixture
def run_cli() -> RunCli:
    """Runs the real app in this process: `run_cli("heatmap", "-o", "json", environ={...})`.

    `environ` is added to BARE; `tty` makes all three streams terminals; `stdin` is a text.
    """

    def run(
        *words: str,
        environ: Mapping[str, str] | None = None,
        stdin: str = "",
        tty: bool = False,
        encoding: str = "utf-8",
        clock: Clock | None = None,
        table: dict[str, Entry] | None = None,
    ) -> Ran:
        stdout = Stream(tty=tty, encoding=encoding)
        stderr = Stream(tty=tty, encoding=encoding)
        code = main(
            words,
            environ={**BARE, **(environ or {})},
            stdin=Stream(stdin, tty=tty),
            stdout=stdout,
            stderr=stderr,
            clock=clock,
            table=table,
        )
        return Ran(code, stdout.getvalue(), stderr.getvalue())

    return run

"""What is wrong with a configuration file, all of it, each with its line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuctl.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault. `line` counts from 1; None when the fault has no place of its own."""

    line: int | None
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        place = f"line {self.line}: " if self.line else ""
        advice = f" ({self.hint})" if self.hint else ""
        return f"{place}{self.message}{advice}"


class ConfigProblems(ConfigError):  # noqa: N818 - several of them in one
    """A file was read and has faults. `problems` are all of them, by line."""

    def __init__(self, file: str, problems: Sequence[Problem]) -> None:
        self.file = file
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line or 0))
        if len(self.problems) == 1:
            (only,) = self.problems
            place = f"{file}:{only.line}" if only.line else file
            super().__init__(f"{place}: {only.message}", hint=only.hint)
            return
        super().__init__(
            f"the configuration {file} has {len(self.problems)} problems",
            hint="correct them, then run: gpuctl config check",
        )
        self.details = tuple(map(str, self.problems))

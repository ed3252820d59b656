"""The filter of the live view, and the line that it is typed into."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from gpuctl.model.heatmap import HeatmapGpu
from gpuctl.policy.filters import BadCondition, Condition, parse_condition
from gpuctl.render.terminal import sanitize

_OPERATOR = re.compile(r"\s*(!~=|~=|!=|>=|<=|=|>|<)\s*")
_LONGEST = 500  # characters; a paste gone wrong is longer


@dataclass(frozen=True, slots=True)
class Filter:
    """What is shown: `text` as it was typed, and the conditions it stands for."""

    text: str = ""
    conditions: tuple[Condition, ...] = ()


def parse_filter(text: str) -> Filter:
    """Words that must all hold: part of a node's name, or a condition such as `util>90`.

    Raises BadCondition for a condition that can't be understood.
    """
    words = _OPERATOR.sub(r"\1", text).split()
    return Filter(" ".join(words), tuple(map(_condition, words)))


def _condition(word: str) -> Condition:
    if _OPERATOR.search(word):
        return parse_condition(word)
    return Condition(word, _is_part_of_name(word.lower()))


def _is_part_of_name(part: str) -> Callable[[HeatmapGpu], bool]:
    return lambda gpu: part in gpu.node.lower()


@dataclass(frozen=True, slots=True)
class Editor:
    """A line being typed. `at` is the cursor's place in `text`, `error` what is wrong with it."""

    text: str = ""
    at: int = 0
    error: str | None = None

    def typed(self, key: str) -> Editor:
        """The line after a key; one that means nothing here changes nothing."""
        before, after = self.text[: self.at], self.text[self.at :]
        match key:
            case "left":
                return replace(self, at=max(0, self.at - 1))
            case "right":
                return replace(self, at=min(len(self.text), self.at + 1))
            case "home":
                return replace(self, at=0)
            case "end":
                return replace(self, at=len(self.text))
            case "backspace":
                return _line(before[:-1], after)
            case "delete":
                return _line(before, after[1:])
            case "kill-line":
                return _line("", after)
            case "kill-word":
                return _line(before.rstrip()[: before.rstrip().rfind(" ") + 1], after)
        if len(key) != 1 or len(self.text) >= _LONGEST:
            return self
        return _line(before + sanitize(key), after)

    def applied(self, old: Filter) -> tuple[Filter, Editor | None]:
        """The new filter and no line any more; else the old one, and the line with its error."""
        try:
            return parse_filter(self.text), None
        except BadCondition as exc:
            return old, replace(self, error=str(exc))


def _line(before: str, after: str) -> Editor:
    return Editor(before + after, len(before))

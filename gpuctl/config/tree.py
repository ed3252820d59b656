"""YAML text -> nodes that know their lines, safely.

Nodes instead of plain values, since a message without its line costs the reader minutes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from gpuctl.config.problems import ConfigProblems, Problem
from gpuctl.model.config_file import printable

if TYPE_CHECKING:
    from yaml import Node

DEEPEST = 20
MOST_NODES = 50_000

# What YAML allows in a stream; checked here so that the message can name the line.
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def compose(text: str, name: str) -> Node | None:
    """The root node of the one document in `text`; None when it holds nothing.

    Aliases are refused: no setting needs them, and a few lines of them expand without end.
    Raises ConfigProblems.
    """
    import yaml

    bad = _UNPRINTABLE.search(text.removeprefix("\ufeff"))
    if bad is not None:
        line = text.count("\n", 0, bad.start() + text.startswith("\ufeff")) + 1
        raise ConfigProblems(
            name,
            [
                Problem(
                    line,
                    f"the control character U+{ord(bad.group()):04X} is not allowed",
                    "check that this is the right file",
                )
            ],
        )
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _refuse_dangers(text, name, loader)
        node: Node | None = yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as exc:
        raise ConfigProblems(name, [_syntax_problem(exc, text)]) from exc
    except yaml.YAMLError as exc:
        raise ConfigProblems(name, [Problem(None, f"not valid YAML: {exc}")]) from exc
    return node


def _refuse_dangers(text: str, name: str, loader: Any) -> None:
    """Walk the events first: they come one by one, however deep or wide the text would grow."""
    import yaml

    depth = nodes = documents = 0
    for event in yaml.parse(text, Loader=loader):
        line = event.start_mark.line + 1 if event.start_mark else None
        if isinstance(event, yaml.AliasEvent):
            raise ConfigProblems(
                name,
                [
                    Problem(
                        line,
                        f"the YAML alias *{printable(event.anchor or '')} is not supported",
                        "repeat the value",
                    )
                ],
            )
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise ConfigProblems(
                    name, [Problem(line, "a second YAML document begins here", "keep only one")]
                )
        if isinstance(event, yaml.NodeEvent):
            nodes += 1
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST or nodes > MOST_NODES:
            what = "nested too deeply" if depth > DEEPEST else "too large"
            raise ConfigProblems(
                name, [Problem(line, f"the file is {what}: not a gpuctl configuration")]
            )


def _syntax_problem(error: Any, text: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    what = str(error.problem or error.context)
    begun = error.context_mark
    if begun is not None and error.context and mark is not None and begun.line < mark.line:
        what += f" {error.context} begun on line {begun.line + 1}"
    lines = text.splitlines()
    hint = None
    if mark is not None and mark.line < len(lines) and lines[mark.line].lstrip(" ")[:1] == "\t":
        hint = "indent with blanks, not with tabs"
    elif "mapping values are not allowed" in what:
        hint = "quote a value that holds a colon and a blank, and check the indentation"
    return Problem(mark.line + 1 if mark is not None else None, f"not valid YAML: {what}", hint)


def line_of(node: Node) -> int:
    """The line on which `node` starts, counted from 1."""
    return node.start_mark.line + 1

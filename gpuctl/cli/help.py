"""`--help`: plain text, 80 columns, the same words as the README's reference.

Purpose, usage, examples, options in groups with their defaults, exit codes, in this order.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from gpuctl.cli.options import FLAGS, Flag

WIDTH = 80
_LABEL_MOST = 28  # a longer label has its description on the next line
_SECTION = re.compile(r"^(?=[A-Z][A-Za-z ]*:$)", re.MULTILINE)
_LAST = ("Exit codes",)

Row = tuple[str, str]


def help_text(ctx: Any) -> str:
    """The help of the command or group that `ctx` belongs to."""
    command = ctx.command
    prose, sections = split_help(command.help or "")
    early = [text for text in sections if not text.startswith(_LAST)]
    late = [text for text in sections if text.startswith(_LAST)]
    blocks = [_prose(prose), f"Usage: {usage(ctx)}", *early]
    if hasattr(command, "list_commands"):
        blocks.append(_block("Commands", _purposes(command, ctx)))
    blocks += [_block(title, rows) for title, rows in _own_options(command, ctx)]
    blocks.append(_block("Global options, before or after the command", map(_flag_row, FLAGS)))
    return "\n\n".join(block for block in [*blocks, *late] if block)


def usage(ctx: Any) -> str:
    """`gpuctl heatmap [OPTIONS] [NODE]`: the words of the usage line."""
    pieces = [ctx.command_path, "[OPTIONS]"]
    if hasattr(ctx.command, "list_commands"):
        pieces.append("COMMAND")
    pieces += [
        _argument_label(param)
        for param in ctx.command.params
        if param.param_type_name == "argument" and not param.hidden
    ]
    return " ".join(pieces)


def split_help(docstring: str) -> tuple[str, list[str]]:
    """The prose of a docstring, and its sections (`Examples:` and an indented text) as they are."""
    prose, *sections = _SECTION.split(docstring)
    return prose.strip(), [section.rstrip() for section in sections]


def _prose(text: str) -> str:
    paragraphs = re.split(r"\n\s*\n", text)
    return "\n\n".join(textwrap.fill(" ".join(part.split()), WIDTH) for part in paragraphs)


def _purposes(command: Any, ctx: Any) -> list[Row]:
    if hasattr(command, "purposes"):
        return list(command.purposes())
    found = ((name, command.get_command(ctx, name)) for name in command.list_commands(ctx))
    return [(name, first_line(sub.help or "")) for name, sub in found if sub and not sub.hidden]


def first_line(docstring: str) -> str:
    """The purpose: the first paragraph's first sentence, as a phrase for a list."""
    line = " ".join(docstring.strip().partition("\n\n")[0].split())
    return line[:-1] if line.endswith(".") else line


def _own_options(command: Any, ctx: Any) -> list[tuple[str, list[Row]]]:
    """The command's own arguments and options by group, the unnamed group first."""
    groups: dict[str, list[Row]] = {"Arguments": [], "Options": []}
    for param in command.params:
        if param.hidden:
            continue
        if param.param_type_name == "argument":
            if param.help:
                groups["Arguments"].append((_argument_label(param), _described(param, ctx)))
            continue
        title = param.rich_help_panel or "Options"
        groups.setdefault(title, []).append((option_label(param), _described(param, ctx)))
    # `--help` and `--version` close the list, whatever groups there are.
    return [(title, rows) for title, rows in groups.items() if rows]


def _argument_label(param: Any) -> str:
    label = str(param.metavar or param.name.upper()).strip("[]")
    if param.nargs == -1 and not label.endswith("..."):
        label += "..."
    return label if param.required else f"[{label}]"


def option_label(param: Any) -> str:
    """`-n, --node GLOB` or `--wide / --no-wide`."""
    label = ", ".join(sorted(param.opts, key=lambda name: name.startswith("--")))
    if param.secondary_opts:
        label += f" / {', '.join(param.secondary_opts)}"
    return label if param.is_flag or param.count else f"{label} {value_label(param)}"


def value_label(param: Any) -> str:
    """What stands for an option's value: its metavar, its choices, or its type's name."""
    if param.metavar:
        return str(param.metavar)
    if choices := choices_of(param):
        return "|".join(choices)
    is_number = str(param.type.name).startswith(("int", "float"))
    return "N" if is_number else str(param.name).upper()


def choices_of(param: Any) -> tuple[str, ...]:
    """The values that a parameter accepts, when they are fixed; empty when they are not."""
    choices = getattr(param.type, "choices", None)
    if choices is not None:
        return tuple(str(getattr(choice, "value", choice)) for choice in choices)
    metavar = (param.metavar or "").strip("[]")
    return tuple(metavar.split("|")) if "|" in metavar else ()


def _described(param: Any, ctx: Any) -> str:
    text = " ".join((param.help or "").split())
    default = param.show_default if isinstance(param.show_default, str) else None
    if default is None and param.show_default:
        default = _default_text(param.get_default(ctx, call=False))
    if default and "default:" not in text:
        text = f"{text} [default: {default}]"
    return text


def _default_text(value: Any) -> str:
    if value is None or isinstance(value, bool) or callable(value) or value in ("", (), []):
        return ""
    if isinstance(value, list | tuple):
        return ", ".join(map(_default_text, value))
    return str(getattr(value, "value", value))


def _flag_row(flag: Flag) -> Row:
    names = ", ".join(flag.names)
    return (f"{names} {flag.metavar}" if flag.metavar else names), flag.help


def _block(title: str, rows: Iterable[Row]) -> str:
    listed = list(rows)
    if not listed:
        return ""
    return "\n".join([f"{title}:", *_aligned(listed)])


def _aligned(rows: Sequence[Row]) -> list[str]:
    column = max((len(label) for label, _ in rows if len(label) <= _LABEL_MOST), default=0) + 4
    lines = []
    for label, text in rows:
        wrapped = textwrap.wrap(text, WIDTH - column) or [""]
        if len(label) > column - 4:
            lines.append(f"  {label}")
        else:
            lines.append(f"  {label}".ljust(column) + wrapped.pop(0))
        lines += [" " * column + line for line in wrapped]
    return [line.rstrip() for line in lines]

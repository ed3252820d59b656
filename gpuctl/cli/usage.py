"""The command line parser's complaints in our three parts.

Typer keeps the classes of these errors to itself; they are told apart by what they carry, so
that nothing here imports its private modules.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any

from gpuctl.cli.help import choices_of, usage
from gpuctl.cli.options import FLAGS
from gpuctl.errors import UsageError

_QUOTED = re.compile(r"^(['\"])(.*?)\1")
_MANY = 12  # choices worth listing


def usage_error(exc: Any) -> UsageError:
    """What the parser's exception says, as a UsageError."""
    ctx = getattr(exc, "ctx", None)
    path = ctx.command_path if ctx is not None else "gpuctl"
    message = str(exc.message)
    if hasattr(exc, "possibilities"):
        return _no_such_option(exc, path)
    if getattr(exc, "param", None) is not None:
        return _bad_value(exc, path)
    if hasattr(exc, "option_name"):
        return _wrong_arity(exc.option_name, message, path)
    what = message[:1].lower() + message[1:].rstrip(".")
    return UsageError(
        what,
        cause=f"usage: {usage(ctx)}" if ctx is not None else None,
        hint=f"{path} --help",
    )


def _no_such_option(exc: Any, path: str) -> UsageError:
    near = _nearest_options(exc.option_name, exc.ctx) if exc.ctx is not None else []
    return UsageError(
        f"no option {exc.option_name} in {path}",
        hint=_meant(near) or f"{path} --help lists the options",
    )


def _nearest_options(name: str, ctx: Any) -> list[str]:
    """What `name` may be short for (abbreviations are refused, but understood), or misspelt."""
    if not name.startswith("--"):
        return []
    known = [option for param in ctx.command.params for option in _spellings(param)]
    longer = sorted(option for option in known if len(name) > 3 and option.startswith(name))
    return longer[:3] or get_close_matches(name, known, n=2, cutoff=0.7)


def _spellings(param: Any) -> list[str]:
    if param.param_type_name == "argument":
        return []
    flags = getattr(param, "flags", ())  # those of a GlobalOption
    return [name for flag in flags for name in flag.names] or [*param.opts, *param.secondary_opts]


def _wrong_arity(name: str, message: str, path: str) -> UsageError:
    if "does not take" in message:
        return UsageError(f"{name} takes no value", hint=f"write {name} alone")
    flag = next((flag for flag in FLAGS if name in flag.names), None)
    listed = f"accepted values: {', '.join(flag.choices)}" if flag and flag.choices else None
    return UsageError(f"{name} needs a value", cause=listed, hint=f"{path} --help")


def _meant(near: list[str]) -> str | None:
    return f"did you mean {' or '.join(near)}?" if near else None


def no_such_command(name: str, ctx: Any) -> UsageError:
    """The group of `ctx` has no command called `name`; never guesses, only suggests."""
    group = ctx.command
    if hasattr(group, "purposes"):
        known = [command for command, _ in group.purposes()]
    else:
        known = list(group.list_commands(ctx))
    near = get_close_matches(name.lower(), known, n=2)
    near += [command for command in known if command.startswith(name) and command not in near]
    return UsageError(
        f"no command '{name}' in {ctx.command_path}",
        cause=f"the commands are {', '.join(known)}",
        hint=_meant(near) or f"{ctx.command_path} --help",
    )


def _bad_value(exc: Any, path: str) -> UsageError:
    param = exc.param
    if param.param_type_name == "argument":
        label = str(param.metavar or param.name.upper()).strip("[]")
    else:
        label = param.opts[-1]
    choices = choices_of(param)
    listed = f"accepted values: {', '.join(choices)}" if choices else None
    if hasattr(exc, "param_type"):
        return UsageError(f"{label} is missing", cause=listed, hint=f"{path} --help")
    message = str(exc.message).rstrip(".")
    message = re.sub(r"a valid int(eger)?\b", "a whole number", message)
    message = message.replace("a valid float", "a number")
    given = _QUOTED.match(message)
    if choices and given:
        near = get_close_matches(given.group(2), choices, n=1)
        return UsageError(
            f"{label} does not know '{given.group(2)}'",
            cause=listed if len(choices) <= _MANY else None,
            hint=_meant(near) or f"{path} --help",
        )
    return UsageError(f"{label}: {message}", cause=listed, hint=f"{path} --help")

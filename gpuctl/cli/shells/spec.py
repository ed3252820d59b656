"""What a completion script needs to know about the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpuctl.cli.frame import has_optional_value
from gpuctl.cli.help import choices_of, first_line
from gpuctl.cli.options import FLAGS

#: What a metavar says about its values: a kind that `gpuctl __complete` knows, or the shell's own.
KINDS: Mapping[str, str] = {
    "CONTEXT": "contexts",
    "NODE": "nodes",
    "NODE/GPU": "gpus",
    "FILE": "files",
    "PATH": "files",
    "DIR": "folders",
}
# Options whose metavar says how to write the value, while a plain name is what one wants on TAB.
_BY_NAME: Mapping[str, str] = {"--node": "nodes", "--explain": "gpus"}


@dataclass(frozen=True, slots=True)
class Values:
    """What may stand in a place: fixed `choices`, or a `kind` of KINDS; neither if unknown."""

    choices: tuple[str, ...] = ()
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """An option: its spellings, one line of help, and its values (None for a flag)."""

    names: tuple[str, ...]
    help: str
    values: Values | None


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """A command or group; `path` is () for gpuctl itself. Global options are not repeated."""

    path: tuple[str, ...]
    help: str
    options: tuple[OptionSpec, ...]
    arguments: tuple[Values, ...]
    commands: tuple[CommandSpec, ...]

    def walk(self) -> Iterator[CommandSpec]:
        """This one and all below it."""
        yield self
        for command in self.commands:
            yield from command.walk()


def global_options() -> tuple[OptionSpec, ...]:
    """The options that hold everywhere."""
    return tuple(
        OptionSpec(
            flag.names,
            flag.help.partition(" [")[0],
            Values(flag.choices, KINDS.get(flag.metavar)) if flag.metavar else None,
        )
        for flag in FLAGS
    )


def command_spec(command: Any, path: tuple[str, ...] = ()) -> CommandSpec:
    """The tree under a command of the parser; loads all of its modules."""
    own = [param for param in command.params if not param.hidden]
    subcommands = []
    if hasattr(command, "list_commands"):
        found = ((name, command.get_command(None, name)) for name in command.list_commands(None))
        purposes = dict(command.purposes()) if hasattr(command, "purposes") else {}
        for name, sub in found:
            if sub is not None and not sub.hidden:
                spec = command_spec(sub, (*path, name))
                subcommands.append(_renamed(spec, purposes.get(name, spec.help)))
    return CommandSpec(
        path=path,
        help=first_line(command.help or ""),
        options=tuple(_option(p) for p in own if p.param_type_name == "option"),
        arguments=tuple(_values(p) for p in own if p.param_type_name == "argument"),
        commands=tuple(subcommands),
    )


def _renamed(spec: CommandSpec, purpose: str) -> CommandSpec:
    return CommandSpec(spec.path, purpose, spec.options, spec.arguments, spec.commands)


def _option(param: Any) -> OptionSpec:
    # A value that may be left out: the next word is more likely something else.
    is_flag = param.is_flag or param.count or has_optional_value(param)
    text = " ".join((param.help or "").split())
    return OptionSpec(
        (*param.opts, *param.secondary_opts), text, None if is_flag else _values(param)
    )


def _values(param: Any) -> Values:
    for name in param.opts:
        if name in _BY_NAME:
            return Values(kind=_BY_NAME[name])
    metavar = str(param.metavar or param.name.upper()).strip("[].")
    return Values(choices_of(param), KINDS.get(metavar))

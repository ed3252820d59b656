"""Flag > environment > file > default, for every setting, with its origin."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import msgspec
import msgspec.inspect as inspect

from gpuctl.config.document import Document
from gpuctl.config.files import STDIN, Location
from gpuctl.config.flags import Flag
from gpuctl.config.validate import KeyPath
from gpuctl.errors import ConfigError, UsageError
from gpuctl.model.config_file import (
    RULES,
    ConfigFile,
    LoopSettings,
    NotifySettings,
    Rule,
    nearest,
    shown,
)
from gpuctl.model.documents import ConfigValue
from gpuctl.model.durations import format_duration
from gpuctl.model.policy import Policy
from gpuctl.model.settings import ContextSettings
from gpuctl.model.urls import redact_url

#: Settings of a context that the environment can give; the file and the context itself have
#: their own variables, GPUCTL_CONFIG and GPUCTL_CONTEXT.
ENVIRONMENT: Mapping[str, str] = {"prometheus.url": "GPUCTL_PROMETHEUS_URL"}

S = TypeVar("S", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Inputs:
    """All that settings are made of. `document` and `location` are None without a file."""

    environ: Mapping[str, str]
    flags: Mapping[str, Flag] = field(default_factory=dict)
    context: str | None = None
    document: Document | None = None
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class Resolved:
    """The outcome: what each section holds, and each value with its origin, in file order."""

    context_name: str | None
    context: ContextSettings
    policy: Policy
    notify: NotifySettings
    loop: LoopSettings
    values: tuple[ConfigValue, ...]


@dataclass(frozen=True, slots=True)
class _Leaf:
    """One setting: its key as `config view` spells it, its place in the file, its rule.

    `value` is the file's, or the default.
    """

    key: str
    path: KeyPath
    value: Any
    rule: Rule | None


def pick(
    flag: Flag | None,
    variable: tuple[str, str | None] | None,
    from_file: tuple[Any, str] | None,
    default: tuple[Any, str] = (None, "default"),
) -> tuple[Any, str]:
    """The value of a setting and its origin: the one place that knows who outranks whom.

    `variable` is an environment variable with its value; an empty one counts as not set.
    """
    if flag is not None:
        return flag.value, f"flag {flag.option}"
    if variable is not None and variable[1]:
        return variable[1], f"env {variable[0]}"
    if from_file is not None:
        return from_file
    return default


def resolve(inputs: Inputs) -> Resolved:
    """The settings in force. Raises UsageError for an unknown context, ConfigError otherwise."""
    name, name_origin = _context_name(inputs)
    values = [
        ConfigValue(
            key="config",
            value=inputs.document.file.name if inputs.document else None,
            origin=inputs.location.origin if inputs.location else "default",
        ),
        ConfigValue(key="context", value=name, origin=name_origin),
    ]
    context = _section(inputs, values, "", _file_context(inputs, name))
    policy = _section(inputs, values, "policy", _file(inputs).policy)
    notify = _section(inputs, values, "notify", _file(inputs).notify)
    loop = _section(inputs, values, "loop", _file(inputs).loop)
    unused = set(inputs.flags) - {value.key for value in values}
    if unused:
        raise LookupError(f"no settings of these names: {', '.join(sorted(unused))}")
    return Resolved(name, context, policy, notify, loop, tuple(values))


def _file(inputs: Inputs) -> ConfigFile:
    return inputs.document.config if inputs.document else ConfigFile()


def _file_context(inputs: Inputs, name: str | None) -> ContextSettings:
    return ContextSettings() if name is None else _file(inputs).contexts[name]


def _section(inputs: Inputs, values: list[ConfigValue], name: str, base: S) -> S:
    """`base`, the file's section or its defaults, under what outranks it; adds to `values`."""
    tree = msgspec.to_builtins(base, builtin_types=(timedelta,))
    path = (name,) if name else ("contexts", values[1].value or "")
    for leaf in _leaves(inputs, base, name, path):
        value, origin = _choose(inputs, leaf)
        values.append(ConfigValue(key=leaf.key, value=_plain(leaf.key, value), origin=origin))
        if origin != "default":
            _put(tree, leaf.key.removeprefix(f"{name}.").split("."), value)
    return msgspec.convert(tree, type(base))


def chosen_context(inputs: Inputs) -> tuple[str | None, str]:
    """The name of the context in force and its origin, whether the file has it or not.

    A file with one context and no `current_context` means that one.
    """
    document = inputs.document
    from_file = None
    default: tuple[str | None, str] = (None, "default")
    if document is not None:
        contexts = list(document.config.contexts)
        current = document.config.current_context
        if current is not None:
            from_file = (current, _place(document, ("current_context",)))
        elif len(contexts) == 1:
            place = _place(document, ("contexts", contexts[0]))
            default = (contexts[0], f"{place} (the only context)")
    flag = Flag("--context", inputs.context) if inputs.context is not None else None
    variable = ("GPUCTL_CONTEXT", inputs.environ.get("GPUCTL_CONTEXT"))
    return pick(flag, variable, from_file, default)


def _context_name(inputs: Inputs) -> tuple[str | None, str]:
    document = inputs.document
    name, origin = chosen_context(inputs)
    contexts = list(document.config.contexts) if document else []
    if name is not None and name not in contexts:
        raise unknown_context(name, origin, contexts, document.file.name if document else None)
    return name, origin


def unknown_context(name: str, origin: str, contexts: list[str], file: str | None) -> UsageError:
    """The error for a context that the file does not have."""
    near = nearest(name, contexts)
    if near:
        hint = f"did you mean {near}?"
    elif file:
        hint = "choose one of these, or add it to the file"
    else:
        hint = "write a configuration with: gpuctl config init"
    known = f"contexts in {file}: {', '.join(sorted(contexts)) or 'none'}"
    return UsageError(
        f"there is no context {shown(name)} ({origin})",
        cause=known if file else "there is no configuration file",
        hint=hint,
    )


def _leaves(inputs: Inputs, base: msgspec.Struct, key: str, path: KeyPath) -> Iterator[_Leaf]:
    """The settings of a section in the order of their structs.

    An optional part that nobody configured is one setting, null.
    """
    info = inspect.type_info(type(base))
    assert isinstance(info, inspect.StructType)  # noqa: S101 - for the type checker
    for member in info.fields:
        name = member.encode_name
        inner_key = f"{key}.{name}" if key else name
        inner_path = (*path, name)
        value = getattr(base, name)
        part = _struct_in(member.type)
        if part is not None and value is None and _has_flags(inputs, inner_key):
            value = part.cls()
        if isinstance(value, msgspec.Struct):
            yield from _leaves(inputs, value, inner_key, inner_path)
        else:
            yield _Leaf(inner_key, inner_path, value, RULES.get(info.cls, {}).get(name))


def _has_flags(inputs: Inputs, section: str) -> bool:
    return any(key.startswith(f"{section}.") for key in inputs.flags)


def _struct_in(info: inspect.Type) -> inspect.StructType | None:
    """The struct that a field holds, be it optional or not."""
    if isinstance(info, inspect.UnionType):
        return next((one for one in info.types if isinstance(one, inspect.StructType)), None)
    return info if isinstance(info, inspect.StructType) else None


def _choose(inputs: Inputs, leaf: _Leaf) -> tuple[Any, str]:
    document = inputs.document
    from_file = None
    if document is not None and leaf.path in document.lines:
        from_file = (_located(leaf.value, leaf, inputs), _place(document, leaf.path))
    variable = None
    if leaf.key in ENVIRONMENT:
        variable = (ENVIRONMENT[leaf.key], inputs.environ.get(ENVIRONMENT[leaf.key]))
    value, origin = pick(inputs.flags.get(leaf.key), variable, from_file, (leaf.value, "default"))
    if leaf.rule is not None and origin.startswith(("flag ", "env ")):
        _obey(leaf.rule, value, origin)
    return value, origin


def _obey(rule: Rule, value: Any, origin: str) -> None:
    """Hold a value from outside the file to the rule that the file's values obey."""
    for item in value if isinstance(value, list | tuple) else [value]:
        complaint = rule.check(item)
        if complaint:
            kind = UsageError if origin.startswith("flag ") else ConfigError
            raise kind(f"{origin.split(' ', 1)[1]}: {complaint}")


def _place(document: Document, path: KeyPath) -> str:
    return f"file {document.file.name}:{document.lines[path]}"


def _located(value: Any, leaf: _Leaf, inputs: Inputs) -> Any:
    """File names of the file: `~` expanded, relative ones taken from the file's folder."""
    if leaf.key == "exporters":
        return tuple(
            "@" + _path(one[1:], leaf.key, inputs) if one.startswith("@") else one for one in value
        )
    if leaf.rule is None or not leaf.rule.is_path or value is None:
        return value
    return _path(value, leaf.key, inputs)


def _path(name: str, key: str, inputs: Inputs) -> str:
    if name == "~" or name.startswith("~/"):
        home = inputs.environ.get("HOME")
        if not home:
            raise ConfigError(
                f"{key}: {shown(name)} can't be found: HOME is not set",
                hint="write the whole path in the configuration, or set HOME",
            )
        return os.path.join(home, name[2:])
    if name.startswith("~"):
        raise ConfigError(
            f"{key}: {shown(name)} can't be found: only ~/ is understood",
            hint="write the whole path in the configuration",
        )
    file = inputs.document.file.path if inputs.document else STDIN
    return name if file == STDIN else os.path.join(os.path.dirname(os.path.abspath(file)), name)


def _put(tree: dict[str, Any], keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        tree[key] = tree.get(key) or {}
        tree = tree[key]
    tree[keys[-1]] = value


_SECRET_HEADER_WORDS = ("auth", "token", "key", "secret", "cookie", "password", "signature")


def _plain(key: str, value: Any) -> Any:
    """`value` for people and JSON: durations as text, URLs and headers without their secrets."""
    match value:
        case timedelta():
            return format_duration(value, exact=True)
        case dict() if key == "prometheus.headers":
            return {name: header_shown(name, text) for name, text in value.items()}
        case dict():
            return {name: _plain(key, item) for name, item in value.items()}
        case list() | tuple():
            return [_plain(key, item) for item in value]
        case str() if "//" in value or key in ("prometheus.url", "exporters", "proxmox.endpoints"):
            return redact_url(value)
        case _:
            return value


def header_shown(name: str, text: str) -> str:
    """A header's value for display: masked when its name sounds like a credential."""
    return "***" if is_secret_header(name) else text


def is_secret_header(name: str) -> bool:
    """Whether a header of this name may carry a credential."""
    return any(word in name.lower() for word in _SECRET_HEADER_WORDS)

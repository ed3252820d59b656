"""YAML nodes -> plain values that fit the settings' structs, with every fault on the way.

The walk follows the structs themselves (`msgspec.inspect`), so a new setting is read, checked
and located without a line here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec.inspect as inspect

from gpuctl.config.problems import Problem
from gpuctl.config.tree import line_of
from gpuctl.model.config_file import (
    KEY_RULES,
    RULES,
    SECRET_KEYS,
    ConfigFile,
    Rule,
    nearest,
    one_of,
    printable,
    shown,
)
from gpuctl.model.durations import parse_duration

if TYPE_CHECKING:
    from yaml import Node

#: Where a value stands: `("contexts", "hk", "prometheus", "url")`. A tuple, for names hold dots.
KeyPath = tuple[str, ...]

_TAG = "tag:yaml.org,2002:"
_KINDS = {
    "str": "text",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
    "seq": "a list",
    "map": "a mapping",
    "timestamp": "a date",
}


class _Bad:
    """Stands for a value that was reported as a problem and is left out."""


BAD = _Bad()


@dataclass(slots=True)
class Reading:
    """What a file says: `values` nested as the file is, and the line of each key that counts."""

    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[KeyPath, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    failed: set[KeyPath] = field(default_factory=set)

    def report(self, node: Node, path: KeyPath, message: str, hint: str | None = None) -> _Bad:
        """Note a fault of the value at `path`."""
        self.failed.add(path)
        self.problems.append(Problem(line_of(node), f"{dotted(path)}: {message}", hint))
        return BAD


def dotted(path: Iterable[str]) -> str:
    """`path` as messages spell it, safe for a terminal."""
    return ".".join(printable(part) for part in path)


def read_settings(root: Node | None) -> Reading:
    """All settings of the file, and all that is wrong with them one by one."""
    reading = Reading()
    if root is None or _kind(root) == "null":
        return reading
    info = inspect.type_info(ConfigFile)
    assert isinstance(info, inspect.StructType)  # noqa: S101 - for the type checker
    if _kind(root) != "map":
        reading.problems.append(
            Problem(
                line_of(root),
                f"the file holds {_KINDS.get(_kind(root), 'a value')}, not settings",
                "it starts with keys like contexts: and policy:",
            )
        )
        return reading
    values = _struct(reading, info, root, ())
    if isinstance(values, dict):
        reading.values = values
    return reading


def _kind(node: Node) -> str:
    """`str`, `int`, `map` and so on; the whole tag for one that YAML itself does not define."""
    tag: str = node.tag
    return tag.removeprefix(_TAG)


def _pairs(reading: Reading, node: Node, path: KeyPath) -> list[tuple[str, Node, Node]]:
    """Keys and values of a mapping; a key that is no text or comes twice is a problem."""
    seen: dict[str, int] = {}
    pairs = []
    for key, value in node.value:
        if not isinstance(key.value, str):
            reading.report(key, path, "a key must be plain text")
        elif key.value in seen:
            reading.report(
                key, (*path, key.value), f"is already set on line {seen[key.value]}", "keep one"
            )
        else:
            seen[key.value] = line_of(key)
            pairs.append((key.value, key, value))
    return pairs


def _struct(reading: Reading, info: inspect.StructType, node: Node, path: KeyPath) -> Any:
    if _kind(node) == "null":  # a section whose keys are all commented out
        return {}
    if _kind(node) != "map":
        return _wrong_kind(reading, node, path, "a mapping", None)
    fields = {member.encode_name: member for member in info.fields}
    values: dict[str, Any] = {}
    for name, key, value in _pairs(reading, node, path):
        here = (*path, name)
        member = fields.get(name)
        if member is None:
            _unknown_key(reading, key, here, tuple(fields))
            continue
        reading.lines[here] = line_of(key)
        rules = _Rules(RULES.get(info.cls, {}).get(name), KEY_RULES.get(info.cls, {}).get(name))
        result = _value(reading, member.type, value, here, rules)
        if result is not BAD:
            values[name] = result
    return values


@dataclass(frozen=True, slots=True)
class _Rules:
    value: Rule | None
    key: Rule | None


def _value(reading: Reading, info: inspect.Type, node: Node, path: KeyPath, rules: _Rules) -> Any:
    match info:
        case inspect.UnionType(types=types):
            if _kind(node) == "null":
                return None
            (inner,) = (one for one in types if not isinstance(one, inspect.NoneType))
            return _value(reading, inner, node, path, rules)
        case inspect.StructType():
            return _struct(reading, info, node, path)
        case inspect.DictType(value_type=item):
            return _mapping(reading, item, node, path, rules)
        case inspect.VarTupleType(item_type=item):
            return _list(reading, item, node, path, rules)
        case _:
            return _scalar(reading, info, node, path, rules.value)


def _mapping(reading: Reading, item: inspect.Type, node: Node, path: KeyPath, rules: _Rules) -> Any:
    if _kind(node) == "null":
        return {}
    if _kind(node) != "map":
        return _wrong_kind(reading, node, path, "a mapping", rules.value)
    values = {}
    for name, key, value in _pairs(reading, node, path):
        here = (*path, name)
        reading.lines[here] = line_of(key)
        complaint = rules.key.check(name) if rules.key else None
        if complaint:
            reading.report(key, path, complaint)
            continue
        result = _value(reading, item, value, here, _Rules(rules.value, None))
        if result is not BAD:
            values[name] = result
    return values


def _list(reading: Reading, item: inspect.Type, node: Node, path: KeyPath, rules: _Rules) -> Any:
    if _kind(node) == "null":
        return []
    if _kind(node) != "seq":
        return _wrong_kind(reading, node, path, "a list", rules.value)
    results = [_value(reading, item, entry, path, rules) for entry in node.value]
    return [result for result in results if result is not BAD]


def _scalar(
    reading: Reading, info: inspect.Type, node: Node, path: KeyPath, rule: Rule | None
) -> Any:
    value = _plain(reading, info, node, path, rule)
    if value is BAD or rule is None:
        return value
    complaint = rule.check(value)
    return reading.report(node, path, complaint) if complaint else value


def _plain(
    reading: Reading, info: inspect.Type, node: Node, path: KeyPath, rule: Rule | None
) -> Any:
    kind = _kind(node)
    match info:
        case inspect.LiteralType(values=names):
            # The text as written: YAML takes a bare `off` for a boolean.
            if kind not in ("str", "bool"):
                return _wrong_kind(reading, node, path, "text", rule)
            valid = tuple(str(name) for name in names)
            if node.value in valid:
                return node.value
            return reading.report(node, path, one_of(node.value, valid))
        case inspect.TimeDeltaType():
            return _duration(reading, node, path, rule)
        case inspect.StrType():
            return node.value if kind == "str" else _wrong_kind(reading, node, path, "text", rule)
        case inspect.BoolType():
            if kind == "bool":
                return node.value.lower() in ("yes", "true", "on")
            return _wrong_kind(reading, node, path, "true or false", rule)
        case inspect.IntType():
            if kind == "int":
                return _number(reading, node, path)
            return _wrong_kind(reading, node, path, "a whole number", rule)
        case inspect.FloatType():
            if kind in ("int", "float"):
                return _number(reading, node, path)
            return _wrong_kind(reading, node, path, "a number", rule)
    raise TypeError(f"settings of type {info} can't be read from a file")


def _duration(reading: Reading, node: Node, path: KeyPath, rule: Rule | None) -> timedelta | _Bad:
    # A bare 5 is a number to YAML; the complaint about its unit helps more than one about types.
    if _kind(node) not in ("str", "int", "float"):
        return _wrong_kind(reading, node, path, "a duration like 5m", rule)
    try:
        return parse_duration(node.value)
    except ValueError as exc:
        return reading.report(node, path, str(exc))


# Plain decimal only. YAML 1.1 would read 010 as 8 and 1:30 as 90: nobody who writes that into
# this file means it.
_DECIMAL = re.compile(r"[-+]?[0-9][0-9_]{0,30}(\.[0-9]{0,30})?|[-+]?\.[0-9]{1,30}")


def _number(reading: Reading, node: Node, path: KeyPath) -> float | int | _Bad:
    text = node.value
    if not _DECIMAL.fullmatch(text) or re.match(r"[-+]?0[0-9]", text):
        return reading.report(node, path, f"{shown(text)} is not a plain decimal number")
    digits = text.replace("_", "")
    return float(digits) if _kind(node) == "float" else int(digits)


def _wrong_kind(
    reading: Reading, node: Node, path: KeyPath, wanted: str, rule: Rule | None
) -> _Bad:
    kind = _kind(node)
    got = _KINDS.get(kind)
    if got is None:
        return reading.report(
            node, path, f"the YAML tag {shown(node.tag)} is not supported", "leave the tag out"
        )
    if not isinstance(node.value, str):
        return reading.report(node, path, f"expected {wanted}, got {got}")
    quotable = kind != "null" and not (rule and rule.is_private) and len(node.value) <= 60
    value = f" {printable(node.value)}" if quotable else ""
    hint = None
    if kind == "null":
        hint = "give it a value, or remove the key"
    elif wanted == "text":
        hint = f'write it in quotes: "{value.strip()}"' if value else "write it in quotes"
    elif wanted == "a list":
        hint = f"write [{value.strip()}]" if value else "write it in square brackets"
    return reading.report(node, path, f"expected {wanted}, got {got}{value}", hint)


def _unknown_key(reading: Reading, key: Node, path: KeyPath, valid: tuple[str, ...]) -> None:
    name = path[-1]
    parent = dotted(path[:-1]) or "the top level"
    reading.failed.add(path)
    message = f"unknown key {printable(name)} in {parent}"
    secret = [other for other in SECRET_KEYS.get(name.lower(), ()) if other in valid]
    if secret:
        message = f"{dotted(path)}: a secret must not stand in this file"
        hint = f"put it into a file of mode 0600 and name that: {' or '.join(secret)}"
    elif near := nearest(name, valid):
        hint = f"did you mean {near}?"
    elif home := _homes().get(name):
        hint = f"{name} belongs in {home}"
    else:
        hint = f"valid keys: {', '.join(valid)}"
    reading.problems.append(Problem(line_of(key), message, hint))


def _homes() -> Mapping[str, str]:
    """Key -> the section it belongs in, for keys that stand in the wrong one."""
    homes: dict[str, str] = {}
    info = inspect.type_info(ConfigFile)

    def visit(info: inspect.Type, section: str) -> None:
        match info:
            case inspect.UnionType(types=types):
                for one in types:
                    visit(one, section)
            case inspect.DictType(value_type=inspect.StructType() as item):
                visit(item, f"{section}.NAME")
            case inspect.StructType(fields=fields):
                for member in fields:
                    homes.setdefault(member.encode_name, section or "the top level")
                    visit(member.type, f"{section}.{member.encode_name}".lstrip("."))

    visit(info, "")
    return homes

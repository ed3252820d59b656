"""Changing the configuration file without touching what the user wrote around it."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

from gpuctl.config.files import STDIN, RawFile
from gpuctl.config.tree import compose
from gpuctl.config.validate import dotted
from gpuctl.errors import ConfigError
from gpuctl.files import replace_file
from gpuctl.model.config_file import nearest

if TYPE_CHECKING:
    from yaml import Node

_KEY = "current_context"
_BOM = "\ufeff"


def context_names(file: RawFile) -> tuple[str, ...]:
    """The contexts of a file that may be wrong elsewhere. Raises ConfigProblems on broken YAML."""
    contexts = _pairs(compose(file.text.removeprefix(_BOM), file.name)).get("contexts")
    return tuple(_pairs(contexts[1])) if contexts else ()


def with_current_context(file: RawFile, name: str) -> str:
    """The file's text with `current_context: name`, every other character as it was.

    Raises ConfigError when the file is laid out so that this can't be done safely.
    """
    bom = _BOM if file.text.startswith(_BOM) else ""
    text = file.text.removeprefix(_BOM)
    root = compose(text, file.name)
    before = _pairs(root)
    if root is None or root.start_mark.index >= len(text):
        raise _by_hand(file, name)
    if _KEY in before:
        key, value = before[_KEY]
        start, end = value.start_mark.index, value.end_mark.index
        if start == end:  # the key stands there without a value
            start = end = text.index(":", key.end_mark.index) + 1
            changed = f"{text[:start]} {_scalar(name)}{text[end:]}"
        else:
            changed = f"{text[:start]}{_scalar(name)}{text[end:]}"
    else:
        newline = "\r\n" if "\r\n" in text else "\n"
        start = root.start_mark.index
        changed = f"{text[:start]}{_KEY}: {_scalar(name)}{newline}{text[start:]}"
    # The layouts of YAML are many: what was written has to read back as what was meant.
    try:
        after = _pairs(compose(changed, file.name))
    except ConfigError as exc:
        raise _by_hand(file, name) from exc
    others = {key: _content(pair[1]) for key, pair in before.items() if key != _KEY}
    wanted = others | {_KEY: name}
    if {key: _content(pair[1]) for key, pair in after.items()} != wanted:
        raise _by_hand(file, name)
    return bom + changed


def _pairs(node: Node | None) -> dict[str, tuple[Node, Node]]:
    """The entries of a mapping by their key; empty for anything else."""
    if node is None or not node.tag.endswith(":map"):
        return {}
    return {str(key.value): (key, value) for key, value in node.value}


def _content(node: Node) -> Any:
    """What a node says, for comparing two readings of a file."""
    if isinstance(node.value, str):
        return node.value
    return [
        tuple(map(_content, item)) if isinstance(item, tuple) else _content(item)
        for item in node.value
    ]


def _scalar(name: str) -> str:
    """`name` as YAML text: bare when nobody can take it for anything else."""
    is_plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9_./-]*", name) and name.lower() not in (
        "true", "false", "yes", "no", "on", "off", "null", "y", "n",
    )  # fmt: skip
    return name if is_plain else json.dumps(name, ensure_ascii=False)


def _by_hand(file: RawFile, name: str) -> ConfigError:
    return ConfigError(
        f"current_context in {file.name} can't be changed without disturbing the file",
        cause="its layout is unusual",
        hint=f"set it by hand: current_context: {_scalar(name)}",
    )


def unknown_name(name: str, file: RawFile, known: tuple[str, ...]) -> ConfigError:
    """The error for a context that the file does not have."""
    near = nearest(name, known)
    return ConfigError(
        f"there is no context {dotted((name,))} in {file.name}",
        cause=f"contexts: {', '.join(map(dotted, ((one,) for one in sorted(known)))) or 'none'}",
        hint=f"did you mean {near}?" if near else "choose one of these, or add it to the file",
    )


def replace_config(path: str, text: str, mode: int) -> None:
    """Put `text` in the place of the file at `path` in one step. Raises ConfigError."""
    if path == STDIN:
        raise ConfigError("the standard input can't be changed", hint="name a file with --config")
    try:
        replace_file(path, text, mode=mode, keep_owner=True)
    except OSError as exc:
        raise cant_write(path, exc) from exc


def create_file(path: str, text: str) -> None:
    """Write a new file of mode 0600, and its folders of mode 0700 where they are missing.

    Raises ConfigError, also when the file exists.
    """
    folder = os.path.dirname(os.path.abspath(path))
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except (OSError, ValueError) as exc:
        raise cant_write(folder, exc) from exc
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8"))
    except FileExistsError as exc:
        raise ConfigError(
            f"{path} exists already",
            hint="look at it with gpuctl config view, or replace it with --force",
        ) from exc
    except (OSError, ValueError) as exc:
        raise cant_write(path, exc) from exc


def cant_write(path: str, exc: OSError | ValueError) -> ConfigError:
    """The error for a file that could not be written."""
    reason = (exc.strerror if isinstance(exc, OSError) else None) or str(exc)
    return ConfigError(
        f"{path!r} can't be written: {reason.lower()}",
        hint="check the folder's owner and the free space, or choose another path",
    )

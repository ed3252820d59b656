"""A whole configuration file: read, checked, with the place of every setting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from gpuctl.config.files import RawFile
from gpuctl.config.findings import Finding, context_findings, policy_findings
from gpuctl.config.problems import ConfigProblems, Problem
from gpuctl.config.tree import compose
from gpuctl.config.validate import KeyPath, Reading, dotted, read_settings
from gpuctl.model.config_file import ConfigFile, nearest


@dataclass(frozen=True, slots=True)
class Document:
    """A valid file. `lines` tells where each key that it sets stands."""

    file: RawFile
    config: ConfigFile
    lines: Mapping[KeyPath, int]
    warnings: tuple[Problem, ...]


def parse(file: RawFile) -> Document:
    """`file` as settings, with the warnings about all its contexts.

    Raises ConfigProblems with every fault of the file.
    """
    reading = read_settings(compose(file.text.removeprefix("\ufeff"), file.name))
    config = msgspec.convert(reading.values, ConfigFile)
    warnings: list[Problem] = []
    problems = list(reading.problems)
    for prefix, finding in _findings(config):
        paths = [_path(prefix, key) for key in finding.keys]
        if reading.failed.intersection(paths):
            continue  # judged on a default in the place of what the file means
        place = next((reading.lines[path] for path in paths if path in reading.lines), None)
        message = dotted(prefix) + "." + finding.message if prefix else finding.message
        (problems if finding.fatal else warnings).append(Problem(place, message, finding.hint))
    problems.extend(_current_context_problems(config, reading))
    if problems:
        raise ConfigProblems(file.name, problems)
    return Document(file, config, reading.lines, tuple(warnings))


def _findings(config: ConfigFile) -> list[tuple[KeyPath, Finding]]:
    found: list[tuple[KeyPath, Finding]] = [
        ((), finding) for finding in policy_findings(config.policy)
    ]
    for name, context in config.contexts.items():
        found.extend((("contexts", name), finding) for finding in context_findings(context))
    return found


def _path(prefix: KeyPath, key: str) -> KeyPath:
    return (*prefix, *key.split("."))


def _current_context_problems(config: ConfigFile, reading: Reading) -> list[Problem]:
    name = config.current_context
    known = {path[1] for path in reading.lines if len(path) > 1 and path[0] == "contexts"}
    if name is None or name in known:
        return []
    near = nearest(name, known)
    hint = f"did you mean {near}?" if near else f"contexts: {', '.join(sorted(known)) or 'none'}"
    return [
        Problem(
            reading.lines.get(("current_context",)),
            f"current_context: there is no context {dotted((name,))}",
            hint,
        )
    ]

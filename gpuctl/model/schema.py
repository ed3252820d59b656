"""JSON schemas of every document and of the configuration file, generated from the structs.

`python -m gpuctl.model.schema` writes them to `schemas/`; with `--check` it only says, by its
exit status, whether they are up to date.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from gpuctl.model.config_documents import ConfigCheckDocument, ConfigContextsDocument
from gpuctl.model.config_file import KEY_RULES, RULES, ConfigFile
from gpuctl.model.documents import ConfigDocument, ErrorDocument, VersionDocument
from gpuctl.model.durations import DURATION_PATTERN, format_duration
from gpuctl.model.explanation import ExplanationDocument
from gpuctl.model.heatmap import HeatmapDocument
from gpuctl.model.history import HistoryDocument
from gpuctl.model.outcome import HistoryListDocument, OutcomeDocument
from gpuctl.model.plan import PlanDocument
from gpuctl.model.score import ScoreListDocument
from gpuctl.model.snapshot import Snapshot

FOLDER = Path(__file__).parent / "schemas"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_DEFS = "#/$defs/{name}"


def documents() -> Mapping[str, type[msgspec.Struct]]:
    """Every kind of document -> its struct."""
    return {
        "config_check": ConfigCheckDocument,
        "config_contexts": ConfigContextsDocument,
        "config_view": ConfigDocument,
        "error": ErrorDocument,
        "heatmap": HeatmapDocument,
        "heatmap_explanation": ExplanationDocument,
        "heatmap_history": HistoryDocument,
        "history_list": HistoryListDocument,
        "outcome": OutcomeDocument,
        "plan": PlanDocument,
        "score_list": ScoreListDocument,
        "snapshot": Snapshot,
        "version": VersionDocument,
    }


def document_schema(kind: str) -> dict[str, Any]:
    """The JSON schema of one kind of document. Raises KeyError for an unknown kind."""
    schema = _schema_of(documents()[kind])
    for name, definition in schema["$defs"].items():
        if {"schema", "kind"} <= definition.get("properties", {}).keys():
            # They have defaults in the struct, and yet no document is printed without them.
            required = set(definition.get("required", ()))
            schema["$defs"][name]["required"] = sorted(required | {"schema", "kind"})
    return {"$schema": _DIALECT, "title": f"gpuctl {kind}", **schema}


def config_schema() -> dict[str, Any]:
    """The JSON schema of the configuration file, with the limits that the loader enforces."""
    schema = _schema_of(ConfigFile)
    structs = {struct.__name__: struct for struct in {*RULES, *KEY_RULES}}
    for name, definition in schema["$defs"].items():
        struct = structs.get(name)
        for key, spec in definition.get("properties", {}).items():
            if struct is not None:
                rule = RULES.get(struct, {}).get(key)
                key_rule = KEY_RULES.get(struct, {}).get(key)
                if rule is not None:
                    _restrict(spec, rule.schema)
                if key_rule is not None:
                    spec["propertyNames"] = dict(key_rule.schema)
            definition["properties"][key] = _optional_section(spec)
        _describe(definition)
    return {"$schema": _DIALECT, "title": "gpuctl configuration", **schema}


def _schema_of(struct: type[msgspec.Struct]) -> dict[str, Any]:
    (schema,), definitions = msgspec.json.schema_components([struct], ref_template=_DEFS)
    whole: dict[str, Any] = _with_durations({**schema, "$defs": definitions})
    return whole


def _with_durations(node: Any) -> Any:
    """Durations as people write them in place of msgspec's ISO 8601 ones."""
    if isinstance(node, list):
        return [_with_durations(item) for item in node]
    if not isinstance(node, dict):
        return _duration_default(node) if isinstance(node, str) else node
    if node.get("format") == "duration":
        rest = {key: _with_durations(item) for key, item in node.items() if key != "format"}
        return {**rest, "pattern": DURATION_PATTERN}
    return {key: _with_durations(item) for key, item in node.items()}


def _duration_default(text: str) -> str:
    if re.fullmatch(r"PT[0-9.]+S", text):
        return format_duration(msgspec.convert(text, timedelta), exact=True)
    return text


def _restrict(spec: dict[str, Any], limits: Mapping[str, Any]) -> None:
    """Apply a rule to the values proper: items of lists and mappings, the text beside null."""
    if "anyOf" in spec:
        for choice in spec["anyOf"]:
            _restrict(choice, limits)
    elif spec.get("type") == "array":
        _restrict(spec["items"], limits)
    elif isinstance(spec.get("additionalProperties"), dict):
        _restrict(spec["additionalProperties"], limits)
    elif spec.get("type") != "null":
        spec.update(limits)


def _optional_section(spec: dict[str, Any]) -> dict[str, Any]:
    """A section or list may stand there empty, with all its keys commented out."""
    members = spec.get("additionalProperties")
    if isinstance(members, dict) and "$ref" in members:
        spec["additionalProperties"] = _optional_section(members)
    if "$ref" not in spec and spec.get("type") not in ("array", "object"):
        return spec
    outer: dict[str, Any] = {key: spec[key] for key in ("description", "default") if key in spec}
    inner = {key: value for key, value in spec.items() if key not in outer}
    return {"anyOf": [inner, {"type": "null"}], **outer}


_FIELD_TEXT = re.compile(r"^`?(\w+)`?: (.+)$")


def _describe(definition: dict[str, Any]) -> None:
    """Give each property what the docstring says of it in lines like "`key`: meaning"."""
    for line in definition.get("description", "").splitlines():
        match = _FIELD_TEXT.match(line)
        if match and match.group(1) in definition.get("properties", {}):
            definition["properties"][match.group(1)]["description"] = match.group(2)


def files() -> dict[str, str]:
    """File name -> content of every schema: the same bytes each time."""
    schemas = {kind: document_schema(kind) for kind in documents()}
    schemas["config"] = config_schema()
    return {
        f"{name}.json": json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        for name, schema in sorted(schemas.items())
    }


def outdated(folder: Path = FOLDER) -> list[str]:
    """Names of the files in `folder` that differ from what would be written, or are too many."""
    wanted = files()
    present = {path.name: path.read_text("utf-8") for path in folder.glob("*.json")}
    return sorted(
        name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name)
    )


def write(folder: Path = FOLDER) -> list[str]:
    """Bring `folder` up to date; the names of the files that changed."""
    changed = outdated(folder)
    folder.mkdir(parents=True, exist_ok=True)
    wanted = files()
    for name in changed:
        if name in wanted:
            (folder / name).write_text(wanted[name], "utf-8")
        else:
            (folder / name).unlink()
    return changed


def main(arguments: Sequence[str]) -> int:
    """The module as a program: 0 when all is (now) up to date, 1 when `--check` found otherwise."""
    parser = argparse.ArgumentParser(prog="python -m gpuctl.model.schema", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, exit 1 if outdated")
    parser.add_argument("--folder", type=Path, default=FOLDER, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    names = outdated(options.folder) if options.check else write(options.folder)
    for name in names:
        sys.stdout.write(f"{'outdated' if options.check else 'written'}: {name}\n")
    return 1 if options.check and names else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

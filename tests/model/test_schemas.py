"""The shipped JSON schemas are current, and say what the code does."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import yaml

from gpuctl.config.document import parse
from gpuctl.config.example import EXAMPLE
from gpuctl.config.files import RawFile
from gpuctl.errors import ConfigError
from gpuctl.metrics import names
from gpuctl.model import schema
from gpuctl.model.config_documents import (
    ConfigCheckDocument,
    ConfigContext,
    ConfigContextsDocument,
    ConfigRemark,
)
from gpuctl.model.config_file import METRIC_FAMILIES
from gpuctl.model.documents import ConfigDocument, ConfigValue, ErrorDocument, VersionDocument
from gpuctl.model.gpu import Gpu, GpuState, MigInstance, Tenant, WindowStats
from gpuctl.model.snapshot import Snapshot, Source

NOON = datetime(2025, 3, 1, 12, tzinfo=UTC)


def shipped(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((schema.FOLDER / f"{name}.json").read_text("utf-8"))
    return loaded


def test_the_shipped_schemas_are_up_to_date() -> None:
    assert schema.outdated() == [], "run: python -m gpuctl.model.schema"


@pytest.mark.parametrize("name", [*schema.documents(), "config"])
def test_each_schema_is_a_valid_schema(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(shipped(name))
    assert "PT" not in json.dumps(shipped(name)).replace("HTTP", "")


def test_each_struct_says_the_kind_it_is_listed_under() -> None:
    for kind, struct in schema.documents().items():
        assert struct.__struct_fields__[:2] == ("schema", "kind")
        defaults = dict(zip(struct.__struct_fields__[:2], ("gpuctl/v1", kind), strict=True))
        fields = {field.name: field.default for field in msgspec.structs.fields(struct)}
        assert {name: fields[name] for name in defaults} == defaults


GPU = Gpu(
    node="gpu-1",
    gpu=0,
    uuid="GPU-1",
    state=GpuState.NO_UTIL,
    utilization_pct=None,
    memory_used_mib=1.5,
    memory_total_mib=80.0,
    window=WindowStats(
        seconds=300,
        step_seconds=15,
        samples=20,
        span_seconds=285,
        min_pct=1,
        mean_pct=2,
        max_pct=3,
    ),
    tenants=(Tenant(workload="prod/web"),),
    mig=(
        MigInstance(
            id=1,
            profile="1g.10gb",
            compute_slices=1,
            utilization_pct=None,
            memory_used_mib=None,
            memory_total_mib=None,
        ),
    ),
)

EXAMPLES: list[msgspec.Struct] = [
    ErrorDocument(
        generated_at=NOON, error="x", cause=None, hint="y", exit_code=2, exit_name="USAGE"
    ),
    VersionDocument(version="1", python="3.11", platform="Linux"),
    ConfigDocument(
        generated_at=NOON,
        file=None,
        context="hk",
        items=(ConfigValue(key="a", value={"b": [1, None]}, origin="default"),),
    ),
    ConfigCheckDocument(
        generated_at=NOON,
        file="x",
        valid=False,
        contexts=0,
        items=(ConfigRemark(severity="error", line=1, message="m", hint=None),),
    ),
    ConfigContextsDocument(
        generated_at=NOON,
        file=None,
        items=(ConfigContext(name="hk", current=True, cluster=None, prometheus_url=None),),
    ),
    Snapshot(taken_at=NOON, source=Source(kind="file", location="x"), gpus=(GPU,)),
]


@pytest.mark.parametrize("document", EXAMPLES, ids=lambda document: type(document).__name__)
def test_documents_validate(document: Any) -> None:
    jsonschema.validate(
        json.loads(msgspec.json.encode(document)),
        shipped(document.kind),
        cls=jsonschema.Draft202012Validator,
    )


@pytest.mark.parametrize("missing", ["schema", "kind", "taken_at", "source"])
def test_a_snapshot_without_its_essentials_is_refused(missing: str) -> None:
    document = json.loads(msgspec.json.encode(EXAMPLES[-1]))
    del document[missing]
    with pytest.raises(jsonschema.ValidationError, match=f"'{missing}' is a required property"):
        jsonschema.validate(document, shipped("snapshot"), cls=jsonschema.Draft202012Validator)


def test_the_example_of_config_init_validates() -> None:
    jsonschema.validate(
        yaml.safe_load(EXAMPLE), shipped("config"), cls=jsonschema.Draft202012Validator
    )


# What a schema can express, it must refuse and accept as the loader does.
TEXTS = [
    ("policy: {hot_above: 90}", True),
    ("policy: {hot_above: 101}", False),
    ("policy: {hot_above: '90'}", False),
    ("policy: {hot_for: 5m}", True),
    ("policy: {hot_for: 5}", False),
    ("policy: {hot_for: 5 m}", False),
    ("policy: {strategy: pack}", True),
    ("policy: {strategy: best}", False),
    ("policy: {limits: {parallel: 0}}", False),
    ("policy: {limits: {cooldown: 1h30m}}", True),
    ("policy: {critical_priority: 9999999999}", False),
    ("policy: {hot_abov: 90}", False),
    ("policy: {weights: {load: -1}}", False),
    ("policy:", True),
    ("contexts: {hk: }", True),
    ("contexts: {hk: {prometheus: {url: 'https://x'}}}", True),
    ("contexts: {hk: {prometheus: {url: 'x:9090'}}}", False),
    ("contexts: {hk: {prometheus: {password: x}}}", False),
    ("contexts: {hk: {prometheus: {token_env: a-b}}}", False),
    ("contexts: {hk: {prometheus: {headers: {'a b': x}}}}", False),
    ("contexts: {hk: {labels: {workload: exported}}}", True),
    ("contexts: {hk: {labels: {workload: both}}}", False),
    ("contexts: {hk: {labels: {node: }}}", True),
    ("contexts: {hk: {metrics: {aliases: {utilization: [x]}}}}", True),
    ("contexts: {hk: {metrics: {aliases: {utilisation: [x]}}}}", False),
    ("contexts: {hk: {proxmox: {token_id: a@b!c}}}", True),
    ("contexts: {hk: {proxmox: {token_id: a@b}}}", False),
    ("contexts: {hk: {kubernetes: }}", True),
    ("loop: {mode: act}", True),
    ("loop: {mode: acts}", False),
    ("notify: {slack: {webhook_file: ''}}", False),
    ("polcy: {}", False),
]


@pytest.mark.parametrize(("text", "is_valid"), TEXTS)
def test_schema_and_loader_agree(text: str, is_valid: bool) -> None:
    validator = jsonschema.Draft202012Validator(shipped("config"))
    assert validator.is_valid(yaml.safe_load(text)) == is_valid
    if is_valid:
        parse(RawFile("x.yaml", text, None))
    else:
        with pytest.raises(ConfigError):
            parse(RawFile("x.yaml", text, None))


def test_every_metric_family_can_be_given_other_names() -> None:
    assert set(METRIC_FAMILIES) == set(names.FAMILIES)


def test_the_module_writes_and_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = ["--folder", str(tmp_path / "out")]
    assert schema.main(["--check", *folder]) == 1
    assert schema.main(folder) == 0
    assert schema.main(["--check", *folder]) == 0
    (tmp_path / "out" / "error.json").write_text("{}")
    (tmp_path / "out" / "left_over.json").write_text("{}")
    capsys.readouterr()
    assert schema.main(["--check", *folder]) == 1
    assert capsys.readouterr().out == "outdated: error.json\noutdated: left_over.json\n"
    assert schema.main(folder) == 0
    assert not (tmp_path / "out" / "left_over.json").exists()
    assert schema.outdated(tmp_path / "out") == []

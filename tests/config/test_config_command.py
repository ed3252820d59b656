"""`gpuctl config` as its users run it."""

from __future__ import annotations

import csv
import io
import json
import stat
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from gpuctl.cli.main import main
from gpuctl.clock import FixedClock
from gpuctl.config import load
from gpuctl.config.document import parse
from gpuctl.config.example import EXAMPLE
from gpuctl.config.files import SYSTEM_FILE, RawFile
from gpuctl.config.resolve import ENVIRONMENT
from gpuctl.model import schema
from gpuctl.model.config_file import LoopSettings
from gpuctl.model.policy import Policy
from tests.config.writing import write

NOON = datetime(2025, 3, 1, 12, tzinfo=UTC)

TWO = """\
# which cluster
current_context: hk   # the default
contexts:
  hk:
    cluster: hk-1
    prometheus:
      url: https://me:geheim@hk.example/prom
      headers: {X-Api-Key: geheim}
  新加坡: {}
"""


without_system_file = pytest.mark.skipif(
    SYSTEM_FILE.exists(), reason=f"this machine has a {SYSTEM_FILE}"
)


@dataclass(frozen=True)
class Run:
    """How a command ended."""

    code: int
    out: str
    err: str

    def document(self) -> Any:
        """The JSON answer, held to the schema of its kind."""
        document = json.loads(self.out)
        jsonschema.validate(
            document,
            json.loads((schema.FOLDER / f"{document['kind']}.json").read_text("utf-8")),
            cls=jsonschema.Draft202012Validator,
        )
        return document


def gpuctl(*words: str, home: Path | None = None, **environ: str) -> Run:
    """`gpuctl config WORDS`, without a terminal."""
    out, err = io.StringIO(), io.StringIO()
    variables: Mapping[str, str] = environ | ({"HOME": str(home)} if home else {})
    code = main(
        ["config", *words],
        environ=variables,
        stdin=io.StringIO(),
        stdout=out,
        stderr=err,
        clock=FixedClock(NOON),
    )
    return Run(code, out.getvalue(), err.getvalue())


# init


def test_init_writes_a_private_file_that_is_valid(tmp_path: Path) -> None:
    run = gpuctl("init", home=tmp_path)
    path = tmp_path / ".config/gpuctl/config.yaml"
    assert (run.code, run.out) == (0, f"{path}: OK, 1 context\n")
    assert path.read_text() == EXAMPLE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load(environ={"HOME": str(tmp_path)}).warnings == ()


def test_init_never_overwrites_unless_forced(tmp_path: Path) -> None:
    path = write(tmp_path, "mine", mode=0o644)
    run = gpuctl("init", "--path", str(path))
    assert run.code == 2
    assert f"{path} exists already" in run.err
    assert path.read_text() == "mine"
    assert gpuctl("init", "--force", "--path", str(path)).code == 0
    assert path.read_text() == EXAMPLE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_init_goes_where_the_configuration_is_looked_for(tmp_path: Path) -> None:
    target = tmp_path / "own.yaml"
    assert gpuctl("init", GPUCTL_CONFIG=str(target), HOME=str(tmp_path)).code == 0
    assert target.read_text() == EXAMPLE
    assert not (tmp_path / ".config").exists()


def test_init_without_a_home_asks_for_a_path() -> None:
    run = gpuctl("init")
    assert run.code == 2
    assert "neither XDG_CONFIG_HOME nor HOME is set" in run.err


def test_init_to_stdout(tmp_path: Path) -> None:
    run = gpuctl("init", "--path", "-", home=tmp_path)
    assert (run.code, run.out, run.err) == (0, EXAMPLE, "")


def test_the_example_states_the_defaults() -> None:
    document = parse(RawFile("example.yaml", EXAMPLE, None))
    assert document.config.policy == Policy()
    assert document.config.loop == LoopSettings()
    assert document.warnings == ()
    stated = {path[1:] for path in document.lines if path[0] == "policy"}
    assert ("limits", "min_coverage") in stated


# view


def test_view_shows_origins_on_demand(tmp_path: Path) -> None:
    path = str(write(tmp_path, TWO))
    plain, full = gpuctl("view", "--config", path), gpuctl("view", "--origin", "--config", path)
    assert plain.code == full.code == 0
    assert plain.out.splitlines()[0].split() == ["KEY", "VALUE"]
    assert full.out.splitlines()[0].split() == ["KEY", "VALUE", "ORIGIN"]
    rows = {line.split()[0]: line.split(maxsplit=2)[1:] for line in full.out.splitlines()}
    assert rows["prometheus.url"] == ["https://hk.example/prom", f"file {path}:7"]
    assert rows["policy.hot_for"] == ["5m", "default"]
    assert rows["prometheus.token_file"] == ["--", "default"]


@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml", "csv", "name"])
def test_view_shows_no_secret_in_any_format(tmp_path: Path, form: str) -> None:
    run = gpuctl("view", "--origin", "-o", form, "--config", str(write(tmp_path, TWO, mode=0o644)))
    assert run.code == 0
    assert "geheim" not in run.out + run.err
    assert "holds credentials in a URL or a header" in run.err


def test_view_as_a_document(tmp_path: Path) -> None:
    path = str(write(tmp_path, TWO))
    document = gpuctl("view", "-o", "json", "--config", path).document()
    assert (document["file"], document["context"]) == (path, "hk")
    items = {item["key"]: (item["value"], item["origin"]) for item in document["items"]}
    assert items["cluster"] == ("hk-1", f"file {path}:5")
    assert items["policy.limits.cooldown"] == ("30m", "default")
    as_yaml = yaml.safe_load(gpuctl("view", "-o", "yaml", "--config", path).out)
    assert as_yaml["items"] == document["items"]
    rows = list(csv.reader(io.StringIO(gpuctl("view", "-o", "csv", "--config", path).out)))
    assert rows[0] == ["key", "value", "origin"]
    assert ["policy.protected_namespaces", '["kube-system"]', "default"] in rows


def test_view_names_the_variable_that_won(tmp_path: Path) -> None:
    path = str(write(tmp_path, TWO))
    run = gpuctl("view", "--origin", GPUCTL_CONFIG=path, GPUCTL_PROMETHEUS_URL="http://x:9090")
    assert "env GPUCTL_PROMETHEUS_URL" in run.out
    assert "env GPUCTL_CONFIG" in run.out
    assert ENVIRONMENT["prometheus.url"] == "GPUCTL_PROMETHEUS_URL"


@without_system_file
def test_view_without_any_file_shows_the_defaults(tmp_path: Path) -> None:
    document = gpuctl("view", "-o", "json", home=tmp_path).document()
    assert document["file"] is None
    assert {item["origin"] for item in document["items"]} == {"default"}


def test_every_fault_is_a_line_of_the_error(tmp_path: Path) -> None:
    path = write(tmp_path, "policy:\n  hot_abov: 1\n  hot_for: 5\n")
    run = gpuctl("view", "--config", str(path))
    assert run.code == 2
    assert run.out == ""
    assert run.err.splitlines() == [
        f"error: the configuration {path} has 2 problems",
        "  - line 2: unknown key hot_abov in policy (did you mean hot_above?)",
        "  - line 3: policy.hot_for: '5' has no unit: write 5s, 5m or 5h",
        "  try:   correct them, then run: gpuctl config check",
    ]
    error = gpuctl("view", "-o", "json", "--config", str(path)).document()
    assert error["kind"] == "error"
    assert "line 3: policy.hot_for" in error["cause"]


# check


def test_check_says_ok(tmp_path: Path) -> None:
    path = write(tmp_path, TWO)
    run = gpuctl("check", str(path))
    assert (run.code, run.out) == (0, f"{path}: OK, 2 contexts\n")


def test_check_lists_faults_like_a_compiler(tmp_path: Path) -> None:
    path = write(tmp_path, "policy:\n  hot_abov: 1\n  hot_for: 5\n")
    run = gpuctl("check", str(path))
    assert run.code == 2
    assert run.out.splitlines() == [
        f"{path}:2: error: unknown key hot_abov in policy (did you mean hot_above?)",
        f"{path}:3: error: policy.hot_for: '5' has no unit: write 5s, 5m or 5h",
    ]
    document = gpuctl("check", str(path), "-o", "json").document()
    assert (document["valid"], [item["line"] for item in document["items"]]) == (False, [2, 3])


def test_check_warns_about_every_context_and_its_files(tmp_path: Path) -> None:
    write(tmp_path, "x", "open.token", mode=0o644)
    text = """\
current_context: a
contexts:
  a: {prometheus: {token_file: absent.token}}
  b: {prometheus: {token_file: open.token, insecure_skip_verify: true}}
  c: {kubernetes: {kubeconfig: ~/x}}
"""
    run = gpuctl("check", str(write(tmp_path, text)), GPUCTL_CONTEXT="nowhere")
    assert run.code == 0
    assert f"prometheus.token_file: {tmp_path}/absent.token: no such file" in run.out
    assert f"{tmp_path}/open.token can be read by every user" in run.out
    assert ":4: warning: contexts.b.prometheus.insecure_skip_verify: TLS CERTIFICATES" in run.out
    assert "contexts.c: kubernetes.kubeconfig: '~/x' can't be found: HOME is not set" in run.out
    assert run.out.endswith("config.yaml: OK, 3 contexts\n")


@without_system_file
def test_check_of_nothing_points_to_init(tmp_path: Path) -> None:
    run = gpuctl("check", home=tmp_path)
    assert run.code == 2
    assert "there is no configuration file" in run.err
    assert "gpuctl config init" in run.err


# use-context and contexts


def test_use_context_changes_one_word(tmp_path: Path) -> None:
    path = write(tmp_path, TWO, mode=0o640)
    run = gpuctl("use-context", "新加坡", "--config", str(path))
    assert (run.code, run.out) == (0, "")
    assert run.err == "current context is now 新加坡\n"
    assert path.read_text() == TWO.replace("current_context: hk", 'current_context: "新加坡"')
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert "was already" in gpuctl("use-context", "新加坡", "--config", str(path)).err


def test_use_context_of_an_unknown_name_changes_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, TWO)
    run = gpuctl("use-context", "kh", "--config", str(path))
    assert run.code == 2
    assert "there is no context kh" in run.err
    assert "contexts: hk, 新加坡" in run.err
    assert path.read_text() == TWO


def test_use_context_says_when_the_environment_outranks_it(tmp_path: Path) -> None:
    path = write(tmp_path, TWO)
    run = gpuctl("use-context", "hk", GPUCTL_CONFIG=str(path), GPUCTL_CONTEXT="新加坡")
    assert "GPUCTL_CONTEXT=新加坡 outranks the file" in run.err


def test_contexts_marks_the_one_in_force(tmp_path: Path) -> None:
    path = str(write(tmp_path, TWO))
    lines = gpuctl("contexts", "--config", path).out.splitlines()
    assert [line.split() for line in lines] == [
        ["NAME", "CLUSTER", "PROMETHEUS"],
        ["*", "hk", "hk-1", "https://hk.example/prom"],
        ["新加坡", "--", "--"],
    ]
    assert gpuctl("contexts", "-o", "name", "--config", path).out == "hk\n新加坡\n"
    document = gpuctl("contexts", "-o", "json", GPUCTL_CONFIG=path, GPUCTL_CONTEXT="新加坡")
    assert [item["current"] for item in document.document()["items"]] == [False, True]
    assert "geheim" not in document.out


@without_system_file
def test_contexts_without_a_file_is_an_empty_list(tmp_path: Path) -> None:
    run = gpuctl("contexts", home=tmp_path)
    assert (run.code, run.out) == (0, "")
    assert "gpuctl config init" in run.err
    assert gpuctl("contexts", "-o", "json", home=tmp_path).document()["items"] == []


def test_check_reads_the_standard_input(tmp_path: Path) -> None:
    path = write(tmp_path, TWO + "policy: {hot_for: 5}\n", mode=0o644)
    with path.open() as file:
        done = subprocess.run(
            [sys.executable, "-m", "gpuctl", "config", "check", "-"],
            stdin=file,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stdout.startswith("<stdin>:10: error: policy.hot_for: '5' has no unit")

"""Warnings, secrets, and what importing costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpuctl.config import Settings, load
from tests.config.writing import load_text, write

PROMETHEUS = "contexts:\n  hk:\n    prometheus:\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (PROMETHEUS + "      insecure_skip_verify: true\n", "TLS CERTIFICATES ARE NOT CHECKED"),
        (
            PROMETHEUS + "      insecure_skip_verify: true\n      ca_file: /a\n",
            "ca_file has no effect",
        ),
        (PROMETHEUS + "      url: http://me:pw@prom:9090\n", "unencrypted"),
        (PROMETHEUS + "      username: me\n", "without a password"),
        ("policy: {hot_for: 30s}\n", "metrics_max_age (1m) is longer than policy.hot_for (30s)"),
        ("policy: {limits: {moves_per_run: 20}}\n", "the hourly limit comes first"),
        ("policy: {limits: {per_node: 3}}\n", "the lower one counts"),
        ("contexts: {a: {proxmox: {}}}\n", "proxmox.endpoints is empty"),
        ("contexts: {a: {proxmox: {endpoints: ['https://a']}}}\n", "proxmox has no token_id"),
        (
            "contexts: {a: {proxmox: {endpoints: ['https://a'], token_id: a@b!c}}}\n",
            "no token_file or token_env",
        ),
        (
            "contexts: {a: {proxmox: {endpoints: ['https://me:geheim@a'], token_id: a@b!c,"
            " token_env: X}}}\n",
            "the user info in https://a is not used",
        ),
    ],
)
def test_what_is_dangerous_or_odd_is_said(tmp_path: Path, text: str, says: str) -> None:
    warnings = load_text(tmp_path, text).warnings
    assert [says in warning for warning in warnings].count(True) == 1, warnings
    assert "geheim" not in str(warnings)


def test_a_warning_names_its_place(tmp_path: Path) -> None:
    (warning,) = load_text(tmp_path, "policy:\n  hot_for: 30s\n").warnings
    assert f"[file {tmp_path}/config.yaml:2]" in warning


def test_only_the_context_in_force_is_warned_about(tmp_path: Path) -> None:
    text = (
        "current_context: sg\n"
        + PROMETHEUS
        + "      insecure_skip_verify: true\n  sg: {cluster: sg}\n"
    )
    assert load_text(tmp_path, text).warnings == ()
    assert len(load_text(tmp_path, text, context="hk").warnings) == 1


def test_credentials_over_plain_http_to_this_machine_are_fine(tmp_path: Path) -> None:
    for host in ("localhost", "127.0.0.1", "[::1]"):
        text = PROMETHEUS + f"      url: http://{host}:9090\n      token_env: TOKEN\n"
        assert load_text(tmp_path, text).warnings == ()


@pytest.mark.parametrize(("mode", "warned"), [(0o644, True), (0o640, False), (0o600, False)])
def test_a_secret_file_that_all_can_read_is_said_without_opening_it(
    tmp_path: Path, mode: int, warned: bool
) -> None:
    secret = write(tmp_path, "geheim", "prom.token", mode=mode)
    warnings = load_text(tmp_path, PROMETHEUS + "      token_file: prom.token\n").warnings
    assert [f"chmod 600 {secret}" in warning for warning in warnings] == [True] * warned
    assert "geheim" not in str(warnings)


def test_a_missing_secret_file_is_left_to_who_needs_it(tmp_path: Path) -> None:
    assert load_text(tmp_path, PROMETHEUS + "      token_file: absent\n").warnings == ()


@pytest.mark.parametrize(
    ("text", "mode", "says"),
    [
        (PROMETHEUS + "      url: https://me:geheim@prom\n", 0o644, "holds credentials"),
        (PROMETHEUS + "      headers: {X-Api-Key: geheim}\n", 0o644, "holds credentials"),
        (PROMETHEUS + "      headers: {X-Api-Key: geheim}\n", 0o600, None),
        (PROMETHEUS + "      headers: {X-Scope-OrgID: hk}\n", 0o644, None),
        ("policy: {}\n", 0o666, "can be changed by every user"),
    ],
)
def test_the_mode_of_the_file_itself(
    tmp_path: Path, text: str, mode: int, says: str | None
) -> None:
    path = write(tmp_path, text, mode=mode)
    warnings = load(environ={}, config=str(path)).warnings
    assert len(warnings) == (says is not None)
    assert (says or "") in "".join(warnings)


def test_no_secret_is_in_what_can_be_printed(tmp_path: Path) -> None:
    settings = load_text(
        tmp_path,
        """\
contexts:
  hk:
    exporters: ["http://me:geheim@gpu-1:9400/metrics"]
    prometheus:
      url: https://me:geheim@prom.example/x?token=geheim
      headers: {X-Api-Key: geheim, X-Scope-OrgID: hk}
    proxmox: {endpoints: ["https://me:geheim@pve:8006"], token_id: a@b!c, token_env: PVE}
""",
    )
    assert settings.context.prometheus.headers["X-Api-Key"] == "geheim"
    assert "geheim" not in printable_part(settings)
    assert "'X-Scope-OrgID': 'hk'" in printable_part(settings)
    assert "https://prom.example/x?token=***" in printable_part(settings)


def test_no_secret_of_the_environment_is_in_what_can_be_printed(tmp_path: Path) -> None:
    environ = {"GPUCTL_PROMETHEUS_URL": "https://me:geheim@prom.example"}
    settings = load_text(tmp_path, PROMETHEUS + "      selector: 'a=\"b\"'\n", environ=environ)
    assert "geheim" not in printable_part(settings)


def printable_part(settings: Settings) -> str:
    return str((settings.values, settings.warnings, settings.available_contexts))


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, gpuctl.config\n"
        "print([m for m in ('yaml', 'msgspec', 'httpx', 'rich', 'typer') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

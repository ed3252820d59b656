"""Which file, which context, which value: and who said so."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from gpuctl.config import Flag, load
from gpuctl.errors import ConfigError, UsageError
from tests.config.writing import load_text, origins, shown, write

TWO = """\
current_context: hk
contexts:
  hk:
    cluster: hk-cluster
    prometheus: {url: "https://hk.example"}
  sg:
    prometheus: {url: "https://sg.example"}
policy:
  hot_for: 10m
"""

FLAG, ENV = "https://flag.example", "https://env.example"


@pytest.mark.parametrize(
    ("flag", "variable", "text", "url", "origin"),
    [
        (FLAG, ENV, TWO, FLAG, "flag --prometheus-url"),
        (FLAG, None, "", FLAG, "flag --prometheus-url"),
        (None, ENV, TWO, ENV, "env GPUCTL_PROMETHEUS_URL"),
        (None, "", TWO, "https://hk.example", "file FILE:5"),
        (None, None, TWO, "https://hk.example", "file FILE:5"),
        (None, None, "", None, "default"),
    ],
)
def test_url_precedence(
    tmp_path: Path,
    flag: str | None,
    variable: str | None,
    text: str,
    url: str | None,
    origin: str,
) -> None:
    environ = {} if variable is None else {"GPUCTL_PROMETHEUS_URL": variable}
    settings = load_text(tmp_path, text, environ=environ, prometheus_url=flag)
    assert settings.context.prometheus.url == url
    assert origins(settings)["prometheus.url"] == origin


@pytest.mark.parametrize(
    ("flag", "variable", "name", "origin"),
    [
        ("sg", "hk", "sg", "flag --context"),
        (None, "sg", "sg", "env GPUCTL_CONTEXT"),
        (None, "", "hk", "file FILE:1"),
        (None, None, "hk", "file FILE:1"),
    ],
)
def test_context_precedence(
    tmp_path: Path, flag: str | None, variable: str | None, name: str, origin: str
) -> None:
    environ = {} if variable is None else {"GPUCTL_CONTEXT": variable}
    settings = load_text(tmp_path, TWO, environ=environ, context=flag)
    assert settings.context_name == name
    assert settings.context.prometheus.url == f"https://{name}.example"
    assert origins(settings)["context"] == origin
    assert settings.available_contexts == ("hk", "sg")


def test_every_value_has_its_origin(tmp_path: Path) -> None:
    settings = load_text(
        tmp_path,
        TWO,
        flags={"policy.limits.metrics_max_age": Flag("--max-age", timedelta(minutes=2))},
    )
    assert settings.policy.hot_for == timedelta(minutes=10)
    assert settings.policy.limits.metrics_max_age == timedelta(minutes=2)
    where = origins(settings)
    assert where["config"] == "flag --config"
    assert where["cluster"] == "file FILE:4"
    assert where["policy.hot_for"] == "file FILE:9"
    assert where["policy.limits.metrics_max_age"] == "flag --max-age"
    assert where["policy.limits.cooldown"] == "default"
    assert where["kubernetes"] == "default"
    assert shown(settings)["policy.hot_for"] == "10m"


def test_a_flag_opens_a_part_that_the_file_lacks(tmp_path: Path) -> None:
    flags = {"kubernetes.context": Flag("--kube-context", "admin")}
    settings = load_text(tmp_path, TWO, flags=flags)
    assert settings.context.kubernetes is not None
    assert settings.context.kubernetes.context == "admin"
    assert origins(settings)["kubernetes.context"] == "flag --kube-context"


def test_a_flag_for_no_setting_is_a_bug_and_said_loudly(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match=r"policy\.hot_abov"):
        load_text(tmp_path, TWO, flags={"policy.hot_abov": Flag("--hot", 1.0)})


def test_an_unknown_context_is_a_usage_error_that_lists_the_valid_ones(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no context 'hkk' \(flag --context\)") as failure:
        load_text(tmp_path, TWO, context="hkk")
    assert failure.value.cause is not None
    assert failure.value.cause.endswith("hk, sg")
    assert failure.value.hint == "did you mean hk?"


def test_a_context_without_any_file_points_to_init(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no context 'hk'") as failure:
        load(environ={"GPUCTL_CONTEXT": "hk"}, system_file=tmp_path / "absent.yaml")
    assert failure.value.cause == "there is no configuration file"


def test_the_only_context_needs_no_naming(tmp_path: Path) -> None:
    settings = load_text(tmp_path, "contexts:\n  hk: {cluster: x}\n")
    assert settings.context_name == "hk"
    assert origins(settings)["context"] == "file FILE:2 (the only context)"


def test_several_contexts_without_a_choice_give_defaults_and_a_warning(tmp_path: Path) -> None:
    settings = load_text(tmp_path, "contexts:\n  hk: {}\n  sg: {}\n")
    assert settings.context_name is None
    assert settings.context.prometheus.url is None
    assert any("no context is chosen" in warning for warning in settings.warnings)


@pytest.mark.parametrize(
    ("url", "variable", "kind", "text"),
    [
        ("prom:9090", None, UsageError, "--prometheus-url: 'prom:9090' must start with http"),
        (None, "ftp://x", ConfigError, "GPUCTL_PROMETHEUS_URL: 'ftp://x' must start with http"),
        ("ftp://me:s3cret@x", None, UsageError, "'ftp://x' must start"),
    ],
)
def test_values_from_outside_obey_the_same_rules(
    tmp_path: Path, url: str | None, variable: str | None, kind: type[ConfigError], text: str
) -> None:
    environ = {"GPUCTL_PROMETHEUS_URL": variable} if variable else {}
    with pytest.raises(kind) as failure:
        load_text(tmp_path, TWO, environ=environ, prometheus_url=url)
    assert text in str(failure.value)


def test_a_flag_can_not_contradict_the_file_unnoticed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"idle_below must be lower \[flag --hot-above\]"):
        load_text(tmp_path, TWO, flags={"policy.hot_above": Flag("--hot-above", 20.0)})


# Which file


def test_no_file_and_no_home_is_fine(tmp_path: Path) -> None:
    settings = load(environ={}, system_file=tmp_path / "absent.yaml")
    assert settings.file is None
    assert settings.context_name is None
    assert settings.context.prometheus.url is None
    assert settings.warnings == ()


@pytest.mark.parametrize(
    ("environ", "cluster"),
    [
        ({"XDG_CONFIG_HOME": "{tmp}/xdg", "HOME": "{tmp}/home"}, "xdg"),
        ({"HOME": "{tmp}/home"}, "home"),
        ({"XDG_CONFIG_HOME": "relative", "HOME": "{tmp}/home"}, "home"),
        ({"XDG_CONFIG_HOME": "{tmp}/empty", "HOME": "{tmp}/home"}, "etc"),
        ({"HOME": ""}, "etc"),
        ({}, "etc"),
        ({"GPUCTL_CONFIG": "{tmp}/named.yaml", "HOME": "{tmp}/home"}, "named"),
        ({"GPUCTL_CONFIG": "", "HOME": "{tmp}/home"}, "home"),
    ],
)
def test_first_file_found_wins(tmp_path: Path, environ: dict[str, str], cluster: str) -> None:
    for name, place in (
        ("xdg", "xdg/gpuctl/config.yaml"),
        ("home", "home/.config/gpuctl/config.yaml"),
        ("etc", "etc/config.yaml"),
        ("named", "named.yaml"),
    ):
        write(tmp_path, f"contexts: {{a: {{cluster: {name}}}}}\n", place)
    filled = {key: value.format(tmp=tmp_path) for key, value in environ.items()}
    settings = load(environ=filled, system_file=tmp_path / "etc/config.yaml")
    assert settings.context.cluster == cluster


def test_files_are_not_merged(tmp_path: Path) -> None:
    write(tmp_path, "policy: {hot_above: 70}\n", "etc.yaml")
    write(tmp_path, "policy: {idle_below: 10}\n", ".config/gpuctl/config.yaml")
    settings = load(environ={"HOME": str(tmp_path)}, system_file=tmp_path / "etc.yaml")
    assert (settings.policy.hot_above, settings.policy.idle_below) == (90, 10)


@pytest.mark.parametrize("by", ["flag", "env"])
def test_a_named_file_that_is_missing_is_an_error(tmp_path: Path, by: str) -> None:
    path = str(tmp_path / "absent.yaml")
    with pytest.raises(ConfigError, match="there is no configuration file") as failure:
        load(
            environ={"GPUCTL_CONFIG": path} if by == "env" else {},
            config=path if by == "flag" else None,
        )
    assert ("GPUCTL_CONFIG" in (failure.value.hint or "")) == (by == "env")


# File names inside the file


def test_file_names_are_completed(tmp_path: Path) -> None:
    settings = load_text(
        tmp_path,
        """\
contexts:
  hk:
    prometheus: {token_file: prom.token, ca_file: /abs/ca.pem}
    kubernetes: {kubeconfig: ~/.kube/config}
    exporters: ["@hosts.txt", "gpu-1:9400"]
notify: {slack: {webhook_file: sub/hook}}
""",
        environ={"HOME": "/home/me", "token": "x"},
    )
    context = settings.context
    assert context.prometheus.token_file == str(tmp_path / "prom.token")
    assert context.prometheus.ca_file == "/abs/ca.pem"
    assert context.kubernetes is not None
    assert context.kubernetes.kubeconfig == "/home/me/.kube/config"
    assert context.exporters == (f"@{tmp_path}/hosts.txt", "gpu-1:9400")
    assert settings.notify.slack is not None
    assert settings.notify.slack.webhook_file == str(tmp_path / "sub/hook")


@pytest.mark.parametrize(
    ("name", "text"), [("~/x", "HOME is not set"), ("~root/x", "only ~/ is understood")]
)
def test_a_home_that_is_unknown_is_said(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        load_text(tmp_path, f"contexts: {{a: {{kubernetes: {{kubeconfig: {name}}}}}}}\n")


def test_environment_in_a_file_name_stays_as_it_is(tmp_path: Path) -> None:
    settings = load_text(
        tmp_path,
        "contexts: {a: {prometheus: {token_file: /run/$NAME/x}}}\n",
        environ={"NAME": "secret"},
    )
    assert settings.context.prometheus.token_file == "/run/$NAME/x"


def test_empty_sections_mean_defaults_and_an_empty_part_is_present(tmp_path: Path) -> None:
    settings = load_text(
        tmp_path,
        "contexts:\n  hk:\n    labels:\n    exporters:\n    kubernetes: {}\npolicy:\nloop:\n",
    )
    assert settings.context.kubernetes is not None
    assert settings.context.proxmox is None
    assert settings.context.exporters == ()
    assert settings.policy.hot_above == 90
    assert settings.loop.mode == "advise"


@pytest.mark.parametrize("mode", ["off", "advise", "act", '"off"'])
def test_a_bare_off_is_the_mode_and_not_a_boolean(tmp_path: Path, mode: str) -> None:
    assert load_text(tmp_path, f"loop: {{mode: {mode}}}\n").loop.mode == mode.strip('"')

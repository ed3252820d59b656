"""Every fault of a file, with its line and what to do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuctl.config import load
from gpuctl.config.document import parse
from gpuctl.config.files import LONGEST_FILE_BYTES, RawFile
from gpuctl.errors import ConfigError
from tests.config.writing import faults, load_text, write

CONTEXT = "contexts:\n  hk:\n"
PROMETHEUS = CONTEXT + "    prometheus:\n"
PROXMOX = CONTEXT + "    proxmox:\n      endpoints: ['https://pve:8006']\n"

ONE_FAULT = [
    # unknown keys
    ("policy:\n  hot_abov: 90\n", 2, "unknown key hot_abov in policy did you mean hot_above?"),
    ("polcy: {}\n", 1, "unknown key polcy in the top level did you mean policy?"),
    ("\n\npolicy:\n  cooldown: 3m\n", 4, "cooldown belongs in policy.limits"),
    ("prometheus: {}\n", 1, "prometheus belongs in contexts.NAME"),
    ("zzz: 1\n", 1, "valid keys: current_context, contexts, policy, notify, loop"),
    ("<<: {a: 1}\n", 1, "unknown key <<"),
    # duplicate keys
    ("policy: {}\nloop: {}\npolicy: {}\n", 3, "policy: is already set on line 1"),
    (CONTEXT + "    cluster: a\n    cluster: b\n", 4, "contexts.hk.cluster: is already set on"),
    # types
    ("policy: 5\n", 1, "policy: expected a mapping, got a number 5"),
    ("policy: [a]\n", 1, "policy: expected a mapping, got a list"),
    ("policy:\n  hot_above: much\n", 2, "policy.hot_above: expected a number, got text much"),
    ("policy:\n  hot_above: '90'\n", 2, "policy.hot_above: expected a number, got text 90"),
    ("policy:\n  hot_above: true\n", 2, "expected a number, got true or false true"),
    ("policy:\n  hot_above:\n", 2, "expected a number, got nothing give it a value"),
    ("policy:\n  hot_above: .nan\n", 2, "'.nan' is not a plain decimal number"),
    ("policy:\n  hot_above: 012\n", 2, "'012' is not a plain decimal number"),
    ("policy:\n  hot_above: 1:30\n", 2, "'1:30' is not a plain decimal number"),
    (f"policy:\n  critical_priority: {'9' * 5000}\n", 2, "is not a plain decimal number"),
    ("policy:\n  critical_priority: 1.5\n", 2, "expected a whole number, got a number 1.5"),
    ("policy:\n  protected_namespaces: kube-system\n", 2, "a list, got text kube-system write ["),
    (
        CONTEXT + "    cluster: 007\n",
        3,
        'expected text, got a number 007 write it in quotes: "007"',
    ),
    (CONTEXT + "    cluster: 2025-01-01\n", 3, "expected text, got a date 2025-01-01"),
    (CONTEXT + "    cluster: [a]\n", 3, "expected text, got a list"),
    (CONTEXT + "    cluster: !!python/name:os.system x\n", 3, "is not supported leave the tag"),
    (PROMETHEUS + "      insecure_skip_verify: 1\n", 4, "expected true or false, got a number 1"),
    (PROMETHEUS + "      headers: {X-Scope-OrgID: 1}\n", 4, "headers.X-Scope-OrgID: expected text"),
    ("? [a, b]\n: 1\n", 1, "a key must be plain text"),
    ("- a\n- b\n", 1, "the file holds a list, not settings"),
    ("just text\n", 1, "the file holds text, not settings"),
    # durations
    ("policy: {hot_for: 5}\n", 1, "policy.hot_for: '5' has no unit: write 5s, 5m or 5h"),
    ("policy: {hot_for: soon}\n", 1, "policy.hot_for: 'soon' is not a duration"),
    ("policy: {hot_for: -5m}\n", 1, "negative"),
    ("policy: {hot_for: 0}\n", 1, "0 is too short"),
    ("policy: {hot_for: [5m]}\n", 1, "expected a duration like 5m, got a list"),
    ("policy: {limits: {metrics_max_age: 0s}}\n", 1, "0 is too short"),
    # ranges
    ("policy: {hot_above: 101}\n", 1, "policy.hot_above: 101 is outside 0..100 (percent)"),
    ("policy: {hot_above: -0.5}\n", 1, "-0.5 is outside 0..100"),
    ("policy: {target_spread: 200}\n", 1, "policy.target_spread: 200 is outside 0..100"),
    ("policy: {limits: {min_coverage: 101}}\n", 1, "min_coverage: 101 is outside 0..100"),
    ("policy: {hot_above_by_profile: {1g.10gb: 120}}\n", 1, "1g.10gb: 120 is outside"),
    ("policy: {critical_priority: 9999999999}\n", 1, "is outside -2.14748e+09..2.14748e+09"),
    ("policy: {limits: {parallel: 0}}\n", 1, "policy.limits.parallel: 0 is too low: 1 or more"),
    ("policy: {limits: {moves_per_run: -1}}\n", 1, "moves_per_run: -1 is too low"),
    ("policy: {weights: {compute: -1}}\n", 1, "policy.weights.compute: -1 is too low: 0 or"),
    ("policy: {weights: {headroom: 1}}\n", 1, "'headroom' is not one of compute, memory"),
    ("policy:\n  hot_above: 30\n  idle_below: 30\n", 3, "idle_below must be lower"),
    ("policy:\n  hot_above: 20\n", 2, "policy.idle_below is 30 and policy.hot_above is 20"),
    ("policy:\n  hot_above_by_profile: {7g.80gb: 25}\n", 2, "idle_below must be lower"),
    # names
    ("policy: {strategy: least-load}\n", 1, "simple (did you mean least-loaded?)"),
    ("loop: {mode: acts}\n", 1, "'acts' is not one of act, advise, off (did you mean act?)"),
    ("loop: {mode: 3}\n", 1, "expected text, got a number 3"),
    (CONTEXT + "    labels: {workload: both}\n", 3, "'both' is not one of auto, exported, plain"),
    (CONTEXT + "    metrics: {aliases: {utilisation: [x]}}\n", 3, "(did you mean utilization?)"),
    (CONTEXT + "    metrics: {aliases: {utilization: [a-b]}}\n", 3, "'a-b' is not a metric name"),
    (CONTEXT + "    metrics: {aliases: {utilization: a}}\n", 3, "expected a list, got text a"),
    (CONTEXT + "    labels: {node: ['a b']}\n", 3, "'a b' is not a label name"),
    ("contexts: {'a b': {}}\n", 1, "'a b' is not a context name"),
    ("current_context: hkk\n" + CONTEXT + "    cluster: a\n", 1, "no context hkk did you mean hk?"),
    ("current_context: x\n", 1, "there is no context x contexts: none"),
    # addresses
    (PROMETHEUS + "      url: prom:9090\n", 4, "'prom:9090' must start with http:// or https://"),
    (PROMETHEUS + "      url: ftp://prom\n", 4, "must start with http:// or https://"),
    (PROMETHEUS + "      url: ''\n", 4, "must start with http"),
    (CONTEXT + "    proxmox: {endpoints: [pve-1]}\n", 3, "'pve-1' must start with http"),
    (CONTEXT + "    exporters: ['a b']\n", 3, "'a b' is not a URL, HOST:PORT or @FILE"),
    (PROXMOX + "      fingerprint: 'AA:BB'\n", 5, "is not a SHA-256 fingerprint"),
    (PROMETHEUS + "      headers: {'X Y': a}\n", 4, "'X Y' is not the name of an HTTP header"),
    (PROMETHEUS + '      headers: {X: "a\\nb"}\n', 4, "a header's value must be one line"),
    # contradictions
    (PROMETHEUS + "      token_file: a\n      token_env: B\n", 4, "only one can be sent"),
    (
        PROMETHEUS + "      username: u\n      password_file: a\n      token_file: b\n",
        5,
        "password_file and token_file are set; only one can be sent",
    ),
    (PROMETHEUS + "      password_file: a\n", 4, "set without prometheus.username"),
    (PROMETHEUS + "      client_key: a\n", 4, "without prometheus.client_cert"),
    (PROXMOX + "      token_file: a\n      token_env: B\n", 6, "only one can be sent"),
    (
        CONTEXT + "    kubernetes:\n      in_cluster: true\n      kubeconfig: a\n",
        4,
        "in_cluster and kubernetes.kubeconfig are both set",
    ),
    # YAML itself
    ("policy:\n\thot_above: 1\n", 2, "not valid YAML: found character that cannot start"),
    ("a: b: c\n", 1, "mapping values are not allowed"),
    ("policy: {\nloop: 1\n", 3, "not valid YAML"),
    ("a: 1\n---\nb: 2\n", 2, "a second YAML document begins here"),
    ("a: &x [1]\nb: *x\n", 2, "the YAML alias *x is not supported"),
    ("policy: {hot_above: 9\x000}\n", 1, "the control character U+0000 is not allowed"),
    ("loop: {}\npolicy: \x1b[31m\n", 2, "the control character U+001B is not allowed"),
]


@pytest.mark.parametrize(("text", "line", "says"), ONE_FAULT)
def test_a_fault_is_found_on_its_line(tmp_path: Path, text: str, line: int, says: str) -> None:
    found = faults(tmp_path, text)
    assert [(at, says in message) for at, message in found] == [(line, True)], found


@pytest.mark.parametrize(
    "text",
    [
        PROMETHEUS + "      password: geheim\n",
        PROMETHEUS + "      token: geheim\n",
        PROMETHEUS + "      bearer_token: {x: geheim}\n",
        PROMETHEUS + "      token_env: geheim-123\n",
        PROMETHEUS + "      headers: {Authorization: Bearer geheim}\n",
        PROMETHEUS + "      url: ftp://me:geheim@host\n",
        PROMETHEUS + "      url: http://me:geheim@host:port/\n",
        PROMETHEUS + "      url: http://me:geheim@host\n      token_file: x\n",
        PROXMOX + "      token_id: a@b!c=geheim\n",
        PROXMOX + "      token: geheim\n",
        "notify: {slack: {webhook: https://hooks.example/geheim}}\n",
        "notify: {pagerduty: {routing_key: geheim}}\n",
        "password: geheim\n",
    ],
)
def test_secrets_in_the_file_are_refused_and_never_repeated(tmp_path: Path, text: str) -> None:
    found = faults(tmp_path, text)
    assert len(found) == 1
    assert "geheim" not in str(found)


@pytest.mark.parametrize(
    ("key", "advice"),
    [("password", "password_file or password_env"), ("token", "token_file or token_env")],
)
def test_a_secret_key_is_answered_with_the_right_one(tmp_path: Path, key: str, advice: str) -> None:
    ((line, message),) = faults(tmp_path, PROMETHEUS + f"      {key}: geheim\n")
    assert line == 4
    assert "a secret must not stand in this file" in message
    assert advice in message


def test_all_faults_are_reported_at_once_in_the_order_of_lines(tmp_path: Path) -> None:
    text = "policy:\n  hot_abov: 1\n  hot_for: 5\n  strategy: x\nloop: {mode: 1}\nzzz: 1\n"
    assert [line for line, _ in faults(tmp_path, text)] == [2, 3, 4, 5, 6]
    with pytest.raises(ConfigError) as failure:
        load_text(tmp_path, text)
    assert failure.value.what == f"the configuration {tmp_path}/config.yaml has 5 problems"
    assert len(failure.value.details) == 5
    assert failure.value.details[1].startswith("line 3: policy.hot_for: '5' has no unit")


def test_a_single_fault_is_the_headline(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as failure:
        load_text(tmp_path, "polcy: {}\n")
    assert failure.value.what == f"{tmp_path}/config.yaml:1: unknown key polcy in the top level"
    assert failure.value.hint == "did you mean policy?"
    assert failure.value.exit_code == 2


def test_a_fault_hides_no_contradiction_elsewhere_and_invents_none(tmp_path: Path) -> None:
    """A bad hot_above is not judged by its default against idle_below."""
    text = "policy:\n  hot_above: x\n  idle_below: 95\n" + PROMETHEUS + "      client_key: a\n"
    assert [line for line, _ in faults(tmp_path, text)] == [2, 7]


def test_names_from_the_file_are_fit_for_a_terminal(tmp_path: Path) -> None:
    ((_, message),) = faults(tmp_path, f'"bad\\e[31m{"x" * 500}": 1\n')
    assert "\x1b" not in message
    assert len(message) < 250


# Files that are none


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---\n", "\ufeff", "null\n"])
def test_an_empty_file_is_all_defaults(tmp_path: Path, text: str) -> None:
    settings = load_text(tmp_path, text)
    assert settings.file == str(tmp_path / "config.yaml")
    assert settings.policy.hot_above == 90


def test_a_directory_is_named_as_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a directory"):
        load(environ={}, config=str(tmp_path))


def test_an_unreadable_file_says_who_tried(tmp_path: Path) -> None:
    path = write(tmp_path, "policy: {}\n", mode=0)
    with as_an_ordinary_user(), pytest.raises(ConfigError, match="permission denied") as failure:
        load(environ={}, config=str(path))
    assert failure.value.hint == f"look at its owner and mode with: ls -l {path}"


@contextmanager
def as_an_ordinary_user() -> Iterator[None]:
    """root may read everything, so a test that runs as root steps down for a moment."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


def test_a_path_that_no_file_can_have_is_an_error() -> None:
    for path in ("a\0b", "", "x" * 5000):
        with pytest.raises(ConfigError):
            load(environ={}, config=path)


def test_binary_garbage_is_told_from_text(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"config\.yaml:2: not UTF-8 text") as failure:
        load_text(tmp_path, b"a: 1\n\x7fELF\xff\xfe")
    assert failure.value.cause == "byte 9 is 0xff"


def test_a_huge_file_is_refused_early(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="larger than 1024 KiB"):
        load_text(tmp_path, b"#" * (LONGEST_FILE_BYTES + 1))
    with pytest.raises(ConfigError, match="larger than 1024 KiB"):
        load(environ={}, config="/dev/zero")


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n",
        "[" * 100_000,
        "{a: " * 10_000,
        "- " * 100_000,
        "[" + "x, " * 60_000 + "]",
    ],
)
def test_bombs_do_not_go_off(tmp_path: Path, text: str) -> None:
    assert len(faults(tmp_path, text)) == 1


SCRAPS = (
    *("policy:", "contexts:", "hk:", "{}", "[]", "-", "'", '"', "|", ">", "&a", "*a", "!", "%"),
    *("@", "\n", "\n\t", "\n  ", "# ", "5m", "true", "? ", ": ", ",", "9", "<<:", "---", "..."),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.one_of(
        st.text(max_size=80),
        st.lists(st.sampled_from(SCRAPS), max_size=25).map(" ".join),
    )
)
def test_any_text_is_a_configuration_or_a_config_error(text: str) -> None:
    try:
        parse(RawFile("x.yaml", text, None))
    except ConfigError as error:
        assert error.what  # noqa: PT017 - both ends are fine, a third would fail the test

"""The command line's shape: global options anywhere, usage errors, how commands end."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from gpuctl.clock import FixedClock
from tests.cli.commands import TABLE
from tests.conftest import Ran, RunCli

NOON = FixedClock(datetime(2025, 3, 1, 12, tzinfo=UTC))


@pytest.fixture
def cli(run_cli: RunCli) -> RunCli:
    """The frame around the commands of this folder."""

    def run(*words: str, **more: Any) -> Ran:
        return run_cli(*words, table=TABLE, clock=NOON, **more)

    return run


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (["--context", "a", "show"], "context", "a"),
        (["show", "--context", "a"], "context", "a"),
        (["--context", "a", "show", "--context", "b"], "context", "b"),
        (["show", "x", "--context=a", "--context=b"], "context", "b"),
        (["--color", "always", "--no-color", "show"], "color", "never"),
        (["--no-color", "show", "--color", "always"], "color", "always"),
        (["show", "--color", "never", "--no-color", "--color", "auto"], "color", "auto"),
        (["-q", "show"], "quiet", True),
        (["-q", "show", "-v"], "quiet", False),
        (["-v", "show", "-v"], "verbose", 2),
        (["show", "-vv"], "verbose", 2),
        (["-vv", "show", "-q"], "verbose", 0),
        (["show", "--timeout", "1m30s"], "timeout", 90),
        (["show", "--width", "120"], "width", 120),
        (["show", "--demo"], "demo", True),
        (["--demo-scenario", "mig-mixed", "show"], "demo", True),
        (["show"], "scenario", "hk-night"),
        (["show", "-ojson"], "format", "json"),
        (["show"], "from_flags", []),
        (["show", "-o", "csv", "-y"], "from_flags", ["output", "yes"]),
    ],
)
def test_global_options_hold_before_and_after_the_command(
    cli: RunCli, words: list[str], field: str, value: object
) -> None:
    ran = cli(*words)
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.document[field] == value


def test_global_options_hold_after_a_subcommand_of_a_group(cli: RunCli) -> None:
    for words in (
        ["--context", "z", "nested", "inner"],
        ["nested", "--context", "z", "inner"],
        ["--context", "y", "nested", "inner", "--context", "z"],
    ):
        assert cli(*words).stdout == "z\n"


@pytest.mark.parametrize(
    ("environ", "words", "field", "value"),
    [
        ({"GPUCTL_OUTPUT": "csv"}, ["show"], "format", "csv"),
        ({"GPUCTL_OUTPUT": "csv"}, ["show", "-o", "name"], "format", "name"),
        ({"GPUCTL_DEMO": "1"}, ["show"], "demo", True),
        ({"GPUCTL_DEMO": "off"}, ["show"], "demo", False),
        ({"GPUCTL_DEMO": ""}, ["show"], "demo", False),
        ({"GPUCTL_TIMEOUT": "5m"}, ["show"], "timeout", 300),
        ({"GPUCTL_NO_INPUT": "true"}, ["show"], "no_input", True),
        # The configuration decides about its own variables, and says where a value came from.
        ({"GPUCTL_CONTEXT": "a"}, ["show"], "context", None),
        ({"GPUCTL_YES": "1"}, ["show"], "from_flags", []),
    ],
)
def test_the_environment_speaks_where_the_flags_are_silent(
    cli: RunCli, environ: dict[str, str], words: list[str], field: str, value: object
) -> None:
    assert cli(*words, environ=environ).document[field] == value


@pytest.mark.parametrize(
    ("words", "environ", "stderr"),
    [
        (
            ["shwo"],
            {},
            "error: no command 'shwo' in gpuctl\n"
            "  cause: the commands are show, end, chat, lines, rows, nested\n"
            "  try:   did you mean show?\n",
        ),
        (
            ["sho"],
            {},
            "error: no command 'sho' in gpuctl\n"
            "  cause: the commands are show, end, chat, lines, rows, nested\n"
            "  try:   did you mean show?\n",
        ),
        (
            ["nested", "iner"],
            {},
            "error: no command 'iner' in gpuctl nested\n"
            "  cause: the commands are inner\n"
            "  try:   did you mean inner?\n",
        ),
        (
            ["show", "--metrc", "mem"],
            {},
            "error: no option --metrc in gpuctl show\n  try:   did you mean --metric?\n",
        ),
        (
            ["show", "--conf", "x"],
            {},
            "error: no option --conf in gpuctl show\n  try:   did you mean --config?\n",
        ),
        (
            ["show", "--demo-sc", "x"],
            {},
            "error: no option --demo-sc in gpuctl show\n  try:   did you mean --demo-scenario?\n",
        ),
        (
            ["show", "--metric", "men"],
            {},
            "error: --metric does not know 'men'\n"
            "  cause: accepted values: util, mem\n"
            "  try:   did you mean mem?\n",
        ),
        (
            ["show", "-o", "jsn"],
            {},
            "error: --output does not know 'jsn'\n"
            "  cause: accepted values: table, wide, name, csv, json, yaml\n"
            "  try:   did you mean json?\n",
        ),
        (
            ["show"],
            {"GPUCTL_OUTPUT": "xml"},
            "error: GPUCTL_OUTPUT does not know 'xml'\n"
            "  cause: accepted values: table, wide, name, csv, json, yaml\n",
        ),
        (
            ["show", "-o"],
            {},
            "error: -o needs a value\n"
            "  cause: accepted values: table, wide, name, csv, json, yaml\n"
            "  try:   gpuctl --help\n",
        ),
        (
            ["show", "--demo=yes"],
            {},
            "error: --demo takes no value\n  try:   write --demo alone\n",
        ),
        (
            ["show", "--limit", "many"],
            {},
            "error: --limit: 'many' is not a whole number\n  try:   gpuctl show --help\n",
        ),
        (
            ["show", "--timeout", "5"],
            {},
            "error: --timeout: '5' has no unit: write 5s, 5m or 5h\n"
            "  try:   for example --timeout=90s\n",
        ),
        (
            ["show", "--request-timeout", "0s"],
            {},
            "error: --request-timeout is 0: no time at all\n"
            "  try:   give it some, for example --request-timeout=90s\n",
        ),
        (
            ["show", "--width", "²"],
            {},
            "error: --width is '²', not a width\n"
            "  cause: accepted values: whole numbers from 20 to 10000\n"
            "  try:   for example --width 120\n",
        ),
        (
            ["show"],
            {"GPUCTL_DEMO": "maybe"},
            "error: GPUCTL_DEMO is 'maybe', neither yes nor no\n"
            "  cause: accepted values: 1, true, yes, on, 0, false, no, off\n"
            "  try:   unset GPUCTL_DEMO, or set it to 1 or 0\n",
        ),
        (
            ["show", "--context", ""],
            {},
            "error: --context is empty\n  try:   leave --context out, or give it a value\n",
        ),
        (
            ["show", "a", "b"],
            {},
            "error: got unexpected extra argument(s) (b)\n"
            "  cause: usage: gpuctl show [OPTIONS] [NAME]\n"
            "  try:   gpuctl show --help\n",
        ),
        (
            ["end"],
            {},
            "error: HOW is missing\n"
            "  cause: accepted values: foreseen, bug, interrupt, terminate, changes, late\n"
            "  try:   gpuctl end --help\n",
        ),
    ],
)
def test_usage_errors_say_what_is_accepted(
    cli: RunCli, words: list[str], environ: dict[str, str], stderr: str
) -> None:
    ran = cli(*words, environ=environ)
    assert ran.stderr == stderr
    assert (ran.code, ran.stdout) == (2, "")


@pytest.mark.parametrize(
    "words",
    [
        ["-o", "json", "shwo"],
        ["shwo", "-ojson"],
        ["show", "--nope", "--output=json"],
        ["show", "--nope", "-o", "csv", "--output", "json"],
    ],
)
def test_usage_errors_are_documents_too(cli: RunCli, words: list[str]) -> None:
    ran = cli(*words)
    assert ran.code == 2
    assert ran.document["kind"] == "error"
    assert ran.document["exit_name"] == "USAGE"
    assert ran.document["generated_at"] == "2025-03-01T12:00:00Z"
    assert ran.stderr.startswith("error: no ")


def test_words_after_two_dashes_are_arguments(cli: RunCli) -> None:
    ran = cli("show", "--", "-o")
    assert (ran.code, ran.document["name"]) == (0, "-o")


@pytest.mark.parametrize(
    ("words", "every", "name"),
    [
        (["show"], None, "nothing"),
        (["show", "--every"], "5", "nothing"),
        (["show", "--every", "-v"], "5", "nothing"),
        (["show", "--every", "9"], "9", "nothing"),
        (["show", "--every=9", "x"], "9", "x"),
        (["show", "--every", "--", "--every"], "5", "--every"),
    ],
)
def test_a_value_in_brackets_may_be_left_out(
    cli: RunCli, words: list[str], every: str | None, name: str
) -> None:
    answer = cli(*words).document
    assert (answer["every"], answer["name"]) == (every, name)


def test_a_foreseen_failure_has_three_parts_on_their_lines(cli: RunCli) -> None:
    ran = cli("end", "foreseen")
    assert ran == Ran(7, "", "error: the server is down\n  cause: port 1\n  try:   start it\n")


def test_a_foreseen_failure_is_a_document_where_one_is_asked_for(cli: RunCli) -> None:
    ran = cli("end", "foreseen", "-o", "json")
    assert ran.document == {
        "schema": "gpuctl/v1",
        "kind": "error",
        "generated_at": "2025-03-01T12:00:00Z",
        "error": "the server is down",
        "cause": "port 1",
        "hint": "start it",
        "exit_code": 7,
        "exit_name": "BACKEND",
    }
    assert ran.stderr.startswith("error: the server is down\n")


def test_no_error_document_after_an_answer(cli: RunCli) -> None:
    ran = cli("end", "late", "-o", "json")
    assert (ran.code, ran.document) == (7, {"a": 1})


def test_a_bug_is_a_message_and_its_traceback_only_for_those_who_ask(cli: RunCli) -> None:
    ran = cli("end", "bug")
    assert ran == Ran(
        1,
        "",
        "error: unexpected failure in gpuctl\n"
        "  cause: ZeroDivisionError: seven by zero\n"
        "  try:   run it again with -vv and report what that prints\n",
    )
    told = cli("end", "bug", "-vv")
    assert told.code == 1
    assert 'raise ZeroDivisionError("seven by zero")' in told.stderr


@pytest.mark.parametrize(
    ("how", "code", "stderr"),
    [
        ("interrupt", 130, "error: interrupted by SIGINT\n"),
        ("terminate", 143, "error: interrupted by SIGTERM\n"),
        ("changes", 3, ""),
    ],
)
def test_exit_codes(cli: RunCli, how: str, code: int, stderr: str) -> None:
    assert cli("end", how) == Ran(code, "", stderr)


def test_voices_and_their_streams(cli: RunCli) -> None:
    assert cli("chat") == Ran(0, "answer\n", "warning: careful \nhint\nWARNING odd\n")
    assert cli("chat", "-q").stderr == "warning: careful \nWARNING odd\n"
    assert cli("chat", "-v").stderr == (
        'warning: careful \nhint\nINFO asked node=gpu-01 why="to know more"\nWARNING odd\n'
    )
    assert "DEBUG detail\n" in cli("chat", "-vv").stderr
    assert "secret" not in cli("chat", "-vv").stderr


def test_logging_leaves_nothing_behind(cli: RunCli) -> None:
    first, second = cli("chat", "-vv"), cli("chat")
    assert first.stdout == second.stdout == "answer\n"
    assert second.stderr.count("odd") == 1
    assert "DEBUG" not in second.stderr


def test_a_command_whose_module_is_missing_does_not_exist(cli: RunCli) -> None:
    assert "absent" not in cli("--help").stdout
    assert cli("absent").code == 2

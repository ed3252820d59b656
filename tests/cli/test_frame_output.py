"""Output: formats, widths, encodings and the pager, through a command of the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuctl.errors import GpuctlError
from gpuctl.render.output import Output, OutputSettings
from tests.cli.commands import TABLE
from tests.conftest import BARE, Ran, RunCli, Stream


@pytest.fixture
def cli(run_cli: RunCli) -> RunCli:
    def run(*words: str, **more: Any) -> Ran:
        return run_cli(*words, table=TABLE, **more)

    return run


def test_a_table_lines_up_by_cells(cli: RunCli) -> None:
    assert cli("rows").stdout == ('NODE         LOAD\ngpu-北京-01  71.5\nsay "hi", é    --\n')


def test_a_table_in_ascii_keeps_its_columns(cli: RunCli) -> None:
    for environ, encoding in (({"LC_ALL": "C"}, "utf-8"), ({}, "ascii")):
        assert cli("rows", environ=environ, encoding=encoding).stdout == (
            'NODE         LOAD\ngpu-????-01  71.5\nsay "hi", ?    --\n'
        )


def test_a_narrow_terminal_shortens_names_and_never_numbers(cli: RunCli) -> None:
    rows = cli("rows", "--width", "20").stdout.splitlines()
    assert rows == ["NODE         LOAD", "gpu-北京-01  71.5", 'say "hi", é    --']
    assert cli("rows", environ={"COLUMNS": "15"}, tty=True).stdout.splitlines() == [
        "NODE       LOAD",
        "gpu-…-01   71.5",
        'say …", é    --',
    ]
    assert "…" in cli("rows", environ={"COLUMNS": "16"}, tty=True).stdout
    # A pipe is no terminal: COLUMNS is the shell's own affair there.
    assert "…" not in cli("rows", environ={"COLUMNS": "16"}).stdout
    assert "…" not in cli("rows", "-o", "wide", environ={"COLUMNS": "16"}, tty=True).stdout


def test_csv_is_rfc_4180(cli: RunCli) -> None:
    assert cli("rows", "-o", "csv").stdout == (
        'node,load\r\ngpu-北京-01,71.5\r\n"say ""hi"", é",\r\n'
    )


def test_names_are_one_a_line(cli: RunCli) -> None:
    assert cli("rows", "-o", "name").stdout == 'gpu-北京-01\nsay "hi", é\n'


def test_the_pager_shows_what_is_taller_than_the_screen(cli: RunCli, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    environ = {"GPUCTL_PAGER": f"sh -c 'cat > {seen}'", "LINES": "10", "COLUMNS": "80"}
    assert cli("lines", "10", environ=environ, tty=True).stdout == ""
    assert seen.read_text().splitlines()[-1] == "line 9"


@pytest.mark.parametrize(
    ("words", "tty", "environ"),
    [
        (("lines", "9"), True, {}),
        (("lines", "99"), False, {}),
        (("lines", "99", "--no-pager"), True, {}),
        (("lines", "99", "-o", "csv"), True, {}),
        (("lines", "99"), True, {"GPUCTL_PAGER": ""}),
        (("lines", "99"), True, {"GPUCTL_PAGER": "cat"}),
        (("lines", "99"), True, {"GPUCTL_PAGER": "/no/such/pager"}),
        (("lines", "99"), True, {"GPUCTL_PAGER": "sh -c 'exit 127'"}),
        (("lines", "99"), True, {"GPUCTL_PAGER": "'"}),
    ],
)
def test_no_pager_where_nobody_pages(
    cli: RunCli, words: tuple[str, ...], tty: bool, environ: dict[str, str], tmp_path: Path
) -> None:
    touched = tmp_path / "touched"
    base = {"GPUCTL_PAGER": f"touch {touched}", "LINES": "10", "COLUMNS": "80"}
    ran = cli(*words, environ={**base, **environ}, tty=tty)
    assert ran.stdout.splitlines() == [f"line {i}" for i in range(int(words[1]))]
    assert not touched.exists()


def output(**more: Any) -> Output:
    stdout = more.pop("stdout", None) or Stream()
    return Output(
        stdin=Stream(),
        stdout=stdout,
        stderr=Stream(),
        environ={**BARE, **more.pop("environ", {})},
        settings=OutputSettings(**more),
    )


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "picture.svg"
    output().file(str(target), "<svg/>")
    assert target.read_text() == "<svg/>"
    with pytest.raises(GpuctlError, match="can't write /no/such/folder/x") as caught:
        output().file("/no/such/folder/x", "y")
    assert caught.value.cause == "No such file or directory"
    with pytest.raises(GpuctlError):
        output().file(str(tmp_path), "y")
    assert [path.name for path in tmp_path.iterdir()] == ["picture.svg"]


def test_a_file_keeps_links_and_takes_pipes(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    output().file(str(tmp_path / "link"), "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    output().file("/dev/null", "gone")
    stream = Stream()
    output(stdout=stream).file("-", "to stdout")
    assert stream.getvalue() == "to stdout\n"


def test_json_escapes_what_the_stream_cannot_carry() -> None:
    stream = Stream(encoding="ascii")
    output(stdout=stream).document({"node": "京😀", "load": float("nan")})
    assert stream.getvalue() == '{\n  "node": "\\u4eac\\ud83d\\ude00",\n  "load": null\n}\n'


def test_yaml_says_the_same_as_json() -> None:
    stream = Stream()
    output(stdout=stream, format="yaml").document({"b": "京", "a": float("nan")})
    assert stream.getvalue() == "b: 京\na: null\n"


def test_text_never_fails_on_an_encoding() -> None:
    stream = Stream(encoding="latin-1")
    output(stdout=stream).text("é 京")
    assert stream.getvalue() == "é ?\n"

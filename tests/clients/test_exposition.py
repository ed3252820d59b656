"""The text format: by example, and against prometheus_client's parser."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from gpuctl.clients.exposition import NotExpositionError, parse
from gpuctl.model.sample import Sample

DATA = Path(__file__).parents[1] / "data" / "dcgm"

Row = tuple[str, dict[str, str], float | str, float | None]


def rows(samples: Sequence[Sample]) -> list[Row]:
    return [(s.name, dict(s.labels), _comparable(s.value), s.at) for s in samples]


def reference(text: str) -> list[Row]:
    return [
        (
            s.name,
            dict(s.labels),
            _comparable(s.value),
            None if s.timestamp is None else float(s.timestamp),
        )
        for family in text_string_to_metric_families(text)
        for s in family.samples
    ]


def _comparable(value: float) -> float | str:
    # The reference keeps whole numbers exact; everywhere else they are floats.
    return "NaN" if math.isnan(value) else float(value)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("up 1", ("up", {}, 1.0, None)),
        ("up{} 1", ("up", {}, 1.0, None)),
        ('a:b{c="d",} -1.5e3', ("a:b", {"c": "d"}, -1500.0, None)),
        (' x { a = "1" , b = "" }  +Inf ', ("x", {"a": "1", "b": ""}, math.inf, None)),
        ('x{a="1"} -Inf 1520879607789', ("x", {"a": "1"}, -math.inf, 1520879607.789)),
        ("x NaN -1", ("x", {}, "NaN", -0.001)),
        ('x{a="}{\\"\\\\\\n,=#"} 1', ("x", {"a": '}{"\\\n,=#'}, 1.0, None)),
        ('x{a="\\t"} 1', ("x", {"a": "\\t"}, 1.0, None)),
        ('x{a="雪 \u2028"} 1', ("x", {"a": "雪 \u2028"}, 1.0, None)),
        ("x\t1\t2\r", ("x", {}, 1.0, 0.002)),
        ('x{a="1"} 3 # {trace_id="} 7"} 0.5', ("x", {"a": "1"}, 3.0, None)),
        ('{"my.name", "a.b"="1", c="2"} 4', ("my.name", {"a.b": "1", "c": "2"}, 4.0, None)),
        ("x 9223372036854775794", ("x", {}, 9.223372036854776e18, None)),
    ],
)
def test_one_line(line: str, expected: Row) -> None:
    assert rows(list(parse(line + "\n"))) == [expected]


def test_comments_and_blank_lines_are_skipped() -> None:
    text = "# HELP x {not a sample\n# TYPE x gauge\n\n  \nx 1\n#x 2\n# EOF\n"
    assert [s.value for s in parse(text)] == [1.0]


@pytest.mark.parametrize(
    "line",
    [
        "x",
        "x{} ",
        "x one",
        "x 1_0",
        "x 0x10",
        "x 1 2 3",
        "x 1 now",
        "x 1 1.5",
        "x-y 1",
        "x-5",
        "1x 1",
        "{} 1",
        '{a="b"} 1',
        'x{"y"} 1',
        'x{a="b} 1',
        "x{a=b} 1",
        "x{a} 1",
        'x{a="b",,c="d"} 1',
        'x{a="b" c="d"} 1',
        'x{1a="b"} 1',
        'x{a="b"}} 1',
        "x 1e",
        "x .",
        "<html>",
        '{"status": "success"}',
        "Sign in to continue",
    ],
)
def test_what_is_no_sample_is_named_with_its_line(line: str) -> None:
    with pytest.raises(NotExpositionError) as caught:
        list(parse(f'ok{{a="b"}} 1\n{line}\n'))
    assert caught.value.line == 2
    assert caught.value.text == line.strip()


def test_a_known_block_of_labels_does_not_excuse_a_bad_name() -> None:
    with pytest.raises(NotExpositionError):
        list(parse('ok{a="b"} 1\nnot-ok{a="b"} 1\n'))
    with pytest.raises(NotExpositionError):
        list(parse('ok{a="b"} 1\nok{a="b"} x\n'))


NAMES = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,8}", fullmatch=True)
LABELS = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True)
# Surrogates can't be in a page; a carriage return is cut by both parsers in other ways.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), max_size=12)
VALUES = st.one_of(
    st.floats().map(lambda v: {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}.get(str(v), repr(v))),
    st.integers(-(2**70), 2**70).map(str),
)
TIMES = st.one_of(st.none(), st.integers(-(10**12), 10**14))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


@st.composite
def lines(draw: st.DrawFn) -> str:
    labels = draw(st.dictionaries(LABELS, TEXTS, max_size=4))
    block = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items())
    block = (
        f"{{{block}{draw(st.sampled_from(['', ',']))}}}"
        if block
        else draw(st.sampled_from(["", "{}"]))
    )
    time = draw(TIMES)
    blank = draw(st.sampled_from([" ", "  ", "\t"]))
    return draw(NAMES) + block + blank + draw(VALUES) + ("" if time is None else f" {time}")


@given(st.lists(lines(), max_size=6))
def test_agrees_with_the_reference(page: list[str]) -> None:
    text = "".join(line + "\n" for line in page)
    # The reference groups by family and the same name may come twice: order by name for both.
    ours = sorted(rows(list(parse(text))), key=repr)
    assert ours == sorted(reference(text), key=repr)


@given(st.text(max_size=60))
def test_any_text_is_samples_or_one_kind_of_error(text: str) -> None:
    with suppress(NotExpositionError):
        assert all(isinstance(s.value, float) for s in parse(text))


@pytest.mark.parametrize("path", sorted(DATA.rglob("*.prom")), ids=lambda path: path.name)
def test_agrees_with_the_reference_on_pages_of_exporters(path: Path) -> None:
    text = path.read_text()
    ours = rows(list(parse(text)))
    assert ours
    assert sorted(ours, key=repr) == sorted(reference(text), key=repr)

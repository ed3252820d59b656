"""Which GPUs a view shows: globs, and `--where` conditions such as `util>90` or `ns=prod`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from gpuctl.model.heatmap import HeatmapGpu

_CONDITION = re.compile(r"^\s*([A-Za-z_]+)\s*(!~=|~=|!=|>=|<=|==?|>|<)\s*(.*?)\s*$")
_ORDERED: dict[str, Callable[[float, float], bool]] = {
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}

_NUMBERS: dict[str, Callable[[HeatmapGpu], float | None]] = {
    "util": lambda g: g.utilization_pct,
    "mem": lambda g: g.memory_pct,
    "membw": lambda g: g.memory_bandwidth_pct,
    "tensor": lambda g: g.tensor_pct,
    "temp": lambda g: g.temperature_c,
    "power": lambda g: g.power_w,
    "age": lambda g: g.age_seconds,
    "gpu": lambda g: g.gpu,
    "xid": lambda g: g.xid,
}
_TEXTS: dict[str, Callable[[HeatmapGpu], Sequence[str]]] = {
    "node": lambda g: (g.node,),
    "model": lambda g: (g.model or "",),
    "uuid": lambda g: (g.uuid,),
    "state": lambda g: (str(g.state),),
    "workload": lambda g: g.workloads,
    "ns": lambda g: tuple(w.partition("/")[0] for w in g.workloads),
    "pod": lambda g: tuple(w.partition("/")[2] or w for w in g.workloads),
    "profile": lambda g: tuple(i.profile for i in g.mig),
    "hot": lambda g: (_truth(g.hot),),
    "idle": lambda g: (_truth(g.idle),),
}

FIELDS = (*_NUMBERS, *_TEXTS)
OPERATORS = ("=", "!=", "~=", "!~=", ">", ">=", "<", "<=")


class BadCondition(ValueError):  # noqa: N818 - reads as what it is where it is raised
    """A condition that can't be understood; the text says what would be."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One parsed condition."""

    text: str
    holds: Callable[[HeatmapGpu], bool]


def parse_condition(text: str) -> Condition:
    """`FIELD OP VALUE` as a test of a GPU.

    Numbers compare with > >= < <= = !=; text with = and != (exact) or ~= and !~= (regular
    expression, anywhere); == is =. An unknown figure satisfies no comparison. Raises BadCondition.
    """
    match = _CONDITION.match(text)
    if match is None:
        raise BadCondition(f"{text!r} is not FIELD OPERATOR VALUE, as in util>90 or ns=prod")
    field, operator, value = match.groups()
    operator = "=" if operator == "==" else operator
    if field in _NUMBERS:
        return Condition(text, _number_test(text, field, operator, value))
    if field in _TEXTS:
        return Condition(text, _text_test(text, field, operator, value))
    raise BadCondition(f"unknown field {field!r} in {text!r}; fields: {', '.join(FIELDS)}")


def _number_test(text: str, field: str, operator: str, value: str) -> Callable[[HeatmapGpu], bool]:
    compare = _ORDERED.get(operator)
    try:
        limit = float(value.removesuffix("%"))
    except ValueError:
        limit = float("nan")
    if compare is None or limit != limit:
        raise BadCondition(f"{text!r}: {field} is a number and compares with {' '.join(_ORDERED)}")
    figure = _NUMBERS[field]

    def holds(gpu: HeatmapGpu) -> bool:
        known = figure(gpu)
        return known is not None and compare(known, limit)

    return holds


def _text_test(text: str, field: str, operator: str, value: str) -> Callable[[HeatmapGpu], bool]:
    texts = _TEXTS[field]
    if operator in ("=", "!="):
        return lambda gpu: (value in texts(gpu)) == (operator == "=")
    if operator in ("~=", "!~="):
        try:
            pattern = re.compile(value)
        except re.error as exc:
            raise BadCondition(f"{text!r}: bad regular expression: {exc}") from exc
        return lambda gpu: any(pattern.search(t) for t in texts(gpu)) == (operator == "~=")
    raise BadCondition(f"{text!r}: {field} is text and compares with = != ~= !~=")


def _truth(value: bool | None) -> str:
    return "unknown" if value is None else str(value).lower()


@dataclass(frozen=True, slots=True)
class Selection:
    """What to show: node and model globs (any of each), conditions (all), only hot ones."""

    nodes: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    only_hot: bool = False

    @property
    def is_everything(self) -> bool:
        """Whether nothing is filtered."""
        return not (self.nodes or self.models or self.conditions or self.only_hot)

    def keeps(self, gpu: HeatmapGpu) -> bool:
        """Whether a GPU is shown."""
        return (
            _any_glob(gpu.node, self.nodes)
            and _any_glob(gpu.model or "", self.models)
            and all(condition.holds(gpu) for condition in self.conditions)
            and (not self.only_hot or bool(gpu.hot) or any(i.hot for i in gpu.mig))
        )


def _any_glob(text: str, globs: Iterable[str]) -> bool:
    patterns = tuple(globs)
    return not patterns or any(fnmatchcase(text.lower(), p.lower()) for p in patterns)

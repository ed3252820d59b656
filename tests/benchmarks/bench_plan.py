"""How good plans are and how long they take: `python -m tests.benchmarks.bench_plan`.

Prints ours against the reference of every shipped instance, then times and peak memory for large
clusters. With a FILE (`gpuctl-plan-instance/1`) it plans that one instead:
`python -m tests.benchmarks.bench_plan FILE [--goal balance|relief] [--out plan.json]`
writes a `gpuctl-plan/1` file, to the standard output when no --out is given.
"""

from __future__ import annotations

import argparse
import json
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from gpuctl.policy.planning import Goal, Problem, Solution, solve, violations
from tests.policy.planning.instance_files import plan_document, read, reference, shipped
from tests.policy.planning.instances import FAMILIES

_LARGE = (("hk-night", 125, 8), ("hk-night", 1250, 8), ("tight-memory", 1250, 8))


def main() -> None:
    """Plan one file, or run all measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--goal", type=Goal, choices=list(Goal), default=Goal.BALANCE)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    if chosen.file is None:
        for line in report():
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
        return
    problem = read(chosen.file)
    solution, seconds = _timed(lambda: solve(problem, chosen.goal))
    text = json.dumps(plan_document(solution.moves, solution.evaluation), indent=1) + "\n"
    if chosen.out is None:
        sys.stdout.write(text)
    else:
        chosen.out.write_text(text)
    sys.stderr.write(_summary(problem, solution, seconds))


def _summary(problem: Problem, solution: Solution, seconds: float) -> str:
    reached = solution.evaluation
    lines = [
        f"J {reached.objective:.2f} (was {solution.before.objective:.2f}), H {reached.excess:g}, "
        f"S {reached.spread:g}, C {reached.cost:g}, {reached.moves} moves, {seconds:.2f} s",
        *solution.certificate.statements,
        *(f"BROKEN {each.rule}: {each.reason}" for each in violations(problem, solution.moves)),
    ]
    return "".join(f"{line}\n" for line in lines)


def report() -> Iterator[str]:
    """Lines of a Markdown report."""
    yield "| instance | J ours | J best known | gap % | greedy | valid | s |"
    yield "| --- | ---: | ---: | ---: | ---: | --- | ---: |"
    for path in shipped():
        yield _balance_row(path)
    yield ""
    yield "| instance | relief H | cost ours | cost best | moves ours | moves best | bound | s |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for path in shipped():
        yield _relief_row(path)
    yield ""
    yield "| GPUs | family | items | goal | moves | J | no plan below | s | peak MiB |"
    yield "| ---: | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |"
    for family, nodes, per_node in _LARGE:
        for goal in Goal:
            yield _large_row(family, nodes, per_node, goal)


def _balance_row(path: Path) -> str:
    problem, known = read(path), reference(path)
    solution, seconds = _timed(lambda: solve(problem, Goal.BALANCE))
    ours, best = solution.evaluation.objective, known["J_best"]
    valid = "no" if violations(problem, solution.moves) else "yes"
    return (
        f"| {path.stem} | {ours:.2f} | {best:.2f} | {100 * (ours / best - 1):+.1f} "
        f"| {known['greedy']['J']:.2f} | {valid} | {seconds:.2f} |"
    )


def _relief_row(path: Path) -> str:
    problem, known = read(path), reference(path)["relieve"]
    solution, seconds = _timed(lambda: solve(problem, Goal.RELIEF))
    ours, bound = solution.evaluation, solution.certificate
    return (
        f"| {path.stem} | {ours.excess:g} | {ours.cost:g} | {known['C']:g} | {ours.moves} "
        f"| {known['moves']} | {bound.value:g} | {seconds:.2f} |"
    )


def _large_row(family: str, nodes: int, per_node: int, goal: Goal) -> str:
    problem = FAMILIES[family](nodes, per_node, 1)
    solution, seconds = _timed(lambda: solve(problem, goal))
    peak = _peak_mib(lambda: solve(problem, goal))
    return (
        f"| {nodes * per_node:,} | {family} | {len(problem.items):,} | {goal} "
        f"| {solution.evaluation.moves:,} | {solution.evaluation.objective:,.1f} "
        f"| {solution.certificate.value:,.1f} | {seconds:.2f} | {peak:.0f} |"
    )


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = perf_counter()
    result = work()
    return result, perf_counter() - start


def _peak_mib(work: Callable[[], Any]) -> float:
    """What planning allocates at most; the problem itself is the caller's and comes on top."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


if __name__ == "__main__":
    main()

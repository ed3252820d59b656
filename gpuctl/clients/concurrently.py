"""Several slow calls at once, in threads that never keep the process alive."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import TypeVar

# A signal that comes just before a wait begins does not end that wait; the next one sees it.
_SIGNAL_CHECK_SECONDS = 0.2

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_concurrently(
    work: Callable[[Item, threading.Event], Result],
    items: Sequence[Item],
    *,
    most_at_once: int,
) -> list[Result]:
    """`work(item, cancelled)` for every item, in the order of the items.

    The first failure is raised, after what had begun has ended and the rest was cancelled
    (`cancelled` is set, so that a wait for a retry can end early). Ctrl-C is raised at once: the
    threads are daemons and are left behind, because a pool of the standard library would join
    them at exit and hang for as long as the slowest server.
    """
    cancelled = threading.Event()
    if len(items) <= 1:
        return [work(item, cancelled) for item in items]
    todo: SimpleQueue[int] = SimpleQueue()
    done: SimpleQueue[tuple[int, Result | None, BaseException | None]] = SimpleQueue()
    for index in range(len(items)):
        todo.put(index)

    def run() -> None:
        while not cancelled.is_set():
            try:
                index = todo.get_nowait()
            except Empty:
                break
            try:
                done.put((index, work(items[index], cancelled), None))
            except BaseException as failure:  # noqa: BLE001 - it is raised again by the caller
                cancelled.set()
                done.put((index, None, failure))
        done.put((-1, None, None))

    workers = min(most_at_once, len(items))
    try:
        for _ in range(workers):
            threading.Thread(target=run, daemon=True, name="gpuctl-call").start()
        return _collect(done, workers, len(items))
    except BaseException:
        cancelled.set()
        raise


def _collect(
    done: SimpleQueue[tuple[int, Result | None, BaseException | None]], workers: int, count: int
) -> list[Result]:
    """The results in order, once every worker has said that it is finished."""
    results: dict[int, Result] = {}
    first: BaseException | None = None
    while workers:
        try:
            index, result, failure = done.get(timeout=_SIGNAL_CHECK_SECONDS)
        except Empty:
            continue
        if index < 0:
            workers -= 1
        elif failure is not None:
            first = first or failure
        else:
            results[index] = result  # type: ignore[assignment]  # None is a Result here
    if first is not None:
        raise first
    return [results[index] for index in range(count)]

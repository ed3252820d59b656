"""Threads that end when they should, and do not hold up a Ctrl-C."""

from __future__ import annotations

import signal
import threading

import pytest

from gpuctl.clients.concurrently import map_concurrently

PATIENCE = 20.0


def test_results_keep_the_order_of_the_items() -> None:
    first_is_done = threading.Event()

    def work(item: int, _: threading.Event) -> int:
        if item == 0:
            first_is_done.wait(PATIENCE)  # so the first item ends last
        if item == 4:
            first_is_done.set()
        return item * 10

    assert map_concurrently(work, range(5), most_at_once=2) == [0, 10, 20, 30, 40]


def test_nothing_to_do() -> None:
    assert map_concurrently(lambda item, _: item, [], most_at_once=3) == []


def test_the_first_failure_is_raised_after_what_had_begun_has_ended() -> None:
    begun: list[int] = []
    ended: list[int] = []

    def work(item: int, cancelled: threading.Event) -> None:
        begun.append(item)
        if item == 1:
            raise ValueError("first")
        assert cancelled.wait(PATIENCE)
        ended.append(item)
        raise RuntimeError("second")

    with pytest.raises(ValueError, match="first"):
        map_concurrently(work, range(100), most_at_once=4)
    assert sorted(begun) == sorted([*ended, 1])
    assert len(begun) <= 4


def test_ctrl_c_does_not_wait_for_the_threads() -> None:
    hang, left = threading.Event(), threading.Event()
    both_run = threading.Barrier(2)
    seen: list[bool] = []

    def work(item: int, cancelled: threading.Event) -> None:
        both_run.wait(PATIENCE)
        if item == 0:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        hang.wait(PATIENCE)
        seen.append(cancelled.is_set())
        if len(seen) == 2:
            left.set()

    with pytest.raises(KeyboardInterrupt):
        map_concurrently(work, [0, 1, 2, 3], most_at_once=2)
    assert seen == []  # both still hang
    hang.set()
    assert left.wait(PATIENCE)
    assert seen == [True, True]

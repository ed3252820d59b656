"""`gpuctl heatmap --watch`, the installed script in a pseudo-terminal, seen on its screen."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest

from tests.fakes.gpu_cluster import Card, GpuCluster, two_nodes
from tests.fakes.http_server import Reply
from tests.fakes.prometheus import Answer, FakePrometheus, Query
from tests.real.live_screen import LiveScreen, on_screen
from tests.spawning import installed_script, script_environ

ENTER_SCREEN = b"\x1b[?1049h"
LEAVE_SCREEN = b"\x1b[?1049l"
SHOW_CURSOR = b"\x1b[?25h"
WRAP = b"\x1b[?7h"


@dataclass
class Fleet:
    """A Prometheus whose cluster changes and which can be made to fail or to hang."""

    cards: tuple[Card, ...] = field(default_factory=two_nodes)
    failure: Reply | None = None
    answered: int = 0

    def __call__(self, query: Query) -> Answer:
        self.answered += 1
        if self.failure is not None:
            return self.failure
        return GpuCluster(self.cards, now=time.time())(query)


def age_of(picture: str) -> int:
    """The seconds of `7s old`; -1 where the head says nothing."""
    found = re.search(r"(\d+)s old", picture)
    return int(found.group(1)) if found else -1


@contextmanager
def watching(
    *words: str, fleet: Fleet | None = None, size: tuple[int, int] = (80, 24), **environ: str
) -> Iterator[LiveScreen]:
    """The watch of a fake cluster, every second."""
    with FakePrometheus(fleet or Fleet(), now=time.time()) as server:
        command = [
            *(installed_script(), "heatmap", "--prometheus-url", server.url, "--watch=1"),
            *words,
        ]
        clean = script_environ(GPUCTL_CONFIG="/dev/null", HOME="/nonexistent", **environ)
        with on_screen(command, clean, columns=size[0], lines=size[1]) as screen:
            yield screen


@contextmanager
def demo(*words: str, size: tuple[int, int] = (80, 24), **environ: str) -> Iterator[LiveScreen]:
    """The watch of the simulated cluster."""
    command = [installed_script(), "--demo", "heatmap", "--watch", *words]
    with on_screen(command, script_environ(**environ), columns=size[0], lines=size[1]) as screen:
        yield screen


def assert_restored(screen: LiveScreen, modes: list[object]) -> None:
    """The main screen, its cursor and its modes are back, and nothing came after that."""
    tail = screen.written[screen.written.rindex(LEAVE_SCREEN) - 40 :]
    assert SHOW_CURSOR in tail
    assert WRAP in tail
    assert screen.written.count(ENTER_SCREEN) == screen.written.count(LEAVE_SCREEN)
    assert screen.modes() == modes


def test_q_quits_and_leaves_no_trace() -> None:
    with demo() as screen:
        before = screen.modes()
        screen.wait("hk-gpu-03", "SIMULATED", "? keys")
        assert screen.modes() != before
        screen.type("q")
        assert screen.end() == 0
        assert_restored(screen, before)
        assert screen.written.endswith(LEAVE_SCREEN)


@pytest.mark.parametrize(
    ("signum", "code"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 143), (signal.SIGINT, 130), (signal.SIGQUIT, 143)],
)
def test_a_signal_ends_it_with_the_terminal_restored(signum: signal.Signals, code: int) -> None:
    with demo() as screen:
        before = screen.modes()
        screen.wait("? keys")
        screen.send(signum)
        assert screen.end() == code
        assert_restored(screen, before)
        after = screen.written.rpartition(LEAVE_SCREEN)[2]
        assert b"interrupted by" in after


def test_ctrl_c_ends_it_and_ctrl_backslash_does_not() -> None:
    with demo() as screen:
        before = screen.modes()
        screen.wait("? keys")
        screen.type(b"\x1c\x13")  # quit and stop-output of an ordinary terminal
        screen.type("?")
        screen.wait("Keys")
        screen.type(b"\x03")
        assert screen.end() == 130
        assert_restored(screen, before)


def test_a_window_that_is_closed_ends_it() -> None:
    with demo() as screen:
        screen.wait("? keys")
        screen.hang_up()
        assert screen.process.wait(timeout=30) == 143


def test_the_first_failure_ends_it_before_the_screen_is_taken() -> None:
    down = Fleet(failure=Reply(422, b'{"status":"error","errorType":"execution","error":"no"}'))
    with watching(fleet=down) as screen:
        before = screen.modes()
        assert screen.end() == 7
        assert ENTER_SCREEN not in screen.written
        assert b"error:" in screen.written
        assert screen.modes() == before


def test_the_picture_follows_the_cluster() -> None:
    fleet = Fleet()
    with watching(fleet=fleet) as screen:
        screen.wait("gpu-a", "96!", "every 1s")
        fleet.cards = tuple(replace(card, load_pct=42) for card in fleet.cards)
        screen.wait("hot 0", "42")
        screen.type("q")
        assert screen.end() == 0


def test_a_prometheus_that_dies_leaves_its_last_picture_and_comes_back() -> None:
    fleet = Fleet()
    with watching("--color", "always", fleet=fleet) as screen:
        screen.wait("gpu-a", "every 1s")
        fleet.failure = Reply(503, b"down", headers={"Retry-After": "600"})
        screen.wait("LAST PICTURE", "96!", "503")
        assert "age" in screen.status
        ages: set[str] = set()

        def grows(_: str) -> bool:
            ages.add(screen.status.partition(":")[0])
            return len(ages) >= 3

        screen.until(grows, "an age that grows by the second")
        seconds = sorted(int(age.removeprefix("age ").removesuffix("s")) for age in ages)
        assert seconds[-1] - seconds[0] >= 2
        fleet.failure = None
        screen.until(lambda shown: "LAST PICTURE" not in shown, "the live picture")
        screen.wait("every 1s")
        screen.type("q")
        assert screen.end() == 0


def test_keys_are_heeded_while_a_read_hangs() -> None:
    fleet, gate = Fleet(), threading.Event()
    with watching(fleet=fleet) as screen:
        screen.wait("every 1s")
        fleet.failure = Reply(503, wait_for=gate)
        asked = fleet.answered
        screen.until(lambda _: fleet.answered > asked, "a read that hangs")
        screen.type("s")
        screen.wait("sort name")
        screen.type("q")
        assert screen.end() == 0


def test_pause_stops_reading_and_space_goes_on() -> None:
    fleet = Fleet()
    with watching(fleet=fleet) as screen:
        screen.wait("every 1s")
        screen.type(" ")
        screen.wait("PAUSED")
        fleet.cards = tuple(replace(card, load_pct=42) for card in fleet.cards)
        # One read may have been under way; the samples are 5 seconds old when they are read.
        screen.until(lambda shown: age_of(shown) >= 8, "a picture that ages")
        assert "96!" in screen.text
        screen.type(" ")
        screen.wait("hot 0", "every 1s")


def test_a_filter_is_typed_applied_corrected_and_cleared() -> None:
    with demo() as screen:
        screen.wait("? keys")
        screen.type("/hk-gpu-03 util>9x\r")
        screen.wait("util is a number")
        screen.type(b"\x7f0\r")
        screen.wait("filter hk-gpu-03 util>90", "1 GPU: hot 1")
        assert "hk-gpu-02" not in screen.text
        screen.type("/nonsense\x1b")
        screen.wait("filter hk-gpu-03 util>90")
        screen.type("/\x15香\r")
        screen.wait("No GPUs")
        screen.type("/\x15\r")
        screen.wait("32 GPUs", "hk-gpu-02")


def test_a_gpu_is_selected_opened_and_closed() -> None:
    with demo(TERM="xterm-256color") as screen:
        screen.wait("? keys")
        screen.type(b"\x1b[B")
        screen.until(lambda _: screen.reversed_text() == "95!", "the hot card, selected")
        screen.type("l")
        screen.until(lambda _: "hk-gpu-03/2" in screen.status)
        screen.type("h\r")
        screen.wait("hk-gpu-03/1 NVIDIA", "hot for", "uuid", "PCI", "chat/chat-serve")
        screen.type(b"\x1b")
        screen.wait("spread 74 points")


def test_an_escape_sequence_cut_in_two_is_one_key() -> None:
    with demo(size=(60, 10)) as screen:
        screen.wait("? keys")
        screen.type("?")
        screen.wait("Esc back", "Keys")
        screen.type(b"\x1b")
        screen.type(b"[")
        screen.type(b"B")
        screen.until(lambda _: screen.lines[0].startswith("q"), "the help, scrolled by a line")
        assert "Esc back" in screen.status
        screen.type(b"\x1b")
        screen.wait("spread 74")


def test_a_resize_draws_anew_at_once() -> None:
    with demo() as screen:
        screen.wait("32 GPUs")
        screen.resize(40, 10)
        screen.until(lambda _: "? keys" in screen.status and "spread 74 pt" in screen.text)
        screen.resize(15, 3)
        screen.wait("needs 20x5")
        screen.resize(140, 40)
        screen.wait("32 GPUs", "hot   hk-gpu-03/1")
        assert max(map(len, screen.lines)) > 100


@pytest.mark.parametrize("size", [(40, 10), (20, 5), (80, 24), (200, 60)])
def test_no_line_is_pushed_off_by_another(size: tuple[int, int]) -> None:
    with demo(size=size) as screen:
        screen.until(lambda _: screen.status != "")
        assert screen.lines[0].startswith("hk ")


def test_only_changed_lines_are_written() -> None:
    with demo() as screen:
        screen.wait("? keys")
        whole = len(screen.written)
        screen.type("j")
        screen.until(lambda _: "hk-gpu-03/1" in screen.status)
        assert len(screen.written) - whole < whole / 3
        assert b"\x1b[2J" not in screen.written[whole:]


def test_without_colours_and_in_ascii() -> None:
    with demo(NO_COLOR="1", LC_ALL="C") as screen:
        screen.wait("? keys")
        picture = screen.written
        assert picture.isascii()
        assert b"\x1b[38;" not in picture
        assert b"\x1b[48;" not in picture
        screen.type("j")
        screen.until(lambda _: "95!" in screen.reversed_text())


def test_a_timeout_on_the_command_line_ends_it() -> None:
    with watching("--timeout", "4s") as screen:
        before = screen.modes()
        screen.wait("every 1s")
        assert screen.end() == 9
        assert_restored(screen, before)
        assert b"--timeout reached" in screen.written


def test_more_than_one_read_fits_into_no_limit_of_the_whole() -> None:
    with watching(GPUCTL_TIMEOUT="3s") as screen:
        screen.wait("every 1s")
        # Well after the variable's 3 seconds the reads still bring fresh figures.
        reads: set[str] = set()

        def goes_on(shown: str) -> bool:
            reads.add(shown.splitlines()[0])
            return len(reads) >= 5

        screen.until(goes_on, "fresh pictures")
        assert "age" not in screen.status
        screen.type("q")
        assert screen.end() == 0


def test_exit_code_of_the_last_picture() -> None:
    with demo("--exit-code") as screen:
        screen.wait("? keys")
        screen.type("q")
        assert screen.end() == 3


def test_log_lines_stay_out_of_the_picture() -> None:
    fleet = Fleet()
    with watching("-vv", fleet=fleet) as screen:
        screen.wait("every 1s")
        fleet.failure = Reply(503, b"down")
        screen.wait("LAST PICTURE", "503")
        assert "INFO" not in screen.text
        assert "DEBUG" not in screen.text
        screen.type("q")
        assert screen.end() == 0


@pytest.mark.real("bash")
def test_ctrl_z_gives_the_terminal_to_the_shell_and_fg_takes_it_back() -> None:
    environ = script_environ(PS1="shell> ", HOME="/nonexistent")
    with on_screen(["bash", "--norc", "--noprofile", "-i"], environ) as screen:
        screen.wait("shell>")
        screen.type(f"{installed_script()} --demo heatmap --watch\r")
        screen.wait("32 GPUs", "? keys")
        screen.type(b"\x1a")
        screen.until(lambda _: b"Stopped" in screen.written, "the shell's word")
        assert SHOW_CURSOR in screen.written.rpartition(LEAVE_SCREEN)[0][-40:]
        taken = screen.written.count(ENTER_SCREEN)
        screen.type("fg\r")
        screen.until(lambda _: screen.written.count(ENTER_SCREEN) > taken, "the screen again")
        screen.wait("32 GPUs", "? keys")
        screen.type("?")
        screen.wait("Keys")
        screen.type("q")
        screen.until(lambda _: screen.written.rstrip().endswith(b"shell>"))
        screen.type("echo code=$?\r")
        screen.until(lambda _: b"code=0" in screen.written)

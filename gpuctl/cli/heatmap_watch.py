"""`gpuctl heatmap --watch`: the heat map that stays on screen and answers to keys."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, TextIO

from gpuctl.cli.heatmap import generated_at, remember
from gpuctl.cli.watch_signals import NotedSignals
from gpuctl.errors import GpuctlError, TimeoutReached, UsageError
from gpuctl.exitcodes import ExitCode
from gpuctl.policy.overview import heatmap_document
from gpuctl.render.output import PipeClosed
from gpuctl.render.watch_frame import Feed, frame
from gpuctl.render.watch_keys import KeyDecoder
from gpuctl.render.watch_state import WatchState, on_key
from gpuctl.render.watch_terminal import LiveTerminal

if TYPE_CHECKING:
    from gpuctl.cli.heatmap import View
    from gpuctl.cli.runtime import Runtime
    from gpuctl.cli.world import World
    from gpuctl.model.heatmap import HeatmapDocument
    from gpuctl.model.snapshot import Snapshot
    from gpuctl.render.screen import Screen

_ESC_SECONDS = 0.05  # a lone Esc is one that nothing follows for so long
_TICK_SECONDS = 1.0
_TICK_SHARE = 50  # drawing a large cluster for its age alone takes at most 1/50 of a core


def watch_heatmap(runtime: Runtime, world: World, view: View, period: timedelta) -> ExitCode:
    """Show the heat map until the person quits; the code is that of the last picture.

    Raises UsageError without a terminal, what the first read
    raises, and TimeoutReached when --timeout was given and is over. Later failures are shown.
    """
    stdin, stdout = _terminal(runtime)
    monotonic = runtime.clock.monotonic
    begun = monotonic()
    # Before the screen is taken: what is wrong now is wrong with the command.
    snapshot = world.observe()
    remember(runtime, world, snapshot)
    reading = Reading(begun, monotonic() - begun, snapshot)
    with NotedSignals() as signals, _silent_stderr(runtime), LiveTerminal(stdin, stdout) as screen:
        watch = _Watch(runtime, world, view, period, screen, signals, reading)
        watch.run(_end(runtime, begun))
    return watch.exit_code


def _terminal(runtime: Runtime) -> tuple[TextIO, TextIO]:
    output = runtime.output
    if output.format != "table":
        raise UsageError(
            f"--watch shows a picture, not {output.format}",
            hint=f"leave out -o, or leave out --watch and repeat: "
            f"watch -n 5 gpuctl heatmap -o {output.format}",
        )
    stdin, stdout = runtime.stdin, output.stdout
    if stdin is None or stdout is None or not (output.stdin_is_tty and output.is_tty):
        stream = "standard output" if not output.is_tty else "standard input"
        raise UsageError(
            "--watch needs a terminal for the picture and the keys",
            cause=f"{stream} is not one",
            hint="leave out --watch: cron and watch(1) can repeat gpuctl heatmap, "
            "and --exit-code tells them whether a GPU is hot",
        )
    if runtime.environ.get("TERM", "dumb") in ("", "dumb"):
        raise UsageError(
            "--watch needs a terminal that can place its text",
            cause="TERM is dumb or not set",
            hint="set TERM to what your terminal is, for example TERM=xterm-256color",
        )
    return stdin, stdout


def _end(runtime: Runtime, begun: float) -> float | None:
    """When the command line wants it to end. A variable set for scripts doesn't end a watch."""
    options = runtime.options
    if options.timeout is None or "timeout" not in options.from_flags:
        return None
    return begun + options.timeout.total_seconds()


@dataclass(frozen=True, slots=True)
class Reading:
    """How a read ended: with a snapshot, with an expected failure, or with a bug."""

    begun: float
    took: float
    snapshot: Snapshot | None = None
    failure: GpuctlError | None = None
    bug: BaseException | None = None


class _Reader:
    """Reads in a thread of its own, one read at a time, so that keys never wait for a server."""

    def __init__(
        self, world: World, monotonic: Callable[[], float], wake: Callable[[], None]
    ) -> None:
        self._world = world
        self._monotonic = monotonic
        self._wake = wake
        self._result: Reading | None = None
        self.since: float | None = None

    def start(self) -> None:
        """Begin a read; not while one runs."""
        self.since = self._monotonic()
        # A daemon: quitting must not wait for the slowest server.
        thread = threading.Thread(
            target=self._read, args=(self.since,), daemon=True, name="gpuctl-watch"
        )
        thread.start()

    def taken(self) -> Reading | None:
        """What has been read since the last call, if anything."""
        result, self._result = self._result, None
        if result is not None:
            self.since = None
        return result

    def _read(self, begun: float) -> None:
        snapshot = failure = bug = None
        try:
            snapshot = self._world.observe()
        except GpuctlError as exc:
            failure = exc
        except BaseException as exc:  # noqa: BLE001 - it is raised again by the main thread
            bug = exc
        self._result = Reading(begun, self._monotonic() - begun, snapshot, failure, bug)
        self._wake()


class _Watch:
    """The loop: draw, wait for a key, a signal, a reading or a moment, and again."""

    def __init__(
        self,
        runtime: Runtime,
        world: World,
        view: View,
        period: timedelta,
        screen: LiveTerminal,
        signals: NotedSignals,
        first: Reading,
    ) -> None:
        self._runtime = runtime
        self._world = world
        self._view = view
        self._screen = screen
        self._signals = signals
        self._now = runtime.clock.monotonic
        self._keys = KeyDecoder()
        self._reader = _Reader(world, self._now, signals.wake)
        self._state = WatchState(
            metric=view.metric,
            sort=view.sort,
            period=period,
            by_mig=view.by_mig,
            wide_cells=view.wide_cells,
        )
        if first.snapshot is None:
            raise ValueError("the first reading has no snapshot")
        self._snapshot = first.snapshot
        self._last_begun = first.begun
        self._feed = Feed(self._document(), first.begun, first.took)
        self._draw_seconds = self._typed_at = 0.0

    @property
    def exit_code(self) -> ExitCode:
        """What the last picture comes to under --exit-code."""
        summary = self._feed.doc.summary
        is_hot = summary.hot + summary.hot_instances > 0
        return ExitCode.CHANGES if self._view.exit_code and is_hot else ExitCode.OK

    def run(self, end: float | None) -> None:
        """Until q; at `end` raises TimeoutReached."""
        try:
            self._go_on(end)
        except PipeClosed:
            # A terminal that hangs up also sends a signal, which says more.
            self._signals.taken()
            raise

    def _go_on(self, end: float | None) -> None:
        while not self._state.has_quit:
            if end is not None and self._now() >= end:
                raise TimeoutReached(
                    "--timeout reached",
                    cause="the watch was to last no longer",
                    hint="leave out --timeout to watch until q is pressed",
                )
            self._draw()
            typed = self._screen.wait(self._signals.wakeup, self._patience(end))
            self._heed_signals()
            self._press(self._decoded(typed))
            self._take_reading()
            self._read_when_due()

    def _decoded(self, typed: bytes | None) -> list[str]:
        """Keys; a lone Esc among them once nothing has followed it for a moment."""
        if typed is not None:
            self._typed_at = self._now()
            return self._keys.feed(typed)
        is_lone = self._keys.is_waiting and self._now() - self._typed_at >= _ESC_SECONDS
        return self._keys.flush() if is_lone else []

    def _draw(self) -> None:
        begun = self._now()
        screen = self._measured()
        feed = replace(self._feed, reading_since=self._reader.since)
        shown = frame(self._state, feed, screen, begun)
        self._state = replace(self._state, drawn=shown.drawn)
        self._screen.show(shown.lines, screen.width or 80, cursor=shown.cursor)
        self._draw_seconds = self._now() - begun

    def _measured(self) -> Screen:
        """The screen as it is now: the terminal's own word, not COLUMNS, or lines would wrap."""
        columns, lines = self._screen.size()
        wanted = self._runtime.output.settings.width
        width = columns if wanted is None else min(wanted, columns)
        return replace(self._runtime.output.screen(), width=width, height=lines)

    def _patience(self, end: float | None) -> float:
        """Seconds until something has to be done even if nothing happens."""
        now = self._now()
        moments = [] if end is None else [end - now]
        if self._keys.is_waiting:
            moments.append(self._typed_at + _ESC_SECONDS - now)
        if self._may_read and self._reader.since is None:
            moments.append(self._due - now)
        if not self._feed.stands_still or self._feed.failure is not None:
            moments.append(max(_TICK_SECONDS, _TICK_SHARE * self._draw_seconds))
        return max(0.0, min(moments, default=3600.0))

    # What happened

    def _heed_signals(self) -> None:
        came = self._signals.taken()
        if signal.SIGTSTP in came:
            self._screen.leave()
            self._signals.pause_process()
            self._screen.enter()
        elif signal.SIGCONT in came:
            # Stopped from outside: the shell had the terminal in the meantime.
            self._screen.enter()
        elif signal.SIGWINCH in came:
            self._screen.forget()

    def _press(self, keys: list[str]) -> None:
        for key in keys:
            before = self._state
            self._state = after = on_key(before, key, self._feed.doc)
            if (after.sort, after.filter) != (before.sort, before.filter):
                self._feed = replace(self._feed, doc=self._document())
            if after.redraws != before.redraws:
                self._screen.forget()
            if after.reads != before.reads and self._reader.since is None:
                self._start_reading()

    def _take_reading(self) -> None:
        reading = self._reader.taken()
        if reading is None:
            return
        if reading.bug is not None:
            raise reading.bug
        if reading.snapshot is None:
            self._feed = replace(self._feed, failure=_reason(reading.failure))
            return
        self._snapshot = reading.snapshot
        self._feed = Feed(self._document(), reading.begun, reading.took)

    # Reading

    @property
    def _may_read(self) -> bool:
        return not self._state.is_paused and not self._feed.stands_still

    @property
    def _due(self) -> float:
        """When the next read begins: from start to start, so that slow ones don't drift."""
        return self._last_begun + self._state.period.total_seconds()

    def _read_when_due(self) -> None:
        if self._may_read and self._reader.since is None and self._now() >= self._due:
            self._start_reading()

    def _start_reading(self) -> None:
        self._last_begun = self._now()
        self._reader.start()

    def _document(self) -> HeatmapDocument:
        chosen = self._view.selection
        return heatmap_document(
            self._snapshot,
            self._world.policy,
            generated_at=generated_at(self._runtime, self._snapshot),
            selection=replace(
                chosen, conditions=(*chosen.conditions, *self._state.filter.conditions)
            ),
            sort=self._state.sort,
        )


@contextmanager
def _silent_stderr(runtime: Runtime) -> Iterator[None]:
    """Within, no warning or log line gets into the picture; a stderr in a file goes on."""
    output = runtime.output
    stderr = output.stderr
    if output.stderr_is_tty:
        output.stderr = None
    try:
        yield
    finally:
        output.stderr = stderr


def _reason(failure: GpuctlError | None) -> str:
    """A failure in one line."""
    if failure is None:
        return "the last read failed"
    return failure.what if not failure.cause else f"{failure.what}: {failure.cause}"

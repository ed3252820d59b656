"""What was moved in a demo: kept in the state folder, so that the next command shows it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from gpuctl.errors import ConfigError, GpuctlError
from gpuctl.files import replace_file
from gpuctl.sim.scenario import Place
from gpuctl.sim.world import World
from gpuctl.state import file_name, make_state_folder, state_folder, unusable

_RESET = "gpuctl demo reset forgets what was moved"


class DemoMove(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One move. `run` and `step` say who made it."""

    workload: str
    to: Place
    run: str
    step: str


class DemoState(Struct, frozen=True, kw_only=True):
    """`kind: demo_state`: the moves of one scenario, in order."""

    schema: str = "gpuctl/v1"
    kind: str = "demo_state"
    scenario: str
    moves: tuple[DemoMove, ...] = ()


def demo_world(scenario: str, environ: Mapping[str, str]) -> World:
    """The scenario with everything moved that was. Raises ConfigError."""
    world = World.load(scenario)
    return played(world, read_moves(world.scenario.name, environ))


def played(world: World, moves: Iterable[DemoMove]) -> World:
    """The world after these moves. Raises ConfigError when it has become another one meanwhile."""
    for move in moves:
        try:
            world = world.moved(move.workload, move.to.node, move.to.gpu, move.to.mig_id)
        except ValueError as exc:
            raise ConfigError(
                "what was moved in this demo does not fit it any more",
                cause=str(exc),
                hint=_RESET,
            ) from exc
    return world


def read_moves(scenario: str, environ: Mapping[str, str]) -> tuple[DemoMove, ...]:
    """What was moved; nothing where there is no state, or no folder for one."""
    try:
        path = _path(scenario, state_folder(environ))
        with open(path, "rb") as file:
            content = file.read()
    except (GpuctlError, FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as exc:
        raise unusable(path, exc) from exc
    try:
        return msgspec.json.decode(content, type=DemoState).moves
    except msgspec.DecodeError as exc:
        raise ConfigError(f"{path} can't be read", cause=str(exc), hint=_RESET) from exc


def add_move(scenario: str, move: DemoMove, environ: Mapping[str, str]) -> None:
    """Keep one more move, durably. Raises GpuctlError."""
    path = _path(scenario, make_state_folder(environ))
    state = DemoState(scenario=scenario, moves=(*read_moves(scenario, environ), move))
    try:
        replace_file(path, msgspec.json.encode(state).decode() + "\n", mode=0o600)
    except OSError as exc:
        raise unusable(path, exc) from exc


def forget_moves(scenario: str, environ: Mapping[str, str]) -> bool:
    """Forget everything that was moved; False when there was nothing. Raises GpuctlError."""
    path = _path(scenario, state_folder(environ))
    try:
        os.unlink(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as exc:
        raise unusable(path, exc) from exc
    return True


def _path(scenario: str, folder: str) -> str:
    return os.path.join(folder, file_name("demo", scenario, ".json"))

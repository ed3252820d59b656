"""Finding and reading the configuration file."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuctl.errors import ConfigError

SYSTEM_FILE = Path("/etc/gpuctl/config.yaml")
STDIN = "-"
#: Far above any real file; a mistake like `--config /dev/zero` must end.
LONGEST_FILE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Location:
    """A configuration file: its path, or `-`, and who named it. `named` ones must exist."""

    path: str
    origin: str
    named: bool


@dataclass(frozen=True, slots=True)
class RawFile:
    """A file's text as it is on disk.

    `mode` is None for a pipe, a device or the standard input.
    """

    path: str
    text: str
    mode: int | None

    @property
    def name(self) -> str:
        """The file's name for messages."""
        return "<stdin>" if self.path == STDIN else self.path


def user_file(environ: Mapping[str, str]) -> Path | None:
    """The user's own configuration file; None without XDG_CONFIG_HOME and HOME."""
    base = environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):  # the XDG rules say to ignore a relative one
        home = environ.get("HOME", "")
        if not os.path.isabs(home):
            return None
        base = os.path.join(home, ".config")
    return Path(base, "gpuctl", "config.yaml")


def locations(
    config: str | None, environ: Mapping[str, str], system_file: Path = SYSTEM_FILE
) -> tuple[Location, ...]:
    """Where to look, best first: one place when it was named, else the two defaults."""
    if config is not None:
        return (Location(config, "flag --config", named=True),)
    if environ.get("GPUCTL_CONFIG"):
        return (Location(environ["GPUCTL_CONFIG"], "env GPUCTL_CONFIG", named=True),)
    own = user_file(environ)
    paths = [system_file] if own is None else [own, system_file]
    return tuple(Location(str(path), "default", named=False) for path in paths)


def find(
    config: str | None, environ: Mapping[str, str], system_file: Path = SYSTEM_FILE
) -> tuple[RawFile, Location] | None:
    """The first file that exists, read; None when nobody named one and no default exists.

    Raises ConfigError when a named file is missing, or any found file can't be read.
    """
    for location in locations(config, environ, system_file):
        try:
            return read(location.path), location
        except ConfigError as error:
            missing = isinstance(error.__cause__, FileNotFoundError | NotADirectoryError)
            if location.named or not missing:
                raise ConfigError(
                    error.what, cause=error.cause, hint=_advice(location, error.hint)
                ) from error.__cause__
    return None


def _advice(location: Location, hint: str | None) -> str | None:
    if location.origin == "env GPUCTL_CONFIG":
        return f"{hint or 'correct the path'}; GPUCTL_CONFIG names this file"
    return hint


def read(path: str) -> RawFile:
    """The text of the file at `path`, or of the standard input for `-`. Raises ConfigError."""
    name = "<stdin>" if path == STDIN else path
    if not path:
        raise ConfigError(
            "the name of the configuration file is empty", hint="name a file, or leave it out"
        )
    try:
        with open(0 if path == STDIN else path, "rb", closefd=path != STDIN) as file:
            status = os.fstat(file.fileno())
            content = file.read(LONGEST_FILE_BYTES + 1)
    except FileNotFoundError as exc:
        raise ConfigError(
            f"there is no configuration file {name}",
            hint=f"check the path, or write one with: gpuctl config init --path {name}",
        ) from exc
    except IsADirectoryError as exc:
        raise ConfigError(
            f"the configuration file {name} is a directory",
            hint=f"name the file in it, for example {os.path.join(name, 'config.yaml')}",
        ) from exc
    except PermissionError as exc:
        raise ConfigError(
            f"the configuration file {name} can't be read: permission denied",
            cause=f"gpuctl runs as user {os.geteuid()}",
            hint=f"look at its owner and mode with: ls -l {name}",
        ) from exc
    except (OSError, ValueError) as exc:  # ValueError: a NUL in the path
        reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
        raise ConfigError(
            f"the configuration file {name!r} can't be read: {reason}", hint="check the path"
        ) from exc
    if len(content) > LONGEST_FILE_BYTES:
        raise ConfigError(
            f"{name} is larger than {LONGEST_FILE_BYTES // 1024} KiB: not a configuration file",
            hint="check the path",
        )
    regular = stat.S_ISREG(status.st_mode) and path != STDIN
    return RawFile(path, _decoded(content, name), stat.S_IMODE(status.st_mode) if regular else None)


def _decoded(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as exc:
        line = content.count(b"\n", 0, exc.start) + 1
        raise ConfigError(
            f"{name}:{line}: not UTF-8 text",
            cause=f"byte {exc.start} is 0x{content[exc.start]:02x}",
            hint="save the file as UTF-8, or check that it is the right file",
        ) from exc

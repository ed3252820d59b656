"""Programs of the system that a test needs, and ports for servers on this machine."""

from __future__ import annotations

import os
import shutil
import socket

import pytest


def program(*names: str) -> str:
    """The path of the first of these programs that is installed.

    Skips the test and names the program when it is missing, or fails it where CI demands
    everything (GPUCTL_REQUIRE_REAL=1).
    """
    for name in names:
        path = shutil.which(name)
        if path is not None:
            return path
    if os.environ.get("GPUCTL_REQUIRE_REAL") == "1":
        pytest.fail(f"{names[0]} is not installed and GPUCTL_REQUIRE_REAL=1")
    pytest.skip(f"{names[0]} is not installed")


def free_port() -> int:
    """A TCP port on loopback that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

"""Options of the command line that outrank the environment and the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Flag:
    """The value that an option gave to a setting, and how the user spelled the option."""

    option: str
    value: Any

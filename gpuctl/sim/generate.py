"""Make the built-in scenarios: `python -m gpuctl.sim.generate [NAME ...]` writes their files.

The files are kept with the code, so that a demo needs no drawing; a test holds them to what this
makes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence

import msgspec

from gpuctl.sim.loading import SCENARIO_FOLDER
from gpuctl.sim.scenario import Scenario
from gpuctl.sim.story_hk_night import hk_night
from gpuctl.sim.story_mig_mixed import mig_mixed
from gpuctl.sim.story_three_full import three_full_five_idle

STORIES: Mapping[str, Callable[[], Scenario]] = {
    "hk-night": hk_night,
    "mig-mixed": mig_mixed,
    "three-full-five-idle": three_full_five_idle,
}


def scenario_file(scenario: Scenario) -> bytes:
    """The file of a scenario: JSON with one node or workload a line."""
    document = msgspec.to_builtins(scenario)
    parts = []
    for key, value in document.items():
        if isinstance(value, (list, tuple)):
            rows = ",\n".join("  " + json.dumps(row) for row in value)
            parts.append(f' "{key}": [\n{rows}\n ]')
        else:
            parts.append(f' "{key}": {json.dumps(value)}')
    return ("{\n" + ",\n".join(parts) + "\n}\n").encode()


def main(names: Sequence[str]) -> None:
    """Write the files of some stories, of all when none is named."""
    for name in names or tuple(STORIES):
        (SCENARIO_FOLDER / f"{name}.json").write_bytes(scenario_file(STORIES[name]()))


if __name__ == "__main__":
    main(sys.argv[1:])

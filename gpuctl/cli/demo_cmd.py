"""`gpuctl demo`: the simulated cluster's own state."""

from __future__ import annotations

import typer

from gpuctl.cli.runtime import runtime_of
from gpuctl.exitcodes import ExitCode

app = typer.Typer(help="Manage the state of the simulated cluster.")


@app.command("reset")
def reset(ctx: typer.Context) -> ExitCode:
    """Forget what was moved in the demo, so that it tells its story from the beginning.

    Actions on the simulated cluster are kept between commands: what was evicted stays where it
    landed. The journal is kept; gpuctl --demo history still shows what was done.

    Examples:
      gpuctl demo reset
      gpuctl --demo-scenario three-full-five-idle demo reset
    """
    from gpuctl.sim.diary import forget_moves
    from gpuctl.sim.world import World

    runtime = runtime_of(ctx)
    scenario = World.load(runtime.options.demo_scenario).scenario.name
    if forget_moves(scenario, runtime.environ):
        runtime.output.info(f"the demo {scenario} is as it was at first")
    else:
        runtime.output.info(f"nothing was moved in the demo {scenario}")
    return ExitCode.OK

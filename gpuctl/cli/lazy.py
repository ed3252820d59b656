"""The table of commands, and the group that loads a command's module only when it is called.

How to add a command:

1. Write `gpuctl/cli/<name>.py` with one function: its parameters are the command's own arguments
   and options (`Annotated[..., typer.Option(...)]`), and `ctx: typer.Context`, from which
   `gpuctl.cli.runtime.runtime_of(ctx)` gives the Runtime (global options, output, environment,
   clock, stdin). It returns an ExitCode (or None for OK), raises `gpuctl.errors` for failures and
   never prints, exits or reads the process's own environment (so no `envvar=` either).
   A group exposes a `typer.Typer` instead, whose commands follow the same rule.
2. Add one line to COMMANDS: its name, `module:attribute`, and its purpose for `gpuctl --help`.

Global options, `-h`, errors, signals and completion come from the frame. The help text is the
function's docstring: first line the purpose, then prose, then the sections `Examples:` and
`Exit codes:`, whose indented lines are printed as they are. `rich_help_panel="Filters"` on an
option puts it into a group of that name. `metavar="[SECONDS]", show_default="5"` makes the value
of an option optional. Values are completed by metavar: CONTEXT, NODE,
NODE/GPU, FILE, PATH, DIR or `one|of|these`; Literal and Enum types complete by themselves.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from gpuctl.cli.frame import RootGroup, adopt


class Entry(NamedTuple):
    """Where a command lives (`module:attribute`), and its purpose in one line."""

    target: str
    help: str
    hidden: bool = False


COMMANDS: dict[str, Entry] = {
    "heatmap": Entry("gpuctl.cli.heatmap:heatmap", "show which GPUs are hot, idle or lost"),
    "evict": Entry("gpuctl.cli.evict:evict", "evict pods from hot GPUs, safely"),
    "migrate": Entry("gpuctl.cli.migrate:migrate", "migrate VMs between nodes, safely"),
    "rebalance": Entry("gpuctl.cli.rebalance:rebalance", "plan the moves that relieve hot GPUs"),
    "score": Entry("gpuctl.cli.score:score", "rank nodes for a new workload"),
    "history": Entry("gpuctl.cli.history:history", "show what acting runs have done"),
    "snapshot": Entry("gpuctl.cli.snapshot_cmd:snapshot", "save the cluster's state as a file"),
    "export": Entry("gpuctl.cli.export:app", "print manifests and commands to set clusters up"),
    "config": Entry("gpuctl.cli.config_cmd:app", "write, show and check the configuration"),
    "demo": Entry("gpuctl.cli.demo_cmd:app", "put the simulated cluster back to its beginning"),
    "version": Entry("gpuctl.cli.version:version", "show the version of gpuctl"),
    "completion": Entry("gpuctl.cli.completion:completion", "print a shell's completion script"),
}


class LazyGroup(RootGroup):
    """`gpuctl` with the commands of a table, each built when it is asked for."""

    def __init__(self, table: dict[str, Entry], **attrs: Any) -> None:
        super().__init__(**attrs)
        self.table = table

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name, entry in self.table.items() if _exists(entry)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        entry = self.table.get(cmd_name)
        if entry is None or not _exists(entry):
            return None
        if cmd_name not in self.commands:
            module, _, attribute = entry.target.partition(":")
            command = adopt(cmd_name, getattr(import_module(module), attribute), entry.help)
            command.hidden = entry.hidden
            self.commands[cmd_name] = command
        return self.commands[cmd_name]

    def purposes(self) -> list[tuple[str, str]]:
        """The visible commands and their purposes, without loading any."""
        return [
            (name, entry.help)
            for name, entry in self.table.items()
            if not entry.hidden and _exists(entry)
        ]


def _exists(entry: Entry) -> bool:
    return find_spec(entry.target.partition(":")[0]) is not None


def root_command(table: dict[str, Entry] | None = None) -> LazyGroup:
    """The whole command line; `table` replaces COMMANDS in tests."""
    return LazyGroup(
        COMMANDS if table is None else table,
        name="gpuctl",
        help="See, explain and undo GPU load imbalance on Kubernetes and Proxmox VE.",
        rich_markup_mode=None,
    )

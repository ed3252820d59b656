"""`gpuctl completion`, and the generator of the files in `completions/`.

`python -m gpuctl.cli.completion FOLDER` writes these files anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer

from gpuctl.cli.runtime import runtime_of
from gpuctl.cli.shells.bash import bash_script
from gpuctl.cli.shells.fish import fish_script
from gpuctl.cli.shells.spec import CommandSpec, command_spec
from gpuctl.cli.shells.zsh import zsh_script
from gpuctl.exitcodes import ExitCode

Shell = Literal["bash", "zsh", "fish"]

_SCRIPTS: Mapping[Shell, Callable[[CommandSpec], str]] = {
    "bash": bash_script,
    "zsh": zsh_script,
    "fish": fish_script,
}
#: The scripts by the file names that the shells look for.
FILES: Mapping[str, Shell] = {"gpuctl.bash": "bash", "_gpuctl": "zsh", "gpuctl.fish": "fish"}


def completion(
    ctx: typer.Context,
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish")],
) -> ExitCode:
    """Print a shell's completion script.

    TAB then completes commands, options and their values; contexts come from the configuration
    file, nodes and GPUs from what the commands of the last ten minutes saw.

    Examples:
      source <(gpuctl completion bash)
      gpuctl completion fish > ~/.config/fish/completions/gpuctl.fish

    For all users:
      gpuctl completion bash > /usr/share/bash-completion/completions/gpuctl
      gpuctl completion zsh > /usr/local/share/zsh/site-functions/_gpuctl
      gpuctl completion fish > /etc/fish/completions/gpuctl.fish
    """
    runtime_of(ctx).output.text(script(shell))
    return ExitCode.OK


def script(shell: Shell) -> str:
    """The completion script of a shell for all commands; loads their modules."""
    from gpuctl.cli.lazy import root_command

    return _SCRIPTS[shell](command_spec(root_command()))


def write_scripts(folder: Path) -> None:
    """Write the scripts of all shells into `folder`, under the names of FILES."""
    for name, shell in FILES.items():
        (folder / name).write_text(script(shell), encoding="utf-8")


if __name__ == "__main__":
    import sys

    write_scripts(Path(sys.argv[1]))

"""The fish completion script, for fish 3 or newer."""

from __future__ import annotations

from gpuctl.cli.shells.spec import CommandSpec, OptionSpec, Values, global_options
from gpuctl.cli.suggestions import WORD

_TEMPLATE = """\
# fish completion for gpuctl; generated, see `gpuctl completion --help`

# Options that take a value, for which the next word is not a command.
set -g __gpuctl_valued @VALUED@

# Whether the line so far is exactly the command path in the arguments; more words are arguments.
function __gpuctl_at
    set -l words (commandline -opc)
    set -l path
    set -l pending no
    for word in $words[2..-1]
        if test $pending = yes
            set pending no
        else if contains -- $word $__gpuctl_valued
            set pending yes
        else if not string match -q -- '-*' $word
            set -l longer $path $word
            contains -- "$longer" @PATHS@; or break
            set path $longer
        end
    end
    test "$path" = "$argv"
end

# Live values of the kind in the argument.
function __gpuctl_live
    command -q gpuctl; or return
    set -l word (string replace -r -- '^--[^=]*=' '' (commandline -ct))
    set -l line (commandline -opc)
    command gpuctl @WORD@ $argv[1] "$word" $line[2..-1] 2>/dev/null
end

complete -c gpuctl -e
complete -c gpuctl -f
@LINES@
"""


def fish_script(root: CommandSpec) -> str:
    """The whole script for the command line under `root`."""
    shared = global_options()
    lines = [_option_line("", option) for option in shared]
    for command in root.walk():
        lines += ["", *_command_lines(command)]
    options = [*shared, *(option for command in root.walk() for option in command.options)]
    valued = dict.fromkeys(
        name for option in options if option.values is not None for name in option.names
    )
    paths = " ".join(_quoted(" ".join(c.path)) for c in root.walk() if c.path)
    return (
        _TEMPLATE.replace("@VALUED@", " ".join(valued))
        .replace("@PATHS@", paths)
        .replace("@LINES@", "\n".join(lines))
        .replace("@WORD@", WORD)
    )


def _command_lines(command: CommandSpec) -> list[str]:
    here = f" -n {_quoted(f'__gpuctl_at {chr(32).join(command.path)}'.rstrip())}"
    lines = [
        f"complete -c gpuctl{here} -a {sub.path[-1]} -d {_quoted(sub.help)}"
        for sub in command.commands
    ]
    lines += [_option_line(here, option) for option in command.options]
    # fish can't tell which argument a word is; all of them are offered.
    offers = dict.fromkeys(_offer(values) for values in command.arguments)
    lines += [f"complete -c gpuctl{here}{offer}" for offer in offers if offer]
    return lines


def _option_line(condition: str, option: OptionSpec) -> str:
    names = "".join(
        f" -l {name[2:]}" if name.startswith("--") else f" -s {name[1:]}" for name in option.names
    )
    value = ""
    if option.values is not None:
        offer = _offer(option.values)
        value = f" -r{offer}" if offer.startswith(" -F") else f" -x{offer}"
    return f"complete -c gpuctl{condition}{names}{value} -d {_quoted(option.help)}"


def _offer(values: Values) -> str:
    """The switches that say what to offer; empty for nothing."""
    if values.kind == "files":
        return " -F"
    if values.kind == "folders":
        return " -a '(__fish_complete_directories)'"
    if values.kind is not None:
        return f" -a '(__gpuctl_live {values.kind})'"
    return f" -a {_quoted(' '.join(values.choices))}" if values.choices else ""


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

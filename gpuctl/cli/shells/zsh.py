"""The zsh completion function: a file in `fpath`, or sourced after `compinit`."""

from __future__ import annotations

from gpuctl.cli.shells.spec import CommandSpec, OptionSpec, Values, global_options
from gpuctl.cli.suggestions import WORD

_TEMPLATE = """\
#compdef gpuctl
# zsh completion for gpuctl; generated, see `gpuctl completion --help`

# Live values of the kind $1.
_gpuctl_live() {
    local -a found
    found=(${(f)"$(command gpuctl @WORD@ $1 "$PREFIX" "${(@)gpuctl_line}" 2>/dev/null)"})
    compadd -a found
}

@FUNCTIONS@
_gpuctl() {
    # The whole line: the functions below see only what follows their command.
    local -a gpuctl_line gpuctl_globals
    gpuctl_line=("${(@)words[2,CURRENT-1]}")
    gpuctl_globals=(
@GLOBALS@
    )
    _gpuctl_root
}

if [[ $funcstack[1] == _gpuctl ]]; then
    _gpuctl "$@"
else
    compdef _gpuctl gpuctl
fi
"""


def zsh_script(root: CommandSpec) -> str:
    """The whole script for the command line under `root`."""
    functions = "\n".join(map(_function, root.walk()))
    shared = "\n".join(f"        {line}" for option in global_options() for line in _specs(option))
    return (
        _TEMPLATE.replace("@FUNCTIONS@", functions)
        .replace("@GLOBALS@", shared)
        .replace("@WORD@", WORD)
    )


def _function_name(command: CommandSpec) -> str:
    return "_".join(["_gpuctl", *(command.path or ("root",))]).replace("-", "_")


def _function(command: CommandSpec) -> str:
    specs = [line for option in command.options for line in _specs(option)]
    if command.commands:
        specs += ["'1: :->command'", "'*:: :->rest'"]
    for place, values in enumerate(command.arguments, start=1):
        position = "*" if place == len(command.arguments) else str(place)
        specs.append(f"'{position}:{_action(values)}'")
    name = _function_name(command)
    arguments = "".join(f" \\\n        {line}" for line in specs)
    if not command.commands:
        return f'{name}() {{\n    _arguments -s "${{(@)gpuctl_globals}}"{arguments}\n}}\n'
    listed = "".join(f"\n        {_quoted(f'{c.path[-1]}:{c.help}')}" for c in command.commands)
    cases = "".join(
        f"\n                {c.path[-1]}) {_function_name(c)} ;;" for c in command.commands
    )
    return f"""\
{name}() {{
    local curcontext=$curcontext state line
    local -A opt_args
    local -a commands
    commands=({listed}
    )
    _arguments -C -s "${{(@)gpuctl_globals}}"{arguments} && return
    case $state in
        command) _describe -t commands 'command' commands ;;
        rest)
            case $words[1] in{cases}
            esac
            ;;
    esac
}}
"""


def _specs(option: OptionSpec) -> list[str]:
    """One `_arguments` specification for each spelling."""
    text = _escaped(option.help).replace("[", r"\[").replace("]", r"\]")
    value = "" if option.values is None else f":{_action(option.values)}"
    lines = []
    for name in option.names:
        # `=` takes --name=value too, `+` takes -oVALUE.
        form = "" if option.values is None else ("=" if name.startswith("--") else "+")
        lines.append(_quoted(f"*{name}{form}[{text}]{value}"))
    return lines


def _action(values: Values) -> str:
    """The part after an option's or argument's first colon: a message, and what to offer."""
    if values.kind == "files":
        return "file:_files"
    if values.kind == "folders":
        return "folder:_files -/"
    if values.kind is not None:
        # The blank keeps _arguments from putting options of compadd before the kind.
        return f"{values.kind}: _gpuctl_live {values.kind}"
    return f"value:({' '.join(values.choices)})" if values.choices else "value: "


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace(":", r"\:")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"

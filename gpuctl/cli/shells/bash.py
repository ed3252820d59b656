"""The bash completion script. It needs nothing but bash, version 4 or newer."""

from __future__ import annotations

from gpuctl.cli.shells.spec import CommandSpec, OptionSpec, Values, global_options
from gpuctl.cli.suggestions import WORD

_TEMPLATE = """\
# bash completion for gpuctl; generated, see `gpuctl completion --help`
# shellcheck shell=bash

# What belongs to the command path $1: sets commands, options, arguments.
_gpuctl_command() {
    commands='' options='' arguments=''
    case $1 in
@COMMANDS@
    esac
}

# What the value of option $2 of command path $1 is: sets value, empty when $2 takes none.
# A value is a kind (+nodes), a list of words, or ? for anything.
_gpuctl_value() {
    value=''
    case "$1 $2" in
@OWN@
        *)
            case $2 in
@GLOBAL@
            esac
            ;;
    esac
}

# Offers what $1 describes, for the word $2.
_gpuctl_offer() {
    local IFS=$' \\t\\n'
    case $1 in
        '' | '?') ;;
        +files) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
        +folders) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$2") ;;
        +*)
            mapfile -t COMPREPLY < <(
                command gpuctl @WORD@ "${1#+}" "$2" "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null
            )
            ;;
        *) mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2") ;;
    esac
}

_gpuctl() {
    local current=${COMP_WORDS[COMP_CWORD]} path='' pending='' place=0 options_over='' i word
    local commands options arguments value
    COMPREPLY=()
    _gpuctl_command ''
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ -n $pending ]]; then
            # bash makes three words of --output=json
            [[ $word == = ]] || pending=''
        elif [[ -n $options_over || $word != -?* ]]; then
            if [[ -z $options_over && " $commands " == *" $word "* ]]; then
                path=${path:+$path }$word
                _gpuctl_command "$path"
            elif [[ $word != = ]]; then
                place=$((place + 1))
            fi
        elif [[ $word == -- ]]; then
            options_over=yes
        else
            _gpuctl_value "$path" "$word"
            [[ -z $value ]] || pending=$word
        fi
    done
    if [[ -n $pending ]]; then
        [[ $current != = ]] || current=''
        _gpuctl_value "$path" "$pending"
        _gpuctl_offer "$value" "$current"
    elif [[ -z $options_over && $current == -* ]]; then
        _gpuctl_offer "$options @GLOBAL_NAMES@" "$current"
    elif [[ -n $commands && $place -eq 0 ]]; then
        _gpuctl_offer "$commands" "$current"
    else
        # One line for each argument; the last one may be repeated.
        local -a places
        mapfile -t places <<<"$arguments"
        ((place < ${#places[@]})) || place=$((${#places[@]} - 1))
        _gpuctl_offer "${places[place]}" "$current"
    fi
}

complete -F _gpuctl gpuctl
"""


def bash_script(root: CommandSpec) -> str:
    """The whole script for the command line under `root`."""
    own = [
        _value_case(f"{' '.join(command.path)} ", option, "        ")
        for command in root.walk()
        for option in command.options
        if option.values is not None
    ]
    shared = global_options()
    values = [_value_case("", option, " " * 16) for option in shared if option.values is not None]
    return (
        _TEMPLATE.replace("@COMMANDS@", "\n".join(map(_command_case, root.walk())))
        .replace("@OWN@", "\n".join(own))
        .replace("@GLOBAL@", "\n".join(values))
        .replace("@GLOBAL_NAMES@", _names(shared))
        .replace("@WORD@", WORD)
    )


def _names(options: tuple[OptionSpec, ...]) -> str:
    return " ".join(name for option in options for name in option.names)


def _command_case(command: CommandSpec) -> str:
    lines = [f"        '{' '.join(command.path)}')"]
    if command.commands:
        lines.append(f"            commands='{' '.join(c.path[-1] for c in command.commands)}'")
    lines.append(f"            options='{_names(command.options)}'")
    if command.arguments:
        places = "\\n".join(_described(values) for values in command.arguments)
        lines.append(f"            arguments=$'{places}'")
    lines.append("            ;;")
    return "\n".join(lines)


def _value_case(path: str, option: OptionSpec, indent: str) -> str:
    patterns = " | ".join(f"'{path}{name}'" for name in option.names)
    described = _described(option.values) if option.values is not None else ""
    return f"{indent}{patterns}) value='{described}' ;;"


def _described(values: Values) -> str:
    if values.kind is not None:
        return f"+{values.kind}"
    return " ".join(values.choices) or "?"

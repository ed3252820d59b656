# bash completion for gpuctl; generated, see `gpuctl completion --help`
# shellcheck shell=bash

# What belongs to the command path $1: sets commands, options, arguments.
_gpuctl_command() {
    commands='' options='' arguments=''
    case $1 in
        '')
            commands='heatmap evict migrate rebalance score history snapshot export config demo version completion'
            options='-h --help --version'
            ;;
        'heatmap')
            options='--metric --sort --by-mig --wide --node --gpu-model --where --hot --since --step --watch --explain --export --exit-code --exporter --sample-for --max-age -h --help'
            ;;
        'evict')
            options='--gpu --node -l --selector -n --namespace --class --max --dry-run --grace-period --wait --no-wait --ready-within --cordon --soft-taint --keep-going --no-keep-going --wait-lock --interrupt-grace --exit-code --force-unmanaged --delete-emptydir-data --force-critical --force-protected-namespace --force-not-evictable --force-stateful --force-daemonset --kubeconfig --kube-context -h --help'
            arguments=$'?'
            ;;
        'migrate')
            options='--to --target-storage --online --offline --dry-run --wait --no-wait --with-local-disks --bwlimit --migration-network --migration-type --cancel-on-interrupt --wait-lock --interrupt-grace --exit-code --follow --drained --force-pinned -h --help'
            arguments=$'?'
            ;;
        'rebalance')
            options='--dry-run --goal --target --max-moves --only --node --max-missing --explain --out --exit-code --exporter --sample-for --max-age -h --help'
            ;;
        'score')
            options='--gpus --memory --mig --gpu-model --class --pod --node --strategy --gpu-level --explain --exporter --sample-for --max-age -h --help'
            ;;
        'history')
            options='--last -h --help'
            arguments=$'?'
            ;;
        'snapshot')
            options='--exporter --sample-for --max-age -h --help'
            ;;
        'export')
            commands='rbac pve-role'
            options='-h --help'
            ;;
        'export rbac')
            options='--for --namespace --service-account -h --help'
            ;;
        'export pve-role')
            options='--for --user --token --role -h --help'
            ;;
        'config')
            commands='init view use-context check contexts'
            options='-h --help'
            ;;
        'config init')
            options='--path --force -h --help'
            ;;
        'config view')
            options='--origin -h --help'
            ;;
        'config use-context')
            options='-h --help'
            arguments=$'+contexts'
            ;;
        'config check')
            options='-h --help'
            arguments=$'+files'
            ;;
        'config contexts')
            options='-h --help'
            ;;
        'demo')
            commands='reset'
            options='-h --help'
            ;;
        'demo reset')
            options='-h --help'
            ;;
        'version')
            options='-h --help'
            ;;
        'completion')
            options='-h --help'
            arguments=$'bash zsh fish'
            ;;
    esac
}

# What the value of option $2 of command path $1 is: sets value, empty when $2 takes none.
# A value is a kind (+nodes), a list of words, or ? for anything.
_gpuctl_value() {
    value=''
    case "$1 $2" in
        'heatmap --metric') value='util mem membw tensor temp power' ;;
        'heatmap --sort') value='spread name util mem' ;;
        'heatmap --wide') value='cells' ;;
        'heatmap --node') value='+nodes' ;;
        'heatmap --gpu-model') value='?' ;;
        'heatmap --where') value='?' ;;
        'heatmap --since') value='?' ;;
        'heatmap --step') value='?' ;;
        'heatmap --explain') value='+gpus' ;;
        'heatmap --export') value='+files' ;;
        'heatmap --exporter') value='?' ;;
        'heatmap --sample-for') value='?' ;;
        'heatmap --max-age') value='?' ;;
        'evict --gpu') value='+gpus' ;;
        'evict --node') value='+nodes' ;;
        'evict -l' | 'evict --selector') value='?' ;;
        'evict -n' | 'evict --namespace') value='?' ;;
        'evict --class') value='inference training unknown' ;;
        'evict --max') value='?' ;;
        'evict --grace-period') value='?' ;;
        'evict --ready-within') value='?' ;;
        'evict --wait-lock') value='?' ;;
        'evict --interrupt-grace') value='?' ;;
        'evict --kubeconfig') value='+files' ;;
        'evict --kube-context') value='?' ;;
        'migrate --to') value='+nodes' ;;
        'migrate --target-storage') value='?' ;;
        'migrate --bwlimit') value='?' ;;
        'migrate --migration-network') value='?' ;;
        'migrate --migration-type') value='secure insecure' ;;
        'migrate --wait-lock') value='?' ;;
        'migrate --interrupt-grace') value='?' ;;
        'migrate --follow') value='?' ;;
        'rebalance --goal') value='relief balance' ;;
        'rebalance --target') value='?' ;;
        'rebalance --max-moves') value='?' ;;
        'rebalance --only') value='pods vms' ;;
        'rebalance --node') value='+nodes' ;;
        'rebalance --max-missing') value='?' ;;
        'rebalance --out') value='+files' ;;
        'rebalance --exporter') value='?' ;;
        'rebalance --sample-for') value='?' ;;
        'rebalance --max-age') value='?' ;;
        'score --gpus') value='?' ;;
        'score --memory') value='?' ;;
        'score --mig') value='?' ;;
        'score --gpu-model') value='?' ;;
        'score --class') value='inference training' ;;
        'score --pod') value='+files' ;;
        'score --node') value='+nodes' ;;
        'score --strategy') value='least-loaded headroom pack fragmentation simple' ;;
        'score --exporter') value='?' ;;
        'score --sample-for') value='?' ;;
        'score --max-age') value='?' ;;
        'history --last') value='?' ;;
        'snapshot --exporter') value='?' ;;
        'snapshot --sample-for') value='?' ;;
        'snapshot --max-age') value='?' ;;
        'export rbac --for') value='views evict all' ;;
        'export rbac --namespace') value='?' ;;
        'export rbac --service-account') value='?' ;;
        'export pve-role --for') value='views migrate' ;;
        'export pve-role --user') value='?' ;;
        'export pve-role --token') value='?' ;;
        'export pve-role --role') value='?' ;;
        'config init --path') value='+files' ;;
        *)
            case $2 in
                '--config') value='+files' ;;
                '--context') value='+contexts' ;;
                '--prometheus-url') value='?' ;;
                '--demo-scenario') value='hk-night three-full-five-idle mig-mixed' ;;
                '--snapshot') value='+files' ;;
                '--timeout') value='?' ;;
                '--request-timeout') value='?' ;;
                '-o' | '--output') value='table wide name csv json yaml' ;;
                '--color') value='auto always never' ;;
                '--width') value='?' ;;
            esac
            ;;
    esac
}

# Offers what $1 describes, for the word $2.
_gpuctl_offer() {
    local IFS=$' \t\n'
    case $1 in
        '' | '?') ;;
        +files) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
        +folders) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$2") ;;
        +*)
            mapfile -t COMPREPLY < <(
                command gpuctl __complete "${1#+}" "$2" "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null
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
        _gpuctl_offer "$options --config --context --prometheus-url --demo --demo-scenario --snapshot --timeout --request-timeout -o --output -q --quiet -v --verbose --color --no-color -y --yes --no-input --no-pager --width" "$current"
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

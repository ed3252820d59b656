# fish completion for gpuctl; generated, see `gpuctl completion --help`

# Options that take a value, for which the next word is not a command.
set -g __gpuctl_valued --config --context --prometheus-url --demo-scenario --snapshot --timeout --request-timeout -o --output --color --width --metric --sort --wide --node --gpu-model --where --since --step --explain --export --exporter --sample-for --max-age --gpu -l --selector -n --namespace --class --max --grace-period --ready-within --wait-lock --interrupt-grace --kubeconfig --kube-context --to --target-storage --bwlimit --migration-network --migration-type --follow --goal --target --max-moves --only --max-missing --out --gpus --memory --mig --pod --strategy --last --for --service-account --user --token --role --path

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
            contains -- "$longer" 'heatmap' 'evict' 'migrate' 'rebalance' 'score' 'history' 'snapshot' 'export' 'export rbac' 'export pve-role' 'config' 'config init' 'config view' 'config use-context' 'config check' 'config contexts' 'demo' 'demo reset' 'version' 'completion'; or break
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
    command gpuctl __complete $argv[1] "$word" $line[2..-1] 2>/dev/null
end

complete -c gpuctl -e
complete -c gpuctl -f
complete -c gpuctl -l config -r -F -d 'configuration file'
complete -c gpuctl -l context -x -a '(__gpuctl_live contexts)' -d 'cluster of that file'
complete -c gpuctl -l prometheus-url -x -d 'instead of the context\'s'
complete -c gpuctl -l demo -d 'a simulated cluster, not a real one'
complete -c gpuctl -l demo-scenario -x -a 'hk-night three-full-five-idle mig-mixed' -d 'another simulated cluster'
complete -c gpuctl -l snapshot -r -F -d 'a saved snapshot, not live data; - is stdin'
complete -c gpuctl -l timeout -x -d 'for the whole command'
complete -c gpuctl -l request-timeout -x -d 'for one call'
complete -c gpuctl -s o -l output -x -a 'table wide name csv json yaml' -d 'table, wide, name, csv, json or yaml'
complete -c gpuctl -s q -l quiet -d 'warnings only on stderr'
complete -c gpuctl -s v -l verbose -d 'more on stderr; -vv for all of it'
complete -c gpuctl -l color -x -a 'auto always never' -d 'auto, always or never'
complete -c gpuctl -l no-color -d 'same as --color never'
complete -c gpuctl -s y -l yes -d 'answer yes to the question'
complete -c gpuctl -l no-input -d 'never ask'
complete -c gpuctl -l no-pager -d 'print long answers at once'
complete -c gpuctl -l width -x -d 'cells a line'

complete -c gpuctl -n '__gpuctl_at' -a heatmap -d 'show which GPUs are hot, idle or lost'
complete -c gpuctl -n '__gpuctl_at' -a evict -d 'evict pods from hot GPUs, safely'
complete -c gpuctl -n '__gpuctl_at' -a migrate -d 'migrate VMs between nodes, safely'
complete -c gpuctl -n '__gpuctl_at' -a rebalance -d 'plan the moves that relieve hot GPUs'
complete -c gpuctl -n '__gpuctl_at' -a score -d 'rank nodes for a new workload'
complete -c gpuctl -n '__gpuctl_at' -a history -d 'show what acting runs have done'
complete -c gpuctl -n '__gpuctl_at' -a snapshot -d 'save the cluster\'s state as a file'
complete -c gpuctl -n '__gpuctl_at' -a export -d 'print manifests and commands to set clusters up'
complete -c gpuctl -n '__gpuctl_at' -a config -d 'write, show and check the configuration'
complete -c gpuctl -n '__gpuctl_at' -a demo -d 'put the simulated cluster back to its beginning'
complete -c gpuctl -n '__gpuctl_at' -a version -d 'show the version of gpuctl'
complete -c gpuctl -n '__gpuctl_at' -a completion -d 'print a shell\'s completion script'
complete -c gpuctl -n '__gpuctl_at' -s h -l help -d 'show this text'
complete -c gpuctl -n '__gpuctl_at' -l version -d 'show the version'

complete -c gpuctl -n '__gpuctl_at heatmap' -l metric -x -a 'util mem membw tensor temp power' -d 'figure to draw'
complete -c gpuctl -n '__gpuctl_at heatmap' -l sort -x -a 'spread name util mem' -d 'order of the nodes'
complete -c gpuctl -n '__gpuctl_at heatmap' -l by-mig -d 'a line or row per MIG instance'
complete -c gpuctl -n '__gpuctl_at heatmap' -l wide -x -a 'cells' -d 'wider cells, more air'
complete -c gpuctl -n '__gpuctl_at heatmap' -l node -x -a '(__gpuctl_live nodes)' -d 'only these nodes; repeatable'
complete -c gpuctl -n '__gpuctl_at heatmap' -l gpu-model -x -d 'only these GPU models, e.g. \'*A100*\'; repeatable'
complete -c gpuctl -n '__gpuctl_at heatmap' -l where -x -d 'only GPUs that fit, e.g. \'util>90\', \'node~=gpu-0\', \'ns=prod\'; repeatable, all must hold'
complete -c gpuctl -n '__gpuctl_at heatmap' -l hot -d 'only hot GPUs'
complete -c gpuctl -n '__gpuctl_at heatmap' -l since -x -d 'GPU by time over the last DUR'
complete -c gpuctl -n '__gpuctl_at heatmap' -l step -x -d 'with --since: one column per DUR [default: fits the screen]'
complete -c gpuctl -n '__gpuctl_at heatmap' -l watch -d 'stay on screen and refresh [default: every 5]; ? shows the keys'
complete -c gpuctl -n '__gpuctl_at heatmap' -l explain -x -a '(__gpuctl_live gpus)' -d 'the raw series behind one GPU\'s figures, and those left out and why'
complete -c gpuctl -n '__gpuctl_at heatmap' -l export -r -F -d 'write the picture as FILE.svg or FILE.html'
complete -c gpuctl -n '__gpuctl_at heatmap' -l exit-code -d 'end with 3 when a GPU or MIG instance is hot'
complete -c gpuctl -n '__gpuctl_at heatmap' -l exporter -x -d 'scrape this dcgm-exporter or Pushgateway instead of asking Prometheus: URL, HOST:PORT or HOST; @FILE reads a list; repeatable'
complete -c gpuctl -n '__gpuctl_at heatmap' -l sample-for -x -d 'with --exporter: scrape for so long, so that hot and idle can be judged'
complete -c gpuctl -n '__gpuctl_at heatmap' -l max-age -x -d 'samples older than this are stale [default: the policy\'s metrics_max_age, 1m]'
complete -c gpuctl -n '__gpuctl_at heatmap' -s h -l help -d 'show this text'

complete -c gpuctl -n '__gpuctl_at evict' -l gpu -x -a '(__gpuctl_live gpus)' -d 'pods on this GPU'
complete -c gpuctl -n '__gpuctl_at evict' -l node -x -a '(__gpuctl_live nodes)' -d 'pods with a GPU of this node'
complete -c gpuctl -n '__gpuctl_at evict' -s l -l selector -x -d 'such as app=chat'
complete -c gpuctl -n '__gpuctl_at evict' -s n -l namespace -x -d 'only this one'
complete -c gpuctl -n '__gpuctl_at evict' -l class -x -a 'inference training unknown' -d 'only pods of this class'
complete -c gpuctl -n '__gpuctl_at evict' -l max -x -d 'at most N, lowest priority and highest load first'
complete -c gpuctl -n '__gpuctl_at evict' -l dry-run -d 'run every check, the API server\'s own included; evict nothing'
complete -c gpuctl -n '__gpuctl_at evict' -l grace-period -x -d 'for the pods to end [default: their own]'
complete -c gpuctl -n '__gpuctl_at evict' -l wait -l no-wait -d 'until each pod is gone and its successor is Ready'
complete -c gpuctl -n '__gpuctl_at evict' -l ready-within -x -d 'how long one successor may take [default: 10m]'
complete -c gpuctl -n '__gpuctl_at evict' -l cordon -d 'keep all new pods off the pods\' nodes meanwhile'
complete -c gpuctl -n '__gpuctl_at evict' -l soft-taint -d 'make the scheduler prefer other nodes meanwhile'
complete -c gpuctl -n '__gpuctl_at evict' -l keep-going -l no-keep-going -d 'try the other pods after one that could not be evicted'
complete -c gpuctl -n '__gpuctl_at evict' -l wait-lock -x -d 'wait so long for another acting run to end [default: not at all]'
complete -c gpuctl -n '__gpuctl_at evict' -l interrupt-grace -x -d 'for the running eviction after ^C or SIGTERM [default: 60s]'
complete -c gpuctl -n '__gpuctl_at evict' -l exit-code -d 'with --dry-run: end with 3 when a pod would be evicted'
complete -c gpuctl -n '__gpuctl_at evict' -l force-unmanaged -d 'pods without an owner, which nothing starts again'
complete -c gpuctl -n '__gpuctl_at evict' -l delete-emptydir-data -d 'pods with an emptyDir on disk, whose data is lost'
complete -c gpuctl -n '__gpuctl_at evict' -l force-critical -d 'pods of critical priority'
complete -c gpuctl -n '__gpuctl_at evict' -l force-protected-namespace -d 'pods of protected namespaces'
complete -c gpuctl -n '__gpuctl_at evict' -l force-not-evictable -d 'pods annotated gpuctl.io/evictable: "false"'
complete -c gpuctl -n '__gpuctl_at evict' -l force-stateful -d 'pods of training, a Job or a StatefulSet'
complete -c gpuctl -n '__gpuctl_at evict' -l force-daemonset -d 'pods of a DaemonSet, which come back to their node'
complete -c gpuctl -n '__gpuctl_at evict' -l kubeconfig -r -F -d 'the kubeconfig to use instead of the configuration\'s, KUBECONFIG or ~/.kube/config'
complete -c gpuctl -n '__gpuctl_at evict' -l kube-context -x -d 'the context of the kubeconfig [default: its current context]'
complete -c gpuctl -n '__gpuctl_at evict' -s h -l help -d 'show this text'

complete -c gpuctl -n '__gpuctl_at migrate' -l to -x -a '(__gpuctl_live nodes)' -d 'the target, or auto for the best node by score [default: auto]'
complete -c gpuctl -n '__gpuctl_at migrate' -l target-storage -x -d 'for local disks: one storage, FROM:TO pairs, or 1 for the same ones'
complete -c gpuctl -n '__gpuctl_at migrate' -l online -l offline -d 'live, or as a stopped VM [default: as it is]'
complete -c gpuctl -n '__gpuctl_at migrate' -l dry-run -d 'run every check; migrate nothing'
complete -c gpuctl -n '__gpuctl_at migrate' -l wait -l no-wait -d 'until the VM runs on its target'
complete -c gpuctl -n '__gpuctl_at migrate' -l with-local-disks -d 'copy local disks, while it runs'
complete -c gpuctl -n '__gpuctl_at migrate' -l bwlimit -x -d 'KiB/s at most, 0 for no limit [default: the cluster\'s]'
complete -c gpuctl -n '__gpuctl_at migrate' -l migration-network -x -d 'for root alone: refused for every API token'
complete -c gpuctl -n '__gpuctl_at migrate' -l migration-type -x -a 'secure insecure' -d 'for root alone: refused for every API token'
complete -c gpuctl -n '__gpuctl_at migrate' -l cancel-on-interrupt -d '^C or SIGTERM stops the migration instead of leaving it running'
complete -c gpuctl -n '__gpuctl_at migrate' -l wait-lock -x -d 'wait so long for another acting run to end [default: not at all]'
complete -c gpuctl -n '__gpuctl_at migrate' -l interrupt-grace -x -d 'with --cancel-on-interrupt: for the migration to stop [default: 60s]'
complete -c gpuctl -n '__gpuctl_at migrate' -l exit-code -d 'with --dry-run: end with 3 when it would be migrated'
complete -c gpuctl -n '__gpuctl_at migrate' -l follow -x -d 'follow a migration that was begun before, from any shell'
complete -c gpuctl -n '__gpuctl_at migrate' -l drained -d 'a Kubernetes node: its pods are gone'
complete -c gpuctl -n '__gpuctl_at migrate' -l force-pinned -d 'a VM with the tag gpuctl-pinned'
complete -c gpuctl -n '__gpuctl_at migrate' -s h -l help -d 'show this text'

complete -c gpuctl -n '__gpuctl_at rebalance' -l dry-run -d 'plan and show, change nothing'
complete -c gpuctl -n '__gpuctl_at rebalance' -l goal -x -a 'relief balance' -d 'relief: no curable hot GPU, fewest moves; balance: also an even cluster'
complete -c gpuctl -n '__gpuctl_at rebalance' -l target -x -d 'with --goal balance: the spread to reach [default: the policy\'s, 20]'
complete -c gpuctl -n '__gpuctl_at rebalance' -l max-moves -x -d 'at most N moves [default: the policy\'s moves_per_run, 5]'
complete -c gpuctl -n '__gpuctl_at rebalance' -l only -x -a 'pods vms' -d 'move only these'
complete -c gpuctl -n '__gpuctl_at rebalance' -l node -x -a '(__gpuctl_live nodes)' -d 'move only what runs on these nodes; repeatable'
complete -c gpuctl -n '__gpuctl_at rebalance' -l max-missing -x -d 'decide although so many GPU nodes are silent [default: 10%, by min_coverage]'
complete -c gpuctl -n '__gpuctl_at rebalance' -l explain -d 'also what stays where it is, and why'
complete -c gpuctl -n '__gpuctl_at rebalance' -l out -r -F -d 'save the plan as FILE, mode 0600'
complete -c gpuctl -n '__gpuctl_at rebalance' -l exit-code -d 'end with 3 when the plan has moves'
complete -c gpuctl -n '__gpuctl_at rebalance' -l exporter -x -d 'scrape this dcgm-exporter or Pushgateway instead of asking Prometheus: URL, HOST:PORT or HOST; @FILE reads a list; repeatable'
complete -c gpuctl -n '__gpuctl_at rebalance' -l sample-for -x -d 'with --exporter: scrape for so long, so that hot and idle can be judged'
complete -c gpuctl -n '__gpuctl_at rebalance' -l max-age -x -d 'samples older than this are stale [default: the policy\'s metrics_max_age, 1m]'
complete -c gpuctl -n '__gpuctl_at rebalance' -s h -l help -d 'show this text'

complete -c gpuctl -n '__gpuctl_at score' -l gpus -x -d 'GPUs it needs [default: 1]'
complete -c gpuctl -n '__gpuctl_at score' -l memory -x -d 'free memory on each of them, e.g. 20Gi'
complete -c gpuctl -n '__gpuctl_at score' -l mig -x -d 'MIG instances of this profile instead of GPUs, e.g. 1g.10gb'
complete -c gpuctl -n '__gpuctl_at score' -l gpu-model -x -d 'a GPU model, e.g. \'*A100*\''
complete -c gpuctl -n '__gpuctl_at score' -l class -x -a 'inference training' -d 'what it is: training beside inference slows it'
complete -c gpuctl -n '__gpuctl_at score' -l pod -r -F -d 'read its needs from a manifest; - is stdin'
complete -c gpuctl -n '__gpuctl_at score' -l node -x -a '(__gpuctl_live nodes)' -d 'only these nodes; repeatable'
complete -c gpuctl -n '__gpuctl_at score' -l strategy -x -a 'least-loaded headroom pack fragmentation simple' -d 'what counts as better [default: the policy\'s, least-loaded]'
complete -c gpuctl -n '__gpuctl_at score' -l gpu-level -d 'rank single GPUs or MIG instances'
complete -c gpuctl -n '__gpuctl_at score' -l explain -d 'a sentence for each part of each score'
complete -c gpuctl -n '__gpuctl_at score' -l exporter -x -d 'scrape this dcgm-exporter or Pushgateway instead of asking Prometheus: URL, HOST:PORT or HOST; @FILE reads a list; repeatable'
complete -c gpuctl -n '__gpuctl_at score' -l sample-for -x -d 'with --exporter: scrape for so long, so that hot and idle can be judged'
complete -c gpuctl -n '__gpuctl_at score' -l max-age -x -d 'samples older than this are stale [default: the policy\'s metrics_max_age, 1m]'
complete -c gpuctl -n '__gpuctl_at score' -s h -l help -d 'show this text'

complete -c gpuctl -n '__gpuctl_at history' -l last -x -d 'the newest N runs'
complete -c gpuctl -n '__gpuctl_at history' -s h -l help -d 'show this text'

complete -c gpuctl -n '__gpuctl_at snapshot' -l exporter -x -d 'scrape this dcgm-exporter or Pushgateway instead of asking Prometheus: URL, HOST:PORT or HOST; @FILE reads a list; repeatable'
complete -c gpuctl -n '__gpuctl_at snapshot' -l sample-for -x -d 'with --exporter: scrape for so long, so that hot and idle can be judged'
complete -c gpuctl -n '__gpuctl_at snapshot' -l max-age -x -d 'samples older than this are stale [default: the policy\'s metrics_max_age, 1m]'
complete -c gpuctl -n '__gpuctl_at snapshot' -s h -l help -d 'show this text'

complete -c gpuctl -n '__gpuctl_at export' -a rbac -d 'Print the Kubernetes rights that gpuctl needs, as manifests'
complete -c gpuctl -n '__gpuctl_at export' -a pve-role -d 'Print the commands that make a Proxmox VE token for gpuctl'
complete -c gpuctl -n '__gpuctl_at export' -s h -l help -d 'show this text'

complete -c gpuctl -n '__gpuctl_at export rbac' -l for -x -a 'views evict all' -d 'what the account has to be able to do'
complete -c gpuctl -n '__gpuctl_at export rbac' -l namespace -x -d 'where account and Lease live'
complete -c gpuctl -n '__gpuctl_at export rbac' -l service-account -x -d 'who gets the rights'
complete -c gpuctl -n '__gpuctl_at export rbac' -s h -l help -d 'show this text'

complete -c gpuctl -n '__gpuctl_at export pve-role' -l for -x -a 'views migrate' -d 'what the token has to be able to do'
complete -c gpuctl -n '__gpuctl_at export pve-role' -l user -x -d 'the user that is made'
complete -c gpuctl -n '__gpuctl_at export pve-role' -l token -x -d 'its token'
complete -c gpuctl -n '__gpuctl_at export pve-role' -l role -x -d 'the role that both get'
complete -c gpuctl -n '__gpuctl_at export pve-role' -s h -l help -d 'show this text'

complete -c gpuctl -n '__gpuctl_at config' -a init -d 'Write a commented configuration file to start from'
complete -c gpuctl -n '__gpuctl_at config' -a view -d 'Show the settings in force: flag over environment over file over default'
complete -c gpuctl -n '__gpuctl_at config' -a use-context -d 'Make CONTEXT the current one of the configuration file'
complete -c gpuctl -n '__gpuctl_at config' -a check -d 'Check a configuration file: every fault with its line, and what is odd'
complete -c gpuctl -n '__gpuctl_at config' -a contexts -d 'List the contexts of the configuration file; * marks the current one'
complete -c gpuctl -n '__gpuctl_at config' -s h -l help -d 'show this text'

complete -c gpuctl -n '__gpuctl_at config init' -l path -r -F -d 'write there; - is stdout'
complete -c gpuctl -n '__gpuctl_at config init' -l force -d 'replace a file that exists'
complete -c gpuctl -n '__gpuctl_at config init' -s h -l help -d 'show this text'

complete -c gpuctl -n '__gpuctl_at config view' -l origin -d 'say where each value came from'
complete -c gpuctl -n '__gpuctl_at config view' -s h -l help -d 'show this text'

complete -c gpuctl -n '__gpuctl_at config use-context' -s h -l help -d 'show this text'
complete -c gpuctl -n '__gpuctl_at config use-context' -a '(__gpuctl_live contexts)'

complete -c gpuctl -n '__gpuctl_at config check' -s h -l help -d 'show this text'
complete -c gpuctl -n '__gpuctl_at config check' -F

complete -c gpuctl -n '__gpuctl_at config contexts' -s h -l help -d 'show this text'

complete -c gpuctl -n '__gpuctl_at demo' -a reset -d 'Forget what was moved in the demo, so that it tells its story from the beginning'
complete -c gpuctl -n '__gpuctl_at demo' -s h -l help -d 'show this text'

complete -c gpuctl -n '__gpuctl_at demo reset' -s h -l help -d 'show this text'

complete -c gpuctl -n '__gpuctl_at version' -s h -l help -d 'show this text'

complete -c gpuctl -n '__gpuctl_at completion' -s h -l help -d 'show this text'
complete -c gpuctl -n '__gpuctl_at completion' -a 'bash zsh fish'

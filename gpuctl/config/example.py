"""The commented file that `gpuctl config init` writes.

Valid as it stands and without warnings; the values of `policy` are the defaults. Tests hold it
to both.
"""

from __future__ import annotations

EXAMPLE = """\
# gpuctl's configuration. Check it after each edit with: gpuctl config check
# A flag beats an environment variable, that beats this file, this file beats the defaults;
# `gpuctl config view --origin` shows which one won.
#
# Secrets do not belong in here: name a file of mode 0600 (..._file) or an environment variable
# (..._env). Under systemd, LoadCredential= puts one at /run/credentials/UNIT/NAME.
# Relative file names are taken from this file's folder.

# The context that is used unless --context or GPUCTL_CONTEXT names another.
current_context: lab

contexts:
  lab:
    cluster: lab
    prometheus:
      url: http://localhost:9090      # any path prefix; also Thanos, Mimir, VictoriaMetrics
      # token_file: prom.token        # a bearer token; or username and password_file
      # ca_file: ca.pem               # a CA of your own; client_cert and client_key for mutual TLS
      # headers: {X-Scope-OrgID: lab}
      # selector: 'cluster="lab"'     # added to every query
    # exporters: ["http://gpu-node-1:9400/metrics"]  # scrape these instead of asking Prometheus
    # labels:
    #   node: [node, Hostname, instance]             # where the node's name is, best first
    #   node_map: {10.9.8.7: gpu-node-1}             # what a label says -> the node's name
    # metrics:
    #   aliases: {utilization: [my_gpu_util]}        # other names for a metric
    # kubernetes: {kubeconfig: ~/.kube/config, context: lab-admin}   # or {in_cluster: true}
    # proxmox:
    #   endpoints: ["https://pve-1:8006", "https://pve-2:8006"]
    #   token_id: gpuctl@pve!oncall
    #   token_file: pve.token
    #   ca_file: pve-ca.pem                          # or fingerprint, fingerprints: {host: SHA-256}
    #   kubernetes_nodes: {"101": gpu-node-1}        # VMs that are Kubernetes nodes, if not found

# What follows are the defaults; leave out what suits you.
policy:
  hot_above: 90                       # hot: over this utilization (percent) at every sample ...
  hot_for: 5m                         # ... of this long
  # hot_above_by_profile: {7g.80gb: 85}   # the mark of MIG instances of a profile
  clear_below: 80                     # what a loop found hot stays so until under this all the time
  idle_below: 30                      # idle: under this over the same time
  target_spread: 20                   # balance until cards differ by no more points than this
  strategy: least-loaded              # or headroom, pack, fragmentation, simple
  # weights: {compute: 60, memory: 15, spread: 25, fragmentation: 0, hot: 80}
  critical_priority: 1000000          # pods of this priority and over are never moved
  protected_namespaces: [kube-system]
  classes:
    training: {pods: "app in (train)", vm_tags: [training]}
    inference: {pods: "tier=inference"}
  limits:
    moves_per_run: 5
    moves_per_hour: 10
    parallel: 1                       # moves at the same time, in all
    per_node: 1                       # ... and on one node
    cooldown: 30m                     # before the same workload moves again
    metrics_max_age: 1m               # older samples are stale
    min_coverage: 90                  # percent of GPU nodes that must have fresh metrics

# notify:
#   slack: {webhook_file: slack.webhook}
#   pagerduty: {routing_key_file: pagerduty.key}

loop: {mode: advise}                  # off, advise or act
"""

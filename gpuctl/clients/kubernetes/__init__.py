"""The Kubernetes API: login by the official library, answers as raw bytes read by own structs.

`from gpuctl.clients.kubernetes.client import KubernetesClient`. Nothing here is imported, and the
library least of all, before a command asks for a cluster.
"""

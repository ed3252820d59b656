"""gpuctl: see, explain and undo GPU load imbalance on Kubernetes and Proxmox VE."""

__version__ = "0.1.0"

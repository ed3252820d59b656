"""How good a home a node or a GPU is for a new workload."""

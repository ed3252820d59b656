"""Holds on Kubernetes nodes: a cordon, or a taint that makes the scheduler prefer other nodes."""

from __future__ import annotations

from dataclasses import dataclass

from gpuctl.actions.steps import Hold
from gpuctl.clients.kubernetes.client import KubernetesClient
from gpuctl.clients.kubernetes.problems import NotFoundError

#: The taint's value is the run that put it on.
TAINT = "gpuctl.io/evicting"
_SOFT = "PreferNoSchedule"


@dataclass(frozen=True, slots=True)
class KubernetesHolder:
    """The holder of one cluster. Raises BackendError."""

    client: KubernetesClient

    def is_on(self, hold: Hold) -> bool:
        """Whether the node is held already."""
        node = self.client.read_node(hold.node)
        if node is None:
            return False
        if hold.kind == "cordon":
            return node.spec.unschedulable
        return any(taint.key == TAINT and taint.effect == _SOFT for taint in node.spec.taints)

    def place(self, hold: Hold, run_id: str) -> None:
        """Put it on; nothing when it is on."""
        if hold.kind == "cordon":
            self.client.node.cordon(hold.node)
        else:
            self.client.node.add_soft_taint(hold.node, TAINT, run_id)

    def remove(self, hold: Hold) -> None:
        """Take it off; nothing when it is off, or the node is gone."""
        try:
            if hold.kind == "cordon":
                self.client.node.uncordon(hold.node)
            else:
                self.client.node.remove_soft_taint(hold.node, TAINT)
        except NotFoundError:
            return


@dataclass(frozen=True, slots=True)
class NoHolder:
    """Holds where no scheduler is there to be kept away (a simulation), or nothing may change."""

    def is_on(self, hold: Hold) -> bool:
        """Never."""
        return False

    def place(self, hold: Hold, run_id: str) -> None:
        """Nothing to do."""

    def remove(self, hold: Hold) -> None:
        """Nothing to do."""

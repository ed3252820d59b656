"""Where a workload landed: the device by fresh metrics, and whether it is a cooler one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from gpuctl.actions.interruption import Patience
from gpuctl.actions.selection import utilization_at
from gpuctl.errors import GpuctlError
from gpuctl.model.outcome import Landing
from gpuctl.model.snapshot import Snapshot

log = logging.getLogger(__name__)

# Exporters name a new pod within a collection or two of its start.
_LOOKS = 4
_BETWEEN_LOOKS_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Locator:
    """Finds a pod's device; without `observe` there are no metrics and only the node is known."""

    observe: Callable[[], Snapshot] | None

    def landing(
        self,
        pod: str,
        node: str,
        before_pct: float | None,
        patience: Patience,
        *,
        names_agree: bool = True,
    ) -> Landing:
        """Where `pod` runs; `before_pct` is the load of the device that its predecessor left.

        Labels that name it on another node than `node` are a predecessor's, unless metrics call
        nodes otherwise than Kubernetes does (`names_agree` False).
        """
        for look in range(_LOOKS if self.observe is not None else 0):
            if look and not patience.wait_running(_BETWEEN_LOOKS_SECONDS):
                break
            try:
                found = self._look(pod, node, before_pct, names_agree)
            except GpuctlError as exc:
                log.info("no metrics to see the landing by", extra={"why": exc.what})
                break
            if found is not None:
                return found
        return Landing(node=node)

    def _look(
        self, pod: str, node: str, before_pct: float | None, names_agree: bool
    ) -> Landing | None:
        assert self.observe is not None  # noqa: S101 - the caller has looked
        snapshot = self.observe()
        for one in snapshot.workloads:
            if one.id != pod:
                continue
            for place in one.placements:
                if place.gpu is not None and (place.node == node or not names_agree):
                    now_pct = utilization_at(place, snapshot.gpus)
                    return Landing(
                        node=node,
                        gpu=place.gpu,
                        mig_id=place.mig_id,
                        utilization_pct=now_pct,
                        cooler=is_cooler(now_pct, before_pct),
                    )
        return None


def is_cooler(now_pct: float | None, before_pct: float | None) -> bool | None:
    """Whether a device is less loaded than another one was; None when either is not known."""
    if now_pct is None or before_pct is None:
        return None
    return now_pct < before_pct


def landing_words(landing: Landing) -> str:
    """`gpu-b/2 at 31 %, cooler than the one it left`."""
    where = landing.node if landing.gpu is None else f"{landing.node}/{landing.gpu}"
    if landing.mig_id is not None:
        where += f":{landing.mig_id}"
    if landing.utilization_pct is None:
        return f"on {where}"
    judged = {True: ", cooler than the one it left", False: ", no cooler than the one it left"}
    words = judged[landing.cooler] if landing.cooler is not None else ""
    return f"on {where} at {landing.utilization_pct:.0f} %{words}"

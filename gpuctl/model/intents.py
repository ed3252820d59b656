"""Landing intents: where a running rebalance wants the successor of an evicted pod to go.

Written by the rebalance before each eviction and read by the scheduler extender. In a cluster they
are the one key `intents.json` of the ConfigMap `gpuctl-intents` in gpuctl's own namespace.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

from msgspec import Struct

CONFIG_MAP = "gpuctl-intents"
KEY = "intents.json"
LIFE = timedelta(minutes=10)


class Intent(Struct, frozen=True, kw_only=True):
    """One pod's successor and its node.

    `owner_uid`: UID of the controller (a ReplicaSet), which the successor shares with the evicted
    pod. `namespace`, `workload`: of the evicted pod, `namespace/name`. `gpu`: the planned device,
    a forecast only. `run_id` and `step` say who wrote it.
    """

    owner_uid: str
    namespace: str
    workload: str
    node: str
    gpu: int | None = None
    run_id: str
    step: str
    created_at: datetime
    expires_at: datetime

    def holds(self, now: datetime) -> bool:
        """Whether it is still to be honoured."""
        return self.created_at <= now + LIFE and now < self.expires_at


class IntentBook(Struct, frozen=True, kw_only=True):
    """`kind: intent_book`: every intent not withdrawn, expired ones possibly among them."""

    schema: Literal["gpuctl/v1"] = "gpuctl/v1"
    kind: Literal["intent_book"] = "intent_book"
    items: tuple[Intent, ...] = ()

"""What every object, list and refusal of the API has in common.

Items of a list carry neither kind nor apiVersion, and what is empty is mostly left out, so almost
every field has a default. Times are aware, in UTC.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec
from msgspec import Struct, field


class OwnerReference(Struct, frozen=True, kw_only=True, rename="camel"):
    """Who keeps an object; `controller` marks the one that replaces it."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class ObjectMeta(Struct, frozen=True, kw_only=True, rename="camel"):
    """Name, identity and version of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int | None = None
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """What replaces the object when it goes."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class ListMeta(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where a list stands; `continue_token` is there when another page follows."""

    resource_version: str = ""
    continue_token: str = field(default="", name="continue")
    remaining_item_count: int | None = None


class Condition(Struct, frozen=True, kw_only=True, rename="camel"):
    """One condition of a pod, a node or a budget. `status` is `True`, `False` or `Unknown`."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class LabelRequirement(Struct, frozen=True, kw_only=True, rename="camel"):
    """One condition on one label."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Struct, frozen=True, kw_only=True, rename="camel"):
    """Conditions on labels that must all hold; without any it selects everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelRequirement, ...] = ()


class OnlyMetadata(Struct, frozen=True, kw_only=True, rename="camel"):
    """Any object of which the metadata is enough."""

    metadata: ObjectMeta = ObjectMeta()


class MetadataList(Struct, frozen=True, kw_only=True, rename="camel"):
    """A page of objects of any kind."""

    metadata: ListMeta = ListMeta()
    items: tuple[OnlyMetadata, ...] | None = ()


class WatchLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """One line of a watch; what `object` is depends on `type`."""

    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"{}")


class AccessStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to "may I?"."""

    allowed: bool = False
    reason: str = ""


class AccessReview(Struct, frozen=True, kw_only=True, rename="camel"):
    """A SelfSubjectAccessReview."""

    status: AccessStatus = AccessStatus()


class Version(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the server is."""

    git_version: str = ""


class StatusCause(Struct, frozen=True, kw_only=True, rename="camel"):
    """One reason among several."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a failure is about."""

    name: str = ""
    group: str = ""
    kind: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int | None = None


class StatusMeta(Struct, frozen=True, kw_only=True, rename="camel"):
    """The token that goes on after an expired one."""

    continue_token: str = field(default="", name="continue")


class Status(Struct, frozen=True, kw_only=True, rename="camel"):
    """The API's own report of a failure. `reason` is Kubernetes', not HTTP's."""

    kind: str = ""
    metadata: StatusMeta = StatusMeta()
    message: str = ""
    reason: str = ""
    details: StatusDetails = StatusDetails()
    code: int | None = None

    def causes(self, reason: str) -> Iterator[StatusCause]:
        """The causes with this reason."""
        return (cause for cause in self.details.causes if cause.reason == reason)

"""What gpuctl may do to a node: cordon it, taint it softly, annotate it, and undo all of these.

Each write names the version that was read just before, so that nobody's taint is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpuctl.clients.http import Answer
from gpuctl.clients.kubernetes import reading as r
from gpuctl.clients.kubernetes.problems import Access, ConflictError, NotFoundError
from gpuctl.clients.kubernetes.session import MERGE_PATCH, ApiSession, Call
from gpuctl.clients.kubernetes.wire import Node, Taint

SOFT = "PreferNoSchedule"
# Kubelets update their node every few seconds; each try reads it anew.
_MOST_CONFLICTS = 4

Patch = dict[str, Any]


class NodeMarks:
    """Changes of nodes. Each gives the node afterwards and True when it changed anything.

    All raise NotFoundError for an unknown node and ForbiddenError without `patch nodes`.
    """

    def __init__(self, session: ApiSession) -> None:
        self._session = session

    def cordon(self, name: str) -> tuple[Node, bool]:
        """Keep the scheduler from the node."""
        return self._change(name, lambda node: _unschedulable(node, wanted=True))

    def uncordon(self, name: str) -> tuple[Node, bool]:
        """Let the scheduler use the node again."""
        return self._change(name, lambda node: _unschedulable(node, wanted=False))

    def add_soft_taint(self, name: str, key: str, value: str = "") -> tuple[Node, bool]:
        """Make the scheduler prefer other nodes; a taint of this key is replaced."""
        wanted = Taint(key=key, value=value, effect=SOFT)

        def patch(node: Node) -> Patch | None:
            if wanted in node.spec.taints:
                return None
            kept = [taint for taint in node.spec.taints if not _is(taint, key)]
            return _taints([*kept, wanted])

        return self._change(name, patch)

    def remove_soft_taint(self, name: str, key: str) -> tuple[Node, bool]:
        """Take the taint of this key off again; others stay."""

        def patch(node: Node) -> Patch | None:
            kept = [taint for taint in node.spec.taints if not _is(taint, key)]
            return None if len(kept) == len(node.spec.taints) else _taints(kept)

        return self._change(name, patch)

    def annotate(self, name: str, annotations: Mapping[str, str | None]) -> tuple[Node, bool]:
        """Set annotations; None removes one."""

        def patch(node: Node) -> Patch | None:
            present = node.metadata.annotations
            changed = {k: v for k, v in annotations.items() if present.get(k) != v}
            return {"metadata": {"annotations": changed}} if changed else None

        return self._change(name, patch)

    def _change(self, name: str, patch_for: Callable[[Node], Patch | None]) -> tuple[Node, bool]:
        for attempt in range(1, _MOST_CONFLICTS + 1):
            node = self._read(name)
            patch = patch_for(node)
            if patch is None:
                return node, False
            patch.setdefault("metadata", {})["resourceVersion"] = node.metadata.resource_version
            try:
                return self._patched(name, patch), True
            except ConflictError:
                if attempt == _MOST_CONFLICTS:
                    raise
        raise AssertionError("the loop returns or raises")

    def _read(self, name: str) -> Node:
        node = r.read_one(self._session, r.NODES, Node, name)
        if node is None:
            raise NotFoundError(
                f"there is no node {name}",
                answer=Answer(404, {}, b""),
                said=None,
                cause="the Kubernetes API does not know it",
                hint="kubectl get nodes lists those it knows",
            )
        return node

    def _patched(self, name: str, patch: Patch) -> Node:
        call = Call(
            "PATCH",
            r.NODES.path(name),
            Access("patch", "nodes"),
            query=(("fieldValidation", "Strict"),),
            body=patch,
            content_type=MERGE_PATCH,
        )
        return r.decoded(self._session.expect(call), Node, self._session, call)


def _unschedulable(node: Node, *, wanted: bool) -> Patch | None:
    if node.spec.unschedulable == wanted:
        return None
    # null removes the key, which is how an uncordoned node looks.
    return {"spec": {"unschedulable": True if wanted else None}}


def _is(taint: Taint, key: str) -> bool:
    return taint.key == key and taint.effect == SOFT


def _taints(taints: list[Taint]) -> Patch:
    """A merge patch replaces lists as a whole, so every field of each taint goes back."""
    listed = [
        {"key": t.key, "value": t.value, "effect": t.effect, "timeAdded": t.time_added}
        for t in taints
    ]
    kept = [{name: value for name, value in taint.items() if value} for taint in listed]
    return {"spec": {"taints": kept or None}}

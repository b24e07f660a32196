"""What Nodes say of their recovery: the annotation and Muster's taint, as the informer of all nodes shows them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from admission.node_recovery.view import TaintOwner
from admission.wire import WireNode, WireTaint
from queues.api import names
from queues.workload import NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMarks:
    """What a Node says of its recovery. Empty: nothing."""

    annotation: str = ""
    taint: TaintOwner = TaintOwner.ABSENT


NO_MARKS: Final = NodeMarks()


class MarkedNodes:
    """Nodes that say something of their recovery, by name. What was written counts until the watch shows it."""

    def __init__(self) -> None:
        #: Called when something has changed.
        self.changed: Callable[[], None] = lambda: None
        self._marks: dict[NodeName, NodeMarks] = {}
        self._names: dict[str, NodeName] = {}
        #: Versions of nodes that were written, until the watch shows them or a newer one.
        self._written: dict[NodeName, int] = {}

    def seen(self, found: Any, raw: msgspec.Raw) -> None:
        """A Node as its informer shows it."""
        node: WireNode = found
        name, version = NodeName(node.metadata.name), _version(node)
        if version < self._written.get(name, 0):
            return
        self._written.pop(name, None)
        self._put(name, node)

    def written(self, content: bytes) -> None:
        """A Node as a write has left it."""
        node = msgspec.json.decode(content, type=WireNode)
        name = NodeName(node.metadata.name)
        self._written[name] = _version(node)
        self._put(name, node)

    def gone(self, uid: str) -> None:
        """A Node is gone."""
        if (name := self._names.pop(uid, None)) is not None:
            self._marks.pop(name, None)
            self._written.pop(name, None)
            self.changed()

    def all(self) -> Mapping[NodeName, NodeMarks]:
        """What each node says that says something."""
        return self._marks

    def of(self, node: NodeName) -> NodeMarks:
        """What one node says."""
        return self._marks.get(node, NO_MARKS)

    def _put(self, name: NodeName, node: WireNode) -> None:
        marks = marks_of(node)
        if marks == self._marks.get(name, NO_MARKS):
            return
        self._names[node.metadata.uid] = name
        if marks == NO_MARKS:
            self._marks.pop(name, None)
        else:
            self._marks[name] = marks
        self.changed()


def marks_of(node: WireNode) -> NodeMarks:
    """What a Node says of its recovery."""
    return NodeMarks(
        annotation=(node.metadata.annotations or {}).get(names.RECOVERY, ""),
        taint=_owner(node.spec.taints or ()),
    )


def _owner(taints: tuple[WireTaint, ...]) -> TaintOwner:
    values = [taint.value for taint in taints if taint.key == names.GPU_FAULT]
    if not values:
        return TaintOwner.ABSENT
    return TaintOwner.MUSTER if names.GPU_FAULT_BY_MUSTER in values else TaintOwner.PERSON


def _version(node: WireNode) -> int:
    """Versions of one kind can be compared as numbers (KEP-5504); 0: this one is no number."""
    text = node.metadata.resource_version
    return int(text) if text.isascii() and text.isdecimal() else 0

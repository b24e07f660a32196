"""Objects of the cluster in the forms in which commands read them: only the needed fields, decoded by msgspec."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from admission.wire import Quantity, WireMetadata, WirePodStatus, WireStruct

#: The level of topology that is a single node.
HOST: Final = "kubernetes.io/hostname"


class ObjectList(WireStruct):
    """All objects of a kind, each to be decoded by itself."""

    items: tuple[msgspec.Raw, ...] | None = None


class LeaseSpec(WireStruct):
    """Of a Lease: when its holder was last heard of."""

    renew_time: str | None = None


class Lease(WireStruct):
    """A Lease."""

    metadata: WireMetadata
    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)


class LabelledLevel(WireStruct):
    """A level of a Topology."""

    node_label: str = ""


class LabelledLevels(WireStruct):
    """The levels of a Topology."""

    levels: tuple[LabelledLevel, ...] | None = None


class TopologyObject(WireStruct):
    """A Topology."""

    metadata: WireMetadata
    spec: LabelledLevels = msgspec.field(default_factory=LabelledLevels)


def levels_of(topologies: Iterable[TopologyObject]) -> Iterator[list[str]]:
    """Node labels from the outermost level to the innermost one, of each Topology in the order of their names."""
    for topology in sorted(topologies, key=lambda topology: topology.metadata.name):
        yield [level.node_label for level in topology.spec.levels or ()]


class ClosureSpec(WireStruct):
    """What the author of a Reservation or NodeDrain wrote."""

    queue: str | None = None
    resources: dict[str, Quantity] | None = None
    nodes: tuple[str, ...] | None = None
    node_selector: dict[str, str] | None = None
    from_: str | None = msgspec.field(default=None, name="from")
    at: str | None = None
    for_: str | None = msgspec.field(default=None, name="for")


class ClosureStatus(WireStruct):
    """What Muster says of a Reservation or NodeDrain. Empty: nothing yet."""

    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    nodes: tuple[str, ...] | None = None
    closes_from: str | None = None


class ClosureObject(WireStruct):
    """A Reservation or NodeDrain."""

    metadata: WireMetadata
    spec: ClosureSpec = msgspec.field(default_factory=ClosureSpec)
    status: ClosureStatus = msgspec.field(default_factory=ClosureStatus)

    @property
    def begins(self) -> str:
        """When its window begins, as it was written."""
        return self.spec.from_ or self.spec.at or ""


class ShellStatus(WirePodStatus):
    """How far a pod is, and why it has failed."""

    reason: str | None = None
    message: str | None = None

    @property
    def why(self) -> str:
        """Why it has failed, as far as it says so."""
        return ": ".join(filter(None, (self.reason, self.message))) or f"it is {self.phase or 'gone'}"


class ShellPod(WireStruct):
    """A pod with a shell."""

    metadata: WireMetadata
    status: ShellStatus = msgspec.field(default_factory=ShellStatus)


class KindResource(WireStruct):
    """A kind of objects, and where they are served."""

    api_version: str
    plural: str
    kind: str


class KindSpec(WireStruct):
    """Of a WorkloadKind what a command needs to find objects and their pods."""

    resource: KindResource
    name_labels: tuple[str, ...] | None = None
    #: Where its queue is handed on to: then its objects do not wait themselves.
    passes_on: tuple[Any, ...] | None = None
    #: What of such an object waits.
    waits_as: str = ""


class KindDocument(WireStruct):
    """A WorkloadKind."""

    spec: KindSpec

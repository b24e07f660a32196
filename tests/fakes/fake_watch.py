"""What Muster sees of the fake cluster: events that come late, kind by kind, through the real translation."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from admission import wire
from admission.decode.admin_documents import command_of, queue_fact, topology_fact
from admission.decode.nodes import node_fact
from admission.facts.changes import Change, Fact, FactKind
from admission.reconcile.pod_manifest import with_successor
from admission.workloads.context import Context, in_context
from admission.workloads.kinds import POD_GROUP, VOLCANO_JOB, KindSupport, known_kinds, read_pod
from queues import kind_names
from queues.kind_names import KindName
from tests.fakes.fake_objects import Document


@dataclass(frozen=True, slots=True)
class _Kind:
    fact_kind: FactKind
    read: Callable[[bytes], Fact | None]
    workload_kind: KindName | None = None


def _workloads(support: KindSupport) -> _Kind:
    reader = support.reader
    assert reader is not None
    return _Kind(
        FactKind.WORKLOAD,
        lambda raw: reader.fact(msgspec.json.decode(raw, type=reader.wire), msgspec.Raw(raw)),
        support.kind,
    )


def _pod(raw: bytes) -> Fact:
    pod = msgspec.json.decode(raw, type=wire.WirePod)
    return with_successor(read_pod(pod), pod.status, raw)


KINDS = {
    "nodes": _Kind(FactKind.NODE, lambda raw: node_fact(msgspec.json.decode(raw, type=wire.WireNode))),
    "queues": _Kind(FactKind.QUEUE, queue_fact),
    "topologies": _Kind(FactKind.TOPOLOGY, topology_fact),
    "jobs": _workloads(known_kinds().by_kind[kind_names.JOB]),
    "vcjobs": _workloads(VOLCANO_JOB),
    "groups": _workloads(POD_GROUP),
    "commands": _Kind(
        FactKind.COMMAND, lambda raw: command_of(msgspec.json.decode(raw, type=wire.WireCommand))
    ),
    "pods": _Kind(FactKind.POD, _pod),
}


@dataclass(slots=True)
class FakeWatch:
    """What the watch still owes, and what it has told."""

    #: Events that Muster has not seen, by kind: streams of different kinds overtake one another.
    owed: dict[str, list[tuple[str, bytes | None]]] = field(
        default_factory=lambda: {kind: [] for kind in KINDS}
    )
    #: As Muster has seen it.
    known: dict[tuple[str, str], Fact] = field(default_factory=dict)

    def owe(self, kind: str, key: str, document: Document | None) -> None:
        """An object is now like this; None: it is gone."""
        self.owed[kind].append((key, None if document is None else json.dumps(document).encode()))

    def deliver(self, most: dict[str, int] | None = None) -> list[Change]:
        """Up to so many events of each kind (None: all), as the informers would tell them."""
        changes: list[Change] = []
        for kind, events in self.owed.items():
            count = len(events) if most is None else most.get(kind, 0)
            for key, raw in events[:count]:
                fact = None if raw is None else _fact(kind, raw)
                # An equal value is no news.
                if fact != self.known.get((kind, key)):
                    changes.append(_change(kind, key, fact))
                    if fact is None:
                        del self.known[kind, key]
                    else:
                        self.known[kind, key] = fact
            del events[:count]
        return changes

    def list_anew(self, objects: dict[str, dict[str, Document]]) -> list[Change]:
        """A new informer: everything there is now, and nothing of what happened in between."""
        for events in self.owed.values():
            events.clear()
        self.known = {
            (kind, key): fact
            for kind, documents in objects.items()
            for key, document in documents.items()
            if (fact := _fact(kind, json.dumps(document).encode())) is not None
        }
        return self.everything_known()

    def everything_known(self) -> list[Change]:
        """All that Muster has been told, as additions."""
        return [_change(kind, key, fact) for (kind, key), fact in self.known.items()]


def _fact(kind: str, raw: bytes) -> Fact | None:
    fact = KINDS[kind].read(raw)
    return None if fact is None else in_context(fact, Context())


def _change(kind: str, key: str, fact: Fact | None) -> Change:
    return Change(KINDS[kind].fact_kind, key, fact, KINDS[kind].workload_kind)

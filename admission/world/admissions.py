"""Admissions as the ledger has them: by workload, by node, by adopted pod, and which of them are closed. Pure."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Generic, TypeVar

from admission.facts import PodFact
from queues.admissions import Admission, AdmissionState
from queues.workload import AdmissionId, NodeName, WorkloadKey

Key = TypeVar("Key")
Member = TypeVar("Member")


class KeyIndex(Generic[Key, Member]):
    """Which members belong under a key; a member may belong under several."""

    __slots__ = ("_members",)

    def __init__(self) -> None:
        self._members: dict[Key, set[Member]] = {}

    def add(self, key: Key, member: Member) -> None:
        """The member belongs under the key."""
        self._members.setdefault(key, set()).add(member)

    def discard(self, key: Key, member: Member) -> None:
        """It does not (any more)."""
        members = self._members.get(key)
        if members is not None:
            members.discard(member)
            if not members:
                del self._members[key]

    def pop(self, key: Key) -> AbstractSet[Member]:
        """Forget a key; what was under it."""
        return self._members.pop(key, frozenset())

    def of(self, key: Key) -> AbstractSet[Member]:
        """What is under a key now. It changes with the index: copy what outlives the next change."""
        return self._members.get(key, frozenset())

    def __contains__(self, key: object) -> bool:
        return key in self._members


class AdmissionIndex:
    """Part of the world: the admissions that hold seats."""

    def __init__(self) -> None:
        #: Admissions that are not closed.
        self.admissions: dict[AdmissionId, Admission] = {}
        #: Admissions that the ledger has closed, with their workload, as long as that is there.
        self.closed: dict[AdmissionId, WorkloadKey] = {}
        #: Admissions named on live pods of which the ledger has to say whether it closed them.
        self.unknown: set[AdmissionId] = set()
        #: Admissions that the ledger does not know: their pods come from another ledger.
        self._foreign: set[AdmissionId] = set()
        self._of: KeyIndex[WorkloadKey, AdmissionId] = KeyIndex()
        self._closed_of: KeyIndex[WorkloadKey, AdmissionId] = KeyIndex()
        self._on_node: KeyIndex[NodeName, AdmissionId] = KeyIndex()
        #: Pod uid → the open admission that adopted it.
        self._adopted_by: dict[str, AdmissionId] = {}

    def put(self, admission: Admission) -> Admission | None:
        """An admission was opened or changed; a closed one leaves. Returns it as it was before, if it was open."""
        before = self.admissions.pop(admission.id, None)
        if admission.state is AdmissionState.CLOSED:
            self._of.discard(admission.workload, admission.id)
            for seat in admission.seats:
                self._on_node.discard(seat.node, admission.id)
            for uid in admission.adopted or ():
                self._adopted_by.pop(uid, None)
            self._put_closed(admission.id, admission.workload)
        else:
            self.admissions[admission.id] = admission
            self._of.add(admission.workload, admission.id)
            self._adopted_by.update(dict.fromkeys(admission.adopted or (), admission.id))
            for seat in admission.seats:
                self._on_node.add(seat.node, admission.id)
        return before

    def _put_closed(self, id_: AdmissionId, key: WorkloadKey) -> None:
        self.closed[id_] = key
        self._closed_of.add(key, id_)

    def note_unknown(self, admission: AdmissionId) -> None:
        """A live pod names this admission. It may be closed long ago: a deposed leader released the pod."""
        if not (admission in self.admissions or admission in self.closed or admission in self._foreign):
            self.unknown.add(admission)

    def learn_closed(self, asked: Iterable[AdmissionId], closed: Mapping[AdmissionId, WorkloadKey]) -> None:
        """What the ledger says about ``unknown`` admissions: closed, of these workloads. The rest are not in it."""
        self.unknown.difference_update(asked)
        self._foreign.update(set(asked) - closed.keys())
        for id_, key in closed.items():
            self._put_closed(id_, key)

    def forget(self, key: WorkloadKey) -> None:
        """The workload is gone: its closed admissions no longer matter."""
        for id_ in self._closed_of.pop(key):
            self.closed.pop(id_, None)

    def of(self, key: WorkloadKey) -> list[Admission]:
        """Admissions of a workload that are not closed, oldest first."""
        return [self.admissions[id_] for id_ in sorted(self._of.of(key))]

    def holds(self, key: WorkloadKey) -> bool:
        """Whether a workload has an admission that is not closed."""
        return key in self._of

    def seated_on(self, node: NodeName) -> set[WorkloadKey]:
        """Workloads with seats there."""
        return {self.admissions[id_].workload for id_ in self._on_node.of(node)}

    def admission_of(self, pod: PodFact) -> Admission | None:
        """The open admission that has adopted the pod, else the one that is written on it."""
        id_ = self._adopted_by.get(pod.uid, pod.admission)
        return None if id_ is None else self.admissions.get(id_)

    def covers(self, pod: PodFact, owner: WorkloadKey | None) -> bool:
        """Whether the pod's use is covered by a seat of an open admission of this workload."""
        admission = self.admission_of(pod)
        return admission is not None and admission.workload == owner

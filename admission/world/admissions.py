"""Admissions as the ledger has them: by workload, by node, by adopted pod, and which of them are closed. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from admission.facts import PodFact
from admission.workloads.seats import beyond
from queues.admissions import Admission, AdmissionState, Seat
from queues.resources import Resources
from queues.workload import AdmissionId, NodeName, WorkloadKey

#: Admissions with no more seats are searched anew for each pod: most have one.
_FEW: Final = 4
#: Members under one key that are looked through one by one.
_FEW_MEMBERS: Final = 4

Key = TypeVar("Key")
Member = TypeVar("Member")


class KeyIndex(Generic[Key, Member]):
    """Which members belong under a key; a member may belong under several."""

    __slots__ = ("_members",)

    def __init__(self) -> None:
        #: Under most keys is one member, of hundreds of thousands of keys: a set each would take four times the memory.
        self._members: dict[Key, tuple[Member, ...] | set[Member]] = {}

    def add(self, key: Key, member: Member) -> None:
        """The member belongs under the key."""
        members = self._members.get(key, ())
        if isinstance(members, set):
            members.add(member)
        elif member not in members:
            more = (*members, member)
            self._members[key] = set(more) if len(more) > _FEW_MEMBERS else more

    def discard(self, key: Key, member: Member) -> None:
        """It does not (any more)."""
        members = self._members.get(key, ())
        if isinstance(members, set):
            members.discard(member)
        else:
            members = tuple(each for each in members if each != member)
        if members:
            self._members[key] = members
        else:
            self._members.pop(key, None)

    def pop(self, key: Key) -> Collection[Member]:
        """Forget a key; what was under it."""
        return self._members.pop(key, ())

    def of(self, key: Key) -> Collection[Member]:
        """What is under a key now. It changes with the index: copy what outlives the next change."""
        return self._members.get(key, ())

    def keys(self) -> list[Key]:
        """Every key with something under it."""
        return list(self._members)

    def __contains__(self, key: object) -> bool:
        return key in self._members


@dataclass(frozen=True, slots=True)
class SeatPlaces:
    """Where the seats of one admission are among its seats."""

    #: By pod set and ordinal.
    by_seat: Mapping[tuple[str, int], int]
    by_node: Mapping[NodeName | None, Sequence[int]]

    @classmethod
    def of(cls, admission: Admission) -> "SeatPlaces":
        """The seats of an admission, ended ones too: they never change."""
        by_node: dict[NodeName | None, list[int]] = {}
        for index, seat in enumerate(admission.seats):
            by_node.setdefault(seat.node, []).append(index)
        return cls(
            {(seat.pod_set, seat.ordinal): index for index, seat in enumerate(admission.seats)}, by_node
        )


class AdmissionIndex:
    """Part of the world: the admissions that hold seats."""

    def __init__(self) -> None:
        #: Admissions that are not closed.
        self.admissions: dict[AdmissionId, Admission] = {}
        #: Admissions that the ledger has closed, with their workload, as long as that is there.
        self.closed: dict[AdmissionId, WorkloadKey] = {}
        #: Admissions named on live pods of which the ledger has to say whether it closed them.
        self.unknown: set[AdmissionId] = set()
        #: Admissions that the ledger does not know and live pods name: the pods come from another ledger.
        self._foreign: set[AdmissionId] = set()
        self._of: KeyIndex[WorkloadKey, AdmissionId] = KeyIndex()
        self._closed_of: KeyIndex[WorkloadKey, AdmissionId] = KeyIndex()
        self._on_node: KeyIndex[NodeName, AdmissionId] = KeyIndex()
        #: Pod uid → the open admission that adopted it.
        self._adopted_by: dict[str, AdmissionId] = {}
        #: Of admissions with many seats.
        self._places: dict[AdmissionId, SeatPlaces] = {}

    def put(self, admission: Admission) -> Admission | None:
        """An admission was opened or changed; a closed one leaves. Returns it as it was before, if it was open."""
        before = self.admissions.pop(admission.id, None)
        if admission.state is AdmissionState.CLOSED:
            self._of.discard(admission.workload, admission.id)
            for seat in admission.seats:
                self._on_node.discard(seat.node, admission.id)
            self._places.pop(admission.id, None)
            for uid in admission.adopted or ():
                # A pod that outgrew its seat is adopted a second time, by a later admission.
                if self._adopted_by.get(uid) == admission.id:
                    del self._adopted_by[uid]
            self._put_closed(admission.id, admission.workload)
        else:
            self.admissions[admission.id] = admission
            self._of.add(admission.workload, admission.id)
            for uid in admission.adopted or ():
                self._adopted_by[uid] = max(admission.id, self._adopted_by.get(uid, admission.id))
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

    def forget_foreign(self, admission: AdmissionId) -> None:
        """A pod that named this admission is gone. If another one names it, the ledger is asked once more."""
        self._foreign.discard(admission)
        self.unknown.discard(admission)

    def forget(self, key: WorkloadKey) -> None:
        """The workload is gone: its closed admissions no longer matter."""
        for id_ in self._closed_of.pop(key):
            self.closed.pop(id_, None)

    def of(self, key: WorkloadKey) -> list[Admission]:
        """Admissions of a workload that are not closed, oldest first."""
        if key not in self._of:
            return []
        return [self.admissions[id_] for id_ in sorted(self._of.of(key))]

    def closed_on(self, key: WorkloadKey, pods: Iterable[PodFact]) -> frozenset[AdmissionId]:
        """Closed admissions of a workload that pods name."""
        named = [pod.admission for pod in pods if pod.admission is not None]
        return frozenset(id_ for id_ in named if self.closed.get(id_) == key) if named else frozenset()

    def holds(self, key: WorkloadKey) -> bool:
        """Whether a workload has an admission that is not closed."""
        return key in self._of

    def holds_seats(self, id_: AdmissionId, seats: AbstractSet[int]) -> bool:
        """Whether an admission is open and has not given back any of these seats (indices)."""
        admission = self.admissions.get(id_)
        if admission is None or admission.state is not AdmissionState.OPEN:
            return False
        return not admission.ended & seats

    def seated_on(self, node: NodeName) -> set[WorkloadKey]:
        """Workloads with seats there."""
        return {self.admissions[id_].workload for id_ in self._on_node.of(node)}

    def admission_of(self, pod: PodFact) -> Admission | None:
        """The open admission that has adopted the pod, else the one that is written on it."""
        id_ = self._adopted_by.get(pod.uid, pod.admission)
        return None if id_ is None else self.admissions.get(id_)

    def workload_named(self, pod: PodFact) -> WorkloadKey | None:
        """The workload of the admission that a pod has; None: no admission that is known."""
        admission = self.admission_of(pod)
        if admission is not None:
            return admission.workload
        return None if pod.admission is None else self.closed.get(pod.admission)

    def covers(self, pod: PodFact, owner: WorkloadKey | None) -> bool:
        """Whether all of the pod's use is covered by a seat of an open admission of this workload."""
        return not self.uncovered(pod, owner)

    def uncovered(self, pod: PodFact, owner: WorkloadKey | None) -> Resources:
        """What a bound pod takes that no seat of this workload covers: all of it, what is beyond its seat, or nothing.

        A seat covers what is taken on its own node, as long as it is held.
        """
        admission = self.admission_of(pod)
        takes = pod.shape.takes
        if admission is None or admission.workload != owner:
            return takes
        seat = self._seat(admission, pod)
        return takes if seat is None else beyond(seat, takes)

    def _seat(self, admission: Admission, pod: PodFact) -> Seat | None:
        """The seat that a pod has in an admission; of a directed Job any seat on the pod's node. None: none."""
        index = (admission.adopted or {}).get(pod.uid)
        if index is None:
            places = self._places_of(admission)
            if pod.seat is not None:
                index = places.by_seat.get(pod.seat)
            else:
                held = (each for each in places.by_node.get(pod.node, ()) if each not in admission.ended)
                index = next(held, None)
        if index is None or index in admission.ended or admission.seats[index].node != pod.node:
            return None
        return admission.seats[index]

    def _places_of(self, admission: Admission) -> SeatPlaces:
        """Where the seats of an admission are; kept where it has many, since each of its pods asks."""
        places = self._places.get(admission.id)
        if places is None:
            places = SeatPlaces.of(admission)
            if len(admission.seats) > _FEW:
                self._places[admission.id] = places
        return places

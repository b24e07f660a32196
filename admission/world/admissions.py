"""Admissions as the ledger has them: by workload, by node, by adopted pod, and which of them are closed. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from admission.facts.pods import PodFact
from admission.workloads.inputs import PodOrigin, SeatIndices
from admission.workloads.seats import beyond, is_live
from queues.admissions import Admission, AdmissionState, ClosedAdmission, Seat
from queues.resources import Resources
from queues.workload import AdmissionId, NodeName, WorkloadKey

#: Admissions with no more seats are searched anew for each pod: most have one.
_FEW: Final = 4
#: Members under one key that are looked through one by one: a set of five takes as much memory as a tuple of ninety.
_FEW_MEMBERS: Final = 16

Key = TypeVar("Key")
Member = TypeVar("Member")


def replaced(rows: dict[Key, Member], key: Key, row: Member | None) -> Member | None:
    """Put a row in the place of the one under a key, which is returned. None if there is none any more, or was none.

    A dict from which a row is taken for each one that is put in grows to three times its rows.
    """
    before = rows.get(key)
    if row is not None:
        rows[key] = row
    elif before is not None:
        del rows[key]
    return before


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

    def move(self, member: Member, before: Iterable[Key], after: Iterable[Key]) -> None:
        """It belongs under other keys than before. None before: it is new; none after: it is gone."""
        for key in before:
            self.discard(key, member)
        for key in after:
            self.add(key, member)

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

    def copy(self) -> "KeyIndex[Key, Member]":
        """The same, to be changed by itself."""
        found = KeyIndex[Key, Member]()
        found._members = {
            key: set(each) if isinstance(each, set) else each for key, each in self._members.items()
        }
        return found


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


ClosedAdmissions = Mapping[AdmissionId, ClosedAdmission]


class AdmissionIndex:
    """Part of the world: the admissions that hold seats."""

    def __init__(self) -> None:
        #: Admissions that are not closed.
        self.admissions: dict[AdmissionId, Admission] = {}
        #: Admissions that the ledger has closed, as long as their workload is there, or a pod that it has left alone.
        self.closed: dict[AdmissionId, ClosedAdmission] = {}
        #: Admissions named on live pods: the ledger has to say whether it closed them.
        self.unknown: set[AdmissionId] = set()
        #: Admissions that the ledger does not know and live pods name: the pods come from another ledger.
        self._foreign: set[AdmissionId] = set()
        self._of: KeyIndex[WorkloadKey, AdmissionId] = KeyIndex()
        self._closed_of: KeyIndex[WorkloadKey, AdmissionId] = KeyIndex()
        self._on_node: KeyIndex[NodeName, AdmissionId] = KeyIndex()
        #: Pods that were let go for an admission of another workload than the one that they belong to now.
        self._left_alone: dict[str, AdmissionId] = {}
        self._names: KeyIndex[AdmissionId, str] = KeyIndex()
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
            closed = ClosedAdmission(admission.workload, admission.queue, admission.start)
            self._put_closed(admission.id, closed)
        else:
            self.admissions[admission.id] = admission
            self._of.add(admission.workload, admission.id)
            for uid in admission.adopted or ():
                self._adopted_by[uid] = max(admission.id, self._adopted_by.get(uid, admission.id))
            for seat in admission.seats:
                self._on_node.add(seat.node, admission.id)
        return before

    def _put_closed(self, id_: AdmissionId, closed: ClosedAdmission) -> None:
        self.closed[id_] = closed
        self._closed_of.add(closed.workload, id_)

    def note_unknown(self, admission: AdmissionId) -> None:
        """A live pod names this admission. It may be closed long ago: a deposed leader released the pod."""
        if not (admission in self.admissions or admission in self.closed or admission in self._foreign):
            self.unknown.add(admission)

    def learn_closed(self, asked: Iterable[AdmissionId], closed: ClosedAdmissions) -> set[WorkloadKey]:
        """What the ledger says about ``unknown`` admissions: these are closed, the rest are not in it.

        Returns their workloads.
        """
        self.unknown.difference_update(asked)
        self._foreign.update(set(asked) - closed.keys())
        for id_, each in closed.items():
            self._put_closed(id_, each)
        return {each.workload for each in closed.values()}

    def forget_foreign(self, admission: AdmissionId) -> None:
        """A pod that named this admission is gone. If another one names it, the ledger is asked once more."""
        self._foreign.discard(admission)
        self.unknown.discard(admission)

    def forget(self, key: WorkloadKey) -> None:
        """The workload is gone: its closed admissions matter only for pods that it has left alone."""
        for id_ in self._closed_of.pop(key):
            if id_ not in self._names:
                self.closed.pop(id_, None)

    def note_owner(self, uid: str, pod: PodFact | None, owner: WorkloadKey | None) -> None:
        """A pod belongs to this workload now; None if it is gone, or belongs to no workload."""
        left = None
        if pod is not None and pod.admission is not None and owner is not None:
            left = None if self.workload_named(pod) == owner else pod.admission
        before = self._left_alone.get(uid)
        if left == before:
            return
        if before is not None:
            del self._left_alone[uid]
            self._names.discard(before, uid)
            closed = self.closed.get(before)
            if closed is not None and before not in self._names and closed.workload not in self._closed_of:
                del self.closed[before]
        if left is not None:
            self._left_alone[uid] = left
            self._names.add(left, uid)

    def left_by(self, uid: str) -> Collection[WorkloadKey]:
        """The workload that has an open admission for which this pod of another one was let go; empty for none."""
        admission = self.admissions.get(self._left_alone.get(uid, AdmissionId(0)))
        return () if admission is None else (admission.workload,)

    def with_left(self, key: WorkloadKey, awaited: SeatIndices, pods: Mapping[str, PodFact]) -> SeatIndices:
        """``awaited``, and the seats of a workload with pods that belong to another one by now and are not bound yet.

        Bound, they count on their node; until then a pod that got such a seat would come up next to them.
        """
        left = [id_ for id_ in self._of.of(key) if id_ in self._names]
        return awaited if not left else {**awaited, **{id_: self._left(id_, awaited, pods) for id_ in left}}

    def _left(self, id_: AdmissionId, awaited: SeatIndices, pods: Mapping[str, PodFact]) -> frozenset[int]:
        admission, found = self.admissions[id_], set(awaited.get(id_, ()))
        for pod in (pods[uid] for uid in self._names.of(id_)):
            if not is_live(pod) or pod.gated or pod.node is not None or pod.namespace != admission.namespace:
                continue
            if pod.seat is None:
                return frozenset(range(len(admission.seats)))
            if (index := self._places_of(admission).by_seat.get(pod.seat)) is not None:
                found.add(index)
        return frozenset(found)

    def of(self, key: WorkloadKey) -> list[Admission]:
        """Admissions of a workload that are not closed, oldest first."""
        if key not in self._of:
            return []
        return [self.admissions[id_] for id_ in sorted(self._of.of(key))]

    def seat_count(self, key: WorkloadKey) -> int:
        """Number of seats in these, also those that were given back."""
        return sum(len(self.admissions[id_].seats) for id_ in self._of.of(key))

    def closed_on(self, key: WorkloadKey, pods: Iterable[PodFact]) -> frozenset[AdmissionId]:
        """Closed admissions of a workload that pods name."""
        named = [pod.admission for pod in pods if pod.admission is not None]
        if not named:
            return frozenset()
        return frozenset(id_ for id_ in named if id_ in self.closed and self.closed[id_].workload == key)

    def origins(self, key: WorkloadKey, pods: Iterable[PodFact]) -> dict[str, PodOrigin]:
        """Of pods (uid) that were let go for an admission of another workload: that admission.

        Their Job or PodGroup is gone, or another one is theirs now. Admissions that are not known are left out.
        """
        found: dict[str, PodOrigin] = {}
        for pod in pods:
            if pod.admission is None:
                continue
            known = self.admissions.get(pod.admission) or self.closed.get(pod.admission)
            if known is not None and known.workload != key:
                since = known.since if isinstance(known, ClosedAdmission) else known.start
                found[pod.uid] = PodOrigin(known.queue, since)
        return found

    def holds(self, key: WorkloadKey) -> bool:
        """Whether a workload has an admission that is not closed."""
        return key in self._of

    def holds_seats(self, id_: AdmissionId, seats: AbstractSet[int]) -> bool:
        """Whether an admission is open and has not given back any of these seats (indices)."""
        admission = self.admissions.get(id_)
        if admission is None or admission.state is not AdmissionState.OPEN:
            return False
        return not admission.ended & seats

    def seated_on(self, *nodes: NodeName) -> set[WorkloadKey]:
        """Workloads with seats on any of these nodes."""
        return {self.admissions[id_].workload for node in nodes for id_ in self._on_node.of(node)}

    def admission_of(self, pod: PodFact) -> Admission | None:
        """The open admission that has adopted the pod, else the one that is written on it."""
        id_ = self._adopted_by.get(pod.uid, pod.admission)
        return None if id_ is None else self.admissions.get(id_)

    def workload_named(self, pod: PodFact) -> WorkloadKey | None:
        """The workload of the admission that a pod has; None if it has no admission that is known."""
        admission = self.admission_of(pod)
        if admission is not None:
            return admission.workload
        closed = None if pod.admission is None else self.closed.get(pod.admission)
        return None if closed is None else closed.workload

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

    def has_seat(self, pod: PodFact, owner: WorkloadKey | None) -> bool:
        """Whether a bound pod has a seat of this workload on its node."""
        admission = self.admission_of(pod)
        return (
            admission is not None and admission.workload == owner and self._seat(admission, pod) is not None
        )

    def _seat(self, admission: Admission, pod: PodFact) -> Seat | None:
        """The seat that a pod has in an admission; of a directed Job any seat on the pod's node.

        None if it has none.
        """
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

"""Which workloads come after which others, and how far these are (``muster.dev/after``). Pure.

What is in the cluster is read from memory, and only names of workloads that are not there any more are asked of the
ledger: all of a turn together, and again only when an object of that name comes or goes. Nothing is kept of workloads
that neither wait for others nor are waited for.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from admission.facts.pods import PodFact
from admission.facts.workloads import WorkloadFact
from admission.workloads.dependencies import DependencyPhase, DependencyProgress, awaits_dependencies
from admission.workloads.kinds import known_kinds, support_of
from admission.workloads.seats import is_live
from admission.world.admissions import AdmissionIndex, KeyIndex
from admission.world.learned.seen_times import SeenEnds
from admission.world.persistence import LedgerRows, Recreations
from admission.world.pods import PodIndex
from queues import kind_names
from queues.api.reading.dependencies import NO_DEPENDENCIES, unusable_dependency
from queues.dependencies import Arrived, Dependency, Predecessor, PredecessorQuestion
from queues.kind_names import KindName
from queues.reason_codes import ReasonCode
from queues.workload import Obstacle, WorkloadKey

#: Kind, namespace and name.
Place = tuple[KindName, str, str]
#: Steps from a workload to one that it comes after, at most so many in a turn, in which cycles are looked for: a step
#: takes some microseconds. In a cycle that takes more all wait, and none says why.
_STEPS: Final = 2000


class DependencyIndex:
    """Part of the world: successors, and the workloads that they come after."""

    #: Whether any workload comes, or came, after another one.
    is_used: bool = False

    def __init__(
        self,
        pod_index: PodIndex,
        admission_index: AdmissionIndex,
        seen_ends: SeenEnds,
        ledger: LedgerRows,
        recreations: Recreations,
    ) -> None:
        self._pod_index = pod_index
        self._admission_index = admission_index
        self._seen_ends = seen_ends
        self._ledger = ledger
        self._recreations = recreations
        #: Objects that come after others and have not ended.
        self._successors: dict[WorkloadKey, WorkloadFact | PodFact] = {}
        #: By what they come after.
        self._successors_of: KeyIndex[Place, WorkloadKey] = KeyIndex()
        #: The object that is there now of each name that is waited for.
        self._objects: dict[Place, WorkloadKey] = {}
        #: Workloads that are meant by such a name, or may be, until the ledger knows how they ended.
        self._places: dict[WorkloadKey, Place] = {}
        self._meant_by: KeyIndex[Place, WorkloadKey] = KeyIndex()
        #: What the ledger knows of a name, for each successor; None if it knows none.
        self._answers: dict[tuple[WorkloadKey, Place], Predecessor | None] = {}
        #: Names that nobody waited for before: the objects are to be searched for them.
        self._new_places: set[Place] = set()
        #: Successors that come after others than before, or whose predecessors came or went.
        self._changed: set[WorkloadKey] = set()
        #: Successors about which the ledger may have to be asked.
        self._unasked: set[WorkloadKey] = set()
        #: Successors that an older one waits for, by namespace; one of each cycle is among them.
        self._late: dict[str, set[WorkloadKey]] = {}
        #: Those from which a cycle is to be looked for, in this order.
        self._unsearched: dict[WorkloadKey, None] = {}
        #: The cycle that a workload is part of: each waits for the next, and the last for the first.
        self._cycles: dict[WorkloadKey, tuple[WorkloadKey, ...]] = {}
        #: Jobs whose finalizer may have to be added or removed.
        self._to_check: set[WorkloadKey] = set()

    # ── what the cluster shows ──────────────────────────────────────────────────────────────────────────────

    def observe(
        self,
        key: WorkloadKey,
        before: WorkloadFact | PodFact | None,
        after: WorkloadFact | PodFact | None,
    ) -> None:
        """An object appeared, changed or is gone; as the rest of the world knows it by now."""
        comes_after = after is not None and after.conduct.after != NO_DEPENDENCIES and _may_wait(key, after)
        is_kept = isinstance(after, WorkloadFact) and after.kept
        if not (self.is_used or comes_after or is_kept):
            return
        self.is_used = True
        if is_kept:
            self._to_check.add(key)
        self._put_successor(key, after if comes_after else None)
        named = after or before
        place = None if named is None else (key.kind, named.namespace, named.name)
        if place is not None and place in self._successors_of:
            self._put_object(place, key, is_there=after is not None)

    def _put_successor(self, key: WorkloadKey, fact: WorkloadFact | PodFact | None) -> None:
        before = self._successors.pop(key, None)
        if fact is not None:
            self._successors[key] = fact
        if before is not None and fact is not None and before.conduct.after == fact.conduct.after:
            return
        if before is None and fact is None:
            return
        places, old = _places_of(key, fact), _places_of(key, before)
        for place in places.keys() - old.keys():
            if place not in self._successors_of:
                self._new_places.add(place)
            self._successors_of.add(place, key)
        for place in old.keys() - places.keys():
            self._successors_of.discard(place, key)
            self._answers.pop((key, place), None)
            self._check_finalizer(place)
            if place not in self._successors_of:
                self._new_places.discard(place)
                self._objects.pop(place, None)
                for meant in self._meant_by.pop(place):
                    del self._places[meant]
        self._changed.add(key)
        if fact is not None:
            self._unasked.add(key)
        elif before is not None:
            self._late.get(before.namespace, set()).discard(key)

    def _put_object(self, place: Place, key: WorkloadKey, *, is_there: bool) -> None:
        known = self._objects.get(place)
        if (known == key) == is_there:
            return
        if is_there:
            self._objects[place] = key
            self._note_meant(key, place)
        else:
            self._objects.pop(place, None)
        self._ask_again(place)

    def _note_meant(self, key: WorkloadKey, place: Place) -> None:
        self._places[key] = place
        self._meant_by.add(place, key)

    def forget(self, key: WorkloadKey) -> None:
        """A workload has left: from now on the ledger knows how it ended."""
        place = self._places.pop(key, None)
        if place is not None:
            self._meant_by.discard(place, key)
            self._ask_again(place)

    def _ask_again(self, place: Place) -> None:
        """What the ledger said of a name may be something else now."""
        successors = self._successors_of.of(place)
        for each in successors:
            self._answers.pop((each, place), None)
        self._changed.update(successors)
        self._unasked.update(successors)

    # ── what the ledger is asked ────────────────────────────────────────────────────────────────────────────

    @property
    def must_ask(self) -> bool:
        """Whether the ledger may have to be asked."""
        return bool(self._unasked)

    def questions(self) -> list[PredecessorQuestion]:
        """What the ledger is to be asked: about names of which no object is there that came before the successor."""
        self._look_up()
        return [
            PredecessorQuestion(key, self._arrived(key), namespace, kind, name)
            for key in sorted(self._unasked)
            if self._waits(key)
            for kind, namespace, name in _places_of(key, self._successors.get(key))
            if (key, (kind, namespace, name)) not in self._answers
            and self._older_object(key, (kind, namespace, name)) is None
        ]

    def learn(
        self, asked: Iterable[PredecessorQuestion], found: Mapping[PredecessorQuestion, Predecessor]
    ) -> None:
        """What the ledger said to ``questions``; it knows no workload for those that are absent."""
        for each in asked:
            place, answer = (each.kind, each.namespace, each.name), found.get(each)
            self._answers[each.successor, place] = answer
            if answer is not None and answer.result is None:
                self._note_meant(answer.key, place)
            self._changed.add(each.successor)
        self._unasked.clear()

    def _look_up(self) -> None:
        """Search all objects for names that nobody waited for before."""
        for place, key in self._objects_of(self._new_places).items():
            self._objects[place] = key
            self._note_meant(key, place)
        self._new_places.clear()

    def _objects_of(self, places: Collection[Place]) -> dict[Place, WorkloadKey]:
        """The objects that have these names now. It looks at all: names are waited for rarely."""
        names, found = {name for _, _, name in places}, dict[Place, WorkloadKey]()
        if not names:
            return found
        for key, fact in self._pod_index.facts.items():
            if fact.name in names:
                found[key.kind, fact.namespace, fact.name] = key
        if any(kind == kind_names.POD for kind, _, _ in places):
            for uid, pod in self._pod_index.pods.items():
                if pod.name in names:
                    key = WorkloadKey(kind_names.POD, uid)
                    found[key.kind, pod.namespace, pod.name] = key
        return {place: key for place, key in found.items() if place in places}

    # ── what follows ────────────────────────────────────────────────────────────────────────────────────────

    def touched(self, dirty: AbstractSet[WorkloadKey]) -> set[WorkloadKey]:
        """Successors that are to be derived again, since more is known of these workloads, or of what comes before."""
        self._look_up()
        places = {self._places[key] for key in self._places.keys() & dirty}
        found = {each for place in places for each in self._successors_of.of(place)}
        found |= self._changed
        self._plan_search()
        self._changed.clear()
        found |= self._search()
        for key in self._successors.keys() & (dirty | found):
            for place in _places_of(key, self._successors[key]):
                self._check_finalizer(place)
        return found

    def obstacle_of(self, key: WorkloadKey) -> Obstacle | None:
        """What a workload waits for that comes after others; None if nothing, or if it was admitted before."""
        fact = self._successors.get(key)
        if fact is None or not self._waits(key):
            return None
        if (unusable := _unusable(key, fact)) is not None:
            return unusable
        progress = [
            DependencyProgress(dependency, self._phase(key, place))
            for place, dependency in _places_of(key, fact).items()
        ]
        cycle = self._cycles.get(key, ())
        first = cycle.index(key) if cycle else 0
        in_order = [*cycle[first:], *cycle[:first]]
        names = [
            f"{each.kind}/{each_fact.name}"
            for each in in_order
            if (each_fact := self._named(each)) is not None
        ]
        return awaits_dependencies(f"{key.kind}/{fact.name}", fact.namespace, progress, names)

    def obstacle_of_new(self, key: WorkloadKey, fact: WorkloadFact | PodFact) -> Obstacle | None:
        """The same of an object that is not made yet, by the objects that are there: others may have ended before."""
        places = _places_of(key, fact)
        objects = self._objects_of(places)
        progress = [
            DependencyProgress(dependency, self._phase_of(objects[place]))
            for place, dependency in places.items()
            if place in objects
        ]
        return _unusable(key, fact) or awaits_dependencies(
            f"{key.kind}/{fact.name}", fact.namespace, progress
        )

    def _waits(self, key: WorkloadKey) -> bool:
        """Whether a workload was never admitted: one that was had nothing left to wait for."""
        setbacks = self._ledger.setbacks_of(key)
        return not (self._admission_index.holds(key) or setbacks.evictions or setbacks.not_before)

    def _phase(self, successor: WorkloadKey, place: Place) -> DependencyPhase:
        """How far the workload is that a successor means by a name."""
        if (older := self._older_object(successor, place)) is not None:
            return self._phase_of(older)
        if (successor, place) not in self._answers:
            self._unasked.add(successor)
            return DependencyPhase.UNASKED
        known, younger = self._answers[successor, place], self._objects.get(place)
        if known is None:
            return DependencyPhase.MISSING if younger is None else self._phase_of(younger)
        is_first = known.arrived.is_before(self._arrived(successor)) or younger is None
        if younger is not None and not is_first:
            is_first = known.arrived.order() < self._arrived(younger).order()
        if younger is not None and not is_first:
            return self._phase_of(younger)
        if known.result is not None:
            return DependencyPhase.of_result(known.result)
        return self._phase_of(known.key)

    def _older_object(self, successor: WorkloadKey, place: Place) -> WorkloadKey | None:
        """The object that a successor means by a name; None if none is there, or if it came after the successor."""
        key = self._objects.get(place)
        if key is None or not self._arrived(key).is_before(self._arrived(successor)):
            return None
        return key

    def _arrived(self, key: WorkloadKey) -> Arrived:
        named = self._named(key)
        return Arrived(0 if named is None else named.created, self._ledger.arrivals.get(key))

    def _named(self, key: WorkloadKey) -> WorkloadFact | PodFact | None:
        return self._pod_index.pods.get(key.uid) if _is_pod(key) else self._pod_index.facts.get(key)

    def _phase_of(self, key: WorkloadKey) -> DependencyPhase:
        """How far a workload is that the ledger has not got the end of."""
        named = self._named(key)
        if named is not None and not self._is_queued(key, named):
            return DependencyPhase.IN_NO_QUEUE
        if end := self._seen_ends.of(key):
            return DependencyPhase.of_result(end)
        is_there = named is not None or self._admission_index.holds(key) or self._recreations.is_awaited(key)
        return DependencyPhase.NOT_ENDED if is_there else DependencyPhase.DELETED

    def _is_queued(self, key: WorkloadKey, named: WorkloadFact | PodFact) -> bool:
        if _is_pod(key):
            return self._pod_index.owner_of(key.uid) == key
        return named.queue is not None or not support_of(key).needs_queue or self._admission_index.holds(key)

    # ── objects that may not disappear yet ──────────────────────────────────────────────────────────────────

    def _check_finalizer(self, place: Place) -> None:
        if (key := self._objects.get(place)) is not None and key.kind == kind_names.JOB:
            self._to_check.add(key)

    def finalizer_changes(self, is_stored: Callable[[WorkloadKey], bool]) -> list[WorkloadFact]:
        """Jobs that are to get Muster's finalizer, or to lose it (those that carry it); named until that is seen.

        One that others wait for carries it until its end is stored, or it is deleted before it has ended.
        ``is_stored``: whether the ledger knows of a workload what its object shows.
        """
        found: list[WorkloadFact] = []
        for key in sorted(self._to_check):
            fact = self._pod_index.facts.get(key)
            if fact is not None and fact.kept != self._is_to_be_kept(key, fact, is_stored):
                found.append(fact)
            elif fact is None or not (fact.kept and fact.finished):
                self._to_check.discard(key)
        return found

    def _is_to_be_kept(
        self, key: WorkloadKey, fact: WorkloadFact, is_stored: Callable[[WorkloadKey], bool]
    ) -> bool:
        if fact.finished and (not fact.kept or is_stored(key)):
            return False
        if not fact.finished and (fact.deleting or not self._is_queued(key, fact)):
            return False
        return any(
            self._waits(each) for each in self._successors_of.of((key.kind, fact.namespace, fact.name))
        )

    # ── cycles ──────────────────────────────────────────────────────────────────────────────────────────────

    def _plan_search(self) -> None:
        """Cycles are to be looked for again among work of the namespaces in which something has changed."""
        changed = {key: fact for key in self._changed if (fact := self._successors.get(key)) is not None}
        for key, fact in changed.items():
            self._note_late(key, fact)
        gone = [key for key in self._changed if key in self._cycles and key not in changed]
        for late in (
            self._late.get(namespace, set()) for namespace in {fact.namespace for fact in changed.values()}
        ):
            self._unsearched.update(dict.fromkeys(sorted(late)))
        self._unsearched.update(dict.fromkeys(gone))

    def _note_late(self, key: WorkloadKey, fact: WorkloadFact | PodFact) -> None:
        late, order = self._late.setdefault(fact.namespace, set()), self._order(key)
        others = (self._objects.get(place) for place in _places_of(key, fact))
        late.update(each for each in others if each in self._successors and self._order(each) > order)
        place = self._places.get(key)
        if place is not None and any(self._order(each) < order for each in self._successors_of.of(place)):
            late.add(key)

    def _search(self) -> set[WorkloadKey]:
        """Look for cycles, as many steps as a turn has. Returns workloads that are part of another one than before."""
        found = set[WorkloadKey]()
        left = _STEPS
        while self._unsearched and left > 0:
            key = next(iter(self._unsearched))
            cycle, steps = self._cycle_through(key, left)
            if steps > left and left < _STEPS:
                break  # the next turn has more steps for it
            left -= steps
            del self._unsearched[key]
            before = self._cycles.get(key, ())
            if set(cycle) != set(before):
                for each in before:
                    if self._cycles.get(each) is before:
                        del self._cycles[each]
                self._cycles.update(dict.fromkeys(cycle, cycle))
                found.update(before, cycle)
        return found

    def _cycle_through(self, key: WorkloadKey, most: int) -> tuple[tuple[WorkloadKey, ...], int]:
        """Workloads that wait for one another, each for the next and the last for this one, which is the first, and the
        steps that were taken; empty: there is no cycle, or more than ``most`` steps would be needed."""
        before: dict[WorkloadKey, WorkloadKey] = {}
        found, steps = [key], 0
        while found and steps <= most:
            each = found.pop()
            for other in self._waiting_before(each):
                steps += 1
                if other == key:
                    path = [each]
                    while path[-1] != key:
                        path.append(before[path[-1]])
                    return tuple(reversed(path)), steps
                if other not in before:
                    before[other] = each
                    found.append(other)
        return (), max(1, steps)

    def _waiting_before(self, key: WorkloadKey) -> Iterable[WorkloadKey]:
        """Workloads that this one waits for and that come after others themselves."""
        if not self._waits(key):
            return
        for place in _places_of(key, self._successors.get(key)):
            other = self._objects.get(place)
            if other is None or other not in self._successors:
                continue
            if self._phase(key, place) is DependencyPhase.NOT_ENDED:
                yield other

    def _order(self, key: WorkloadKey) -> tuple[tuple[bool, int, int], WorkloadKey]:
        return self._arrived(key).order(), key


def _is_pod(key: WorkloadKey) -> bool:
    return key.kind == kind_names.POD


def _unusable(key: WorkloadKey, fact: WorkloadFact | PodFact) -> Obstacle | None:
    """What is wrong with the annotation of an object; None if nothing is."""
    named, problem = fact.conduct.after
    problem = problem or unusable_dependency(named, key.kind, fact.name, known_kinds().by_kind)
    return None if problem is None else Obstacle(ReasonCode.INVALID_SPEC, str(problem))


def _may_wait(key: WorkloadKey, fact: WorkloadFact | PodFact) -> bool:
    """Whether an object may wait by itself: not once it has ended, nor as a pod of another one."""
    if isinstance(fact, WorkloadFact):
        return not (fact.finished or fact.deleting)
    return fact.owner in (None, key) and fact.group is None and is_live(fact)


def _places_of(key: WorkloadKey, fact: WorkloadFact | PodFact | None) -> dict[Place, Dependency]:
    """What a workload comes after, in the order of its annotation; nothing that cannot be meant."""
    if fact is None:
        return {}
    places = {(each.kind, fact.namespace, each.name): each for each in fact.conduct.after.named}
    places.pop((key.kind, fact.namespace, fact.name), None)
    return places

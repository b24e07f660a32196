"""Workloads that are held back for a while though the nodes may have room, each with what it waits for. Pure.

*ResourceQuotas.* A plan is compared with them before it is stored, gang after gang, so that no two gangs count on the
same room. A gang that is held back waits for half a minute, or until there is room for it: a wake-up for each pod that
ends would be one for all that wait. A ResourceQuota counts a pod before it exists. But ResourceQuotas and pods are
watched apart from each other: if the watch of ResourceQuotas is behind, pods are seen that are neither counted nor
still to be made. So at least the pods that are seen count as used.

*Names* of pods and objects that Volcano Jobs cannot have. A gang that cannot have all its names goes back, and waits
without seats until the pod with the name is gone, or for a pause that grows with each try: not everything that may have
a name is watched. Not stored: a new leader tries once more.

*Defects*: workloads that a step of the turn fails on wait with reason ``Defect``, and all others go on. One that an
error points to is known to its term alone, and is tried again after a while: that costs one failed attempt. One that a
decision does not get done with has cost a term. It is stored with its reason, so that the next leader goes on without
it, whichever replica that is; it is tried again only once it is another one.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cache
from itertools import takewhile
from typing import Any, Final, NamedTuple

from admission.decode.fields import defect
from admission.decode.workload_facts import digest
from admission.engine.snapshot import Snapshot
from admission.facts.changes import Change
from admission.facts.pods import PodFact
from admission.workloads.inputs import HeldBack, Timeouts, WorkloadInputs, revision_of
from admission.workloads.kinds import Holding, support_of
from admission.workloads.rollback import waits_for_pods
from admission.workloads.seats import SeatMap, is_live
from admission.workloads.state import WorkloadState, state_beside
from admission.world.admissions import KeyIndex, replaced
from queues.admissions import NO_SETBACKS, Setbacks
from queues.api.names import RETRY
from queues.plan import Plan, Reason
from queues.quota.namespace_quota import NamespaceQuota, first_excess, first_lack, requests_together
from queues.reason_codes import ReasonCode
from queues.resources import NOTHING, Resources
from queues.workload import Obstacle, Workload, WorkloadKey

#: Seconds for which a gang is held back, if no room shows up before.
HELD_BACK: Final = 20


@dataclass(frozen=True, slots=True)
class _WithoutRoom:
    """A workload that is held back."""

    told: HeldBack
    asked: Resources
    until: int


class NamespaceRoom(NamedTuple):
    """What the ResourceQuotas of a namespace leave to gangs."""

    quotas: tuple[NamespaceQuota, ...]
    #: To pods that are about to be made.
    promised: Resources


NO_RESOURCE_QUOTAS: Final = NamespaceRoom((), NOTHING)


class NamespaceQuotas:
    """Part of the world: ResourceQuotas of all namespaces, and workloads that are held back."""

    def __init__(self, claimable: Callable[[], AbstractSet[str]]) -> None:
        """``claimable``: resources that claimed devices count as; ResourceQuotas count claims by other names."""
        self._claimable = claimable
        self._quotas: dict[str, NamespaceQuota] = {}
        self._in_namespace: KeyIndex[str, str] = KeyIndex()
        #: Those that were held back first come first.
        self._entries: dict[str, dict[WorkloadKey, _WithoutRoom]] = {}
        self._namespace_of: dict[WorkloadKey, str] = {}
        #: Workloads that wait for pods to be made for their seats, by namespace; and the other way round.
        self._waiting_for_pods: KeyIndex[str, WorkloadKey] = KeyIndex()
        self._lacks_pods: dict[WorkloadKey, str] = {}
        #: Live pods by namespace: their number by what one takes.
        self._live: dict[str, Counter[Resources]] = {}

    def observe(self, change: Change) -> AbstractSet[WorkloadKey]:
        """A ResourceQuota appeared, changed or went away. Workloads for which that may be news."""
        uid, fact = change.key, change.fact if isinstance(change.fact, NamespaceQuota) else None
        before = self._quotas.pop(uid, None)
        if before is not None:
            self._in_namespace.discard(before.namespace, uid)
        if fact is not None:
            self._quotas[uid] = fact
            self._in_namespace.add(fact.namespace, uid)
        found = fact or before
        if found is None:
            return set()
        namespace = found.namespace
        # Whether other amounts are allowed than before, whatever is used of them.
        is_other = (before.allows() if before else None) != (fact.allows() if fact else None)
        again = [*self._entries.get(namespace, ())] if is_other else []
        for key in again:
            self.forget(key)
        return {*self._waiting_for_pods.of(namespace), *self._released(namespace), *again}

    def replace_pod(self, before: PodFact | None, after: PodFact | None) -> None:
        """A pod appeared, changed or went away."""
        if after is not None and _counts(after):
            self._live.setdefault(after.namespace, Counter())[after.shape.takes] += 1
        if before is not None and _counts(before):
            live, takes = self._live[before.namespace], before.shape.takes
            live[takes] -= 1
            if not live[takes]:
                del live[takes]
            if not live:
                del self._live[before.namespace]

    def _as_seen(self, namespace: str) -> tuple[NamespaceQuota, ...]:
        """The ResourceQuotas of a namespace, with all live pods that are seen."""
        quotas, live = self.of(namespace), self._live.get(namespace)
        if not quotas or not live:
            return quotas
        used = requests_together(live)
        return tuple(each.with_used(used) for each in quotas)

    def of(self, namespace: str) -> tuple[NamespaceQuota, ...]:
        """The ResourceQuotas of a namespace."""
        if namespace not in self._in_namespace:
            return ()
        claimable = self._claimable()
        return tuple(
            replace(quota, limits=tuple(each for each in quota.limits if each.resource not in claimable))
            for quota in (self._quotas[uid] for uid in sorted(self._in_namespace.of(namespace)))
        )

    def rooms(
        self, snapshot: Snapshot, states: Mapping[WorkloadKey, WorkloadState]
    ) -> Callable[[str], NamespaceRoom]:
        """What the ResourceQuotas of each namespace leave to the gangs of a plan for this snapshot."""
        unstarted = cache(lambda: _unstarted_by_namespace(snapshot))

        def room(namespace: str) -> NamespaceRoom:
            quotas = self._as_seen(namespace)
            if not quotas:
                return NO_RESOURCE_QUOTAS
            return NamespaceRoom(quotas, _promised(unstarted().get(namespace, ()), states))

        return room

    def _released(self, namespace: str) -> list[WorkloadKey]:
        """Workloads for which there is room now, in the order in which they were held back."""
        promised, quotas = NOTHING, self._as_seen(namespace)
        found = []
        for key, each in self._entries.get(namespace, {}).items():
            if first_lack(quotas, each.asked, promised):
                break
            promised += each.asked
            found.append(key)
        for key in found:
            self.forget(key)
        return found

    def expire(self, now: int) -> set[WorkloadKey]:
        """Workloads that are tried again from now on. One for which there is no room at all stays held back."""
        found = set()
        for namespace, held_back in list(self._entries.items()):
            # Those that were held back first come first.
            due = list(takewhile(lambda entry: entry[1].until <= now, held_back.items()))
            quotas = self._as_seen(namespace) if due else ()
            for key, each in due:
                if first_lack(quotas, each.asked, NOTHING):
                    del held_back[key]
                    held_back[key] = replace(each, until=now + HELD_BACK)
                else:
                    self.forget(key)
                    found.add(key)
        return found

    def obstacle_of(self, key: WorkloadKey) -> HeldBack | None:
        """Why a workload is held back; None if it is not."""
        namespace = self._namespace_of.get(key)
        return None if namespace is None else self._entries[namespace][key].told

    def note_state(self, key: WorkloadKey, state: WorkloadState | None) -> None:
        """The state of a workload was derived; None if nothing is left of it."""
        after = state.workload.namespace if state is not None and _unstarted(state) else None
        before = replaced(self._lacks_pods, key, after)
        self._waiting_for_pods.move(key, *((each,) if each is not None else () for each in (before, after)))
        if state is None:
            self.forget(key)
        elif (namespace := self._namespace_of.get(key)) is not None:
            entries, workload = self._entries[namespace], state.workload
            if entries[key].told.generation == workload.generation:
                entries[key] = replace(entries[key], asked=gang_asks(workload))
            else:
                self.forget(key)

    def forget(self, key: WorkloadKey) -> None:
        """A workload is gone, or is not held back any more."""
        namespace = self._namespace_of.pop(key, None)
        if namespace is not None:
            del self._entries[namespace][key]
            if not self._entries[namespace]:
                del self._entries[namespace]

    # ── plans ───────────────────────────────────────────────────────────────────────────────────────────────

    def within(
        self, plan: Plan, snapshot: Snapshot, states: Mapping[WorkloadKey, WorkloadState]
    ) -> tuple[Plan, AbstractSet[WorkloadKey]]:
        """The plan without gangs that would not get all the pods they need, and without evictions for them; and these
        gangs, which are held back from now on."""
        if not self._quotas:
            return plan, frozenset()
        refused = gangs_without_room(plan, snapshot, self.rooms(snapshot, states))
        for key, reason in refused.items():
            self._hold_back(snapshot.pending[key], reason, plan.now)
        return (without_gangs(plan, refused) if refused else plan), refused.keys()

    def _hold_back(self, workload: Workload, reason: Reason, now: int) -> None:
        obstacle = Obstacle(reason.code, reason.message)
        self.forget(workload.key)
        self._namespace_of[workload.key] = workload.namespace
        self._entries.setdefault(workload.namespace, {})[workload.key] = _WithoutRoom(
            HeldBack(workload.generation, obstacle), gang_asks(workload), now + HELD_BACK
        )


def gangs_without_room(
    plan: Plan, snapshot: Snapshot, room_of: Callable[[str], NamespaceRoom]
) -> dict[WorkloadKey, Reason]:
    """Gangs of a plan that would not get all the pods they need by the ResourceQuotas of their namespaces, and why."""
    rooms: dict[str, NamespaceRoom] = {}
    refused: dict[WorkloadKey, Reason] = {}
    admitted = {admit.workload for admit in plan.admits if not admit.elastic}
    beneficiaries = {evict.beneficiary for evict in plan.evicts if evict.beneficiary is not None}
    gangs = dict.fromkeys(admit.workload for admit in plan.admits)  # an elastic one is admitted in parts
    for key in (*gangs, *sorted(beneficiaries - admitted)):
        workload = snapshot.pending.get(key)
        if workload is None or key in snapshot.holders or support_of(key).holding is Holding.GATED:
            continue  # what has pods is counted, and members that join later take what is left
        namespace = workload.namespace
        room = rooms.get(namespace) or room_of(namespace)
        asked = gang_asks(workload)
        if reason := refusal_of(room.quotas, asked, room.promised):
            refused[key] = reason
        elif key in admitted:
            room = room._replace(promised=room.promised + asked)
        rooms[namespace] = room
    return refused


def refusal_of(
    quotas: Collection[NamespaceQuota], asked: Resources, promised: Resources = NOTHING
) -> Reason | None:
    """Why ResourceQuotas have no room for a gang, now or at all. None if they have.

    ``promised``: amounts for pods that are about to be made.
    """
    if excess := first_excess(quotas, asked):
        return Reason(code=ReasonCode.NEVER_FITS, message=str(excess))
    if lacks := first_lack(quotas, asked, promised):
        message = f"{lacks} for the pods that have to start together"
        return Reason(code=ReasonCode.NAMESPACE_QUOTA, message=message)
    return None


def _counts(pod: PodFact) -> bool:
    """Whether a ResourceQuota counts a pod. It stops at some time after the deletion was requested."""
    return is_live(pod) and not pod.deleting


def _unstarted(state: WorkloadState) -> list[SeatMap]:
    """Admissions of a workload that wait for its controller to make their pods."""
    return [place for place in state.seat_maps if waits_for_pods(state.key, place)]


def _unstarted_by_namespace(snapshot: Snapshot) -> Mapping[str, Collection[WorkloadKey]]:
    found: defaultdict[str, set[WorkloadKey]] = defaultdict(set)
    for admission in snapshot.admissions.values():
        if not admission.started:
            found[admission.namespace].add(admission.workload)
    return found


def _promised(unstarted: Collection[WorkloadKey], states: Mapping[WorkloadKey, WorkloadState]) -> Resources:
    """What the pods of a namespace will ask that are about to be made for these gangs, which have not started."""
    vacant: Counter[Resources] = Counter()
    for key in (each for each in unstarted if each in states):
        for place in _unstarted(states[key]):
            vacant.update(place.admission.seats[index].takes for index in place.vacant())
    return requests_together(vacant)


def gang_asks(workload: Workload) -> Resources:
    """What the pods of a gang ask that have to start together. Members that are done are part of the gang."""
    pods: Counter[Resources] = Counter()
    for each in workload.pod_sets:
        pods[each.takes] += each.wanted_count()
    done = sum(len(each.done) for each in workload.pod_sets)
    return requests_together(pods, min(pods.total(), max(1, workload.minimum - done)))


def without_gangs(plan: Plan, refused: Mapping[WorkloadKey, Reason]) -> Plan:
    """The plan in which these gangs wait, with their reasons, and nothing is evicted for them."""
    return replace(
        plan,
        admits=tuple(each for each in plan.admits if each.workload not in refused),
        evicts=tuple(each for each in plan.evicts if each.beneficiary not in refused),
        claims=tuple(each for each in plan.claims if each.workload not in refused),
        reasons={**plan.reasons, **refused},
    )


_NOBODY: Final = frozenset[WorkloadKey]()


@dataclass(frozen=True, slots=True)
class _WithoutName:
    """A Job that waits."""

    told: HeldBack
    #: Namespace and name of the pod that is in its way; "": another object is.
    pod: tuple[str, str]
    until: int


class TakenNames:
    """Part of the world: Volcano Jobs that wait for names."""

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        self._entries: dict[WorkloadKey, _WithoutName] = {}
        self._waiting: KeyIndex[tuple[str, str], WorkloadKey] = KeyIndex()

    def obstacle_of(self, key: WorkloadKey) -> HeldBack | None:
        """Why a Job waits; None if it does not wait for a name."""
        entry = self._entries.get(key)
        return None if entry is None else entry.told

    def note_state(
        self,
        key: WorkloadKey,
        state: WorkloadState | None,
        refusal: Reason | None,
        setbacks: Setbacks | None,
        now: int,
    ) -> None:
        """The state of a workload was derived; None if nothing is left of it.

        ``refusal``: what its writer was refused; ``setbacks``: those before it goes back for that.
        """
        if state is None:
            self._forget(key)
        elif refusal is not None and any(
            each.code is ReasonCode.NAME_TAKEN for each in state.evictable.values()
        ):
            workload = state.workload
            told = HeldBack(workload.generation, Obstacle(ReasonCode.NAME_TAKEN, refusal.message))
            pod = (workload.namespace, str(refusal.facts.get("pod", "")))
            self._forget(key)
            self._entries[key] = _WithoutName(
                told, pod, self._timeouts.next_try((setbacks or NO_SETBACKS).rollbacks, now)
            )
            self._waiting.add(pod, key)

    def free(self, namespace: str, pod: str) -> AbstractSet[WorkloadKey]:
        """A pod is gone; the Jobs that waited for its name."""
        found = frozenset(self._waiting.of((namespace, pod))) if self._entries else _NOBODY
        for key in found:
            self._forget(key)
        return found

    def expire(self, now: int) -> AbstractSet[WorkloadKey]:
        """Jobs that are tried again from now on."""
        due = frozenset(key for key, entry in self._entries.items() if entry.until <= now)
        for key in due:
            self._forget(key)
        return due

    def _forget(self, key: WorkloadKey) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._waiting.discard(entry.pod, key)


#: Seconds after which a workload is tried again: though nothing of it changed, for the cause may be gone, or, after a
#: decision that did not end, if it has changed.
TRIED_AGAIN_AFTER: Final = 600

#: Facts of a stored reason: what the workload was, and from when on another one is tried.
_REVISION, _FROM = "revision", "triedFrom"


@dataclass(frozen=True, slots=True)
class _Failing:
    obstacle: Obstacle
    #: What was seen of the workload; None for nothing.
    seen: object
    #: The second at which it is tried again; of a stored one None once that is over.
    until: int | None
    #: A decision did not get done with it.
    stored: bool = False


class SetAside:
    """The workloads that are set aside now."""

    def __init__(self, reasons: Mapping[WorkloadKey, Reason]) -> None:
        """``reasons``: those that are stored."""
        self._entries = {
            key: _Failing(Obstacle(reason.code, reason.message), *found, stored=True)
            for key, reason in reasons.items()
            if reason.code is ReasonCode.DEFECT and (found := _stored(reason.facts)) is not None
        }

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: WorkloadKey) -> bool:
        """Whether a step fails on a workload. One that no decision gets done with can be described and can end."""
        entry = self._entries.get(key)
        return entry is not None and not entry.stored

    def add(self, key: WorkloadKey, error: Exception, seen: tuple[object, ...] | None, now: int) -> None:
        """A step failed on a workload."""
        self._entries[key] = _Failing(defect_of(error), seen, now + TRIED_AGAIN_AFTER)

    def state_of(self, inputs: WorkloadInputs, state: WorkloadState) -> WorkloadState | None:
        """The state of a workload, or another one as long as it is set aside. None if nothing of it is left."""
        entry = self._entries.get(inputs.key)
        if entry is None:
            return state
        if entry.stored:
            changed = entry.until is None and entry.seen != asked_by(inputs)
        else:
            changed = entry.seen is not None and entry.seen != state.lasting()
        if changed:
            del self._entries[inputs.key]
            return state
        if not entry.stored:
            return state_beside(inputs, entry.obstacle)
        # It is not to be tried. What it holds may end, start and go back.
        return replace(state, workload=replace(state.workload, obstacle=entry.obstacle))

    def forget(self, key: WorkloadKey) -> None:
        """A workload is gone."""
        self._entries.pop(key, None)

    def expire(self, now: int) -> set[WorkloadKey]:
        """Workloads that may be tried again from now on."""
        due = {
            key: each for key, each in self._entries.items() if each.until is not None and each.until <= now
        }
        for key, entry in due.items():
            if entry.stored:
                self._entries[key] = replace(entry, until=None)
            else:
                del self._entries[key]
        return set(due)


def defect_of(error: Exception) -> Obstacle:
    """The obstacle of a workload that Muster fails on."""
    return Obstacle(ReasonCode.DEFECT, defect(error))


def endless_reason(inputs: WorkloadInputs, seconds: float, now: int) -> Reason:
    """The reason of a workload that a decision did not get done with in so many seconds. Once it is stored, each leader
    sets the workload aside."""
    message = (
        f"a decision tried it for most of {seconds:g} s and did not end, so all others go on without it; it is tried "
        f"again, at the earliest after {TRIED_AGAIN_AFTER // 60} minutes, when what it asks for or its annotation "
        f"{RETRY} is another"
    )
    facts = {_REVISION: asked_by(inputs), _FROM: now + TRIED_AGAIN_AFTER}
    return Reason(code=ReasonCode.DEFECT, message=message, facts=facts)


def asked_by(inputs: WorkloadInputs) -> str:
    """A digest of what users say of a workload: its object and, of a group, its pods."""
    fact = inputs.fact
    said = () if fact is None else (fact.queue, fact.priority)
    members = sorted(pod.uid for pod in inputs.pods) if support_of(inputs.key).is_group else []
    return digest(revision_of(inputs.fact, inputs.pods), said, members)


def _stored(facts: Mapping[str, Any]) -> tuple[str, int] | None:
    revision, from_ = facts.get(_REVISION), facts.get(_FROM)
    return (revision, from_) if isinstance(revision, str) and isinstance(from_, int) else None

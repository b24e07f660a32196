"""Events about objects, worked out from the world and from what a turn did. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from zlib import crc32

from admission.facts.cluster import FlavorFact, HyperNodeFact, TopologyFact
from admission.reconcile.expected_starts import ExpectedStart
from admission.reconcile.named_workloads import told_in
from admission.reconcile.status import BEYOND_BOUNDS, EventNote, WorkloadStatus, unread_words
from admission.volcano_jobs.state import JobTransition
from admission.workloads.kinds import object_ref
from admission.workloads.kinds.gang_words import UNSCHEDULABLE, WAITS_FOR_RESOURCES
from admission.world.hypernodes import problems_of
from admission.world.world import World
from queues.api.api_resources import FLAVORS, HYPERNODES, QUEUES, TOPOLOGIES, ApiResource, ObjectRef
from queues.plan import Admit, Evict, Reason
from queues.quota.budgets import NO_HOURS, WARNED_AT, hours_text, hundredths
from queues.quota.budgets import SECONDS as HOUR
from queues.reason_codes import NEVER, ReasonCode
from queues.text_format import counted, rfc3339, span
from queues.workload import AdmissionId, WorkloadKey

#: Action of events that say why a workload waits.
WAIT: Final = "Wait"
#: Reason of events that say when a workload should start.
EXPECTED_START: Final = "ExpectedStart"
#: Reason of events that say that a label or annotation has a value that cannot be read.
IGNORED_VALUE: Final = "IgnoredValue"
#: Reason of events that say that a budget of a queue is nearly used up.
BUDGET_NEARLY_SPENT: Final = "BudgetNearlySpent"
#: Action of events that say that a workload will be ended, or a budget used up.
WARN: Final = "Warn"


def admitted_events(world: World, admitted: Iterable[tuple[AdmissionId, Admit]]) -> Iterator[EventNote]:
    """An event for each workload that a turn admitted, with all that it got."""
    gangs: dict[WorkloadKey, list[tuple[AdmissionId, Admit]]] = {}
    for each in admitted:
        gangs.setdefault(each[1].workload, []).append(each)
    for parts in gangs.values():
        id_, admit = parts[0]
        ref = _ref(world, admit.workload)
        if ref is not None:
            given = [seat for _, part in parts for seat in part.seats]
            nodes = len({seat.node for seat in given})
            seats = f"{counted(len(given), 'seat')} on {counted(nodes, 'node')}"
            message = f"{seats}, admission {id_}, queue {admit.queue}{_until(world, admit.workload)}"
            yield EventNote(ref=ref, reason="Admitted", message=message, action="Admit")


def _until(world: World, key: WorkloadKey) -> str:
    """When a workload that is admitted will be ended, for its event; "": it is not."""
    end = None if (state := world.states.get(key)) is None else state.run_end
    if end is None:
        return ""
    return (
        f"; it is ended at {rfc3339(end.at)} if it still runs (access.maxRunTime of queue {end.limit.queue})"
    )


def ending_event(world: World, key: WorkloadKey, now: int) -> EventNote | None:
    """The event that warns a workload which is about to be ended; None if none is, or not yet."""
    state, ref = world.states.get(key), _ref(world, key)
    end = None if state is None else state.run_end
    if ref is None or state is None or end is None or not end.warning <= now < end.at:
        return None
    message = (
        f"it is ended at {rfc3339(end.at)} if it still runs, and not run again: queue {end.limit.queue} lets it hold "
        f"its seats for {span(end.limit.seconds)} (access.maxRunTime)"
    )
    oldest = min(place.admission.id for place in state.seat_maps)
    return EventNote(
        ref=ref,
        reason=ReasonCode.MAX_RUN_TIME,
        message=message,
        action=WARN,
        warning=True,
        once=(end.warning, oldest),
    )


def overruled_event(world: World, key: WorkloadKey) -> EventNote | None:
    """The event of a workload whose pods go although a disruption budget refused that; None if none did."""
    state, ref, refusal = world.states.get(key), _ref(world, key), world.refusals.get(key)
    if state is None or ref is None or refusal is None or not state.beyond_budgets:
        return None
    if refusal.code is not ReasonCode.EVICTION_REFUSED:
        return None
    message = f"its pods are deleted, as a disruption budget keeps lent quota no longer: {refusal.message}"
    return EventNote(
        ref=ref,
        reason="BudgetOverruled",
        message=message,
        action="Evict",
        warning=True,
        once=(state.seat_maps[0].admission.evicted_at, min(state.beyond_budgets)),
    )


def evicted_events(world: World, evicted: Iterable[Evict]) -> Iterator[EventNote]:
    """An event for each workload that a turn evicted, or evicted a part of."""
    told = set[tuple[WorkloadKey, str]]()
    for evict in evicted:
        admission = world.admissions.get(evict.admission)
        ref = None if admission is None else _ref(world, admission.workload)
        if ref is not None and admission is not None and (admission.workload, evict.message) not in told:
            told.add((admission.workload, evict.message))
            message = told_in(ref.namespace, evict.message)
            yield EventNote(ref=ref, reason="Evicted", message=message, action="Evict", warning=True)


def acted_events(world: World, transitions: Iterable[JobTransition]) -> Iterator[EventNote]:
    """An event for each action that a policy or a Command has a Volcano Job carry out, with Volcano's reason."""
    for transition in transitions:
        ref = _ref(world, transition.key)
        if ref is not None:
            for state in transition.acted:
                message = f"Start to execute action {state.reason}: {state.message}"
                yield EventNote(
                    ref=ref, reason="ExecuteAction", message=message, action="ExecuteAction", always=True
                )


def waiting_event(world: World, key: WorkloadKey, reason: Reason | None) -> EventNote | None:
    """The event that says why a workload waits, in the words for its object; None if it does not wait, or is gone."""
    ref = _ref(world, key)
    if ref is None or reason is None:
        return None
    message = reason.message
    if reason.code == ReasonCode.UNKNOWN_QUEUE:
        # Names of queues are shown only to users who may see these queues; all who see the object see its events.
        message += f": `kubectl muster explain {ref.name} -n {ref.namespace}` names those that look alike"
    # No warning for what time solves, and for what its owner wants to be so.
    warning = reason.code in NEVER - {ReasonCode.ON_HOLD}
    return EventNote(ref=ref, reason=reason.code, message=message, action=WAIT, warning=warning)


def start_event(ref: ObjectRef, expected: ExpectedStart) -> EventNote:
    """The event that says when a workload should start. The caller has checked that it is news."""
    message = expected.sentence()
    return EventNote(ref=ref, reason=EXPECTED_START, message=message, action=WAIT, always=True)


class IgnoredValueEvents:
    """Events about values that cannot be read; remembers for one term which ones each object had."""

    def __init__(self) -> None:
        self._told: dict[WorkloadKey, tuple[str, ...]] = {}

    def new(self, world: World, key: WorkloadKey) -> list[EventNote]:
        """Events of a workload that says something else than before."""
        state, before = world.states.get(key), self._told.get(key, ())
        if state is None or not state.ignored:
            self._told.pop(key, None)
            return []
        ref = _ref(world, key)
        if ref is None or state.is_over or state.ignored == before:
            return []
        self._told[key] = state.ignored
        return [
            EventNote(
                ref=ref,
                reason=IGNORED_VALUE,
                message=sentence,
                action="Read",
                warning=True,
                always=True,
                # Another leader gives it the same name, so that the API server takes it once.
                once=(state.workload.created, crc32(sentence.encode())),
            )
            for sentence in state.ignored
            if sentence not in before
        ]


class BudgetEvents:
    """Events about budgets of queues that are nearly used up: one in a month for each resource of a queue. Remembers
    for one term which ones were written."""

    def __init__(self) -> None:
        #: By uid of the queue, resource and second at which the month begins. None before the first look.
        self._told: set[tuple[str, str, int]] | None = None

    def new(self, world: World, now: int) -> Iterator[EventNote]:
        """Of budgets that have become nearly used up.

        What was so an hour before the first look has its event from an earlier leader. The API server keeps events for
        an hour, and refuses another one of the same name.
        """
        use, told = world.budgets.use, set() if self._told is None else self._told
        earlier = now - HOUR if self._told is None else None
        self._told = told
        if use is None or not use.period.includes(now):
            return
        for name, hours in use.hours.items():
            fact = world.queues.get(name)
            if fact is None or (budget := fact.queue.budget) is None:
                continue
            for resource in budget.hours:
                amount, used = budget.amount(resource), hours.get(resource, NO_HOURS)
                key = fact.uid, resource, use.period.begins
                if key in told or hundredths(used.until(now), amount) < WARNED_AT:
                    continue
                told.add(key)
                if earlier is None or hundredths(used.until(earlier), amount) < WARNED_AT:
                    whole = f"{hours_text(resource, amount)} hours of {resource}"
                    yield EventNote(
                        ref=ObjectRef(resource=QUEUES, name=name, uid=fact.uid),
                        reason=BUDGET_NEARLY_SPENT,
                        message=f"{WARNED_AT} % of {whole} until {rfc3339(use.period.ends)} are used",
                        action=WARN,
                        warning=True,
                        always=True,
                        once=(use.period.begins, crc32(resource.encode())),
                    )


def unschedulable_event(status: WorkloadStatus) -> EventNote | None:
    """The event of a PodGroup with a gang that waits for room, as Volcano's scheduler writes it; None for others."""
    reason = status.reason
    if reason is None or status.admitted or reason.code not in WAITS_FOR_RESOURCES:
        return None
    return EventNote(
        ref=status.ref,
        reason=UNSCHEDULABLE,
        message=status.sentence(reason),
        action=WAIT,
        warning=True,
        code=reason.code,
    )


def _ref(world: World, key: WorkloadKey) -> ObjectRef | None:
    state = world.states.get(key)
    return object_ref(key, state.workload.namespace, state.workload.name) if state is not None else None


class ObjectEvents:
    """Events about objects of administrators that have no status: HyperNodes that cannot be used as they are,
    ResourceFlavors and Topologies that are beyond their bounds. Remembers for one term what was said of each."""

    def __init__(self) -> None:
        self._hypernodes: tuple[HyperNodeFact, ...] = ()
        self._of_hypernodes: list[EventNote] = []
        self._last: Mapping[str, str] = {}

    def new(
        self,
        hypernodes: Iterable[HyperNodeFact] = (),
        flavors: Iterable[FlavorFact] = (),
        topologies: Iterable[TopologyFact] = (),
    ) -> list[EventNote]:
        """Events of objects of which something else is to be said than before."""
        if (seen := tuple(hypernodes)) != self._hypernodes:
            self._hypernodes, problems = seen, problems_of(seen)
            self._of_hypernodes = [
                _unusable(HYPERNODES, fact, ReasonCode.INVALID_MEMBERS, problems[fact.name])
                for fact in seen
                if fact.name in problems
            ]
        unread = (
            _unusable(resource, fact, BEYOND_BOUNDS, unread_words(fact.unread))
            for resource, facts in ((FLAVORS, flavors), (TOPOLOGIES, topologies))
            for fact in facts
            if fact.unread
        )
        notes = [*self._of_hypernodes, *unread]
        before, self._last = self._last, {note.ref.uid: note.message for note in notes}
        return [note for note in notes if before.get(note.ref.uid) != note.message]


def _unusable(
    resource: ApiResource, fact: HyperNodeFact | FlavorFact | TopologyFact, reason: str, message: str
) -> EventNote:
    ref = ObjectRef(resource=resource, name=fact.name, uid=fact.uid)
    return EventNote(ref=ref, reason=reason, message=message, action="Read", warning=True)

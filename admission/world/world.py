"""The world in memory: facts from the cluster and open rows of the ledger, kept up to date change by change.

Built at the start of a term from Postgres plus LIST; then every batch of changes and every applied plan goes in.
Law: the world equals one loaded afresh from the same database and the same objects, after any sequence.
Only the controller's loop touches it, never while a decision runs on a snapshot of it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import UTC, tzinfo
from operator import attrgetter
from typing import Protocol

from admission.engine.snapshot import Snapshot
from admission.facts.changes import Change, FactKind
from admission.facts.cluster import BudgetFact, NamespaceFact, NodeFact, QueueFact
from admission.facts.pods import PodFact
from admission.facts.workloads import ChildCluster, ChildJob, WorkloadFact
from admission.volcano_jobs.state import JobState, Phase
from admission.workloads.admission_checks import NO_CHECKS
from admission.workloads.inputs import (
    DEFAULT_QUEUE,
    NOTHING_REMEMBERED,
    AwaitedSeatsOf,
    SeatIndices,
    Timeouts,
    WorkloadInputs,
    revision_of,
)
from admission.workloads.kinds import StatusForm, support_of
from admission.workloads.pod_sets import NOTHING_ASKED
from admission.workloads.rollback import Deadlines
from admission.workloads.seats import is_live
from admission.workloads.state import WorkloadState, derive_state, state_beside
from admission.world.admission_checks import AdmissionChecks
from admission.world.admissions import AdmissionIndex, ClosedAdmissions
from admission.world.attached_volumes import AttachedVolumes
from admission.world.budgets import QueueBudgets
from admission.world.dependencies import DependencyIndex
from admission.world.devices.device_facts import DeviceFacts
from admission.world.learned.held_back import NamespaceQuotas, SetAside, TakenNames, defect_of, endless_reason
from admission.world.learned.refused_nodes import AvoidedNodes, RefusedNodes
from admission.world.learned.seen_times import EndedPods, SeenEnds, SeenTimes
from admission.world.learned.templates import LargerPods, TemplateIndex
from admission.world.nodes import ABOUT_NODES, NodeInventory
from admission.world.persistence import LedgerRows, Recreations, RefusedRows, Unsaved, UnsavedRow
from admission.world.pod_relations import PodRelations
from admission.world.pods import PODS_OF_ONE, PodIndex
from admission.world.queues import QueueFacts, QueueTotals, UsageHistory
from admission.world.snapshot_rows import SnapshotRows
from admission.world.volcano_jobs import Commands, VolcanoJobs, following
from admission.world.volumes import ABOUT_VOLUMES, VolumeFacts
from queues import kind_names
from queues.admissions import Admission, AdmissionState
from queues.api.reading.dependencies import NO_DEPENDENCIES
from queues.parts import parts
from queues.plan import Reason, Setback
from queues.quota.permissions import QueuePermissions, QueueUser
from queues.quota.queue import DEFAULT_POLICY, ROOT
from queues.reason_codes import ReasonCode
from queues.workload import AdmissionId, NodeName, QueueName, WorkloadKey
from queues.world_rows import WorldRows


class Timed(Protocol):
    """A part of the world from which something follows as time goes by."""

    def expire(self, now: int) -> Collection[WorkloadKey]:
        """It is this second (since the epoch): the workloads that are to be derived again."""


class PerWorkload(Protocol):
    """A part of the world that knows something of single workloads."""

    def forget(self, key: WorkloadKey) -> object:
        """It is needed no longer."""


class World:
    """Facts, open admissions, and what follows from them for every workload."""

    def __init__(self, rows: WorldRows, timeouts: Timeouts, budget_zone: tzinfo = UTC) -> None:
        """``budget_zone``: of the calendar whose months budgets are for."""
        self.timeouts = timeouts
        self.ledger = LedgerRows(rows)
        # What the cluster shows.
        self.devices = DeviceFacts()
        self.node_inventory = NodeInventory()
        self.admission_index = AdmissionIndex()
        self.pod_index = PodIndex(self.admission_index)
        self.queue_facts = QueueFacts(rows.parents, rows.plugins_set_aside)
        self.queue_permissions = QueuePermissions(self.queue_facts.tree)
        self.admission_checks = AdmissionChecks(self.queue_permissions.checks)
        self.commands, self.volumes = Commands(), VolumeFacts()
        self.queues: Mapping[QueueName, QueueFact] = self.queue_facts.queues
        self.pods: Mapping[str, PodFact] = self.pod_index.pods
        self.facts: Mapping[WorkloadKey, WorkloadFact] = self.pod_index.facts
        self.admissions: Mapping[AdmissionId, Admission] = self.admission_index.admissions
        # What is not stored yet.
        self.recreations = Recreations(rows.recreations)
        self.unsaved = Unsaved(recreations=self.recreations.unsaved, nodes=self.node_inventory.unsaved)
        self.refused_rows = RefusedRows()
        # What follows for workloads.
        self.volcano_jobs = VolcanoJobs(rows, self.pod_index, self.unsaved.outcomes)
        self.states: dict[WorkloadKey, WorkloadState] = {}
        self.queue_totals = QueueTotals(rows.ended)
        self.usage_history = UsageHistory()
        self.budgets = QueueBudgets(self.queue_facts.with_removed, budget_zone)
        self.snapshot_rows = SnapshotRows(
            self.node_inventory,
            PodRelations(self.states, self.facts, self.queue_permissions.labels, self._seatless_pods),
            AttachedVolumes(self.volumes, self.states, self.facts, self._has_seat, self.node_inventory.nodes),
        )
        # What only this term has seen.
        self.templates, self.larger_pods = TemplateIndex(timeouts.dry_run), LargerPods()
        self.seen_ends = SeenEnds(self.pod_index, self.volcano_jobs.stored)
        self.dependencies = DependencyIndex(
            self.pod_index, self.admission_index, self.seen_ends, self.ledger, self.recreations
        )
        self.seen_times, self.ended_pods = SeenTimes(), EndedPods()
        self.avoided_nodes = AvoidedNodes(
            self.node_inventory.is_faulty, self.node_inventory.offers_faulty_devices
        )
        self.refused_nodes = RefusedNodes(self.node_inventory.nodes, self.node_inventory.levels)
        self.namespace_quotas = NamespaceQuotas(self.devices.classes.resources)
        self.taken_names = TakenNames(timeouts)
        self.aside = SetAside(rows.reasons)
        self._deadlines = Deadlines()
        self._defects: dict[WorkloadKey, Exception] = {}
        #: Something that a decision may see has changed since the last snapshot.
        self.snapshot_is_stale = True
        #: What the API server refuses to the writers, by workload: a view of what they know.
        self.refusals: MutableMapping[WorkloadKey, Reason] = {}
        #: Workloads about which more is known than their states were derived from.
        self.dirty: set[WorkloadKey] = set()
        #: Workloads that writers look at again though their states may be the same; and what these were derived from of
        #: what writers know: seats that are awaited, and a refusal.
        self._to_look_at: set[WorkloadKey] = set()
        self._written: dict[WorkloadKey, tuple[SeatIndices, Reason | None]] = {}
        self._observers = self._observers_by_kind()
        self.put_admissions(rows.admissions)
        self.dirty |= self.ledger.arrivals.keys() | self.recreations.workloads()

    def _observers_by_kind(self) -> Mapping[FactKind, Callable[[Change], Iterable[WorkloadKey]]]:
        """Who takes in a change, by kind; each returns the workloads that are to be derived again."""
        return {
            FactKind.POD: self._observe_pod,
            FactKind.WORKLOAD: self._observe_workload,
            FactKind.NODE: self._observe_node,
            FactKind.QUEUE: self._observe_queue,
            FactKind.NAMESPACE: self._observe_namespace,
            FactKind.TEMPLATE: self.templates.observe,
            FactKind.POD_DEFAULTS: self.templates.observe,
            FactKind.RESOURCE_QUOTA: self.namespace_quotas.observe,
            FactKind.COMMAND: self.commands.observe,
            FactKind.RECREATION: self.recreations.observe,
            FactKind.BUDGET: self._observe_budget,
            FactKind.ADMISSION_CHECK: self._observe_check,
            FactKind.CHECK_REQUEST: self._observe_check_request,
            **dict.fromkeys(ABOUT_NODES, self._observe_inventory),
            **dict.fromkeys(ABOUT_VOLUMES, self._observe_volume),
        }

    def _timed(self) -> tuple[Timed, ...]:
        """Parts from which something follows as time goes by."""
        held_back = (self.aside, self.namespace_quotas, self.taken_names)
        return (*held_back, self.avoided_nodes, self.refused_nodes, self.volumes, self._deadlines)

    def _of_states(self) -> tuple[PerWorkload, ...]:
        """Parts that know a workload as long as it has a state."""
        return self.seen_times, self.volumes, self.queue_permissions, self._deadlines

    def _of_workloads(self) -> tuple[PerWorkload, ...]:
        """Parts that know a workload until it has left and holds nothing."""
        seen = (self.seen_ends, self.larger_pods, self.avoided_nodes, self.refused_nodes, self.dependencies)
        return (self.ledger, self.volcano_jobs, self.admission_index, self.aside, *seen)

    def drop_gone(self, queues: Iterable[QueueName], nodes: Iterable[NodeName]) -> None:
        """Of these queues and nodes, stored earlier, those that are gone are to be removed: all there is was seen."""
        for name in queues:
            if name not in self.queues:
                self.unsaved.queues[name] = None
        gone = (name for name in nodes if name not in self.node_inventory.nodes)
        self.node_inventory.unsaved.update(dict.fromkeys(gone))

    # ── what the cluster shows ──────────────────────────────────────────────────────────────────────────────

    def observe(self, changes: Iterable[Change]) -> None:
        """Take in a batch of changes, in order."""
        self.put(self.devices.resolved(changes))

    def put(self, changes: Iterable[Change]) -> None:
        """The same, with devices counted already (``devices.resolved``)."""
        for change in changes:
            self.dirty.update(self._observers[change.kind](change))

    def _observe_inventory(self, change: Change) -> set[WorkloadKey]:
        self.snapshot_is_stale = True
        touched = self.node_inventory.observe(change)
        return touched | self.refused_nodes.levels_changed() if change.kind is FactKind.TOPOLOGY else touched

    def _observe_budget(self, change: Change) -> Iterable[WorkloadKey]:
        assert isinstance(change.fact, BudgetFact | None)
        self.snapshot_rows.budgets.put(change.key, change.fact)
        self.snapshot_is_stale = True
        return ()

    def _observe_check(self, change: Change) -> Iterable[WorkloadKey]:
        if not self.admission_checks.observe_check(change) or not self.states:
            return ()
        return self._in_queues(lambda queue: change.key in self.queue_permissions.checks(queue))

    def _observe_check_request(self, change: Change) -> Iterable[WorkloadKey]:
        # What has no state yet is derived when it comes.
        return self.states.keys() & self.admission_checks.observe_request(change)

    def _in_queues(self, chosen: Callable[[QueueName], bool]) -> set[WorkloadKey]:
        """Workloads of some queues. It looks at all: queues change their checks rarely."""
        queues = {name for name in self.queues if chosen(name)}
        return {key for key, state in self.states.items() if state.workload.queue in queues}

    def _observe_namespace(self, change: Change) -> Iterable[WorkloadKey]:
        assert isinstance(change.fact, NamespaceFact | None)
        labels = None if change.fact is None else change.fact.labels
        self.snapshot_is_stale |= self.queue_permissions.put_namespace(change.key, labels)
        self.templates.outdate(change.key)
        self.snapshot_rows.pod_relations.put_namespace()
        return ()

    def _observe_volume(self, change: Change) -> set[WorkloadKey]:
        attached = self.snapshot_rows.attached_volumes
        is_counted = attached.is_used
        claims = [*self.volumes.claims_in(change)] if is_counted else []
        keys = self.volumes.observe(change)
        claims += self.volumes.claims_in(change) if is_counted else ()
        attached.observe(change, claims)
        self.snapshot_is_stale |= attached.is_stale
        for key in keys:
            self.refused_nodes.forget(key)
        return keys

    def _observe_pod(self, change: Change) -> Iterable[WorkloadKey]:
        uid, fact = change.key, change.fact
        assert isinstance(fact, PodFact | None)
        before, owner = self.pods.get(uid), self.pod_index.owner_of(uid)
        self.dirty.update(self.admission_index.left_by(uid))
        if fact is None:
            if before is not None and before.node is not None and owner is not None:
                self.seen_times.lose_pod(owner)
            if before is not None and owner in self.ledger.arrivals:
                self.seen_ends.note_pod_leaves(owner, before)
            if before is not None and before.admission is not None:
                self.admission_index.forget_foreign(before.admission)
            if before is not None:
                self.dirty |= self.taken_names.free(before.namespace, before.name)
            if uid in self.recreations.stored:
                self.dirty.add(self.recreations.stored[uid].workload)
        else:
            self.recreations.update(fact)
            fact = following(before, fact)
            self.ended_pods.observe(before, fact, self.admission_index.admission_of(fact))
            if fact.admission is not None and is_live(fact):
                self.admission_index.note_unknown(fact.admission)
        if before is not None and before.node and is_live(before) and (fact is None or not is_live(fact)):
            self.dirty |= self.refused_nodes.pod_left(before.node, owner)
        self.dirty |= self.volumes.put_pod(uid, fact)
        self.namespace_quotas.replace_pod(before, fact)
        self.pod_index.put_pod(uid, fact)
        self.volcano_jobs.put_pod(uid, fact)
        self._settle(uid)
        if self.dependencies.is_used or (fact is not None and fact.conduct.after != NO_DEPENDENCIES):
            self.dependencies.observe(WorkloadKey(kind_names.POD, uid), before, fact)
        if (
            fact is not None
            and fact.successor
            and (key := self.admission_index.workload_named(fact)) is not None
        ):
            admission = self.admission_index.admission_of(fact)
            queue = admission.queue if admission is not None else fact.queue or DEFAULT_QUEUE
            self.recreations.put_preempted(fact, key, queue)
        return ()

    def _settle(self, uid: str) -> None:
        """Assign a pod to its workload; what it takes is charged to its node if no seat covers it."""
        fact = self.pods.get(uid)
        before, owner = self.pod_index.settle(uid)
        self.dirty.update(filter(None, (before, owner)))
        if fact is not None and owner is not None:
            self.seen_ends.note_pod(owner, fact)
            if not is_live(fact):
                self.volcano_jobs.note_outcome(owner, fact)
        place = ports = seatless = None
        if fact is not None and fact.node is not None and is_live(fact):
            uncovered = self.admission_index.uncovered(fact, owner)
            place = (fact.node, uncovered) if uncovered else None
            ports = (fact.node, fact.shape.ports) if fact.shape.ports else None
            seatless = None if self.admission_index.has_seat(fact, owner) else fact
        self.snapshot_is_stale |= self.node_inventory.ports.occupy(uid, ports)
        self.snapshot_is_stale |= self.snapshot_rows.put_pod(uid, seatless)
        for node in self.node_inventory.charge(uid, place):
            self.snapshot_is_stale = True
            self.dirty |= self.admission_index.seated_on(node)

    def _has_seat(self, uid: str) -> bool:
        pod = self.pods.get(uid)
        return pod is not None and self.admission_index.has_seat(pod, self.pod_index.owner_of(uid))

    def _seatless_pods(self) -> Iterator[tuple[str, PodFact]]:
        """Bound pods that have no seat, by uid."""
        for uid in self.node_inventory.charged_pods():
            pod = self.pods.get(uid)
            if pod is not None and not self._has_seat(uid):
                yield uid, pod

    def _observe_workload(self, change: Change) -> Iterable[WorkloadKey]:
        assert change.workload_kind is not None
        assert isinstance(change.fact, WorkloadFact | ChildJob | ChildCluster | None)
        fact = change.fact if isinstance(change.fact, WorkloadFact) else None
        key = fact.key if fact is not None else WorkloadKey(change.workload_kind, change.key)
        child = change.fact if isinstance(change.fact, ChildJob | ChildCluster) else None
        if parents := self.pod_index.put_child(change.key, child):
            self.dirty |= parents
            if fact is None and key not in self.facts:
                return ()
        if fact is not None and fact.stands_for is not None:
            self.pod_index.put_job_group(change.key, fact)
            # The status of its Job is written on it. It has no members, or none any more.
            self._to_look_at.add(fact.stands_for)
            if key not in self.facts and not self.admission_index.of(key):
                return ()
            fact = None
        elif self.pod_index.drop_job_group(change.key) and fact is None:
            return ()
        self.templates.replace(self.facts.get(key), fact)
        self.seen_times.note_object(key, fact)
        if fact is None and key in self.ledger.arrivals:
            self.seen_ends.note_object_leaves(key)
        elif fact is not None and key not in self.facts:
            self.seen_ends.forget(key)
        before = self.facts.get(key)
        for uid in self.pod_index.put_workload(key, fact):
            self._settle(uid)
        if self.dependencies.is_used or (fact and (fact.kept or fact.conduct.after != NO_DEPENDENCIES)):
            self.dependencies.observe(key, before, fact)
        if key in self.states and _is_same_but_status(before, fact):
            self._to_look_at.add(key)
            return ()
        return (key,)

    def _observe_node(self, change: Change) -> set[WorkloadKey]:
        name, fact = NodeName(change.key), change.fact
        assert isinstance(fact, NodeFact | None)
        before = self.node_inventory.nodes.get(name)
        self.node_inventory.put_node(name, fact)
        self.snapshot_is_stale = True
        if before is None or fact is None or before.labels != fact.labels:
            self.snapshot_rows.attached_volumes.note_node()
        has_changed = before is None or fact is None or before.offer() != fact.offer()
        seated = self.admission_index.seated_on(name) if has_changed else set()
        return seated | self.refused_nodes.put_node(name, before, fact)

    def _observe_queue(self, change: Change) -> Iterable[WorkloadKey]:
        name, fact = QueueName(change.key), change.fact
        assert isinstance(fact, QueueFact | None)
        before = self.queues.get(name)
        counted = self.queue_facts.put(name, fact)
        if before is not None and fact is not None and before.decides() == fact.decides():
            return ()  # its status changes every few seconds
        self.unsaved.queues[name] = counted
        self.snapshot_is_stale = self.usage_history.needs_reading = self.budgets.may_differ = True
        if name == ROOT:
            self.node_inventory.faulty.put_root(fact)
        return ()

    # ── what the ledger says ────────────────────────────────────────────────────────────────────────────────

    def put_admissions(self, admissions: Iterable[Admission]) -> None:
        """Admissions opened or changed by an applied plan; closed ones leave."""
        for admission in admissions:
            self._put_admission(admission)

    def _put_admission(self, admission: Admission) -> None:
        self.snapshot_is_stale = True
        closed = admission.state is AdmissionState.CLOSED
        before = self.admission_index.put(admission)
        self.queue_totals.replace_admission(before, admission)
        self.queue_facts.replace_admission(before, admission)
        if before is not None:
            self.node_inventory.give_back(before.holding())
        if closed:
            self.snapshot_rows.admissions.pop(admission.id)
        else:
            self.snapshot_rows.admissions.put(admission.id, admission)
            self.node_inventory.hold(admission.holding())
        if before is None or closed:
            for uid in self.pod_index.uids_of(admission.workload):
                self._settle(uid)
        elif before.ended != admission.ended:
            # Pods that ask more than their seat are charged without it once it is given back.
            for uid in filter(self.node_inventory.is_charged, self.pod_index.uids_of(admission.workload)):
                self._settle(uid)
        self.dirty.add(admission.workload)

    def learn_closed(self, asked: Iterable[AdmissionId], closed: ClosedAdmissions) -> None:
        """What the ledger says about admissions that the holdings did not know."""
        self.dirty |= self.admission_index.learn_closed(asked, closed)

    def put_job(self, key: WorkloadKey, state: JobState) -> None:
        """A Volcano Job's state changed in the ledger."""
        (self.dirty if self.volcano_jobs.put(key, state) else self._to_look_at).add(key)

    def put_setback(self, key: WorkloadKey, setback: Setback, now: int) -> None:
        """A workload was rolled back, or evicted for another one."""
        known = self.ledger.setbacks_of(key)
        if setback.not_before:
            known = known.rolled_back(setback.not_before, setback.unready)
            self._avoid_nodes(key, now)
            if (state := self.states.get(key)) and state.larger and (fact := self.facts.get(key)) is not None:
                self.larger_pods.note(fact, state.larger)
        self.ledger.setbacks[key] = known.evicted(now) if setback.displaced else known
        self.dirty.add(key)

    def put_ready(self, keys: AbstractSet[WorkloadKey]) -> None:
        """The pods of these workloads were ready: what failed before does not count any more."""
        setbacks = self.ledger.setbacks
        for key in keys & setbacks.keys():
            setbacks[key] = setbacks[key].got_ready()
            self.dirty.add(key)

    def _avoid_nodes(self, key: WorkloadKey, now: int) -> None:
        """Nodes on which a workload did not come up are left out of its next tries, and those with faulty devices."""
        if (state := self.states.get(key)) is not None:
            self.avoided_nodes.note_setback(key, state)
            if any(rollback.code is ReasonCode.REFUSED for rollback in state.evictable.values()):
                self.refused_nodes.note(key, self._revision(key), state.refusing, now)

    def _revision(self, key: WorkloadKey) -> str:
        return revision_of(self.facts.get(key), self.pod_index.of(key))

    def saved(
        self, batch: Unsaved, arrivals: Mapping[WorkloadKey, int], departed: Iterable[WorkloadKey]
    ) -> None:
        """Intake has stored a batch of changes, given arrival numbers, and moved workloads into the history."""
        self.number(arrivals)
        self.forget(departed)
        self.unsaved.discard(batch)
        self.dirty |= self.recreations.saved(batch.recreations)
        if len(self.refused_rows):
            self.dirty |= self.refused_rows.stored(batch)

    def is_stored(self, key: WorkloadKey) -> bool:
        """Whether the ledger knows of a workload what its object shows."""
        unsaved = (self.dirty, self.unsaved.arrivals, self.unsaved.described)
        return key in self.ledger.arrivals and not any(key in keys for keys in unsaved)

    def refuse(self, row: UnsavedRow, content: object, about: WorkloadKey | None, why: str) -> None:
        """Postgres refuses a row for its content: it is set aside until that changes. ``about``: its workload."""
        self.refused_rows.add(row, content, about, why)
        if about is not None:
            self.dirty.add(about)

    def number(self, arrivals: Mapping[WorkloadKey, int]) -> None:
        """Arrival numbers given by intake. A recreated pod takes over the setbacks of the workload that it replaces."""
        self.ledger.arrivals.update(arrivals)
        for key in arrivals.keys() & self.recreations.successions.keys():
            before = self.recreations.successions.pop(key)
            for part in (self.avoided_nodes, self.refused_nodes, self.ledger):
                part.pass_on(before, key)
        self.dirty.update(arrivals)

    def forget(self, keys: Iterable[WorkloadKey]) -> None:
        """These workloads are gone and hold nothing."""
        parts_of_workload = self._of_workloads()
        for key in keys:
            self.queue_totals.replace_state(key, self.states.pop(key, None), None)
            self._written.pop(key, None)
            for part in parts_of_workload:
                part.forget(key)

    def note_defect(self, key: WorkloadKey, error: Exception) -> None:
        """Muster cannot handle a workload."""
        self._defects[key] = error

    def set_aside(self, key: WorkloadKey, error: Exception, now: int) -> None:
        """A step of the turn fails on a workload: it waits with the defect as its reason and keeps what it holds, until
        a decision would see something else of it, or until a while has passed."""
        state = self.states.get(key)
        self.aside.add(key, error, None if state is None else state.lasting(), now)
        self.note_defect(key, error)
        self.dirty.add(key)

    def set_aside_count(self) -> int:
        """Workloads and rows that are left out of a step of the turn now."""
        return len(self.aside) + len(self.refused_rows)

    def take_defects(self) -> dict[WorkloadKey, Exception]:
        """Workloads that Muster could not handle since the last call, for the log."""
        defects, self._defects = self._defects, {}
        return defects

    def mark_dirty(self, key: WorkloadKey) -> None:
        """The state of a workload must be derived again, though nothing was seen to change."""
        self.dirty.add(key)

    def look_again(self, key: WorkloadKey) -> None:
        """Writers look at a workload again. Its state is derived again if it depends on what they know by now."""
        self._to_look_at.add(key)

    # ── what follows ────────────────────────────────────────────────────────────────────────────────────────

    def tell_time(self, now: int) -> None:
        """It is this second (since the epoch): queues that were put count by the loans that last now."""
        if lent := self.queue_facts.tell_time(now):
            self.unsaved.queues.update(lent)
            self.snapshot_is_stale = True

    def refresh(self, now: int, awaited: AwaitedSeatsOf = lambda key: {}) -> AbstractSet[WorkloadKey]:
        """Bring the state of every dirty workload up to date, note what must be saved, and return these workloads and
        those that writers look at again.

        ``awaited``: seats of a workload for which a pod may still come although none is seen.
        """
        return {key for part in self.refresh_in_slices(now, awaited) for key in part}

    def refresh_in_slices(
        self, now: int, awaited: AwaitedSeatsOf = lambda key: {}, size: int | None = None
    ) -> Iterator[Sequence[WorkloadKey]]:
        """The same, at most ``size`` workloads (all if None) in each step, fewer of large ones. What becomes dirty
        meanwhile stays so. No snapshot is taken before the last step."""
        self.seen_times.tell_time(now)
        self.tell_time(now)
        spent = {} if self.budgets.use is None else self.budgets.spent(now)
        self.snapshot_is_stale |= self.queue_facts.put_spent(spent)
        self.node_inventory.closures.spent = spent
        if nodes := self.node_inventory.tell_time(now):
            self.dirty |= self.admission_index.seated_on(*nodes)
            self.snapshot_is_stale = True
        for timed in self._timed():
            self.dirty.update(timed.expire(now))
        changed = self.queue_permissions.changed()
        if changed.by_checks:
            self.dirty |= self._in_queues(changed.by_checks.__contains__)
        of_policy = changed.by_policy & self.states.keys()
        self.dirty |= changed.told | {key for key in of_policy if self.states[key].follows_policy}
        to_look_at, self._to_look_at = self._to_look_at - self.dirty, set()
        nothing: SeatIndices = {}
        same = {
            key
            for key in to_look_at
            if self._written.get(key, (nothing, None)) == (awaited(key), self.refusals.get(key))
        }
        self.dirty |= to_look_at - same
        if self.dependencies.is_used:
            self.dirty |= self.dependencies.touched(self.dirty)
        if same:
            yield [*same]
        for part in parts(list(self.dirty), size, self.weight):
            self.dirty.difference_update(part)
            for key in sorted(part, key=attrgetter("kind", "uid")):
                self._refresh(key, now, awaited(key))
            yield part

    def weight(self, key: WorkloadKey) -> int:
        """How long a workload takes, compared with one of a few pods: 1."""
        return 1 + (self.pod_index.count(key) + self.admission_index.seat_count(key)) // PODS_OF_ONE

    def _refresh(self, key: WorkloadKey, now: int, awaited: SeatIndices) -> None:
        self._written.pop(key, None)
        if awaited or key in self.refusals:
            self._written[key] = (awaited, self.refusals.get(key))
        before, ended_in = self.states.get(key), self.pod_index.ended_in(key)
        state = self._derive(key, now, awaited) if ended_in is None else None
        if (
            state is not None
            and state.unschedulable
            and self.refused_nodes.note(key, self._revision(key), state.refusing, now)
        ):
            # What it wishes for follows from what is remembered.
            state = self._derive(key, now, awaited)
        if before is not None and state is not None and before.workload == state.workload:
            # The engine's memo goes by identity.
            state = replace(state, workload=before.workload)
        self.snapshot_is_stale |= self.snapshot_rows.replace(before, state, self.ledger.arrivals)
        self.namespace_quotas.note_state(key, state)
        if self.admission_checks.is_used:
            self.admission_checks.note_state(key, state)
        self.taken_names.note_state(key, state, self.refusals.get(key), self.ledger.setbacks_of(key), now)
        if ended_in is not None:
            self._end(key, ended_in)
            return
        self.queue_totals.replace_state(key, before, state)
        if state is None:
            self._drop_state(key)
            return
        self.states[key] = state
        self.unsaved.departed.pop(key, None)
        self._deadlines.put(key, state.look_at)
        if key not in self.ledger.arrivals:
            self.unsaved.arrivals[key] = None
        elif before is None or before.described() != state.described():
            self.unsaved.described[key] = None

    def _end(self, key: WorkloadKey, queue: QueueName) -> None:
        """A workload has ended. It has no state any more: clusters keep many of these."""
        is_stored = self.queue_totals.ended.get(key) == queue
        self.queue_totals.end(key, self._forget_state(key), queue)
        self.unsaved.departed.pop(key, None)
        if key not in self.ledger.arrivals:
            self.unsaved.arrivals[key] = None
        elif not is_stored:
            self.unsaved.described[key] = None

    def is_there(self, key: WorkloadKey) -> bool:
        """Whether a workload is there, ended or not."""
        return key in self.states or key in self.queue_totals.ended

    def state_to_describe(self, key: WorkloadKey) -> WorkloadState | None:
        """The state of a workload; of one that has ended it is worked out anew. None if it is gone."""
        return self._derive(key, 0, {}) if key in self.queue_totals.ended else self.states.get(key)

    def _drop_state(self, key: WorkloadKey) -> None:
        """Nothing of a workload is left but what is stored about it."""
        self._forget_state(key)
        self.unsaved.arrivals.pop(key, None)
        self.unsaved.described.pop(key, None)
        self.refused_rows.forget(key)
        if key in self.ledger.arrivals:
            self.unsaved.departed[key] = self.seen_ends.of(key)
        else:
            self.volcano_jobs.forget_outcomes(key)

    def _forget_state(self, key: WorkloadKey) -> WorkloadState | None:
        for part in self._of_states():
            part.forget(key)
        self._written.pop(key, None)
        return self.states.pop(key, None)

    def _queue_user(
        self, key: WorkloadKey, pods: Sequence[PodFact], admissions: Sequence[Admission]
    ) -> QueueUser | None:
        """A workload with its namespace and its queue; None if nothing is known of it."""
        named = [each for each in (self.facts.get(key), *pods[:1], *admissions[-1:]) if each is not None]
        queue = next((each.queue for each in named if each.queue), DEFAULT_QUEUE)
        held_in = admissions[0].queue if admissions else None
        return QueueUser(key, named[0].namespace, queue, held_in) if named else None

    def _derive(self, key: WorkloadKey, now: int, awaited: SeatIndices) -> WorkloadState | None:
        inputs = self._inputs(key, now, awaited)
        try:
            state = derive_state(inputs, now, self.timeouts)
        except Exception as error:
            # A defect that one workload brings to light must not keep the others waiting.
            self._defects[key] = error
            return state_beside(inputs, defect_of(error))
        return None if state is None else self.aside.state_of(inputs, state)

    def is_suspended(self, key: WorkloadKey) -> bool:
        """Whether a workload is a Volcano Job that was stopped, and may be resumed."""
        job = self.volcano_jobs.stored.get(key.uid)
        return job is not None and job.phase in (Phase.ABORTING, Phase.ABORTED)

    def endless_reason(self, key: WorkloadKey, seconds: float, now: int) -> Reason:
        """The reason of a workload that a decision of so many seconds did not get done with."""
        return endless_reason(self._inputs(key, now, {}), seconds, now)

    def _inputs(self, key: WorkloadKey, now: int, awaited: SeatIndices) -> WorkloadInputs:
        job, fact = self.volcano_jobs.stored.get(key.uid), self.facts.get(key)
        before = self.states.get(key)
        admissions = self.admission_index.of(key)
        pods: Sequence[PodFact] = self.pod_index.of(key)
        user = self._queue_user(key, pods, admissions)
        fact, pods = self._with_volumes(key, fact, pods, admissions, now)
        generation = fact.generation if fact is not None else pods[0].uid if pods else ""
        volumes_awaited = self.volumes.awaited_until(key)
        dead_nodes, taken_nodes = self.node_inventory.lost(seat for each in admissions for seat in each.seats)
        return WorkloadInputs(
            key=key,
            fact=fact,
            pods=pods,
            children=self.pod_index.children(key),
            admissions=admissions,
            arrival=self.ledger.arrivals.get(key),
            outcomes=self.volcano_jobs.outcomes.get(key, {}),
            job_result=None if job is None else job.result(),
            job_restarts=job is not None and job.phase is Phase.RESTARTING,
            setbacks=self.ledger.setbacks_of(key),
            last_eviction=last.code if (last := self.ledger.last_evictions.get(key)) is not None else None,
            device_faults=self.node_inventory.faulty.faults_of(pods),
            recovery=self.node_inventory.faulty.why_evicted(key),
            pod_left_at=self.seen_times.pod_left.get(key, 0),
            remembered=NOTHING_REMEMBERED if before is None else before.remembered,
            suspended_before=self.seen_times.suspended_before.get(key, 0),
            dead_nodes=dead_nodes,
            silent_nodes=self.node_inventory.silent(pods),
            templates=NOTHING_ASKED if fact is None else self.templates.shapes_of(fact, now),
            quotas=() if fact is None else self.namespace_quotas.of(fact.namespace),
            held_back=self.namespace_quotas.obstacle_of(key) or self.taken_names.obstacle_of(key),
            volumes_awaited_until=volumes_awaited,
            larger={} if fact is None else self.larger_pods.of(fact),
            refused=self.refused_nodes.of(key, lambda: revision_of(fact, pods)),
            avoided_nodes=self.avoided_nodes.nodes(key),
            taken_nodes=taken_nodes,
            awaited=self.admission_index.with_left(
                key, awaited if not volumes_awaited else _all_seats(admissions), self.pods
            ),
            refusal=self.refusals.get(key),
            recreations=self.recreations.of(key),
            may_use_queue=self._may_use_queue(user, fact, runs=bool(pods or admissions)),
            policy=DEFAULT_POLICY if user is None else self.queue_permissions.policy(user.queue),
            run_limit=self.queue_permissions.run_limit(admissions[0].queue) if admissions else None,
            held_by=self.queue_permissions.policy(admissions[0].queue) if admissions else DEFAULT_POLICY,
            disowned=self.pod_index.why_disowned(pods[0]) if key.kind == kind_names.POD and pods else "",
            closed=self.admission_index.closed_on(key, pods),
            origins=self.admission_index.origins(key, pods),
            dependency=self.dependencies.obstacle_of(key) if self.dependencies.is_used else None,
            checks=NO_CHECKS
            if user is None or not (checks := self.queue_permissions.checks(user.queue))
            else self.admission_checks.of(key, checks, generation, now),
        )

    def _may_use_queue(self, user: QueueUser | None, fact: WorkloadFact | None, *, runs: bool) -> bool:
        """Asked for what runs only. Of what may follow another policy of its queue it is remembered who it is."""
        if user is None:
            return True
        starts_so = fact is not None and fact.whole_by_default
        follows = starts_so or self.ledger.setbacks_of(user.workload).unready is not None
        may_use = self.queue_permissions.tell(user) if runs or follows else True
        return may_use or not runs

    def _with_volumes(
        self,
        key: WorkloadKey,
        fact: WorkloadFact | None,
        pods: Sequence[PodFact],
        admissions: Sequence[Admission],
        now: int,
    ) -> tuple[WorkloadFact | None, Sequence[PodFact]]:
        """A workload and its pods, kept to nodes where they can use their volumes, if it waits for seats."""
        if fact is not None and fact.volumes and not fact.finished:
            held = sum(len(admission.holding()) for admission in admissions)
            if held < sum(pod_set.wanted_count() for pod_set in fact.pod_sets):
                return self.volumes.in_workload(fact, now, runs=bool(admissions)), pods
        elif any(pod.gated and pod.volumes for pod in pods):
            return fact, self.volumes.in_pods(key, pods, now)
        self.volumes.forget(key)
        return fact, pods

    def freeze(self, now: int) -> Snapshot:
        """The snapshot for one decision. ``refresh`` and intake come before."""
        self.snapshot_is_stale = False
        self.snapshot_rows.recount()
        return Snapshot(
            now=now,
            ledger_seq=self.ledger.seq,
            queues=self.queue_facts.with_removed(),
            tree=self.queue_facts.tree(),
            nodes=self.node_inventory.table()
            .with_ports(
                self.node_inventory.ports.by_node(self.admission_index.of, self.snapshot_rows.noted_pods())
            )
            .with_attach_limits(self.snapshot_rows.attached_volumes.limits),
            pending=self.snapshot_rows.pending.freeze(),
            admissions=self.snapshot_rows.admissions.freeze(),
            ended=dict(self.snapshot_rows.ended),
            started=tuple(sorted(self.snapshot_rows.started)),
            ready=tuple(sorted(self.snapshot_rows.ready)),
            evictable=dict(self.snapshot_rows.evictable),
            leaving=dict(self.snapshot_rows.leaving),
            unbooked=tuple(self.snapshot_rows.unbooked.values()),
            holders=self.snapshot_rows.holders.freeze(),
            claims=dict(self.ledger.claims),
            namespaces=self.queue_permissions.labels(),
            budgets=self.snapshot_rows.budgets.all(),
            typical=self.node_inventory.demand.typical(),
            past_use=self.usage_history.freeze(now),
            closures=self.node_inventory.closures.freeze(now, self.queue_facts.deserved_over_time()),
            without_more_nodes=self.ledger.without_more_nodes,
        )

    def take_changed_queues(self) -> set[QueueName]:
        """Queues whose objects or sums may be others than at the last call."""
        return self.queue_totals.take_changed() | self.queue_facts.take_changed()

    def queue_problems(self) -> dict[QueueName, str]:
        """Queues that cannot be used, with all that is wrong with them."""
        return {**self.queue_facts.problems(), **self.refused_rows.queues}


def _is_same_but_status(before: WorkloadFact | None, after: WorkloadFact | None) -> bool:
    """Whether an object says the same as before, but for a phase that Muster writes."""
    if before is None or after is None:
        return False
    if support_of(after.key).status in (StatusForm.VOLCANO_JOB, StatusForm.POD_GROUP):
        before = replace(before, phase=after.phase)
    return after == before


def _all_seats(admissions: Iterable[Admission]) -> SeatIndices:
    return {admission.id: frozenset(range(len(admission.seats))) for admission in admissions}

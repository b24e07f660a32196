"""The world in memory: facts from the cluster and open rows of the ledger, kept up to date change by change.

Built at the start of a term from Postgres plus LIST; then every batch of changes and every applied plan
goes in.
Law: the world equals one loaded afresh from the same database and the same objects, after any sequence.
Only the controller's loop touches it, never while a decision runs on a snapshot of it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from admission.budgets import Budgets
from admission.compose import is_live
from admission.engine.snapshot import Snapshot, Unbooked
from admission.facts import (
    BudgetFact,
    Change,
    FactKind,
    FlavorFact,
    HyperNodeFact,
    NodeFact,
    PodFact,
    PodPhase,
    QueueFact,
    TopologyFact,
    WorkloadFact,
)
from admission.jobs.lifecycle import JobState
from admission.partings import following, is_parting, may_go
from admission.portrait import Patience, Portrait, Sight, portray, unportrayed
from admission.recreations import Recreations
from admission.refusals import Refusals
from admission.remembered import LedgerRows, Outcomes, Unsaved
from admission.stock import Stock
from queues.quota import QueueTree
from queues.rows import Register
from queues.workload import (
    Admission,
    AdmissionId,
    AdmissionState,
    NodeName,
    QueueName,
    Workload,
    WorkloadKey,
    WorkloadKind,
)

_Key = TypeVar("_Key")
_Member = TypeVar("_Member")


@dataclass(slots=True)
class _Shown:
    """What snapshots show, kept so that a frozen copy costs what changed."""

    pending: Register[WorkloadKey, Workload] = field(default_factory=Register)
    holders: Register[WorkloadKey, Workload] = field(default_factory=Register)
    admissions: Register[AdmissionId, Admission] = field(default_factory=Register)


class World:
    """Facts, open admissions, and what follows from them for every workload."""

    def __init__(self, rows: LedgerRows, patience: Patience) -> None:
        self.patience = patience
        self.stock = Stock()
        self.queues: dict[QueueName, QueueFact] = {}
        self.pods: dict[str, PodFact] = {}
        self.facts: dict[WorkloadKey, WorkloadFact] = {}
        self.ledger_seq = rows.ledger_seq
        self.admissions: dict[AdmissionId, Admission] = {}
        self.arrivals = dict(rows.arrivals)
        self.outcomes: dict[WorkloadKey, Outcomes] = {
            key: dict(value) for key, value in rows.outcomes.items()
        }
        self.backoffs = dict(rows.backoffs)
        self.setbacks = dict(rows.setbacks)
        #: Space that is promised while victims leave.
        self.claims = dict(rows.claims)
        self.jobs: dict[str, JobState] = dict(rows.jobs)
        self.reasons = dict(rows.reasons)
        #: Admissions that the ledger has closed, with their workload, as long as that is there.
        self.closed: dict[AdmissionId, WorkloadKey] = {}
        self._closed_of: dict[WorkloadKey, set[AdmissionId]] = {}
        #: Admissions named on live pods of which the ledger has to say whether it closed them.
        self.unasked: set[AdmissionId] = set()
        #: Those that it does not know: its pods come from another ledger.
        self._unheard_of: set[AdmissionId] = set()
        #: Whether pods of a workload are being created right now: then a missing pod means nothing yet.
        self.is_busy: Callable[[WorkloadKey], bool] = lambda key: False
        self.unsaved = Unsaved()
        #: Something that a decision may see has changed since the last snapshot.
        self.news = True
        #: Workloads whose objects may need a write.
        self.touched: set[WorkloadKey] = set()
        self.portraits: dict[WorkloadKey, Portrait] = {}
        #: Workloads that could not be worked out, for the log. Whoever tells it empties this.
        self.defects: dict[WorkloadKey, Exception] = {}
        self._pods_of: dict[WorkloadKey, set[str]] = {}
        self._owner: dict[str, WorkloadKey] = {}
        self._groups: dict[tuple[str, str], WorkloadKey] = {}
        #: PodGroups that stand for Volcano Jobs: (namespace, name) → uid.
        self.job_groups: dict[tuple[str, str], str] = {}
        self._job_group_places: dict[str, tuple[str, str]] = {}
        self._members: dict[tuple[str, str], set[str]] = {}
        self._controlled: dict[WorkloadKey, set[str]] = {}
        self._admissions_of: dict[WorkloadKey, set[AdmissionId]] = {}
        #: Pod uid → the open admission that adopted it.
        self._adopted_by: dict[str, AdmissionId] = {}
        self._on_node: dict[NodeName, set[AdmissionId]] = {}
        self._shown = _Shown()
        self.budgets = Budgets()
        self._ended: dict[AdmissionId, frozenset[int]] = {}
        self._evictable: dict[AdmissionId, tuple[str, str, int]] = {}
        self._started: dict[AdmissionId, None] = {}
        self._unbooked: dict[WorkloadKey, Unbooked] = {}
        #: Nodes that refused pods of a gang a moment ago.
        self.refusals = Refusals()
        #: Pods that carry our finalizer and have ended or are being deleted.
        self._parting: dict[str, None] = {}
        #: When a bound pod of a workload was last seen to go. Not stored: a new leader waits less, if at all.
        self.left_at: dict[WorkloadKey, int] = {}
        self._left: set[WorkloadKey] = set()
        self._stale: set[WorkloadKey] = set()
        self._timed: set[WorkloadKey] = set()
        for admission in rows.admissions:
            self._put_admission(admission)
        self.recreations = Recreations(rows.recreations)
        self._stale |= self.arrivals.keys() | self.recreations.workloads()

    def begin(
        self,
        queues: Iterable[QueueName],
        nodes: Iterable[NodeName],
        changes: Sequence[Change],
    ) -> None:
        """Begin with everything there is now; queues and nodes stored earlier that are gone are to be removed."""
        self.observe(changes)
        for name in queues:
            if name not in self.queues:
                self.unsaved.queues[name] = None
        self.stock.unsaved.update(name for name in nodes if name not in self.stock.nodes)

    # ── what the cluster shows ──────────────────────────────────────────────────────────────────────────────

    def observe(self, changes: Iterable[Change]) -> None:
        """Take in a batch of changes, in order."""
        for change in changes:
            match change.kind, change.fact:
                case FactKind.POD, PodFact() | None:
                    self._put_pod(change.key, change.fact)
                case FactKind.WORKLOAD, WorkloadFact() | None:
                    self._put_workload(change)
                case FactKind.NODE, NodeFact() | None:
                    self._put_node(NodeName(change.key), change.fact)
                case FactKind.QUEUE, QueueFact() | None:
                    self._put_queue(QueueName(change.key), change.fact)
                case FactKind.FLAVOR, FlavorFact() | None:
                    self.stock.put_flavor(change.key, change.fact)
                    self.news = True
                case FactKind.HYPERNODE, HyperNodeFact() | None:
                    self.stock.put_hypernode(change.key, change.fact)
                    self.news = True
                case FactKind.TOPOLOGY, TopologyFact() | None:
                    self.stock.put_topology(change.key, change.fact)
                    self.news = True
                case FactKind.BUDGET, BudgetFact() | None:
                    self.budgets.put(change.key, change.fact)
                    self.news = True
                case _:
                    raise AssertionError(f"a {change.kind} change carries {type(change.fact).__name__}")

    def _put_pod(self, uid: str, fact: PodFact | None) -> None:
        before = self.pods.pop(uid, None)
        if before is not None and before.group:
            _discard(self._members, (before.namespace, before.group), uid)
        if before is not None and before.owner is not None:
            _discard(self._controlled, before.owner, uid)
        if before is not None and fact is None and before.node is not None and uid in self._owner:
            self._left.add(self._owner[uid])
        self._parting.pop(uid, None)
        if fact is None and uid in self.recreations.stored:
            self._stale.add(self.recreations.stored[uid].workload)
        if fact is not None:
            self.recreations.see(fact)
            self.pods[uid] = fact = following(before, fact)
            if is_parting(fact):
                self._parting[uid] = None
            if fact.group:
                self._members.setdefault((fact.namespace, fact.group), set()).add(uid)
            if fact.owner is not None:
                self._controlled.setdefault(fact.owner, set()).add(uid)
            if fact.admission is not None and is_live(fact):
                self._wonder_about(fact.admission)
        self._settle(uid)

    def _wonder_about(self, admission: AdmissionId) -> None:
        """A pod may come late: a deposed leader let it go, for an admission that was closed long ago."""
        if not (admission in self.admissions or admission in self.closed or admission in self._unheard_of):
            self.unasked.add(admission)

    def _settle(self, uid: str) -> None:
        """Find out whose pod it is, and put its use on its node if it is in nobody's books."""
        fact = self.pods.get(uid)
        owner = None if fact is None else self._owner_of(fact)
        before = self._owner.get(uid)
        if before is not None:
            self._stale.add(before)
            if before != owner:
                _discard(self._pods_of, before, uid)
                del self._owner[uid]
        if owner is not None:
            self._owner[uid] = owner
            self._pods_of.setdefault(owner, set()).add(uid)
            self._stale.add(owner)
        if fact is not None and owner is not None and fact.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED):
            self._note_outcome(owner, fact)
        foreign = (
            fact is not None and fact.node is not None and is_live(fact) and not self.is_booked(fact, owner)
        )
        ported = None
        if fact is not None and fact.placing.ports and fact.node is not None and is_live(fact):
            ported = (fact.node, fact.placing.ports)
        if self.stock.ports.occupy(uid, ported):
            self.news = True
        place = (fact.node, fact.takes) if foreign and fact is not None and fact.node is not None else None
        for node in self.stock.charge(uid, place):
            self.news = True
            self._stale.update(self._seated_on(node))

    def _owner_of(self, pod: PodFact) -> WorkloadKey | None:
        """The workload that a pod belongs to; None: other people's pod."""
        job = pod.owner
        if job is not None and job.kind in (WorkloadKind.VOLCANO_JOB, WorkloadKind.JOB):
            fact = self.facts.get(job)
            managed = fact is not None and fact.queue is not None
            if managed or job.kind is WorkloadKind.VOLCANO_JOB or job in self._admissions_of:
                return job
        if pod.group is not None:
            group = self._groups.get((pod.namespace, pod.group)) or self._group_gone(pod)
            if group is not None:
                return group
        if pod.gated or pod.queue is not None or pod.admission is not None:
            return WorkloadKey(WorkloadKind.POD, pod.uid)
        return None

    def _group_gone(self, pod: PodFact) -> WorkloadKey | None:
        """The PodGroup that was deleted while this pod of it holds a seat."""
        admission = self._admission_of(pod)
        if admission is None or admission.workload.kind is not WorkloadKind.POD_GROUP:
            return None
        named = (admission.namespace, admission.name) == (pod.namespace, pod.group)
        return admission.workload if named else None

    def _admission_of(self, pod: PodFact) -> Admission | None:
        """The open admission whose books the pod is in, if it is of that admission's workload."""
        id_ = self._adopted_by.get(pod.uid, pod.admission)
        return None if id_ is None else self.admissions.get(id_)

    def has_group(self, namespace: str, name: str) -> bool:
        """Whether there is a PodGroup of that name."""
        return (namespace, name) in self._groups

    def is_booked(self, pod: PodFact, owner: WorkloadKey | None) -> bool:
        """Whether the pod's use is covered by a seat of an open admission."""
        admission = self._admission_of(pod)
        return admission is not None and admission.workload == owner

    def _note_outcome(self, owner: WorkloadKey, pod: PodFact) -> None:
        # A pod that was being deleted did not end by itself, whatever its last phase says.
        if owner.kind is not WorkloadKind.VOLCANO_JOB or pod.index is None or not pod.ended_first:
            return
        job = self.jobs.get(owner.uid)
        if pod.version != (job.version if job is not None else 0):
            return
        outcomes = self.outcomes.setdefault(owner, {})
        if (pod.task, pod.index) not in outcomes:
            outcomes[pod.task, pod.index] = pod.phase
            self.unsaved.outcomes[pod.uid] = (owner, pod)

    def dismissible(self) -> list[PodFact]:
        """Pods that may disappear: how they ended is stored, or nobody asks. Those being deleted come first."""
        found = [self.pods[uid] for uid in self._parting if self._is_dismissible(self.pods[uid])]
        return sorted(found, key=lambda pod: not pod.deleting)

    def _is_dismissible(self, pod: PodFact) -> bool:
        owner = self._owner.get(pod.uid)
        if owner is None or owner.kind is not WorkloadKind.VOLCANO_JOB:
            return True
        stored = pod.uid not in self.unsaved.outcomes
        return may_go(pod, self.facts.get(owner), self.jobs.get(owner.uid), stored=stored)

    def _put_workload(self, change: Change) -> None:
        assert change.workload_kind is not None
        key = WorkloadKey(change.workload_kind, change.key)
        fact = change.fact if isinstance(change.fact, WorkloadFact) else None
        if fact is not None and fact.owned_by_job:
            place = (fact.namespace, fact.name)
            self.job_groups[place] = change.key
            self._job_group_places[change.key] = place
            # Its name ends with the uid of its Job, whose status is told on it.
            self._stale.add(WorkloadKey(WorkloadKind.VOLCANO_JOB, fact.name[-36:]))
            return
        if change.key in self._job_group_places:
            self.job_groups.pop(self._job_group_places.pop(change.key), None)
            return
        before = self.facts.pop(key, None)
        if fact is not None:
            self.facts[key] = fact
        named = fact or before
        if named is not None and key.kind is WorkloadKind.POD_GROUP:
            place = (named.namespace, named.name)
            if fact is not None:
                self._groups[place] = key
            elif self._groups.get(place) == key:
                del self._groups[place]
            for uid in list(self._members.get(place, ())):
                self._settle(uid)
        if (before is None) != (fact is None) or (before and fact and before.queue != fact.queue):
            for uid in list(self._controlled.get(key, ())):
                self._settle(uid)
        self._stale.add(key)

    def _put_node(self, name: NodeName, fact: NodeFact | None) -> None:
        before = self.stock.nodes.get(name)
        self.stock.put_node(name, fact)
        self.news = True
        if before is None or fact is None or _offer(before) != _offer(fact):
            self._stale.update(self._seated_on(name))

    def _put_queue(self, name: QueueName, fact: QueueFact | None) -> None:
        self.queues.pop(name, None)
        if fact is not None:
            self.queues[name] = fact
        self.unsaved.queues[name] = fact
        self.news = True

    # ── what the ledger says ────────────────────────────────────────────────────────────────────────────────

    def put_admissions(self, admissions: Iterable[Admission]) -> None:
        """Admissions opened or changed by an applied plan; closed ones leave."""
        for admission in admissions:
            self._put_admission(admission)

    def _put_admission(self, admission: Admission) -> None:
        self.news = True
        before = self.admissions.pop(admission.id, None)
        if before is not None:
            self.stock.give_back(before.holding())
        key = admission.workload
        ids = self._admissions_of.setdefault(key, set())
        if admission.state is AdmissionState.CLOSED:
            self._shown.admissions.pop(admission.id)
            ids.discard(admission.id)
            for seat in admission.seats:
                _discard(self._on_node, seat.node, admission.id)
            for uid in admission.adopted or ():
                self._adopted_by.pop(uid, None)
            self.closed[admission.id] = key
            self._closed_of.setdefault(key, set()).add(admission.id)
            if not ids:
                del self._admissions_of[key]
        else:
            self.admissions[admission.id] = admission
            self._shown.admissions.put(admission.id, admission)
            ids.add(admission.id)
            self.stock.hold(admission.holding())
            self._adopted_by.update(dict.fromkeys(admission.adopted or (), admission.id))
            for seat in admission.seats:
                self._on_node.setdefault(seat.node, set()).add(admission.id)
        if before is None or admission.state is AdmissionState.CLOSED:
            for uid in list(self._pods_of.get(key, ())):
                self._settle(uid)
        self._stale.add(key)

    def _seated_on(self, node: NodeName) -> set[WorkloadKey]:
        return {self.admissions[id_].workload for id_ in self._on_node.get(node, ())}

    def learn_closed(self, asked: Iterable[AdmissionId], closed: Mapping[AdmissionId, WorkloadKey]) -> None:
        """What the ledger says about ``unasked`` ones: closed, of these workloads; of others it never heard."""
        self.unasked.difference_update(asked)
        self._unheard_of.update(set(asked) - closed.keys())
        for id_, key in closed.items():
            self.closed[id_] = key
            self._closed_of.setdefault(key, set()).add(id_)
            self._stale.add(key)

    def put_job(self, uid: str, state: JobState) -> None:
        """A Volcano Job's state changed in the ledger. A new version begins without outcomes."""
        key = WorkloadKey(WorkloadKind.VOLCANO_JOB, uid)
        before = self.jobs.get(uid)
        if before is not None and before.version != state.version:
            self.outcomes.pop(key, None)
        self.jobs[uid] = state
        self._stale.add(key)

    def put_backoff(self, key: WorkloadKey, not_before: int, rollbacks: int) -> None:
        """A workload went back and waits."""
        self.backoffs[key] = (max(not_before, self.backoffs.get(key, (0, 0))[0]), rollbacks)
        if key in self.portraits:
            self.refusals.note(key, self.portraits[key].occupancies, not_before + self.patience.detour)
        self._stale.add(key)

    def put_setback(self, key: WorkloadKey, evictions: int, now: int) -> None:
        """A workload was taken back for somebody else."""
        self.setbacks[key] = (evictions, now)
        self._stale.add(key)

    def number(self, arrivals: Mapping[WorkloadKey, int]) -> None:
        """Sequence numbers given by intake. Who takes another's place waits as long as that one."""
        self.arrivals.update(arrivals)
        for key in arrivals.keys() & self.recreations.heirs.keys():
            before = self.recreations.heirs.pop(key)
            self.refusals.pass_on(before, key)
            if (backoff := self.backoffs.get(before)) is not None:
                self.put_backoff(key, *backoff)
            if (setback := self.setbacks.get(before)) is not None:
                self.put_setback(key, *setback)
        self._stale.update(arrivals)

    def saved(
        self,
        arrivals: Iterable[WorkloadKey],
        described: Iterable[WorkloadKey],
        departed: Iterable[WorkloadKey],
        queues: Mapping[QueueName, QueueFact | None],
        outcomes: Iterable[str],
        nodes: Iterable[NodeName],
    ) -> None:
        """Intake has stored these."""
        for rows, keys in (
            (self.unsaved.arrivals, arrivals),
            (self.unsaved.described, described),
            (self.unsaved.departed, departed),
        ):
            for key in keys:
                rows.pop(key, None)
        for name, fact in queues.items():
            if self.unsaved.queues.get(name, fact) is fact:
                self.unsaved.queues.pop(name, None)
        for uid in outcomes:
            self.unsaved.outcomes.pop(uid, None)
        self.stock.unsaved.difference_update(nodes)

    def forget(self, keys: Iterable[WorkloadKey]) -> None:
        """These workloads are gone and hold nothing."""
        for key in keys:
            for rows in (self.arrivals, self.outcomes, self.backoffs, self.setbacks, self.claims):
                rows.pop(key, None)
            self.reasons.pop(key, None)
            self.portraits.pop(key, None)
            self.jobs.pop(key.uid, None)
            self.refusals.forget(key)
            for id_ in self._closed_of.pop(key, ()):
                self.closed.pop(id_, None)

    def look_again(self, key: WorkloadKey) -> None:
        """What is to be done for a workload must be worked out anew, though nothing was seen to change."""
        self._stale.add(key)

    # ── what follows ────────────────────────────────────────────────────────────────────────────────────────

    def admissions_of(self, key: WorkloadKey) -> list[Admission]:
        """Admissions of a workload that are not closed, oldest first."""
        return [self.admissions[id_] for id_ in sorted(self._admissions_of.get(key, ()))]

    def pods_of(self, key: WorkloadKey) -> list[PodFact]:
        """Pods of a workload, by name."""
        return sorted((self.pods[uid] for uid in self._pods_of.get(key, ())), key=lambda pod: pod.name)

    def refresh(self, now: int) -> None:
        """Bring the portraits of everything stale up to date, and note what must be saved first."""
        stale, self._stale, self._timed = self._stale | self._timed, set(), set()
        self.left_at.update(dict.fromkeys(self._left, now))
        self._left.clear()
        stale |= self.refusals.expire(now)
        for key in sorted(stale):
            before, portrait = self.portraits.get(key), self._portray(key, now)
            if portrait is not None and portrait.misplaced:
                until = now + self.patience.detour
                if self.refusals.note(key, portrait.occupancies, until):
                    portrait = self._portray(key, now)
            if before is not None and portrait is not None and before.workload == portrait.workload:
                # The engine's memo goes by identity.
                portrait = replace(portrait, workload=before.workload)
            self._replace(before, portrait)
            self.touched.add(key)
            if portrait is None:
                self.portraits.pop(key, None)
                self.left_at.pop(key, None)
                self.unsaved.arrivals.pop(key, None)
                if key in self.arrivals:
                    self.unsaved.departed[key] = None
                continue
            self.portraits[key] = portrait
            self.unsaved.departed.pop(key, None)
            if portrait.timed:
                self._timed.add(key)
            if key not in self.arrivals:
                self.unsaved.arrivals[key] = None
            elif before is None or before.described() != portrait.described():
                self.unsaved.described[key] = None

    def _portray(self, key: WorkloadKey, now: int) -> Portrait | None:
        sight = self._sight(key)
        try:
            return portray(sight, now, self.patience)
        except Exception as error:
            # A defect that one workload brings to light must not keep the others waiting.
            self.defects[key] = error
            return unportrayed(sight, error)

    def _sight(self, key: WorkloadKey) -> Sight:
        job = self.jobs.get(key.uid)
        admissions = self.admissions_of(key)
        pods = self.pods_of(key)
        dead_nodes, taken_nodes = self.stock.lost(seat for each in admissions for seat in each.seats)
        return Sight(
            key=key,
            fact=self.facts.get(key),
            pods=pods,
            admissions=admissions,
            arrival=self.arrivals.get(key),
            outcomes=self.outcomes.get(key, {}),
            job_over=job is not None and job.is_over(),
            backoff=self.backoffs.get(key, (0, 0)),
            setback=self.setbacks.get(key, (0, 0)),
            left_at=self.left_at.get(key, 0),
            dead_nodes=dead_nodes,
            refusing_nodes=self.refusals.nodes(key),
            taken_nodes=taken_nodes,
            busy=self.is_busy(key),
            recreations=self.recreations.of(key),
            closed=frozenset(
                pod.admission
                for pod in pods
                if pod.admission is not None and self.closed.get(pod.admission) == key
            ),
        )

    def _replace(self, before: Portrait | None, after: Portrait | None) -> None:
        """Keep the collections of the next snapshot in step with one portrait."""
        if before is None or after is None or before.decisive() != after.decisive():
            self.news = True
        if before is not None:
            self.stock.ports.look(before.key, ())
            if after is None or not after.occupancies:
                self.budgets.look(before.key, ())
            self._unbooked.pop(before.key, None)
            for place in before.occupancies:
                self._ended.pop(place.admission.id, None)
                self._evictable.pop(place.admission.id, None)
                self._started.pop(place.admission.id, None)
        if before is not None and after is None:
            self._shown.pending.pop(before.key)
            self._shown.holders.pop(before.key)
            self.stock.demand.look(before.key, ())
        if after is None:
            return
        asks = after.workload.pod_sets if after.lacking or after.occupancies else ()
        self.stock.demand.look(after.key, asks)
        self.stock.ports.look(after.key, after.workload.pod_sets)
        if after.lacking and after.key in self.arrivals:
            self._shown.pending.put(after.key, after.workload)
        else:
            self._shown.pending.pop(after.key)
        if after.unbooked is not None:
            self._unbooked[after.key] = after.unbooked
        self._ended.update(after.ended)
        self._evictable.update(after.evictable)
        if after.occupancies:
            self._shown.holders.put(after.key, after.workload)
            self.budgets.look(after.key, after.pods)
        else:
            self._shown.holders.pop(after.key)
        self._started.update(dict.fromkeys(after.started))

    def changed(self) -> bool:
        """Whether anything waits to be looked at again."""
        return bool(self._stale or self.unsaved or self.stock.unsaved or self.recreations.unsaved)

    def freeze(self, now: int) -> Snapshot:
        """The snapshot for one decision. ``refresh`` and intake come before."""
        self.news = False
        return Snapshot(
            now=now,
            ledger_seq=self.ledger_seq,
            queues={name: fact.queue for name, fact in self.queues.items()},
            nodes=self.stock.table().with_ports(self.stock.ports.by_node(self.admissions_of)),
            pending=self._shown.pending.freeze(),
            admissions=self._shown.admissions.freeze(),
            ended=dict(self._ended),
            started=tuple(sorted(self._started)),
            evictable=dict(self._evictable),
            unbooked=tuple(self._unbooked.values()),
            holders=self._shown.holders.freeze(),
            claims=dict(self.claims),
            budgets=self.budgets.all(),
            typical=self.stock.demand.typical(),
        )

    def queue_problems(self) -> dict[QueueName, str]:
        """Queues that cannot be used, with all that is wrong with them."""
        queues = {name: fact.queue for name, fact in self.queues.items()}
        tree = QueueTree.build(queues, self.stock.table().capacity())
        return {name: " ".join(str(error) for error in errors) for name, errors in tree.problems.items()}


def _discard(sets: dict[_Key, set[_Member]], key: _Key, member: _Member) -> None:
    members = sets.get(key)
    if members is not None:
        members.discard(member)
        if not members:
            del sets[key]


def _offer(node: NodeFact) -> tuple[object, ...]:
    """What of a node matters to the seats on it."""
    return (node.ready, node.unschedulable, node.allocatable)

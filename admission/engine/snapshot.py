"""The input of a decision, frozen: pure data, no clock, no I/O."""

from collections import Counter
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from admission.engine.nodes.demand import Typical
from admission.engine.nodes.host_ports import NotedPorts, ports_of
from admission.engine.nodes.table import NodeTable
from queues.admissions import Admission, AdmissionState, Claim, Seat
from queues.node_closures import NodeClosure
from queues.plan import Plan
from queues.quota.decayed_usage import NO_PAST, PastUse
from queues.quota.queue import Queue
from queues.quota.tree import QueueTree
from queues.reason_codes import ReasonCode
from queues.resources import NOTHING, Resources
from queues.workload import AdmissionId, HostPort, NodeName, QueueName, Workload, WorkloadKey


class Rollback(NamedTuple):
    """An admission that is taken back whole, with the reason."""

    code: ReasonCode
    message: str
    #: The workload is not tried again before that second (since the epoch).
    not_before: int
    #: Its pods were not ready in time, or were refused, which counts for this revision of its object; None if it has
    #: another cause.
    revision: str | None = None


class UnbookedPod(NamedTuple):
    """A running pod without an admission, and the seat that it gets."""

    uid: str
    pod_set: str
    ordinal: int
    node: NodeName
    takes: Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Unbooked:
    """Pods of one workload that run in a managed queue without an admission: to be adopted."""

    workload: WorkloadKey
    namespace: str
    name: str
    queue: QueueName
    priority: int
    pods: tuple[UnbookedPod, ...]
    #: When the admission was opened for which they were let go (seconds since the epoch); 0: for none that is known.
    since: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A PodDisruptionBudget: so many more of the pods it selects may be evicted now."""

    namespace: str
    name: str
    #: ``status.disruptionsAllowed``.
    allowed: int
    #: Pods it selects, by workload.
    pods: Mapping[WorkloadKey, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The world at one moment, as ``decide`` sees it."""

    #: Seconds since the epoch, given by the shell.
    now: int
    #: Term and sequence number of the ledger that this was built from.
    ledger_seq: int = 0
    queues: Mapping[QueueName, Queue]
    #: The tree of these queues over unbounded nodes, if it is built already. One of other queues is passed over.
    tree: QueueTree | None = field(default=None, compare=False, repr=False)
    nodes: NodeTable
    #: Workloads that lack seats: all of them, or (already admitted, elastic or repaired) some.
    pending: Mapping[WorkloadKey, Workload]
    #: Admissions that are not closed.
    admissions: Mapping[AdmissionId, Admission]
    #: Seats of pods that have ended and need no successor there, by admission: indices to give back.
    ended: Mapping[AdmissionId, frozenset[int]] = field(default_factory=dict)
    #: Admissions with a bound pod in every seat for the first time.
    started: tuple[AdmissionId, ...] = ()
    #: Admissions with pods that have been ready together for a while, for the first time.
    ready: tuple[AdmissionId, ...] = ()
    #: Admissions to take back whole: refused by the stock scheduler, owner gone, …
    evictable: Mapping[AdmissionId, Rollback] = field(default_factory=dict)
    #: Open admissions whose workload is over while pods of it are still ending, and since which second that is seen.
    leaving: Mapping[AdmissionId, int] = field(default_factory=dict)
    unbooked: tuple[Unbooked, ...] = ()
    #: Workloads that hold admissions, as far as they still exist: what is known about possible victims.
    holders: Mapping[WorkloadKey, Workload] = field(default_factory=dict)
    #: Labels of namespaces: queues may state which namespaces use them.
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    #: Space promised in earlier turns and not used yet.
    claims: Mapping[WorkloadKey, Claim] = field(default_factory=dict)
    #: PodDisruptionBudgets that some holder's pods are under.
    budgets: tuple[Budget, ...] = ()
    #: What pods ask for as a rule, as learned so far; None if nothing is known: packing alone decides then.
    typical: Typical | None = None
    #: What was used in the past, where ``usageHalfLife`` makes it count.
    past_use: PastUse = NO_PAST
    #: Reservations and NodeDrains, with the nodes that were chosen for them.
    closures: tuple[NodeClosure, ...] = ()
    #: Gangs for which no nodes will be added: cluster autoscalers have refused them for good.
    without_more_nodes: frozenset[WorkloadKey] = frozenset()

    def user_of(self, admission: Admission) -> str:
        """The user whose admission it is; "": none is known."""
        return admission.user or self.user_of_workload(admission.workload)

    def workload_of(self, admission: Admission) -> Workload | None:
        """The workload that holds an admission, or gets it in this turn; None if it is gone."""
        return self.holders.get(admission.workload) or self.pending.get(admission.workload)

    def user_of_workload(self, key: WorkloadKey) -> str:
        """The user whose workload it is; "": none is known."""
        workload = self.holders.get(key) or self.pending.get(key)
        return workload.user if workload is not None else ""

    def image_of_workload(self, key: WorkloadKey) -> str:
        """The image that a workload's pods run; "": none is known."""
        workload = self.holders.get(key) or self.pending.get(key)
        return workload.image if workload is not None else ""

    def still_held(self, admission: Admission) -> tuple[Seat, ...]:
        """Seats of an admission that are neither ended nor given back in this turn because their pods ended."""
        gone = admission.ended | self.ended.get(admission.id, frozenset())
        return tuple(seat for index, seat in enumerate(admission.seats) if index not in gone)

    def keeping_seats_of(self, restarting: Collection[WorkloadKey]) -> "Snapshot":
        """The snapshot in which these workloads keep the seats of pods that ended, for the pods that follow.

        Else another workload could take such a seat before it is asked for again.
        """
        if not restarting:
            return self
        ended = {
            id_: seats for id_, seats in self.ended.items() if self.admissions[id_].workload not in restarting
        }
        return replace(self, ended=ended)

    def workloads(self) -> frozenset[WorkloadKey]:
        """Workloads that a decision may read or change."""
        moving = {self.admissions[id_].workload for id_ in self._changing()}
        unbooked = {each.workload for each in self.unbooked}
        return frozenset((*self.pending, *self.holders, *self.claims, *moving, *unbooked))

    def _changing(self) -> tuple[AdmissionId, ...]:
        """Admissions that change, whatever is decided."""
        return (*self.ended, *self.started, *self.ready, *self.evictable)

    def changes_anyway(self) -> bool:
        """True if the next plan has changes that nothing has to be decided for."""
        return bool(self.ended or self.started or self.ready or self.evictable or self.unbooked)

    def without(self, workloads: AbstractSet[WorkloadKey]) -> "Snapshot":
        """The snapshot in which these workloads ask for nothing and nothing of them changes: what they hold stays."""

        def stays(id_: AdmissionId) -> bool:
            return self.admissions[id_].workload not in workloads

        return replace(
            self,
            pending={key: each for key, each in self.pending.items() if key not in workloads},
            holders={key: each for key, each in self.holders.items() if key not in workloads},
            claims={key: each for key, each in self.claims.items() if key not in workloads},
            ended={id_: seats for id_, seats in self.ended.items() if stays(id_)},
            evictable={id_: each for id_, each in self.evictable.items() if stays(id_)},
            leaving={id_: since for id_, since in self.leaving.items() if stays(id_)},
            started=tuple(id_ for id_ in self.started if stays(id_)),
            ready=tuple(id_ for id_ in self.ready if stays(id_)),
            unbooked=tuple(each for each in self.unbooked if each.workload not in workloads),
        )

    def labels_of(self, namespace: str) -> Mapping[str, str]:
        """Labels of a namespace; none for one that was not seen (yet)."""
        return self.namespaces.get(namespace, {})

    def after(self, plan: Plan, last_id: int = 0) -> "Snapshot":
        """The snapshot of the next turn, if the plan is committed and nothing else happens.

        Pods of victims are not gone yet. ``last_id``: the highest number that any admission had so far.
        """
        opened = len(plan.adopts) + len(plan.admits)
        first = max([*self.admissions, last_id]) + 1
        workloads = (self.pending.get(admit.workload) for admit in plan.admits)
        users = {workload.key: workload.user for workload in workloads if workload is not None}
        ids = [AdmissionId(number) for number in range(first, first + opened)]
        starts = self._starts({admit.workload for admit in plan.admits})
        changed = plan.changed_admissions(self.admissions, ids, users, starts)
        admissions = {**self.admissions, **changed}
        holders = dict(self.holders)
        pending = dict(self.pending)
        for evict in plan.evicts:
            key = self.admissions[evict.admission].workload
            if evict.displaces and key in self.holders:
                before = self.holders[key]
                holders[key] = pending[key] = replace(
                    before, evictions=before.evictions + 1, waiting_since=plan.now
                )
        holders |= {admit.workload: self.pending[admit.workload] for admit in plan.admits}
        seats = Counter[WorkloadKey]()
        for admission in admissions.values():
            if admission.state is AdmissionState.OPEN:
                seats[admission.workload] += len(admission.holding())
        kept = {key: claim for key, claim in self.claims.items() if key not in plan.dropped}
        return replace(
            self,
            admissions={
                id_: each for id_, each in admissions.items() if each.state is not AdmissionState.CLOSED
            },
            nodes=self.nodes.with_used(self._moved(plan)).with_ports(self._ports_after(plan)),
            pending={
                key: workload
                for key, workload in pending.items()
                if workload.obstacle is not None
                or seats[key] < sum(pods.wanted_count() for pods in workload.pod_sets)
            },
            holders=holders,
            claims={**kept, **{claim.workload: claim for claim in plan.claims}},
            leaving={id_: since for id_, since in self.leaving.items() if id_ in admissions},
            closures=tuple(
                replace(each, nodes=plan.chosen_nodes.get(each.id, each.nodes)) for each in self.closures
            ),
            **self._left_out(plan),
        )

    def _starts(self, joined: Collection[WorkloadKey]) -> dict[WorkloadKey, int]:
        """Since when those of these workloads that hold seats already do so without a break."""
        starts: dict[WorkloadKey, int] = {}
        for admission in self.admissions.values():
            if admission.workload in joined:
                starts[admission.workload] = min(
                    admission.start, starts.get(admission.workload, admission.start)
                )
        return starts

    def _left_out(self, plan: Plan) -> dict[str, Any]:
        """Forced changes that the plan leaves to the next turn."""
        if not plan.stopped:
            return {"ended": {}, "evictable": {}, "started": (), "ready": (), "unbooked": ()}
        freed = {free.admission for free in plan.frees}
        evicted = {evict.admission for evict in plan.evicts}
        adopted = {adopt.admit.workload for adopt in plan.adopts}
        return {
            "ended": {number: seats for number, seats in self.ended.items() if number not in freed},
            "evictable": {number: each for number, each in self.evictable.items() if number not in evicted},
            "started": tuple(number for number in self.started if number not in plan.starts),
            "ready": tuple(number for number in self.ready if number not in plan.ready),
            "unbooked": tuple(each for each in self.unbooked if each.workload not in adopted),
        }

    def _ports_after(self, plan: Plan) -> dict[NodeName, tuple[HostPort, ...]]:
        """Host ports that are taken when the plan is committed. Adopted pods have theirs already."""
        noted = NotedPorts(self.nodes.ports)
        for free in plan.frees:
            admission = self.admissions[free.admission]
            if (workload := self.holders.get(admission.workload)) is not None:
                for place in ports_of(workload, [admission.seats[index] for index in free.seats]):
                    noted.remove(*place)
        for admit in plan.admits:
            for place in ports_of(self.pending[admit.workload], admit.seats):
                noted.add(*place)
        return noted.by_node()

    def _moved(self, plan: Plan) -> dict[NodeName, Resources]:
        """By how much the use of nodes changes with the plan. Adopted pods are on their nodes already."""
        moved: dict[NodeName, Resources] = {}
        for free in plan.frees:
            seats = self.admissions[free.admission].seats
            for index in free.seats:
                moved[seats[index].node] = moved.get(seats[index].node, NOTHING) - seats[index].takes
        for admit in plan.admits:
            for seat in admit.seats:
                moved[seat.node] = moved.get(seat.node, NOTHING) + seat.takes
        return moved

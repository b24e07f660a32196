"""A Job, or its JobSet, with the seats that Muster gives it, without Muster: an admission and what becomes of it."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from admission.facts.pods import PodFact, PodPhase
from admission.facts.workloads import ChildJob, WorkloadFact
from admission.reconcile.release import orders_for
from admission.workloads.inputs import NOTHING_REMEMBERED, Timeouts, WorkloadInputs
from admission.workloads.seats import is_live
from admission.workloads.state import WorkloadState, derive_state
from admission.world.nodes import NodeInventory
from queues.admissions import Admission, Seat
from queues.kind_names import KindName
from queues.workload import AdmissionId, NodeName, QueueName
from tests.builders import operator_jobs
from tests.kube.support.job_histories import Seen

_START = 1_900_000_000
_HOUR = 3600
_TIMEOUTS = Timeouts()
#: The only pod set of a JobSet.
_POD_SET = "w"


@dataclass(slots=True)
class SeatedJob:
    """What Muster holds for one Job, on one node or on two."""

    nodes: int
    #: Its pods start by themselves on these nodes; else each is let go into a seat.
    directed: bool
    draw: random.Random
    #: It is the only Job of a JobSet, which has the seats.
    in_job_set: bool = False
    admissions: list[Admission] = field(default_factory=list)
    #: Admission, seat and node of pods, by uid.
    places: dict[str, tuple[AdmissionId, tuple[str, int] | None, NodeName]] = field(default_factory=dict)
    now: int = _START
    _number: int = 0
    _before: WorkloadState | None = None

    def wrong_at_rest(self, seen: Seen) -> str:
        """What is wrong with the seats of a Job whose controller is at rest; "": nothing."""
        if seen.fact.suspended or seen.fact.finished or (self.in_job_set and _child(seen).is_lost):
            self.admissions, self._before = [], None
            return ""
        for _ in range(4):
            state = self._state(seen)
            if not self._go_on(seen, state):
                break
            self.now += 20
        else:
            return f"it comes to no rest: {self.admissions}"
        self.now += _HOUR
        state = self._state(seen)
        self._go_on(seen, state)
        # Where a pod is terminating its successor may still be to come.
        to_come = max(0, seen.wanted() - len(seen.active))
        vacant = sum(len(place.vacant()) for place in state.seat_maps)
        if vacant > to_come:
            return f"{vacant} seats without a pod are held, and {to_come} pods come: {self.admissions}"
        if to_come == 0 and (state.remembered.missing_since or state.evictable or state.problem):
            return f"it lacks no pod, and Muster says {state.problem}: {state.evictable}"
        seated = {pod.uid for place in state.seat_maps for pod in place.seated.values()}
        left = [pod.name for pod in seen.active if pod.uid not in seated]
        if left and not seen.terminating:
            return f"pods without a seat: {left}; {self.admissions}"
        return ""

    def _state(self, seen: Seen) -> WorkloadState:
        fact, pods = self._as_muster_sees(seen)
        before = self._before
        inputs = WorkloadInputs(
            key=fact.key,
            fact=fact,
            pods=pods,
            children=[_child(seen)] if self.in_job_set else [],
            admissions=self.admissions,
            arrival=1,
            remembered=NOTHING_REMEMBERED if before is None else before.remembered,
        )
        found = derive_state(inputs, self.now, _TIMEOUTS)
        assert found is not None
        self._before = found
        return found

    def _as_muster_sees(self, seen: Seen) -> tuple[WorkloadFact, list[PodFact]]:
        fact = _job_set(seen) if self.in_job_set else replace(seen.fact, queue=QueueName("team"))
        if self.directed and self.admissions:
            fact = replace(fact, directed=self.admissions[0].id)
            self._bind(seen)
        pods = []
        for pod in seen.pods:
            place = self.places.get(pod.uid)
            ready = _START if is_live(pod) else None
            phase = PodPhase.RUNNING if place and is_live(pod) else pod.phase
            given = {"admission": place[0], "seat": place[1], "node": place[2]} if place else {"node": None}
            if self.in_job_set:
                given |= {"owner": fact.key, "owner_name": fact.name, "task": _POD_SET}
            pods.append(
                replace(
                    pod, queue=QueueName("team"), ready_since=ready, phase=phase, gated=place is None, **given
                )
            )
        return fact, pods

    def _bind(self, seen: Seen) -> None:
        """The scheduler binds pods of a directed Job to any of its nodes that has room."""
        admission = self.admissions[0]
        room = Counter(seat.node for seat in admission.holding())
        room.subtract(self.places[pod.uid][2] for pod in seen.pods if pod.uid in self.places and is_live(pod))
        for pod in seen.pods:
            free = sorted(node for node, count in room.items() if count > 0)
            if is_live(pod) and pod.uid not in self.places and free:
                node = self.draw.choice(free)
                room[node] -= 1
                self.places[pod.uid] = admission.id, None, node

    def _go_on(self, seen: Seen, state: WorkloadState) -> bool:
        """Carry out what follows from a state; whether anything did."""
        changed = False
        for number, admission in enumerate(self.admissions):
            if over := state.ended.get(admission.id, frozenset()) - admission.ended:
                self.admissions[number] = replace(admission, ended=admission.ended | over)
                changed = True
        kept = [admission for admission in self.admissions if admission.holding()]
        changed |= len(kept) != len(self.admissions)
        self.admissions = kept
        for order in orders_for(state, self._as_muster_sees(seen)[0], NodeInventory(), _TIMEOUTS):
            if order.seat is not None:
                admission = next(each for each in self.admissions if each.id == order.seat.admission)
                seat = admission.seats[order.seat.position]
                self.places[order.uid] = admission.id, (seat.pod_set, seat.ordinal), seat.node
                changed = True
        if state.needs_seats and not changed and not (self.directed and self.admissions):
            changed = self._admit(state)
        return changed

    def _admit(self, state: WorkloadState) -> bool:
        (pods,) = state.workload.pod_sets
        held = {seat.ordinal for admission in self.admissions for seat in admission.holding()}
        seats: Sequence[Seat] = tuple(
            Seat(
                pod_set=pods.name,
                ordinal=ordinal,
                node=NodeName(f"n{number * self.nodes // max(1, pods.wanted_count())}"),
                takes=pods.takes,
            )
            for number, ordinal in enumerate(pods.wanted())
            if ordinal not in held
        )
        if not seats:
            return False
        self._number += 1
        self.admissions.append(
            Admission(
                id=AdmissionId(self._number),
                workload=state.key,
                namespace=state.workload.namespace,
                name=state.workload.name,
                queue=state.workload.queue,
                priority=0,
                opened_at=self.now,
                started=True,
                ready=True,
                seats=tuple(seats),
            )
        )
        return True


def _job_set(seen: Seen) -> WorkloadFact:
    """The JobSet of a Job, as Muster reads it; its spec follows that of the Job."""
    spec = {key: seen.job["spec"].get(key) for key in ("parallelism", "completions")}
    jobs = {"replicatedJobs": [operator_jobs.replicated(_POD_SET, 1, **spec)]}
    return operator_jobs.fact(KindName("jobset"), jobs, suspended=False)


def _child(seen: Seen) -> ChildJob:
    """The Job as its JobSet's operator would have made it, as Muster reads it."""
    metadata, spec = seen.job["metadata"], {**seen.job["spec"]}
    del spec["template"]
    given = {
        key: metadata[key]
        for key in ("name", "uid", "creationTimestamp", "deletionTimestamp")
        if key in metadata
    }
    found = operator_jobs.child(
        _job_set(seen), _POD_SET, "job", status=seen.job.get("status"), metadata=given, **spec
    )
    assert isinstance(found, ChildJob)
    return found

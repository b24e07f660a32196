"""What a workload holds now: its seats, the pods in them, which will still come, and which seats are given back. Pure.

Only a kubelet confirms that a pod has ended. Where it is silent, the pod stays Terminating, and holds its seat and its
name, for as long as the node's object exists. It counts as gone when an administrator declares the node off
(Kubernetes' taint ``node.kubernetes.io/out-of-service``, KEP-2268), or some time after both the node fell silent and
the pod's grace period was over. Then its object is removed by force, as Kubernetes' garbage collector does where the
taint is.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import msgspec

from admission.decode.fields import one
from admission.facts.pods import PodFact, PodPhase
from admission.facts.workloads import ChildCluster, ChildJob, JobCounts, WorkloadFact
from admission.workloads.inputs import Timeouts, WorkloadInputs
from admission.workloads.job_counts import (
    JobSyncs,
    indexes_in,
    pods_at_a_time,
    pods_at_first,
    syncs_of,
    with_ended,
    within,
)
from admission.workloads.kinds import SUSPENDED, Holding, KindSupport, support_of
from admission.workloads.kinds.batch_job import as_counted
from admission.workloads.mismatched_pods import RequestChanges, outgrowing_pods, request_changes
from admission.workloads.pod_sets import RefusedPlaces, SetOnNode, enlarged, without_succeeded
from admission.workloads.rollback import is_refused, refusals_of
from admission.workloads.seats import SeatMap, awaits_seat, is_live, seat_maps_of, taken_places
from queues.admissions import Admission, AdmissionState
from queues.plan import Reason
from queues.reason_codes import ReasonCode
from queues.text_format import rfc3339
from queues.workload import AdmissionId, NodeName, PodSet, PodSetProgress

#: How ``PodFact.controller`` begins of pods that a batch/v1 Job makes.
_OF_JOB: Final = "job/"


#: Pods that the controller of a workload will still make, or that are there and wait for a seat: by pod set and ordinal
#: where each pod has a seat of its own. Else any pod takes any seat of its set, and it is how many come to each; less
#: than 0: so many pods are there that will go.
PodsToCome = frozenset[tuple[str, int]] | Mapping[str, int]


def pods_to_come(
    fact: WorkloadFact | None,
    support: KindSupport,
    pods: Sequence[PodFact],
    pod_sets: Sequence[PodSet],
    seat_maps: Sequence[SeatMap],
) -> PodsToCome:
    """Pods that will still come for the seats of a workload that goes on.

    Those of Volcano Jobs, and of most Indexed Jobs, have seats of their own; pods of other Jobs take any. Gated members
    of a group and bare pods come for one seat; a pod that ended has no successor.
    """
    if support.is_by_ordinal(fact):
        wanted = {(pods_.name, ordinal) for pods_ in pod_sets for ordinal in pods_.wanted()}
        return frozenset(wanted - taken_places(seat_maps))
    if support.holding in SUSPENDED:
        sitting = Counter(
            place.admission.seats[index].pod_set for place in seat_maps for index in place.seated
        )
        asked = fact.pod_sets if fact is not None else ()
        if len(asked) == 1:
            # Pods that were adopted while the object was not known sit in seats without a name.
            sitting = Counter({asked[0].name: sitting.total()})
        return {pods_.name: pods_.count - sitting[pods_.name] for pods_ in asked}
    seated = {pod.uid for place in seat_maps for pod in place.seated.values()}
    return Counter(
        support.pod_set_name(pod, fact) for pod in pods if awaits_seat(pod) and pod.uid not in seated
    )


def seats_over(
    place: SeatMap,
    *,
    to_come: PodsToCome | None,
    dead: frozenset[NodeName],
    outgrown: frozenset[int] = frozenset(),
    awaited: frozenset[int] = frozenset(),
) -> frozenset[int]:
    """Seats of an admission to give back. A seat with a live pod is never over, nor one that a pod may still take.

    ``to_come``: None if the owner ended or is gone.
    ``dead``: nodes that cannot take a pod any more; ``outgrown``: seats that are too small for the pods to come. Once
    the gang has started, such seats are over when they are vacant.
    ``awaited``: seats for which a pod may still come although none is seen.
    """
    seats = place.admission.seats
    # Pods that come take the awaited seats first.
    vacant = sorted(place.vacant(), key=lambda index: (index not in awaited, index))
    if to_come is None or place.admission.state is AdmissionState.EVICTING:
        return frozenset(vacant[len(place.unseated) :]) - awaited
    over = {
        index
        for index in vacant
        if place.admission.started and (seats[index].node in dead or index in outgrown)
    }
    if isinstance(to_come, frozenset):
        over |= {index for index in vacant if (seats[index].pod_set, seats[index].ordinal) not in to_come}
        return frozenset(over - awaited)
    room = Counter(to_come)
    for index in vacant:
        if index not in over:
            room[seats[index].pod_set] -= 1
            if room[seats[index].pod_set] < 0:
                over.add(index)
    return frozenset(over - awaited)


# ── what controllers see by now ─────────────────────────────────────────────────────────────────────────────────


def as_controlled(inputs: WorkloadInputs, seat_maps: Sequence[SeatMap]) -> WorkloadInputs:
    """The inputs with a Job as its controller will see it: with pods that have succeeded and are not counted yet, and
    with seats that any pod takes where its pods are not in those of their completion indexes: the scheduler binds pods
    of a directed Job to any of its nodes, and a Job that is made larger may become one with a seat for each index.
    """
    fact = inputs.fact
    if fact is None or support_of(fact.key).holding not in SUSPENDED:
        return inputs
    admitted = max(
        (each.minimum for each in inputs.admissions if each.state is AdmissionState.OPEN), default=0
    )
    if 0 < admitted < fact.minimum:
        # Pods that were added since are no part of the gang that runs: each may join it.
        fact = replace(fact, minimum=admitted)
        inputs = msgspec.structs.replace(inputs, fact=fact)
    if fact.counts is None:
        return _without_succeeded(inputs, fact)
    counts = with_ended(fact.counts, inputs.pods)
    by_index = fact.indexed and all(
        place.is_by_index() and not _has_given_back(place.admission, fact, counts) for place in seat_maps
    )
    is_drained = counts.completions is None and counts.succeeded > 0
    if counts is fact.counts and by_index == fact.indexed and not is_drained:
        return inputs
    active = sum(is_live(pod) and not pod.deleting for pod in inputs.pods)
    return msgspec.structs.replace(inputs, fact=as_counted(fact, counts, active, by_index=by_index))


def _has_given_back(admission: Admission, fact: WorkloadFact, counts: JobCounts) -> bool:
    """Whether a directed Job has given back the seat of an index that still gets pods: its pod was in another one."""
    if fact.directed != admission.id or not admission.ended or counts.completions is None:
        return False
    given_back = {admission.seats[index].ordinal for index in admission.ended}
    below = min(counts.completions, max(given_back) + 1)
    over = indexes_in(within(counts.over or (), below))
    return any(index < below and index not in over for index in given_back)


def _without_succeeded(inputs: WorkloadInputs, fact: WorkloadFact) -> WorkloadInputs:
    """The inputs without pods that have succeeded, though the status of their object does not say so yet.

    Pods of a Job are counted by that (``with_children``).
    """
    succeeded = [
        pod
        for pod in inputs.pods
        if pod.phase is PodPhase.SUCCEEDED and not pod.controller.startswith(_OF_JOB)
    ]
    if not succeeded:
        return inputs
    name_of = support_of(fact.key).pod_set_name
    counts = Counter(name_of(pod, fact) for pod in succeeded)
    left = without_succeeded(fact.pod_sets, fact.progress, counts)
    return msgspec.structs.replace(inputs, fact=_asking(fact, left))


def _asking(fact: WorkloadFact, pod_sets: tuple[PodSet, ...]) -> WorkloadFact:
    """A workload of several pod sets with fewer pods than it asked at first."""
    asked = sum(pods.count for pods in pod_sets)
    pod_sets = tuple(
        pods if pods.minimum <= pods.count else replace(pods, minimum=pods.count) for pods in pod_sets
    )
    return replace(fact, pod_sets=pod_sets, minimum=min(fact.minimum, asked), parallelism=asked)


# ── what an operator makes for a workload ───────────────────────────────────────────────────────────────────────


def with_children(inputs: WorkloadInputs) -> WorkloadInputs:
    """The inputs with the pods that the Jobs of a workload still get, and those that Jobs get which are not there yet;
    and without pods that the cluster of a RayJob has let go.

    Of a Job that fails all pods are still to come: its operator makes it again, or the workload ends.
    """
    fact = inputs.fact
    if fact is None or not inputs.children or support_of(fact.key).holding is not Holding.SUSPENDED_AND_GATED:
        return inputs
    children = [
        child
        for child in inputs.children
        if (child.namespace, child.workload_name) == (fact.namespace, fact.name)
    ]
    jobs = [child for child in children if isinstance(child, ChildJob)]
    pods_of: dict[str, list[PodFact]] = {}
    for pod in inputs.pods:
        pods_of.setdefault(pod.controller, []).append(pod)
    left = tuple(
        _with_jobs(pods, own, fact.progress.get(pods.name), pods_of)
        if (own := [job for job in jobs if job.pod_set == pods.name])
        else pods
        for pods in fact.pod_sets
    )
    if not fact.suspended:
        clusters = [child for child in children if isinstance(child, ChildCluster) and not child.is_lost]
        left = tuple(_in_clusters(pods, clusters) for pods in left)
    active = sum(job.active for job in jobs if not job.is_lost)
    return msgspec.structs.replace(inputs, fact=replace(_asking(fact, left), active=active))


def _in_clusters(pods: PodSet, clusters: Sequence[ChildCluster]) -> PodSet:
    """A pod set with at most as many pods as a cluster has; where there is none yet, all of them come."""
    most = max((cluster.pods.get(pods.name, pods.count) for cluster in clusters), default=pods.count)
    return pods if most >= pods.count else one(replace(pods, count=most))


def _with_jobs(
    pods: PodSet,
    jobs: Sequence[ChildJob],
    progress: PodSetProgress | None,
    pods_of: Mapping[str, Sequence[PodFact]],
) -> PodSet:
    """A pod set with as many pods as its Jobs run at a time from now on."""
    of_each = pods.count // progress.jobs if progress is not None and progress.jobs else None
    to_run = of_all = 0
    for job in jobs:
        whole = pods_at_first(job.counts) if of_each is None else of_each
        of_all += whole
        own = pods_of.get(f"{_OF_JOB}{job.name}", ())
        to_run += whole if job.is_lost else min(whole, _at_a_time(job, own))
    # Of Jobs that are not there all pods come.
    count = min(pods.count, to_run + max(0, pods.count - of_all))
    return pods if count == pods.count else one(replace(pods, count=count))


def _at_a_time(job: ChildJob, pods: Sequence[PodFact]) -> int:
    # One of that name may have been there before.
    own = [pod for pod in pods if pod.created >= job.created]
    active = sum(is_live(pod) and not pod.deleting for pod in own)
    return pods_at_a_time(with_ended(job.counts, own), active)


@dataclass(frozen=True, slots=True)
class LostPods:
    """Pods of a workload that are being deleted on silent nodes."""

    #: Those that count as gone.
    gone: tuple[PodFact, ...] = ()
    #: Those that do not yet.
    awaited: tuple[PodFact, ...] = ()
    #: What keeps the workload from going on; None if nothing of this kind.
    reason: Reason | None = None


def lost_pods(inputs: WorkloadInputs, now: int, timeouts: Timeouts) -> LostPods:
    """The pods of a workload that no kubelet will confirm as ended."""
    silent = inputs.silent_nodes
    if not silent:
        return LostPods()
    found = [pod for pod in inputs.pods if pod.deleting and is_live(pod) and pod.node in silent]
    times = {pod.uid: _gone_at(pod, inputs, timeouts) for pod in found}
    gone = tuple(pod for pod in found if (at := times[pod.uid]) is not None and at <= now)
    awaited = tuple(pod for pod in found if pod not in gone)
    reason = _reason(awaited[0], times[awaited[0].uid], len(awaited) - 1) if awaited else None
    return LostPods(gone, awaited, reason)


def _gone_at(pod: PodFact, inputs: WorkloadInputs, timeouts: Timeouts) -> int | None:
    """When a pod counts as gone; None if not before its node is removed or has the taint."""
    since = inputs.silent_nodes[pod.node] if pod.node is not None else None
    if since is None:
        return 0
    return max(since, pod.ends_by) + timeouts.dead_node if timeouts.dead_node else None


def _reason(pod: PodFact, at: int | None, others: int) -> Reason:
    message = f"pod {pod.name} is being deleted on node {pod.node}, which is not ready"
    message += f", and so are {others} more" if others else ""
    when = "when" if at is None else f"at {rfc3339(at)}, or as soon as"
    return Reason(
        code=ReasonCode.NODE_NOT_READY,
        message=f"{message}; it counts as gone {when} the node is removed or tainted as out of service",
    )


SeatIndices = Mapping[AdmissionId, frozenset[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldSeats:
    """The seats of one workload, with what becomes of them now."""

    #: With the object as its controller follows it.
    inputs: WorkloadInputs
    support: KindSupport
    #: The workload ended, or its object is gone.
    over: bool
    #: Of all its admissions, and of those that are open.
    seat_maps: tuple[SeatMap, ...]
    open: tuple[SeatMap, ...]
    pod_sets: tuple[PodSet, ...]
    #: How pods differ from what they were admitted with.
    changes: RequestChanges
    #: Pods that lost their seat after the gang started.
    misplaced: tuple[PodFact, ...]
    #: Nodes on which the scheduler refuses pods of the workload now, with its words; and what is left out for that.
    refusing: Mapping[SetOnNode, str]
    left_out: RefusedPlaces
    syncs: JobSyncs
    #: Seats that are given back, and all for which no pod comes: some of these are given back later.
    ended: SeatIndices
    without_pod: SeatIndices

    def left(self) -> tuple[SeatMap, ...]:
        """The seat maps without what is given back."""
        return _without(self.seat_maps, self.ended)

    def awaiting_pods(self) -> list[SeatMap]:
        """Open seat maps, without the seats for which no pod comes."""
        return [place for place in _without(self.seat_maps, self.without_pod) if _is_open(place)]

    def open_seats(self) -> int:
        """Number of seats that count for what the workload wants."""
        counted = self.left() if self.support.is_group else self.seat_maps
        return sum(len(place.admission.holding()) for place in counted if _is_open(place))


def held_seats(
    inputs: WorkloadInputs, support: KindSupport, now: int, timeouts: Timeouts, *, over: bool
) -> HeldSeats:
    """What a workload with pods or admissions holds. ``now`` in seconds."""
    seat_maps = seat_maps_of(inputs.admissions, inputs.pods)
    inputs = as_controlled(inputs, seat_maps)
    open_ = tuple(filter(_is_open, seat_maps))
    misplaced = tuple(_misplaced(open_, inputs, now, timeouts))
    refusing = refusals_of(seat_maps, inputs, now, timeouts)
    held = HeldSeats(
        inputs=inputs,
        support=support,
        over=over,
        seat_maps=seat_maps,
        open=open_,
        pod_sets=enlarged(support.pod_sets(inputs, seat_maps), inputs.larger),
        changes=request_changes(inputs, open_),
        misplaced=misplaced,
        refusing=refusing,
        left_out=inputs.refused.with_places(refusing) if misplaced else inputs.refused,
        syncs=syncs_of(inputs, seat_maps, now, timeouts)
        if support.holding is Holding.SUSPENDED
        else JobSyncs(),
        ended={},
        without_pod={},
    )
    if inputs.job_restarts and not over:
        return held
    without_pod = dict(_seats_without_pod(held))
    ended = {
        place.admission.id: seats
        for place in seat_maps
        if (support.holding is not Holding.SUSPENDED or held.syncs.allow_end(place.admission))
        and ((seats := without_pod[place.admission.id]) or not place.admission.holding())
    }
    held = replace(held, ended=ended, without_pod=without_pod)
    if ended and support.is_group:
        # The pod sets of a group follow from its seats too; seats that end now have no successor.
        held = replace(held, pod_sets=support.pod_sets(inputs, held.left()))
    return held


def _misplaced(
    open_: Sequence[SeatMap], inputs: WorkloadInputs, now: int, timeouts: Timeouts
) -> Iterator[PodFact]:
    """Pods of started gangs that the scheduler refuses, in their seats or because they have outgrown them."""
    for place in open_:
        if place.admission.started:
            for pod in (*place.seated.values(), *outgrowing_pods(place)):
                if is_refused(pod, place, inputs, now, timeouts):
                    yield pod


def _seats_without_pod(held: HeldSeats) -> Iterator[tuple[AdmissionId, frozenset[int]]]:
    """Of each admission, the seats for which no pod comes any more."""
    inputs, support, over = held.inputs, held.support, held.over
    expected = partial(pods_to_come, inputs.fact, support, inputs.pods, held.pod_sets)
    to_come = expected(held.seat_maps) if held.seat_maps and not over else None
    dead = inputs.dead_nodes | inputs.avoided_nodes | held.left_out.nodes
    for place in held.seat_maps:
        number = place.admission.id
        # A directed Job's pods are made again for the same nodes, so it goes back whole instead.
        directed = inputs.fact is not None and inputs.fact.directed == number
        # A Job that is suspended goes back whole as well.
        kept = support.holding is not Holding.NO_PODS
        yield (
            number,
            seats_over(
                place,
                # All pods of a directed Job come for its admission, also those after one that was adopted elsewhere.
                to_come=expected([place]) if directed and not over else to_come,
                dead=frozenset[NodeName]() if directed else dead,
                outgrown=frozenset() if kept else held.changes.outgrown.get(number, frozenset()),
                awaited=inputs.awaited.get(number, frozenset()),
            ),
        )


def _is_open(place: SeatMap) -> bool:
    return place.admission.state is AdmissionState.OPEN


def _without(seat_maps: Sequence[SeatMap], ended: SeatIndices) -> tuple[SeatMap, ...]:
    """The seat maps after these seats are given back."""
    return tuple(
        replace(place, admission=replace(place.admission, ended=place.admission.ended | seats))
        if (seats := ended.get(place.admission.id))
        else place
        for place in seat_maps
    )

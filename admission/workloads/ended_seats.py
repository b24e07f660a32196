"""Which pods of a workload will still come, and which of its seats are given back: those that none comes for. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from admission.decode.fields import one
from admission.facts.pods import PodFact, PodPhase
from admission.facts.workloads import NOTHING_BY_NAME, ChildCluster, ChildJob, WorkloadFact
from admission.workloads.inputs import WorkloadInputs
from admission.workloads.job_counts import pods_at_a_time, pods_at_first, with_ended
from admission.workloads.kinds import Holding, KindSupport, support_of
from admission.workloads.kinds.batch_job import as_counted
from admission.workloads.pod_sets import without_succeeded
from admission.workloads.seats import SeatMap, awaits_seat, is_live, taken_places
from queues.admissions import AdmissionState
from queues.workload import NodeName, PodSet, PodSetProgress

#: How ``PodFact.controller`` begins of pods that a batch/v1 Job makes.
_OF_JOB: Final = "job/"


@dataclass(frozen=True, slots=True)
class PodsToCome:
    """Pods that the controller of a workload will still make, or that are there and wait for a seat."""

    #: How many, by pod set. Less than 0: so many pods are there that will go.
    counts: Mapping[str, int] = field(default_factory=lambda: NOTHING_BY_NAME)
    #: Which ones, by pod set and ordinal, of a workload where each pod has a seat of its own. None if any pod takes any
    #: seat of its set.
    places: frozenset[tuple[str, int]] | None = None


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
        places = frozenset(wanted - taken_places(seat_maps))
        return PodsToCome(Counter(name for name, _ in places), places)
    if support.holding.is_suspended:
        sitting = Counter(
            place.admission.seats[index].pod_set for place in seat_maps for index in place.seated
        )
        asked = fact.pod_sets if fact is not None else ()
        if len(asked) == 1:
            # Pods that were adopted while the object was not known sit in seats without a name.
            sitting = Counter({asked[0].name: sitting.total()})
        return PodsToCome({pods_.name: pods_.count - sitting[pods_.name] for pods_ in asked})
    seated = {pod.uid for place in seat_maps for pod in place.seated.values()}
    return PodsToCome(
        Counter(support.pod_set_name(pod, fact) for pod in pods if awaits_seat(pod) and pod.uid not in seated)
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
    # Pods that come take the awaited seats first.
    vacant = sorted(place.vacant(), key=lambda index: (index not in awaited, index))
    return _over(place, vacant, to_come, dead, outgrown) - awaited


def _over(
    place: SeatMap,
    vacant: Sequence[int],
    to_come: PodsToCome | None,
    dead: frozenset[NodeName],
    outgrown: frozenset[int],
) -> frozenset[int]:
    seats = place.admission.seats
    if to_come is None or place.admission.state is AdmissionState.EVICTING:
        return frozenset(vacant[len(place.unseated) :])
    over = {
        index
        for index in vacant
        if place.admission.started and (seats[index].node in dead or index in outgrown)
    }
    if to_come.places is not None:
        over |= {
            index for index in vacant if (seats[index].pod_set, seats[index].ordinal) not in to_come.places
        }
        return frozenset(over)
    room = dict(to_come.counts)
    for index in vacant:
        if index in over:
            continue
        room[seats[index].pod_set] = room.get(seats[index].pod_set, 0) - 1
        if room[seats[index].pod_set] < 0:
            over.add(index)
    return frozenset(over)


# ── what controllers see by now ─────────────────────────────────────────────────────────────────────────────────


def as_controlled(inputs: WorkloadInputs, seat_maps: Sequence[SeatMap]) -> WorkloadInputs:
    """The inputs with a Job as its controller will see it: with pods that have succeeded and are not counted yet, and
    with seats that any pod takes where its pods are not in those of their completion indexes: the scheduler binds pods
    of a directed Job to any of its nodes, and a Job that is made larger may become one with a seat for each index.
    """
    fact = inputs.fact
    if fact is None or not support_of(fact.key).holding.is_suspended:
        return inputs
    if fact.counts is None:
        return _without_succeeded(inputs, fact)
    counts = with_ended(fact.counts, inputs.pods)
    by_index = fact.indexed and all(place.is_by_index() for place in seat_maps)
    is_drained = counts.completions is None and counts.succeeded > 0
    if counts is fact.counts and by_index == fact.indexed and not is_drained:
        return inputs
    active = sum(is_live(pod) and not pod.deleting for pod in inputs.pods)
    return msgspec.structs.replace(inputs, fact=as_counted(fact, counts, active, by_index=by_index))


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

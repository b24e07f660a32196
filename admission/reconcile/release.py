"""What release must write for one workload: pods to let go or to remove, Jobs to resume or to suspend.

Pure and level-triggered: orders follow from the state alone, so whatever was not done is ordered again.
Muster itself creates the pods of Volcano Jobs: they are not here but in ``admission.volcano_jobs``.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from admission.facts.pods import PodFact
from admission.facts.workloads import JobRevision, WorkloadFact
from admission.workloads.inputs import Timeouts
from admission.workloads.kinds import SUSPENDED, Holding, support_of
from admission.workloads.kinds.batch_job import FAILING, UNSTARTED
from admission.workloads.kinds.members import member_text
from admission.workloads.seats import may_be_seated, may_take
from admission.workloads.state import WorkloadState
from admission.world.nodes import NodeInventory
from queues.admissions import Admission, AdmissionState
from queues.api import names
from queues.api.api_resources import PODS, ApiResource, ObjectRef
from queues.api.flavor_tolerations import TOLERATIONS_AT, listed, missing
from queues.api.json_patch import Step, escaped, expect, steps_of
from queues.api.node_affinity import own_affinity, pinned_affinity
from queues.api.reading.user_values import LARGEST_AFFINITY
from queues.api.types.workload_kind import Path
from queues.quota.queue import PLAIN_RELEASE, ReleaseRules
from queues.resources import NOTHING, devices_text
from queues.workload import AdmissionId, NodeName, QueueName

#: Intent of the order that removes a pod that counts as gone though no kubelet confirmed its end.
LOST: Final = "lost"
#: Intent of the order that removes a pod with a shell that nobody is at any more.
ABANDONED: Final = "abandoned"
#: Intent of the order that has a pod end sooner than its grace period says.
SHORTENED: Final = "shorten"
#: Intent of the order that suspends the maker of an object which is suspended itself.
MAKER_WAITS: Final = "suspend maker"

#: Objects in the document of a pod that a policy has gated, and the gates, by JSON pointer.
_GATED_POD: Final = frozenset(
    (
        *("/metadata", "/metadata/labels", "/metadata/annotations", "/spec", "/spec/schedulingGates"),
        # The API server adds some itself.
        TOLERATIONS_AT,
    )
)
#: Objects in the document of every Job.
_JOB: Final = frozenset(("/spec", "/spec/template", "/spec/template/spec"))
#: Terms of affinity in the template of a Job that is directed to its nodes.
_MOST_TERMS: Final = 4000
#: Parts of a pod's metadata that a release writes.
_WRITTEN: Final = ("labels", "annotations")


class Verb(StrEnum):
    """What an order does to its object."""

    PATCH_POD = "patch pod"
    DELETE_POD = "delete pod"
    #: As PodDisruptionBudgets allow.
    EVICT_POD = "evict pod"
    PATCH_JOB = "patch job"


class Promised(NamedTuple):
    """A seat that a pod was assigned."""

    admission: AdmissionId
    #: Index into the admission's seats.
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One write to the API server. ``uid`` is its precondition."""

    verb: Verb
    namespace: str
    name: str
    uid: str
    #: What it brings about; the same intent for the same object is one order.
    intent: str
    #: Of a Job that is resumed: the version of its spec that was compared with what was admitted. The write must fail
    #: if there is another one by then.
    revision: JobRevision | None = None
    body: Mapping[str, Any] | None = None
    #: Grace period of a deletion, in seconds; None for the pod's own.
    grace: int | None = None
    #: A node: the API server must say that it does not exist before this is sent.
    missing_node: NodeName | None = None
    #: Of ``PATCH_JOB``: the kind of the object. Others are pods.
    resource: ApiResource = PODS
    #: Of ``PATCH_JOB``: what is carried out before it, on the object that the operator makes this one of.
    before: "Order | None" = None
    #: The seat that the pod is assigned.
    seat: Promised | None = None
    #: JSON pointers of what its document is known to have (see ``json_patch``).
    existing: frozenset[str] = frozenset()
    #: Tolerations that its pods get, in the place of those that they got before; None: these stay.
    tolerations: Sequence[Mapping[str, Any]] | None = None
    #: Seats (indices) that pods may take once it is carried out. It is sent only while these are held.
    seats: Mapping[AdmissionId, frozenset[int]] = field(default_factory=dict)


def orders_for(
    state: WorkloadState,
    fact: WorkloadFact | None,
    inventory: NodeInventory,
    timeouts: Timeouts,
    promised: Mapping[str, Promised] = MappingProxyType({}),
    *,
    rules: ReleaseRules = PLAIN_RELEASE,
) -> list[Order]:
    """All that is to be written for one workload now.

    ``promised``: seats that pods (by uid) were assigned before; they are assigned the same again or none, and no
    other pod gets one of these. ``rules``: of its queue.
    """
    # These pods are deleted once it is stored how to make them again: see ``admission.kube.writers.recreate``.
    to_recreate = {pod.uid for pod in state.to_recreate}
    removals = [_remove(pod, "stray") for pod in state.leftovers if not pod.deleting]
    removals += [_remove(pod, "misplaced") for pod in state.unschedulable if not pod.deleting]
    removals += [_remove(pod, ABANDONED) for pod in state.abandoned if not pod.deleting]
    removals += _buried(state, inventory)
    removals += [_remove(pod, LOST, grace=0) for pod in state.lost]
    holding = support_of(state.key).holding
    if holding is Holding.GATED:
        removals += _evictions(state)
    removals += _shortened(state, timeouts.eviction_grace, {order.uid for order in removals})
    orders = [order for order in removals if order.uid not in to_recreate]
    if holding is Holding.NO_PODS:
        return orders
    if holding in SUSPENDED and fact is not None and not state.is_over:
        orders += _job_orders(state, fact, inventory, rules)
    if not state.is_over:
        orders += _releases(state, fact, promised, rules)
    return orders


def _remove(pod: PodFact, intent: str, grace: int | None = None) -> Order:
    return Order(
        verb=Verb.DELETE_POD, namespace=pod.namespace, name=pod.name, uid=pod.uid, intent=intent, grace=grace
    )


def _buried(state: WorkloadState, inventory: NodeInventory) -> list[Order]:
    """Pods on nodes that no longer exist: no kubelet ends them."""
    return [
        replace(_remove(pod, "buried", grace=0), missing_node=pod.node)
        for place in state.seat_maps
        for pod in (*place.seated.values(), *place.unseated)
        if pod.node is not None and pod.node not in inventory.nodes
    ]


def _evictions(state: WorkloadState) -> list[Order]:
    return [
        replace(
            _remove(pod, "evict"),
            # A budget of the workload's own user would let it run on.
            verb=Verb.EVICT_POD
            if place.admission.asks_budgets()
            and not state.is_run_out
            and place.admission.id not in state.beyond_budgets
            else Verb.DELETE_POD,
        )
        for place in state.seat_maps
        if place.admission.state is AdmissionState.EVICTING
        for pod in (*place.seated.values(), *place.unseated)
        if not pod.deleting
    ]


def _shortened(state: WorkloadState, longest: int, others: Set[str]) -> Iterator[Order]:
    """Pods that are asked to end, and may take longer than ``longest`` seconds. ``others``: removed otherwise.

    The first deletion of a pod gives it the grace period of its spec, which has no bound. The API server lets a later
    deletion shorten it, counted from the first one, so each pod is deleted again at most once.
    """
    evicted = (place for place in state.seat_maps if place.admission.state is AdmissionState.EVICTING)
    ending = {
        pod.uid: pod
        for pods in (state.leftovers, *((*place.seated.values(), *place.unseated) for place in evicted))
        for pod in pods
        if pod.deleting and pod.grace > longest and pod.uid not in others
    }
    return (_remove(pod, SHORTENED, grace=longest) for pod in ending.values())


def _job_orders(
    state: WorkloadState, fact: WorkloadFact, inventory: NodeInventory, rules: ReleaseRules
) -> list[Order]:
    open_ = [place.admission for place in state.seat_maps if place.admission.state is AdmissionState.OPEN]
    evicting = len(open_) < len(state.seat_maps)
    if any(admission.id in state.evictable for admission in open_):
        return []  # it goes back first: what it asks now may not be what was admitted
    if fact.suspended:
        return _of_suspended(state, fact, () if evicting else open_, inventory, rules)
    # One that lacks nothing is about to end, or was scaled to nothing: it has nothing to be kept from.
    # What ran before it was in a queue would lose what it has done, also if it cannot be read.
    by_operator = support_of(fact.key).holding is Holding.SUSPENDED_AND_GATED
    by_muster = fact.revision is not None and fact.revision.resumed
    ran_before = bool(state.foreign) or (by_operator and not by_muster)
    # Its controller makes no pods any more.
    fails = state.is_run_out and fact.phase == FAILING
    goes_back = not fails and (evicting or (not open_ and state.needs_seats and not ran_before))
    if goes_back and state.unbooked is None:
        return [_patch_job(fact, "suspend", suspended(fact)["spec"])]
    return []


def _of_suspended(
    state: WorkloadState,
    fact: WorkloadFact,
    open_: Sequence[Admission],
    inventory: NodeInventory,
    rules: ReleaseRules,
) -> list[Order]:
    """Orders of an object that is suspended. ``open_``: admissions by which it may go on."""
    if open_:
        if support_of(fact.key).holding is Holding.SUSPENDED_AND_GATED:
            return [_resumption(fact, "resume gated", resumed(fact, state.workload.queue)["spec"])]
        return [_resume(state, fact, open_, inventory, rules)]
    ends = fact.phase in (UNSTARTED, FAILING) and not state.needs_seats
    ends = ends or (fact.phase == FAILING and state.is_run_out)
    if ends and not state.seat_maps:
        # A Job that is suspended has no start time, and cannot end without; once resumed it gets one.
        return [_resumption(fact, "resume to end", {"suspend": False})]
    if fact.maker is not None:
        # It may have gone back after its maker was resumed and before it was itself.
        return [_maker_order(fact.maker, fact.namespace, MAKER_WAITS, suspend=True)]
    return []


def _resume(
    state: WorkloadState,
    fact: WorkloadFact,
    open_: Sequence[Admission],
    inventory: NodeInventory,
    rules: ReleaseRules,
) -> Order:
    """Directed, if one admission's seats leave the scheduler no choice that matters; else gated pod by pod, as one that
    may grow always is: no seat could be added to the nodes of a template.
    """
    template: dict[str, Any]
    existing = frozenset[str]() if fact.revision is None else fact.revision.existing
    grows = rules.jobs_may_grow if fact.may_grow is None else fact.may_grow
    directed = not grows and len(open_) == 1 and not state.needs_seats
    directed = directed and leaves_no_choice(open_[0], inventory)
    if directed and not _ranks_matter(fact, open_[0]) and (affinity := _directions(fact, open_[0])):
        admission = open_[0]
        tolerated = missing(fact.pod_sets[0].nodes.tolerations, rules.tolerations_for(admission.holding()))
        template = {
            "metadata": {
                "labels": {names.RELEASED: "true"},
                "annotations": {
                    names.ADMISSION_ID: str(admission.id),
                    **_noted(tolerated, existing),
                    **(_marks(existing) if rules.kept else {}),
                },
            },
            "spec": {"affinity": affinity, "schedulingGates": None},
        }
        # Its pods are not gated: if the Job has grown meanwhile, it goes back to what has seats.
        # Nor may pods come up next to those that still end, which the Job may have if it was suspended meanwhile.
        spec = {
            "suspend": False,
            "parallelism": fact.parallelism,
            "podReplacementPolicy": "Failed",
            "template": template,
        }
        seats = {admission.id: frozenset(_held(admission))}
        return _resumption(fact, f"resume {admission.id}", spec, seats=seats, tolerations=tolerated)
    template = {
        "metadata": {
            "labels": {names.QUEUE_LABEL: state.workload.queue, names.RELEASED: "false"},
            "annotations": {names.ADMISSION_ID: None, **_noted((), existing)},
        },
        "spec": {
            "affinity": own_affinity(fact.pod_sets[0].nodes),
            # So that no policy has to change each of its pods.
            "schedulingGates": [{"name": names.GATE}],
        },
    }
    return _resumption(fact, "resume gated", {"suspend": False, "template": template}, tolerations=())


def _directions(fact: WorkloadFact, admission: Admission) -> dict[str, Any]:
    """The affinity that ties all pods of a Job to their nodes; {}: it would be too large, as it has each of the Job's
    own terms once for each node."""
    nodes = sorted({seat.node for seat in admission.holding()})
    own = fact.pod_sets[0].nodes
    if len(nodes) * max(1, len(own.affinity)) > _MOST_TERMS:
        return {}
    affinity = pinned_affinity(nodes, own)
    return affinity if len(msgspec.json.encode(affinity)) <= 2 * LARGEST_AFFINITY else {}


def _resumption(fact: WorkloadFact, intent: str, spec: Mapping[str, Any], **more: Any) -> Order:
    revision = fact.revision
    if revision is None:
        return _patch_job(fact, intent, spec, **more)
    existing = revision.existing if revision.templates else _existing_in_job(revision.existing)
    return _patch_job(fact, intent, spec, revision=revision, existing=existing, **more)


@lru_cache(maxsize=256)
def _existing_in_job(of_template: frozenset[str]) -> frozenset[str]:
    return _JOB.union(f"/spec/template{path}" for path in of_template)


def _held(admission: Admission) -> list[int]:
    return [index for index in range(len(admission.seats)) if index not in admission.ended]


def _ranks_matter(fact: WorkloadFact, admission: Admission) -> bool:
    """Whether it counts which pod is on which node: they have numbers, and asked to be close to one another."""
    pods = fact.pod_sets[0]
    close = pods.required_topology or pods.preferred_topology or pods.partitions
    return fact.indexed and bool(close) and len({seat.node for seat in admission.holding()}) > 1


def leaves_no_choice(admission: Admission, inventory: NodeInventory) -> bool:
    """Whether pods that may use any of the seats' nodes can only end up as the seats say.

    So it is when all seats are on one node, or when no node could take one pod more than it has seats.
    """
    seats = admission.holding()
    if any(devices_text(seat.takes) for seat in seats):
        return False  # each pod is assigned devices of its own
    per_node: Counter[NodeName] = Counter(seat.node for seat in seats)
    if len(per_node) == 1:
        return True
    takes = seats[0].takes if seats else NOTHING
    for node, count in per_node.items():
        fact = inventory.nodes.get(node)
        if fact is None or (takes * (count + 1)).fits(fact.allocatable):
            return False
    return all(seat.takes == takes for seat in seats)


def _patch_job(fact: WorkloadFact, intent: str, spec: Mapping[str, Any], **more: Any) -> Order:
    return Order(
        verb=Verb.PATCH_JOB,
        namespace=fact.namespace,
        name=fact.name,
        uid=fact.key.uid,
        resource=support_of(fact.key).resource,
        intent=intent,
        body={"metadata": {"uid": fact.key.uid}, "spec": spec},
        before=None
        if fact.maker is None
        else _maker_order(fact.maker, fact.namespace, intent, suspend=bool(spec.get("suspend"))),
        **more,
    )


def _maker_order(maker: ObjectRef, namespace: str, intent: str, *, suspend: bool) -> Order:
    """The maker of an object is suspended and resumed with it: its operator would make it as itself again."""
    return Order(
        verb=Verb.PATCH_JOB,
        namespace=namespace,
        name=maker.name,
        uid=maker.uid,
        resource=maker.resource,
        intent=intent,
        body={"metadata": {"uid": maker.uid}, "spec": {"suspend": suspend}},
    )


def _releases(
    state: WorkloadState, fact: WorkloadFact | None, promised: Mapping[str, Promised], rules: ReleaseRules
) -> Iterator[Order]:
    """Gated pods that wait while a seat of theirs is vacant."""
    seated = {pod.uid for place in state.seat_maps for pod in place.seated.values()}
    waiting = [pod for pod in state.pods if may_be_seated(pod) and pod.uid not in seated]
    if not waiting:
        return
    waiting.sort(key=_rank)
    by_index = state.is_by_ordinal
    places = [place for place in state.seat_maps if place.admission.state is AdmissionState.OPEN]
    free = {
        Promised(place.admission.id, index): place.admission
        for place in places
        for index in place.vacant()
        if index not in state.ended.get(place.admission.id, ())
    }
    vacant = _by_place(free, by_index, frozenset(promised.values()))
    name_of = support_of(state.key).pod_set_name
    # Of a group, or without the object, no ports are compared.
    pod_sets = (
        {pods.name: pods for pods in state.workload.pod_sets} if fact is not None and fact.pod_sets else {}
    )
    for pod in waiting:
        seat = promised.get(pod.uid)
        if seat is not None:
            if seat in free:
                yield _let_go(pod, free[seat], seat.position, rules)
        elif seats := vacant.get((name_of(pod, fact), pod.index if by_index else None)):
            fits = (
                position
                for position, (admission, index) in enumerate(seats)
                if may_take(admission.seats[index], pod, pod_sets.get(admission.seats[index].pod_set))
            )
            if (position := next(fits, None)) is not None:
                yield _let_go(pod, *seats.pop(position), rules)


def _rank(pod: PodFact) -> tuple[int, list[str | int]]:
    """Seats are in the order of the topology, so pods take them in theirs: by index, else by the numbers in names."""
    parts = re.split(r"(\d+)", pod.name)
    return pod.index or 0, [int(part) if place % 2 else part for place, part in enumerate(parts)]


Place = tuple[str, int | None]


def _by_place(
    free: Mapping[Promised, Admission], by_index: bool, promised: Set[Promised]
) -> dict[Place, list[tuple[Admission, int]]]:
    """Seats that no pod was promised, by the pods that may take them."""
    vacant: dict[Place, list[tuple[Admission, int]]] = {}
    for promise, admission in free.items():
        if promise not in promised:
            seat = admission.seats[promise.position]
            key = (seat.pod_set, seat.ordinal if by_index else None)
            vacant.setdefault(key, []).append((admission, promise.position))
    return vacant


def _marks(existing: Set[str]) -> dict[str, str]:
    """Annotations by which cluster autoscalers leave pods alone, without those that are written already.

    ``existing``: JSON pointers of what there is. A merge patch, and a JSON patch's ``add``, would overwrite it.
    """
    return {
        key: text
        for key, text in names.KEPT_FROM_AUTOSCALERS.items()
        if f"/metadata/annotations/{escaped(key)}" not in existing
    }


def _noted(added: Sequence[Mapping[str, Any]], existing: Set[str]) -> dict[str, str | None]:
    """The annotation that lists the tolerations which are added. One of before is removed where there are none."""
    if added:
        return {names.FLAVOR_TOLERATIONS: listed(added)}
    written = f"/metadata/annotations/{escaped(names.FLAVOR_TOLERATIONS)}"
    return {names.FLAVOR_TOLERATIONS: None} if written in existing else {}


def _let_go(pod: PodFact, admission: Admission, index: int, rules: ReleaseRules) -> Order:
    seat = admission.seats[index]
    tolerated = missing(pod.shape.nodes.tolerations, rules.tolerations_for((seat,)))
    return Order(
        verb=Verb.PATCH_POD,
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        intent=f"release {admission.id}/{index}",
        seat=Promised(admission.id, index),
        seats={admission.id: frozenset({index})},
        existing=_GATED_POD | pod.existing,
        tolerations=tolerated or None,
        body={
            "metadata": {
                "uid": pod.uid,
                "labels": {names.RELEASED: "true"},
                "annotations": {
                    names.ADMISSION_ID: str(admission.id),
                    names.SEAT: f"{seat.pod_set}/{seat.ordinal}",
                    **({names.DEVICES: devices} if (devices := devices_text(seat.takes)) else {}),
                    **_noted(tolerated, pod.existing),
                    **(_marks(pod.existing) if rules.kept else {}),
                },
            },
            "spec": {"schedulingGates": None, "affinity": pinned_affinity([seat.node], pod.shape.nodes)},
        },
    )


def paths_of(pod: Mapping[str, Any]) -> frozenset[str]:
    """What ``json_patch`` has to know of the document of a gated pod."""
    affinity = pod["spec"].get("affinity")
    has_nodes = affinity is not None and affinity.get("nodeAffinity") is not None
    return frozenset(
        (
            *("/metadata", "/spec", "/spec/schedulingGates"),
            *(f"/metadata/{part}" for part in _WRITTEN if pod["metadata"].get(part) is not None),
            *((TOLERATIONS_AT,) if pod["spec"].get("tolerations") is not None else ()),
            *(("/spec/affinity",) if affinity is not None else ()),
            *(("/spec/affinity/nodeAffinity",) if has_nodes else ()),
        )
    )


def json_patch(order: Order, existing: Collection[str] | None = None) -> list[Step] | None:
    """The write of an order with conditions that a merge patch cannot state; None if a merge patch does.

    A test of a Job's ``metadata.generation`` is exact, since the API server raises it with every change of the spec,
    and cheap: statuses, which several controllers write around a resume, leave it as it is, unlike ``resourceVersion``.
    A pod is tested for its gate, so that a release which arrives late or twice changes nothing.

    ``existing``: JSON pointers of the objects in the document; None for those that are known to be there.
    """
    if order.body is None or (order.revision is None and order.seat is None):
        return None
    changes = {part: value for part, value in order.body.items() if part != "metadata"}
    tests = [expect("/metadata/uid", order.uid)]
    if order.revision is not None:
        tests.append(expect("/metadata/generation", order.revision.generation))
    else:
        tests.append(expect("/spec/schedulingGates", [{"name": names.GATE}]))
        changes = {"metadata": {part: order.body["metadata"][part] for part in _WRITTEN}, **changes}
    known = order.existing if existing is None else existing
    return [*tests, *steps_of(changes, known), *_toleration_steps(order, known)]


def _toleration_steps(order: Order, existing: Collection[str]) -> Iterator[Step]:
    """Those that Muster added before are removed, the last first: then the places of the others hold."""
    if order.tolerations is None:
        return
    at = TOLERATIONS_AT if order.seat is not None else f"/spec/template{TOLERATIONS_AT}"
    places = (path.removeprefix(f"{at}/") for path in existing if path.startswith(f"{at}/"))
    for place in sorted(map(int, places), reverse=True):
        yield {"op": "remove", "path": f"{at}/{place}"}
    if order.tolerations and at not in existing:
        yield {"op": "add", "path": at, "value": []}
    for toleration in order.tolerations:
        yield {"op": "add", "path": f"{at}/-", "value": toleration}


# ── objects that operators make pods of ─────────────────────────────────────────────────────────────────────────


def resumed(fact: WorkloadFact, queue: QueueName) -> Mapping[str, Any]:
    """The changes that resume an object: its pods come up gated, and say which pod set they are of."""
    changes: dict[str, Any] = {}
    _put(changes, support_of(fact.key).suspend, False)
    templates = () if fact.revision is None else fact.revision.templates
    for pods, path in zip(fact.pod_sets, templates, strict=False):
        member = member_text(fact.key, fact.name, pods.name)
        written = {"labels": {names.QUEUE_LABEL: queue}, "annotations": {names.MEMBER_OF: member}}
        if path[-1].isdecimal():
            # Elements of a list are replaced with all of it: the first of them makes it.
            infos = path[:-1]
            _put(changes, infos, [*(_at(changes, infos) or ()), written])
        else:
            _put(changes, path, written)
    return changes


def suspended(fact: WorkloadFact) -> Mapping[str, Any]:
    """The changes that suspend an object."""
    changes: dict[str, Any] = {}
    _put(changes, support_of(fact.key).suspend, True)
    return changes


def _at(changes: Mapping[str, Any], path: Path) -> Any:
    found: Any = changes
    for name in path:
        found = None if found is None else found.get(name)
    return found


def _put(changes: dict[str, Any], path: Path, value: Any) -> None:
    for name in path[:-1]:
        changes = changes.setdefault(name, {})
    changes[path[-1]] = value

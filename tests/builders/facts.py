"""What workloads, pods and admissions look like, in a line each, for tests of what follows from them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from admission.facts.changes import Change, Fact, FactKind
from admission.facts.cluster import NamespaceFact, NodeFact, QueueFact
from admission.facts.pods import PodFact, PodPhase, PodShape
from admission.facts.workloads import ChildCluster, ChildJob, JobCounts, WorkloadFact
from admission.workloads.inputs import Remembered, Timeouts, WorkloadInputs
from admission.workloads.state import WorkloadState, derive_state
from admission.world.world import World
from queues import kind_names
from queues.admissions import Admission, AdmissionState, Seat
from queues.kind_names import KindName
from queues.quota.queue import Queue
from queues.resources import GPU, Resources
from queues.workload import AdmissionId, NodeName, PodSet, QueueName, WorkloadKey
from queues.world_rows import WorldRows

NOW = 1_800_000_000
GRACE = 10
TEAM = QueueName("team")
JOB = WorkloadKey(kind_names.JOB, "job-uid")
GROUP = WorkloadKey(kind_names.POD_GROUP, "group-uid")
VOLCANO = WorkloadKey(kind_names.VOLCANO_JOB, "6b4de2f6-0d0a-4d8f-9d0a-3f1f6a6f1f10")
SETS = {kind_names.JOB: "main", kind_names.VOLCANO_JOB: "worker", kind_names.POD: "pod"}


def gpus(count: int = 1) -> Resources:
    return Resources({GPU: count * 1000, "pods": 1})


def node(name: str, *, count: int = 8, **facts: Any) -> NodeFact:
    allocatable = Resources({GPU: count * 1000, "pods": 110})
    return NodeFact(name=NodeName(name), allocatable=allocatable, **facts)


def pod(name: str, node: str | None = None, **facts: Any) -> PodFact:
    """A pod: bound, running and ready on a node, else pending; one-GPU, controlled by somebody."""
    shape = {"takes": gpus(), **{key: facts.pop(key) for key in _OF_SHAPES & facts.keys()}}
    given: dict[str, Any] = {
        "uid": name,
        "namespace": "ns",
        "name": name,
        "phase": PodPhase.RUNNING if node else PodPhase.PENDING,
        "ready_since": NOW - 60 if node else None,
        "bound_at": NOW - 70 if node else 0,
        "node": NodeName(node) if node else None,
        "shape": PodShape(**shape),
        "controller": "job/a",
        # What ``job`` and ``volcano_job`` are called.
        "owner_name": "train",
    }
    return PodFact(**given | facts)


_OF_SHAPES = {each.name for each in fields(PodShape)}


def gated(name: str, **facts: Any) -> PodFact:
    return pod(name, gated=True, **facts)


def migrated(name: str, node: str | None = None, **facts: Any) -> PodFact:
    """A pod of a namespace in migration mode."""
    return pod(name, node, adopt_until=NOW + 1, **facts)


def released(name: str, seat: str | None, node: str | None = None, *, by: int = 1, **facts: Any) -> PodFact:
    """A pod of an admission, in the seat ``set/ordinal`` (None: of a directed Job)."""
    place = None
    if seat is not None:
        pod_set, _, ordinal = seat.rpartition("/")
        place = (pod_set, int(ordinal))
    return pod(name, node, admission=AdmissionId(by), seat=place, **facts)


def job(count: int, **facts: Any) -> WorkloadFact:
    """A batch Job of interchangeable pods; ``indexed``: with a completion for each. What its parallelism is beyond the
    count has succeeded."""
    parallelism = facts.get("parallelism", count)
    counts = JobCounts(
        parallelism=parallelism,
        completions=parallelism,
        succeeded=parallelism - count,
        over=() if facts.get("indexed") else None,
    )
    return _fact(JOB, count, **{"parallelism": count, "counts": counts} | facts)


def volcano_job(count: int, **facts: Any) -> WorkloadFact:
    return _fact(VOLCANO, count, **facts)


def group(minimum: int, **facts: Any) -> WorkloadFact:
    given: dict[str, Any] = {
        "key": GROUP,
        "namespace": "ns",
        "name": "gang",
        "queue": TEAM,
        "minimum": minimum,
    }
    return WorkloadFact(**given | facts)


def _fact(key: WorkloadKey, count: int, **facts: Any) -> WorkloadFact:
    given: dict[str, Any] = {
        "key": key,
        "namespace": "ns",
        "name": "train",
        "queue": TEAM,
        "minimum": count,
        "pod_sets": (PodSet(name=SETS[key.kind], count=count, takes=gpus()),),
    }
    return WorkloadFact(**given | facts)


def admission(
    of: WorkloadKey, nodes: str, *, number: int = 1, pod_set: str | None = None, first: int = 0, **facts: Any
) -> Admission:
    """One seat per node named (``"n1 n1 n2"``). What has started was ready."""
    given: dict[str, Any] = {
        "id": AdmissionId(number),
        "workload": of,
        "namespace": "ns",
        "name": "gang" if of.kind == kind_names.POD_GROUP else "train",
        "queue": TEAM,
        "priority": 0,
        "opened_at": NOW - 60,
        "ready": facts.get("started", False),
        "seats": tuple(
            Seat(pod_set=pod_set or SETS[of.kind], ordinal=ordinal, node=NodeName(name), takes=gpus())
            for ordinal, name in enumerate(nodes.split(), first)
        ),
    }
    return Admission(**given | facts)


def evicting(taken: Admission) -> Admission:
    return replace(taken, state=AdmissionState.EVICTING)


def state_of(
    fact: WorkloadFact | None,
    pods: Sequence[PodFact] = (),
    admissions: Sequence[Admission] = (),
    *,
    key: WorkloadKey | None = None,
    now: int = NOW,
    **inputs: Any,
) -> WorkloadState:
    """The state of a workload that is there."""
    known = key or (fact.key if fact is not None else admissions[0].workload)
    remembered = Remembered(**{name: inputs.pop(name) for name in Remembered._fields if name in inputs})
    given = {"key": known, "fact": fact, "pods": pods, "admissions": admissions, "arrival": 1, **inputs}
    found = derive_state(WorkloadInputs(**given, remembered=remembered), now, Timeouts(refusal_grace=GRACE))
    assert found is not None
    return found


def wanted(of: WorkloadState) -> int:
    """Pods that a workload wants seats for."""
    return sum(len(pods.wanted()) for pods in of.workload.pod_sets)


def queue(name: str, **facts: Any) -> QueueFact:
    return QueueFact(queue=Queue(name=QueueName(name), **facts), uid=f"{name}-uid")


def seen(fact: Fact) -> Change:
    """The fact as an informer tells it."""
    match fact:
        case PodFact():
            return Change(FactKind.POD, fact.uid, fact)
        case WorkloadFact():
            return Change(FactKind.WORKLOAD, fact.key.uid, fact, fact.key.kind)
        case ChildJob() | ChildCluster():
            kind = kind_names.JOB if isinstance(fact, ChildJob) else KindName("raycluster")
            return Change(FactKind.WORKLOAD, fact.uid, fact, kind)
        case NodeFact():
            return Change(FactKind.NODE, fact.name, fact)
        case NamespaceFact():
            return Change(FactKind.NAMESPACE, fact.name, fact)
        case QueueFact():
            return Change(FactKind.QUEUE, fact.queue.name, fact)
        case _:
            raise AssertionError(fact)


def gone(fact: Fact) -> Change:
    """Its object was deleted."""
    return replace(seen(fact), fact=None)


def see(known: World, *what: Fact | Change, now: int = NOW) -> World:
    """The world sees these objects and changes, and what follows from them at this time."""
    known.observe(_changes(what))
    known.refresh(now)
    return known


def world(
    facts: Iterable[Fact | Change] = (),
    admissions: Sequence[Admission] = (),
    arrivals: Mapping[WorkloadKey, int] | None = None,
    **timeouts: int,
) -> World:
    """A world that has just begun with these facts and rows."""
    rows = WorldRows(admissions=admissions, arrivals=arrivals or {})
    begun = World(rows, Timeouts(**{"refusal_grace": GRACE, **timeouts}))
    begun.observe(_changes(facts))
    begun.refresh(NOW)
    return begun


def _changes(what: Iterable[Fact | Change]) -> list[Change]:
    return [each if isinstance(each, Change) else seen(each) for each in what]

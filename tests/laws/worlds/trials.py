"""Small clusters with work that runs and waits, and objects that users are about to submit to them."""

from collections import Counter
from typing import Any

from hypothesis import strategies as st

from admission.engine.snapshot import Snapshot
from admission.workloads.context import Context
from queues.plan import Plan
from queues.quota.queue import Limits, QueuePolicy
from queues.read_api.trials import TrialBody
from queues.resources import Resources
from queues.workload import WorkloadKey
from tests.builders import facts
from tests.builders.trials.worlds_in_memory import (
    GPU,
    Document,
    WorldInMemory,
    batch_job,
    job_set,
    pod,
    pod_group,
    stored,
    volcano_job,
)

HOST = "kubernetes.io/hostname"
QUEUES = ("one", "two", "nowhere")
CLASSES = ("low", "high")
APPS = ("a", "b")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@st.composite
def clusters(draw: st.DrawFn) -> WorldInMemory:
    """A cluster at rest."""
    found = WorldInMemory(context=Context(priorities={"low": 0, "high": 100}))
    found.see_namespaces(ml={}, lab={})
    found.see(facts.queue("root", parent=None), facts.queue("default"))
    for name in ("one", "two"):
        found.see(
            facts.queue(
                name,
                limits=Limits(
                    deserved={GPU: draw(st.integers(0, 12)) * 1000} if draw(st.booleans()) else {},
                    capability={GPU: draw(st.integers(8, 24)) * 1000} if draw(st.booleans()) else {},
                    guarantee=Resources(),
                ),
                policy=QueuePolicy(reclaim=draw(st.sampled_from([None, "never"]))),
                order=draw(st.sampled_from([None, "fifo", "strict-fifo"])),
                max_gang=draw(st.sampled_from([None, None, 3])),
                max_per_user=draw(st.sampled_from([{}, {}, {GPU: 6000}])),
            )
        )
    for number in range(draw(st.integers(1, 4))):
        labels = {HOST: f"n{number}", "rack": f"r{number // 2}"}
        found.see(facts.node(f"n{number}", count=draw(st.sampled_from([4, 8])), labels=labels))
    for number in range(draw(st.integers(0, 5))):
        for document in draw(objects(f"old-{number}", queues=("one", "two"))):
            meta = document["metadata"]
            found.store(stored(document, f"{meta['name']}-uid", user=draw(st.sampled_from(["alice", "bob"]))))
        if draw(st.booleans()):
            found.settle()
    found.settle()
    return found


@st.composite
def objects(draw: st.DrawFn, name: str, queues: tuple[str, ...] = QUEUES) -> list[Document]:
    """What one user submits together."""
    pods, gpus, queue = draw(st.integers(1, 4)), draw(st.integers(0, 4)), draw(st.sampled_from(queues))
    kind = draw(st.sampled_from(["job", "vcjob", "group", "pod", "jobset"]))
    asks: dict[str, Any] = {"gpu": gpus}
    match kind:
        case "job":
            found = [batch_job(name, pods, queue=queue, **asks)]
        case "vcjob":
            found = [volcano_job(name, pods, queue=queue, **asks)]
        case "group":
            members = [pod(f"{name}-{number}", group=name, **asks) for number in range(pods)]
            found = [pod_group(name, pods, queue=queue), *members]
        case "pod":
            found = [pod(name, queue=queue, **asks)]
        case _:
            found = [job_set(name, pods, 1, queue=queue, **asks)]
    if draw(st.booleans()):
        _rank(found[0], draw(st.sampled_from(CLASSES)))
    if draw(st.booleans()):
        _relate(found, app=draw(st.sampled_from(APPS)), rules=draw(rules_about_pods()))
    return found


@st.composite
def rules_about_pods(draw: st.DrawFn) -> Document:
    """Fields of a pod's spec that are about other pods, of its own label or of another one; none, often."""
    about = {"labelSelector": {"matchLabels": {"app": draw(st.sampled_from(APPS))}}}
    term = {**about, "topologyKey": draw(st.sampled_from([HOST, "rack"]))}
    match draw(st.sampled_from(["none", "spread", "near", "apart"])):
        case "spread":
            hard = {"maxSkew": draw(st.integers(1, 2)), "whenUnsatisfiable": "DoNotSchedule"}
            return {"topologySpreadConstraints": [{**term, **hard}]}
        case "near":
            return {"affinity": {"podAffinity": {REQUIRED: [term]}}}
        case "apart":
            return {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}
        case _:
            return {}


def _relate(documents: list[Document], *, app: str, rules: Document) -> None:
    for document in documents:
        for template in _pods_of(document):
            template["metadata"].setdefault("labels", {})["app"] = app
            template["spec"] |= rules


def _pods_of(document: Document) -> list[Document]:
    """The pod that a document is, or its templates."""
    spec = document["spec"]
    match document["kind"]:
        case "Pod":
            return [document]
        case "PodGroup":
            return []
        case "JobSet":
            return [each["template"]["spec"]["template"] for each in spec["replicatedJobs"]]
        case _:
            return [each["template"] for each in spec["tasks"]] if "tasks" in spec else [spec["template"]]


def _rank(document: Document, name: str) -> None:
    match document["kind"], document["apiVersion"]:
        case ("Job", "batch/v1"):
            document["spec"]["template"]["spec"]["priorityClassName"] = name
        case ("Job", _) | ("PodGroup", _):
            document["spec"]["priorityClassName"] = name


def submit(cluster: WorldInMemory, documents: list[Document], key: WorkloadKey) -> None:
    """Submit them for real; the workload gets this key."""
    for number, document in enumerate(documents):
        cluster.store(stored(document, key.uid if not number else f"member-{number}"))


def told(item: TrialBody) -> tuple[Any, ...]:
    """What a trial says of one workload: its places, its reason, and who goes for it."""
    places = sorted((each.node, each.pod_set, each.count) for each in item.places)
    reason = None if item.reason is None else (item.reason.code, item.reason.message)
    victims = sorted((each.name, each.code) for each in item.victims)
    return places, reason, victims


def happened(snapshot: Snapshot, plan: Plan, key: WorkloadKey) -> tuple[Any, ...]:
    """What a turn did with it."""
    evicts = [each for each in plan.evicts if each.beneficiary == key]
    given = plan.claims if evicts else plan.admits
    seats = Counter(
        (seat.node, seat.pod_set) for each in given if each.workload == key for seat in each.seats
    )
    reason = plan.reasons.get(key)
    return (
        sorted((*place, count) for place, count in seats.items()),
        None if reason is None else (reason.code, reason.message),
        sorted((snapshot.admissions[each.admission].name, each.code) for each in evicts),
    )

"""A world whose turns are applied in memory: what Postgres and the cluster would say comes at once."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.plan_limit import NO_LIMIT
from admission.engine.snapshot import Snapshot
from admission.facts.changes import Change, Fact, FactKind
from admission.facts.cluster import NamespaceFact, QueueFact, TopologyFact
from admission.trials.comparison import compared
from admission.trials.quota_changes import with_quota
from admission.trials.submitted import Submitted, asked_of, submitted
from admission.trials.trial import DecidedTrial, tried
from admission.trials.world_view import WorldView
from admission.wire import WirePod
from admission.workloads.context import Context, in_context
from admission.workloads.inputs import Timeouts
from admission.workloads.kinds import known_kinds, read_pod
from admission.world.world import World
from queues.api import names
from queues.plan import Plan
from queues.quota.queue import Limits
from queues.read_api.trials import ComparisonBody, TrialRequestBody
from queues.resources import show
from queues.workload import AdmissionId
from queues.world_rows import WorldRows
from tests.builders import facts
from tests.builders.facts import NOW, seen

Document = dict[str, Any]
GPU = "nvidia.com/gpu"
HOST = "kubernetes.io/hostname"


@dataclass
class WorldInMemory:
    """A cluster and its leader."""

    context: Context = field(default_factory=Context)
    now: int = NOW
    world: World = field(default_factory=lambda: World(WorldRows(), Timeouts()))
    snapshot: Snapshot = field(init=False)
    plan: Plan = field(init=False)
    memo: Memo = field(default_factory=Memo)
    arrived: int = 0
    last_id: int = 0

    def see(self, *found: Fact) -> None:
        """Facts as informers tell them."""
        self.world.observe([seen(documented(fact)) for fact in found])

    def see_namespaces(self, **labels: Mapping[str, str]) -> None:
        self.see(*(NamespaceFact(name=name, labels=dict(each)) for name, each in labels.items()))

    def store(self, document: Document) -> None:
        """An object as the API server has stored it: read by the code that reads watched objects."""
        support = known_kinds().by_resource[document["apiVersion"], document["kind"]]
        raw = json.dumps(document).encode()
        if support.reader is None:
            fact: Any = read_pod(msgspec.json.decode(raw, type=WirePod))
        else:
            fact = support.reader.fact(msgspec.json.decode(raw, type=support.reader.wire), msgspec.Raw(raw))
        self._observe([seen(in_context(fact, self.context))])

    def _observe(self, changes: Iterable[Change]) -> None:
        self.world.observe(changes)

    def turn(self) -> Plan:
        """One turn of the leader; its plan is applied, and pods of victims are gone at once."""
        world = self.world
        world.refresh(self.now)
        for key in sorted(world.unsaved.arrivals, key=lambda each: (each.kind, each.uid)):
            self.arrived += 1
            world.number({key: self.arrived})
        world.unsaved.arrivals.clear()
        world.refresh(self.now)
        self.snapshot = world.freeze(self.now)
        self.plan, self.memo = decide(self.snapshot, self.memo, NO_LIMIT)
        count = len(self.plan.adopts) + len(self.plan.admits)
        ids = [AdmissionId(self.last_id + number) for number in range(1, count + 1)]
        self.last_id += count
        world.put_admissions(self.plan.changed_admissions(self.snapshot.admissions, ids).values())
        world.ledger.put_claims(self.plan.claims, self.plan.dropped)
        world.refresh(self.now)
        return self.plan

    def settle(self) -> None:
        """Turns until nothing changes."""
        for _ in range(20):
            if not self.turn().changes_ledger():
                return
        raise AssertionError("it does not come to rest")

    def view(self) -> WorldView:
        return WorldView(
            world=self.world,
            context=self.context,
            now=self.now,
        )

    def objects(self, *documents: Document, **about: Any) -> list[Submitted]:
        question = TrialRequestBody(documents=documents, **{"namespace": "ml", "user": "alice", **about})
        return submitted(question, asked_of(question)[0], self.context, self.now)

    def tried(
        self, *documents: Document, changes: TrialRequestBody | None = None, **about: Any
    ) -> DecidedTrial:
        """What a trial says of these documents."""
        view, objects = self.view(), self.objects(*documents, **about)
        inputs = view.inputs(self.snapshot, objects)
        ground = view.ground(self.snapshot, self.plan, objects)
        next_turn = ground.next_turn()
        if changes is not None:
            next_turn = with_quota(next_turn, changes, view.queue_facts()).snapshot
        return tried(ground, next_turn, list(zip(objects, inputs, strict=True)))


def documented(fact: Fact) -> Fact:
    """A Queue with the document that states its limits; other facts as they are."""
    if not isinstance(fact, QueueFact) or fact.document:
        return fact
    queue, limits = fact.queue, fact.queue.limits
    stated = {
        "deserved": {name: show(name, units) for name, units in limits.deserved.items()},
        "capability": {name: show(name, units) for name, units in limits.capability.items()},
        "guarantee": {"resource": {name: show(name, units) for name, units in limits.guarantee.items()}},
    }
    parent = {} if queue.parent is None else {"parent": str(queue.parent)}
    return replace(fact, document={"spec": {**parent, **stated}})


def two_racks() -> WorldInMemory:
    """Two racks of two nodes with eight GPUs each; queue team deserves 16 of them and may use 24."""
    found = WorldInMemory(context=Context(priorities={"high": 100}))
    levels = TopologyFact(name="site", levels=("rack", HOST))
    found.world.observe([Change(FactKind.TOPOLOGY, "site", levels)])
    found.see_namespaces(ml={}, vision={}, gated={names.GATED_NAMESPACE: "true"})
    limits = Limits(deserved={GPU: 16_000}, capability={GPU: 24_000})
    found.see(
        facts.queue("root", parent=None),
        facts.queue("default"),
        facts.queue("team", limits=limits),
        facts.queue("other"),
        *(
            facts.node(f"n{number}", labels={HOST: f"n{number}", "rack": f"r{number // 2}"})
            for number in range(4)
        ),
    )
    found.settle()
    return found


def wanted_quota(*limits: str, **wanted: Any) -> TrialRequestBody:
    """Other quota, asked for by who may change that of every queue."""
    return TrialRequestBody(quota=limits, administers_all=True, **wanted)


def compared_with(cluster: WorldInMemory, *limits: str, **wanted: Any) -> ComparisonBody:
    """What other quota makes of a cluster."""
    view = cluster.view()
    ground = view.ground(cluster.snapshot, cluster.plan, ())
    next_turn = ground.next_turn()
    found = with_quota(next_turn, wanted_quota(*limits, **wanted), view.queue_facts(), ground.budget_use)
    return compared(next_turn, found.snapshot, notes=found.notes)


def container(**requests: int | str) -> Document:
    """GPUs by the name ``gpu``."""
    named = {GPU if name == "gpu" else name: str(amount) for name, amount in requests.items()}
    return {"name": "main", "image": "i", "resources": {"requests": named, "limits": named}}


def template(
    *, labels: Document | None = None, annotations: Document | None = None, **requests: Any
) -> Document:
    spec = {"containers": [container(**requests)], "restartPolicy": "Never"}
    return {"metadata": {"labels": labels or {}, "annotations": annotations or {}}, "spec": spec}


def batch_job(
    name: str, pods: int, *, queue: str = "", meta: Document | None = None, **requests: Any
) -> Document:
    """A batch/v1 Job as a user writes it."""
    labels = {names.QUEUE_LABEL: queue} if queue else {}
    spec = {"parallelism": pods, "completions": pods, "template": template(**requests)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels, **(meta or {})},
        "spec": spec,
    }


def volcano_job(name: str, pods: int, *, queue: str = "", **requests: Any) -> Document:
    task = {"name": "worker", "replicas": pods, "template": template(**requests)}
    spec = {"minAvailable": pods, "tasks": [task], **({"queue": queue} if queue else {})}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": spec,
    }


def pod_group(name: str, members: int, *, queue: str = "") -> Document:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": members, **({"queue": queue} if queue else {})},
    }


def pod(name: str, *, group: str = "", queue: str = "", **requests: Any) -> Document:
    annotations = {names.GROUP_ANNOTATION: group} if group else {}
    labels = {names.QUEUE_LABEL: queue} if queue else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"containers": [container(**requests)]},
    }


def job_set(name: str, replicas: int, pods: int, *, queue: str = "", **requests: Any) -> Document:
    job = {"parallelism": pods, "completions": pods, "template": template(**requests)}
    replicated = {"name": "workers", "replicas": replicas, "template": {"spec": job}}
    labels = {names.QUEUE_LABEL: queue} if queue else {}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "labels": labels},
        "spec": {"replicatedJobs": [replicated]},
    }


def stored(
    document: Document, uid: str, *, namespace: str = "ml", user: str = "alice", now: int = NOW
) -> Document:
    """The document as the API server stores it, by the admission policies: written here by hand."""
    found: Document = json.loads(json.dumps(document))
    meta = found["metadata"]
    meta |= {"uid": uid, "namespace": namespace, "generation": 1, "creationTimestamp": "2027-01-15T08:00:00Z"}
    meta.setdefault("annotations", {})[names.USER] = user
    match found["kind"], found["apiVersion"]:
        case ("Job", "batch/v1") | ("JobSet", _):
            found["spec"]["suspend"] = True
        case "Pod", _:
            found["spec"]["schedulingGates"] = [{"name": names.GATE}]
            found["spec"]["priority"] = 0
    return found

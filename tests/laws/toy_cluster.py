"""A cluster small enough to be random: objects as JSON, and the few things that real components do with them.

Nothing happens by itself: a test lets the job controllers, the scheduler, a kubelet or the watch take one step,
in any order. What Muster sees goes through the real translation.
"""

import copy
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from admission.facts import Change, Fact, FactKind
from admission.kube import objects
from admission.kube.context import Context, in_context
from admission.kube.translate import node_fact, pod_fact
from admission.kube.translate_documents import queue_fact, topology_fact
from admission.kube.translate_jobs import job_fact, pod_group_fact, volcano_job_fact
from admission.orders import Order, Verb
from queues.errors import Conflict, NotFound, Refused
from queues.spec import names
from queues.workload import WorkloadKind

Document = dict[str, Any]

NAMESPACE = "team"
GPU = "nvidia.com/gpu"
ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class _Kind:
    fact_kind: FactKind
    read: Callable[[bytes], Fact | None]
    workload_kind: WorkloadKind | None = None


KINDS = {
    "nodes": _Kind(FactKind.NODE, lambda raw: node_fact(msgspec.json.decode(raw, type=objects.Node))),
    "queues": _Kind(FactKind.QUEUE, queue_fact),
    "topologies": _Kind(FactKind.TOPOLOGY, topology_fact),
    "jobs": _Kind(
        FactKind.WORKLOAD,
        lambda raw: job_fact(msgspec.json.decode(raw, type=objects.Job)),
        WorkloadKind.JOB,
    ),
    "vcjobs": _Kind(
        FactKind.WORKLOAD,
        lambda raw: volcano_job_fact(msgspec.json.decode(raw, type=objects.VolcanoJob), raw),
        WorkloadKind.VOLCANO_JOB,
    ),
    "groups": _Kind(
        FactKind.WORKLOAD,
        lambda raw: pod_group_fact(msgspec.json.decode(raw, type=objects.PodGroup)),
        WorkloadKind.POD_GROUP,
    ),
    "pods": _Kind(FactKind.POD, lambda raw: pod_fact(msgspec.json.decode(raw, type=objects.Pod))),
}


@dataclass(slots=True)
class ToyCluster:
    """All objects, by kind and key (uid, or name where there are no namespaces), and what the watch still owes."""

    #: Seconds since the epoch.
    now: int = 1_800_000_000
    objects: dict[str, dict[str, Document]] = field(default_factory=lambda: {kind: {} for kind in KINDS})
    #: Watch events that Muster has not seen, by kind: streams of different kinds overtake one another.
    owed: dict[str, list[tuple[str, bytes | None]]] = field(
        default_factory=lambda: {kind: [] for kind in KINDS}
    )
    #: As Muster has seen it.
    known: dict[tuple[str, str], Fact] = field(default_factory=dict)
    #: Terminal pods that their batch Job has counted.
    _counted: set[str] = field(default_factory=set)
    #: Names of pods that users made without an owner and still want.
    wanted: set[str] = field(default_factory=set)
    #: Names of those that a user deleted, and that no leader had begun to take back.
    unwanted: set[str] = field(default_factory=set)
    _versions: int = 0
    _uids: int = 0

    # ── objects ─────────────────────────────────────────────────────────────────────────────────────────────

    def uid(self) -> str:
        self._uids += 1
        return f"00000000-0000-0000-0000-{self._uids:012d}"

    def put(self, kind: str, key: str, document: Document) -> Document:
        """Create or replace an object."""
        self._versions += 1
        meta = document.setdefault("metadata", {})
        meta["resourceVersion"] = str(self._versions)
        self.objects[kind][key] = document
        self.owed[kind].append((key, json.dumps(document).encode()))
        return document

    def change(self, kind: str, key: str, patch: Document) -> Document:
        """Merge patch, RFC 7386."""
        before = self.objects[kind][key]
        after = merged(before, patch)
        if kind in ("vcjobs", "queues") and after.get("spec") != before.get("spec"):
            after["metadata"]["generation"] = after["metadata"].get("generation", 1) + 1
        return self.put(kind, key, after) if after != before else before

    def remove(self, kind: str, key: str) -> None:
        del self.objects[kind][key]
        self.owed[kind].append((key, None))

    def add(self, kind: str, name: str, spec: Document, **metadata: Any) -> str:
        """A new object that has a namespace; its uid."""
        uid = self.uid()
        metadata = {
            "name": name,
            "namespace": NAMESPACE,
            "uid": uid,
            "generation": 1,
            "creationTimestamp": _time(self.now),
            **metadata,
        }
        status = {"phase": "Pending"} if kind == "pods" else {}
        self.put(kind, uid, {"metadata": metadata, "spec": spec, "status": status})
        return uid

    # ── what administrators and users do ────────────────────────────────────────────────────────────────────

    def add_node(self, name: str, gpus: int) -> None:
        self.put(
            "nodes",
            name,
            {
                "metadata": {
                    "name": name,
                    "labels": {"kubernetes.io/hostname": name, "rack": f"r{name[-1]}"},
                },
                "spec": {},
                "status": {
                    "allocatable": {GPU: str(gpus), "pods": "20"},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            },
        )

    def add_queue(self, name: str, capability: int | None = None, *, paused: bool = False) -> None:
        spec: Document = {} if capability is None else {"capability": {GPU: capability}}
        # Half a minute, so that old postings fall out of sight, and everybody's past counts.
        spec["policy"] = {"usageHalfLife": "30s", **({"paused": True} if paused else {})}
        document = {
            "apiVersion": names.SCHEDULING_VOLCANO,
            "kind": "Queue",
            "metadata": {"name": name, "uid": f"queue-{name}", "generation": self._versions + 1},
            "spec": spec,
        }
        self.put("queues", name, document)

    def add_volcano_job(self, name: str, queue: str, replicas: int, minimum: int, gpus: int) -> str:
        task = {"name": "worker", "replicas": replicas, "template": {"spec": pod_spec(gpus)}}
        spec = {"queue": queue, "minAvailable": minimum, "tasks": [task]}
        uid = self.add("vcjobs", name, spec, annotations={names.USER: "ann"})
        document = self.objects["vcjobs"][uid]
        document |= {"apiVersion": names.BATCH_VOLCANO, "kind": "Job"}
        return uid

    def add_job(
        self, name: str, queue: str, parallelism: int, completions: int, *, indexed: bool, gpus: int
    ) -> str:
        """A batch Job as the admission policies let it in: suspended, its pods in the queue."""
        labels = {names.QUEUE_LABEL: queue}
        return self.add(
            "jobs",
            name,
            {
                "parallelism": parallelism,
                "completions": completions,
                "completionMode": "Indexed" if indexed else "NonIndexed",
                "suspend": True,
                "template": {"metadata": {"labels": labels}, "spec": pod_spec(gpus)},
            },
            labels=labels,
        )

    def add_group(self, name: str, queue: str, minimum: int) -> str:
        return self.add("groups", name, {"minMember": minimum, "queue": queue})

    def add_member(self, name: str, group: str, gpus: int) -> str:
        """A pod that names a PodGroup, gated by policy."""
        labels = {names.RELEASED: "false"}
        self.wanted.add(name)
        return self._add_pod(name, pod_spec(gpus), labels, {names.GROUP_ANNOTATION: group}, gated=True)

    def add_bare_pod(self, name: str, queue: str, gpus: int) -> str:
        labels = {names.RELEASED: "false", names.QUEUE_LABEL: queue}
        self.wanted.add(name)
        return self._add_pod(name, pod_spec(gpus), labels, {}, gated=True)

    def add_foreign_pod(self, name: str, node: str, gpus: int) -> str:
        """Somebody else's pod, bound without asking."""
        return self._add_pod(name, {**pod_spec(gpus), "nodeName": node}, {}, {}, gated=False)

    def _add_pod(
        self,
        name: str,
        spec: Document,
        labels: Document,
        annotations: Document,
        *,
        gated: bool,
        owners: Iterable[Document] = (),
    ) -> str:
        if gated:
            spec = {**spec, "schedulingGates": [{"name": names.GATE}]}
        return self.add(
            "pods", name, spec, labels=labels, annotations=annotations, ownerReferences=list(owners)
        )

    def create_pod(self, raw: bytes) -> str:
        """POST of a pod. Raises Conflict when the name is taken."""
        document = json.loads(raw)
        name = document["metadata"]["name"]
        if self.pod_named(name) is not None:
            raise Conflict(method="POST", path=name, status=409, reason="exists", code="AlreadyExists")
        uid = self.uid()
        document["metadata"] |= {"uid": uid, "namespace": NAMESPACE, "creationTimestamp": _time(self.now)}
        self.put("pods", uid, {**document, "status": {"phase": "Pending"}})
        return uid

    def pod_named(self, name: str) -> Document | None:
        return next((pod for pod in self.objects["pods"].values() if pod["metadata"]["name"] == name), None)

    def delete_pod(self, uid: str, *, grace: int | None = None) -> None:
        """A bound pod ends later, when its kubelet says so; others are gone at once."""
        pod = self.objects["pods"].get(uid)
        if pod is None:
            raise NotFound(method="DELETE", path=uid, status=404, reason="gone")
        if pod["spec"].get("nodeName", "") not in {"", *self.objects["nodes"]}:
            # It died with its node, whoever buries it: nobody makes it again.
            self.wanted.discard(pod["metadata"]["name"])
        if grace == 0 or "nodeName" not in pod["spec"] or pod["status"]["phase"] in ENDED:
            self.remove("pods", uid)
        else:
            self.change("pods", uid, {"metadata": {"deletionTimestamp": _time(self.now)}})

    # ── what Muster orders ──────────────────────────────────────────────────────────────────────────────────

    def carry_out(self, order: Order) -> None:
        """As the API server would. Raises Conflict, NotFound, Refused."""
        kind = "jobs" if order.verb is Verb.PATCH_JOB else "pods"
        document = self.objects[kind].get(order.uid)
        if document is None:
            raise NotFound(method=order.verb, path=order.name, status=404, reason="gone")
        if order.verb is Verb.DELETE_POD:
            self.delete_pod(order.uid, grace=order.grace)
            return
        after = merged(document, dict(order.body or {}))
        if kind == "pods" and "schedulingGates" not in document["spec"] and after["spec"] != document["spec"]:
            raise Refused(
                method="PATCH", path=order.name, status=422, reason="the pod is not gated", field=""
            )
        if kind == "jobs" and after["spec"]["template"] != document["spec"]["template"]:
            idle = document["spec"]["suspend"] and not document["status"].get("active")
            if not idle:
                raise Refused(
                    method="PATCH", path=order.name, status=422, reason="template is immutable", field=""
                )
        self.change(kind, order.uid, dict(order.body or {}))

    # ── what the other components do ────────────────────────────────────────────────────────────────────────

    def control_jobs(self) -> None:
        """The job controller and the garbage collector look once at everything."""
        for pod in list(self.objects["pods"].values()):
            owner = owner_of(pod)
            gone = owner is not None and not any(owner in self.objects[kind] for kind in ("jobs", "vcjobs"))
            if gone and "deletionTimestamp" not in pod["metadata"]:
                self.delete_pod(pod["metadata"]["uid"])
            elif pod["spec"].get("nodeName", "") not in {"", *self.objects["nodes"]}:
                self.delete_pod(pod["metadata"]["uid"], grace=0)
        for uid in list(self.objects["jobs"]):
            self._control_job(uid)

    def _control_job(self, uid: str) -> None:
        job = self.objects["jobs"][uid]
        spec, status = job["spec"], copy.deepcopy(job["status"])
        if any(condition["type"] == "Complete" for condition in status.get("conditions", ())):
            return
        pods = [pod for pod in self.objects["pods"].values() if owner_of(pod) == uid]
        done = set(status.get("done", ()))
        for pod in pods:
            if pod["status"]["phase"] in ENDED and pod["metadata"]["uid"] not in self._counted:
                self._counted.add(pod["metadata"]["uid"])
                if pod["status"]["phase"] == "Succeeded":
                    index = _index(pod)
                    if index not in done or spec["completionMode"] != "Indexed":
                        status["succeeded"] = status.get("succeeded", 0) + 1
                    done.add(index)
        active = [
            pod
            for pod in pods
            if pod["status"]["phase"] not in ENDED and "deletionTimestamp" not in pod["metadata"]
        ]
        left = spec["completions"] - status.get("succeeded", 0)
        if left <= 0:
            status["conditions"] = [{"type": "Complete", "status": "True"}]
        excess = len(active) if spec["suspend"] or left <= 0 else len(active) - min(spec["parallelism"], left)
        for pod in active[len(active) - excess :] if excess > 0 else ():
            self.delete_pod(pod["metadata"]["uid"])
            active.remove(pod)
        busy = {_index(pod) for pod in active} | done
        for number in range(max(0, -excess) if not spec["suspend"] and left > 0 else 0):
            index = next(index for index in range(spec["completions"]) if index not in busy)
            indexed = spec["completionMode"] == "Indexed"
            busy |= {index} if indexed else set()
            active.append(self._job_pod(uid, job, index if indexed else None, number))
        status |= {"active": len(active), "done": sorted(done, key=str)}
        if spec["completionMode"] == "Indexed":
            status["completedIndexes"] = ",".join(str(index) for index in sorted(done))
        self.put("jobs", uid, {**job, "status": status}) if status != job["status"] else None

    def _job_pod(self, uid: str, job: Document, index: int | None, number: int) -> Document:
        template = job["spec"]["template"]
        meta = template.get("metadata") or {}
        labels, annotations = dict(meta.get("labels") or {}), dict(meta.get("annotations") or {})
        if index is not None:
            annotations[names.COMPLETION_INDEX] = str(index)
        gated = labels.get(names.RELEASED) != "true"
        labels.setdefault(names.RELEASED, "false")
        owner = {"apiVersion": "batch/v1", "kind": "Job", "uid": uid, "controller": True, "name": "job"}
        pod = self._add_pod(
            f"{job['metadata']['name']}-{self._versions}-{number}",
            copy.deepcopy(template["spec"]),
            labels,
            annotations,
            gated=gated,
            owners=[owner],
        )
        return self.objects["pods"][pod]

    def schedule(self) -> None:
        """The scheduler tries every pod that waits for it."""
        for uid, pod in list(self.objects["pods"].items()):
            spec = pod["spec"]
            if "nodeName" in spec or "schedulingGates" in spec or pod["status"]["phase"] in ENDED:
                continue
            place = next((name for name in self._allowed(spec) if self._fits(name, spec)), None)
            if place is not None:
                self.change("pods", uid, {"spec": {"nodeName": place}, "status": {"conditions": None}})
            elif not pod["status"].get("conditions"):
                refusal = {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "lastTransitionTime": _time(self.now),
                }
                self.change("pods", uid, {"status": {"conditions": [refusal]}})

    def _allowed(self, spec: Document) -> list[str]:
        pins = pinned_to(spec)
        return [
            name
            for name, node in sorted(self.objects["nodes"].items())
            if (not pins or name in pins) and is_up(node) and not node["spec"].get("unschedulable")
        ]

    def _fits(self, node: str, spec: Document) -> bool:
        allocatable = int(self.objects["nodes"][node]["status"]["allocatable"][GPU])
        return self.gpus_on(node) + gpus_of(spec) <= allocatable

    def gpus_on(self, node: str) -> int:
        """What pods that have not ended take there."""
        return sum(
            gpus_of(pod["spec"])
            for pod in self.objects["pods"].values()
            if pod["spec"].get("nodeName") == node and pod["status"]["phase"] not in ENDED
        )

    def run_pods(self) -> None:
        """Kubelets of nodes that live: start what is bound, let go what is to go."""
        for uid, pod in list(self.objects["pods"].items()):
            node = self.objects["nodes"].get(pod["spec"].get("nodeName", ""))
            if node is None or not is_up(node):
                continue
            if "deletionTimestamp" in pod["metadata"]:
                self.remove("pods", uid)
            elif pod["status"]["phase"] == "Pending":
                self.change("pods", uid, {"status": {"phase": "Running"}})

    def end_pod(self, uid: str, phase: str) -> None:
        """A running pod ends by itself, on a node that lives."""
        pod = self.objects["pods"][uid]
        node = self.objects["nodes"].get(pod["spec"].get("nodeName", ""))
        if node is not None and is_up(node) and pod["status"]["phase"] == "Running":
            self.change("pods", uid, {"status": {"phase": phase}})

    def running(self) -> list[str]:
        return [uid for uid, pod in self.objects["pods"].items() if pod["status"]["phase"] == "Running"]

    # ── what Muster sees ────────────────────────────────────────────────────────────────────────────────────

    def deliver(self, most: dict[str, int] | None = None) -> list[Change]:
        """Up to so many events of each kind (None: all), as the informers would tell them."""
        changes: list[Change] = []
        for kind, events in self.owed.items():
            count = len(events) if most is None else most.get(kind, 0)
            for key, raw in events[:count]:
                fact = None if raw is None else _fact(kind, raw)
                # An equal value is no news.
                if fact != self.known.get((kind, key)):
                    changes.append(_change(kind, key, fact))
                    if fact is None:
                        del self.known[kind, key]
                    else:
                        self.known[kind, key] = fact
            del events[:count]
        return changes

    def list_anew(self) -> list[Change]:
        """A new informer: everything there is now, and nothing of what happened in between."""
        for events in self.owed.values():
            events.clear()
        self.known = {
            (kind, key): fact
            for kind, documents in self.objects.items()
            for key, document in documents.items()
            if (fact := _fact(kind, json.dumps(document).encode())) is not None
        }
        return self.everything_known()

    def everything_known(self) -> list[Change]:
        """All that Muster has been told, as additions."""
        return [_change(kind, key, fact) for (kind, key), fact in self.known.items()]


def _fact(kind: str, raw: bytes) -> Fact | None:
    fact = KINDS[kind].read(raw)
    return None if fact is None else in_context(fact, Context())


def _change(kind: str, key: str, fact: Fact | None) -> Change:
    return Change(KINDS[kind].fact_kind, key, fact, KINDS[kind].workload_kind)


def pod_spec(gpus: int) -> Document:
    return {"containers": [{"name": "main", "image": "train", "resources": {"limits": {GPU: str(gpus)}}}]}


def gpus_of(spec: Document) -> int:
    return int(spec["containers"][0]["resources"]["limits"][GPU])


def pinned_to(spec: Document) -> set[str]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return {
        value
        for term in required.get("nodeSelectorTerms", ())
        for part in term.get("matchFields", ())
        for value in part["values"]
    }


def owner_of(pod: Document) -> str | None:
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((str(owner["uid"]) for owner in owners), None)


def is_up(node: Document) -> bool:
    return bool(node["status"]["conditions"][0]["status"] == "True")


def _index(pod: Document) -> int | None:
    text = pod["metadata"]["annotations"].get(names.COMPLETION_INDEX)
    return None if text is None else int(text)


def _time(now: int) -> str:
    import time

    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))


def merged(document: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result

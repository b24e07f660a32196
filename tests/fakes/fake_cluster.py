"""A cluster small enough to be random: objects as JSON, and the few things that real components do with them.

Nothing happens by itself: a test lets the job controllers, the scheduler, a kubelet (``fake_components``) or the
watch take one step, in any order.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from queues.api import names
from queues.errors import ApiRefused, Conflict, NotFound
from queues.text_format import rfc3339
from tests.fakes.fake_objects import (
    ENDED,
    GPU,
    NAMESPACE,
    Document,
    gpus_of,
    is_up,
    json_patched,
    merged,
    owner_of,
    pod_spec,
    time_text,
)
from tests.fakes.fake_watch import KINDS, FakeWatch


@dataclass(slots=True)
class JobSync:
    """What the job controller is about to do for one Job."""

    #: As it was read at the beginning, with the status that is written at the end.
    job: Document
    #: Completion indexes of pods that are still to be made; None: of a Job that is not Indexed.
    missing: list[int | None]


@dataclass(slots=True)
class FakeCluster:
    """All objects, by kind and key (uid, or name where there are no namespaces), and what the watch still owes."""

    #: Seconds since the epoch.
    now: int = 1_800_000_000
    objects: dict[str, dict[str, Document]] = field(default_factory=lambda: {kind: {} for kind in KINDS})
    watch: FakeWatch = field(default_factory=FakeWatch)
    #: Terminal pods that their batch Job has counted.
    counted: set[str] = field(default_factory=set)
    #: Syncs of the job controller that are under way, by the Job's uid.
    syncs: dict[str, JobSync] = field(default_factory=dict)
    #: Names of pods that users made without an owner and still want.
    wanted: set[str] = field(default_factory=set)
    #: Names of those that a user deleted, and that no leader had begun to take back.
    unwanted: set[str] = field(default_factory=set)
    #: Pods that the scheduler has preempted, uid → name.
    preempted: dict[str, str] = field(default_factory=dict)
    #: Pods with such names (their beginnings) have an image that is not there.
    unpullable: set[str] = field(default_factory=set)
    versions: int = 0
    _uids: int = 0

    # ── objects ─────────────────────────────────────────────────────────────────────────────────────────────

    def uid(self) -> str:
        self._uids += 1
        return f"00000000-0000-0000-0000-{self._uids:012d}"

    def put(self, kind: str, key: str, document: Document) -> Document:
        """Create or replace an object."""
        self.versions += 1
        meta = document.setdefault("metadata", {})
        meta["resourceVersion"] = str(self.versions)
        self.objects[kind][key] = document
        self.watch.owe(kind, key, document)
        return document

    def change(self, kind: str, key: str, patch: Document) -> Document:
        """Merge patch, RFC 7386."""
        return self.replace(kind, key, merged(self.objects[kind][key], patch))

    def replace(self, kind: str, key: str, after: Document) -> Document:
        """Another version of an object, unless it is the same."""
        before = self.objects[kind][key]
        if kind in ("vcjobs", "queues", "jobs") and after.get("spec") != before.get("spec"):
            generation = before["metadata"].get("generation", 1) + 1
            after = {**after, "metadata": {**after["metadata"], "generation": generation}}
        return self.put(kind, key, after) if after != before else before

    def remove(self, kind: str, key: str) -> None:
        del self.objects[kind][key]
        self.watch.owe(kind, key, None)

    def remove_without_pods(self, kind: str, key: str) -> None:
        """By ``kubectl delete --cascade=orphan``: the garbage collector takes the pods from their owner first."""
        for uid, pod in list(self.objects["pods"].items()):
            if owner_of(pod) == key:
                self.change("pods", uid, {"metadata": {"ownerReferences": None}})
        self.remove(kind, key)

    def add(self, kind: str, name: str, spec: Document, **metadata: Any) -> str:
        """A new object that has a namespace; its uid."""
        uid = self.uid()
        metadata = {
            "name": name,
            "namespace": NAMESPACE,
            "uid": uid,
            "generation": 1,
            "creationTimestamp": time_text(self.now),
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
            "metadata": {"name": name, "uid": f"queue-{name}", "generation": self.versions + 1},
            "spec": spec,
        }
        self.put("queues", name, document)

    def lend(self, lender: str, receiver: str, units: int, until: int) -> None:
        """A loan beside those that the queue has. Both queues state what they deserve."""
        for name in {lender, receiver}:
            spec = self.objects["queues"][name]["spec"]
            most = spec.get("capability", {}).get(GPU, 4)
            self.change("queues", name, {"spec": {"deserved": {GPU: min(4, most)}}})
        loan = {"to": receiver, "resources": {GPU: units}, "until": rfc3339(until)}
        earlier = self.objects["queues"][lender]["spec"].get("loans", [])
        self.change("queues", lender, {"spec": {"loans": [*earlier[-3:], loan]}})

    def add_volcano_job(
        self, name: str, queue: str, replicas: int, minimum: int, gpus: int, policies: Sequence[Document] = ()
    ) -> str:
        task = {"name": "worker", "replicas": replicas, "template": {"spec": pod_spec(gpus)}}
        spec = {"queue": queue, "minAvailable": minimum, "tasks": [task], "policies": list(policies)}
        uid = self.add("vcjobs", name, spec, annotations={names.USER: "ann"})
        document = self.objects["vcjobs"][uid]
        document |= {"apiVersion": names.BATCH_VOLCANO, "kind": "Job"}
        return uid

    def add_two_tasks(self, name: str, queue: str, workers: int, gpus: int) -> str:
        """A Volcano Job with a launcher that starts once its workers are ready."""
        template = {"spec": pod_spec(gpus)}
        launcher = {
            "name": "launcher",
            "replicas": 1,
            "template": template,
            "dependsOn": {"name": ["worker"]},
        }
        worker = {"name": "worker", "replicas": workers, "template": template}
        uid = self.add_volcano_job(name, queue, workers, workers + 1, gpus)
        self.change("vcjobs", uid, {"spec": {"tasks": [launcher, worker]}})
        return uid

    def add_command(self, name: str, action: str, job: str) -> str:
        """What vcctl makes; ``job``: uid of a Volcano Job."""
        target = {"apiVersion": names.BATCH_VOLCANO, "kind": "Job", "name": "", "uid": job}
        uid = self.add("commands", name, {})
        self.replace("commands", uid, {**self.objects["commands"][uid], "action": action, "target": target})
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
                # As the policies write it into every Job of a queue.
                "podReplacementPolicy": "Failed",
                "suspend": True,
                "template": {"metadata": {"labels": labels}, "spec": pod_spec(gpus)},
            },
            labels=labels,
        )

    def suspend_or_resize(self, uid: str, gpus: int) -> None:
        """A user suspends a Job, or changes what the pods of one ask that is suspended and has none."""
        job = self.objects["jobs"][uid]
        if not job["spec"]["suspend"]:
            self.change("jobs", uid, {"spec": {"suspend": True}})
        elif not job["status"].get("active"):
            self.change("jobs", uid, {"spec": {"template": {"spec": pod_spec(gpus)}}})

    def add_group(self, name: str, queue: str, minimum: int) -> str:
        return self.add("groups", name, {"minMember": minimum, "queue": queue})

    def add_member(self, name: str, group: str, gpus: int) -> str:
        """A pod that names a PodGroup, gated by policy."""
        labels = {names.RELEASED: "false"}
        self.wanted.add(name)
        return self.add_pod(name, pod_spec(gpus), labels, {names.GROUP_ANNOTATION: group}, gated=True)

    def add_bare_pod(self, name: str, queue: str, gpus: int) -> str:
        labels = {names.RELEASED: "false", names.QUEUE_LABEL: queue}
        self.wanted.add(name)
        return self.add_pod(name, pod_spec(gpus), labels, {}, gated=True)

    def add_foreign_pod(self, name: str, node: str, gpus: int) -> str:
        """Somebody else's pod, bound without asking."""
        return self.add_pod(name, {**pod_spec(gpus), "nodeName": node}, {}, {}, gated=False)

    def add_pod(
        self,
        name: str,
        spec: Document,
        labels: Document,
        annotations: Document,
        *,
        gated: bool,
        owners: Iterable[Document] = (),
    ) -> str:
        """A pod of the cluster's own making; its uid."""
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
        document["metadata"] |= {"uid": uid, "namespace": NAMESPACE, "creationTimestamp": time_text(self.now)}
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
        if grace is None:
            grace = pod["spec"].get("terminationGracePeriodSeconds")
        if grace == 0 or "nodeName" not in pod["spec"] or pod["status"]["phase"] in ENDED:
            self.remove("pods", uid)
        else:
            self.change("pods", uid, {"metadata": {"deletionTimestamp": time_text(self.now)}})

    # ── what Muster writes ──────────────────────────────────────────────────────────────────────────────────────

    def named(self, kind: str, name: str) -> Document:
        """Raises NotFound."""
        for document in self.objects[kind].values():
            if document["metadata"]["name"] == name:
                return document
        raise NotFound(method="GET", path=name, status=404, reason="not found")

    def patch(self, kind: str, name: str, body: Document | list[Document]) -> None:
        """A merge patch or JSON patch, as the API server takes it. Raises Conflict, NotFound, Refused."""
        document = self.named(kind, name)
        if isinstance(body, list):
            try:
                after = json_patched(document, body)
            except (KeyError, AssertionError) as error:
                raise self._refusal(
                    name, "the server rejected our request due to an error in our request"
                ) from error
        else:
            after = merged(document, body)
        uid = document["metadata"]["uid"]
        if after["metadata"]["uid"] != uid:
            raise Conflict(method="PATCH", path=name, status=409, reason="precondition", code="Conflict")
        if kind == "pods" and "schedulingGates" not in document["spec"] and after["spec"] != document["spec"]:
            raise self._refusal(name, "the pod is not gated")
        if kind == "jobs" and after["spec"]["template"] != document["spec"]["template"]:
            idle = document["spec"]["suspend"] and not document["status"].get("active")
            if not idle:
                raise self._refusal(name, "template is immutable")
        self.replace(kind, uid, after)

    @staticmethod
    def _refusal(name: str, reason: str) -> ApiRefused:
        return ApiRefused(method="PATCH", path=name, status=422, reason=reason)

    # ── what runs ───────────────────────────────────────────────────────────────────────────────────────────

    def gpus_on(self, node: str) -> int:
        """What pods that have not ended take there."""
        return sum(
            gpus_of(pod["spec"])
            for pod in self.objects["pods"].values()
            if pod["spec"].get("nodeName") == node and pod["status"]["phase"] not in ENDED
        )

    def end_pod(self, uid: str, phase: str) -> None:
        """A running pod ends by itself, on a node that lives."""
        pod = self.objects["pods"][uid]
        node = self.objects["nodes"].get(pod["spec"].get("nodeName", ""))
        if node is not None and is_up(node) and pod["status"]["phase"] == "Running":
            self.change("pods", uid, {"status": {"phase": phase}})

    def running(self) -> list[str]:
        return [uid for uid, pod in self.objects["pods"].items() if pod["status"]["phase"] == "Running"]

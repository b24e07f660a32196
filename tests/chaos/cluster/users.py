"""What users and administrators do in a run: carried out on the model's objects, past the line of any replica."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from queues.api.api_resources import (
    JOBS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    TOPOLOGIES,
    VOLCANO_JOBS,
    ApiResource,
)
from tests.chaos.cluster import requests
from tests.chaos.cluster.store import Key, ObjectStore, Refusal, key_of
from tests.chaos.drawn.steps import UserAction
from tests.chaos.history import NODE_CONTROLLER, USER, Document
from tests.fakes.fake_objects import GPU, merged

_RESOURCES: Final = (
    *(JOBS, VOLCANO_JOBS, POD_GROUPS, PODS, QUEUES, NODES),
    *(NAMESPACES, PRIORITY_CLASSES, TOPOLOGIES),
)
_KINDS: Final = {(each.api_version, each.kind): each for each in _RESOURCES}
_WORKLOADS: Final = {"Job": JOBS, "VolcanoJob": VOLCANO_JOBS, "PodGroup": POD_GROUPS, "Pod": PODS}


@dataclass(slots=True)
class Users:
    """All of them."""

    store: ObjectStore
    #: So many resumptions will be forestalled.
    forestalls: int = 0
    #: What users want in the next pauses of syncs of the Job controller, one workload in each.
    in_syncs: list[Sequence[Document]] = field(default_factory=list)

    def create(self, documents: Sequence[Document]) -> None:
        for document in documents:
            resource = _KINDS[document["apiVersion"], document["kind"]]
            namespace = document["metadata"].get("namespace", "")
            requests.create(self.store, resource, namespace, document, USER)

    def act(self, action: UserAction) -> None:
        """One action; what it is about may be gone."""
        with suppress(Refusal):
            match action.verb:
                case "create":
                    self.create(action.documents)
                case "create-in-sync":
                    self.in_syncs.append(action.documents)
                case "delete":
                    self._delete(_WORKLOADS[action.kind], action.name)
                case "delete-pod":
                    self._delete_pod()
                case "delete-newest":
                    self._delete_newest()
                case "collect-ended":
                    self._collect_ended()
                case "forestall":
                    self.forestalls += 2
                case "patch":
                    queue = self.store.get(QUEUES, ("", action.name))
                    self.store.replace(QUEUES, ("", action.name), merged(queue, action.patch), USER)
                case "cordon" | "uncordon":
                    self._change_node(
                        action.name, {"spec": {"unschedulable": action.verb == "cordon" or None}}
                    )
                case "node-down" | "node-up":
                    ready = {"type": "Ready", "status": "True" if action.verb == "node-up" else "Unknown"}
                    self._change_node(action.name, {"status": {"conditions": [ready]}})

    def delete(self, resource: ApiResource, key: Key) -> None:
        """A user deletes an object, unless it is gone."""
        with suppress(Refusal):
            self.store.delete(resource, key, USER)

    def heal(self, nodes: Sequence[str]) -> None:
        """All nodes can be used again."""
        for name in nodes:
            ready = [{"type": "Ready", "status": "True"}]
            self._change_node(name, {"spec": {"unschedulable": None}, "status": {"conditions": ready}})

    def _delete(self, resource: ApiResource, name: str) -> None:
        namespace, _, own = name.rpartition("/")
        self.store.delete(resource, (namespace, own), USER)

    def _delete_pod(self) -> None:
        """The first one that runs."""
        running = [pod for pod in self.store.all(PODS) if pod["status"]["phase"] == "Running"]
        if running:
            self.store.delete(PODS, key_of(running[0]), USER)

    def _delete_newest(self) -> None:
        """The workload, or group, of the pod that was changed last: something about it is under way."""
        pods = [pod for pod in self.store.all(PODS) if "deletionTimestamp" not in pod["metadata"]]
        for pod in sorted(pods, key=lambda pod: -int(pod["metadata"]["resourceVersion"])):
            for owner in pod["metadata"].get("ownerReferences") or ():
                found = self.store.with_uid(owner["uid"])
                if found is not None:
                    self.store.delete(found[0], key_of(found[1]), USER)
                    return

    def _collect_ended(self) -> None:
        """What the pod garbage collector does when there are many: pods that have ended go."""
        for pod in self.store.all(PODS):
            if pod["status"]["phase"] in ("Succeeded", "Failed"):
                self.store.delete(PODS, key_of(pod), NODE_CONTROLLER)

    def forestall(self, resource: ApiResource, key: Key) -> None:
        """A user gives a suspended Job more or larger pods in the moment in which Muster resumes it."""
        job = self.store.find(resource, key) if resource is JOBS and self.forestalls else None
        if job is not None and job["spec"].get("suspend"):
            self.forestalls -= 1
            more = {"parallelism": job["spec"]["parallelism"] + 1}
            patch = {"spec": more if self.forestalls % 2 else {"template": _with_larger_pods(job)}}
            with suppress(Refusal):
                requests.patch(self.store, resource, key, "", requests.MERGE, patch, USER)

    def sync_pauses(self) -> None:
        """A sync of the Job controller pauses: just then one more workload comes."""
        if self.in_syncs:
            self.create(self.in_syncs.pop(0))

    def _change_node(self, name: str, patch: dict[str, Any]) -> None:
        node = self.store.get(NODES, ("", name))
        self.store.replace(NODES, ("", name), merged(node, patch), NODE_CONTROLLER)


def _with_larger_pods(job: Document) -> Document:
    """What to merge into the template of a Job, so that each of its pods asks one GPU more."""
    (container,) = job["spec"]["template"]["spec"]["containers"]
    asked = container["resources"]
    more = str(int(asked["requests"][GPU]) + 1)
    resources = {"limits": {**asked["limits"], GPU: more}, "requests": {**asked["requests"], GPU: more}}
    return {"spec": {"containers": [{**container, "resources": resources}]}}

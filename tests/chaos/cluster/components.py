"""What the other components of a cluster do on the model API server: Job controller, garbage collector, scheduler,
kubelets.

Each looks at everything there is, a few dozen times a second. How long pods take is drawn from their uids.
"""

import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from queues.api.api_resources import NODES, PODS
from tests.chaos.cluster import requests
from tests.chaos.cluster.job_controller import ENDED, TRACKING
from tests.chaos.cluster.job_syncs import JobSyncs
from tests.chaos.cluster.store import ObjectStore, key_of, time_text
from tests.chaos.drawn.pace import PACE
from tests.chaos.history import JOB_CONTROLLER, KUBELET, NODE_CONTROLLER, SCHEDULER, Document
from tests.fakes.fake_objects import GPU, gpus_of, is_up
from tests.node_affinity import pinned_nodes

#: Annotation of pods: seconds that they run, at the usual pace. Without it they run until they are deleted.
RUN_SECONDS: Final = "chaos.muster.dev/run-seconds"
#: Annotation of pods: the share of them that fails.
FAILING: Final = "chaos.muster.dev/failing"

#: Seconds from the binding of a pod to its start, and from its deletion to its end, at least and at most.
_STARTS: Final = (0.02, 0.25)
_ENDS: Final = (0.02, 0.4)


def unfinished_pod(pod: Document) -> str:
    """What is still to come of a pod by itself; empty: nothing."""
    meta, phase = pod["metadata"], pod["status"].get("phase")
    about = f"pod {meta['namespace']}/{meta['name']}"
    if "deletionTimestamp" in meta:
        return f"{about} is being deleted"
    if phase == "Pending" and pod["spec"].get("nodeName"):
        return f"{about} is being started"
    if phase == "Running" and RUN_SECONDS in (meta.get("annotations") or {}):
        return f"{about} has not ended"
    return ""


@dataclass(slots=True)
class Components:
    """All of them."""

    store: ObjectStore
    seed: int
    job_syncs: JobSyncs = field(init=False)
    #: Pods that will start, end by themselves, or go: uid → monotonic time.
    _starts: dict[str, float] = field(default_factory=dict)
    _ends: dict[str, float] = field(default_factory=dict)
    _goes: dict[str, float] = field(default_factory=dict)
    #: The version that all have looked at, with nothing left to do but to wait.
    _seen: int = -1

    def __post_init__(self) -> None:
        self.job_syncs = JobSyncs(self.store, self.seed)

    def look(self) -> None:
        """One look at everything."""
        now = time.monotonic()
        if self.job_syncs.go_on(now) or self.store.version != self._seen:
            self._seen = self.store.version
            self.job_syncs.begin(now, time.time())
            self._collect_garbage()
            self._schedule()
        self._run(now)

    # ── garbage collector ───────────────────────────────────────────────────────────────────────────────────────

    def _collect_garbage(self) -> None:
        for resource in list(self.store.collections):
            for document in self.store.all(resource):
                self._collect(resource, document)
        for pod in self.store.all(PODS):
            node = pod["spec"].get("nodeName")
            if node and self.store.find(NODES, ("", node)) is None:
                self.store.delete(PODS, key_of(pod), NODE_CONTROLLER, grace=0)

    def _collect(self, resource: Any, document: Document) -> None:
        meta = document["metadata"]
        owners = meta.get("ownerReferences") or ()
        if owners and all(owner["uid"] not in self.store.by_uid for owner in owners):
            if "deletionTimestamp" not in meta:
                self.store.delete(resource, key_of(document), JOB_CONTROLLER)
            # The Job controller lets go pods of Jobs that are gone.
            elif TRACKING in (meta.get("finalizers") or ()):
                self._release(resource, document, TRACKING)
        elif "foregroundDeletion" in (meta.get("finalizers") or ()):
            owned = list(self.store.owned_by(meta["uid"]))
            for kind, each in owned:
                if "deletionTimestamp" not in each["metadata"]:
                    self.store.delete(kind, key_of(each), JOB_CONTROLLER)
            if not owned:
                self._release(resource, document, "foregroundDeletion")

    def _release(self, resource: Any, document: Document, finalizer: str) -> None:
        left = [each for each in document["metadata"]["finalizers"] if each != finalizer]
        meta = {**document["metadata"], "finalizers": left}
        if not left:
            del meta["finalizers"]
        self.store.replace(resource, key_of(document), {**document, "metadata": meta}, JOB_CONTROLLER)

    # ── scheduler ───────────────────────────────────────────────────────────────────────────────────────────────

    def _schedule(self) -> None:
        taken: Counter[str] = Counter()
        waiting = []
        for pod in self.store.all(PODS):
            spec = pod["spec"]
            if pod["status"]["phase"] in ENDED:
                continue
            if spec.get("nodeName"):
                taken[spec["nodeName"]] += gpus_of(spec)
            elif not spec.get("schedulingGates") and "deletionTimestamp" not in pod["metadata"]:
                waiting.append(pod)
        for pod in waiting:
            place = next((name for name in self._allowed(pod["spec"]) if self._fits(name, taken, pod)), None)
            if place is not None:
                taken[place] += gpus_of(pod["spec"])
                requests.bind(self.store, pod, place, SCHEDULER)
            elif not any(
                each.get("reason") == "Unschedulable" for each in pod["status"].get("conditions") or ()
            ):
                condition = requests.unschedulable(time.time(), "no node has room")
                self.store.change(PODS, key_of(pod), SCHEDULER, status={"conditions": [condition]})

    def _allowed(self, spec: Document) -> list[str]:
        pins = pinned_nodes(spec)
        return [
            node["metadata"]["name"]
            for node in self.store.all(NODES)
            if (not pins or node["metadata"]["name"] in pins)
            and is_up(node)
            and not node["spec"].get("unschedulable")
        ]

    def _fits(self, name: str, taken: Counter[str], pod: Document) -> bool:
        node = self.store.get(NODES, ("", name))
        return taken[name] + gpus_of(pod["spec"]) <= int(node["status"]["allocatable"][GPU])

    # ── kubelets ────────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self, now: float) -> None:
        for pod in self.store.all(PODS):
            node = self.store.find(NODES, ("", pod["spec"].get("nodeName", "")))
            if node is None or not is_up(node):
                continue
            uid, phase = pod["metadata"]["uid"], pod["status"]["phase"]
            if "deletionTimestamp" in pod["metadata"]:
                self._let_go(pod, now)
            elif phase == "Pending" and now >= self._due(self._starts, uid, now, _STARTS):
                self._start(pod, now)
            elif phase == "Running" and now >= self._ends.get(uid, now + 1):
                self._end(pod)

    def _due(self, times: dict[str, float], uid: str, now: float, bounds: tuple[float, float]) -> float:
        if uid not in times:
            times[uid] = now + random.Random(f"{self.seed} {uid}").uniform(*bounds)
        return times[uid]

    def _start(self, pod: Document, now: float) -> None:
        uid = pod["metadata"]["uid"]
        seconds = (pod["metadata"].get("annotations") or {}).get(RUN_SECONDS)
        if seconds is not None:
            self._ends[uid] = now + float(seconds) * PACE
        moment = time_text(time.time())
        state = {"running": {"startedAt": moment}}
        status = {"phase": "Running", "startTime": moment, **_ready(pod, "True", state)}
        self.store.change(PODS, key_of(pod), KUBELET, status=status)

    def _end(self, pod: Document) -> None:
        share = float((pod["metadata"].get("annotations") or {}).get(FAILING, "0"))
        fails = random.Random(f"{self.seed} end {pod['metadata']['uid']}").random() < share
        self._terminate(pod, "Failed" if fails else "Succeeded", 1 if fails else 0)

    def _let_go(self, pod: Document, now: float) -> None:
        uid, phase = pod["metadata"]["uid"], pod["status"]["phase"]
        if now < self._due(self._goes, uid, now, _ENDS):
            return
        if phase not in ENDED:
            pod = self._terminate(pod, "Failed", 143)
        if pod["metadata"].get("deletionGracePeriodSeconds") or not pod["metadata"].get("finalizers"):
            self.store.delete(PODS, key_of(pod), KUBELET, grace=0)

    def _terminate(self, pod: Document, phase: str, code: int) -> Document:
        state = {"terminated": {"exitCode": code, "finishedAt": time_text(time.time())}}
        status = {"phase": phase, **_ready(pod, "False", state)}
        return self.store.change(PODS, key_of(pod), KUBELET, status=status)


def _ready(pod: Document, ready: str, state: Document) -> Document:
    others = [each for each in pod["status"].get("conditions") or () if each["type"] != "Ready"]
    return {
        "conditions": [*others, {"type": "Ready", "status": ready}],
        "containerStatuses": [{"name": "main", "restartCount": 0, "state": state}],
    }

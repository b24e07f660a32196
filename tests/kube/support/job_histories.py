"""Random lives of batch/v1 Jobs under the real job controller: pods end, are deleted, Jobs are resized and suspended.

No kubelet runs the pods: they are on a node that nothing simulates, and the history says when they end, and how. They
end hours apart, so that the controller does not wait before it makes others.
"""

import asyncio
import json
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from admission.decode.pods import pod_fact
from admission.facts.pods import PodFact
from admission.facts.workloads import WorkloadFact
from admission.kube.client.client import Client
from admission.wire import WirePod
from admission.workloads import job_counts
from admission.workloads.kinds.batch_job import WireJob, batch_job_support, job_fact
from admission.workloads.seats import is_live
from queues.errors import NotFound
from tests.waiting import LIMIT

#: A node without a kubelet, and without KWOK.
NODE: Final = "no-kubelet"
#: Seconds between two looks at a Job.
_PAUSE: Final = 0.15

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Seen:
    """A Job and its pods at one moment."""

    job: Document
    fact: WorkloadFact
    pods: tuple[PodFact, ...]
    #: The pods as the API server has them.
    documents: Sequence[Document] = ()

    @property
    def active(self) -> list[PodFact]:
        """Pods that the controller counts as active."""
        return [pod for pod in self.pods if is_live(pod) and not pod.deleting]

    @property
    def terminating(self) -> list[PodFact]:
        """Pods that are being deleted and have not ended."""
        return [pod for pod in self.pods if is_live(pod) and pod.deleting]

    def waits_for_terminating(self) -> bool:
        """Whether a pod that is being deleted gets its successor when it is gone."""
        return bool(self.job["spec"].get("podReplacementPolicy") == "Failed")

    def wanted(self) -> int:
        """Pods that run at a time, by what Muster says."""
        if self.fact.finished or self.fact.suspended:
            return 0
        assert self.fact.counts is not None
        return job_counts.pods_at_a_time(job_counts.with_ended(self.fact.counts, self.pods), len(self.active))

    def disagreement(self) -> str:
        """What the controller does otherwise than Muster says; "": nothing."""
        active, wanted = len(self.active), self.wanted()
        waited_for = len(self.terminating) if self.waits_for_terminating() else 0
        if (said := self.job["status"].get("active", 0)) != active:
            return f"the status says {said} active pods, and there are {active}"
        if not wanted - waited_for <= active <= wanted:
            return f"Muster says {wanted} pods run at a time, and {active} do ({waited_for} terminate)"
        return ""


@dataclass(slots=True)
class JobHistory:
    """One Job, and what happens to it."""

    api: Client
    namespace: str
    name: str
    seed: int
    #: Its pods start as soon as they are made, so it may not grow.
    shrinks_only: bool = False
    log: list[str] = field(default_factory=list)
    draw: random.Random = field(init=False)
    _jobs: str = field(init=False)
    _pods: str = field(init=False)
    _ended: int = 0

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self._jobs = f"/apis/batch/v1/namespaces/{self.namespace}/jobs"
        self._pods = f"/api/v1/namespaces/{self.namespace}/pods"

    async def begin(self) -> Seen:
        """Create the Job, and wait for its first pods."""
        spec = self._spec()
        self.log.append(json.dumps({key: value for key, value in spec.items() if key != "template"}))
        await self.api.create(self._jobs, {"metadata": {"name": self.name}, "spec": spec})
        return await self.rest(())

    def _spec(self) -> Document:
        draw = self.draw
        count = draw.randint(1, 4) + draw.randint(0, 2) * self.shrinks_only
        container = {"name": "main", "image": "example.com/main"}
        pod = {"restartPolicy": "Never", "nodeName": NODE, "containers": [container]}
        spec: Document = {"parallelism": count, "backoffLimit": draw.choice([1, 100, 100, 100])}
        spec["template"] = {"metadata": {"labels": {"history": self.name}}, "spec": pod}
        others = ["indexed"] * 4 if self.shrinks_only else ["many indexes"]
        match draw.choice(["queue", "plain", "indexed", "many indexes", *others]):
            case "queue":
                pass
            case "plain":
                spec["completions"] = count + draw.choice([0, 0, 3])
            case "indexed":
                spec |= {"completionMode": "Indexed", "completions": count}
            case "many indexes":
                spec |= {"completionMode": "Indexed", "completions": count + draw.randint(1, 6)}
        if spec.get("completionMode") == "Indexed":
            if per_index := draw.random() < 0.6:
                spec["backoffLimitPerIndex"] = draw.choice([0, 0, 1])
                spec["maxFailedIndexes"] = draw.choice([1, spec["completions"]])
            if draw.random() < 0.25:
                rule = draw.choice([{"succeededCount": 2}, {"succeededIndexes": "0"}])
                if rule.get("succeededCount", 1) <= spec["completions"]:
                    spec["successPolicy"] = {"rules": [rule]}
        else:
            per_index = False
        if draw.random() < 0.4:
            spec["podFailurePolicy"] = {"rules": list(_failure_rules(per_index))}
        elif draw.random() < 0.5 or self.shrinks_only:
            spec["podReplacementPolicy"] = "Failed"
        return spec

    async def step(self, before: Seen) -> Seen:
        """Something happens to the Job; what is seen once its controller has come to rest."""
        deeds = [self._end_pod] * 6 + [self._delete_pod, self._resize] * 2 + [self._suspend]
        if before.terminating:
            deeds += [self._let_go] * 6
        await self.draw.choice(deeds)(before)
        return await self.rest(before.active)

    async def look(self) -> Seen:
        """What there is now."""
        job = await self.api.get(f"{self._jobs}/{self.name}")
        pods = await self.api.get(self._pods, labelSelector=f"history={self.name}")
        return seen_in(json.loads(job), json.loads(pods)["items"])

    async def rest(self, before: Any) -> Seen:
        """What there is once Muster and the controller agree; the pods that came are those of which Muster says so."""
        end = time.monotonic() + LIMIT
        while True:
            seen = await self.look()
            if not (wrong := seen.disagreement() or other_indexes(seen, {pod.uid for pod in before})):
                break
            if time.monotonic() > end:
                break
            await asyncio.sleep(_PAUSE)
        assert not wrong, "\n".join([f"seed {self.seed}", *self.log, wrong, json.dumps(seen.job["status"])])
        return seen

    async def _end_pod(self, seen: Seen) -> None:
        if not seen.active:
            await self._resize(seen)
            return
        pod = self.draw.choice(seen.active)
        phase = self.draw.choice(["Succeeded", "Failed"])
        await self._ends(pod, phase, 0 if phase == "Succeeded" else self.draw.choice([1, 3, 42, 43]))

    async def _ends(self, pod: PodFact, phase: str, code: int) -> None:
        self._ended += 1
        self.log.append(f"{pod.name} {phase} {code}")
        ended = {
            "exitCode": code,
            "reason": "Ended",
            "finishedAt": f"2026-01-01T{self._ended % 24:02}:00:00Z",
        }
        container = {
            "name": "main",
            "image": "x",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": {"terminated": ended},
        }
        status: Document = {"phase": phase, "containerStatuses": [container]}
        if code == 43:
            status["conditions"] = [_condition("DisruptionTarget", "True")]
        await self.api.patch(f"{self._pods}/{pod.name}/status", {"status": status}, kind="merge")

    async def _delete_pod(self, seen: Seen) -> None:
        if not seen.active:
            await self._resize(seen)
            return
        pod = self.draw.choice(seen.active)
        self.log.append(f"{pod.name} deleted")
        # The controller takes the time at which it was ready last for the one of its failure.
        status = {"status": {"conditions": [_condition("Ready", "False")]}}
        await self.api.patch(f"{self._pods}/{pod.name}/status", status, kind="merge")
        await self.api.delete(f"{self._pods}/{pod.name}")

    async def _let_go(self, seen: Seen) -> None:
        pod = self.draw.choice(seen.terminating)
        if self.draw.random() < 0.8:
            await self._ends(pod, self.draw.choice(["Succeeded", "Failed"]), self.draw.choice([0, 1]))
        self.log.append(f"{pod.name} gone")
        with suppress(NotFound):  # its node does not answer, so others may have removed it
            await self.api.delete(f"{self._pods}/{pod.name}", grace=0)

    async def _resize(self, seen: Seen) -> None:
        spec = seen.job["spec"]
        pods = self.draw.choice([0, 1, 2, 3, 5, 6])
        if self.shrinks_only:
            pods = min(pods, spec["parallelism"])
        changes = {"parallelism": pods}
        if spec.get("completionMode") == "Indexed" and pods and self.draw.random() < 0.6:
            pods = max(pods, spec.get("maxFailedIndexes", 0))
            if not (self.shrinks_only and pods > spec["parallelism"]):
                changes = {"parallelism": pods, "completions": pods}
        if seen.fact.finished or "successPolicy" in spec:
            changes.pop("completions", None)
        self.log.append(str(changes))
        await self._patch(changes)

    async def _suspend(self, seen: Seen) -> None:
        self.log.append(f"suspend {not seen.fact.suspended}")
        await self._patch({"suspend": not seen.fact.suspended})

    async def _patch(self, spec: Document) -> None:
        await self.api.patch(f"{self._jobs}/{self.name}", {"spec": spec}, kind="merge")


def other_indexes(seen: Seen, before: set[str]) -> str:
    """Which other indexes got pods than Muster says; "": none. ``before``: pods that were there already."""
    counts = seen.fact.counts
    if counts is None or counts.over is None or seen.fact.suspended or seen.fact.finished or counts.ends:
        return ""
    kept = {pod.index for pod in seen.active if pod.uid in before}
    if seen.waits_for_terminating():
        kept |= {pod.index for pod in seen.terminating}
    came = sorted(pod.index for pod in seen.active if pod.uid not in before and pod.index is not None)
    # Of how many come while others terminate, the controller knows only when these are gone.
    counts = replace(job_counts.with_ended(counts, seen.pods), parallelism=counts.completions or 0)
    said = job_counts.indexes_to_come(counts, {index for index in kept if index is not None})
    return "" if list(said[: len(came)]) == came else f"pods {came} came, and Muster said {said}"


def seen_in(job: Document, pods: Sequence[Document]) -> Seen:
    """A Job and its pods as Muster reads them."""
    fact = job_fact(msgspec.json.decode(msgspec.json.encode(job), type=WireJob))
    read = (msgspec.json.decode(msgspec.json.encode(pod), type=WirePod) for pod in pods)
    facts = (pod_fact(pod, batch_job_support(()).controller_of(pod.metadata)) for pod in read)
    return Seen(job, fact, tuple(sorted(facts, key=lambda pod: pod.name)), pods)


def _failure_rules(per_index: bool) -> list[Document]:
    def on_codes(action: str, *codes: int) -> Document:
        return {"action": action, "onExitCodes": {"operator": "In", "values": list(codes)}}

    pattern = {"type": "DisruptionTarget", "status": "True"}
    rules = [{"action": "Ignore", "onPodConditions": [pattern]}, on_codes("Count", 3)]
    return [*rules, on_codes("FailIndex" if per_index else "FailJob", 42)]


def _condition(kind: str, status: str) -> Document:
    moment = "2026-01-01T00:00:00Z"
    return {"type": kind, "status": status, "lastTransitionTime": moment, "reason": "History", "message": ""}

"""Pods that are to be made again: intents that Postgres has, and what it has not heard of yet. Pure."""

from collections.abc import Iterable, Mapping

from admission.facts.pods import PodFact
from admission.workloads.kinds import Holding, support_of
from queues.admissions import Recreation
from queues.workload import QueueName, WorkloadKey


class Recreations:
    """Part of the world: intents to recreate pods, and the workload whose place each recreated pod takes."""

    def __init__(self, stored: Iterable[Recreation]) -> None:
        #: As Postgres has them, by the uid of the pod that goes.
        self.stored: dict[str, Recreation] = {each.pod_uid: each for each in stored}
        #: To be stored, or forgotten if None. Intake empties it.
        self.unsaved: dict[str, Recreation | None] = {}
        #: Bare pods that were recreated and have no arrival number yet → the workload that they replace.
        self.successions: dict[WorkloadKey, WorkloadKey] = {}
        #: Pods with an intent that the stock scheduler deletes, not a user.
        self.preempted: set[str] = set()
        self._of: dict[WorkloadKey, dict[str, None]] = {}
        for each in self.stored.values():
            self._of.setdefault(each.workload, {})[each.pod_uid] = None

    def of(self, key: WorkloadKey) -> tuple[Recreation, ...]:
        """Stored intents of a workload."""
        if key not in self._of:
            return ()
        return tuple(self.stored[uid] for uid in sorted(self._of[key]))

    def is_awaited(self, key: WorkloadKey) -> bool:
        """Whether pods of a workload are to be made again, also where Postgres has not heard of it yet."""
        unsaved = (each for each in self.unsaved.values() if each is not None)
        return key in self._of or any(each.workload == key for each in unsaved)

    def workloads(self) -> set[WorkloadKey]:
        """Workloads with pods to recreate."""
        return set(self._of)

    def put(self, pod_uid: str, intent: Recreation | None) -> None:
        """A pod is about to be deleted: store how to make it again. None if it was made again, or is not to be."""
        self.unsaved[pod_uid] = intent

    def put_preempted(self, pod: PodFact, workload: WorkloadKey, queue: QueueName) -> None:
        """The stock scheduler is about to delete a pod that no controller makes again: it is lost to its gang."""
        if support_of(workload).holding is not Holding.GATED:
            return
        intent = Recreation(
            pod_uid=pod.uid,
            workload=workload,
            namespace=pod.namespace,
            name=pod.name,
            queue=queue,
            manifest=pod.successor,
        )
        self.preempted.add(pod.uid)
        if pod.uid not in self.stored:
            self.put(pod.uid, intent)

    def update(self, pod: PodFact) -> None:
        """A pod that says which one it replaces: the intent is fulfilled. Other pods' claims are passed over."""
        intent = self.stored.get(pod.recreated_from or "")
        if intent is None or pod.controller or (pod.namespace, pod.name) != (intent.namespace, intent.name):
            return
        self.put(intent.pod_uid, None)
        if support_of(intent.workload).is_pod:
            self.successions[WorkloadKey(intent.workload.kind, pod.uid)] = intent.workload

    def saved(self, entries: Mapping[str, Recreation | None]) -> set[WorkloadKey]:
        """Postgres has these now; the workloads to look at again."""
        changed = set()
        for uid, entry in entries.items():
            before = self.stored.pop(uid, None)
            if entry is None:
                self.preempted.discard(uid)
            if before is not None:
                changed.add(before.workload)
                of = self._of[before.workload]
                of.pop(uid, None)
                if not of:
                    del self._of[before.workload]
            if entry is not None:
                changed.add(entry.workload)
                self.stored[uid] = entry
                self._of.setdefault(entry.workload, {})[uid] = None
        return changed

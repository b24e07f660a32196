"""A history as the checks see it: lives of objects, transactions, and lives of admissions, each worked out once."""

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from queues.api import names
from tests.chaos.checker.ledger import Admission, Tables, Transaction, transactions_of
from tests.chaos.checker.objects import ENDED, Life, PodLife, group_of, lives_of, owner_of, phase_of
from tests.chaos.history import JOB_CONTROLLER, KUBELET, NODE_CONTROLLER, SCHEDULER, USER, Document, History

#: What the ledger calls the kinds of workloads, by resource.
KINDS: Final = {"jobs": "job", "jobs.batch.volcano.sh": "vcjob", "podgroups": "podgroup", "pods": "pod"}
#: Phases of a Volcano Job that has ended.
OVER: Final = ("Completed", "Failed", "Terminated", "Aborted")
#: Seconds by which the clocks of the API server and of the database may differ.
CLOCKS_DIFFER: Final = 0.05

_OTHERS: Final = (USER, JOB_CONTROLLER, SCHEDULER, KUBELET, NODE_CONTROLLER, "")


@dataclass(frozen=True)
class AdmissionLife:
    """All versions of one admission, oldest first, each with its transaction."""

    versions: tuple[tuple[Transaction, Admission], ...]

    @property
    def opened(self) -> Transaction:
        """The transaction that opened it."""
        return self.versions[0][0]

    @property
    def last(self) -> Admission:
        """As it was last."""
        return self.versions[-1][1]

    def end_of(self, index: int) -> Transaction | None:
        """The transaction that gave a seat back; None: it is held at the end."""
        return next((tx for tx, version in self.versions if index in version.ended), None)

    @cached_property
    def closed(self) -> Transaction | None:
        """The transaction that closed it; None: it is not closed."""
        return next((tx for tx, version in self.versions if version.state == "closed"), None)


@dataclass(frozen=True)
class Recording:
    """One history."""

    history: History

    @cached_property
    def transactions(self) -> tuple[Transaction, ...]:
        """Oldest first."""
        return transactions_of(self.history.rows)

    @cached_property
    def end(self) -> Tables:
        """The rows at the end."""
        tables = Tables()
        for transaction in self.transactions:
            tables.apply(transaction)
        return tables

    @cached_property
    def lives(self) -> dict[str, Life]:
        """Objects by uid."""
        return lives_of(self.history.objects)

    @cached_property
    def pods(self) -> tuple[PodLife, ...]:
        """All pods, oldest first."""
        return tuple(life for life in self.lives.values() if isinstance(life, PodLife))

    def of(self, *resources: str) -> list[Life]:
        """The objects of these resources."""
        return [life for life in self.lives.values() if life.first.resource in resources]

    @cached_property
    def nodes(self) -> dict[str, list[Life]]:
        """Nodes by name; one that was deleted and made again has several lives."""
        found: dict[str, list[Life]] = defaultdict(list)
        for life in self.of("nodes"):
            found[life.document["metadata"]["name"]].append(life)
        return found

    def since_beginning(self, transaction: Transaction) -> float:
        """Seconds between the beginning of the run and a transaction, as ``ObjectChange.at``."""
        return transaction.at - self.history.began

    @cached_property
    def admissions(self) -> dict[int, AdmissionLife]:
        """Every admission that there ever was."""
        found: dict[int, list[tuple[Transaction, Admission]]] = defaultdict(list)
        for transaction in self.transactions:
            for change in transaction.of("admissions"):
                if change.after is not None:
                    found[change.after["id"]].append((transaction, Admission(change.after)))
        return {id_: AdmissionLife(tuple(versions)) for id_, versions in found.items()}

    # ── workloads ───────────────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def workloads(self) -> dict[tuple[str, str], Life]:
        """What users want to run, by kind and uid: Jobs, groups, and pods of their own, if they name a queue."""
        found = {}
        for life in self.of(*KINDS):
            document = life.first.document
            if owner_of(document) or (isinstance(life, PodLife) and group_of(document)):
                continue
            if queue_of(document) is not None:
                found[KINDS[life.first.resource], life.uid] = life
        return found

    @cached_property
    def _members(self) -> dict[str, list[PodLife]]:
        found: dict[str, list[PodLife]] = defaultdict(list)
        for pod in self.pods:
            found[owner_of(pod.first.document) or group_of(pod.first.document) or pod.uid].append(pod)
        return found

    def adopting(self, uid: str) -> AdmissionLife | None:
        """The last admission that adopted a pod; None: it was not adopted."""
        found = [life for life in self.admissions.values() if uid in life.last.row["adopted_pods"]]
        return found[-1] if found else None

    def members(self, workload: Life) -> list[PodLife]:
        """The pods of a workload, or of the one that a group stands for."""
        if owner := owner_of(workload.document):
            return self._members.get(owner, [])
        if workload.first.resource == "podgroups":
            since, end = workload.first.number, workload.deleted
            return [
                pod
                for pod in self._members.get(workload.name, ())
                if (pod.ended is None or pod.ended.number > since)
                and (end is None or pod.first.number < end.number)
            ]
        return self._members.get(workload.uid, [])

    def is_over(self, workload: Life) -> bool:
        """Whether a workload has nothing to run any more at the end, or is gone."""
        document = workload.document
        if not workload.is_there or "deletionTimestamp" in document["metadata"]:
            return True
        if workload.first.resource == "jobs":
            conditions = (document.get("status") or {}).get("conditions") or ()
            return any(
                each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in conditions
            )
        if workload.first.resource == "jobs.batch.volcano.sh":
            return state_of(document).get("phase") in OVER
        if workload.first.resource == "podgroups":
            members = self.members(workload)
            return all(pod.ended is not None for pod in members)
        return phase_of(document) in ENDED


def is_replica(writer: str) -> bool:
    """Whether a writer is a replica of Muster."""
    return writer not in _OTHERS


def state_of(job: Document) -> dict[str, Any]:
    """The state in the status of a Volcano Job."""
    return (job.get("status") or {}).get("state") or {}


def queue_of(document: Document) -> str | None:
    """The queue that a workload names; None: none."""
    meta, spec = document["metadata"], document.get("spec") or {}
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    found = spec.get("queue") or labels.get(names.QUEUE_LABEL) or annotations.get(names.QUEUE_ANNOTATION)
    if found is None and document.get("kind") in ("PodGroup",):
        return names.DEFAULT_QUEUE
    if found is None and document.get("apiVersion", "").startswith("batch.volcano.sh"):
        return names.DEFAULT_QUEUE
    return found


def minimum_of(workload: Document) -> int:
    """How many pods of a workload start together."""
    spec, kind = workload.get("spec") or {}, workload.get("kind")
    if kind == "PodGroup":
        return int(spec.get("minMember") or 0)
    if kind == "Pod":
        return 1
    if "tasks" in spec:
        every = sum(int(task.get("replicas", 1)) for task in spec["tasks"])
        return int(spec.get("minAvailable") or every)
    at_once = min(int(spec.get("parallelism", 1)), int(spec.get("completions") or spec.get("parallelism", 1)))
    annotations = workload["metadata"].get("annotations") or {}
    return min(int(annotations.get(names.GROUP_MIN_MEMBER, at_once)), at_once)

"""Between the world and Postgres: rows of the ledger, outcomes of pods that still count, pods to be made again, and
what is not stored yet. Pure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple

from admission.facts.changes import Change
from admission.facts.cluster import QueueFact
from admission.facts.pods import PodFact, PodPhase
from admission.volcano_jobs.state import JobState
from admission.workloads.kinds import Holding, support_of
from admission.world.admissions import KeyIndex
from admission.world.reasons import without_more_nodes
from queues import kind_names
from queues.admissions import NO_SETBACKS, Claim, LastEviction, PodOutcome, Recreation, Setbacks
from queues.plan import Reason
from queues.reason_codes import ReasonCode
from queues.workload import NodeName, QueueName, Result, WorkloadKey
from queues.world_rows import WorldRows

Outcomes = dict[tuple[str, int], PodPhase]


def current_outcomes(rows: Iterable[PodOutcome], jobs: Mapping[str, JobState]) -> dict[WorkloadKey, Outcomes]:
    """Ends of pods by workload, and there by pod set and ordinal, of the version of each Volcano Job that runs now."""
    found: dict[WorkloadKey, Outcomes] = {}
    for row in rows:
        job = jobs.get(row.workload.uid)
        if row.version == (job.version if job is not None else 0) and (
            job is None or row.pod_uid not in job.restarted
        ):
            found.setdefault(row.workload, {})[row.pod_set, row.ordinal] = PodPhase(row.phase)
    return found


#: Fields of ``Unsaved`` that are stored before a decision, and those that no decision waits for.
BEFORE_DECISION: Final = ("queues", "nodes", "recreations", "outcomes", "arrivals")
AFTER_DECISION: Final = ("departed", "described")


class UnsavedRow(NamedTuple):
    """One change that is not in Postgres yet."""

    #: A field of ``Unsaved``.
    kind: str
    #: Key in that field.
    key: Any


@dataclass(slots=True)
class Unsaved:
    """Changes that are not in Postgres yet, by kind of row. Intake empties it."""

    arrivals: dict[WorkloadKey, None] = field(default_factory=dict)
    described: dict[WorkloadKey, None] = field(default_factory=dict)
    #: How they were seen to end by themselves; UNKNOWN: they were not.
    departed: dict[WorkloadKey, Result] = field(default_factory=dict)
    queues: dict[QueueName, QueueFact | None] = field(default_factory=dict)
    outcomes: dict[str, tuple[WorkloadKey, PodFact]] = field(default_factory=dict)
    #: Intents to recreate pods, by the uid of the pod that goes; None if to be forgotten.
    recreations: dict[str, Recreation | None] = field(default_factory=dict)
    #: Nodes with a changed limit.
    nodes: dict[NodeName, None] = field(default_factory=dict)

    def only(self, rows: Iterable[UnsavedRow]) -> "Unsaved":
        """These changes as they are now: what one transaction stores."""
        part = Unsaved()
        for kind, key in rows:
            getattr(part, kind)[key] = getattr(self, kind)[key]
        return part

    def discard(self, stored: "Unsaved") -> None:
        """Intake has stored these. What changed meanwhile stays."""
        for rows, done in zip(self._by_kind(), stored._by_kind(), strict=True):
            for key, entry in done.items():
                if rows.get(key, entry) is entry:
                    rows.pop(key, None)

    def __bool__(self) -> bool:
        return any(self._by_kind())

    def _by_kind(self) -> list[dict[Any, Any]]:
        return [getattr(self, each.name) for each in fields(self)]


class RefusedRows:
    """Rows that Postgres refuses for what is in them. They stay unsaved, and are tried again when that has changed."""

    def __init__(self) -> None:
        self._contents: dict[UnsavedRow, object] = {}
        self._about: dict[UnsavedRow, WorkloadKey] = {}
        #: What the objects of these workloads, and these queues, say about it.
        self.workloads: dict[WorkloadKey, Reason] = {}
        self.queues: dict[QueueName, str] = {}

    def add(self, row: UnsavedRow, content: object, about: WorkloadKey | None, why: str) -> None:
        """Set a row aside. ``about``: the workload that it is about; None if it is about none."""
        message = f"the database refuses what is to be stored about this object: {why}"
        self._contents[row] = content
        if about is not None:
            self._about[row] = about
            self.workloads[about] = Reason(code=ReasonCode.DEFECT, message=message)
        elif row.kind == "queues":
            self.queues[row.key] = message

    def holds(self, row: UnsavedRow) -> bool:
        """Whether the row was refused when it was tried last."""
        return row in self._contents

    def has_changed(self, row: UnsavedRow, content: object) -> bool:
        """Whether the row is another one than the one that was refused."""
        return self._contents[row] != content

    def stored(self, batch: Unsaved) -> set[WorkloadKey]:
        """Postgres has taken this batch. Returns the workloads that have one problem less."""
        taken = [row for row in self._contents if row.key in getattr(batch, row.kind)]
        return {about for row in taken if (about := self._drop(row)) is not None}

    def forget(self, key: WorkloadKey) -> None:
        """A workload is gone, and need not be stored."""
        for row in [row for row, about in self._about.items() if about == key and row.kind != "departed"]:
            self._drop(row)

    def _drop(self, row: UnsavedRow) -> WorkloadKey | None:
        del self._contents[row]
        if row.kind == "queues":
            self.queues.pop(row.key, None)
        about = self._about.pop(row, None)
        if about is not None and about not in self._about.values():
            self.workloads.pop(about, None)
        return about

    def __len__(self) -> int:
        return len(self._contents)


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
        self._of: KeyIndex[WorkloadKey, str] = KeyIndex()
        for each in self.stored.values():
            self._of.add(each.workload, each.pod_uid)

    def of(self, key: WorkloadKey) -> tuple[Recreation, ...]:
        """Stored intents of a workload."""
        return tuple(self.stored[uid] for uid in sorted(self._of.of(key)))

    def is_awaited(self, key: WorkloadKey) -> bool:
        """Whether pods of a workload are to be made again, also where Postgres has not heard of it yet."""
        unsaved = (each for each in self.unsaved.values() if each is not None)
        return key in self._of or any(each.workload == key for each in unsaved)

    def workloads(self) -> set[WorkloadKey]:
        """Workloads with pods to recreate."""
        return set(self._of.keys())

    def observe(self, change: Change) -> tuple[WorkloadKey, ...]:
        """A writer is about to delete a pod, or has made it again. It is stored first."""
        assert isinstance(change.fact, Recreation | None)
        self.put(change.key, change.fact)
        return ()

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
        if intent.workload.kind == kind_names.POD:
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
                self._of.discard(before.workload, uid)
            if entry is not None:
                changed.add(entry.workload)
                self.stored[uid] = entry
                self._of.add(entry.workload, uid)
        return changed


class LedgerRows:
    """Part of the world: rows by workload, as they were read and as applied plans have changed them since."""

    def __init__(self, rows: WorldRows) -> None:
        #: Of the last transaction.
        self.seq = rows.ledger_seq
        self.arrivals = dict(rows.arrivals)
        self.setbacks = dict(rows.setbacks)
        #: The last eviction for a beneficiary, of workloads that wait again.
        self.last_evictions = dict(rows.last_evictions)
        #: Space that is promised while victims leave.
        self.claims = {claim.workload: claim for claim in rows.claims}
        #: Why workloads wait.
        self.reasons = dict(rows.reasons)
        #: Those that were refused nodes for good by cluster autoscalers.
        self.without_more_nodes = without_more_nodes(rows.reasons)

    def setbacks_of(self, key: WorkloadKey) -> Setbacks:
        """The setbacks of a workload."""
        return self.setbacks.get(key, NO_SETBACKS)

    def put_claims(self, claims: Iterable[Claim], dropped: Iterable[WorkloadKey]) -> None:
        """Claims that an applied plan made or dropped."""
        for key in dropped:
            self.claims.pop(key, None)
        self.claims.update((claim.workload, claim) for claim in claims)

    def put_reasons(self, changed: Mapping[WorkloadKey, Reason], gone: Iterable[WorkloadKey]) -> None:
        """Why workloads wait, as the ledger has it now; ``gone``: workloads that wait no more."""
        for key in gone:
            self.reasons.pop(key, None)
        self.reasons.update(changed)

    def put_last_evictions(
        self, admitted: Iterable[WorkloadKey], evicted: Mapping[WorkloadKey, LastEviction | None]
    ) -> None:
        """Last evictions that are worth showing; forgotten once a workload is admitted again.

        As the ledger tells them: by the setback, which a gang has none of that lost an elastic part and runs on.
        """
        for key in (*admitted, *evicted):
            self.last_evictions.pop(key, None)
        for key, last in evicted.items():
            setbacks = self.setbacks_of(key)
            if last is not None and (
                (last.by and setbacks.waiting_since) or (last.cause and setbacks.not_before)
            ):
                self.last_evictions[key] = last

    def pass_on(self, before: WorkloadKey, after: WorkloadKey) -> None:
        """The second workload takes the place of the first."""
        if (setbacks := self.setbacks.get(before)) is not None:
            self.setbacks[after] = setbacks
        if (last := self.last_evictions.get(before)) is not None:
            self.last_evictions[after] = last

    def forget(self, key: WorkloadKey) -> None:
        """The workload is gone and holds nothing."""
        self.arrivals.pop(key, None)
        self.setbacks.pop(key, None)
        self.last_evictions.pop(key, None)
        self.claims.pop(key, None)
        self.reasons.pop(key, None)

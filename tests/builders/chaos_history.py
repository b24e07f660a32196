"""A small history of a chaos run in which nothing went wrong, and ways to tell another story.

A group of two pods runs and succeeds, a pod that is too large waits, and a Volcano Job of one pod still runs. Its
object changes and transactions are made in this order, one every tenth of a second.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from queues.api import names
from tests.chaos.history import (
    KUBELET,
    SCHEDULER,
    USER,
    ChangeKind,
    Document,
    History,
    ObjectChange,
    RowChange,
)
from tests.fakes.fake_objects import GPU

BEGAN: Final = 1000.0
LEADER: Final = "replica-1"
NODE, QUEUE = "n1", "team-a"
GROUP, MEMBERS, BIG, JOB, WORKER = "uid-g", ("uid-g-0", "uid-g-1"), "uid-big", "uid-v", "uid-v-worker-0"


@dataclass(slots=True)
class Story:
    """A history that is being told."""

    objects: list[ObjectChange] = field(default_factory=list)
    rows: list[RowChange] = field(default_factory=list)
    known: dict[str, Document] = field(default_factory=dict)
    tables: dict[tuple[Any, ...], dict[str, Any]] = field(default_factory=dict)
    now: float = 0.0
    _transactions: int = 0

    def put(
        self, resource: str, document: Document, writer: str = USER, change: ChangeKind = "ADDED"
    ) -> None:
        """An object appears, changes or goes."""
        self.now += 0.1
        document = deepcopy(document)
        self.known[document["metadata"]["uid"]] = document
        number = len(self.objects) + 1
        self.objects.append(
            ObjectChange(
                number=number, at=self.now, resource=resource, change=change, document=document, writer=writer
            )
        )

    def change(self, uid: str, resource: str, writer: str, edit: Callable[[Document], object]) -> None:
        """An object changes."""
        document = deepcopy(self.known[uid])
        edit(document)
        self.put(resource, document, writer, "MODIFIED")

    def commit(
        self, *rows: tuple[str, Mapping[str, Any] | None, Mapping[str, Any] | None], writer: str = LEADER
    ) -> None:
        """One transaction: table, row before, row after."""
        self.now += 0.1
        self._transactions += 1
        for table, before, after in rows:
            self.rows.append(
                RowChange(
                    number=len(self.rows) + 1,
                    transaction=self._transactions,
                    at=BEGAN + self.now,
                    writer=writer,
                    table=table,
                    before=before,
                    after=after,
                )
            )

    def history(self) -> History:
        """All that was told."""
        return History(seed=1, began=BEGAN, objects=tuple(self.objects), prepared=3, rows=tuple(self.rows))


# ── documents ───────────────────────────────────────────────────────────────────────────────────────────────────


def _meta(name: str, uid: str, **more: Any) -> Document:
    return {"name": name, "uid": uid, "namespace": "default", **more}


def pod(name: str, uid: str, gpus: int, **meta: Any) -> Document:
    """A gated pod."""
    container = {"name": "main", "resources": {"requests": {GPU: str(gpus)}}}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": _meta(name, uid, **meta),
        "spec": {"containers": [container], "schedulingGates": [{"name": names.GATE}]},
        "status": {"phase": "Pending"},
    }


def let_go(document: Document, admission: int, seat: str) -> None:
    """A pod gets a seat on the node."""
    document["metadata"].setdefault("annotations", {}).update(
        {names.ADMISSION_ID: str(admission), names.SEAT: seat}
    )
    document["spec"].pop("schedulingGates", None)
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [NODE]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    document["spec"]["affinity"] = {"nodeAffinity": required}


def bind(document: Document) -> None:
    """A pod is bound to the node, and runs."""
    document["spec"]["nodeName"] = NODE
    document["status"]["phase"] = "Running"


def succeed(document: Document) -> None:
    """A pod ends well."""
    document["status"]["phase"] = "Succeeded"


# ── rows ────────────────────────────────────────────────────────────────────────────────────────────────────────


def lease(term: int, holder: str, expires: float) -> dict[str, Any]:
    """``expires``: seconds since the beginning of the run."""
    moment = datetime.fromtimestamp(BEGAN + expires, UTC).isoformat()
    return {"name": "controller", "term": term, "holder": holder, "expires": moment}


def fence(term: int, seq: int) -> dict[str, Any]:
    """The fence."""
    return {"name": "controller", "term": term, "ledger_seq": seq}


def admission(
    id_: int, kind: str, uid: str, pod_set: str, pods: int, gpus: int, **more: Any
) -> dict[str, Any]:
    """An open admission with seats on the node."""
    return {
        "id": id_,
        "kind": kind,
        "uid": uid,
        "namespace": "default",
        "name": uid.removeprefix("uid-"),
        "queue": QUEUE,
        "state": "open",
        "term": 1,
        "ended": [],
        "adopted_pods": [],
        "cause_message": None,
        "pod_sets": [pod_set] * pods,
        "ordinals": list(range(pods)),
        "nodes": [NODE] * pods,
        "flavors": [""] * pods,
        "shape_of": [0] * pods,
        "shapes": [{GPU: gpus * 1000}],
        **more,
    }


def posting(number: int, kind: str, id_: int, seq: int, units: int) -> dict[str, Any]:
    """A posting between the pool and the queue."""
    debit, credit = ("pool", f"queue/{QUEUE}") if kind == "free" else (f"queue/{QUEUE}", "pool")
    return {
        "id": number,
        "kind": kind,
        "admission": id_,
        "term": 1,
        "ledger_seq": seq,
        "debit": debit,
        "credit": credit,
        "flavors": [""],
        "resources": [GPU],
        "amounts": [units],
    }


def decision(number: int, kind: str, id_: int, seq: int, code: str = "gang") -> dict[str, Any]:
    """A line of the decision log."""
    return {"id": number, "kind": kind, "admission": id_, "term": 1, "ledger_seq": seq, "code": code}


def _balances(
    before: int, after: int
) -> list[tuple[str, Mapping[str, Any] | None, Mapping[str, Any] | None]]:
    def of_queue(name: str, units: int) -> dict[str, Any]:
        own = units if name == QUEUE else 0
        return {"queue": name, "flavor": "", "resource": GPU, "own": own, "used": units, "counted": units}

    def of_node(units: int) -> dict[str, Any]:
        return {"node": NODE, "resource": GPU, "used": units}

    return [
        *(
            ("queue_balances", of_queue(name, before) if before else None, of_queue(name, after))
            for name in (QUEUE, "root")
        ),
        ("node_balances", of_node(before) if before else None, of_node(after)),
    ]


def workload(kind: str, uid: str) -> dict[str, Any]:
    """A row of what is known."""
    return {"kind": kind, "uid": uid, "queue": QUEUE, "finished": False}


# ── the story ───────────────────────────────────────────────────────────────────────────────────────────────────


def good_story() -> Story:
    """Nothing goes wrong."""
    story = Story()
    _prepare(story)
    _group_runs(story)
    _job_runs(story)
    return story


def _prepare(story: Story) -> None:
    ready = [{"type": "Ready", "status": "True"}]
    status = {"allocatable": {GPU: "4", "pods": "110"}, "conditions": ready}
    story.put("nodes", {"metadata": {"name": NODE, "uid": "uid-n1"}, "spec": {}, "status": status})
    for name in ("root", QUEUE):
        meta = {"name": name, "uid": f"uid-{name}", "generation": 1}
        story.put("queues", {"kind": "Queue", "metadata": meta, "spec": {}})
    story.commit(("leases", None, lease(1, LEADER, 5.0)), ("fences", None, fence(1, 0)))
    story.commit(
        ("nodes", None, {"name": NODE, "flavor": "", "usable": True}),
        ("node_limits", None, {"node": NODE, "resource": GPU, "amount": 4000}),
        *(
            (
                "queues",
                None,
                {"name": name, "uid": f"uid-{name}", "generation": 1, "present": True, "counts_in": above},
            )
            for name, above in (("root", None), (QUEUE, "root"))
        ),
        (
            "queue_limits",
            None,
            {"queue": QUEUE, "flavor": "", "resource": GPU, "keeps": 0, "ceiling": 8000},
        ),
    )


def _group_runs(story: Story) -> None:
    spec = {"minMember": 2, "queue": QUEUE}
    story.put("podgroups", {"kind": "PodGroup", "metadata": _meta("g", GROUP), "spec": spec})
    for index, uid in enumerate(MEMBERS):
        story.put("pods", pod(f"g-{index}", uid, 2, annotations={names.GROUP_ANNOTATION: "g"}))
    story.put("pods", pod("big", BIG, 8, labels={names.QUEUE_LABEL: QUEUE}))
    story.commit(("workloads", None, workload("podgroup", GROUP)), ("workloads", None, workload("pod", BIG)))
    held = admission(1, "podgroup", GROUP, "main", 2, 2)
    story.commit(
        ("fences", fence(1, 0), fence(1, 1)),
        *_balances(0, 4000),
        ("admissions", None, held),
        ("postings", None, posting(1, "admit", 1, 1, 4000)),
        ("reasons", None, {"kind": "pod", "uid": BIG, "code": "NoFit", "message": "too large"}),
        ("decisions", None, decision(1, "admit", 1, 1)),
    )
    refused = {"type": "muster.dev/Admitted", "status": "False", "reason": "NoFit"}
    story.change(BIG, "pods", LEADER, lambda big: big["status"].update(conditions=[refused]))
    for index, uid in enumerate(MEMBERS):
        story.change(uid, "pods", LEADER, lambda member, index=index: let_go(member, 1, f"main/{index}"))
    for uid in MEMBERS:
        story.change(uid, "pods", SCHEDULER, bind)
    for uid in MEMBERS:
        story.change(uid, "pods", KUBELET, succeed)
    story.commit(
        ("fences", fence(1, 1), fence(1, 2)),
        *_balances(4000, 0),
        ("admissions", held, {**held, "state": "closed", "ended": [0, 1]}),
        ("postings", None, posting(2, "free", 1, 2, 4000)),
        ("decisions", None, decision(2, "free", 1, 2, "ended")),
    )
    story.change(GROUP, "podgroups", LEADER, lambda group: group.update(status={"phase": "Completed"}))


def add_worker(story: Story, uid: str) -> None:
    """The pod of the Job's only task is made and let go."""
    worker = pod("v-worker-0", uid, 1, ownerReferences=[{"uid": JOB, "controller": True}])
    worker["metadata"]["annotations"] = {
        names.TASK_SPEC: "worker",
        names.TASK_INDEX: "0",
        names.JOB_VERSION: "0",
    }
    let_go(worker, 2, "worker/0")
    story.put("pods", worker, LEADER)


def _job_runs(story: Story) -> None:
    tasks = [{"name": "worker", "replicas": 1, "template": {"spec": pod("", "", 1)["spec"]}}]
    spec = {"minAvailable": 1, "queue": QUEUE, "tasks": tasks}
    meta = _meta("v", JOB)
    story.put(
        "jobs.batch.volcano.sh",
        {"kind": "Job", "apiVersion": names.BATCH_VOLCANO, "metadata": meta, "spec": spec},
    )
    story.commit(("workloads", None, workload("vcjob", JOB)))
    story.commit(
        ("fences", fence(1, 2), fence(1, 3)),
        *_balances(0, 1000),
        ("admissions", None, admission(2, "vcjob", JOB, "worker", 1, 1)),
        ("postings", None, posting(3, "admit", 2, 3, 1000)),
        ("decisions", None, decision(3, "admit", 2, 3)),
    )
    add_worker(story, WORKER)
    story.change(WORKER, "pods", SCHEDULER, bind)
    running = {"state": {"phase": "Running"}, "running": 1}
    story.change(JOB, "jobs.batch.volcano.sh", LEADER, lambda job: job.update(status=running))
    used = {"allocated": {GPU: "1"}}
    story.change(f"uid-{QUEUE}", "queues", LEADER, lambda queue: queue.update(status=used))


def with_row(history: History, table: str, place: int = 0, **values: Any) -> History:
    """Another value in one row change of a table, the first by default (-1: the last), after and, if there, before."""
    numbers = [row.number for row in history.rows if row.table == table]

    def edited(row: RowChange) -> RowChange:
        if row.number != numbers[place]:
            return row
        return replace(row, after={**(row.after or {}), **values})

    return replace(history, rows=tuple(edited(row) for row in history.rows))


def without_rows(history: History, table: str, place: int | None = None) -> History:
    """Some row changes did not happen: all of a table, or one."""
    numbers = [row.number for row in history.rows if row.table == table]
    gone = set(numbers) if place is None else {numbers[place]}
    return replace(history, rows=tuple(row for row in history.rows if row.number not in gone))


def written_by(history: History, transaction: int, writer: str) -> History:
    """Somebody else wrote a transaction."""
    rows = (replace(row, writer=writer) if row.transaction == transaction else row for row in history.rows)
    return replace(history, rows=tuple(rows))

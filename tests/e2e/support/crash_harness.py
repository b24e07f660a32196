"""A control plane whose Musters come and go: they are killed, stopped in place and woken at named points.

``begin`` brings one of each kind of workload into a sandbox; ``prove`` says what must be true when all is over.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from admission.kube.writers.status import BETWEEN_WRITES, COALESCE
from deploy.local.client import LocalClient
from deploy.local.stack import MUSTER, Replica, Stack
from queues.resources import Resources
from tests.cluster_faults import leads
from tests.e2e.support.api_paths import Document, condition, path
from tests.e2e.support.ledger_queries import LedgerQueries
from tests.e2e.support.manifests import bare_pod, batch_job, pod, pod_group, volcano_job
from tests.e2e.support.pod_history import Moment, PodHistory
from tests.e2e.support.sandbox import Sandbox
from tests.waiting import until

#: Short times, so that a test need not wait for the next leader; the default ones are tried by themselves.
SHORT_TIMES = {
    "MUSTER_LEASE_SECONDS": "3",
    "MUSTER_RETRY_SECONDS": "0.5",
    "MUSTER_REFUSAL_GRACE_SECONDS": "5",
    "MUSTER_BACKOFF_SECONDS": "1",
    "MUSTER_TURN_AT_LEAST_EVERY_SECONDS": "1",
}

#: Nearly the longest lease that may be set: for a leader that has to stay one, however busy the machine is.
LONG_LEASE = {"MUSTER_LEASE_SECONDS": "13", "MUSTER_RETRY_SECONDS": "0.5"}

#: What pods do once they run.
SHORT = {"kwok.muster.dev/complete-after": "1s"}
GROUP = {"scheduling.k8s.io/group-name": "group"}
#: Pods of each workload of ``WorkloadOfEachKind``.
PODS = {"volcano": 4, "whole": 2, "single": 3, "group": 3, "bare": 1}

#: GPUs of a sandbox: less than everything wants, so that some wait until others have ended.
NODES, GPUS = 3, 8


@dataclass(slots=True)
class CrashHarness:
    """A cluster of its own, and the Musters that run in it."""

    stack: Stack
    api: LocalClient
    ledger: LedgerQueries
    history: PodHistory
    _number: int = 0

    # ── Musters ─────────────────────────────────────────────────────────────────────────────────────────────

    def start(
        self,
        fault: str = "",
        *,
        wait: bool = True,
        kubeconfig: Path | None = None,
        program: Sequence[str] = MUSTER,
        tree: Path | None = None,
        **environment: str,
    ) -> Replica:
        """One more Muster; with a fault, ``wait=False``: it may not live to be ready."""
        self._number += 1
        given = {**SHORT_TIMES, **environment, **({"MUSTER_FAULT": fault} if fault else {})}
        return self.stack.start_muster(
            f"muster-{self._number}",
            environment=given,
            wait=wait,
            kubeconfig=kubeconfig,
            program=program,
            tree=tree,
        )

    def dies(self, replica: Replica) -> None:
        """Its fault strikes."""
        until(lambda: not replica.process.running, f"{replica.name} to die\n{log_of(replica)}")
        self.forget(replica)

    def forget(self, replica: Replica) -> None:
        """It ends, if it has not yet: its place, and the webhook's port, are free."""
        replica.process.stop()
        self.stack.replicas.remove(replica)

    def leave(self) -> None:
        """Every Muster ends politely."""
        for replica in list(self.stack.replicas):
            self.forget(replica)

    def leads(self, replica: Replica) -> None:
        until(lambda: leads(replica), f"{replica.name} to lead\n{log_of(replica)}")

    def asks_ledger_of(self, dsn: str) -> None:
        """Another database has taken the place of the one before."""
        self.ledger.close()
        self.stack.dsn, self.ledger = dsn, LedgerQueries(dsn)

    # ── sandboxes ───────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def sandbox(self, name: str) -> Iterator[Sandbox]:
        """A part of the cluster; whoever leads at the end must give everything back."""
        sandbox = Sandbox(name, self.stack, self.api, self.ledger, self.history)
        sandbox.open()
        sandbox.add_nodes(NODES, gpus=GPUS)
        sandbox.add_queue()
        yield sandbox
        sandbox.close()


@contextmanager
def own_crash_harness(*, durable: bool) -> Iterator[CrashHarness]:
    """A cluster for one module of tests, in which everything may be killed. ``durable``: Postgres as well."""
    with Stack(durable=durable) as stack:
        stack.install()
        with stack.cluster.client() as api, PodHistory(stack.cluster.kubeconfig) as history:
            harness = CrashHarness(stack, api, LedgerQueries(stack.dsn), history)
            yield harness
        harness.ledger.close()


@dataclass(slots=True)
class WorkloadOfEachKind:
    """One workload of every kind, more than fit at once."""

    sandbox: Sandbox
    documents: list[Document] = field(default_factory=list)

    @classmethod
    def arrive(cls, sandbox: Sandbox) -> "WorkloadOfEachKind":
        """A Volcano Job, a Job released by one patch, one released pod by pod, a group, a pod of its own."""
        workloads = cls(sandbox)
        workloads.add(
            volcano_job(sandbox, "volcano", 4, 2, annotations=SHORT, plugins={"svc": [], "ssh": []}),
            # Its pods fill their nodes, so that no choice is left to the scheduler.
            batch_job(sandbox, "whole", 2, 8, annotations=SHORT),
            # Two pods find room on a node; beside the third there would be room for one more.
            batch_job(sandbox, "single", 3, 3, annotations=SHORT, completionMode="Indexed"),
            pod_group(sandbox, "group", 3),
            *(pod(sandbox, f"group-{index}", 2, annotations={**SHORT, **GROUP}) for index in range(3)),
            bare_pod(sandbox, "bare", 1, annotations=SHORT),
        )
        return workloads

    def add(self, *documents: Document) -> None:
        self.documents += self.sandbox.add(*documents)

    def is_over(self) -> bool:
        """Everything has run to its end."""
        sandbox = self.sandbox
        volcano = sandbox.get("Job", "volcano").get("status", {}).get("state", {}).get("phase") == "Completed"
        jobs = all(
            condition(sandbox.get("batch/v1 Job", name), "Complete").get("status") == "True"
            for name in ("whole", "single")
        )
        pods = [*sandbox.pods("group-"), *sandbox.pods("bare")]
        return volcano and jobs and all(each["status"].get("phase") == "Succeeded" for each in pods)

    def wait_over(self) -> None:
        try:
            self.sandbox.wait(self.is_over, "everything to run to its end")
        except AssertionError as error:
            logs = [f"{each.name}:\n{log_of(each)}" for each in self.sandbox.stack.replicas]
            raise AssertionError("\n".join([str(error), *logs])) from None

    def prove(self) -> None:
        """Nothing lost, nothing doubled, and the ledger are exactly zero."""
        moments = self.sandbox.history.of(self.sandbox.name)
        each_pod_once(moments, PODS)
        assert not were_gated(moments, "whole")
        assert were_gated(moments, "single")
        nodes_never_above(moments, GPUS)
        self.prove_by_ledger()

    def prove_by_ledger(self) -> None:
        """The same as far as the ledger and the pods that are there can tell."""
        pods = Counter(pod["metadata"]["name"].partition("-")[0] for pod in self.sandbox.pods())
        assert pods == PODS
        assert {pod["status"]["phase"] for pod in self.sandbox.pods()} == {"Succeeded"}
        self.sandbox.wait_free()
        for name in ("volcano", "whole", "single", "group", "bare"):
            assert self.sandbox.ledger.admissions(self.sandbox.name, name) == [
                (id_, "closed") for id_, _ in self.sandbox.ledger.admissions(self.sandbox.name, name)
            ]
            decided = Counter(kind for kind, _, _ in self.sandbox.ledger.decisions(self.sandbox.name, name))
            assert decided["admit"] == decided["free"] == 1, (name, decided)
            assert decided["evict"] == 0, (name, decided)


def each_pod_once(moments: list[Moment], wanted: dict[str, int]) -> None:
    """Of each workload exactly so many pods were ever made, and each ended well before it went."""
    made = {moment.pod["metadata"]["uid"]: moment.name for moment in moments if moment.kind == "ADDED"}
    counts = Counter(name.partition("/")[2].partition("-")[0] for name in made.values())
    assert counts == wanted
    for uid, name in made.items():
        life = [moment for moment in moments if moment.pod["metadata"]["uid"] == uid]
        phases = [moment.phase for moment in life]
        assert "Succeeded" in phases, (name, phases)
        assert sorted(phases, key=("Pending", "Running", "Succeeded").index) == phases, (name, phases)
        assert len({moment.node for moment in life if moment.node}) == 1, name


def were_gated(moments: list[Moment], prefix: str) -> bool:
    """Whether the pods of a workload were let go one by one, or all with their Job."""
    return any(
        moment.pod["spec"].get("schedulingGates")
        for moment in moments
        if moment.pod["metadata"]["name"].startswith(prefix)
    )


def nodes_never_above(moments: list[Moment], gpus: int) -> None:
    """At no moment did the pods that were bound to a node take more GPUs than it has."""
    bound: dict[str, tuple[str, int]] = {}
    for moment in moments:
        uid = moment.pod["metadata"]["uid"]
        bound.pop(uid, None)
        if moment.node and moment.kind != "DELETED" and moment.phase in ("Pending", "Running"):
            limits = moment.pod["spec"]["containers"][0]["resources"]["limits"]
            bound[uid] = (moment.node, int(limits.get("nvidia.com/gpu", 0)))
            taken = sum(units for node, units in bound.values() if node == moment.node)
            assert taken <= gpus, (moment.node, bound)


def balances_are_sums_of_open_seats(ledger: LedgerQueries) -> None:
    """By queue and by node, and told by nothing but the rows of open admissions."""
    queues: Counter[tuple[str, str]] = Counter()
    nodes: Counter[tuple[str, str]] = Counter()
    for queue, places, shape_of, shapes, ended in ledger.ask(
        "SELECT queue, nodes, shape_of, shapes::text, ended FROM admissions"
    ):
        takes = [Resources(shape) for shape in json.loads(shapes)]
        for index, (node, shape) in enumerate(zip(places, shape_of, strict=True)):
            for resource, units in takes[shape].items() if index not in ended else ():
                queues[queue, resource] += units
                nodes[node, resource] += units
    own = ledger.ask("SELECT queue, resource, own FROM queue_balances WHERE flavor = '' AND own <> 0")
    used = ledger.ask("SELECT node, resource, used FROM node_balances WHERE used <> 0")
    assert dict(queues) == {(queue, resource): int(units) for queue, resource, units in own}
    assert dict(nodes) == {(node, resource): int(units) for node, resource, units in used}
    # Every posting has two sides, so their sum over what is open is the same once more.
    posted = ledger.ask(
        "SELECT substr(account, 7), resource, sum(amount) FROM ("
        " SELECT debit AS account, resource, amount FROM muster_postings"
        " UNION ALL SELECT credit, resource, -amount FROM muster_postings) AS both_sides"
        " WHERE account LIKE 'queue/%' GROUP BY 1, 2 HAVING sum(amount) <> 0"
    )
    assert dict(queues) == {(queue, resource): int(units) for queue, resource, units in posted}


def written_in(ledger: LedgerQueries, term: int) -> list[tuple[Any, ...]]:
    """How many rows of the ledger carry a term, by table."""
    return ledger.ask(
        "SELECT (SELECT count(*) FROM postings WHERE term = $1), (SELECT count(*) FROM decisions WHERE term = $1),"
        " (SELECT count(*) FROM admissions WHERE term = $1)"
        " + (SELECT count(*) FROM closed_admissions WHERE term = $1)",
        term,
    )


def everything_in(sandbox: Sandbox) -> dict[str, Document]:
    """Every object that Muster may write in a sandbox, but for what changes with each write.

    Without statuses of groups: their numbers are written seconds later.
    """
    found = {}
    for kind in ("Job", "batch/v1 Job", "PodGroup", "Pod", "Service", "Secret", "ConfigMap"):
        for item in sandbox.api.get(path(kind, sandbox.name))["items"]:
            for changing in ("resourceVersion", "managedFields"):
                item["metadata"].pop(changing, None)
            if kind == "PodGroup":
                item.pop("status", None)
            found[f"{kind} {item['metadata']['name']}"] = item
    return found


def wait_quiet(sandbox: Sandbox) -> dict[str, Document]:
    """Until nothing in the sandbox has changed for as long as a status may be late; what there is then."""
    seen, since = everything_in(sandbox), time.monotonic()

    def is_quiet() -> bool:
        nonlocal seen, since
        before, seen = seen, everything_in(sandbox)
        if before != seen:
            since = time.monotonic()
        return time.monotonic() - since > COALESCE + BETWEEN_WRITES

    until(is_quiet, f"{sandbox.name} to be quiet")
    return seen


def is_stopped(replica: Replica) -> bool:
    """Whether it stands still by SIGSTOP."""
    assert replica.process.running, f"{replica.name} has ended\n{log_of(replica)}"
    stat = Path(f"/proc/{replica.process.pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "T"


def log_of(replica: Replica) -> str:
    return "\n".join(replica.log.read_text(errors="replace").splitlines()[-20:])

"""What tests of the ledger start from: a term, queues, nodes and workloads, in a line each."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from queues import kind_names
from queues.admissions import Seat
from queues.api.names import SCHEDULING_VOLCANO
from queues.api.types.queue import QueueDocument
from queues.plan import Admit, Adopt, Evict, Free, Reason
from queues.quota.accounts import Account
from queues.quota.queue import ROOT, Limits, Queue
from queues.reason_codes import ReasonCode
from queues.resources import Resources
from queues.sql import ledger
from queues.sql.database import Database
from queues.sql.leadership import Term, elect
from queues.sql.observed.nodes import record_node_limits
from queues.sql.observed.queues import record_queues
from queues.sql.observed.rows import Description, NodeLimit, QueueVersion
from queues.sql.observed.workloads import arrive
from queues.sql.statements import attributes
from queues.workload import NO_FLAVOR, AdmissionId, FlavorName, NodeName, QueueName, WorkloadKey

GPU = "nvidia.com/gpu"
GPUS = Account(NO_FLAVOR, GPU)
NOW = 1_800_000_000


def key(uid: str) -> WorkloadKey:
    return WorkloadKey(kind_names.JOB, uid)


def gpus(count: int) -> Resources:
    return Resources({GPU: count})


def eviction(
    admission: AdmissionId,
    *,
    code: ReasonCode = ReasonCode.PREEMPTED,
    message: str = "for another workload",
    not_before: int = 0,
    beneficiary: WorkloadKey | None = None,
) -> Evict:
    return Evict(
        admission=admission,
        code=code,
        message=message,
        not_before=not_before,
        beneficiary=beneficiary,
    )


def freeing(admission: AdmissionId, seats: frozenset[int]) -> Free:
    """Seats given back. Whether that closes the admission, the ledger finds by itself."""
    return Free(admission=admission, seats=seats, closes=False)


def reason(code: str, message: str = "", facts: Mapping[str, Any] | None = None) -> Reason:
    return Reason(code=ReasonCode(code), message=message, facts=facts or {})


def admit(name: str, queue: QueueName, seats: tuple[Seat, ...]) -> Admit:
    return Admit(
        workload=key(name),
        namespace="ns",
        name=name,
        queue=queue,
        priority=0,
        generation="1",
        seats=seats,
    )


def gang(
    name: str,
    queue: str,
    nodes: str | Sequence[str],
    *,
    takes: int = 1,
    flavor: str = NO_FLAVOR,
    first: int = 0,
) -> Admit:
    """One seat per node named (``"n1 n1 n2"``), each taking so many GPUs."""
    names = nodes.split() if isinstance(nodes, str) else nodes
    return admit(
        name,
        QueueName(queue),
        tuple(
            Seat(
                pod_set="worker",
                ordinal=first + index,
                node=NodeName(node),
                flavor=FlavorName(flavor),
                takes=gpus(takes),
            )
            for index, node in enumerate(names)
        ),
    )


def queue(
    name: str,
    parent: str | None = ROOT,
    *,
    guarantee: int = 0,
    deserved: int | None = None,
    capability: int | None = None,
    flavor: str = NO_FLAVOR,
    broken: str | None = None,
) -> QueueVersion:
    limits = Limits(
        guarantee=gpus(guarantee),
        deserved={} if deserved is None else {GPU: deserved},
        capability={} if capability is None else {GPU: capability},
    )
    of_flavor = {"limits": limits} if flavor == NO_FLAVOR else {"flavors": {FlavorName(flavor): limits}}
    own = None if parent is None else QueueName(parent)
    queue = Queue(name=QueueName(name), parent=own, generation=1, broken=broken, **of_flavor)  # type: ignore[arg-type]
    return QueueVersion(queue=queue, uid=f"uid-{name}")


def documented(version: QueueVersion, document: Mapping[str, Any]) -> QueueVersion:
    """A version with this document, and served as it says."""
    stated = {
        "apiVersion": SCHEDULING_VOLCANO,
        "kind": "Queue",
        "metadata": {"name": version.queue.name},
        **document,
    }
    read = QueueDocument.read(stated).to_domain()
    served = attributes(read, "order", "ageing_per_hour", "max_run_time", "policy")
    return replace(version, document=document, queue=replace(version.queue, **served))


class LedgerHarness:
    """A database with a term, and what a leader does with it."""

    def __init__(self, muster: Database, term: Term) -> None:
        self.muster = muster
        self.term = term
        self.seq = 0

    @classmethod
    async def begin(
        cls,
        muster: Database,
        queues: Sequence[QueueVersion] = (),
        nodes: Mapping[str, int] | None = None,
        workloads: Sequence[str] = (),
    ) -> "LedgerHarness":
        async with muster.transaction() as tx:
            term = await elect(tx, "leader", 600.0)
        assert term is not None
        harness = cls(muster, term)
        await harness.queues(*queues)
        await harness.nodes(**(nodes or {}))
        await harness.arrive(*workloads)
        return harness

    async def queues(self, *changed: QueueVersion, removed: Sequence[str] = ()) -> None:
        async with self.muster.transaction() as tx:
            await record_queues(tx, self.term, changed, [QueueName(name) for name in removed])

    async def nodes(self, removed: Sequence[str] = (), **offered: int | NodeLimit) -> None:
        limits = {
            NodeName(name): it if isinstance(it, NodeLimit) else NodeLimit(limits=gpus(it))
            for name, it in offered.items()
        }
        async with self.muster.transaction() as tx:
            await record_node_limits(tx, self.term, limits, [NodeName(name) for name in removed])

    async def arrive(self, *names: str, queue: str = "a") -> dict[WorkloadKey, int]:
        async with self.muster.transaction() as tx:
            return await self.arrive_in(tx, *names, queue=queue)

    async def arrive_in(self, tx: AsyncConnection, *names: str, queue: str = "a") -> dict[WorkloadKey, int]:
        rows = [
            Description(key=key(name), namespace="ns", name=name, queue=QueueName(queue)) for name in names
        ]
        return await arrive(tx, self.term, rows)

    async def enter(self, tx: AsyncConnection, at: int = NOW) -> ledger.LedgerTransaction:
        return await ledger.fence(tx, self.term, ledger_seq=self.seq, now=at)

    @asynccontextmanager
    async def entered(self, at: int = NOW) -> AsyncIterator[tuple[AsyncConnection, ledger.LedgerTransaction]]:
        """A transaction of the leader in the ledger; after it, the leader knows the write."""
        async with self.muster.transaction() as tx:
            entry = await self.enter(tx, at)
            yield tx, entry
        self.seq = entry.seq

    async def admit(self, *gangs: Admit, at: int = NOW, user: str = "") -> ledger.LedgerOutcome:
        async with self.entered(at) as (tx, entry):
            return await ledger.admit(tx, entry, gangs, {each.workload: user for each in gangs})

    async def adopt(self, *running: Adopt) -> list[AdmissionId]:
        async with self.entered() as (tx, entry):
            return list((await ledger.adopt(tx, entry, running)).accepted.values())

    async def free(self, admission: AdmissionId, *seats: int, at: int = NOW) -> ledger.Freed:
        async with self.entered(at) as (tx, entry):
            return await ledger.free(tx, entry, [freeing(admission, frozenset(seats))])

    async def evict(self, *rows: Evict) -> frozenset[AdmissionId]:
        async with self.entered() as (tx, entry):
            return await ledger.evict(tx, entry, rows)

    async def balances(self, account: Account = GPUS) -> dict[str, tuple[int, int, int]]:
        """(own, used, counted) by queue; zeros are left out."""
        async with self.muster.transaction() as tx:
            rows = await tx.execute(
                text(
                    "SELECT queue, own, used, counted FROM queue_balances "
                    "WHERE flavor = :flavor AND resource = :resource AND (own, used, counted) <> (0, 0, 0)"
                ),
                {"flavor": account.flavor, "resource": account.resource},
            )
            return {row.queue: (row.own, row.used, row.counted) for row in rows}

    async def on_nodes(self) -> dict[str, int]:
        """GPUs taken, by node; zeros are left out."""
        async with self.muster.transaction() as tx:
            rows = await tx.execute(text("SELECT node, used FROM node_balances WHERE used <> 0"))
            return {row.node: row.used for row in rows}

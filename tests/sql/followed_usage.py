"""A ledger and, beside it, a recorder that hears of every posting: what is read must be what was heard."""

from collections.abc import Mapping

from queues.admissions import Seat
from queues.plan import Admit
from queues.quota.accounts import Account, charges
from queues.quota.decayed_usage import UsageHolder, UsageRecorder
from queues.resources import Resources
from queues.sql import ledger
from queues.sql.database import Database
from queues.sql.observed.rows import NodeLimit
from queues.sql.read.past_use import past_use
from queues.workload import AdmissionId, FlavorName, NodeName, QueueName
from tests.sql.ledger_harness import GPU, LedgerHarness, admit, freeing, queue

A, B = QueueName("a"), QueueName("b")

HALF_LIFE = 604_800


def wanted(name: str, into: QueueName, seats: tuple[Seat, ...]) -> Admit:
    return admit(name, into, seats)


def seat(takes: Mapping[str, int], ordinal: int = 0, flavor: str = "") -> Seat:
    return Seat(
        pod_set="main",
        ordinal=ordinal,
        node=NodeName("n2" if flavor else "n1"),
        flavor=FlavorName(flavor),
        takes=Resources(dict(takes)),
    )


class Followed:
    """A ledger, and memories that hear of every posting."""

    def __init__(
        self, harness: LedgerHarness, half_lives: Mapping[QueueName, frozenset[int]], began: int
    ) -> None:
        self.harness, self.half_lives = harness, half_lives
        self.memories = UsageRecorder()
        self.memories.begin(half_lives, {}, began)
        self.held: dict[AdmissionId, tuple[QueueName, str, tuple[Seat, ...]]] = {}

    async def take(
        self, name: str, into: QueueName, user: str, seats: tuple[Seat, ...], at: int
    ) -> AdmissionId:
        harness, row = self.harness, wanted(name, into, seats)
        async with harness.entered(at) as (tx, entry):
            verdict = await ledger.admit(tx, entry, [row], {row.workload: user})
        self.memories.post(into, user, charges(seats), at)
        self.held[verdict.accepted[0]] = (into, user, seats)
        return verdict.accepted[0]

    async def give_back(self, id_: AdmissionId, indices: frozenset[int], at: int) -> None:
        harness, (queue_, user, seats) = self.harness, self.held[id_]
        async with harness.entered(at) as (tx, entry):
            freed = await ledger.free(tx, entry, [freeing(id_, indices)])
        gone = [seats[index] for index in freed.seats.get(id_, ())]
        amounts = charges(gone)
        self.memories.post(queue_, user, {account: -units for account, units in amounts.items()}, at)

    async def read(self, now: int) -> dict[UsageHolder, dict[Account, dict[int, int]]]:
        async with self.harness.muster.snapshot() as tx:
            return await past_use(tx, self.half_lives, now)


async def stage_of(muster: Database, *names: str) -> LedgerHarness:
    harness = await LedgerHarness.begin(muster, [queue("a"), queue("b")], {}, names)
    offered = Resources({GPU: 1000, "cpu": 10**12, "memory": 10**18})
    await harness.nodes(n1=NodeLimit(limits=offered), n2=NodeLimit(limits=offered, flavor=FlavorName("h100")))
    return harness

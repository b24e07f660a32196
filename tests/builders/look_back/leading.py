"""A leader over one database, whose turns are kept; its clock stands still until it is told otherwise."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from admission.cycle import Cycle
from admission.facts.changes import Fact
from admission.facts.workloads import WorkloadFact
from admission.history.turn_keeper import TurnKeeper
from admission.replay.fingerprint import fingerprint
from queues.quota.queue import ROOT, Limits
from queues.sql.database import Database
from queues.sql.history.kept_turns import TurnBounds
from queues.sql.leadership import Term, elect
from queues.workload import QueueName, WorkloadKey, WorkloadKind
from tests.builders.cycles import begun_world, cycle_over
from tests.builders.facts import GPU, node, queue, seen, volcano_job

#: 2026-09-21T14:13:20Z
NOW = 1_790_000_000


def gang(name: str, pods: int) -> WorkloadFact:
    """Pods of one GPU that start together."""
    return replace(volcano_job(pods), key=WorkloadKey(WorkloadKind.VOLCANO_JOB, f"{name}-uid"), name=name)


class Leading:
    """A leader of two nodes of eight GPUs each, and of queue team, which may use eight."""

    def __init__(self, database: Database, term: Term, cycle: Cycle) -> None:
        self.database, self.term, self.cycle = database, term, cycle
        self.now = NOW

    def keeper(self, bounds: TurnBounds | None = None) -> TurnKeeper:
        """What keeps turns of its term."""
        return TurnKeeper(self.database, self.term, bounds or TurnBounds(), fingerprint(), lambda: self.now)

    async def decide(self, *facts: Fact) -> None:
        """A turn that sees these facts."""
        await self.cycle.turn([seen(each) for each in facts])

    async def keep(self) -> bool:
        """Keep the last turn."""
        assert self.cycle.last is not None
        return await self.keeper().keep(self.cycle.last)


@asynccontextmanager
async def leading_over(dsn: str) -> AsyncIterator[Leading]:
    """A leader over the database."""
    connected = await Database.connect(dsn)
    async with connected.transaction() as tx:
        term = await elect(tx, "me", 600.0)
    assert term is not None
    limits = Limits(deserved={GPU: 8000}, capability={GPU: 8000})
    stated = {"deserved": {GPU: "8"}, "capability": {GPU: "8"}}
    team = replace(queue("team", parent=QueueName(ROOT), limits=limits), document={"spec": stated})
    facts = [queue("root"), team, node("n1"), node("n2")]
    world = await begun_world(connected, facts)
    leader = Leading(connected, term, cycle_over(connected, term, world, lambda: leader.now))
    yield leader
    await connected.close()

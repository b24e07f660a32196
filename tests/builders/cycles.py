"""A controller's turns over one database, without a cluster."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from admission.containment.decider import Decider
from admission.containment.decision_thread import DecisionThread
from admission.cycle import Cycle
from admission.facts.changes import Fact
from admission.failpoints import armed
from admission.turn_report import TurnReport
from admission.workloads.inputs import Timeouts
from admission.world.world import World
from queues.sql import leadership
from queues.sql.database import Database
from queues.sql.leadership import Term
from queues.sql.world import load_world
from tests.builders.facts import NOW, seen


async def begun_world(database: Database, facts: Iterable[Fact]) -> World:
    """A world read from the database and these objects."""
    async with database.snapshot() as tx:
        rows = await load_world(tx)
    world = World(rows, Timeouts())
    world.observe([seen(fact) for fact in facts])
    world.drop_gone(rows.queues, rows.nodes)
    return world


def cycle_over(
    database: Database, term: Term, world: World, clock: Callable[[], int], *, limit: float = 60.0
) -> Cycle:
    """Turns of a term in which pods are seen as soon as they are there. ``limit``: seconds of a decision."""
    return Cycle(
        database,
        term,
        world,
        awaited=lambda key: {},
        transitions=lambda world, keys, now: (),
        clock=clock,
        decider=Decider(DecisionThread(limit), keep=lambda snapshot: None),
        failpoint=armed(None),
    )


@dataclass(slots=True)
class Leaders:
    """Leaders that follow one another over one database."""

    database: Database
    #: What each of them sees.
    cluster: Sequence[Fact]
    cycle: Cycle = field(init=False)
    now: int = NOW
    _term: Term | None = None

    def close(self) -> None:
        """The last one leads no more."""
        if self._term is not None:
            self.cycle._decider.close()

    async def next_one(self, *facts: Fact, limit: float = 3600.0) -> None:
        """Another replica leads, and sees these objects too. ``limit``: seconds of a decision."""
        self.close()
        async with self.database.transaction() as tx:
            if self._term is not None:
                assert await leadership.resign(tx, self._term)
            term = self._term = await leadership.elect(tx, "replica", 600.0)
        assert term is not None
        world = await begun_world(self.database, (*self.cluster, *facts))
        self.cycle = cycle_over(self.database, term, world, lambda: self.now, limit=limit)

    async def turn(self, *facts: Fact) -> TurnReport:
        return await self.cycle.turn([seen(fact) for fact in facts])

    def admitted(self) -> set[str]:
        return {each.name for each in self.cycle.world.admissions.values()}

    def waiting(self) -> dict[str, str]:
        """By uid the code of what waits."""
        return {key.uid: reason.code for key, reason in self.cycle.world.ledger.reasons.items()}

    def message(self, uid: str) -> str:
        """Why a workload waits."""
        return next(r.message for key, r in self.cycle.world.ledger.reasons.items() if key.uid == uid)

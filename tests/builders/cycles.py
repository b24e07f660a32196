"""A controller's turns over one database, without a cluster."""

from collections.abc import Callable, Iterable

from admission.containment.decider import Decider
from admission.containment.decision_thread import DecisionThread
from admission.cycle import Cycle
from admission.facts.changes import Fact
from admission.failpoints import armed
from admission.workloads.inputs import Timeouts
from admission.world.world import World
from queues.sql.database import Database
from queues.sql.leadership import Term
from queues.sql.world import load_world
from tests.builders.facts import seen


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

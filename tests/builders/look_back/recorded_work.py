"""Work of a day in the ledger, as it was recorded: written into the history as apply and intake write it."""

from datetime import UTC, datetime

from sqlalchemy import insert

from queues.sql.database import Database
from queues.sql.tables import closed_admissions, ended_workloads
from tests.builders.facts import GPU

#: Name, when it came, when it was admitted and when it ended (minutes before now), and its pods of one GPU each.
DAY = (
    ("morning", 600, 600, 480, 8),
    ("report", 590, 480, 420, 4),
    ("sweep", 580, 480, 300, 4),
    ("eval", 570, 420, 390, 4),
)


async def record_a_day(database: Database, now: int) -> None:
    """Four gangs of queue team, one after the other for want of quota. ``now``: seconds since the epoch."""

    def at(minutes_ago: int) -> datetime:
        return datetime.fromtimestamp(now - 60 * minutes_ago, UTC)

    async with database.transaction() as tx:
        for number, (name, came, opened, ended, pods) in enumerate(DAY, start=1):
            shared = {"kind": "job", "uid": f"{name}-uid", "namespace": "ns", "name": name, "queue": "team"}
            seats = {
                "pod_sets": ["main"] * pods,
                "ordinals": list(range(pods)),
                "nodes": ["n1"] * pods,
                "flavors": [""] * pods,
                "shape_of": [0] * pods,
                "shapes": [{GPU: 1000, "pods": 1}],
            }
            await tx.execute(
                insert(closed_admissions).values(
                    **shared,
                    **seats,
                    id=1000 + number,
                    priority=0,
                    generation="1",
                    term=1,
                    started=True,
                    opened_at=at(opened),
                    closed_at=at(ended),
                )
            )
            await tx.execute(
                insert(ended_workloads).values(
                    **shared,
                    ended_at=at(ended),
                    arrival=number,
                    priority=0,
                    created=now - 60 * came,
                    seen_at=at(came),
                    pods=pods,
                    minimum=pods,
                )
            )

"""What a new leader, and one in doubt, asks the ledger."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from sqlalchemy import text

from queues.sql import world
from queues.sql.database import Database
from queues.sql.statements import parts
from queues.sql.world import closed_among
from queues.workload import AdmissionId


async def test_any_number_of_admissions_can_be_asked_for(muster: Database) -> None:
    """After the loss of the ledger, each pod that runs names one that it does not know."""
    ids = frozenset(AdmissionId(number) for number in range(1, 100_001))
    async with muster.transaction() as tx:
        assert await closed_among(tx, ids) == {}


async def test_manifests_of_pods_that_are_made_again_are_read_in_parts(
    muster: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is a whole document, and a gang may have thousands."""
    manifests: list[int] = []

    async def noted(*arguments: Any) -> AsyncIterator[Sequence[Any]]:
        async for part in parts(*arguments):
            manifests.append(sum("manifest" in row._fields for row in part))
            yield part

    monkeypatch.setattr(world, "parts", noted)
    async with muster.transaction() as tx:
        await tx.execute(
            text(
                "INSERT INTO recreations (pod_uid, kind, uid, namespace, name, queue, manifest)"
                " SELECT n, 'podgroup', 'g', 'ns', 'p' || n, 'a', '{}' FROM generate_series(1, 700) AS n"
            )
        )
    async with muster.snapshot() as tx:
        assert len((await world.load_world(tx)).recreations) == 700
    assert (sum(manifests), max(manifests) <= 200) == (700, True)

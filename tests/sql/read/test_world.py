"""What a new leader, and one in doubt, asks the ledger."""

from queues.sql.database import Database
from queues.sql.read.world import closed_among
from queues.workload import AdmissionId


async def test_any_number_of_admissions_can_be_asked_for(muster: Database) -> None:
    """After the loss of the ledger, each pod that runs names one that it does not know."""
    ids = frozenset(AdmissionId(number) for number in range(1, 100_001))
    async with muster.transaction() as tx:
        assert await closed_among(tx, ids) == {}

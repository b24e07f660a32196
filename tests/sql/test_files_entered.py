"""How much of Muster one Volcano Job goes through: the files that it enters from what was decoded to the ledger."""

from queues.sql.database import Database
from tests.fakes.fake_cluster import FakeCluster
from tests.function_calls import EnteredFiles
from tests.laws.worlds.ring import Ring

#: What a newcomer reads who follows one Job. Lower it when it can be; a higher number needs a reason.
MOST = 120


async def test_one_volcano_job_enters_few_files(database: str) -> None:
    cluster, entered = FakeCluster(), EnteredFiles()
    cluster.add_queue("a", capability=8)
    for node in ("n1", "n2"):
        cluster.add_node(node, 4)
    connected = await Database.connect(database)
    try:
        with entered.prepared():
            ring = await Ring.begin(connected, cluster)
            await ring.turn()
            cluster.add_volcano_job("train", "a", 2, 2, 4)
            changes = cluster.watch.deliver()
            with entered.watching():
                ring.world.observe(changes)
                await ring.cycle.turn()
    finally:
        await connected.close()
    [admission] = ring.world.admissions.values()
    assert len(admission.seats) == 2
    print(*entered.files, f"{len(entered.files)} files", sep="\n")
    assert len(entered.files) <= MOST

"""How much of Muster one Volcano Job, and one question about it, go through: the files that are entered."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial

import pytest

from admission.cli.command_line import finish
from admission.cli.kubectl_muster import kubectl_muster
from admission.web.sql_reader import SqlReader
from queues.sql.database import Database
from tests.fakes.fake_cluster import NAMESPACE, FakeCluster
from tests.fakes.fake_reader import served
from tests.function_calls import EnteredFiles
from tests.laws.worlds.ring import Ring
from tests.waiting import LIMIT

#: What a newcomer reads who follows one Job, from what was decoded to the ledger; and one ``explain`` of it, in client,
#: HTTP and SQL. Lower them when it can be; a higher number needs a reason.
MOST = 110
MOST_OF_FIRST_EXPLAIN = 30
MOST_OF_EXPLAIN = 28


@asynccontextmanager
async def ring_of(database: str, cluster: FakeCluster) -> AsyncIterator[tuple[Database, Ring]]:
    """A ring that has made a turn, over two nodes with 4 GPUs and the queue ``a``."""
    cluster.add_queue("a", capability=8)
    for node in ("n1", "n2"):
        cluster.add_node(node, 4)
    connected = await Database.connect(database)
    try:
        ring = await Ring.begin(connected, cluster)
        await ring.turn()
        yield connected, ring
    finally:
        await connected.close()


def check(entered: EnteredFiles, most: int) -> None:
    print(*entered.files, f"{len(entered.files)} files", sep="\n")
    assert len(entered.files) <= most


async def test_one_volcano_job_enters_few_files(database: str) -> None:
    cluster, entered = FakeCluster(), EnteredFiles()
    with entered.prepared():
        async with ring_of(database, cluster) as (_, ring):
            cluster.add_volcano_job("train", "a", 2, 2, 4)
            changes = cluster.watch.deliver()
            with entered.watching():
                ring.world.observe(changes)
                await ring.cycle.turn()
    [admission] = ring.world.admissions.values()
    assert len(admission.seats) == 2
    check(entered, MOST)


async def test_one_explanation_enters_few_files(
    database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first one reads the overview of the queues too, which a replica keeps for all who ask meanwhile."""
    cluster = FakeCluster()
    async with ring_of(database, cluster) as (connected, ring):
        cluster.add_volcano_job("train", "a", 4, 4, 4)
        await ring.turn()
        async with served(SqlReader(connected, keep=LIMIT)) as url:
            monkeypatch.setenv("MUSTER_SERVER", url)
            words = ("explain", "train", "-n", NAMESPACE)
            for most in (MOST_OF_FIRST_EXPLAIN, MOST_OF_EXPLAIN):
                entered = EnteredFiles()
                with entered.prepared(), ThreadPoolExecutor(1) as pool, entered.watching():
                    asked = partial(finish, kubectl_muster, "kubectl muster", words)
                    code = await asyncio.get_running_loop().run_in_executor(pool, asked)
                assert code == 3, "no replica leads, so the age of the answer is not known"
                assert "Waits because" in capsys.readouterr().out
                check(entered, most)

"""Two clusters, a Muster each, and one Postgres server with a database for each: nothing but the DSN differs."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from deploy.local.stack import Stack
from queues.sql.database import raw_connection
from queues.sql.embedded.server import EmbeddedPostgres
from tests.cluster_faults import kill_muster, leads, readiness, stop_muster
from tests.e2e.support.crash_harness import (
    CrashHarness,
    balances_are_sums_of_open_seats,
)
from tests.e2e.support.ledger_queries import LedgerQueries
from tests.e2e.support.manifests import volcano_job
from tests.e2e.support.pod_history import PodHistory
from tests.waiting import until

#: Names of the clusters and of their databases.
EAST, WEST = "east", "west"


@pytest.fixture(scope="module")
def clusters(
    kubernetes_binaries: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, CrashHarness]]:
    server = EmbeddedPostgres()
    server.start(tmp_path_factory.mktemp("postgres"), durable=False)
    try:
        with ExitStack() as held:
            yield {name: _cluster(held, server, name) for name in (EAST, WEST)}
    finally:
        server.stop()


def _cluster(held: ExitStack, server: EmbeddedPostgres, name: str) -> CrashHarness:
    asyncio.run(_create_database(server.dsn(), name))
    stack = held.enter_context(Stack(shared=server, database=name))
    stack.install()
    ledger = LedgerQueries(stack.dsn)
    held.callback(ledger.close)
    api = held.enter_context(stack.cluster.client())
    history = held.enter_context(PodHistory(stack.cluster.kubeconfig))
    return CrashHarness(stack, api, ledger, history)


async def _create_database(dsn: str, name: str) -> None:
    connection = await raw_connection(dsn)
    await connection.execute(f'CREATE DATABASE "{name}"')
    await connection.close()


@pytest.mark.long
def test_each_cluster_admits_by_itself_and_a_swapped_dsn_is_refused(
    clusters: dict[str, CrashHarness],
) -> None:
    east, west = clusters[EAST], clusters[WEST]
    leader = east.start()
    east.leads(leader)
    west_leader = west.start()
    west.leads(west_leader)
    # Namespace, queue and gang have the same names in both.
    with east.sandbox("team") as in_east, west.sandbox("team") as in_west:
        for sandbox in (in_east, in_west):
            sandbox.add(volcano_job(sandbox, "first", 4))
        for sandbox in (in_east, in_west):
            sandbox.wait_running("first", 4)

        kill_muster(leader)
        stop_muster(east.stack, leader)
        in_west.add(volcano_job(in_west, "second", 4))
        in_west.wait_running("second", 4)
        west.leads(west_leader)
        assert in_east.ledger.workloads("team") == ["first"]

        swapped = east.start(wait=False, MUSTER_DSN=west.stack.dsn)
        until(lambda: "status.ledger of queue root" in readiness(swapped), "a swapped DSN to be refused")
        assert not leads(swapped)
        assert "Give this replica the DSN of that ledger" in readiness(swapped)
        east.forget(swapped)

        again = east.start()
        east.leads(again)
        in_east.add(volcano_job(in_east, "second", 4))
        in_east.wait_running("second", 4)
        for harness in clusters.values():
            balances_are_sums_of_open_seats(harness.ledger)

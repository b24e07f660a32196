"""While Postgres is away, queues and new work say so, and nothing else is written; with a leader, nothing at all."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from admission.decode.admin_documents import queue_fact
from admission.kube import database_outage
from admission.kube.client.client import Client
from admission.kube.database_outage import OF_QUEUES, DatabaseOutage
from admission.kube.writers import status
from admission.kube.writers.status import StatusWriter, write_deciding_condition
from admission.reconcile.status import queue_status
from queues.api.api_resources import JOBS, PODS, QUEUES
from queues.errors import DatabaseUnavailable
from queues.workload import QueueName
from tests.builders.trials.worlds_in_memory import batch_job, pod, stored
from tests.fakes.fake_api_server import FakeApiServer, Seen
from tests.waiting import eventually, in_background

LEDGER = {"id": "here", "term": 1, "holder": "c", "nonce": "n"}
AWAY = DatabaseUnavailable(reason="connection refused")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOOK_EVERY", "NOTICED_EVERY"):
        monkeypatch.setattr(database_outage, name, 0.01)


@pytest_asyncio.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as fake:
        for name in ("root", "vision"):
            spec = {} if name == "root" else {"parent": "root"}
            status = {"state": "Open", "ledger": LEDGER} if name == "root" else {"state": "Open"}
            await fake.put(
                QUEUES.path(), {"metadata": {"name": name, "uid": name}, "spec": spec, "status": status}
            )
        yield fake


@pytest_asyncio.fixture
async def client(server: FakeApiServer, tmp_path: Path) -> AsyncIterator[Client]:
    async with await Client.connect(server.kubeconfig(tmp_path)) as connected:
        yield connected


def outage(client: Client, *, leads: bool = False, lasts: float = 0.0, instance: str = "a") -> DatabaseOutage:
    found = DatabaseOutage(client, leads=lambda: leads, lasts=lasts, instance=instance)
    found.note(AWAY)
    return found


def looks(server: FakeApiServer) -> int:
    return sum(each.path == QUEUES.path() for each in server.seen("LIST"))


async def keep(server: FakeApiServer, patch: Seen) -> None:
    """Store what was written, as an API server does."""
    name = patch.path.split("/")[-2]
    queue = server.objects[QUEUES.path()]["", name]
    assert patch.body["metadata"] == {"uid": name, "resourceVersion": queue["metadata"]["resourceVersion"]}
    await server.put(QUEUES.path(), queue | {"status": queue["status"] | patch.body["status"]})


def said(patch: Seen) -> Any:
    (condition,) = patch.body["status"]["conditions"]
    return patch.path.split("/")[-2], condition["type"], condition["status"], condition["reason"]


async def test_queues_say_it_and_each_workload_that_comes_gets_one_event_whoever_writes_it(
    server: FakeApiServer, client: Client
) -> None:
    documents = (
        batch_job("before", 1, queue="vision"),
        batch_job("new", 1, queue="vision"),
        batch_job("other", 1),
        pod("alone", queue="vision"),
        pod("member", group="gang", queue="vision"),
    )
    before, job, other, alone, member = (stored(each, each["metadata"]["name"]) for each in documents)
    before["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"
    async with in_background(outage(client).run()), in_background(outage(client, instance="b").run()):
        await eventually(lambda: len(server.seen("WATCH")) >= 2, "the watches")
        for each in (before, job, other):
            await server.put(JOBS.path(), each)
        for each in (alone, member):
            await server.put(PODS.path(), each)
        await eventually(lambda: len(server.seen("PATCH")) >= 1, "root to be written")
        assert {said(each) for each in server.seen("PATCH")} == {
            ("root", "Deciding", "False", "DatabaseAway")
        }
        assert not server.seen("POST")
        await keep(server, server.seen("PATCH")[0])
        assert server.objects[QUEUES.path()]["", "root"]["status"]["ledger"] == LEDGER
        await eventually(lambda: said(server.seen("PATCH")[-1])[0] == "vision", "the queue to be written")
        await keep(server, server.seen("PATCH")[-1])
        await eventually(lambda: len(server.seen("POST")) == 4, "both to write both events")
        rounds, written = looks(server), len(server.seen("PATCH"))
        await eventually(lambda: looks(server) > rounds + 5, "more looks")
    told = {
        (each.body["metadata"]["name"], each.body["involvedObject"]["name"]) for each in server.seen("POST")
    }
    assert {name for _, name in told} == {"new", "alone"}
    assert len(told) == 2, "under the same names"
    assert {each.body["reason"] for each in server.seen("POST")} == {"DatabaseAway"}
    assert (len(server.seen("POST")), len(server.seen("PATCH"))) == (4, written)


async def test_a_replica_says_no_more_once_a_leader_has_changed_root_back(
    server: FakeApiServer, client: Client
) -> None:
    async with in_background(outage(client).run()):
        await eventually(lambda: looks(server) > 6, "some looks")
    assert [said(each)[0] for each in server.seen("PATCH")] == ["root"]


async def test_nothing_is_said_while_a_lease_may_hold_nor_of_an_outage_that_is_over(
    server: FakeApiServer, client: Client
) -> None:
    over = outage(client)
    over.note(None)
    async with (
        in_background(outage(client, leads=True).run()),
        in_background(outage(client, lasts=3600.0).run()),
        in_background(over.run()),
    ):
        await eventually(lambda: len(server.seen("WATCH")) >= 4, "watches")
    assert not looks(server)
    assert not server.seen("PATCH")


async def test_a_leader_changes_back_what_another_replica_said(
    server: FakeApiServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("COALESCE", "BETWEEN_WRITES"):
        monkeypatch.setattr(status, name, 0.0)
    writer = StatusWriter(client, lambda: None)
    queues = server.objects[QUEUES.path()]

    async def look() -> None:
        """The leader sees the queue as it is."""
        fact = queue_fact(json.dumps(queues["", "vision"]).encode())
        writer.submit([queue_status(fact)])
        await eventually(
            lambda: not any(each.due or each.busy for each in writer._known.values()), "a status"
        )

    async with in_background(writer.run()):
        await look()
        await write_deciding_condition(client, lambda: None, OF_QUEUES, QueueName("vision"))
        asked = len(server.seen("PATCH"))
        await keep(server, server.seen("PATCH")[-1])
        await look()
    (back,) = server.seen("PATCH")[asked:]
    assert back.body["status"]["conditions"] is None

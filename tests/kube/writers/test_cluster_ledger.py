"""The cluster takes one ledger, whoever comes first, and another one only when it is told to."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest
import pytest_asyncio

from admission.facts.cluster import QueueFact
from admission.kube.client.client import Client
from admission.kube.cluster_ledger import ClusterLedger
from admission.reconcile.status import merge_patch, queue_status, settled
from admission.world.queues import Standing
from queues.api.api_resources import QUEUES
from queues.errors import AnotherLedger, Fenced, LedgerIsOlder, NoRootQueue, NotFound
from queues.ledger_record import LedgerRecord
from queues.quota.queue import ROOT as ROOT_NAME
from queues.quota.queue import Queue
from tests.fakes.fake_api_server import FakeApiServer, answers
from tests.kube.support.cluster_objects import becomes

ROOT = QUEUES.path(name="root")


def ledger(name: str, term: int = 1, holder: str = "me") -> LedgerRecord:
    return LedgerRecord(ledger=name, term=term, holder=holder, nonce="n1")


def allowed() -> None:
    return None


@pytest_asyncio.fixture
async def cluster(api: Client) -> AsyncIterator[ClusterLedger]:
    """A cluster that no ledger has led yet."""
    await becomes(lambda: api.get(QUEUES.path()), despite=NotFound)
    await api.create(QUEUES.path(), QUEUES.document("root", spec={}))
    yield ClusterLedger(api)
    await api.delete(ROOT)


async def test_of_many_new_ledgers_that_come_at_once_one_is_recorded(cluster: ClusterLedger) -> None:
    claims = (cluster.claim(ledger(f"ledger-{number}"), allowed) for number in range(8))
    found = await asyncio.gather(*claims, return_exceptions=True)
    refused = [each for each in found if each is not None]
    assert len(refused) == 7
    assert all(isinstance(each, AnotherLedger) for each in refused)
    recorded = await cluster.recorded()
    assert recorded is not None
    assert all(recorded.ledger in str(each) for each in refused)


async def test_the_ledger_goes_on_from_term_to_term_and_its_backup_does_not(cluster: ClusterLedger) -> None:
    for term in (1, 2, 5):
        await cluster.claim(ledger("a", term), allowed)
        await cluster.claim(ledger("a", term), allowed)
    with pytest.raises(LedgerIsOlder):
        await cluster.claim(ledger("a", 4), allowed)
    assert await cluster.recorded() == ledger("a", 5)


async def test_a_ledger_that_is_told_to_takes_the_place_of_another(cluster: ClusterLedger) -> None:
    await cluster.claim(ledger("a", 7), allowed)
    assert await cluster.replace(ledger("b", 0)) == ledger("a", 7)
    await cluster.claim(ledger("b", 1), allowed)
    with pytest.raises(AnotherLedger):
        await cluster.claim(ledger("a", 8), allowed)


async def test_the_record_stays_beside_what_else_the_status_says(cluster: ClusterLedger, api: Client) -> None:
    await cluster.claim(ledger("a", 7), allowed)
    root = msgspec.json.decode(await api.get(ROOT))
    fact = QueueFact(queue=Queue(name=ROOT_NAME), uid=root["metadata"]["uid"])
    wanted = queue_status(fact, counts={Standing.PENDING: 3})
    patch = merge_patch(root["status"], settled(wanted, root["status"], 0))
    await api.patch(f"{ROOT}/status", {"status": patch})
    assert await cluster.recorded() == ledger("a", 7)
    assert msgspec.json.decode(await api.get(ROOT))["status"]["pending"] == 3


async def test_a_claim_whose_root_has_changed_meanwhile_looks_again(
    server: FakeApiServer, client: Client
) -> None:
    await server.put(QUEUES.path(), {"metadata": {"name": "root", "uid": "u1"}})
    server.once("PATCH", answers(409, "the object has been modified", "Conflict"), times=2)
    await ClusterLedger(client).claim(ledger("a"), allowed)
    first, *_, last = server.seen("PATCH")
    assert len(server.seen("PATCH")) == 3
    assert (
        first.body
        == last.body
        == {
            "metadata": {"uid": "u1", "resourceVersion": "11"},
            "status": {"ledger": {"id": "a", "term": 1, "holder": "me", "nonce": "n1"}},
        }
    )


async def test_without_root_or_without_a_lease_nothing_is_recorded(
    server: FakeApiServer, client: Client
) -> None:
    def fenced() -> None:
        raise Fenced(term=1, holder="me", reason="its lease ran out unrenewed")

    server.once("LIST", answers(404, "not found", "NotFound"))
    with pytest.raises(NoRootQueue, match="muster install"):
        await ClusterLedger(client).claim(ledger("a"), allowed)
    await server.put(QUEUES.path(), {"metadata": {"name": "root", "uid": "u1"}})
    with pytest.raises(Fenced):
        await ClusterLedger(client).claim(ledger("a"), fenced)
    assert server.seen("PATCH") == []

"""Root says why nothing is decided, also when every term ends at once."""

import msgspec
import pytest

from admission.kube.client.client import Client
from admission.kube.writers.status import write_root_condition
from queues.errors import Fenced
from queues.plan import Reason
from queues.reason_codes import ReasonCode
from tests.fakes.fake_api_server import FakeApiServer, answers, says

ROOT = b'{"metadata": {"name": "root", "uid": "u1"}, "status": {"state": "Open", "conditions": [%s]}}'
FAILING = Reason(code=ReasonCode.TURNS_FAIL, message="5 turns in a row ended with the same error: …")


async def test_other_conditions_stay_beside_it(server: FakeApiServer, client: Client) -> None:
    usable = b'{"type": "Usable", "status": "False", "reason": "QueueBroken"}'
    server.once("LIST", says(ROOT % usable))
    await write_root_condition(client, lambda: None, FAILING)
    (patch,) = server.seen("PATCH")
    assert patch.path.endswith("/queues/root/status")
    assert patch.body["metadata"]["uid"] == "u1"
    first, second = patch.body["status"]["conditions"]
    assert first["type"] == "Usable"
    assert (second["type"], second["status"], second["reason"]) == ("Deciding", "False", "TurnsFail")
    assert second["message"] == FAILING.message


async def test_what_is_said_already_is_not_written_again(server: FakeApiServer, client: Client) -> None:
    said = {"type": "Deciding", "status": "False", "reason": "TurnsFail", "message": FAILING.message}
    server.once("LIST", says(ROOT % msgspec.json.encode(said)))
    await write_root_condition(client, lambda: None, FAILING)
    assert server.seen("PATCH") == []


async def test_another_cause_takes_the_place_of_the_one_that_was_told(
    server: FakeApiServer, client: Client
) -> None:
    said = {"type": "Deciding", "status": "False", "reason": "TurnsFail", "message": "it tried another one"}
    server.once("LIST", says(ROOT % msgspec.json.encode(said)))
    await write_root_condition(client, lambda: None, FAILING)
    (patch,) = server.seen("PATCH")
    assert [each["message"] for each in patch.body["status"]["conditions"]] == [FAILING.message]


async def test_a_cluster_without_root_stops_nothing(server: FakeApiServer, client: Client) -> None:
    server.once("LIST", answers(404, "not found", "NotFound"))
    await write_root_condition(client, lambda: None, FAILING)
    assert server.seen("PATCH") == []


async def test_without_a_lease_nothing_is_said(server: FakeApiServer, client: Client) -> None:
    def fenced() -> None:
        raise Fenced(term=1, holder="me", reason="its lease ran out unrenewed")

    server.once("LIST", says(ROOT % b""))
    with pytest.raises(Fenced):
        await write_root_condition(client, fenced, FAILING)
    assert server.seen("PATCH") == []

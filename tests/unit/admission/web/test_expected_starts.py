"""Expected starts in the read API: beside the lists, and only of workloads that the user may see."""

from typing import Any

from tests.fakes.fake_reader import FakeLeader
from tests.unit.admission.web.conftest import Get


async def test_waiting_workloads_have_their_expected_start(golden: Any, get: Get) -> None:
    _, body = await get("pending")
    by_name = {one["name"]: one["expected"] for one in body["items"]}

    assert by_name["tune-3"] == golden
    assert by_name["llama-pretrain"]["latest"] is None
    assert by_name["sweep"] is None


async def test_the_list_comes_without_them_when_nobody_leads(get: Get, leader: FakeLeader) -> None:
    leader.lost = True
    status, body = await get("pending")

    assert (status, {one["expected"] for one in body["items"]}) == (200, {None})


async def test_an_outlook_has_it_too(get: Get) -> None:
    _, (outlook,) = await get("namespaces/ml/workloads/tune-3/outlook")

    assert outlook["expected"]["latest"] == "2026-11-21T10:40:00Z"


async def test_a_user_is_told_only_of_workloads_in_sight(get: Get) -> None:
    def uids(body: dict[str, list[dict[str, str]]]) -> list[str]:
        return [line["uid"] for line in body["items"]]

    _, everything = await get("expected-starts")
    _, of_jo = await get("expected-starts", "jo")
    _, of_alice = await get("expected-starts?namespace=ml", "alice")
    refused, _ = await get("expected-starts?namespace=lab", "jo")
    wrong, _ = await get("expected-starts?queue=train")

    assert uids(everything) == ["tune-3-uid", "llama-pretrain-uid"]
    assert uids(of_jo) == ["tune-3-uid"]
    assert uids(of_alice) == ["tune-3-uid", "llama-pretrain-uid"]
    assert (refused, wrong) == (403, 400)


async def test_who_does_not_lead_says_so(get: Get, leader: FakeLeader) -> None:
    leader.lost = True

    assert (await get("expected-starts"))[0] == 409

"""``POST /trials``: what is answered to whom, its bounds and its errors."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from admission.facts.cluster import QueueFact
from admission.forecast.learned import Learned
from admission.web.app import PREFIX
from admission.web.leader.forwarding import FORWARDED
from admission.web.leader.question_line import OF_ONE
from admission.web.reader import Sight
from admission.web.trials.handler import LARGEST_TRIAL
from queues.quota.queue import Limits
from tests.builders import facts
from tests.builders.trials.worlds_in_memory import (
    WorldInMemory,
    batch_job,
    pod,
    stored,
    two_racks,
    volcano_job,
)
from tests.fakes.fake_reader import FakeLeader, FakeReader, served
from tests.tables import with_rows
from tests.waiting import eventually

#: alice may see batch/v1 Jobs of her namespace, and nothing of others.
SIGHTS = {"alice": Sight(workloads={"job": {"ml"}}, queues=frozenset({"team"}))}
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}


@pytest.fixture
def leader() -> FakeLeader:
    world = two_racks()
    low = batch_job("secret", 4, queue="other", gpu=8)
    world.store(stored(low, "low", namespace="vision"))
    world.settle()
    return FakeLeader(world)


@pytest.fixture
async def server(leader: FakeLeader) -> AsyncIterator[str]:
    async with served(FakeReader(), leader=leader, sights=SIGHTS) as url:
        yield url


async def post(
    url: str, body: Any, user: str = "admin", query: str = "", *, forwarded: bool = False
) -> tuple[int, Any]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {user}", **({FORWARDED: "b"} if forwarded else {})}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(f"{url}{PREFIX}/trials{query}", data=content) as answer,
    ):
        return answer.status, await answer.json()


def question(*documents: Any, **more: Any) -> dict[str, Any]:
    return {"documents": documents, "namespace": "ml", **more}


def nested(levels: int) -> dict[str, Any]:
    """A document of so many mappings inside one another."""
    found: Any = {}
    for _ in range(levels - 1):
        found = {"a": found}
    return {**CONFIG, **found}


def without_words(body: Any) -> str:
    """The answer without sentences that say "another"."""
    return json.dumps(body).replace("another", "")


async def test_an_object_is_told_where_it_would_be_and_who_would_go(golden: Any, server: str) -> None:
    status, body = await post(server, question(batch_job("a", 2, queue="team", gpu=8), CONFIG))

    assert status == 200
    (item,) = body["items"]
    assert (item["kind"], item["namespace"], item["name"], item["state"]) == ("job", "ml", "a", "preempts")
    assert (item["queue"], item["pods"], item["minimum"]) == ("team", 2, 2)
    assert item["asks"] == {"nvidia.com/gpu": "16", "pods": "2"}
    assert [(each["podSet"], each["count"], each["takes"]["nvidia.com/gpu"]) for each in item["places"]] == [
        ("main", 1, "8"),
        ("main", 1, "8"),
    ]
    assert item["nodeCount"] == 2
    (gpus,) = item["quota"]
    assert {
        name: gpus[name] for name in ("queue", "resource", "takes", "owned", "borrowed", "used")
    } == golden
    (victim,) = item["victims"]
    assert (victim["namespace"], victim["name"], victim["code"]) == ("vision", "secret", "Reclaimed")
    assert body["skipped"] == [{"apiVersion": "v1", "kind": "ConfigMap", "name": "c"}]


async def test_a_user_is_not_told_the_names_of_others(server: str) -> None:
    status, body = await post(server, question(batch_job("a", 2, queue="team", gpu=8)), "alice")

    assert status == 200
    (victim,) = body["items"][0]["victims"]
    assert (victim["kind"], victim["namespace"], victim["name"]) == (None, None, None)
    assert "secret" not in json.dumps(body)
    assert "vision" not in json.dumps(body)
    # Nor the queues of others, and what they use.
    assert (victim["queue"], victim["message"]) == (
        None,
        "reclaimed for job/ml/a: queue team uses 0 nvidia.com/gpu and deserves 16"
        "; it takes a part of what is freed, and the next that fit the rest",
    )
    assert "other" not in without_words(body)
    _, body = await post(server, question(batch_job("a", 2, queue="team", gpu=8)))
    (victim,) = body["items"][0]["victims"]
    assert (victim["queue"], "queue other uses 32 nvidia.com/gpu" in victim["message"]) == ("other", True)
    assert {"namedQueues", "above"}.isdisjoint(body)


async def test_one_that_waits_is_told_what_would_let_it_in(server: str) -> None:
    _, body = await post(server, question(batch_job("a", 4, queue="team", gpu=8)), "alice")

    (item,) = body["items"]
    assert (item["state"], item["reason"]["code"], item["position"]) == ("waits", "NeverFits", None)
    assert item["expected"] is None
    assert item["changes"]
    assert item["places"] == []
    assert "secret" not in json.dumps(body)


async def test_users_need_the_right_to_list_the_kind_in_the_namespace(server: str) -> None:
    status, body = await post(server, question(volcano_job("a", 1, queue="team", gpu=1)), "alice")
    assert (status, body["error"]) == (403, "alice may not list jobs in namespace ml.")
    status, body = await post(server, question(pod("a", queue="team", gpu=1), namespace="vision"), "alice")
    assert (status, body["error"]) == (403, "alice may not list pods in namespace vision.")


async def test_only_who_sees_everything_tries_as_another_user(server: str) -> None:
    asked = question(batch_job("a", 1, queue="team", gpu=1), user="bob")
    assert (await post(server, asked))[0] == 200
    status, body = await post(server, asked, "alice")
    assert (status, body["error"]) == (
        403,
        "alice may not list queues in the whole cluster: only who sees everything may try as another user.",
    )


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (b"{", 400, "the body cannot be read"),
        (b'{"documents": [1]}', 400, "the body cannot be read"),
        (b"[" * 5000, 400, "the body cannot be read"),
        (question(*[batch_job(f"a{number}", 1) for number in range(65)]), 400, "there are 65 documents"),
        (b" " * (LARGEST_TRIAL + 1), 400, "the body is too large"),
        (question(batch_job("a", 1), nested(101)), 400, "document 2 is nested too deep"),
        (
            {"quotaPatches": [{"queue": "team", "spec": nested(101)}]},
            400,
            "the spec of quotaPatches 1 is nested too deep",
        ),
        (question(batch_job("a", 1), namespace="A B"), 400, "namespace is 'A B'"),
        (question(batch_job("a", 1), queue="A B"), 400, "queue is 'A B'"),
        (question(batch_job("a", 1), queue="nowhere"), 404, "There is no queue nowhere."),
        (
            question(CONFIG),
            400,
            "None of the documents is of a kind that waits in a queue: found v1 ConfigMap",
        ),
        (question({"kind": "Job"}), 400, "Document 1: found apiVersion"),
        (question(), 400, "None of the documents is of a kind that waits in a queue: found nothing"),
    ],
    ids=lambda each: str(each)[:30],
)
async def test_a_wrong_question_is_told_in_one_line(server: str, body: Any, status: int, error: str) -> None:
    found, answer = await post(server, body)
    assert found == status
    assert answer["error"].startswith(error)
    assert "\n" not in answer["error"]


async def test_there_are_no_parameters_and_no_other_methods(server: str) -> None:
    status, body = await post(server, question(), query="?dryRun=All")
    assert (status, body["error"]) == (400, f"dryRun is not a parameter of {PREFIX}/trials.")
    async with aiohttp.ClientSession() as session, session.get(f"{server}{PREFIX}/trials") as answer:
        assert (answer.status, (await answer.json())["expected"]) == (405, "POST")


async def test_without_a_leader_that_is_told(server: str, leader: FakeLeader) -> None:
    leader.lost = True
    status, body = await post(server, question(batch_job("a", 1, queue="team", gpu=1)))
    assert (status, body["error"]) == (409, "This replica (b) does not lead; a does.")


async def test_other_quota_is_for_the_administrators_of_the_queue(golden: Any, server: str) -> None:
    asked = {"namespace": "ml", "quota": ["team.gpu=8"]}
    assert (await post(server, asked))[0] == 200
    status, body = await post(server, asked, "alice")
    assert status == 403
    assert body["error"] == golden


@pytest.fixture
async def of_a_tenant() -> AsyncIterator[str]:
    """alice administers the queues below tenant, where her Job waits; a Job that she may not see has all GPUs."""
    world = two_racks()
    admins = {
        "spec": {
            "parent": "root",
            "deserved": {"nvidia.com/gpu": "8"},
            "access": {"admins": [{"user": "alice"}]},
        }
    }
    below = {"spec": {"parent": "tenant"}}
    world.see(
        replace(facts.queue("tenant"), document=admins),
        replace(facts.queue("below", parent="tenant"), document=below),
    )
    world.store(stored(batch_job("secret", 4, queue="other", gpu=8), "low", namespace="vision"))
    world.settle()
    world.store(stored(batch_job("hidden", 1, queue="other", gpu=8), "hidden", namespace="vision"))
    world.store(stored(batch_job("hers", 1, queue="below", gpu=8), "hers"))
    world.settle()
    sights = {"alice": Sight(workloads={"job": {"ml"}}, queues=frozenset({"tenant", "below"}))}
    leader = FakeLeader(world)
    leader.learned = Learned(world.snapshot)
    async with served(FakeReader(), leader=leader, sights=sights) as url:
        yield url


async def test_a_tenants_administrator_tries_quota_and_is_told_nothing_of_others(of_a_tenant: str) -> None:
    status, body = await post(of_a_tenant, {"namespace": "ml", "quota": ["below.gpu=8"]}, "alice")

    assert status == 200
    comparison = body["comparison"]
    assert comparison["counts"] == {"stops": 1, "starts": 2}
    told = {(each["what"], each["kind"], each["name"]) for each in comparison["workloads"]}
    assert told == {("stops", None, None), ("starts", "job", "hers"), ("starts", None, None)}
    assert "hidden" not in json.dumps(body)
    assert "secret" not in json.dumps(body)
    assert {each["queue"] for each in comparison["workloads"]} == {"below", None}
    assert "other" not in without_words(body)
    # Not of the tenant itself, nor of others, whatever the request claims.
    status, body = await post(of_a_tenant, {"namespace": "ml", "quota": ["tenant.gpu=8"]}, "alice")
    assert (status, body["error"]) == (
        403,
        "access.admins of queue tenant lets alice change the queues below it, not tenant itself: it is changed by "
        "platform administrators (role muster-queue-admin).",
    )
    for forged in ({"quota": ["team.gpu=8"]}, {"quotaPatches": [{"queue": "team", "spec": {}}]}):
        status, body = await post(of_a_tenant, {"namespace": "ml", "administersAll": True, **forged}, "alice")
        # As if there were none.
        assert (status, body["error"], body["hint"]) == (404, "There is no queue team that you may see.", "")


async def test_writes_of_queues_are_tried_and_refused_as_they_would_be(of_a_tenant: str) -> None:
    def patch(queue: str, **spec: Any) -> dict[str, Any]:
        return {"quotaPatches": [{"queue": queue, "spec": spec}]}

    gpus = {"nvidia.com/gpu": "8"}
    status, body = await post(of_a_tenant, patch("below", deserved=gpus), "alice")
    assert (status, body["comparison"]["counts"]) == (200, {"stops": 1, "starts": 2})
    status, body = await post(of_a_tenant, patch("below", deserved={"nvidia.com/gpu": "9"}), "alice")
    assert (status, body["error"]) == (
        400,
        "Change of queue below: found deserved of 9 nvidia.com/gpu of the queues below tenant together, "
        "expected at most 8, the deserved of tenant.",
    )
    status, body = await post(of_a_tenant, patch("below", deserved=gpus, capability={"nvidia.com/gpu": "4"}))
    assert (status, body["error"]) == (
        400,
        "Change of queue below: spec.deserved[nvidia.com/gpu]: found 8, expected at most the capability of 4.",
    )
    status, body = await post(of_a_tenant, patch("below", parent="other"))
    assert (status, body["error"]) == (
        400,
        "A trial of queue below changes quota: found 'parent', expected budget, capability, deserved, flavors, "
        "guarantee, loans.",
    )


async def test_changes_that_are_given_together_are_judged_together_in_any_order() -> None:
    """The tenant has 8. One queue below it gets what another one gives, and is refused what nobody gives."""

    def fact(name: str, parent: str, gpus: int, **more: Any) -> QueueFact:
        spec = {"parent": parent, "deserved": {"nvidia.com/gpu": str(gpus)}, **more}
        limits = Limits(deserved={"nvidia.com/gpu": gpus * 1000})
        return replace(facts.queue(name, parent=parent, limits=limits), document={"spec": spec})

    world = two_racks()
    world.see(
        fact("tenant", "root", 8, access={"admins": [{"user": "alice"}]}),
        fact("below", "tenant", 4),
        fact("beside", "tenant", 4),
    )
    world.settle()
    sights = {"alice": Sight(workloads={"job": {"ml"}}, queues=frozenset({"tenant", "below", "beside"}))}

    async def tried(*quota: str) -> tuple[int, str]:
        async with served(FakeReader(), leader=FakeLeader(world), sights=sights) as url:
            status, body = await post(url, {"namespace": "ml", "quota": quota}, "alice")
        return status, body.get("error", "")

    assert await tried("beside.gpu=3", "below.gpu=5") == (200, "")
    assert await tried("below.gpu=5", "beside.gpu=3") == (200, "")
    for order in (("below.gpu=6", "beside.gpu=3"), ("beside.gpu=3", "below.gpu=6")):
        status, error = await tried(*order)
        assert (status, "found deserved of 9 nvidia.com/gpu of the queues below tenant" in error) == (
            400,
            True,
        )


async def test_queues_that_look_alike_are_named_to_those_who_see_them(of_a_tenant: str) -> None:
    for asked in ({"quota": ["belw.gpu=1"]}, {"quotaPatches": [{"queue": "belw", "spec": {}}]}):
        status, body = await post(of_a_tenant, asked, "alice")
        assert (status, body["error"]) == (404, "There is no queue belw that you may see.")
        assert body["hint"] == "Did you mean below?"
    assert (await post(of_a_tenant, {"quota": ["teem.gpu=1"]}))[1]["hint"] == "Did you mean team?"
    # alice may not see queue team.
    assert (await post(of_a_tenant, {"quota": ["teem.gpu=1"]}, "alice"))[1]["hint"] == ""
    asked = question(batch_job("a", 1, queue="teem", gpu=1), batch_job("b", 1, queue="belo", gpu=1))
    _, body = await post(of_a_tenant, asked)
    assert [each["nearestQueues"] for each in body["items"]] == [["team"], ["below"]]
    _, body = await post(of_a_tenant, asked, "alice")
    assert [each["nearestQueues"] for each in body["items"]] == [[], ["below"]]


@with_rows("changes", "error")
async def test_wrong_changes_are_told_in_one_line(server: str, changes: dict[str, Any], error: str) -> None:
    status, body = await post(server, {"namespace": "ml", **changes})
    assert status == 400
    assert body["error"].startswith(error)


class SlowLeader(FakeLeader):
    """A leader that answers nothing before it is released."""

    def __init__(self, world: WorldInMemory, release: asyncio.Event) -> None:
        super().__init__(world)
        self._release = release
        self.begun = 0

    async def ask(self, path: str, query: dict[str, str | None], **more: Any) -> bytes:
        self.begun += 1
        await self._release.wait()
        return await super().ask(path, query, **more)


async def test_of_one_user_few_trials_are_taken_at_a_time() -> None:
    release = asyncio.Event()
    leader = SlowLeader(two_racks(), release)

    async with served(FakeReader(), leader=leader) as url:
        asked = question(batch_job("a", 1, queue="team", gpu=1))
        first = [asyncio.create_task(post(url, asked, "bob")) for _ in range(OF_ONE)]
        other = asyncio.create_task(post(url, asked, "carol"))
        await eventually(lambda: leader.begun == OF_ONE + 1, "all of them to be asked")
        status, body = await post(url, asked, "bob")
        release.set()
        assert (status, body["error"][:14]) == (429, "From this user")
        assert [(await each)[0] for each in (*first, other)] == [200] * (OF_ONE + 1)
        assert (await post(url, asked, "bob"))[0] == 200


async def test_the_service_accounts_of_a_namespace_are_one_user() -> None:
    release = asyncio.Event()
    leader = SlowLeader(two_racks(), release)

    async with served(FakeReader(), leader=leader) as url:
        asked = question(batch_job("a", 1, queue="team", gpu=1))
        accounts = [f"system:serviceaccount:ml:sa-{number}" for number in range(OF_ONE + 1)]
        first = [asyncio.create_task(post(url, asked, each)) for each in accounts[:-1]]
        await eventually(lambda: leader.begun == OF_ONE, "all of them to be asked")
        status, body = await post(url, asked, accounts[-1])
        release.set()
        assert (status, body["error"][:14]) == (429, "From this user")
        for each in first:
            await each


async def test_trials_that_wait_for_the_leader_keep_nobody_from_other_answers() -> None:
    release = asyncio.Event()

    async with served(FakeReader(), leader=SlowLeader(two_racks(), release)) as url:
        asked = question(batch_job("a", 1, queue="team", gpu=1))
        many = [
            asyncio.create_task(post(url, asked, f"user-{number}"))
            for number in range(8)
            for _ in range(OF_ONE)
        ]
        async with aiohttp.ClientSession() as session:
            for _ in range(3):
                async with session.get(f"{url}{PREFIX}/queues") as answer:
                    assert answer.status == 200
        release.set()
        assert [(await each)[0] for each in many] == [200] * len(many)


async def test_another_replica_says_who_asks_and_leaves_out_what_they_may_not_see(of_a_tenant: str) -> None:
    asked = {"namespace": "ml", "quota": ["below.gpu=8"], "user": "alice"}
    status, body = await post(of_a_tenant, asked, forwarded=True)
    assert (status, "hidden" in json.dumps(body)) == (200, True)
    # An administrator of another queue: that is told in the answer, for the replica that asks.
    status, body = await post(of_a_tenant, {**asked, "quota": ["team.gpu=8"]}, forwarded=True)
    assert (status, body["status"], "does not administer" in body["failure"]) == (200, 403, True)


async def test_a_user_who_claims_to_be_another_replica_sees_no_more(of_a_tenant: str) -> None:
    asked = {"namespace": "ml", "quota": ["below.gpu=8"]}
    status, body = await post(of_a_tenant, asked, "alice", forwarded=True)
    assert (status, "hidden" in json.dumps(body)) == (200, False)
    for forged, refusal in (
        ({"user": "bob"}, 403),
        ({"quota": ["team.gpu=8"], "administersAll": True}, 404),
    ):
        assert (await post(of_a_tenant, {**asked, **forged}, "alice", forwarded=True))[0] == refusal


async def test_documents_may_be_nested_as_deep_as_is_told(server: str) -> None:
    job = batch_job("a", 1, queue="team", gpu=1)
    assert (await post(server, question(job, nested(100))))[0] == 200


async def test_a_client_that_leaves_amid_its_question_is_no_defect(
    server: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "admission.web.http")
    host, port = server.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = (
        f"POST {PREFIX}/trials HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin\r\nContent-Length: 5000\r\n"
    )
    writer.write(f"{head}Expect: 100-continue\r\n\r\n".encode())
    assert b" 100 " in await reader.readline()
    writer.write(b'{"documents":[')
    await writer.drain()
    writer.close()
    await eventually(lambda: bool(caplog.records), "the server to say so")
    told = [(each.levelname, each.message.partition(":")[0]) for each in caplog.records]
    assert told == [("DEBUG", f"the client of POST {PREFIX}/trials left")]

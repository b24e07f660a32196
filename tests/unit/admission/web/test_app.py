"""The read API: what it answers to whom, its limits and its errors."""

import asyncio
import json
from collections.abc import Mapping
from inspect import getmembers, iscoroutinefunction, signature
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from admission.web.access.limits import RequestLimits
from admission.web.access.rights import Rights
from admission.web.app import PREFIX
from admission.web.leader.forwarding import LeaderQuestions
from admission.web.reader import EVERYTHING, Sight
from admission.web.sql_reader import SqlReader
from queues.errors import DatabaseUnavailable
from queues.read_api import bodies
from queues.reason_codes import ADVICE, ReasonCode
from tests.fakes.fake_reader import FakeLeader, FakeReader, FakeRights, fake_api, served
from tests.tables import with_rows
from tests.unit.admission.web.conftest import SIGHTS, Get, asking


@pytest.mark.parametrize(
    ("fake", "real"), [(FakeReader, SqlReader), (FakeRights, Rights), (FakeLeader, LeaderQuestions)]
)
def test_what_stands_for_a_part_of_the_read_api_is_asked_as_that_part_is(fake: type, real: type) -> None:
    questions = [name for name, _ in getmembers(fake, iscoroutinefunction) if not name.startswith("_")]
    assert {"queues", "sight", "ask"} & set(questions)
    for name in questions:
        asked, expected = signature(getattr(fake, name)).parameters, signature(getattr(real, name)).parameters
        assert list(asked) == list(expected), name
        assert [each.kind for each in asked.values()] == [each.kind for each in expected.values()], name


def test_every_path_is_documented() -> None:
    page = Path("docs/reference/http.md").read_text(encoding="utf-8")
    routes = fake_api(FakeReader()).application().router.routes()
    paths = {route.resource.canonical for route in routes if route.resource is not None} - {
        PREFIX,
        "/metrics",
    }
    for path in paths:
        assert f"{path.removeprefix(PREFIX)}" in page, path


@with_rows("path", "names")
async def test_pages_make_up_the_whole(get: Get, path: str, names: list[Any]) -> None:
    _, whole = await get(path)
    found, place, path = [], "", path + ("&" if "?" in path else "?")
    while len(found) < len(names):
        _, page = await get(f"{path}limit=2&continue={place}")
        assert 0 < len(page["items"]) <= 2
        found, place = found + page["items"], page["continue"]
    assert (found, place, whole["continue"]) == (whole["items"], "", "")
    assert [one.get("name", one.get("user", one.get("version"))) for one in found] == names


async def test_nodes_are_told_to_those_who_may_list_nodes(get: Get) -> None:
    status, refused = await get("nodes", "alice")
    assert (status, refused["error"]) == (403, "alice may not list nodes.")
    assert refused["hint"].startswith("Ask a cluster administrator for that right"), "no namespace helps"
    status, wrong = await get("nodes?limit=many")
    assert (status, wrong["expected"]) == (400, "a whole number from 0 to 1000")


async def test_whose_seats_are_on_a_node_is_told_as_far_as_workloads_may_be_seen(
    get: Get,
) -> None:
    path = "nodes?workloads=true"

    _, body = await get(path)
    there = {node["name"]: node["workloads"] for node in body["items"]}
    assert [(one["namespace"], one["name"], one["seats"]) for one in there["gpu-1"]["items"]] == [
        ("ml", "bert", 1)
    ]
    assert (there["gpu-1"]["total"], there["gpu-1"]["hidden"]) == (1, 0)
    assert there["gpu-3"] == {"items": [], "total": 0, "hidden": 0}

    status, wrong = await get(path.replace("true", "yes"))
    assert (status, wrong["expected"]) == (400, "true or false")


async def test_decisions_are_told_as_far_as_their_workloads_may_be_seen(get: Get) -> None:
    path = "decisions"

    _, body = await get(path)
    assert [(one["name"], one["what"], one["code"]) for one in body["items"]] == [
        ("bert", "admit", ""),
        ("yolo", "evict", "Preempted"),
    ]
    _, after = await get(f"{path}?continue={body['continue']}")
    assert (after["items"], after["continue"]) == ([], body["continue"])
    _, of_alice = await get(path, "alice")
    assert [one["name"] for one in of_alice["items"]] == ["bert"]
    status, hidden = await get(f"{path}?namespace=vision", "alice")
    assert (status, hidden["hint"].partition(" asks")[0]) == (403, "-n NAMESPACE")
    assert (await get(f"{path}?queue=trian"))[0] == 404
    for wrong in ("since=yesterday", "continue=x", "limit=2000", "until=now"):
        assert (await get(f"{path}?{wrong}"))[0] == 400


async def test_what_administrators_can_do_is_told_to_them_alone(
    reader: FakeReader, get: Get, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def told(user: str, query: str = "") -> tuple[str, str]:
        _, [one] = await get(f"namespaces/ml/workloads/tune-3{query}", user)
        return one["reason"]["advice"], one["reason"]["forAdministrators"]

    advice = ADVICE[ReasonCode.QUEUE_LIMIT][:2]
    assert await told("admin") == advice
    assert await told("alice") == (advice[0], "")
    reader.administrators = ("alice",)
    assert await told("alice", "?kind=job") == advice
    monkeypatch.setitem(ADVICE, ReasonCode.QUEUE_LIMIT, ADVICE[ReasonCode.NO_FIT])  # type: ignore[arg-type]
    assert (await told("admin"))[1] == "add nodes"
    assert (await told("alice"))[1] == "", "nodes are the platform's"
    _, listed = await get("pending")
    assert {one["reason"]["forAdministrators"] for one in listed["items"] if one["reason"]} == {""}


async def test_queues_are_told_with_their_books(golden: Any, get: Get) -> None:
    """As JSON has them: names of fields are a promise to programs."""
    _, body = await get("queues")
    assert body["items"][1] == golden


async def test_pending_can_be_narrowed_to_a_queue_a_namespace_and_a_number(get: Get) -> None:
    _, all_of_them = await get("pending")
    _, of_ml = await get("pending?namespace=ml&limit=1")
    _, of_team_b = await get("pending?queue=team-b")

    assert [one["name"] for one in all_of_them["items"]] == ["tune-3", "llama-pretrain", "sweep"]
    assert ([one["name"] for one in of_ml["items"]], of_ml["total"], of_ml["totalEverywhere"]) == (
        ["tune-3"],
        2,
        3,
    )
    assert [one["name"] for one in of_team_b["items"]] == ["sweep"]
    _, of_ben = await get("pending?user=ben")
    _, of_admin = await get("pending?mine=true")
    assert [one["name"] for one in of_ben["items"]] == ["sweep"]
    assert of_admin["items"] == []


async def test_use_is_told_for_the_user_who_asks(get: Get) -> None:
    path = "usage?from=2026-11-01&by=queue,user&resource=nvidia.com/gpu"
    _, whole = await get(path)
    _, of_alice = await get(path, "alice")

    assert (whole["from"], whole["to"], whole["by"]) == (
        "2026-11-01T00:00:00Z",
        "2026-11-21T10:00:00Z",
        ["queue", "user"],
    )
    assert {each["queue"] for each in of_alice["items"]} == {"train"}


async def test_rights_to_name_users_are_asked_about_namespaces_of_the_past(
    get: Get, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    async def sight_in(_: Any, caller: Any, kinds: Any) -> Sight:
        asked.append((caller.name, tuple(kinds)))
        return SIGHTS["alice"]

    monkeypatch.setattr("tests.fakes.fake_reader.FakeRights.sight_in", sight_in)
    path = "usage?from=2026-11-01&by="
    for user, by in (("alice", "queue"), ("alice", "flavor,user"), ("jo", "workload"), ("admin", "user")):
        assert (await get(path + by, user))[0] == 200
    assert asked == [("alice", (("job", "ml"),)), ("jo", (("job", "ml"),))]


@with_rows("path", "status", "problem")
async def test_a_wrong_question_is_answered_with_what_was_expected(
    get: Get, path: str, status: int, problem: Mapping[str, str]
) -> None:
    assert await get(path) == (status, problem)


async def test_an_unknown_address_names_the_known_ones(get: Get) -> None:
    status, problem = await get("/apis/read.muster.dev/v2/queues")

    assert status == 404
    assert "queues" in problem["expected"]


@pytest.mark.parametrize("path", ["queues/team-a/versions", "queues/nowhere/versions"])
async def test_the_past_of_a_queue_is_for_those_who_may_get_it(get: Get, path: str) -> None:
    status, problem = await get(path, "jo")

    assert status == 403
    assert problem["error"] == f"jo may not get queue {path.split('/')[1]}."


@with_rows("path", "status", "error")
async def test_wrong_questions_about_the_past_are_answered_with_what_was_found(
    get: Get, path: str, status: int, error: str
) -> None:
    answer = await get(path)

    assert (answer[0], answer[1]["error"]) == (status, error)


async def test_nothing_can_be_changed_over_http(server: str) -> None:
    async with aiohttp.ClientSession() as session:
        for method in ("post", "put", "patch", "delete"):
            async with getattr(session, method)(f"{server}{PREFIX}/queues") as answer:
                assert answer.status == 405
                assert (await answer.json())["expected"] == "GET"


async def test_without_postgres_answers_say_so(get: Get, reader: FakeReader) -> None:
    reader.down = True

    status, problem = await get("queues")

    assert status == 503
    assert "Postgres cannot do this now: connection refused" in problem["error"]


async def test_a_question_is_asked_once_more_when_its_connection_was_lost(
    get: Get, reader: FakeReader
) -> None:
    whole = reader.queues
    asked = []

    async def lost_once(sight: Sight) -> bodies.QueueList:
        asked.append(sight)
        if len(asked) == 1:
            raise DatabaseUnavailable(reason="connection was closed in the middle of operation")
        return await whole(sight)

    reader.queues = lost_once  # type: ignore[method-assign]
    status, _ = await get("queues")
    assert (status, len(asked)) == (200, 2)


async def test_an_unforeseen_fault_is_told_without_its_details(get: Get, reader: FakeReader) -> None:
    async def broken(sight: Sight) -> bodies.QueueList:
        raise ValueError("postgresql://muster:hunter2@db")

    reader.queues = broken  # type: ignore[method-assign]
    status, problem = await get("queues")

    assert status == 500
    assert "hunter2" not in json.dumps(problem)


async def test_a_question_that_nobody_can_answer_names_the_leader(get: Get, leader: FakeLeader) -> None:
    leader.lost = True
    status, problem = await get("snapshot")

    assert status == 409
    assert problem["error"] == "This replica (b) does not lead; a does."


async def test_a_stranger_is_told_how_to_be_known(get: Get) -> None:
    for path in ("queues", "pending", "namespaces/ml/workloads/tune-3", "snapshot"):
        status, problem = await get(path, "nobody")

        assert status == 401
        assert problem["error"].startswith("Muster does not know who asks: the API server does not know")
        assert "kubectl muster" in problem["hint"]


async def test_what_there_is_anybody_may_know(get: Get) -> None:
    assert (await get(PREFIX, "nobody"))[0] == 200


async def test_alice_sees_her_namespace_and_not_bobs(get: Get) -> None:
    _, pending = await get("pending", "alice")
    _, queues = await get("queues", "alice")
    hers, _ = await get("namespaces/ml/workloads/tune-3", "alice")
    refused, problem = await get("namespaces/lab/workloads/sweep", "alice")
    of_bob, _ = await get("pending?namespace=lab", "alice")
    outlook, _ = await get("namespaces/lab/workloads/sweep/outlook", "alice")
    snapshot, whole = await get("snapshot", "alice")

    assert [one["name"] for one in pending["items"]] == ["tune-3", "llama-pretrain"]
    assert [queue["name"] for queue in queues["items"]] == ["team-a", "train"]
    assert (hers, refused, of_bob, outlook, snapshot) == (200, 403, 403, 403, 403)
    assert problem["error"] == "alice may not list jobs, podgroups or pods in namespace lab."
    assert "snapshot" in whole["error"]


async def test_names_of_others_are_not_told_in_messages(get: Get) -> None:
    _, (seen,) = await get("namespaces/ml/workloads/tune-3/outlook")
    _, (hidden,) = await get("namespaces/ml/workloads/tune-3/outlook", "jo")
    _, (story,) = await get("namespaces/ml/workloads/tune-3", "jo")

    assert "vcjob/ml/llama-pretrain" in seen["behind"]
    assert hidden["behind"] == "1 before it in queue train, right before it another workload"
    assert hidden["changes"][0]["message"] == "rack r12 when job/ml/bert ends, at most 40m"
    assert story["history"][-1]["beneficiary"] is None
    assert (
        story["history"][-1]["message"] == "its place is cleared for another workload, which waited too long"
    )


async def test_beyond_the_limits_requests_are_sent_away(reader: FakeReader) -> None:
    begun, going = asyncio.Event(), asyncio.Event()
    told = reader.queues

    async def slow(sight: Sight = EVERYTHING) -> bodies.QueueList:
        begun.set()
        await going.wait()
        return await told(sight)

    reader.queues = slow  # type: ignore[method-assign]
    async with served(reader, limits=RequestLimits(at_once=1, waiting=0)) as url:
        first = asyncio.create_task(asking(url)("queues", "ada"))
        await begun.wait()
        async with aiohttp.ClientSession() as session, session.get(f"{url}{PREFIX}/queues") as second:
            assert (second.status, second.headers["Retry-After"]) == (429, "1")
        going.set()
        assert (await first)[0] == 200


async def test_metrics_are_for_those_who_may_get_them(get: Get, server: str) -> None:
    async with aiohttp.ClientSession() as session, session.get(server + "/metrics") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert await answer.text() == "muster_leader 1.0\n"

    status, problem = await get("/metrics", "alice")
    assert (status, problem["error"]) == (403, "alice may not get the path /metrics.")


async def test_an_explanation_has_what_only_the_leader_knows(get: Get, leader: FakeLeader) -> None:
    _, (seen,) = await get("namespaces/ml/workloads/tune-3")
    _, (hidden,) = await get("namespaces/ml/workloads/tune-3", "jo")
    _, (ended,) = await get("namespaces/ml/workloads/old")
    _, (outlook,) = await get("namespaces/ml/workloads/tune-3/outlook")
    leader.lost = True
    _, (unknown,) = await get("namespaces/ml/workloads/tune-3")

    assert seen["outlook"] == outlook
    assert seen["outlookUnknown"] == ""
    assert hidden["outlook"]["behind"] == "1 before it in queue train, right before it another workload"
    assert (ended["outlook"], ended["outlookUnknown"]) == (None, "")
    assert unknown["outlook"] is None
    assert unknown["outlookUnknown"].startswith("This replica (b) does not lead")


async def test_an_outlook_of_nobody_is_empty_and_of_a_wrong_kind_an_error(get: Get) -> None:
    assert await get("namespaces/ml/workloads/nobody/outlook") == (200, [])

    status, problem = await get("namespaces/ml/workloads/tune-3/outlook?kind=car")
    assert (status, problem["error"]) == (400, "kind is 'car'.")

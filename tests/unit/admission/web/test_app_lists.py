"""Lists of workloads and users over HTTP: what may be asked, and what each user gets."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from admission.kube.access_reviews import Caller
from admission.web.reader import Sight, together
from tests.fakes.fake_reader import FakeReader, FakeRights, served
from tests.tables import with_rows

#: alice may see jobs of her namespace; jo those of the lab, once it is known which namespaces there are.
SIGHTS = {"alice": Sight(workloads={"job": {"ml"}, "vcjob": {"ml"}}, queues=frozenset({"train"}))}


@pytest.fixture
def reader() -> FakeReader:
    return FakeReader()


@pytest.fixture
async def server(reader: FakeReader) -> AsyncIterator[str]:
    async with served(reader, sights=SIGHTS) as url:
        yield url + "/apis/read.muster.dev/v1"


async def get(url: str, user: str = "admin") -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {user}"}
    async with aiohttp.ClientSession(headers=headers) as session, session.get(url) as answer:
        return answer.status, await answer.json()


def names(body: Any) -> list[str]:
    return [one["name"] for one in body["items"]]


async def test_live_workloads_are_listed_and_with_a_time_also_those_that_ended(server: str) -> None:
    _, live = await get(f"{server}/workloads")
    _, all_of_them = await get(f"{server}/workloads?since=2026-11-21T08:00:00Z")
    _, ended = await get(f"{server}/workloads?state=finished&since=2026-11-21T08:00:00Z")

    assert names(live) == ["sweep", "bert", "llama-pretrain", "tune-3"]
    assert names(all_of_them) == ["sweep", "bert", "llama-pretrain", "old", "tune-3"]
    assert (names(ended), ended["total"]) == (["old"], 1)
    assert ended["items"][0]["nodeCount"] == 1


async def test_a_list_is_narrowed_and_paged(server: str, reader: FakeReader) -> None:
    first = (await get(f"{server}/workloads?limit=2"))[1]
    second = (await get(f"{server}/workloads?limit=2&continue={first['continue']}"))[1]
    _, here = await get(f"{server}/workloads?namespace=lab&queue=team-b&user=ben&state=pending,admitted")
    _, counted = await get(f"{server}/workloads?limit=0")

    assert names(first) + names(second) == ["sweep", "bert", "llama-pretrain", "tune-3"]
    assert second["continue"] == ""
    assert (names(here), here["total"], here["totalEverywhere"]) == (["sweep"], 1, 1)
    assert (names(counted), counted["total"]) == ([], 4)


async def test_mine_is_what_the_user_who_asks_created(server: str, reader: FakeReader) -> None:
    _, mine = await get(f"{server}/workloads?mine=true", "ben")

    assert (names(mine), reader.asked.user) == (["sweep"], "ben")


async def test_of_others_only_what_may_be_seen_is_listed(server: str) -> None:
    _, seen = await get(f"{server}/workloads", "alice")
    status, refused = await get(f"{server}/workloads?namespace=lab", "alice")

    assert names(seen) == ["bert", "llama-pretrain", "tune-3"]
    assert (status, refused["error"]) == (
        403,
        "alice may not list jobs, podgroups or pods in namespace lab.",
    )


async def test_a_name_that_is_not_there_is_looked_for_in_all_namespaces_that_the_user_may_see(
    server: str, reader: FakeReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def sight(_: FakeRights, caller: Caller, namespace: str | None = None) -> Sight:
        seen = {"ml"} if namespace == "ml" else {"lab"}
        return Sight(workloads={"job": seen}, queues=frozenset())

    looked: list[Sight] = []
    explain = reader.explain

    async def noted(*, sight: Sight, **asked: Any) -> Any:
        looked.append(sight)
        return await explain(sight=sight, **asked)

    monkeypatch.setattr(FakeRights, "sight", sight)
    monkeypatch.setattr(reader, "explain", noted)

    status, _ = await get(f"{server}/namespaces/ml/workloads/nothing")
    found, _ = await get(f"{server}/namespaces/ml/workloads/tune-3")

    assert (status, found) == (404, 200)
    assert [each.workloads for each in looked] == [{"job": {"ml"}}, {"job": {"ml", "lab"}}, {"job": {"ml"}}]


async def test_users_are_told_by_pages_and_each_knows_its_own_line(server: str) -> None:
    _, everybody = await get(f"{server}/users?queue=train&limit=2")
    _, rest = await get(f"{server}/users?limit=2&continue={everybody['continue']}")
    _, of_alice = await get(f"{server}/users", "alice")

    assert [(one["user"], one["rank"]) for one in everybody["items"] + rest["items"]] == [
        ("ada@example.com", 1),
        ("admin", 2),
        ("", 3),
    ]
    assert (everybody["queue"], rest["continue"], of_alice["complete"]) == ("train", "", False)
    assert [one["user"] for one in of_alice["items"] if one["you"]] == ["alice"]


@with_rows("question", "error", "expected")
async def test_a_wrong_question_is_told_as_such(
    server: str, question: str, error: str, expected: str
) -> None:
    status, problem = await get(f"{server}/{question}")

    assert status == 400
    assert problem["error"].startswith(error)
    assert problem["expected"].startswith(expected)


def test_what_is_seen_in_two_ways_is_seen() -> None:
    one = Sight(workloads={"job": {"a"}, "pod": None}, queues=frozenset("q"))
    other = Sight(workloads={"job": frozenset("b"), "vcjob": frozenset("c"), "pod": frozenset()})

    both = together(one, other)

    assert both.workloads == {"job": {"a", "b"}, "pod": None, "vcjob": {"c"}}
    assert both.queues == {"q"}
    assert together(one, Sight(queues=frozenset())) == Sight(workloads=None, queues=frozenset("q"))

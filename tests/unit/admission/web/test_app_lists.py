"""Lists of workloads and users over HTTP: what may be asked, and what each user gets."""

from typing import Any

import pytest

from admission.kube.access_reviews import Caller
from admission.web.reader import Sight, together
from tests.fakes.fake_reader import FakeReader, FakeRights
from tests.tables import with_rows
from tests.unit.admission.web.conftest import Get


def names(body: Any) -> list[str]:
    return [one["name"] for one in body["items"]]


async def test_live_workloads_are_listed_and_with_a_time_also_those_that_ended(get: Get) -> None:
    _, live = await get("workloads")
    _, all_of_them = await get("workloads?since=2026-11-21T08:00:00Z")
    _, ended = await get("workloads?state=finished&since=2026-11-21T08:00:00Z")

    assert names(live) == ["sweep", "bert", "llama-pretrain", "tune-3"]
    assert names(all_of_them) == ["sweep", "bert", "llama-pretrain", "old", "tune-3"]
    assert (names(ended), ended["total"]) == (["old"], 1)
    assert ended["items"][0]["nodeCount"] == 1


async def test_a_list_is_narrowed_and_counted(get: Get) -> None:
    _, here = await get("workloads?namespace=lab&queue=team-b&user=ben&state=pending,admitted")
    _, counted = await get("workloads?limit=0")

    assert (names(here), here["total"], here["totalEverywhere"]) == (["sweep"], 1, 1)
    assert (names(counted), counted["total"]) == ([], 4)


async def test_mine_is_what_the_user_who_asks_created(get: Get, reader: FakeReader) -> None:
    _, mine = await get("workloads?mine=true", "ben")

    assert (names(mine), reader.asked.chosen.user) == (["sweep"], "ben")


async def test_of_others_only_what_may_be_seen_is_listed(get: Get) -> None:
    _, seen = await get("workloads", "alice")
    status, refused = await get("workloads?namespace=lab", "alice")

    assert names(seen) == ["bert", "llama-pretrain", "tune-3"]
    assert (status, refused["error"]) == (
        403,
        "alice may not list jobs, podgroups or pods in namespace lab.",
    )


async def test_a_name_that_is_not_there_is_looked_for_in_all_namespaces_that_the_user_may_see(
    get: Get, reader: FakeReader, monkeypatch: pytest.MonkeyPatch
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

    status, _ = await get("namespaces/ml/workloads/nothing")
    found, _ = await get("namespaces/ml/workloads/tune-3")

    assert (status, found) == (404, 200)
    assert [each.workloads for each in looked] == [{"job": {"ml"}}, {"job": {"ml", "lab"}}, {"job": {"ml"}}]


async def test_each_user_knows_the_own_line(get: Get) -> None:
    _, everybody = await get("users?queue=train")
    _, of_alice = await get("users", "alice")

    assert [one["rank"] for one in everybody["items"]] == [1, 2, 3]
    assert (everybody["queue"], of_alice["complete"]) == ("train", False)
    assert [one["user"] for one in of_alice["items"] if one["you"]] == ["alice"]


@with_rows("question", "error", "expected")
async def test_a_wrong_question_is_told_as_such(get: Get, question: str, error: str, expected: str) -> None:
    status, problem = await get(question)

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

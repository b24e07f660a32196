"""What a user may see, and how many questions to the API server it takes to find out."""

from typing import cast

import pytest

from admission.kube.access_reviews import AccessRequest, Caller
from admission.kube.client.client import Client
from admission.web.access.rights import Rights
from queues.sql.read.rows import KindIn

ALICE = Caller("alice")
#: Of fifteen kinds, each namespace has one or two.
KINDS = [*(KindIn("vcjob", f"team-{number}") for number in range(40)), KindIn("pod", "team-3")]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[AccessRequest]:
    """What the API server was asked. Alice may list what is in team-3, and get queue a."""
    questions: list[AccessRequest] = []

    async def may(_: object, caller: Caller, access: AccessRequest) -> bool:
        assert caller == ALICE
        questions.append(access)
        return access.namespace == "team-3" or access.name == "a"

    monkeypatch.setattr("admission.web.access.rights.may", may)
    return questions


async def kinds(limit: int) -> list[KindIn]:
    return KINDS[:limit]


async def queues(limit: int) -> list[str]:
    return ["root", "a", "b"][:limit]


def rights() -> Rights:
    return Rights(cast(Client, None), kinds=kinds, queues=queues)


async def test_only_kinds_that_a_namespace_has_are_asked_about(asked: list[AccessRequest]) -> None:
    sight = await rights().sight(ALICE)

    assert sight.shows("vcjob", "team-3")
    assert sight.shows("pod", "team-3")
    assert not sight.shows("vcjob", "team-4")
    # Nobody looked whether she may, since there are none.
    assert not sight.shows("job", "team-3")
    assert sight.queues == frozenset({"a"})
    assert sum(1 for each in asked if each.namespace) == len(KINDS)


async def test_every_kind_counts_in_a_namespace_that_is_named(asked: list[AccessRequest]) -> None:
    sight = await rights().sight(ALICE, "team-3")

    assert all(sight.shows(kind, "team-3") for kind in ("job", "vcjob", "pod", "podgroup"))
    assert not sight.shows("vcjob", "team-4")
    assert {each.namespace for each in asked} == {"", "team-3"}

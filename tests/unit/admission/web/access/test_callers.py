"""Whom the API server's proxy speaks for, and whose a bearer token is."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import msgspec
import pytest
from aiohttp import web
from multidict import CIMultiDict

from admission.kube.access_reviews import Caller, FrontProxy
from admission.kube.client.client import Client
from admission.web.access import callers as callers_module
from admission.web.access.callers import Callers, Unauthenticated
from admission.web.access.limits import TooBusy
from tests.waiting import eventually

PROXY = FrontProxy(
    authority="-----BEGIN CERTIFICATE-----",
    names=frozenset({"front-proxy-client"}),
    user_headers=("X-Remote-User",),
    group_headers=("X-Remote-Group",),
    uid_headers=("X-Remote-Uid",),
    extra_prefixes=("X-Remote-Extra-",),
)
HEADERS = CIMultiDict(
    [
        ("X-Remote-User", "alice"),
        ("x-remote-group", "team-a"),
        ("X-Remote-Group", "system:authenticated"),
        ("X-Remote-Uid", "7"),
        ("X-Remote-Extra-Authentication.kubernetes.io%2Fpod-name", "p-0"),
    ]
)


def test_the_proxy_tells_user_groups_and_what_else_is_known() -> None:
    assert PROXY.speaks_for("front-proxy-client", HEADERS) == Caller(
        "alice",
        ("team-a", "system:authenticated"),
        "7",
        (("authentication.kubernetes.io/pod-name", ("p-0",)),),
    )


def test_another_certificate_of_the_same_authority_speaks_for_nobody() -> None:
    assert PROXY.speaks_for("kubelet", HEADERS) is None
    assert PROXY.speaks_for("front-proxy-client", CIMultiDict()) is None


def test_an_api_server_that_proves_nothing_is_not_believed() -> None:
    assert replace(PROXY, authority="").speaks_for("front-proxy-client", HEADERS) is None


class TokenRequest:
    """A request without a client certificate."""

    def __init__(self, token: str) -> None:
        self.headers = {"Authorization": f"Bearer {token}"}

    def get_extra_info(self, name: str) -> None:
        """Nothing is known of its connection."""


class TokenReviews:
    """Knows the tokens of alice and bob; answers about others once it is told to."""

    def __init__(self) -> None:
        self.others = asyncio.Event()
        self.asked: list[str] = []
        self.under_way = self.most = 0

    async def create(self, path: str, body: dict[str, Any]) -> bytes:
        token = body["spec"]["token"]
        self.asked.append(token)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        known = token in ("alice", "bob")
        if not known:
            await self.others.wait()
        self.under_way -= 1
        return msgspec.json.encode({"status": {"authenticated": known, "user": {"username": token}}})


@pytest.fixture
def reviews() -> TokenReviews:
    return TokenReviews()


@pytest.fixture
def callers(reviews: TokenReviews) -> Callers:
    return Callers(cast(Client, reviews), FrontProxy())


async def ask(callers: Callers, token: str) -> str:
    return (await callers.caller(cast(web.Request, TokenRequest(token)))).name


@asynccontextmanager
async def flood(callers: Callers, reviews: TokenReviews, tokens: int) -> AsyncIterator[list[Any]]:
    """So many unknown tokens at once; what became of them, afterwards."""
    outcomes: list[Any] = []
    asking = [asyncio.create_task(ask(callers, f"made-up-{number}")) for number in range(tokens)]
    await eventually(lambda: sum(task.done() for task in asking) == tokens - 20, "all but those that wait")
    yield outcomes
    reviews.others.set()
    outcomes += await asyncio.gather(*asking, return_exceptions=True)


async def test_unknown_tokens_cost_few_reviews_and_a_known_caller_is_answered_meanwhile(
    callers: Callers, reviews: TokenReviews
) -> None:
    assert await ask(callers, "alice") == "alice"
    async with flood(callers, reviews, 500) as outcomes:
        assert await ask(callers, "alice") == "alice"
        assert len(reviews.asked) == 1 + 4
    assert sum(isinstance(each, TooBusy) for each in outcomes) == 480
    assert sum(isinstance(each, Unauthenticated) for each in outcomes) == 20
    assert (reviews.most, len(reviews.asked)) == (4, 1 + 20)


async def test_a_known_token_is_asked_about_again_amid_unknown_ones(
    callers: Callers, reviews: TokenReviews, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callers_module, "_KNOWN_SECONDS", 0.0)
    assert await ask(callers, "alice") == "alice"
    async with flood(callers, reviews, 500):
        assert await ask(callers, "alice") == "alice"
    assert reviews.asked.count("alice") == 2


async def test_refused_tokens_push_no_known_one_out(
    callers: Callers, reviews: TokenReviews, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callers_module, "_MOST_TOKENS", 2)
    reviews.others.set()
    assert await ask(callers, "alice") == "alice"
    for number in range(9):
        with pytest.raises(Unauthenticated):
            await ask(callers, f"made-up-{number}")
    with pytest.raises(Unauthenticated):
        await ask(callers, "made-up-8")
    assert await ask(callers, "alice") == "alice"
    assert (reviews.asked.count("alice"), reviews.asked.count("made-up-8")) == (1, 1)

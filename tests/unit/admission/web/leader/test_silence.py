"""Questions without an answer while the leader is silent."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from admission.cli.command_line import finish
from admission.cli.kubectl_muster import kubectl_muster
from admission.settings import Address
from admission.web.http import errors_as_json, serving
from admission.web.leader.channel import ChannelBroken, why_lost
from admission.web.leader.silence import telling_silence
from admission.web.reader import NotLeading, UnknownName
from queues.errors import DatabaseUnavailable
from queues.sql.leadership import Heartbeat

NOW = 1_795_255_200.0


def silent_for(seconds: float) -> Callable[[], Awaitable[Heartbeat | None]]:
    async def heartbeat() -> Heartbeat | None:
        return Heartbeat(holder="muster-0", term=1, age=seconds, behind="", address="")

    return heartbeat


async def lost() -> Heartbeat | None:
    raise DatabaseUnavailable(reason="gone")


async def unknown(request: web.Request) -> web.Response:
    raise UnknownName(what="workload", name="small", place=" in namespace vision", near=("smell",))


async def unanswered(request: web.Request) -> web.Response:
    raise ChannelBroken(reason=why_lost(TimeoutError()))


async def elsewhere(request: web.Request) -> web.Response:
    raise NotLeading(identity="muster-1", leader="muster-0")


def application(heartbeat: Any) -> web.Application:
    app = web.Application(middlewares=[errors_as_json(""), telling_silence(heartbeat, lambda: NOW)])
    app.router.add_get("/apis/read.muster.dev/v1/namespaces/vision/workloads/small", unknown)
    app.router.add_get("/trials", unanswered)
    app.router.add_get("/nodes", elsewhere)
    return app


async def asked(heartbeat: Any, path: str) -> tuple[int, dict[str, Any]]:
    async with (
        serving(application(heartbeat), Address("127.0.0.1", 0)) as port,
        aiohttp.ClientSession() as http,
        http.get(f"http://127.0.0.1:{port}{path}") as answer,
    ):
        return answer.status, await answer.json()


async def test_a_leader_that_does_not_answer_is_told_with_how_long_it_is_silent() -> None:
    status, body = await asked(silent_for(134), "/trials")
    assert status == 503
    assert body["error"] == (
        "No leader answers: muster-0 led last, and has not told of the cluster for 2m14s."
    )
    for heartbeat in (silent_for(2), lost):
        status, body = await asked(heartbeat, "/trials")
        assert status == 503
        assert "nothing came within 12 seconds" in body["error"]
        assert body["hint"].startswith("Ask again in a few seconds")


async def test_a_leader_that_is_elsewhere_is_named_as_long_as_it_is_not_silent() -> None:
    status, body = await asked(silent_for(2), "/nodes")
    assert (status, body["error"]) == (409, "This replica (muster-1) does not lead; muster-0 does.")
    status, body = await asked(silent_for(134), "/nodes")
    assert status == 503
    assert body["error"].startswith("No leader answers: muster-0 led last")


@pytest.mark.parametrize(("heartbeat", "code"), [(silent_for(134), 3), (silent_for(2), 1), (lost, 1)])
async def test_a_workload_that_may_be_too_new_to_be_known_is_told_as_that(
    heartbeat: Any, code: int, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(application(heartbeat), Address("127.0.0.1", 0)) as port:
        monkeypatch.setenv("MUSTER_SERVER", f"http://127.0.0.1:{port}")
        words = ["explain", "small", "-n", "vision"]
        assert await asyncio.to_thread(finish, kubectl_muster, "kubectl muster", words) == code
    told = " ".join(capfd.readouterr().err.split())
    if code == 3:
        assert "no workload small in namespace vision, as of 2m14s ago; what was created since" in told
        assert "muster-0 led last, and has not told of the cluster for 2m14s. Did you mean smell?" in told
    else:
        assert told == "Error: There is no workload small in namespace vision. Did you mean smell?"

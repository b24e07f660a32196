"""Health and metrics: for the kubelet and Prometheus, in plain HTTP."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from admission.settings import Address
from admission.web.health import HealthApi, kept_text
from admission.web.http import serving
from admission.web.reader import Check
from deploy.local.processes import free_port
from tests.waiting import LIMIT


async def one_metric() -> bytes:
    return b"muster_leader 1.0\n"


@asynccontextmanager
async def health(
    checks: Mapping[str, Check],
    metrics: Callable[[], Awaitable[bytes]] | None = one_metric,
    most: int | None = None,
) -> AsyncIterator[str]:
    application = HealthApi(ready=checks, metrics=metrics).application()
    async with serving(application, Address("127.0.0.1", 0), most=most) as port:
        yield f"http://127.0.0.1:{port}"


async def test_every_interface_is_those_of_both_families() -> None:
    """As pods of a cluster with IPv6 only need it."""
    application = HealthApi(ready={}, metrics=None).application()
    async with serving(application, Address.parse(f":{free_port()}")) as port:
        for host in ("127.0.0.1", "[::1]"):
            assert (await get(f"http://{host}:{port}/livez"))[0] == 200
    async with serving(application, Address.parse("[::1]:0")) as port:
        assert (await get(f"http://[::1]:{port}/livez"))[0] == 200


async def get(url: str) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.json()


async def test_readiness_follows_its_checks_and_life_does_not() -> None:
    problem: list[str | None] = ["the watch of pods is interrupted, 50s behind"]

    async def watches() -> str | None:
        return problem[0]

    async with health({"watches": watches}) as url:
        not_ready, checks = await get(f"{url}/readyz")
        alive, _ = await get(f"{url}/livez")
        as_ever, _ = await get(f"{url}/healthz")
        problem[0] = None
        ready, _ = await get(f"{url}/readyz")

    assert (not_ready, alive, as_ever, ready) == (503, 200, 200, 200)
    assert checks["checks"] == [
        {"name": "watches", "ok": False, "message": "the watch of pods is interrupted, 50s behind"}
    ]


async def test_a_check_that_breaks_or_hangs_fails_instead_of_breaking_the_answer(
    golden: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def breaks() -> str | None:
        raise RuntimeError("no lease")

    async def hangs() -> str | None:
        await asyncio.Event().wait()
        return None

    monkeypatch.setattr("admission.web.health._CHECK_SECONDS", 0.01)
    async with health({"breaks": breaks, "hangs": hangs}) as url:
        status, body = await get(f"{url}/readyz")

    assert status == 503
    assert [check["message"] for check in body["checks"]] == golden


async def test_metrics_are_served_as_prometheus_text_unless_they_are_protected() -> None:
    async with health({}) as url, aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert await answer.text() == "muster_leader 1.0\n"
    async with health({}, metrics=None) as url:
        status, problem = await get(f"{url}/metrics")
        assert (status, problem["error"]) == (403, "Metrics are not open here (metricsAccess).")


async def test_the_text_of_the_metrics_is_written_once_a_second_however_often_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, written = [0.0], [0]

    async def write() -> bytes:
        written[0] += 1
        await asyncio.sleep(0)
        return b"%d" % written[0]

    monkeypatch.setattr("admission.web.access.answer_cache.monotonic", lambda: clock[0])
    text = kept_text(write)
    assert await asyncio.gather(*(text() for _ in range(100))) == [b"1"] * 100
    clock[0] = 1.0
    assert [await text(), await text()] == [b"2", b"2"]


async def test_connections_that_ask_nothing_keep_no_probe_out() -> None:
    """The oldest makes room for the next one."""
    async with health({}, most=4) as url, aiohttp.ClientSession() as session:
        port = int(url.rpartition(":")[2])
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        async with session.get(f"{url}/livez") as answer:
            assert answer.status == 200
        for reader, _ in idle[:16]:
            assert await asyncio.wait_for(reader.read(), LIMIT) == b""
        for _, writer in idle:
            writer.close()


@pytest.mark.parametrize("most", [None, 4])
@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (b"GET /%s HTTP/1.1\r\nHost: h\r\n\r\n" % (9000 * b"a"), "A line of the request is too long."),
        (b"GET / HTTP/1.1\r\nX: %s\r\n\r\n" % (9000 * b"a"), "A line of the request is too long."),
        (b"GET / HTTP/1.1\r\nHost h\r\n\r\n", "The request cannot be read."),
        (b"\x16\x03\x01\r\n\r\n", "The request cannot be read."),
    ],
    ids=["path", "header", "no header", "no HTTP"],
)
async def test_what_cannot_be_read_is_answered_as_json_and_not_logged(
    asked: bytes, error: str, most: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with health({}, most=most) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(asked)
        head, _, body = (await asyncio.wait_for(reader.read(), LIMIT)).partition(b"\r\n\r\n")
        writer.close()
    assert head.split(b" ")[1] == b"400"
    assert b"application/json" in head
    answer = json.loads(body)
    assert answer["error"] == error
    assert answer["expected"]
    assert not [each for each in caplog.records if each.levelno > logging.DEBUG]

"""The HTTP server: health, metrics, the read API and its errors."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import pytest

from admission.settings import Address
from admission.web import bodies
from admission.web.app import serving
from admission.web.reader import Check
from tests.fakes.fake_reader import QUEUES, FakeReader, fake_app, served


@pytest.fixture
def reader() -> FakeReader:
    return FakeReader()


@pytest.fixture
async def server(reader: FakeReader) -> AsyncIterator[str]:
    async with served(reader) as url:
        yield url


async def get(url: str, path: str) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session, session.get(url + path) as answer:
        assert answer.content_type == "application/json"
        return answer.status, await answer.json()


async def test_queues_are_told_with_their_books(server: str) -> None:
    status, body = await get(server, "/api/v1/queues")

    assert status == 200
    assert body["now"] == "2026-11-21T10:00:00Z"
    assert [queue["name"] for queue in body["items"]] == [queue.name for queue in QUEUES]
    assert body["items"][1]["changedBy"] == "ada@example.com"
    assert body["items"][1]["accounts"][0] == {
        "flavor": "",
        "resource": "nvidia.com/gpu",
        "used": "32",
        "counted": "32",
        "guarantee": "0",
        "deserved": "24",
        "capability": "32",
        "share": 1.3333,
        "pastUse": None,
        "shareWithPast": None,
    }


async def test_pending_can_be_narrowed_to_a_queue_a_namespace_and_a_number(server: str) -> None:
    _, all_of_them = await get(server, "/api/v1/pending")
    _, of_ml = await get(server, "/api/v1/pending?namespace=ml&limit=1")
    _, of_team_b = await get(server, "/api/v1/pending?queue=team-b")

    assert [one["name"] for one in all_of_them["items"]] == ["tune-3", "llama-pretrain", "sweep"]
    assert ([one["name"] for one in of_ml["items"]], of_ml["total"], of_ml["totalEverywhere"]) == (
        ["tune-3"],
        2,
        3,
    )
    assert [one["name"] for one in of_team_b["items"]] == ["sweep"]


async def test_an_explanation_carries_the_reason_with_its_numbers(server: str) -> None:
    status, (story,) = await get(server, "/api/v1/workloads/ml/tune-3")

    assert status == 200
    assert story["reason"]["code"] == "QueueLimit"
    assert story["reason"]["facts"]["limit"] == "32"
    assert [queue["name"] for queue in story["path"]] == ["train", "team-a", "root"]


@pytest.mark.parametrize(
    ("path", "status", "problem"),
    [
        (
            "/api/v1/workloads/ml/tune-4",
            404,
            {
                "error": "There is no workload tune-4 in namespace ml.",
                "expected": "",
                "hint": "Did you mean tune-3?",
            },
        ),
        (
            "/api/v1/pending?queue=trian",
            404,
            {"error": "There is no queue trian.", "expected": "", "hint": "Did you mean train?"},
        ),
        (
            "/api/v1/pending?limit=many",
            400,
            {"error": "limit is 'many'.", "expected": "a whole number from 0 to 1000000", "hint": ""},
        ),
        (
            "/api/v1/pending?que=train",
            400,
            {
                "error": "que is not a parameter of /api/v1/pending.",
                "expected": "queue, namespace, limit",
                "hint": "",
            },
        ),
        (
            "/api/v1/workloads/ml/tune-3?kind=deployment",
            400,
            {"error": "kind is 'deployment'.", "expected": "one of vcjob, job, podgroup, pod", "hint": ""},
        ),
    ],
)
async def test_a_wrong_question_is_answered_with_what_was_expected(
    server: str, path: str, status: int, problem: Mapping[str, str]
) -> None:
    assert await get(server, path) == (status, problem)


async def test_an_unknown_address_names_the_known_ones(server: str) -> None:
    status, problem = await get(server, "/api/v2/queues")

    assert status == 404
    assert "/api/v1/queues" in problem["expected"]


async def test_nothing_can_be_changed_over_http(server: str) -> None:
    async with aiohttp.ClientSession() as session:
        for method in ("post", "put", "patch", "delete"):
            async with getattr(session, method)(server + "/api/v1/queues") as answer:
                assert answer.status == 405
                assert (await answer.json())["expected"] == "GET"


async def test_without_postgres_answers_say_so_and_readiness_fails(server: str, reader: FakeReader) -> None:
    assert (await get(server, "/readyz"))[0] == 200
    reader.down = True

    status, problem = await get(server, "/api/v1/queues")
    not_ready, checks = await get(server, "/readyz")
    alive, _ = await get(server, "/healthz")

    assert status == 503
    assert "Postgres cannot do this now: connection refused" in problem["error"]
    assert not_ready == 503
    assert checks["checks"] == [{"name": "postgres", "ok": False, "message": "Postgres cannot be reached"}]
    assert alive == 200


async def test_a_check_that_breaks_or_hangs_fails_instead_of_breaking_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def breaks() -> str | None:
        raise RuntimeError("no lease")

    async def hangs() -> str | None:
        await asyncio.Event().wait()
        return None

    monkeypatch.setattr("admission.web.app._CHECK_SECONDS", 0.01)
    checks: dict[str, Check] = {"breaks": breaks, "hangs": hangs}
    async with serving(fake_app(FakeReader(), checks), Address("127.0.0.1", 0)) as port:
        status, body = await get(f"http://127.0.0.1:{port}", "/readyz")

    assert status == 503
    assert [check["message"] for check in body["checks"]] == [
        "RuntimeError: no lease",
        "no answer within 0.01 seconds",
    ]


async def test_an_unforeseen_fault_is_told_without_its_details(server: str, reader: FakeReader) -> None:
    async def broken() -> bodies.QueueList:
        raise ValueError("postgresql://muster:hunter2@db")

    reader.queues = broken  # type: ignore[method-assign]
    status, problem = await get(server, "/api/v1/queues")

    assert status == 500
    assert "hunter2" not in json.dumps(problem)


async def test_only_the_leader_gives_snapshots(server: str) -> None:
    status, problem = await get(server, "/api/v1/snapshot")

    assert status == 409
    assert problem["error"] == "This replica (b) does not lead; a does."


async def test_metrics_are_served_as_prometheus_text(server: str) -> None:
    async with aiohttp.ClientSession() as session, session.get(server + "/metrics") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert await answer.text() == "muster_leader 1.0\n"


async def test_an_outlook_tells_what_would_let_a_workload_in(server: str) -> None:
    status, (outlook,) = await get(server, "/api/v1/workloads/ml/tune-3/outlook?kind=job")

    assert status == 200
    assert (outlook["position"], outlook["queueLength"]) == (2, 2)
    assert [change["kind"] for change in outlook["changes"]] == ["end", "capability"]


async def test_an_outlook_of_nobody_is_empty_and_of_a_wrong_kind_an_error(server: str) -> None:
    assert await get(server, "/api/v1/workloads/ml/nobody/outlook") == (200, [])

    status, problem = await get(server, "/api/v1/workloads/ml/tune-3/outlook?kind=car")
    assert (status, problem["error"]) == (400, "kind is 'car'.")

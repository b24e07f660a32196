"""What a shell offers after ``kubectl muster``."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from admission.cli.completion import candidates, main
from tests.fakes.fake_reader import FakeReader, served


@pytest.fixture(autouse=True)
async def _server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    async with served(FakeReader()) as url:
        monkeypatch.setenv("MUSTER_SERVER", url)
        yield


async def offered(*words: str) -> list[str]:
    return [value for value, _ in await asyncio.to_thread(candidates, words)]


async def test_subcommands_come_first() -> None:
    assert await offered("") == [
        *("cancel", "check", "drain", "events", "explain", "hold", "jobs", "logs", "nodes"),
        *("page", "pending", "queue", "queues", "quota", "reservations", "reserve", "resume"),
        *("run", "suspend", "try", "undrain", "unhold", "usage", "version", "who"),
    ]
    assert await offered("q") == ["queue", "queues", "quota"]
    assert await offered("queue", "re") == ["resume"]


async def test_flags_and_their_choices(golden: Any) -> None:
    assert "--all-namespaces" in await offered("pending", "--a")
    assert await offered("queues", "-o", "") == golden


async def test_names_of_queues_workloads_and_namespaces_come_from_muster() -> None:
    assert await offered("queues", "t") == ["team-a", "team-b", "train"]
    assert await offered("reserve", "t") == ["team-a", "team-b", "train"]
    assert await offered("queue", "close", "t") == ["team-a", "team-b", "train"]
    live = ["job/tune-3", "vcjob/bert", "vcjob/llama-pretrain"]
    assert await offered("quota", "lend", "team-a", "t") == ["team-a", "team-b", "train"]
    assert await offered("pending", "-q", "lo") == ["lost"]
    assert await offered("pending", "-n", "") == ["lab", "ml"]
    for verb in ("explain", "logs", "cancel", "suspend", "resume", "hold"):
        assert await offered(verb, "-n", "ml", "") == live
    assert await offered("jobs", "--user", "a") == ["ada@example.com", "admin"]
    assert await offered("jobs", "--state", "") == ["ended", "running", "suspended", "waiting"]


async def test_a_shell_gets_no_error_when_muster_is_away() -> None:
    assert await offered("--server", "127.0.0.1:1", "queues", "") == []
    assert await offered("--server=127.0.0.1:1", "queues", "") == []


async def test_the_script_speaks_kubectls_protocol(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["kubectl_complete-muster", "queues"])
    main()

    assert capsys.readouterr().out == "queues\tThe tree of queues: use, limits, waiting workloads.\n:4\n"

"""Budgets in tables: below the limits of queues, below the use of this month, and on the page."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from msgspec import structs

from admission.cli.access.requests import Route
from admission.cli.page.views import Views
from queues.read_api import bodies
from tests.fakes.fake_reader import GPU, QUEUES, TEAM_A, TRAIN, FakeReader, served
from tests.fakes.plugin import Asking, Plugin

#: A queue with a budget of GPUs and processors, and one whose use takes too long to add up.
BUDGETS = {
    TEAM_A.name: ("hold", (GPU, "1000", "820.5", 82), ("cpu", "5000", "12", 0)),
    TRAIN.name: ("report", (GPU, "0.002", None, None)),
}


def budget(when_spent: str, *lines: tuple[str, str, str | None, int | None]) -> bodies.BudgetBody:
    resources = [bodies.BudgetLineBody(resource=r, hours=h, used=u, percent=p) for r, h, u, p in lines]
    return bodies.BudgetBody(
        when_spent=when_spent,
        begins="2026-11-01T00:00:00Z",
        ends="2026-12-01T00:00:00Z",
        resources=tuple(resources),
    )


@pytest.fixture
def reader() -> FakeReader:
    reader = FakeReader()
    reader.tree = tuple(
        structs.replace(queue, budget=budget(*BUDGETS[queue.name])) if queue.name in BUDGETS else queue
        for queue in QUEUES
    )
    return reader


@pytest.fixture
async def ask(plugin: Plugin, reader: FakeReader) -> AsyncIterator[Asking]:
    now = datetime(2026, 11, 21, 10, tzinfo=UTC)
    plugin.monkeypatch.setattr("admission.cli.plugin.usage.time.time", now.timestamp)
    async with plugin.served(reader) as ask:
        yield ask


HEAD = ["QUEUE", "BUDGET-OF", "HOURS", "USED", "PERCENT", "UNTIL", "WHEN-SPENT"]
OF_TEAM = ["team-a", "gpu", "1000", "820.5", "82", "2026-12-01T00:00:00Z", "hold"]
OF_TRAIN = ["train", "gpu", "0.002", "-", "-", "2026-12-01T00:00:00Z", "report"]


async def test_budgets_are_listed_below_the_limits(ask: Asking) -> None:
    code, out, _ = await ask("quota", "show", "team-a")
    assert code == 0
    of_cpu = ["team-a", "cpu", "5000", "12", "0", "2026-12-01T00:00:00Z", "hold"]
    assert [line.split() for line in out.split("\n\n")[1].splitlines()] == [HEAD, OF_TEAM, of_cpu, OF_TRAIN]
    assert "BUDGET-OF" not in (await ask("quota", "show", "team-b"))[1]


async def test_budgets_are_listed_below_use_in_this_month_and_no_other(ask: Asking) -> None:
    code, out, _ = await ask("usage")
    assert code == 0
    assert [line.split() for line in out.split("\n\n")[2].splitlines()] == [HEAD, OF_TEAM, OF_TRAIN]
    for more in (["--month", "last"], ["--from", "today"], ["-o", "csv"], ["-q", "team-b"]):
        assert "BUDGET-OF" not in (await ask("usage", *more)).out


async def test_the_page_of_a_queue_has_its_budget(reader: FakeReader) -> None:
    async with served(reader) as url:
        views = Views(route=Route(server=url, kubeconfig="/nowhere"))
        pages = {
            name: str((await asyncio.to_thread(views.show, ("queues", name), {})).main)
            for name in ("team-a", "train", "team-b")
        }
    assert ("Hours of this month" in pages["team-b"], "820.5" in pages["team-a"]) == (False, True)
    assert "0.002" in pages["train"]

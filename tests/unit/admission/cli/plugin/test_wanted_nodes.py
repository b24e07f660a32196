"""``kubectl muster nodes --wanted``: what is asked, and what is said where nothing is missing."""

import json
from collections.abc import AsyncIterator

import pytest

from admission.web.reader import Sight
from tests.fakes.fake_reader import FakeReader
from tests.fakes.plugin import Asking, Plugin

#: What waits for nodes is a Volcano Job.
SIGHTS = {"jo": Sight(workloads={"job": {"ml"}}, queues=frozenset())}


@pytest.fixture
async def ask(plugin: Plugin) -> AsyncIterator[Asking]:
    # Neither nodes nor anything else is asked of the API server.
    async with plugin.served(FakeReader(), sights=SIGHTS) as ask:
        yield ask


async def test_gangs_that_wait_for_nodes_are_summed_up(ask: Asking) -> None:
    code, out, err = await ask("nodes --wanted -o json")
    assert (code, err) == (0, "")
    [line] = json.loads(out)["items"]
    assert (line["queue"], line["gangs"], line["waitingSince"]) == ("train", 1, "2026-11-21T06:40:00Z")
    _, out, _ = await ask("nodes --wanted")
    assert out.splitlines()[0].startswith("QUEUE")
    assert (await ask("nodes --wanted -o name"))[1] == "queue/train\n"


async def test_more_than_is_looked_at_is_told(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admission.cli.plugin.wanted_nodes.MOST_LOOKED_AT", 2)
    _, out, err = await ask("nodes --wanted --no-headers")
    assert len(out.splitlines()) == 1
    assert err == "Only the first 2 waiting workloads were looked at; 1 more wait.\n"


async def test_only_what_the_user_may_see_counts(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_TOKEN", "jo")
    code, out, err = await ask("nodes --wanted")
    assert (code, out) == (0, "")
    assert err.startswith("No gang that you may see waits for nodes only.")
    assert json.loads((await ask("nodes --wanted -o json"))[1]) == {"items": []}


@pytest.mark.parametrize("words", ["node-1", "-l a=b", "--rack r1", "--level x", "--no-racks", "--faulty"])
async def test_other_choices_of_nodes_are_refused(ask: Asking, words: str) -> None:
    code, out, err = await ask(f"nodes --wanted {words}")
    assert (code, out) == (2, "")
    assert "--wanted is about nodes that are not there" in err

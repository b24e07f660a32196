"""A plug-in that fails costs no term and no other queue; whoever leads next decides without it, until it is another."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest_asyncio

from admission.facts.cluster import QueueFact
from admission.facts.workloads import WorkloadFact
from admission.reconcile.world_status import QueueStatuses
from admission.replay import json_form
from admission.replay.snapshot_file import load, replayed_plan, save
from queues import kind_names
from queues.quota.queue import ROOT
from queues.sql.database import Database
from queues.workload import QueueName, WorkloadKey
from tests.builders.cycles import Leaders
from tests.builders.facts import job, node, queue
from tests.builders.plugin_policies import NEVER, installed

ORDER = """
import numpy

from queues.plugins.interface import OrderPolicy


class Tried(OrderPolicy):
    name = "tried"
    terms = None

    def urgency(self, workload):
        {answer}
"""
RAISES = 'raise ValueError("no such thing")'
CORRECTED = "return -workload.created"


@contextmanager
def tried(folder: Path, answer: str) -> Iterator[None]:
    """The plug-in ``tried`` answers so."""
    here = folder / sha256(answer.encode()).hexdigest()[:8]
    if not here.exists():
        here.mkdir()
    text = {"tried_order.py": ORDER.format(answer=answer)}
    with installed(here, "tried_order", text, tried="tried_order:Tried"):
        yield


def served(**more: Any) -> QueueFact:
    return queue("team", parent=ROOT, order="tried", **more)


def work(name: str, queue: str) -> WorkloadFact:
    key = WorkloadKey(kind_names.JOB, name)
    return replace(job(1), key=key, name=name, queue=QueueName(queue), generation=name)


CLUSTER = (
    *(node("n1"), queue("root"), queue("other", parent=ROOT)),
    *(work("ours", "team"), work("theirs", "other")),
)


@pytest_asyncio.fixture
async def leaders(muster: Database) -> AsyncIterator[Leaders]:
    found = Leaders(muster, CLUSTER)
    yield found
    found.close()


async def test_others_are_served_in_the_same_turn_and_every_later_leader_decides_the_same(
    leaders: Leaders, tmp_path: Path
) -> None:
    with tried(tmp_path, RAISES):
        for _ in range(2):
            await leaders.next_one(served())
            await leaders.turn()
            assert leaders.admitted() == {"theirs"}
            assert "it raised ValueError: no such thing" in leaders.message("ours")
        assert leaders.cycle._decider.failures == 0, "the last one knew it from the database"
        last = leaders.cycle.last
        assert last is not None
        assert replayed_plan(load(save(last.snapshot, last.plan))) == json_form.written(last.plan)
        told = {each.ref.name: each for each in QueueStatuses(leaders.cycle.world).changed()}
        conditions = {each.type: each for each in told["team"].conditions}
        assert conditions["PluginsUsable"].status == "False"
        assert "muster plugin retry team" in conditions["PluginsUsable"].message


async def test_a_plug_in_that_never_comes_back_is_ended_and_named_in_the_same_term(
    leaders: Leaders, tmp_path: Path
) -> None:
    with tried(tmp_path, NEVER):
        await leaders.next_one(served(), limit=15.0)
        await leaders.turn()
        assert leaders.admitted() == {"theirs"}
        assert "kept a decision from ending for 15 s" in leaders.message("ours")
        thread = leaders.cycle._decider._thread
        assert await thread.problem() is None


async def test_the_default_serves_where_the_administrator_chose_it(leaders: Leaders, tmp_path: Path) -> None:
    with tried(tmp_path, RAISES):
        await leaders.next_one(served(on_plugin_failure="default"))
        await leaders.turn()
        assert leaders.admitted() == {"ours", "theirs"}


async def test_it_is_tried_again_with_other_code_or_on_request(leaders: Leaders, tmp_path: Path) -> None:
    with tried(tmp_path, RAISES):
        await leaders.next_one(served())
        await leaders.turn()
        await leaders.turn(served(retry="once more"))
        assert leaders.cycle._decider.failures == 2
        assert leaders.admitted() == {"theirs"}
    with tried(tmp_path, CORRECTED):
        await leaders.next_one(served(retry="once more"))
        await leaders.turn()
        assert leaders.admitted() == {"ours", "theirs"}


async def test_turns_go_on_in_the_child_as_they_would_here(leaders: Leaders, tmp_path: Path) -> None:
    with tried(tmp_path, CORRECTED):
        await leaders.next_one(served())
        await leaders.turn()
        child = leaders.cycle._decider._child
        assert child is not None
        await leaders.turn(node("n2"), *(work(f"more-{number}", "team") for number in range(12)))
        assert leaders.cycle._decider._child is child
        last = leaders.cycle.last
        assert last is not None
        assert replayed_plan(load(save(last.snapshot, last.plan))) == json_form.written(last.plan)
        assert len(leaders.admitted()) == 14
        await leaders.turn(queue("team", parent=ROOT))
        assert leaders.cycle._decider._child is None, "no queue names it any more"


async def test_a_queue_whose_plug_in_this_process_lacks_waits_and_says_so(leaders: Leaders) -> None:
    await leaders.next_one(served())
    await leaders.turn()
    assert leaders.admitted() == {"theirs"}
    assert "this Muster has no such plug-in, expected one of fifo" in leaders.message("ours")

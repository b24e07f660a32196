"""The fake reader, which tests of commands and pages ask, keeps the promises of the one that reads Postgres.

That both are asked alike is in ``tests/unit/admission/web/test_app.py``.
"""

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from admission.web.http import place_in
from admission.web.reader import Sight, UnknownName
from admission.web.sql_reader import SqlReader
from queues.errors import DatabaseUnavailable
from queues.read_api import bodies
from queues.sql.database import Database
from queues.sql.read.decisions import DecisionQuestion
from queues.sql.read.listed import Listing
from queues.sql.read.rows import PendingPlace
from tests.fakes.fake_reader import FakeReader
from tests.sql.ledger_harness import NOW
from tests.sql.read.test_read_api import staged

Reader = SqlReader | FakeReader
#: What is there for each reader: a queue with versions, a queue with work, and a workload that waits there.
NAMES = {SqlReader: ("a", "a", "ns", "small"), FakeReader: ("team-a", "train", "ml", "tune-3")}
EVERY_STATE = Listing(states=("pending", "admitted", "finished"))
NONE_OF_THEM = Sight(workloads={}, queues=frozenset())


@pytest.fixture(params=[SqlReader, FakeReader], ids=["Postgres", "fake"])
async def reader(request: pytest.FixtureRequest, muster: Database) -> Reader:
    if request.param is FakeReader:
        return FakeReader()
    await staged(muster)
    return SqlReader(muster, clock=lambda: NOW)


def _questions(reader: Reader, **sight: Sight) -> dict[str, Callable[..., Awaitable[Any]]]:
    """Each question about what is there, to be asked with another queue, limit or place."""
    versioned, _, namespace, name = NAMES[type(reader)]
    return {
        "queues": lambda: reader.queues(**sight),
        "pending": lambda queue=None, limit=9, after=None: reader.pending(
            queue=queue, namespace=None, limit=limit, after=after, **sight
        ),
        "workloads": lambda queue=None, limit=9: reader.workloads(
            EVERY_STATE, queue=queue, limit=limit, **sight
        ),
        "decisions": lambda queue=None, limit=9: reader.decisions(
            DecisionQuestion(since=0), queue=queue, limit=limit, **sight
        ),
        "users": lambda queue=None, limit=9, after=0: reader.users(
            queue=queue, user="ada", after=after, limit=limit, **sight
        ),
        "queue_versions": lambda queue=versioned, limit=9: reader.queue_versions(queue, limit=limit),
        "explain": lambda queue=name: reader.explain(namespace=namespace, name=queue, kind=None, **sight),
    }


FORMS = {
    "queues": bodies.QueueList,
    "pending": bodies.PendingList,
    "workloads": bodies.WorkloadList,
    "decisions": bodies.DecisionList,
    "users": bodies.UserList,
    "queue_versions": bodies.QueueVersionList,
    "explain": tuple,
}


async def test_every_answer_has_its_form_and_says_something(reader: Reader) -> None:
    for name, ask in _questions(reader).items():
        answer = await ask()
        assert isinstance(answer, FORMS[name]), name
        assert getattr(answer, "items", answer), name


async def test_parents_come_before_their_children(reader: Reader) -> None:
    names = [queue.name for queue in (await reader.queues()).items]
    known = {queue.name: queue.parent for queue in (await reader.queues()).items}
    assert all(names.index(parent) < names.index(name) for name, parent in known.items() if parent in names)


@pytest.mark.parametrize("name", ["pending", "workloads", "decisions", "users", "queue_versions", "explain"])
async def test_what_is_unknown_is_refused_by_its_name(reader: Reader, name: str) -> None:
    with pytest.raises(UnknownName, match="nowhere-at-all"):
        await _questions(reader)[name](queue="nowhere-at-all")


async def test_nothing_out_of_sight_is_shown_or_counted(reader: Reader) -> None:
    ask = _questions(reader, sight=NONE_OF_THEM)
    assert (await ask["queues"]()).items == ()
    for name in ("pending", "workloads"):
        answer = await ask[name]()
        assert (answer.items, answer.total, answer.total_everywhere) == ((), 0, 0), name
    assert (await ask["decisions"]()).items == ()
    assert not (await ask["users"]()).complete
    with pytest.raises(UnknownName):
        await ask["explain"]()


async def test_pages_follow_one_another_without_a_gap(reader: Reader) -> None:
    ask = _questions(reader)
    whole = [PendingPlace(one.queue, one.position) for one in (await ask["pending"]()).items]
    paged, place = [], None
    while (page := await ask["pending"](limit=1, after=place)).items:
        place = PendingPlace(page.items[-1].queue, page.items[-1].position)
        paged.append(place)
        assert page.total == len(whole)
        if page.continue_ == "":
            break
        assert place_in(page.continue_, PendingPlace) == place
    assert paged == whole
    users = (await ask["users"]()).items
    assert (await ask["users"](limit=1)).items == users[:1]
    assert (await ask["users"](after=1)).items == users[1:]


@pytest.mark.parametrize("kind", [SqlReader, FakeReader], ids=["Postgres", "fake"])
async def test_a_database_that_is_away_is_named_as_such(kind: type[Reader]) -> None:
    absent = Database.open("postgresql://nobody@/nothing?host=/nowhere")
    reader = FakeReader() if kind is FakeReader else SqlReader(absent, clock=lambda: NOW)
    if isinstance(reader, FakeReader):
        reader.down = True
    answered = []
    for name, ask in _questions(reader).items():
        with contextlib.suppress(DatabaseUnavailable):
            answered.append((name, await ask()))
    assert answered == []

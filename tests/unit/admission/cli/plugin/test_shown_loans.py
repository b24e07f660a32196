"""Loans in tables: beside what queues deserve, and in the history with who began them and that they ended."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec import structs

from admission.cli.rendering.quota import ended_by_themselves
from queues.read_api import bodies
from tests.fakes.fake_reader import GPU, QUEUES, TEAM_A, TEAM_B, FakeReader
from tests.fakes.plugin import Asking, Plugin


def loan(amount: str, counts: str = "", **about: Any) -> bodies.LoanInForceBody:
    given = {"from_": "team-a", "to": "team-b", "flavor": "", "resource": GPU, "reason": "", "problem": ""}
    return bodies.LoanInForceBody(
        **{**given, "until": "2026-11-23T10:00:00Z", "amount": amount, "counts": counts or amount, **about}
    )


@pytest.fixture
def reader() -> FakeReader:
    """A cluster in which team-a lends to team-b."""
    lent = (loan("16", reason="a deadline"), loan("8", "4", problem="queue team-a has 4 to lend"))
    reader = FakeReader()
    reader.tree = tuple(
        structs.replace(queue, loans=lent) if queue in (TEAM_A, TEAM_B) else queue for queue in QUEUES
    )
    return reader


@pytest.fixture
async def ask(plugin: Plugin, reader: FakeReader) -> AsyncIterator[Asking]:
    async with plugin.served(reader) as ask:
        yield ask


async def test_the_tree_shows_what_is_lent_and_for_how_long(ask: Asking) -> None:
    for form in ("table", "wide"):
        code, out, _ = await ask("queues", "-o", form, "--resource", GPU)
        assert code == 0
        head, *lines = out.splitlines()
        assert " LOANS" in head
        for name, told in (("team-a", "-16 2d, -4 2d"), ("team-b", "+16 2d, +4 2d")):
            assert told in next(line for line in lines if name in line)


async def test_loans_are_listed_below_the_limits(ask: Asking) -> None:
    code, out, err = await ask("quota", "show", "team-a")
    assert code == 0
    assert [line.split() for line in out.split("\n\n")[1].splitlines()] == [
        ["FROM", "TO", "RESOURCE", "LENT", "COUNTS", "UNTIL", "REASON"],
        ["team-a", "team-b", GPU, "16", "16", "2026-11-23T10:00:00Z", "a", "deadline"],
        ["team-a", "team-b", GPU, "8", "4", "2026-11-23T10:00:00Z", "-"],
    ]
    assert err == f"Of the 8 {GPU} for team-b 4 counts: queue team-a has 4 to lend.\n"
    assert "\n\n" not in (await ask("quota", "show", "team-a", "--resource", "cpu"))[1]


def version(at: str, *loans: tuple[str, str]) -> bodies.QueueVersionBody:
    stated = tuple(
        bodies.LoanBody(to=to, until=until, amount="4", resource=GPU, flavor="", reason="")
        for to, until in loans
    )
    return bodies.QueueVersionBody(
        version=1, at=at, what="changed", by="", reason="", loans=stated, changes=()
    )


def test_the_history_says_when_a_loan_ended_by_itself() -> None:
    one, other = ("b", "2026-11-02T00:00:00Z"), ("c", "2026-11-09T00:00:00Z")
    versions = [
        version("2026-11-10T00:00:00Z"),
        version("2026-11-05T00:00:00Z", one, other),
        version("2026-11-01T00:00:00Z", one),
    ]
    told = ended_by_themselves(versions, "2026-11-20T00:00:00Z")
    assert [
        (each.until, "loan ended") if isinstance(each, bodies.LoanBody) else (each.at, each.what)
        for each in told
    ] == [
        ("2026-11-10T00:00:00Z", "changed"),
        ("2026-11-09T00:00:00Z", "loan ended"),
        ("2026-11-05T00:00:00Z", "changed"),
        ("2026-11-02T00:00:00Z", "loan ended"),
        ("2026-11-01T00:00:00Z", "changed"),
    ]


def test_a_loan_that_was_ended_before_its_time_or_lasts_did_not_end_by_itself() -> None:
    loan = ("b", "2026-11-09T00:00:00Z")
    ended = [version("2026-11-05T00:00:00Z"), version("2026-11-01T00:00:00Z", loan)]
    assert ended_by_themselves(ended, "2026-11-20T00:00:00Z") == ended
    assert ended_by_themselves(ended[1:], "2026-11-08T00:00:00Z") == ended[1:]

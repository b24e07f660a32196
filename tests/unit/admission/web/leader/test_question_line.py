"""The leader's time for questions is shared between users: laws of the line in which questions wait."""

import asyncio
from collections import Counter
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.web.leader import answers as leader_answers
from admission.web.leader.answers import LeaderAnswers
from admission.web.leader.forwarding import LeaderBusy
from admission.web.leader.question_line import OF_ONE, LineFull, QuestionLine
from tests.waiting import LIMIT

Q = TypeVar("Q")
USERS = ("alice", "bob", "carol", "dave")


def worked_on(line: QuestionLine[Q], seconds: float) -> tuple[str, Q]:
    found = line.next()
    assert found is not None
    line.done(seconds)
    return found.user, found.question


@given(st.lists(st.sampled_from([0.1, 1.0, 4.0]), min_size=len(USERS), max_size=len(USERS)))
def test_users_who_always_ask_get_the_same_time_whatever_their_questions_cost(costs: list[float]) -> None:
    line: QuestionLine[int] = QuestionLine()
    seconds = dict(zip(USERS, costs, strict=True))
    got = dict.fromkeys(USERS, 0.0)
    for user in USERS:
        line.join(user, 0)
    for _ in range(400):
        found = line.next()
        assert found is not None
        line.join(found.user, 0)
        line.done(seconds[found.user])
        got[found.user] += seconds[found.user]
        assert max(got.values()) - min(got.values()) <= max(costs) + 1e-6


@given(st.integers(1, OF_ONE), st.sampled_from([0.5, 4.0, 12.0]))
def test_who_comes_anew_waits_for_no_more_than_the_question_that_is_worked_on(
    many: int, seconds: float
) -> None:
    line: QuestionLine[int] = QuestionLine()
    for number in range(many):
        line.join("heavy", number)
    assert line.next() is not None
    line.join("light", 0)
    line.done(seconds)
    assert worked_on(line, 0.1) == ("light", 0)


def test_who_asks_much_is_not_kept_waiting_for_ever_by_others_who_come_anew() -> None:
    line: QuestionLine[int] = QuestionLine()
    line.join("heavy", 0)
    line.join("heavy", 1)
    line.join("new-0", 0)
    turns = [worked_on(line, 4.0)]
    for number in range(1, 40):
        line.join(f"new-{number}", 0)
        turns.append(worked_on(line, 1.0))
    assert Counter(user for user, _ in turns)["heavy"] == 2


@given(st.lists(st.tuples(st.sampled_from(USERS), st.booleans(), st.floats(0, 12)), max_size=80))
def test_no_question_gets_lost_and_those_of_one_user_keep_their_order(
    steps: list[tuple[str, bool, float]],
) -> None:
    line: QuestionLine[int] = QuestionLine(of_all=8)
    came: dict[str, list[int]] = {user: [] for user in USERS}
    went: dict[str, list[int]] = {user: [] for user in USERS}
    for number, (user, works, seconds) in enumerate(steps):
        try:
            lost = line.join(user, number)
        except LineFull:
            assert len(line) == 8 or len(came[user]) - len(went[user]) == OF_ONE
        else:
            came[user].append(number)
            if lost is not None:
                assert came[lost.user].pop() == lost.question
        if works and len(line):
            asked, question = worked_on(line, seconds)
            went[asked].append(question)
    while len(line):
        asked, question = worked_on(line, 1.0)
        went[asked].append(question)
    assert went == came
    assert line.next() is None


def test_a_user_has_few_questions_at_a_time_with_the_one_that_is_worked_on() -> None:
    line: QuestionLine[int] = QuestionLine(of_one=2, of_all=3)
    line.join("alice", 0)
    line.next()
    line.join("alice", 1)
    with pytest.raises(LineFull, match=r"^The leader has 2 questions of alice already, expected fewer: "):
        line.join("alice", 2)
    line.join("bob", 0)
    with pytest.raises(LineFull, match=r"^The leader has 3 questions already, expected fewer: "):
        line.join("bob", 1)
    line.done(1.0)
    line.join("alice", 2)


def test_in_a_full_line_a_newcomer_takes_the_last_place_of_the_user_who_has_the_most() -> None:
    line: QuestionLine[str] = QuestionLine(of_all=6)
    for user, many in (("alice", 3), ("bob", 2), ("carol", 1)):
        for number in range(many):
            assert line.join(user, f"{user}-{number}") is None
    assert line.join("dave", "dave-0") == ("alice", "alice-2")
    assert len(line) == 6
    # Who has a place already gets no further one, and where nobody has two nobody loses one.
    with pytest.raises(LineFull, match=r"^The leader has 6 questions already"):
        line.join("dave", "dave-1")
    lost = {line.join(user, f"{user}-0") for user in ("eve", "frank")}
    assert lost == {("alice", "alice-1"), ("bob", "bob-1")}
    with pytest.raises(LineFull, match=r"^The leader has 6 questions already"):
        line.join("grace", "grace-0")
    assert {worked_on(line, 1.0)[0] for _ in range(6)} == {"alice", "bob", "carol", "dave", "eve", "frank"}


def test_the_question_that_is_worked_on_keeps_its_place() -> None:
    line: QuestionLine[int] = QuestionLine(of_all=2)
    line.join("alice", 0)
    line.next()
    line.join("alice", 1)
    assert line.join("bob", 0) == ("alice", 1)
    with pytest.raises(LineFull):
        line.join("carol", 0)
    line.done(1.0)
    assert worked_on(line, 1.0) == ("bob", 0)


async def test_the_leader_answers_others_between_the_questions_of_one_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leader_answers, "_REST", 0.0)
    answers = LeaderAnswers(lambda: None, lambda: b"", identity="a")
    order: list[str] = []
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def first(_: object) -> bytes:
        begun.set()
        await goes_on.wait()
        order.append("heavy")
        return b""

    async def later(who: str) -> bytes:
        order.append(who)
        return b""

    tasks = [asyncio.create_task(answers._computed("heavy", first))]
    await begun.wait()
    for who in ("heavy", "heavy", "light"):
        tasks.append(asyncio.create_task(answers._computed(who, lambda _, who=who: later(who))))
    await asyncio.sleep(0)
    with pytest.raises(LeaderBusy, match="3 questions of heavy already"):
        await answers._computed("heavy", first)
    goes_on.set()
    await asyncio.gather(*tasks)
    assert order == ["heavy", "light", "heavy", "heavy"]


async def test_a_question_that_loses_its_place_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_answers, "_REST", 0.0)
    answers = LeaderAnswers(lambda: None, lambda: b"", identity="a")
    answers._line = QuestionLine(of_all=2)
    goes_on = asyncio.Event()

    async def waits(_: object) -> bytes:
        await goes_on.wait()
        return b"yes"

    first, last = [asyncio.create_task(answers._computed("alice", waits)) for _ in range(2)]
    await asyncio.sleep(0)
    other = asyncio.create_task(answers._computed("bob", waits))
    with pytest.raises(
        LeaderBusy, match="another user's question instead of the last one of alice, who has the most"
    ):
        await asyncio.wait_for(last, LIMIT)
    goes_on.set()
    assert (await first, await other) == (b"yes", b"yes")


async def test_a_question_that_fails_keeps_no_other_from_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_answers, "_REST", 0.0)
    answers = LeaderAnswers(lambda: None, lambda: b"", identity="a")

    async def fails(_: object) -> bytes:
        raise ValueError("no")

    async def works(_: object) -> bytes:
        return b"yes"

    outcomes = await asyncio.gather(
        *(answers._computed("alice", each) for each in (fails, works)), return_exceptions=True
    )
    assert (str(outcomes[0]), outcomes[1]) == ("no", b"yes")
    assert await answers._computed("alice", works) == b"yes"


async def test_a_question_whose_user_has_left_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_answers, "_REST", 0.0)
    answers = LeaderAnswers(lambda: None, lambda: b"", identity="a")
    goes_on = asyncio.Event()
    worked: list[str] = []

    async def waits(_: object) -> bytes:
        await goes_on.wait()
        return b""

    async def left(_: object) -> bytes:
        worked.append("left")
        return b""

    first = asyncio.create_task(answers._computed("alice", waits))
    gone = asyncio.create_task(answers._computed("bob", left))
    last = asyncio.create_task(answers._computed("carol", waits))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.sleep(0)
    goes_on.set()
    assert (await first, await last, worked) == (b"", b"", [])

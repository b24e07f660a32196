"""Answers that many clients share."""

import asyncio

from admission.web.access.answer_cache import Kept


async def test_a_question_that_is_being_asked_is_not_asked_again() -> None:
    asked, begun, going = [], asyncio.Event(), asyncio.Event()

    async def ask() -> str:
        asked.append(1)
        begun.set()
        await going.wait()
        return "answer"

    kept: Kept[str, str] = Kept(60.0, 9)
    many = [asyncio.create_task(kept.get("question", ask)) for _ in range(5)]
    await begun.wait()
    many[0].cancel()
    going.set()

    assert await asyncio.gather(*many[1:]) == ["answer"] * 4
    assert await kept.get("question", ask) == "answer"
    assert len(asked) == 1


async def test_an_answer_is_not_kept_longer_than_it_lasts() -> None:
    answers = iter(range(9))

    async def ask() -> int:
        return next(answers)

    kept: Kept[str, int] = Kept(60.0, 9, lasts=lambda answer: 0.0 if answer == 0 else 60.0)

    assert [await kept.get("question", ask) for _ in range(3)] == [0, 1, 1]


async def test_a_failure_is_told_to_all_who_asked_and_not_kept() -> None:
    failures = iter([ValueError("no answer")])

    async def ask() -> str:
        for failure in failures:
            raise failure
        return "answer"

    kept: Kept[str, str] = Kept(60.0, 9)
    both = await asyncio.gather(*(kept.get("question", ask) for _ in range(2)), return_exceptions=True)

    assert [str(each) for each in both] == ["no answer", "no answer"]
    assert await kept.get("question", ask) == "answer"


async def test_only_so_many_answers_are_kept() -> None:
    asked = []

    def asking(question: int) -> "asyncio.Future[int]":
        asked.append(question)
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        future.set_result(question)
        return future

    kept: Kept[int, int] = Kept(60.0, 2)
    for question in (1, 2, 3, 3, 1):
        assert await kept.get(question, lambda question=question: asking(question)) == question  # type: ignore[misc]

    assert asked == [1, 2, 3, 1]

"""The work queue of a writer: one step at a time, expectations, backoff, requeues in time, and an end of it all."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
import uvloop

from admission.kube.writers import work_queue
from admission.kube.writers.work_queue import FIRST_PAUSE, LONGEST_PAUSE, WorkQueue, pause_after
from queues.errors import Fenced
from tests.waiting import eventually

LONG = 3600.0


class Recorded:
    """A queue, and what it called."""

    def __init__(self) -> None:
        self.requeued: list[str] = []
        self.finished: list[str] = []
        self.queue: WorkQueue[str] = WorkQueue(self.requeued.append, self.finished.append)


@pytest_asyncio.fixture
async def recorded() -> AsyncIterator[Recorded]:
    made = Recorded()
    yield made
    await made.queue.stop()


async def nothing() -> None:
    return None


def test_each_failure_in_a_row_doubles_the_pause_up_to_the_longest() -> None:
    pauses = [pause_after(failures) for failures in range(50)]
    assert pauses[:4] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE, 8 * FIRST_PAUSE]
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE


# ── requeue ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_key_is_requeued_once_and_in_time_and_can_be_requeued_again(recorded: Recorded) -> None:
    queue = recorded.queue
    due = queue.now() + 0.01
    queue.requeue_after("a", 0.01)
    await eventually(lambda: recorded.requeued == ["a"], "the requeue")
    assert queue.now() >= due - 0.001
    assert len(queue) == 0
    queue.requeue_after("a", 0.0)
    await eventually(lambda: recorded.requeued == ["a", "a"], "the second requeue")


async def test_of_two_requeues_of_a_key_the_earlier_holds(recorded: Recorded) -> None:
    queue = recorded.queue
    queue.requeue_after("brought forward", LONG)
    queue.requeue_after("brought forward", 0.0)
    queue.requeue_after("left alone", 0.0)
    queue.requeue_after("left alone", LONG)
    await eventually(lambda: len(recorded.requeued) == 2, "both keys")
    assert sorted(recorded.requeued) == ["brought forward", "left alone"]
    assert len(queue) == 0


async def test_a_key_that_was_forgotten_is_not_requeued(recorded: Recorded) -> None:
    queue = recorded.queue
    queue.requeue_after("forgotten", 0.0)
    queue.requeue_after("other", 0.0)
    queue.forget("forgotten")
    queue.forget("never queued")
    await eventually(lambda: bool(recorded.requeued), "the other key")
    assert recorded.requeued == ["other"]


async def test_a_key_can_be_requeued_from_within_its_requeue() -> None:
    requeued: list[str] = []

    def requeue(key: str) -> None:
        requeued.append(key)
        if len(requeued) < 3:
            queue.requeue_after(key, 0.0)

    queue = WorkQueue(requeue, lambda key: None)
    queue.requeue_after("a", 0.0)
    await eventually(lambda: len(requeued) == 3, "three requeues")
    assert len(queue) == 0


async def test_nothing_is_requeued_after_the_end(recorded: Recorded) -> None:
    other = Recorded()
    queue = recorded.queue
    queue.requeue_after("before", 0.0)
    await queue.stop()
    queue.requeue_after("before", 0.0)
    queue.requeue_after("after", 0.0)
    other.queue.requeue_after("other", 0.0)
    await eventually(lambda: bool(other.requeued), "the other queue")
    assert recorded.requeued == []
    assert len(queue) == 0


async def test_keys_wait_while_the_queue_is_full_and_are_requeued_in_their_order(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_queue, "MOST_STEPS", 1)
    queue, done = recorded.queue, asyncio.Event()

    async def step() -> None:
        await done.wait()

    queue.start("a", "a", step, "a")
    assert queue.is_full()
    for key in ("b", "forgotten", "c", "b"):
        queue.requeue_when_free(key)
    queue.forget("forgotten")
    done.set()
    await eventually(lambda: len(recorded.requeued) == 2, "both keys")
    assert recorded.requeued == ["b", "c"]
    assert not queue.is_full()


async def test_owners_take_turns_however_many_keys_one_of_them_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_queue, "MOST_STEPS", 1)
    requeued, done = list[str](), asyncio.Event()
    queue = WorkQueue[str](requeued.append, lambda _: None, lambda key: key[0])

    async def step() -> None:
        await done.wait()

    queue.start("x", "x", step, "x")
    flood = [f"a{number}" for number in range(1000)]
    for key in (*flood, "b0", "b1", "c0"):
        queue.requeue_when_free(key)
    queue.forget("a0")
    done.set()
    await eventually(lambda: len(requeued) == 1002, "all keys")
    assert requeued[:7] == ["a1", "b0", "c0", "a2", "b1", "a3", "a4"]
    assert sorted(requeued) == sorted([*flood[1:], "b0", "b1", "c0"])
    await queue.stop()


# ── steps ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_item_is_under_way_until_its_step_has_ended(recorded: Recorded) -> None:
    gate, queue = asyncio.Event(), recorded.queue

    async def waits() -> None:
        await gate.wait()

    queue.start("gang", "pod-1", waits, "one")
    queue.start("gang", "pod-2", nothing, "two")
    await eventually(lambda: recorded.finished == ["gang"], "the second step")
    assert (queue.is_under_way("pod-1"), queue.is_under_way("pod-2")) == (True, False)
    assert queue.is_busy_with("gang")
    assert queue.items_of("gang") == ["pod-1"]
    gate.set()
    await eventually(lambda: recorded.finished == ["gang", "gang"], "the first step")
    assert not queue.is_busy()
    assert not queue.is_busy_with("gang")
    assert queue.under_way() == 0


async def test_a_key_whose_work_changed_meanwhile_is_requeued_when_its_step_has_ended(
    recorded: Recorded,
) -> None:
    gate, queue = asyncio.Event(), recorded.queue

    async def waits() -> None:
        await gate.wait()

    queue.start("job", "job", waits, "job")
    queue.requeue_when_finished("job")
    await asyncio.sleep(0.01)
    assert recorded.requeued == []
    gate.set()
    await eventually(lambda: recorded.requeued == ["job"], "the requeue")


async def test_a_step_that_finds_the_lease_lost_ends_without_a_word(recorded: Recorded) -> None:
    async def fenced() -> None:
        raise Fenced(term=1, holder="me", reason="lease")

    async def fenced_in_a_group() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fenced())

    queue = recorded.queue
    queue.start("a", "a", fenced, "a")
    queue.start("b", "b", fenced_in_a_group, "b")
    await eventually(lambda: not queue.is_busy(), "both steps")
    assert (recorded.finished, recorded.requeued, len(queue)) == ([], [], 0)


async def test_a_defect_is_logged_and_tried_again_after_the_longest_pause(
    recorded: Recorded, caplog: pytest.LogCaptureFixture
) -> None:
    async def breaks() -> None:
        raise ZeroDivisionError

    queue = recorded.queue
    with caplog.at_level(logging.ERROR):
        queue.start("a", "a", breaks, "a")
        await eventually(lambda: recorded.finished == ["a"], "the step")
    assert "write failed unexpectedly" in caplog.text
    assert queue.is_backing_off("a")
    assert len(queue) == 1


async def test_stopping_cancels_the_steps_under_way(recorded: Recorded) -> None:
    ended: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.sleep(LONG)
        finally:
            ended.append("step")

    queue = recorded.queue
    queue.start("a", "a", waits, "a")
    await asyncio.sleep(0)
    await queue.stop()
    assert ended == ["step"]
    assert not queue.is_busy()
    assert recorded.finished == []


# ── expectations ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_write_is_expected_until_its_effect_is_seen(recorded: Recorded) -> None:
    queue = recorded.queue
    queue.expect("job", "pod-1")
    queue.expect("job", "pod-2")
    assert queue.is_expected("job", "job", "pod-1")
    queue.keep_expectations("job", {"pod-2", "pod-3"})
    assert not queue.is_expected("job", "job", "pod-1")
    assert queue.is_expected("job", "job", "pod-2")
    assert not queue.is_expected("job", "job", "pod-3"), "missing, and never written"
    queue.keep_expectations("job", ())
    assert not queue.is_expected("job", "job", "pod-2")


async def test_an_expectation_lapses_and_its_key_is_requeued_then(recorded: Recorded) -> None:
    queue = recorded.queue
    queue.expect("pod", "deletion", 0.02)
    assert queue.is_expected("gang", "pod", "deletion")
    assert len(queue) == 1
    await eventually(lambda: recorded.requeued == ["gang"], "the requeue")
    await eventually(lambda: not queue.is_expected("gang", "pod", "deletion"), "the end of the expectation")


async def test_expectations_are_forgotten_with_their_subject(recorded: Recorded) -> None:
    queue = recorded.queue
    queue.expect("pod", "release")
    queue.forget_expectations("pod")
    queue.forget_expectations("never expected")
    assert not queue.is_expected("gang", "pod", "release")


async def test_lapsed_expectations_do_not_pile_up(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_queue, "_MANY", 10)
    queue = WorkQueue(recorded.requeued.append, recorded.finished.append)
    for number in range(100):
        queue.expect(f"pod-{number}", "deletion", -1.0)
    queue.expect("last", "deletion")
    assert len(queue._expected) <= 11
    assert queue.is_expected("gang", "last", "deletion")
    await queue.stop()


# ── backoff ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_backoffs_of_keys_that_nobody_tries_again_do_not_pile_up(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_queue, "_MANY", 10)
    monkeypatch.setattr(work_queue, "LONGEST_PAUSE", -1.0)  # all of them lapsed long ago
    queue = WorkQueue(recorded.requeued.append, recorded.finished.append)
    for number in range(100):
        queue.back_off(f"group-{number}")
    assert len(queue._backoffs) <= 11
    await queue.stop()


async def test_a_key_backs_off_longer_with_each_failure_in_a_row(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_queue, "FIRST_PAUSE", 100.0)
    monkeypatch.setattr(work_queue, "LONGEST_PAUSE", 1000.0)
    queue, pauses = recorded.queue, []
    for _ in range(4):
        queue.back_off("a")
        pauses.append(round(queue._backoffs["a"].until - queue.now()))
    assert pauses == [200, 400, 800, 1000]
    queue.reset("a")
    assert not queue.is_backing_off("a")
    queue.back_off("a")
    assert round(queue._backoffs["a"].until - queue.now()) == 200
    assert not queue.is_backing_off("b")


async def test_a_key_is_requeued_when_it_has_backed_off(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_queue, "FIRST_PAUSE", 0.01)
    queue = recorded.queue
    queue.back_off("a")
    assert queue.is_backing_off("a")
    await eventually(lambda: recorded.requeued == ["a"], "the requeue")
    await eventually(lambda: not queue.is_backing_off("a"), "the end of the pause")


async def test_a_deferred_key_starts_with_the_shortest_pause_again(recorded: Recorded) -> None:
    queue = recorded.queue
    queue.back_off("a")
    queue.back_off("a")
    queue.defer("a", LONG)
    assert queue.is_backing_off("a")
    queue.back_off("a")
    assert queue._backoffs["a"].failures == 1


def test_what_is_due_at_once_has_a_time_on_the_loop_of_the_controller() -> None:
    async def requeued() -> list[str]:
        came: list[str] = []
        queue: WorkQueue[str] = WorkQueue(came.append, lambda _: None)
        for seconds in (0.0, -1.0, 0.0004, LONG):
            queue.requeue_after("a", seconds)
        await eventually(lambda: bool(came), "the requeue")
        await queue.stop()
        return came

    assert uvloop.run(requeued()) == ["a"]

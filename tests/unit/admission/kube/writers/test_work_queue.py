"""Alarms ring once, in time, and for nobody who was cancelled; pauses grow up to a limit."""

import asyncio

from admission.kube.writers.work_queue import FIRST_PAUSE, LONGEST_PAUSE, KeyedWakeups, Wakeup, pause_after
from tests.waiting import eventually

LONG = 3600.0


def test_each_failure_in_a_row_doubles_the_pause_up_to_the_longest() -> None:
    pauses = [pause_after(failures) for failures in range(50)]
    assert pauses[:4] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE, 8 * FIRST_PAUSE]
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE


async def test_an_alarm_rings_once_and_can_be_set_again() -> None:
    rung: list[float] = []
    clock = asyncio.get_running_loop().time
    alarm = Wakeup(lambda: rung.append(clock()))
    due = alarm.ring_in(0.01)
    await eventually(lambda: len(rung) == 1, "the alarm")
    assert rung[0] >= due - 0.001
    alarm.ring_by(0.0)
    await eventually(lambda: len(rung) == 2, "the second alarm")


async def test_at_the_latest_means_that_the_earlier_of_two_holds() -> None:
    rung: list[str] = []
    alarms = KeyedWakeups(rung.append)
    alarms.ring_in("put forward", LONG)
    alarms.ring_by("put forward", 0.0)
    alarms.ring_in("left alone", 0.0)
    alarms.ring_by("left alone", LONG)
    await eventually(lambda: len(rung) == 2, "both alarms")
    assert sorted(rung) == ["left alone", "put forward"]
    assert len(alarms) == 0


async def test_just_after_a_pause_means_that_the_last_word_holds() -> None:
    rung: list[str] = []
    alarms = KeyedWakeups(rung.append)
    alarms.ring_in("put off", 0.0)
    alarms.ring_in("put off", LONG)
    alarms.ring_in("other", 0.0)
    await eventually(lambda: bool(rung), "the other alarm")
    assert (rung, len(alarms)) == (["other"], 1)
    alarms.stop()


async def test_whoever_was_cancelled_is_not_rung_for() -> None:
    rung: list[str] = []
    alarms = KeyedWakeups(rung.append)
    alarms.ring_in("cancelled", 0.0)
    alarms.ring_in("other", 0.0)
    alarms.cancel("cancelled")
    alarms.cancel("never set")
    await eventually(lambda: bool(rung), "the other alarm")
    assert rung == ["other"]


async def test_whoever_sees_to_it_that_it_rings_again_from_within_is_heard() -> None:
    rung: list[str] = []

    def ring(key: str) -> None:
        rung.append(key)
        if len(rung) < 3:
            alarms.ring_by(key, 0.0)

    alarms = KeyedWakeups(ring)
    alarms.ring_by("a", 0.0)
    await eventually(lambda: len(rung) == 3, "three alarms")
    assert len(alarms) == 0


async def test_nothing_rings_after_the_end_whatever_is_set_then() -> None:
    rung: list[str] = []
    stopped, going = KeyedWakeups(rung.append), KeyedWakeups(rung.append)
    stopped.ring_in("before", 0.0)
    stopped.stop()
    stopped.ring_in("before", 0.0)
    stopped.ring_by("after", 0.0)
    going.ring_in("other", 0.0)
    await eventually(lambda: bool(rung), "the other alarm")
    assert rung == ["other"]
    assert len(stopped) == 0

"""The last days, simulated as they were recorded and with changes."""

from dataclasses import replace
from random import Random

import pytest

from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node, NodeTable
from admission.engine.snapshot import Snapshot
from admission.facts.cluster import QueueFact
from admission.simulate import rules
from admission.simulate.past_days import PastDays, Replayed, emptied, merged, past_days, replayed
from admission.simulate.queue_figures import AskedUnits, QueueFigures, QueueRecorder
from admission.trials.changes import Wanted, changed
from queues.quota.queue import ROOT, Limits, Queue
from queues.reason_codes import ReasonCode
from queues.recorded.past_work import PastPods, PastStay, PastWorkload
from queues.resources import GPU, PODS, Resources
from queues.workload import NodeName, PodSet, QueueName, Workload, WorkloadKey, WorkloadKind

SINCE, UNTIL = 1_790_000_000, 1_790_086_400
HOUR = 3600
A, B = QueueName("a"), QueueName("b")
ONE_GPU = Resources({GPU: 1000, PODS: 1})


def key(name: str) -> WorkloadKey:
    return WorkloadKey(WorkloadKind.JOB, name)


def work(
    name: str,
    came: int,
    *stays: tuple[int, int | None] | tuple[int, int | None, bool],
    gpus: int = 4,
    queue: QueueName = A,
) -> PastWorkload:
    """A gang of pods of one GPU; times in minutes after the beginning."""
    times = [
        PastStay(SINCE + stay[0] * 60, None if stay[1] is None else SINCE + stay[1] * 60, len(stay) > 2)
        for stay in stays
    ]
    return PastWorkload(
        key=key(name),
        namespace="ns",
        name=name,
        queue=queue,
        user="ann",
        priority=0,
        arrival=came + 10_000,
        arrived=SINCE + came * 60,
        minimum=gpus,
        stays=tuple(times),
        pods=(PastPods(pod_set="main", takes=ONE_GPU, count=gpus),),
    )


def newest(nodes: int = 1, **limits: int) -> Snapshot:
    """The last turn: nodes of eight GPUs, queues with what they deserve and may use."""
    offers = Resources({GPU: 8000, PODS: 110})
    table = NodeTable.build(
        [
            Node(name=NodeName(f"n{number}"), allocatable=offers, used=ONE_GPU, labels={HOST: f"n{number}"})
            for number in range(nodes)
        ]
    )
    queues = {QueueName(ROOT): Queue(name=QueueName(ROOT), parent=None)}
    for name in (A, B):
        amount = {GPU: limits.get(name, 8) * 1000}
        queues[name] = Queue(name=name, limits=Limits(deserved=amount, capability=amount))
    return Snapshot(now=UNTIL, queues=queues, nodes=table, pending={}, admissions={})


def stated(snapshot: Snapshot) -> dict[QueueName, QueueFact]:
    """The Queues of the last turn as their administrators wrote them."""
    return {
        name: QueueFact(
            queue=queue,
            uid="",
            document={
                "spec": {
                    limit: {GPU: str(getattr(queue.limits, limit)[GPU] // 1000)}
                    for limit in ("deserved", "capability")
                    if GPU in getattr(queue.limits, limit)
                }
            },
        )
        for name, queue in snapshot.queues.items()
    }


def outcome(days: PastDays, ground: Snapshot) -> Replayed:
    *_, last = replayed(days, ground)
    assert isinstance(last, Replayed)
    return last


DAY = (
    work("before", -60, (-30, 60), gpus=8),
    work("first", 10, (60, 120)),
    work("second", 20, (60, 180)),
    work("third", 30, (120, 150)),
    work("runs", 1400, (1410, None), gpus=2),
)


def test_days_are_reproduced_as_they_were_recorded() -> None:
    days = past_days(DAY, newest(), SINCE, UNTIL)

    again = outcome(days, emptied(newest()))

    assert days.waits == {
        key("first"): 50 * 60,
        key("second"): 40 * 60,
        key("third"): 90 * 60,
        key("runs"): 10 * 60,
    }
    expected = {**days.waits, key("runs"): 0}
    assert {name: again.waits[name] for name in days.waits} == expected
    was, then = days.recorded[A], again.queues[A]
    assert (was.arrived, was.waiting, was.evicted) == (then.arrived, then.waiting, then.evicted) == (4, 0, 0)
    assert was.used == (8 * 60 + 4 * 60 + 4 * 120 + 4 * 30 + 2 * 30) * 60_000
    assert then.used == was.used
    assert was.waits == sorted(days.waits.values())


def test_more_quota_shortens_waits_and_less_lengthens_them() -> None:
    one = newest(2)
    days = past_days(DAY, one, SINCE, UNTIL)
    ground = emptied(one)
    waits = {}
    for what, wanted in {
        "as it was": Wanted(),
        "more": Wanted(quota=("a.gpu=16", "a.capability.gpu=16")),
        "fewer": Wanted(quota=("a.gpu=4", "a.capability.gpu=4")),
    }.items():
        waits[what] = outcome(days, changed(ground, wanted, stated(ground)).snapshot).queues[A].waits

    assert {what: sum(found) // 60 for what, found in waits.items()} == {
        "as it was": 50 + 40 + 90,
        "more": 30,
        "fewer": 50 + 160,
    }


def test_nodes_that_leave_and_come() -> None:
    both = newest(2, a=16)
    days = past_days(DAY, both, SINCE, UNTIL)
    ground = emptied(both)
    whole, drained, more = (
        outcome(days, changed(ground, wanted, stated(ground)).snapshot).queues[A]
        for wanted in (Wanted(), Wanted(drain=("n1",)), Wanted(drain=("n1",), add=((1, "n0"),)))
    )

    assert sum(drained.waits) > sum(whole.waits)
    assert more == whole


def test_work_of_queues_that_are_gone_is_left_out_and_counted() -> None:
    gone = work("gone", 0, (1, 2), queue=QueueName("gone"))

    days = past_days([*DAY, gone], newest(), SINCE, UNTIL)

    assert days.without_queue == 1
    assert key("gone") not in {job.workload.key for job in days.jobs}


def test_work_of_a_queue_that_has_queues_below_it_now_does_not_start_and_says_why() -> None:
    now = newest()
    below = QueueName("a-below")
    queues = {**now.queues, below: Queue(name=below, parent=A)}
    now = replace(now, queues=queues)
    of_b = work("of-b", 10, (10, 30), queue=B)

    again = outcome(past_days([*DAY, of_b], now, SINCE, UNTIL), emptied(now))

    (told,) = again.not_started
    assert (told.queue, told.workloads, told.code) == (A, len(DAY), ReasonCode.QUEUE_NOT_LEAF)
    assert "name one below it, such as a-below" in told.message
    assert set(again.waits) == {of_b.key}
    assert outcome(past_days(DAY, newest(), SINCE, UNTIL), emptied(newest())).not_started == ()


def test_what_waits_now_and_never_ran_waits_in_the_replay_too() -> None:
    waiting = Workload(
        key=key("large"),
        namespace="ns",
        name="large",
        queue=A,
        arrival=7,
        created=SINCE + HOUR,
        minimum=9,
        pod_sets=(PodSet(name="main", count=9, takes=ONE_GPU),),
    )
    last = replace(newest(), pending={waiting.key: waiting})

    days = past_days(DAY, last, SINCE, UNTIL)
    again = outcome(days, emptied(last))

    assert (days.recorded[A].waiting, again.queues[A].waiting) == (1, 1)
    assert key("large") not in again.waits


def test_what_was_evicted_begins_anew_and_runs_as_long_as_its_longest_stay() -> None:
    evicted = work("evicted", 0, (0, 30, True), (60, 160))

    days = past_days([evicted], newest(), SINCE, UNTIL)

    (job,) = days.jobs
    assert job.duration == 100 * 60
    assert days.recorded[A].evicted == 1


def test_members_that_joined_later_are_one_stay_with_the_first_ones() -> None:
    stays = [PastStay(0, 50), PastStay(10, 70), PastStay(70, 80), PastStay(90, None), PastStay(95, 99)]

    assert merged(stays) == [PastStay(0, 70), PastStay(70, 80), PastStay(90, None)]


def test_figures_count_waits_use_and_what_is_below_deserved() -> None:
    recorder = QueueRecorder({A: 8000}, frozenset({key("old")}))
    recorder.arrive(0, key("old"), AskedUnits(A, 2000))
    recorder.start(0, key("old"))
    recorder.arrive(10, key("new"), AskedUnits(A, 4000))
    recorder.start(40, key("new"))
    recorder.start(45, key("new"))
    recorder.end(60, key("new"), evicted=True)
    recorder.start(70, key("new"))
    recorder.end(100, key("new"))
    recorder.end(100, key("new"))
    recorder.arrive(100, key("last"), AskedUnits(A, 9000))

    figures = recorder.close(110)

    assert figures == {
        A: QueueFigures(
            waits=[30],
            arrived=2,
            waiting=1,
            evicted=1,
            used=2000 * 110 + 4000 * (20 + 30),
            short=4000 * (30 + 10) + 6000 * 10,
        )
    }


@pytest.mark.parametrize(
    ("waits", "percent", "expected"),
    [([], 50, None), ([7], 95, 7), ([1, 2, 3, 4], 50, 2), (list(range(1, 101)), 95, 95)],
)
def test_percentiles_are_waits_that_there_were(waits: list[int], percent: int, expected: int | None) -> None:
    assert QueueFigures(waits=waits).wait(percent) == expected


@pytest.mark.parametrize("seed", range(8))
def test_days_that_the_engine_decided_are_reproduced_to_the_second(seed: int) -> None:
    """Without evictions, after which nobody knows from the ledger how much work is left."""
    random, ground = Random(seed), newest(2)
    ground = replace(ground, queues={**ground.queues, QueueName(ROOT): rules.NO_PREEMPTION})
    asked = [
        work(
            f"w{number}",
            random.randrange(1, 1200),
            (0, random.randrange(5, 200)),
            gpus=random.choice([1, 2, 4, 8]),
        )
        for number in range(40)
    ]
    asked = [
        replace(
            each,
            queue=random.choice([A, B]),
            stays=(PastStay(each.arrived, each.arrived + (each.stays[0].ended or 0) - SINCE),),
        )
        for each in asked
    ]
    then = outcome(past_days(asked, ground, SINCE, UNTIL), emptied(ground))
    assert any(then.waits.values())
    recorded = [
        replace(
            each,
            stays=tuple(
                PastStay(stay.opened + then.waits[each.key], (stay.ended or 0) + then.waits[each.key])
                for stay in each.stays
            ),
        )
        for each in asked
        if each.key in then.waits
    ]

    days = past_days(recorded, ground, SINCE, UNTIL)
    again = outcome(days, emptied(ground))

    assert again.waits == days.waits == then.waits
    assert again.queues == days.recorded

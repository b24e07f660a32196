"""Who waits longest keeps a place in the near future; others pass only if they are not in the way there."""

from dataclasses import replace
from typing import Any

import pytest

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.pending.waiting_time import run_time_class
from admission.engine.snapshot import Snapshot
from queues import kind_names
from queues.plan import Plan
from queues.quota.queue import ROOT, Limits, Queue, QueuePolicy
from queues.resources import GPU
from queues.workload import HostPort, QueueName, Workload
from tests.builders.decided_work import (
    a_snapshot,
    a_workload,
    admitted,
    gpu_node,
    gpu_pods,
    plan_of,
)
from tests.laws.worlds.plan_effects import apply

A, B = QueueName("a"), QueueName("b")

NOW = 100_000
HOUR = 3600


def cluster(nodes: int = 2, **policy: Any) -> Snapshot:
    """Nodes of 8 GPUs, two queues; nobody starves before the day is over."""
    rules = QueuePolicy(**{"clear_after": 24 * HOUR, **policy})
    queues = [Queue(name=name, parent=ROOT, policy=rules) for name in (A, B)]
    return a_snapshot(queues=queues, nodes=[gpu_node(f"n{number}") for number in range(nodes)], now=NOW)


def work(name: str, pods: int, gpus: int, arrival: int = 1, **more: Any) -> Workload:
    given = {"queue": A, "arrival": arrival, "created": NOW + arrival, **more}
    return a_workload(name, gpu_pods(pods, gpus), kind=kind_names.VOLCANO_JOB, **given)


def running(snapshot: Snapshot, *workloads: Workload) -> Snapshot:
    for each in workloads:
        waiting = replace(snapshot, pending={each.key: each})
        plan = plan_of(waiting)
        assert plan.admits
        snapshot = replace(apply(waiting, plan), holders={**snapshot.holders, each.key: each})
    return snapshot


def turn(snapshot: Snapshot, *workloads: Workload, later: int = 60) -> Plan:
    return plan_of(replace(snapshot, pending={each.key: each for each in workloads}, now=NOW + later))


def code(plan: Plan, workload: Workload) -> str:
    return str(plan.reasons[workload.key].code)


HEAD = work("head", 2, 8, arrival=10)


def half_full() -> Snapshot:
    """One node is taken for another two hours, the other is free."""
    return running(cluster(), work("long", 1, 8, run_time=2 * HOUR))


def test_short_work_passes_a_gang_that_cannot_start_before() -> None:
    short = work("short", 1, 8, arrival=20, run_time=HOUR)
    assert admitted(turn(half_full(), HEAD, short)) == {"short"}


def test_work_that_would_still_be_there_does_not_pass_and_says_why() -> None:
    for run_time in (None, 4 * HOUR):
        other = work("other", 1, 1, arrival=20, run_time=run_time)
        plan = turn(half_full(), HEAD, other)
        assert admitted(plan) == set()
        assert code(plan, other) == "Reserved"
        assert "head" in plan.reasons[other.key].message


@pytest.mark.parametrize(
    ("more", "says"),
    [
        pytest.param({}, None, id="a Job: it can be cleared away by then"),
        pytest.param({"preemptable": False}, ('volcano.sh/preemptable "true"', "never cleared away"), id="a bare pod"),
        pytest.param({"preemptable": False, "run_time": 900}, None, id="that ends in time"),
        pytest.param(
            {"preemptable": False, "run_time": 4 * HOUR},
            ('volcano.sh/preemptable "true"', "its run time counts as 4h"),
            id="that does not",
        ),
        pytest.param({"min_run_time": 4 * HOUR}, ("could not be cleared away by then",), id="a wish for a time"),
    ],
)  # fmt: skip
def test_who_is_held_off_is_told_why_and_what_lets_it_pass(
    more: dict[str, Any], says: tuple[str, ...] | None
) -> None:
    """A gang has a place cleared after half an hour; one of the two nodes that it needs is free."""
    snapshot = running(cluster(clear_after=HOUR // 2), work("long", 1, 8, run_time=2 * HOUR))
    other = work("other", 1, 1, arrival=20, **more)
    plan = turn(snapshot, HEAD, other)
    if says is None:
        assert admitted(plan) == {"other"}
        return
    message = plan.reasons[other.key].message
    assert code(plan, other) == "Reserved"
    assert all(each in message for each in (*says, "What lets it pass", "muster.dev/run-time")), message


def test_work_passes_where_the_gang_will_not_need_the_place() -> None:
    """Two nodes are to be enough for the gang, and there are three."""
    snapshot = running(cluster(nodes=3), work("long", 1, 8, run_time=2 * HOUR), work("next", 1, 8))
    assert admitted(turn(snapshot, HEAD, work("other", 1, 8, arrival=20))) == set()
    snapshot = running(cluster(nodes=4), work("long", 1, 8, run_time=2 * HOUR), work("next", 1, 8))
    wide = replace(HEAD, pod_sets=(replace(HEAD.pod_sets[0], count=3),), minimum=3)
    assert admitted(turn(snapshot, wide, work("other", 1, 8, arrival=20))) == set()
    with_room = running(cluster(nodes=4), work("long", 2, 8, run_time=2 * HOUR), work("next", 1, 1))
    assert admitted(turn(with_room, HEAD, work("other", 1, 1, arrival=20))) == {"other"}


def free_again() -> Snapshot:
    """Both nodes are free: the last that ran there has ended."""
    snapshot = half_full()
    return replace(snapshot, ended={number: frozenset({0}) for number in snapshot.admissions})


def test_when_its_place_is_free_nobody_smaller_takes_it() -> None:
    small, brief = work("small", 1, 1, arrival=20), work("brief", 1, 8, arrival=20, run_time=60)
    plan = turn(free_again(), HEAD, small, brief)
    assert admitted(plan) == {"head"}
    assert code(plan, small) == "Reserved"
    narrow = work("narrow", 1, 8, arrival=10)
    assert admitted(turn(free_again(), narrow, small, brief)) == {"narrow", "small"}


@pytest.mark.parametrize("is_free", [False, True])
def test_whoever_has_a_better_right_goes_before_it(is_free: bool) -> None:
    urgent = work("urgent", 1, 8, arrival=20, priority=5)
    assert admitted(turn(free_again() if is_free else half_full(), HEAD, urgent)) == {"urgent"}


def test_while_one_takes_its_place_another_keeps_his() -> None:
    """Of three free nodes a gang gets two, and one that came later and needs two keeps the third."""
    snapshot = running(cluster(nodes=4), work("ends", 1, 8), work("stays", 1, 8, run_time=2 * HOUR))
    number = min(snapshot.admissions)
    snapshot = replace(snapshot, ended={number: frozenset({0})})
    later, small = work("later", 2, 8, arrival=15, run_time=5 * HOUR), work("small", 1, 8, arrival=20)
    plan = turn(snapshot, HEAD, later, small)
    assert admitted(plan) == {"head"}
    assert (code(plan, later), code(plan, small)) == ("NoFit", "Reserved")


def test_a_queue_below_its_share_is_not_held_up_by_one_above() -> None:
    poor = work("poor", 1, 8, arrival=20, queue=B)
    assert admitted(turn(half_full(), HEAD, poor)) == {"poor"}


def test_where_no_run_times_are_known_only_work_that_could_not_be_cleared_stays_off() -> None:
    snapshot = running(cluster(clear_after=HOUR), work("unknown", 1, 1))
    free = work("free", 1, 1, arrival=20)
    kept = work("kept", 1, 1, arrival=20, preemptable=False)
    assert admitted(turn(snapshot, HEAD, free)) == {"free"}
    plan = turn(snapshot, HEAD, kept)
    assert (admitted(plan), code(plan, kept)) == (set(), "Reserved")


@pytest.mark.parametrize(("reclaimable", "passes"), [(True, {"free"}), (False, set())])
def test_who_passes_from_a_queue_that_is_not_reclaimed_from_is_not_cleared_away_again(
    reclaimable: bool, passes: set[str]
) -> None:
    snapshot = cluster(clear_after=HOUR)
    queues = {**snapshot.queues, B: replace(snapshot.queues[B], reclaimable=reclaimable)}
    told = work("told", 1, 1, run_time=HOUR // 2)
    snapshot = running(replace(snapshot, queues=queues), work("unknown", 1, 1), told)
    assert admitted(turn(snapshot, HEAD, work("free", 1, 1, arrival=20, queue=B))) == passes


def test_who_runs_longer_than_declared_is_expected_to_take_as_long_again() -> None:
    snapshot = running(cluster(), work("late", 1, 8, run_time=HOUR))
    other = work("other", 1, 1, arrival=20, run_time=HOUR)
    assert admitted(turn(snapshot, HEAD, other, later=HOUR - 60)) == set()
    assert admitted(turn(snapshot, HEAD, other, later=HOUR)) == {"other"}


def test_the_answer_is_looked_at_again_when_somebody_should_be_gone() -> None:
    other = work("other", 1, 1, arrival=20)
    pending = {each.key: each for each in (HEAD, other)}
    snapshot = replace(half_full(), pending=pending, now=NOW + 60)
    _, memo = decide(snapshot, Memo())
    assert memo.until == NOW + 2 * HOUR
    for later in (HOUR, 2 * HOUR, 2 * HOUR + 1, 5 * HOUR):
        after = replace(snapshot, now=NOW + later)
        assert decide(after, memo)[0] == decide(after, Memo())[0]


def test_declared_run_times_are_rounded_up_to_few_steps() -> None:
    times = {seconds: run_time_class(work("w", 1, 1, run_time=seconds)) for seconds in (1, 60, 61, 10**6)}
    assert times == {1: 60, 60: 60, 61: 300, 10**6: 2 * 604800}
    assert run_time_class(work("w", 1, 1)) is None


def limited(snapshot: Snapshot, gpus: int, *, deserved: int | None = None) -> Snapshot:
    """Queue a may use so many GPUs, and deserves as many, or these."""
    limits = Limits(deserved={GPU: (deserved or gpus) * 1000}, capability={GPU: gpus * 1000})
    return replace(snapshot, queues={**snapshot.queues, A: replace(snapshot.queues[A], limits=limits)})


def test_a_gang_that_lacks_quota_keeps_it_for_when_it_has_enough() -> None:
    """Twelve are allowed, eight used for two hours; of the four that are free none is left when the gang is in."""
    snapshot = running(limited(cluster(nodes=3), 12), work("long", 1, 8, run_time=2 * HOUR))
    gang = work("gang", 2, 6, arrival=10)
    brief = work("brief", 1, 4, arrival=20, run_time=HOUR)
    other, elsewhere = work("other", 1, 4, arrival=20), work("elsewhere", 1, 4, arrival=20, queue=B)
    assert admitted(turn(snapshot, gang, brief)) == {"brief"}
    plan = turn(snapshot, gang, other, elsewhere)
    assert (admitted(plan), code(plan, gang), code(plan, other)) == ({"elsewhere"}, "QueueLimit", "Reserved")
    narrow = work("narrow", 2, 4, arrival=10)
    assert admitted(turn(snapshot, narrow, other)) == {"other"}


def test_whose_quota_is_used_up_hides_nobody_who_lacks_room() -> None:
    """Eight gangs have waited longer than the one that keeps its place, all at limits of their queues."""
    snapshot = running(cluster(nodes=3), work("long", 1, 8, run_time=2 * HOUR))
    plain = replace(snapshot.queues[A], limits=Limits(capability={GPU: 1000}))
    queues = {(name := QueueName(f"q{number}")): replace(plain, name=name) for number in range(8)}
    snapshot = replace(snapshot, queues={**snapshot.queues, **queues})
    for name in queues:
        snapshot = running(snapshot, work(f"in-{name}", 1, 1, queue=name))
    waiting = [work(f"of-{name}", 2, 1, arrival=2, queue=name) for name in queues]
    other = work("other", 1, 1, 20)
    assert code(turn(snapshot, *waiting, HEAD, other), other) == "Reserved"


def test_what_nobody_clears_away_does_not_make_a_place() -> None:
    """Gangs are not cleared away, so nobody knows when they are gone; single pods are, after an hour."""
    protected = work("protected", 1, 1, arrival=20, preemptable=False)
    for pods, passes in ((2, True), (1, False)):
        snapshot = running(cluster(clear_after=HOUR), work("there", pods, 1), work("full", 1, 7))
        assert admitted(turn(snapshot, HEAD, protected)) == ({"protected"} if passes else set())


PORT = (HostPort(port=80),)


def with_ports(workload: Workload) -> Workload:
    (pods,) = workload.pod_sets
    return replace(workload, pod_sets=(replace(pods, ports=PORT),))


def test_host_ports_of_a_place_are_kept_as_well() -> None:
    """Of two nodes one is full for two hours; the gang needs the port on both."""
    gang = with_ports(work("gang", 2, 1, arrival=10))
    other = with_ports(work("other", 1, 0, arrival=20))
    plan = turn(half_full(), gang, other)
    assert (admitted(plan), code(plan, other)) == (set(), "Reserved")
    assert admitted(turn(half_full(), gang, work("other", 1, 0, arrival=20))) == {"other"}


def test_the_port_of_whoever_leaves_is_free_then() -> None:
    snapshot = running(cluster(), with_ports(work("long", 1, 8, run_time=2 * HOUR)))
    (seat,) = next(iter(snapshot.admissions.values())).seats
    snapshot = replace(snapshot, nodes=replace(snapshot.nodes, ports={seat.node: PORT}))
    other = work("other", 1, 1, arrival=20)
    assert code(turn(snapshot, with_ports(HEAD), other), other) == "Reserved"

"""A gang that nobody makes room for keeps the place of those who passed it, if its queue has less than its share."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from admission.engine.backfill import reservation
from admission.engine.backfill.departures import expected_departures
from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.levels import HOST
from admission.engine.pending import waiting_time
from admission.engine.snapshot import Snapshot
from queues.admissions import Admission
from queues.workload import Workload, WorkloadKey
from tests.builders.decided_work import admitted, gpu_pods, plan_of
from tests.unit.admission.engine.backfill.test_reservation import (
    NOW,
    B,
    cluster,
    code,
    limited,
    running,
    turn,
    work,
)

NEVER = 10**9
HEAD = work("head", 2, 8, arrival=10)
OTHER = work("other", 1, 1, arrival=30, queue=B)


def passed(*, nodes: int = 3, first: int = 0, second: int = 20, clear_after: int = NEVER) -> Snapshot:
    """Two of three nodes are taken, by work that was admitted so many seconds after the start."""
    snapshot = cluster(nodes=nodes, clear_after=clear_after)
    for name, after in (("first", first), ("second", second)):
        snapshot = running(replace(snapshot, now=NOW + after), work(name, 1, 8, queue=B))
    return snapshot


def test_it_keeps_the_place_of_the_one_who_came_in_after_it() -> None:
    plan = turn(passed(), HEAD, OTHER)
    assert admitted(plan) == set()
    assert code(plan, OTHER) == "Reserved"
    assert code(plan, HEAD) == "NoFit"
    assert "head" in plan.reasons[OTHER.key].message


def test_what_it_will_not_need_is_for_everybody() -> None:
    """The second has a node of its own in the way; of two free nodes the gang needs one."""
    assert admitted(turn(passed(nodes=4), work("head", 3, 8, arrival=10), OTHER)) == set()
    wide = replace(OTHER, key=WorkloadKey(OTHER.key.kind, "wide"), name="wide")
    plan = turn(passed(nodes=4), work("head", 3, 7, arrival=10), OTHER, wide)
    assert admitted(plan) == {"other", "wide"}


@pytest.mark.parametrize(("first", "second", "passes"), [(6, 4, False), (4, 6, True)])
def test_the_place_is_that_of_whoever_has_run_for_the_shorter_time(
    first: int, second: int, passes: bool
) -> None:
    """Two nodes could be the gang's; what only the newer one's node has room for stays off it."""
    snapshot = cluster(nodes=2, clear_after=NEVER)
    for name, after, gpus in (("first", 15, first), ("second", 20, second)):
        snapshot = running(replace(snapshot, now=NOW + after), work(name, 1, gpus, queue=B))
    assert len({seat.node for each in snapshot.admissions.values() for seat in each.seats}) == 2
    pods = gpu_pods(2, 4, required_topology=HOST)
    head = replace(HEAD, pod_sets=(pods,))
    other = work("other", 1, 3, arrival=30, queue=B)
    assert admitted(turn(snapshot, head, other)) == ({"other"} if passes else set())


def test_when_all_ran_before_it_came_nothing_is_kept() -> None:
    assert admitted(turn(passed(second=5), HEAD, OTHER)) == {"other"}


def test_nothing_is_kept_where_a_place_is_cleared_within_a_day() -> None:
    assert admitted(turn(passed(clear_after=3600), HEAD, OTHER)) == {"other"}
    assert admitted(turn(passed(clear_after=86_400), HEAD, OTHER)) == {"other"}
    assert admitted(turn(passed(clear_after=86_401), HEAD, OTHER)) == set()


@pytest.mark.parametrize(("nodes", "mine", "passes"), [(5, 2, False), (6, 3, True)])
def test_a_queue_that_has_its_share_keeps_nothing(nodes: int, mine: int, passes: bool) -> None:
    """Half of the cluster is its share."""
    snapshot = running(passed(nodes=nodes), work("mine", mine, 8))
    assert admitted(turn(snapshot, HEAD, OTHER)) == ({"other"} if passes else set())


def test_single_pods_keep_nothing() -> None:
    full = running(passed(), work("small", 1, 1, queue=B))
    assert admitted(turn(full, work("single", 1, 8, arrival=10), OTHER)) == {"other"}


def test_who_is_more_urgent_takes_the_place() -> None:
    assert admitted(turn(passed(), HEAD, replace(OTHER, priority=5))) == {"other"}


def test_it_gets_the_place_and_nobody_smaller_does() -> None:
    snapshot = passed()
    free = replace(snapshot, ended={max(snapshot.admissions): frozenset({0})})
    small = work("small", 1, 1, arrival=5)
    assert admitted(turn(free, HEAD, OTHER, small)) == {"head"}


@pytest.mark.parametrize("later", [60, 3600, 86_400, 10 * 86_400])
def test_the_place_is_the_same_whatever_time_it_is(later: int) -> None:
    pending = {each.key: each for each in (HEAD, OTHER)}
    snapshot = replace(passed(), pending=pending, now=NOW + 60)
    plan, memo = decide(snapshot, Memo())
    after = replace(snapshot, now=NOW + later)
    assert decide(after, Memo())[0] == decide(after, memo)[0] == replace(plan, now=after.now)


def over(limit: int) -> Snapshot:
    """Three nodes; queue a may use so many GPUs, more than it deserves, and uses eight since before the gang came."""
    snapshot = limited(cluster(nodes=3, clear_after=NEVER), limit, deserved=8)
    return running(snapshot, work("old", 1, 6), work("more", 1, 2))


def test_a_gang_that_lacks_quota_keeps_what_those_who_passed_leave_of_it() -> None:
    """Others have what it will not need of the nodes."""
    gang, mine = work("gang", 2, 5, arrival=1), work("mine", 1, 2, arrival=30)
    older = replace(gang, created=NOW - 10)
    plan = turn(over(10), older, mine, OTHER)
    assert (admitted(plan), code(plan, mine), code(plan, older)) == ({"other"}, "Reserved", "QueueLimit")
    # Who ran before it came is not expected to be gone.
    assert admitted(turn(over(10), work("gang", 2, 5, arrival=10), mine, OTHER)) == {"mine", "other"}


def test_a_gang_without_quota_is_not_compared_with_what_runs_under_other_limits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_through: list[int] = []

    def counted(
        snapshot: Snapshot, workload: Workload, among: Collection[Admission], *more: Any, **how: Any
    ) -> Any:
        looked_through.append(len(among))
        return expected_departures(snapshot, workload, among, *more, **how)

    monkeypatch.setattr(reservation, "expected_departures", counted)
    snapshot = replace(over(10), now=NOW + 20)
    for number in range(12):
        snapshot = running(snapshot, work(f"other-{number}", 1, 1, queue=B))
    gang = work("gang", 2, 3, arrival=10)
    plan = turn(snapshot, gang, later=waiting_time.LONG_WAIT + 20)
    assert code(plan, gang) == "QueueLimit"
    assert looked_through, "the work of its own queue"
    assert max(looked_through) == 2


def test_what_was_kept_of_quota_is_for_nobody_else_when_it_is_enough() -> None:
    snapshot = over(10)
    free = replace(snapshot, ended={max(snapshot.admissions): frozenset({0})})
    gang, mine = replace(work("gang", 2, 2, arrival=10), created=NOW - 10), work("mine", 1, 2, arrival=5)
    assert admitted(turn(free, gang, mine, OTHER)) == {"gang", "other"}


@pytest.mark.parametrize(
    ("later", "passes"), [(waiting_time.LONG_WAIT - 1, True), (waiting_time.LONG_WAIT, False)]
)
def test_after_a_week_nobody_passes_any_more_where_places_should_have_been_cleared(
    later: int, passes: bool
) -> None:
    """Nothing is cleared in fact: those who are in the way are gangs."""
    snapshot = cluster(nodes=3, clear_after=3600)
    for number in range(2):
        gang = replace(work(f"gang{number}", 2, 4, queue=B), created=NOW)
        snapshot = running(replace(snapshot, now=NOW + 20 + number), gang)
    pending = {each.key: each for each in (replace(HEAD, created=NOW + 10), OTHER)}
    before = replace(snapshot, pending=pending, now=NOW + 60)
    _, memo = decide(before, Memo())
    after = replace(before, now=NOW + 10 + later)
    plan = plan_of(after)
    assert admitted(plan) == ({"other"} if passes else set())
    assert decide(after, memo)[0] == plan

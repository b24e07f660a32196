"""What follows for one workload from all that is known about it."""

from dataclasses import replace
from typing import Any

import pytest

from admission.facts.pods import Conduct, Hold, PodFact, PodPhase
from admission.facts.workloads import JobCounts, WorkloadFact
from admission.workloads.inputs import ShellHeartbeat, Timeouts, WorkloadInputs
from admission.workloads.kinds import support_of
from admission.workloads.pod_sets import TemplateShapes
from admission.workloads.pod_shapes import shape_name
from admission.workloads.state import _held_state, _waiting_state
from queues import kind_names
from queues.admissions import Recreation, Setbacks, Unready
from queues.reason_codes import ReasonCode
from queues.workload import AdmissionId, NodeName, Obstacle, PodSet, WorkloadKey
from tests.builders.facts import (
    GRACE,
    GROUP,
    JOB,
    NOW,
    TEAM,
    VOLCANO,
    admission,
    evicting,
    gated,
    gpus,
    group,
    job,
    pod,
    released,
    state_of,
    volcano_job,
    wanted,
)
from tests.tables import named_rows

ONE = AdmissionId(1)
#: The longest that a sync of the job controller makes pods of a Job of up to five: 10 seconds, and 0.2 for each.
SYNC = 11
BARE = WorkloadKey(kind_names.POD, "bare")
MEMBER = shape_name(gated("any"))
DEAD = frozenset({NodeName("n1")})
INTENT = Recreation(pod_uid="p", workload=GROUP, namespace="ns", name="p", queue=TEAM, manifest="{}")
REFUSED = (NOW - GRACE, "0/3 nodes are available")


# ── who waits ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("fact", [job(4, suspended=True), volcano_job(4)], ids=["job", "volcano job"])
def test_a_job_without_seats_waits_for_all_of_them(fact: WorkloadFact) -> None:
    found = state_of(fact)
    assert (found.needs_seats, wanted(found), found.workload.obstacle) == (True, 4, None)


@pytest.mark.parametrize(
    "fact",
    [
        job(4, suspended=True),
        job(4, indexed=True),
        job(0),
        job(2, obstacle=Obstacle(ReasonCode.INVALID_SPEC, "bad")),
        volcano_job(3),
        group(2),
        group(0, phase="Inqueue"),
    ],
    ids=lambda fact: f"{fact.key.kind} {fact.minimum}",
)
@pytest.mark.parametrize(
    "inputs",
    [
        {},
        {"avoided_nodes": DEAD, "dead_nodes": DEAD},
        {"larger": {"main": gpus(2), "worker": gpus(3)}},
        {"setbacks": Setbacks(not_before=NOW + 5, rollbacks=1)},
        {"setbacks": Setbacks(rollbacks=1, unready=Unready(revision="r", message="m"))},
        {"recreations": (INTENT,)},
        {"outcomes": {("worker", 0): PodPhase.SUCCEEDED}},
        {"templates": TemplateShapes(awaited_until=NOW + 2)},
        {"templates": TemplateShapes(refusal=Obstacle(ReasonCode.INVALID_SPEC, "no"), awaited_until=NOW + 2)},
    ],
    ids=lambda inputs: next(iter(inputs), "nothing"),
)
def test_without_pods_and_admissions_the_short_way_gives_the_same_state(
    fact: WorkloadFact, inputs: dict[str, object]
) -> None:
    given: dict[str, Any] = {"key": fact.key, "fact": fact, "pods": (), "admissions": (), "arrival": 1}
    known, support = WorkloadInputs(**given | inputs), support_of(fact.key)
    timeouts = Timeouts(refusal_grace=GRACE)
    assert _waiting_state(known, support) == _held_state(known, support, NOW, timeouts, over=False)


def test_a_job_with_all_its_seats_waits_for_nothing() -> None:
    assert not state_of(job(2), [], [admission(JOB, "n1 n2")]).needs_seats


def test_a_job_that_grew_waits_for_the_rest() -> None:
    found = state_of(job(3), [], [admission(JOB, "n1 n2", started=True)])
    assert (found.needs_seats, wanted(found)) == (True, 3)


def test_a_group_asks_for_nothing_in_the_place_of_a_pod_that_has_ended() -> None:
    """Else the place would be given to nobody, and given back, again and again."""
    over = released("a", f"{MEMBER}/0", "n1", phase=PodPhase.SUCCEEDED)
    waits = gated("b", takes=gpus(4))
    found = state_of(group(1), [over, waits], [admission(GROUP, "n1", pod_set=MEMBER, started=True)])
    assert found.ended == {ONE: frozenset({0})}
    assert found.needs_seats
    assert [pods.name for pods in found.workload.pod_sets] == [shape_name(waits)]
    alone = state_of(group(1), [over], [admission(GROUP, "n1", pod_set=MEMBER, started=True)])
    assert (alone.needs_seats, alone.workload.pod_sets) == (False, ())


def test_a_group_that_lacks_pods_says_how_many_exist() -> None:
    found = state_of(group(4), [gated("a")])
    assert found.needs_seats
    assert found.workload.obstacle == ("NotEnoughPods", "1 of 4 pods exist")


def test_who_is_done_is_part_of_the_gang_so_the_rest_still_starts_together() -> None:
    done = {("worker", index): PodPhase.SUCCEEDED for index in range(2)}
    found = state_of(volcano_job(4, minimum=4), outcomes=done)
    assert (found.workload.minimum, found.workload.pod_sets[0].wanted()) == (4, (2, 3))


def test_what_cannot_be_used_as_written_has_that_as_its_reason() -> None:
    broken = volcano_job(0, pod_sets=(), obstacle=Obstacle(ReasonCode.INVALID_SPEC, "spec.tasks: found none"))
    found = state_of(broken)
    assert found.needs_seats
    assert found.workload.obstacle == ("InvalidSpec", "spec.tasks: found none")


def test_nobody_is_admitted_anew_while_pods_of_its_last_admission_are_ending() -> None:
    leaving = evicting(admission(VOLCANO, "n1"))
    found = state_of(volcano_job(1), [released("a", "worker/0", "n1", deleting=True)], [leaving])
    assert found.workload.obstacle.code == "Evicting"


def test_a_bare_pod_waits_in_its_queue() -> None:
    found = state_of(None, [gated("bare", queue=TEAM)], key=BARE)
    assert (found.needs_seats, found.workload.queue, wanted(found)) == (True, TEAM, 1)


def test_a_bare_pod_stays_in_the_queue_that_admitted_it() -> None:
    """The default queue of a namespace is read for gated pods only."""
    taken = admission(BARE, "n1", name="bare")
    found = state_of(None, [released("bare", "pod/0", "n1")], [taken], key=BARE)
    assert found.workload.queue == TEAM


@named_rows(
    ("waits", "code"),
    {
        "it names a missing group": (gated("bare", queue=TEAM, group="gang"), "PodGroupMissing"),
        "others hold it": (gated("bare", queue=TEAM, other_gates=("example.org/wait",)), "OtherGates"),
        "it was never gated, and does not run": (pod("bare", queue=TEAM), "NotGated"),
    },
)
def test_a_bare_pod_says_what_it_waits_for(waits: PodFact, code: str) -> None:
    assert state_of(None, [waits], key=BARE).workload.obstacle.code == code


def test_a_bare_pod_that_is_being_deleted_asks_for_nothing() -> None:
    found = state_of(None, [gated("bare", queue=TEAM, deleting=True)], key=BARE)
    assert (found.needs_seats, found.is_over) == (False, True)


# ── start, refusal, loss ────────────────────────────────────────────────────────────────────────────────────


def test_a_gang_has_started_once_every_seat_has_a_bound_pod() -> None:
    taken = admission(VOLCANO, "n1 n2")
    pods = [released("a", "worker/0", "n1"), released("b", "worker/1", "n2")]
    assert state_of(volcano_job(2), pods, [taken]).started == (ONE,)
    assert state_of(volcano_job(2), [pods[0], released("b", "worker/1")], [taken]).started == ()


def test_a_refusal_counts_after_the_grace_time_only() -> None:
    taken = admission(VOLCANO, "n1")
    early = state_of(volcano_job(1), [released("a", "worker/0", refused=(NOW - GRACE + 1, "no"))], [taken])
    assert (early.evictable, early.look_at) == ({}, 0)
    late = state_of(volcano_job(1), [released("a", "worker/0", refused=REFUSED)], [taken])
    assert late.evictable[ONE].code == "Refused"


def test_each_rollback_doubles_the_wait_before_the_next_try() -> None:
    refused = [released("a", "worker/0", refused=REFUSED)]
    for rollbacks, wait in ((0, 10), (1, 20), (2, 40), (50, 600)):
        setbacks = Setbacks(rollbacks=rollbacks)
        found = state_of(volcano_job(1), refused, [admission(VOLCANO, "n1")], setbacks=setbacks)
        assert found.evictable[ONE].not_before - NOW == wait


def test_a_gang_that_lost_a_node_before_it_started_goes_back_whole() -> None:
    left = [released("b", "worker/1", "n2")]
    found = state_of(volcano_job(2), left, [admission(VOLCANO, "n1 n2")], dead_nodes=DEAD)
    assert found.evictable[ONE].code == "NodeLost"


@pytest.mark.parametrize(("lost", "back"), [("n1", {1, 2}), ("n3", {2})])
def test_what_joined_a_gang_goes_back_with_it_and_alone_if_only_it_lost_a_node(
    lost: str, back: set[int]
) -> None:
    """A Job was scaled from two pods to three between its admission and its start."""
    taken = [admission(JOB, "n1 n2"), admission(JOB, "n3", number=2, first=2)]
    found = state_of(job(3, suspended=True), [], taken, dead_nodes=frozenset({NodeName(lost)}))
    assert found.evictable.keys() == back


def test_a_started_gang_stays_when_one_pod_is_refused() -> None:
    taken = admission(VOLCANO, "n1 n2", started=True)
    pods = [released("a", "worker/0", refused=REFUSED), released("b", "worker/1", "n2")]
    found = state_of(volcano_job(2), pods, [taken])
    assert (found.evictable, tuple(pod.name for pod in found.unschedulable)) == ({}, ("a",))


def test_a_directed_job_goes_back_whole_even_after_its_start() -> None:
    """Its template names the nodes, so a single seat cannot move."""
    taken = admission(JOB, "n1 n2", started=True)
    fact = job(2, directed=ONE)
    found = state_of(fact, [released("b", None, "n2")], [taken], dead_nodes=DEAD)
    assert found.evictable[ONE].code == "NodeLost"
    # Its seat is given back with the others, when no pod is made for that node any more.
    assert found.ended == {}


def test_a_gang_goes_back_though_its_pods_have_no_owner_and_they_are_provided_for_first() -> None:
    taken = admission(GROUP, "n1 n2", pod_set=MEMBER)
    refused = released("a", f"{MEMBER}/0", refused=REFUSED, controller="")
    bound = released("b", f"{MEMBER}/1", "n2", controller="")
    assert state_of(group(2), [refused, bound], [taken]).evictable[ONE].code == "Refused"
    owned = released("c", f"{MEMBER}/1", "n2")
    going = replace(bound, deleting=True)
    leaving = evicting(taken)
    assert state_of(group(2), [refused, bound], [leaving]).to_recreate == (refused, bound)
    assert state_of(group(2), [refused, owned], [leaving]).to_recreate == (refused,)
    assert state_of(group(2), [refused, going], [leaving]).to_recreate == (refused,)


def test_a_pod_without_an_owner_that_lost_its_seat_is_provided_for() -> None:
    lone = released("a", f"{MEMBER}/0", refused=REFUSED, controller="")
    started = state_of(group(1), [lone], [admission(GROUP, "n1", pod_set=MEMBER, started=True)])
    assert (started.evictable, started.unschedulable, started.to_recreate) == ({}, (lone,), (lone,))
    bare = released("bare", "pod/0", "n1", by=7, controller="", queue=TEAM)
    stray = state_of(None, [bare], key=BARE, closed=frozenset({AdmissionId(7)}))
    assert (stray.leftovers, stray.to_recreate) == ((bare,), (bare,))
    # It was let go for a group that is gone, by a request that came late; the group's admission is forgotten.
    late = replace(bare, node=None, group="gone")
    assert state_of(None, [late], key=BARE).to_recreate == (late,)


def test_a_bare_pod_that_is_being_made_again_waits_and_asks_for_nothing_yet() -> None:
    again = Recreation(pod_uid="bare", workload=BARE, namespace="ns", name="p", queue=TEAM, manifest="{}")
    found = state_of(None, key=BARE, recreations=(again,))
    assert (found.needs_seats, found.is_over, wanted(found)) == (True, False, 0)
    assert (found.workload.queue, found.workload.namespace, found.workload.name) == (TEAM, "ns", "p")
    assert found.workload.obstacle.code == "BeingRecreated"


def test_a_group_says_how_many_of_its_pods_are_being_made_again() -> None:
    again = Recreation(pod_uid="a", workload=GROUP, namespace="ns", name="a", queue=TEAM, manifest="{}")
    found = state_of(group(2), [gated("b")], recreations=(again,))
    told = "1 of 2 pods exist; 1 were taken back and are being made again"
    assert found.workload.obstacle == ("NotEnoughPods", told)


# ── what is over ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["finished", "deleting"])
def test_a_job_that_is_over_gives_back_every_seat_without_a_live_pod(how: str) -> None:
    taken = admission(JOB, "n1 n2", started=True)
    found = state_of(job(2, **{how: True}), [released("a", "main/0", "n1")], [taken], pods_seen=True)
    assert (True, {ONE: frozenset({1})}) == (found.is_over, found.ended)


def test_an_object_that_is_gone_leaves_its_seats_when_its_pods_are_gone() -> None:
    taken = admission(GROUP, "n1 n2", pod_set=MEMBER, started=True)
    found = state_of(None, [released("a", f"{MEMBER}/0", "n1")], [taken])
    assert (True, {ONE: frozenset({1})}) == (found.is_over, found.ended)
    assert {ONE: frozenset({0, 1})} == state_of(None, [], [taken]).ended


def test_what_is_over_is_leaving_from_when_that_was_first_seen() -> None:
    taken = admission(GROUP, "n1 n2", pod_set=MEMBER, started=True)
    left = [released("a", f"{MEMBER}/0", "n1")]
    found = state_of(None, left, [taken])
    assert (found.leaving(), found.remembered.over_since) == ((ONE,), NOW)
    assert state_of(None, left, [taken], over_since=NOW - 9).remembered.over_since == NOW - 9
    assert state_of(group(2), left, [taken], over_since=NOW - 9).remembered.over_since == 0


def test_what_is_evicted_is_leaving_since_its_eviction_and_not_a_second_time() -> None:
    assert state_of(None, [], [evicting(admission(GROUP, "n1", pod_set=MEMBER))]).leaving() == ()


def test_a_suspended_job_gives_seats_back_only_when_its_controller_counts_no_pod() -> None:
    leaving = evicting(admission(JOB, "n1"))
    assert state_of(job(1, suspended=True, suspended_at=NOW, active=1), [], [leaving]).ended == {}
    assert state_of(job(1), [], [leaving]).ended == {}
    assert {ONE: frozenset({0})} == state_of(job(1, suspended=True, suspended_at=NOW), [], [leaving]).ended


def test_a_suspended_job_keeps_its_seats_while_a_sync_of_its_controller_may_still_make_pods() -> None:
    # A sync has made two of four, and writes status.active at its end.
    leaving = evicting(admission(JOB, "n1 n1 n1 n1"))
    made = [released("a", "main/0", "n1"), released("b", "main/1", "n1")]
    idle = job(4, suspended=True, directed=ONE, suspended_at=leaving.opened_at - 5)
    found = state_of(idle, made, [leaving])
    assert (found.ended, found.remembered.stopping_since, found.look_at) == ({}, NOW, NOW + SYNC)
    later = state_of(idle, made, [leaving], now=NOW + SYNC - 1, stopping_since=NOW)
    assert (later.ended, later.remembered.stopping_since, later.look_at) == ({}, NOW, NOW + SYNC)
    found = state_of(idle, made, [leaving], now=NOW + SYNC, stopping_since=NOW)
    assert (found.ended, found.look_at) == ({ONE: frozenset({2, 3})}, None)


@pytest.mark.parametrize(
    "told",
    [0, NOW - 61, NOW - 60, NOW - 11],
    ids=["never", "before the opening", "in the second of the opening", "before the eviction"],
)
def test_only_a_suspension_told_after_the_eviction_says_that_no_sync_makes_pods(told: int) -> None:
    leaving = replace(evicting(admission(JOB, "n1")), evicted_at=NOW - 10)
    assert state_of(job(1, suspended=True, directed=ONE, suspended_at=told), [], [leaving]).ended == {}
    after = state_of(job(1, suspended=True, directed=ONE, suspended_at=NOW - 10), [], [leaving])
    assert (after.ended, after.remembered.stopping_since) == ({ONE: frozenset({0})}, 0)


def test_a_suspension_told_before_the_job_was_resumed_says_nothing_in_the_second_of_the_eviction() -> None:
    leaving = replace(evicting(admission(JOB, "n1")), opened_at=NOW, evicted_at=NOW)
    fact = job(1, suspended=True, directed=ONE, suspended_at=NOW)
    found = state_of(fact, [], [leaving], suspended_before=NOW)
    assert (found.ended, found.remembered.stopping_since) == ({}, NOW)
    found = state_of(fact, [], [leaving], suspended_before=NOW - 1)
    assert (found.ended, found.remembered.stopping_since) == ({ONE: frozenset({0})}, 0)


def test_what_a_job_tells_counts_for_nothing_while_it_may_be_resumed() -> None:
    leaving = evicting(admission(JOB, "n1 n1"))
    awaited = {ONE: frozenset({0, 1})}
    resumed = state_of(job(2, suspended=True), [], [leaving], awaited=awaited)
    assert (resumed.ended, resumed.remembered.pods_seen) == ({}, False)
    gone = state_of(None, [], [leaving], pods_seen=resumed.remembered.pods_seen)
    assert (gone.ended, gone.remembered.stopping_since) == ({}, NOW)


@pytest.mark.parametrize("directed", [None, AdmissionId(7)], ids=["pod by pod", "for another admission"])
def test_pods_that_come_up_behind_a_gate_take_no_seat_however_late(directed: AdmissionId | None) -> None:
    leaving = evicting(admission(JOB, "n1"))
    found = state_of(job(1, suspended=True, directed=directed), [], [leaving])
    assert (found.ended, found.remembered.stopping_since) == ({ONE: frozenset({0})}, 0)


@pytest.mark.parametrize(("pods", "seconds"), [(2, 11), (100, 30), (500, 110), (1_000, 110)])
def test_a_sync_is_waited_for_as_long_as_its_pods_take(pods: int, seconds: int) -> None:
    leaving = evicting(admission(JOB, "n1"))
    found = state_of(job(pods, suspended=True, directed=ONE, parallelism=pods), [], [leaving])
    assert found.look_at == NOW + seconds


def test_a_job_that_was_made_smaller_is_waited_for_as_the_large_one_it_was() -> None:
    leaving = evicting(admission(JOB, "n1 " * 50))
    assert state_of(job(1, suspended=True, directed=ONE), [], [leaving]).look_at == NOW + 20


def test_the_wait_for_a_sync_begins_anew_once_the_job_runs_or_counts_pods() -> None:
    leaving = evicting(admission(JOB, "n1"))
    for fact in (job(1, directed=ONE), job(1, suspended=True, directed=ONE, active=1)):
        assert state_of(fact, [], [leaving], stopping_since=NOW - SYNC).remembered.stopping_since == 0


@pytest.mark.parametrize(
    "fact",
    [None, job(2, directed=ONE, deleting=True), job(2, suspended=True, deleting=True)],
    ids=["gone", "being deleted", "perhaps resumed since"],
)
@pytest.mark.parametrize("started", [False, True], ids=["first pods", "replacements"])
def test_a_job_deleted_while_its_controller_makes_pods_keeps_its_seats_as_long_as_a_sync_takes(
    fact: WorkloadFact | None, started: bool
) -> None:
    taken = admission(JOB, "n1 n1", started=started)
    found = state_of(fact, [], [taken])
    assert (found.ended, found.remembered.stopping_since, found.look_at) == ({}, NOW, NOW + SYNC)
    assert not found.is_stopped
    later = state_of(fact, [], [taken], now=NOW + SYNC, stopping_since=NOW)
    assert (later.ended, later.is_stopped) == ({ONE: frozenset({0, 1})}, True)


@pytest.mark.parametrize("fact", [None, job(2, directed=ONE, deleting=True)], ids=["gone", "being deleted"])
@pytest.mark.parametrize("started", [False, True], ids=["not started", "started"])
def test_a_job_that_lacked_no_pod_is_not_waited_for_when_it_is_deleted(
    fact: WorkloadFact | None, started: bool
) -> None:
    taken = admission(JOB, "n1 n1", started=started)
    found = state_of(fact, [], [taken], pods_seen=True)
    assert (found.ended, found.remembered.stopping_since, found.remembered.pods_seen) == (
        {ONE: frozenset({0, 1})},
        0,
        True,
    )


def test_a_job_that_is_deleted_after_it_was_suspended_is_not_waited_for() -> None:
    leaving = evicting(admission(JOB, "n1"))
    told = job(1, suspended=True, directed=ONE, suspended_at=NOW)
    assert state_of(told, [], [leaving]).remembered.pods_seen
    assert state_of(replace(told, deleting=True), [], [leaving]).ended == {ONE: frozenset({0})}
    assert state_of(replace(told, suspended_at=0, deleting=True), [], [leaving]).ended == {}


@named_rows(
    ("says", "stopped"),
    {
        "idle": ({"suspended": True, "suspended_at": NOW}, True),
        "counts a pod": ({"suspended": True, "suspended_at": NOW, "active": 1}, False),
        "runs": ({}, False),
        "has finished": ({"finished": True}, False),
        "is being deleted": ({"deleting": True}, True),
    },
)
def test_a_job_that_leaves_its_seats_is_stopped_once_no_pods_are_made(
    says: dict[str, Any], stopped: bool
) -> None:
    leaving = evicting(admission(JOB, "n1", started=True))
    assert state_of(job(1, directed=ONE, **says), [], [leaving], pods_seen=True).is_stopped is stopped


def test_live_pods_of_closed_admissions_are_strays() -> None:
    late = released("a", "worker/0", "n1", by=7)
    found = state_of(volcano_job(1), [late], closed=frozenset({AdmissionId(7)}))
    assert tuple(pod.name for pod in found.leftovers) == ("a",)
    assert found.unbooked is None


def test_a_job_of_several_sets_keeps_each_sets_minimum() -> None:
    sizes = (("ps", 1, 1), ("worker", 4, 2))
    sets = tuple(PodSet(name=name, count=count, minimum=least, takes=gpus()) for name, count, least in sizes)
    found = state_of(volcano_job(0, minimum=3, pod_sets=sets), outcomes={("worker", 0): PodPhase.FAILED})
    assert [pods.minimum for pods in found.workload.pod_sets] == [1, 2]


def test_volcano_pods_keep_their_seats_while_the_job_is_there() -> None:
    assert state_of(volcano_job(1), [], [admission(VOLCANO, "n1", started=True)]).ended == {}


def test_a_replacement_that_is_refused_waits_for_its_predecessor_to_go() -> None:
    fact = job(2, directed=ONE)
    leaving = released("old", None, "n1", deleting=True)
    stays = released("stays", None, "n2")
    refused = released("new", None, refused=(NOW - 60, "no room"))
    held = [admission(JOB, "n1 n2", started=True)]
    assert state_of(fact, [leaving, stays, refused], held).evictable == {}
    just_gone = state_of(fact, [stays, refused], held, pod_left_at=NOW - GRACE + 1)
    assert just_gone.evictable == {}
    assert just_gone.look_at == 0
    long_gone = state_of(fact, [stays, refused], held, pod_left_at=NOW - GRACE)
    assert long_gone.evictable[ONE].code == "Refused"


def test_a_refusal_of_a_pod_without_a_seat_is_looked_at_again_in_time() -> None:
    refused = released("new", None, refused=(NOW, "no room"))
    waiting = state_of(job(1, directed=ONE), [refused], [admission(JOB, "n1", started=True)])
    assert (waiting.evictable, waiting.look_at) == ({}, 0)


def succeeded(name: str, seat: str | None, **facts: Any) -> PodFact:
    return released(name, seat, "n1", phase=PodPhase.SUCCEEDED, **facts)


def wants(count: int, of: int, done: int = 0) -> WorkloadFact:
    """A Job of so many completions, as many at a time as are left, of which its status counts ``done``."""
    counts = JobCounts(parallelism=count, completions=of, succeeded=done)
    return job(min(count, of - done), parallelism=count, counts=counts, directed=AdmissionId(1))


A, B, RUNS = succeeded("a", None), succeeded("b", None), released("b", None, "n1")
ONE_INDEX = job(2, counts=JobCounts(parallelism=2, completions=3, over=()))


@named_rows(
    ("fact", "pods", "ended", "needs_seats"),
    {
        "not counted yet": (wants(2, 2, 0), (A, RUNS), 1, False),
        "counted": (wants(2, 2, 1), (A, RUNS), 1, False),
        "a Job with more to do keeps the seat for its next pod": (wants(2, 4), (A, RUNS), 0, False),
        "when all have succeeded nothing is held or wanted": (wants(2, 2), (A, B), 2, False),
        "two pods of one index count once": (ONE_INDEX, (replace(A, index=3), replace(B, index=3)), 0, False),
    },
)
def test_a_seat_is_given_back_when_its_pod_has_succeeded(
    fact: WorkloadFact, pods: tuple[PodFact, ...], ended: int, needs_seats: bool
) -> None:
    held = admission(JOB, "n1 n1", started=True)
    state = state_of(fact, pods, [held])
    assert len(state.ended.get(held.id, ())) == ended
    assert state.needs_seats is needs_seats


def test_the_seat_of_an_index_is_given_back_when_its_pod_has_succeeded() -> None:
    held = admission(JOB, "n1 n1", started=True)
    pods = (succeeded("a", "main/1", index=1), released("b", "main/0", "n1", index=0))
    state = state_of(job(2, indexed=True), pods, [held])
    assert state.ended == {held.id: frozenset((1,))}
    assert not state.needs_seats


def test_what_runs_says_that_it_is_on_hold_and_how_many_of_its_members_are_done() -> None:
    counts = JobCounts(parallelism=10, completions=200, succeeded=11, over=((0, 11),))
    array = job(2, conduct=Conduct(hold=Hold.ADMISSION), counts=counts)
    held, members = state_of(array, [], [admission(JOB, "n1 n1", started=True)]).notes
    assert "`kubectl muster unhold job/train -n ns` ends that" in held
    assert members == "11 of 200 members have succeeded, 1 failed for good"
    assert state_of(array).notes == (), "what waits says it as its reason"


# ── Jobs that grow ──────────────────────────────────────────────────────────────────────────────────────────


def test_pods_that_are_added_to_a_job_that_runs_may_join_it_one_by_one() -> None:
    held = admission(JOB, "n1 n1", started=True, minimum=2)
    found = state_of(job(4), [released("a", "main/0", "n1"), released("b", "main/1", "n1")], [held])
    assert (found.needs_seats, wanted(found), found.workload.minimum) == (True, 4, 2)
    smaller = state_of(job(1), [released("a", "main/0", "n1")], [held])
    assert smaller.workload.minimum == 1
    assert smaller.ended == {ONE: frozenset({1})}, "its seat is given back"
    assert state_of(job(4, suspended=True), [], [evicting(held)]).workload.minimum == 4, "it starts anew"


def test_a_job_that_has_grown_goes_on_without_what_was_added() -> None:
    """Of 2 and 1 that joined later one is lost: the gang has as many as it was admitted with."""
    held = admission(JOB, "n1 n1", started=True, minimum=2)
    joined = admission(JOB, "n1", number=2, first=2, started=True, minimum=2)
    pods = [released("a", "main/0", "n1"), released("c", "main/2", "n1", by=2)]
    found = state_of(job(3, active=3), pods, [held, joined])
    assert not found.evictable
    assert all(not since.needed for since in found.remembered.missing_since.values())


# ── shells ──────────────────────────────────────────────────────────────────────────────────────────────────────


@named_rows(
    ("facts", "seen", "ends", "since"),
    {
        "the first heartbeat": ({"heartbeat": "a"}, ShellHeartbeat(), False, NOW),
        "another one": ({"heartbeat": "b"}, ShellHeartbeat("a", NOW - 1000), False, NOW),
        "the same for less than five minutes": ({"heartbeat": "a"}, ShellHeartbeat("a", NOW - 299), False, NOW - 299),
        "the same for five minutes": ({"heartbeat": "a"}, ShellHeartbeat("a", NOW - 300), True, NOW - 300),
        "it was taken away": ({}, ShellHeartbeat("a", NOW - 300), False, NOW),
        "a controller makes another": (
            {"heartbeat": "a", "controller": "deployment/web"}, ShellHeartbeat("a", NOW - 300), False, NOW
        ),
    },
)  # fmt: skip
@pytest.mark.parametrize("waits", [True, False], ids=["it waits", "it runs"])
def test_a_shell_that_nobody_is_at_is_removed_after_five_minutes(
    facts: dict[str, Any], seen: ShellHeartbeat, ends: bool, since: int, waits: bool
) -> None:
    facts = {"queue": TEAM, "controller": "", **facts}
    shell = gated("bare", **facts) if waits else released("bare", "pod/0", "n1", **facts)
    held = [] if waits else [admission(BARE, "n1", name="bare", started=True)]

    found = state_of(None, [shell], held, key=BARE, heartbeat=seen)
    assert (found.abandoned == (shell,), found.remembered.heartbeat.since) == (ends, since)
    heard = found.remembered.heartbeat
    assert not heard.text or ends or found.look_at == heard.since + 300, "it is looked at again by then"
    assert (shell in found.to_recreate) is False, "nobody wants it back"


def test_a_pod_of_a_gang_is_no_shell() -> None:
    member = gated("any", heartbeat="a", controller="")
    found = state_of(group(1), [member], heartbeat=ShellHeartbeat("a", NOW - 300))
    assert found.abandoned == ()

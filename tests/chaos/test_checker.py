"""Each check of the chaos checker finds its breach, and finds nothing in a history in which nothing went wrong."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from queues.api import names
from tests.builders.chaos_history import (
    BIG,
    GROUP,
    JOB,
    LEADER,
    MEMBERS,
    NODE,
    QUEUE,
    WORKER,
    Story,
    add_worker,
    admission,
    bind,
    decision,
    fence,
    good_story,
    lease,
    let_go,
    pod,
    posting,
    succeed,
    with_row,
    without_rows,
    workload,
    written_by,
)
from tests.chaos.checker import books, ending, gangs, leaders, pods, reasons
from tests.chaos.checker.checker import CHECKS, breaches
from tests.chaos.checker.recording import Recording
from tests.chaos.history import JOB_CONTROLLER, USER, Document, History, LogLine
from tests.fakes.fake_objects import GPU

Breaking = Callable[[], History]


def test_nothing_is_found_in_a_history_in_which_nothing_went_wrong() -> None:
    assert breaches(good_story().history()) == []


def test_every_check_has_a_story_that_breaks_it() -> None:
    assert {check for check, _ in BROKEN} == set(CHECKS)


def test_a_breach_names_its_check_and_where_it_was_seen() -> None:
    history = without_rows(good_story().history(), "postings", 0)
    assert "postings are what admissions gain and lose: admit of admission 1" in str(breaches(history)[0])
    assert "row change" in str(breaches(history)[0])


# ── the ledger ──────────────────────────────────────────────────────────────────────────────────────────────────


def a_node_balance_is_wrong() -> History:
    return with_row(good_story().history(), "node_balances", used=3000)


def a_queue_balance_is_wrong() -> History:
    return with_row(good_story().history(), "queue_balances", 1, counted=3000)


def a_posting_is_missing() -> History:
    return without_rows(good_story().history(), "postings", 1)


def a_posting_is_there_twice() -> History:
    story = good_story()
    story.commit(("fences", fence(1, 3), fence(1, 4)), ("postings", None, posting(9, "admit", 1, 4, 4000)))
    return story.history()


def a_queue_goes_above_its_limit() -> History:
    return with_row(good_story().history(), "queue_limits", ceiling=3000)


def a_node_holds_more_than_it_offers() -> History:
    return with_row(good_story().history(), "node_limits", amount=3000)


def a_seat_is_on_a_node_that_takes_none() -> History:
    return with_row(good_story().history(), "nodes", usable=False)


def a_workload_is_admitted_twice() -> History:
    story = good_story()
    story.commit(
        ("fences", fence(1, 3), fence(1, 4)),
        ("admissions", None, admission(3, "vcjob", JOB, "worker", 1, 1)),
        ("decisions", None, decision(9, "admit", 3, 4)),
    )
    return story.history()


def an_admission_vanishes() -> History:
    story = good_story()
    story.commit(("admissions", admission(2, "vcjob", JOB, "worker", 1, 1), None))
    return story.history()


def an_admission_is_opened_again() -> History:
    story = good_story()
    closed = {**admission(1, "podgroup", GROUP, "main", 2, 2), "state": "closed", "ended": [0, 1]}
    story.commit(("admissions", closed, {**closed, "state": "open", "ended": []}))
    return story.history()


def a_closed_admission_holds_a_seat() -> History:
    return with_row(good_story().history(), "admissions", 1, ended=[0])


# ── leaders ─────────────────────────────────────────────────────────────────────────────────────────────────────


def a_lease_is_taken_before_its_end() -> History:
    story = good_story()
    story.commit(("leases", lease(1, LEADER, 60.0), lease(2, "replica-2", 70.0)), writer="replica-2")
    return story.history()


def a_term_is_left_out() -> History:
    story = good_story()
    story.commit(("leases", lease(1, LEADER, 0.0), lease(3, "replica-2", 70.0)), writer="replica-2")
    return story.history()


def a_lease_is_renewed_after_its_end() -> History:
    story = good_story()
    story.commit(("leases", lease(1, LEADER, 0.5), lease(1, LEADER, 60.0)))
    return story.history()


def a_lease_of_others_is_renewed() -> History:
    story = good_story()
    story.commit(("leases", lease(1, LEADER, 5.0), lease(1, LEADER, 60.0)), writer="replica-2")
    return story.history()


def a_deposed_leader_writes() -> History:
    story = good_story()
    expired, won = lease(1, LEADER, 0.5), lease(2, "replica-2", 60.0)
    story.commit(("leases", expired, won), ("fences", fence(1, 3), fence(2, 3)), writer="replica-2")
    story.commit(("workloads", None, workload("job", "uid-late")))
    return story.history()


def two_replicas_write_in_one_term() -> History:
    return written_by(good_story().history(), 3, "replica-2")


def a_plan_is_applied_without_the_fence() -> History:
    return without_rows(good_story().history(), "fences", 1)


def a_plan_is_applied_on_an_old_sequence() -> History:
    return with_row(good_story().history(), "postings", ledger_seq=0)


# ── gangs and pods ──────────────────────────────────────────────────────────────────────────────────────────────


def half_a_gang_is_admitted() -> History:
    return with_row(
        good_story().history(),
        "admissions",
        pod_sets=["main"],
        ordinals=[0],
        nodes=[NODE],
        shape_of=[0],
        flavors=[""],
    )


def half_a_gang_is_evicted() -> History:
    story = Story()
    story.put(
        "podgroups",
        {
            "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": "default", "uid": GROUP},
            "spec": {"minMember": 2, "queue": QUEUE},
        },
    )
    one = admission(1, "podgroup", GROUP, "main", 1, 1)
    other = {**admission(2, "podgroup", GROUP, "main", 1, 1), "ordinals": [1]}
    story.commit(("admissions", None, one), ("admissions", None, other))
    story.commit(("admissions", one, {**one, "state": "evicting"}))
    return story.history()


def a_gated_pod_is_let_go_without_an_admission() -> History:
    story = good_story()
    story.change(BIG, "pods", LEADER, lambda big: big["spec"].pop("schedulingGates"))
    return story.history()


def a_pod_is_let_go_for_the_seat_of_others() -> History:
    story = good_story()
    story.change(BIG, "pods", LEADER, lambda big: let_go(big, 2, "worker/0"))
    return story.history()


def a_pod_asks_more_than_its_seat() -> History:
    return with_row(good_story().history(), "admissions", 2, shapes=[{GPU: 500}])


def a_pod_is_let_go_before_its_admission() -> History:
    history = good_story().history()
    return replace(history, began=history.began - 5)


def two_pods_have_one_seat() -> History:
    story = good_story()
    add_worker(story, "uid-again")
    return story.history()


def a_task_runs_again_after_its_success() -> History:
    story = good_story()
    story.change(WORKER, "pods", "kubelet", succeed)
    add_worker(story, "uid-again")
    return story.history()


def a_seat_is_given_back_under_its_pod() -> History:
    story = good_story()
    held = admission(2, "vcjob", JOB, "worker", 1, 1)
    story.commit(("admissions", held, {**held, "state": "closed", "ended": [0]}))
    story.now += 1.0
    story.change(WORKER, "pods", "kubelet", succeed)
    return story.history()


def a_node_is_too_small_for_its_pods() -> History:
    story = good_story()
    for number in range(4):
        story.put("pods", pod(f"p{number}", f"uid-p{number}", 1))
        story.change(f"uid-p{number}", "pods", "scheduler", bind)
    return story.history()


def pods_are_let_go_for_a_node_that_is_too_small() -> History:
    story = good_story()
    for number in range(4):
        story.put("pods", pod(f"p{number}", f"uid-p{number}", 1))
        story.change(f"uid-p{number}", "pods", LEADER, lambda one: let_go(one, 1, "main/0"))
    return story.history()


def a_job_has_more_pods_than_seats() -> History:
    story = good_story()
    for uid in ("uid-one", "uid-two"):
        made = pod(uid, uid, 1, annotations={names.ADMISSION_ID: "2"})
        del made["spec"]["schedulingGates"]
        story.put("pods", made, JOB_CONTROLLER)
    return story.history()


def a_pod_of_a_job_is_made_after_its_seat_was_given_back() -> History:
    story = good_story()
    held = {**admission(3, "job", "uid-j", "main", 2, 1), "state": "evicting"}
    story.commit(("admissions", None, held))
    story.now += 1.0
    story.commit(("admissions", held, {**held, "ended": [1]}))
    story.now += 1.0
    for uid in ("uid-one", "uid-late"):
        made = pod(uid, uid, 1, annotations={names.ADMISSION_ID: "3"})
        del made["spec"]["schedulingGates"]
        story.put("pods", made, JOB_CONTROLLER)
    return story.history()


def recreated(story: Story, uid: str) -> None:
    story.put("pods", pod("single", uid, 1, annotations={names.RECREATED_FROM: "uid-single"}), LEADER)


def a_pod_is_made_again_twice() -> History:
    story = good_story()
    for uid in ("uid-one", "uid-two"):
        recreated(story, uid)
    return story.history()


def a_pod_that_was_taken_back_does_not_return() -> History:
    story = good_story()
    story.put("pods", pod("single", "uid-single", 1), USER)
    story.put("pods", story.known["uid-single"], LEADER, "DELETED")
    return story.history()


def a_pod_that_was_taken_back_and_so_ended_does_not_return() -> History:
    story = good_story()
    story.put("pods", pod("single", "uid-single", 1), USER)
    story.change(
        "uid-single",
        "pods",
        LEADER,
        lambda one: one["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"),
    )
    story.change("uid-single", "pods", "kubelet", lambda one: one["status"].update(phase="Failed"))
    story.put("pods", story.known["uid-single"], "kubelet", "DELETED")
    return story.history()


def what_a_user_wrote_is_overwritten() -> History:
    story = good_story()
    story.change(JOB, "jobs.batch.volcano.sh", LEADER, lambda job: job["spec"].update(minAvailable=0))
    return story.history()


def a_group_is_completed_before_its_pods() -> History:
    story = good_story()
    story.put(
        "podgroups",
        {
            "kind": "PodGroup",
            "metadata": {"name": "h", "namespace": "default", "uid": "uid-h"},
            "spec": {"minMember": 1},
        },
    )
    story.change("uid-h", "podgroups", LEADER, lambda group: group.update(status={"phase": "Completed"}))
    return story.history()


# ── at rest ─────────────────────────────────────────────────────────────────────────────────────────────────────


def a_defect_is_logged() -> History:
    line = LogLine(replica=LEADER, message="term ended by a defect", level="error")
    return replace(good_story().history(), log=(line,))


def it_never_comes_to_rest() -> History:
    return replace(good_story().history(), unrest="no replica leads")


def half_a_gang_runs() -> History:
    story = good_story()
    story.change(JOB, "jobs.batch.volcano.sh", USER, lambda job: job["spec"].update(minAvailable=2))
    return story.history()


def a_workload_was_never_taken_in() -> History:
    return without_rows(good_story().history(), "workloads", 1)


def no_reason_to_wait_is_told() -> History:
    story = good_story()
    story.change(BIG, "pods", LEADER, lambda big: big["status"].pop("conditions"))
    return without_rows(story.history(), "reasons")


def a_workload_is_gone_and_still_stored() -> History:
    story = good_story()
    story.put("pods", story.known[BIG], USER, "DELETED")
    return story.history()


def an_eviction_never_ends() -> History:
    story = good_story()
    held = admission(2, "vcjob", JOB, "worker", 1, 1)
    story.commit(("admissions", held, {**held, "state": "evicting"}))
    return story.history()


def a_seat_is_held_without_a_pod() -> History:
    story = good_story()
    story.put("pods", story.known[WORKER], "kubelet", "DELETED")
    return story.history()


def a_pod_of_a_closed_admission_lives_on() -> History:
    story = good_story()
    held = admission(2, "vcjob", JOB, "worker", 1, 1)
    story.commit(("admissions", held, {**held, "state": "closed", "ended": [0]}))
    return story.history()


def a_pod_is_never_made_again() -> History:
    story = good_story()
    story.commit(("recreations", None, {"pod_uid": "uid-x", "namespace": "default", "name": "x"}))
    return story.history()


def a_pod_waits_though_it_fits() -> History:
    story = good_story()
    container = {"name": "main", "resources": {"requests": {GPU: "1"}}}
    story.change(BIG, "pods", USER, lambda big: big["spec"].update(containers=[container]))
    return story.history()


def a_node_is_gone_and_still_stored() -> History:
    story = good_story()
    story.put("nodes", story.known["uid-n1"], USER, "DELETED")
    return story.history()


def a_queue_was_changed_and_is_stored_as_before() -> History:
    story = good_story()
    story.change(f"uid-{QUEUE}", "queues", USER, lambda queue: queue["metadata"].update(generation=2))
    return story.history()


def a_pod_of_others_is_not_counted() -> History:
    story = good_story()
    foreign = pod("foreign", "uid-foreign", 1)
    del foreign["spec"]["schedulingGates"]
    story.put("pods", foreign)
    story.change("uid-foreign", "pods", "scheduler", bind)
    return story.history()


def a_group_that_has_ended_is_told_to_run() -> History:
    story = good_story()
    story.change(GROUP, "podgroups", LEADER, lambda group: group.update(status={"phase": "Running"}))
    return story.history()


def a_pod_that_waits_is_told_nothing() -> History:
    story = good_story()
    story.change(BIG, "pods", LEADER, lambda big: big["status"].pop("conditions"))
    return story.history()


def a_job_is_told_to_run_more_pods_than_it_does() -> History:
    story = good_story()
    story.change(JOB, "jobs.batch.volcano.sh", LEADER, lambda job: job["status"].update(running=2))
    return story.history()


def a_queue_is_told_to_use_nothing() -> History:
    story = good_story()
    story.change(f"uid-{QUEUE}", "queues", LEADER, lambda queue: queue.pop("status"))
    return story.history()


def a_pod_that_fits_waits_for_a_queue_that_is_there() -> History:
    return with_row(a_pod_waits_though_it_fits(), "reasons", code="UnknownQueue")


def a_pod_waits_behind_nothing() -> History:
    return with_row(good_story().history(), "reasons", code="Behind")


def a_lease_is_taken_early_by_a_clock_that_was_set_back() -> History:
    story = good_story()
    story.commit(("leases", lease(1, LEADER, 0.5), lease(2, "replica-2", 70.0)), writer="replica-2")
    history = story.history()
    return replace(history, rows=(*history.rows[:-1], replace(history.rows[-1], ahead=-30.0)))


BROKEN = (
    (books.balances_are_what_admissions_hold, a_node_balance_is_wrong),
    (books.balances_are_what_admissions_hold, a_queue_balance_is_wrong),
    (books.postings_are_what_admissions_gain_and_lose, a_posting_is_missing),
    (books.postings_are_what_admissions_gain_and_lose, a_posting_is_there_twice),
    (books.limits_hold_at_every_moment, a_queue_goes_above_its_limit),
    (books.limits_hold_at_every_moment, a_node_holds_more_than_it_offers),
    (books.limits_hold_at_every_moment, a_seat_is_on_a_node_that_takes_none),
    (books.no_seat_is_held_twice, a_workload_is_admitted_twice),
    (books.admissions_only_go_forward, an_admission_vanishes),
    (books.admissions_only_go_forward, an_admission_is_opened_again),
    (books.admissions_only_go_forward, a_closed_admission_holds_a_seat),
    (leaders.each_term_has_one_leader, a_lease_is_taken_before_its_end),
    (leaders.each_term_has_one_leader, a_lease_is_taken_early_by_a_clock_that_was_set_back),
    (leaders.each_term_has_one_leader, a_term_is_left_out),
    (leaders.each_term_has_one_leader, a_lease_is_renewed_after_its_end),
    (leaders.each_term_has_one_leader, a_lease_of_others_is_renewed),
    (leaders.only_the_leader_writes, a_deposed_leader_writes),
    (leaders.only_the_leader_writes, two_replicas_write_in_one_term),
    (leaders.only_the_leader_writes, a_plan_is_applied_without_the_fence),
    (leaders.only_the_leader_writes, a_plan_is_applied_on_an_old_sequence),
    (gangs.gangs_are_admitted_whole, half_a_gang_is_admitted),
    (gangs.gangs_are_evicted_whole, half_a_gang_is_evicted),
    (gangs.no_gang_is_split_at_the_end, half_a_gang_runs),
    (pods.pods_run_only_as_admitted, a_gated_pod_is_let_go_without_an_admission),
    (pods.pods_run_only_as_admitted, a_pod_is_let_go_for_the_seat_of_others),
    (pods.pods_run_only_as_admitted, a_pod_asks_more_than_its_seat),
    (pods.pods_run_only_as_admitted, a_pod_is_let_go_before_its_admission),
    (pods.no_seat_has_two_live_pods, two_pods_have_one_seat),
    (pods.what_succeeded_never_runs_again, a_task_runs_again_after_its_success),
    (pods.no_seat_is_given_back_under_a_pod, a_seat_is_given_back_under_its_pod),
    (pods.nodes_are_never_too_small_for_their_pods, a_node_is_too_small_for_its_pods),
    (pods.nodes_are_never_too_small_for_their_pods, pods_are_let_go_for_a_node_that_is_too_small),
    (pods.no_job_has_more_pods_than_seats, a_job_has_more_pods_than_seats),
    (pods.no_job_has_more_pods_than_seats, a_pod_of_a_job_is_made_after_its_seat_was_given_back),
    (pods.no_pod_is_made_again_twice, a_pod_is_made_again_twice),
    (pods.pods_without_owner_come_back, a_pod_that_was_taken_back_does_not_return),
    (pods.pods_without_owner_come_back, a_pod_that_was_taken_back_and_so_ended_does_not_return),
    (pods.what_users_write_stays, what_a_user_wrote_is_overwritten),
    (ending.no_end_is_told_early, a_group_is_completed_before_its_pods),
    (ending.no_defect_is_logged, a_defect_is_logged),
    (ending.the_run_comes_to_rest, it_never_comes_to_rest),
    (ending.no_workload_is_lost, a_workload_was_never_taken_in),
    (ending.no_workload_is_lost, no_reason_to_wait_is_told),
    (ending.no_workload_is_lost, a_workload_is_gone_and_still_stored),
    (ending.seats_and_pods_match_at_the_end, an_eviction_never_ends),
    (ending.seats_and_pods_match_at_the_end, a_seat_is_held_without_a_pod),
    (ending.seats_and_pods_match_at_the_end, a_pod_of_a_closed_admission_lives_on),
    (ending.seats_and_pods_match_at_the_end, a_pod_is_never_made_again),
    (ending.every_gang_that_fits_is_admitted, a_pod_waits_though_it_fits),
    (ending.what_is_stored_is_true_at_the_end, a_node_is_gone_and_still_stored),
    (ending.what_is_stored_is_true_at_the_end, a_queue_was_changed_and_is_stored_as_before),
    (ending.what_is_stored_is_true_at_the_end, a_pod_of_others_is_not_counted),
    (ending.statuses_are_true_at_the_end, a_group_that_has_ended_is_told_to_run),
    (ending.statuses_are_true_at_the_end, a_pod_that_waits_is_told_nothing),
    (ending.statuses_are_true_at_the_end, a_job_is_told_to_run_more_pods_than_it_does),
    (ending.statuses_are_true_at_the_end, a_queue_is_told_to_use_nothing),
    (reasons.stored_reasons_are_true_at_the_end, a_pod_that_fits_waits_for_a_queue_that_is_there),
    (reasons.stored_reasons_are_true_at_the_end, a_pod_waits_behind_nothing),
)


@pytest.mark.parametrize(("check", "story"), BROKEN, ids=lambda each: each.__name__)
def test_a_check_finds_its_breach(check: Callable[[Recording], object], story: Breaking) -> None:
    assert list(check(Recording(story())))


@pytest.mark.parametrize("code", sorted(reasons.NOT_OF_ROOM - {"InvalidSpec"}))
def test_no_reason_excuses_a_pod_of_which_it_is_not_true(code: str) -> None:
    found = breaches(with_row(a_pod_waits_though_it_fits(), "reasons", code=code))
    assert [breach.law for breach in found if code in breach.what], found


@pytest.mark.parametrize(
    ("code", "edit"),
    [
        ("QueuePaused", lambda queue: queue["spec"].update(policy={"paused": True})),
        ("BudgetSpent", lambda queue: queue["spec"].update(budget={"hours": {GPU: "1"}})),
        ("QueueOnHold", lambda queue: queue["spec"].update(policy={"hold": {"reason": "it moves"}})),
        ("QueueClosed", lambda queue: queue.update(status={"state": "Closed"})),
        ("QueueBroken", lambda queue: queue["spec"].update(deserved={GPU: "5"}, capability={GPU: "4"})),
        ("QueueBroken", lambda queue: queue["spec"].update(parent="gone")),
        ("GangTooLarge", lambda queue: queue["spec"].update(access={"maxGang": 1})),
        ("UserLimit", lambda queue: queue["spec"].update(access={"maxPerUser": {GPU: "1"}})),
        ("RunTimeTooLong", lambda queue: queue["spec"].update(access={"maxRunTime": "1h"})),
        ("UnknownQueue", lambda queue: queue["metadata"].update(name="renamed")),
    ],
)
def test_a_reason_that_is_true_is_no_breach(code: str, edit: Callable[[Document], object]) -> None:
    story = good_story()
    story.change(f"uid-{QUEUE}", "queues", USER, edit)
    history = with_row(story.history(), "reasons", code=code)
    assert not list(reasons.stored_reasons_are_true_at_the_end(Recording(history)))


def test_a_pod_that_succeeds_while_it_is_deleted_may_run_again() -> None:
    story = good_story()
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    story.change(WORKER, "pods", LEADER, lambda one: one["metadata"].update(going))
    story.change(WORKER, "pods", "kubelet", succeed)
    story.put("pods", story.known[WORKER], "kubelet", "DELETED")
    add_worker(story, "uid-again")
    assert list(pods.what_succeeded_never_runs_again(Recording(story.history()))) == []


def test_a_history_is_read_as_it_was_written(tmp_path) -> None:
    history = good_story().history()
    history.save(tmp_path / "history.json")
    assert History.load(tmp_path / "history.json") == history


def test_members_of_a_group_are_found_by_their_annotation() -> None:
    recording = Recording(good_story().history())
    group = recording.workloads["podgroup", GROUP]
    assert {member.uid for member in recording.members(group)} == set(MEMBERS)

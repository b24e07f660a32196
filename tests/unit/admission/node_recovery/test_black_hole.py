"""Nodes that kill the pods of whatever gang they get."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.node_recovery import black_hole
from admission.node_recovery.black_hole import BlackHoleDetector, PodRun, Submitter
from admission.node_recovery.policy import BlackHoleRule
from admission.node_recovery.view import BlackHole
from queues.workload import AdmissionId, NodeName, WorkloadKey, WorkloadKind

RULE = BlackHoleRule(gangs=3, within=120, window=1800, retry_after=600)
A, B = NodeName("a"), NodeName("b")
T = 1_800_000_000


def key(name: str) -> WorkloadKey:
    return WorkloadKey(WorkloadKind.JOB, name)


def run(
    node: NodeName,
    gang: str,
    *,
    at: int,
    took: int = 5,
    failed: bool = True,
    admission: int = 1,
    of: str = "",
) -> PodRun:
    """Each gang is of a tenant and a user of its own, unless ``of`` names them (``TENANT`` or ``TENANT/USER``)."""
    return PodRun(
        node=node,
        gang=key(gang),
        submitter=submitter(of or f"of-{gang}"),
        admission=AdmissionId(admission),
        started=at,
        until=at + took,
        failed=failed,
    )


def submitter(of: str) -> Submitter:
    tenant, _, user = of.partition("/")
    return Submitter(tenant, user or tenant)


def submitters(*of: str) -> frozenset[Submitter]:
    return frozenset(map(submitter, of))


@pytest.fixture
def detector() -> BlackHoleDetector:
    """Of a cluster in which several tenants and users have gangs."""
    detector = BlackHoleDetector(RULE)
    detector.submitters = submitters("x", "y")
    return detector


@pytest.fixture
def closed(detector: BlackHoleDetector) -> BlackHoleDetector:
    """Node A has killed the pods of three gangs."""
    for number in range(3):
        detector.saw(run(A, f"g{number}", at=T + number * 60))
    return detector


CLOSED_AT = T + 125
RETRY = CLOSED_AT + RULE.retry_after


def test_pods_of_three_gangs_that_fail_early_show_a_black_hole(closed: BlackHoleDetector) -> None:
    assert closed.black_hole(A, CLOSED_AT) == BlackHole(since=CLOSED_AT, gangs=3)
    assert not closed.takes_gangs(A, CLOSED_AT)
    assert str(closed.black_hole(A, CLOSED_AT)) == "pods of 3 different gangs failed soon after their start"


def test_many_pods_of_two_gangs_show_nothing(detector: BlackHoleDetector) -> None:
    for number in range(20):
        detector.saw(run(A, f"g{number % 2}", at=T + number, admission=number))
    assert detector.takes_gangs(A, T + 30)


def test_failures_on_other_nodes_are_theirs(detector: BlackHoleDetector) -> None:
    for number, node in enumerate((A, A, B)):
        detector.saw(run(node, f"g{number}", at=T))
    assert detector.takes_gangs(A, T + 10)
    assert detector.takes_gangs(B, T + 10)


def test_a_pod_that_fails_late_did_well(detector: BlackHoleDetector) -> None:
    for number in range(3):
        detector.saw(run(A, f"g{number}", at=T, took=RULE.within + 1))
    assert detector.takes_gangs(A, T + 200)


def test_failures_outside_of_the_window_do_not_count(detector: BlackHoleDetector) -> None:
    for number in range(3):
        detector.saw(run(A, f"g{number}", at=T + number * 900))
    assert detector.takes_gangs(A, T + 1800)


def test_a_success_in_between_clears_the_node(detector: BlackHoleDetector) -> None:
    detector.saw(run(A, "g0", at=T))
    detector.saw(run(A, "g1", at=T))
    detector.saw(run(A, "good", at=T + 10, failed=False))
    detector.saw(run(A, "g2", at=T + 20))
    assert detector.takes_gangs(A, T + 30)


@pytest.mark.parametrize(
    ("failed", "closes"),
    [
        (("x/u", "x/u", "x/u", "x/u"), False),
        (("x/u", "x/v", "x/w", "x/u"), False),  # one tenant with several users
        (("x/u", "y/u", "z/u", "x/u"), False),  # one user in several tenants
        (("x/u", "x/u", "y/v", "x/u"), True),
        (("x/u", "y/u", "x/v", "x/u"), True),
    ],
)
def test_gangs_of_one_tenant_or_one_user_alone_show_nothing(
    detector: BlackHoleDetector, failed: tuple[str, ...], closes: bool
) -> None:
    for number, of in enumerate(failed):
        detector.saw(run(A, f"g{number}", at=T + number, of=of))
    assert detector.takes_gangs(A, T + 10) is not closes


@pytest.mark.parametrize("others", [("x/u", "x/v"), ("x/u", "y/u")], ids=("one tenant", "one user"))
def test_what_all_gangs_of_the_cluster_share_needs_no_second_one(
    detector: BlackHoleDetector, others: tuple[str, ...]
) -> None:
    detector.submitters = submitters(*others)
    for number in range(3):
        detector.saw(run(A, f"g{number}", at=T + number, of=others[number % 2]))
    assert not detector.takes_gangs(A, T + 10)


def test_gangs_of_the_only_tenant_that_has_any_close_a_node(detector: BlackHoleDetector) -> None:
    detector.submitters = submitters("x")
    for number in range(3):
        assert detector.takes_gangs(A, T + 10)
        detector.saw(run(A, f"g{number}", at=T + number, of="x"))
    assert not detector.takes_gangs(A, T + 10)
    detector.open_to_others()
    assert not detector.takes_gangs(A, T + 10)


@pytest.mark.parametrize("trials", [0, 1])
def test_what_one_tenant_showed_alone_ends_when_another_one_has_gangs(
    detector: BlackHoleDetector, trials: int
) -> None:
    detector.submitters = submitters("x")
    for number in range(3):
        detector.saw(run(A, f"g{number}", at=T + number, of="x"))
    at = T + 10
    for number in range(trials):
        at += RULE.retry_after
        detector.saw(run(A, f"t{number}", at=at, of="x"))
    assert not detector.takes_gangs(A, at + 20)
    detector.submitters = submitters("x", "y")
    detector.open_to_others()
    assert detector.takes_gangs(A, at + 20)
    detector.saw(run(A, "more", at=at + 30, of="x"))
    assert detector.takes_gangs(A, at + 40), "one tenant alone shows nothing any more"


def test_what_several_tenants_showed_stays(closed: BlackHoleDetector) -> None:
    closed.open_to_others()
    assert not closed.takes_gangs(A, CLOSED_AT)


#: When no failure before the trial counts any more.
LATER = RETRY + RULE.window


def test_trials_of_one_tenant_alone_prolong_nothing(closed: BlackHoleDetector) -> None:
    for number in range(3):
        closed.seated(A, key(f"t{number}"), LATER + number * 60)
        assert not closed.takes_gangs(A, LATER + number * 60)
        closed.saw(run(A, f"t{number}", at=LATER + number * 60, of="x"))
        assert closed.takes_gangs(A, LATER + number * 60 + 10), "the next one is tried"
    closed.seated(A, key("other"), LATER + 600)
    closed.saw(run(A, "other", at=LATER + 600, of="y"))
    assert closed.black_hole(A, LATER + 610) == BlackHole(since=LATER + 605, gangs=4, trials=1)


def test_trials_of_the_only_tenant_that_has_gangs_prolong_the_closing(closed: BlackHoleDetector) -> None:
    closed.submitters = submitters("x")
    closed.seated(A, key("trial"), LATER)
    closed.saw(run(A, "trial", at=LATER, of="x"))
    assert not closed.takes_gangs(A, LATER + RULE.retry_after)
    closed.submitters = submitters("x", "y")
    closed.open_to_others()
    assert closed.takes_gangs(A, LATER + 10)


def test_only_gangs_that_come_later_are_the_next_trial(closed: BlackHoleDetector) -> None:
    assert closed.trial_from(A, LATER - RULE.window - 1) is None
    assert closed.trial_from(A, LATER) == RETRY
    closed.seated(A, key("trial"), LATER)
    assert closed.trial_from(A, LATER + 10) is None
    closed.saw(run(A, "trial", at=LATER + 20, of="x"))
    assert closed.trial_from(A, LATER + 30) == LATER + 25
    closed.seated(A, key("never starts"), LATER + 30)
    assert closed.trial_from(A, LATER + 30 + RULE.retry_after) == LATER + 31
    assert closed.trial_from(B, LATER) is None


def test_a_failure_of_another_tenant_counts_no_longer_than_the_window(detector: BlackHoleDetector) -> None:
    detector.saw(run(A, "other", at=T, of="y"))
    for number in range(5):
        detector.saw(run(A, f"g{number}", at=T + RULE.window + number, of="x"))
    assert detector.takes_gangs(A, T + RULE.window + 20)


def test_a_node_is_open_again_when_the_gangs_that_are_left_are_of_one_tenant(
    detector: BlackHoleDetector,
) -> None:
    for number, of in enumerate(("x", "x", "x", "y")):
        detector.saw(run(A, f"g{number}", at=T + number, of=of))
    assert not detector.takes_gangs(A, T + 10)
    detector.saw(run(B, "g3", at=T + 60, admission=2, of="y"))
    assert detector.takes_gangs(A, T + 70)


@pytest.mark.parametrize("took", [9100, 20_000], ids=("before", "after"))
def test_a_pod_of_earlier_that_runs_or_succeeds_vouches_for_the_node(
    closed: BlackHoleDetector, took: int
) -> None:
    closed.saw(run(A, "old", at=T - 9000, took=took, failed=False))
    assert closed.takes_gangs(A, CLOSED_AT) is (T - 9000 + took >= CLOSED_AT)


def test_failures_before_an_old_pod_was_seen_well_do_not_count(detector: BlackHoleDetector) -> None:
    detector.saw(run(A, "g0", at=T))
    detector.saw(run(A, "g1", at=T))
    detector.saw(run(A, "old", at=T - 9000, took=9050, failed=False))
    detector.saw(run(A, "g2", at=T + 100))
    assert detector.takes_gangs(A, T + 110)


def test_an_old_pod_that_fails_vouches_for_nothing(closed: BlackHoleDetector) -> None:
    closed.saw(run(A, "old", at=T - 9000, took=9500))
    assert not closed.takes_gangs(A, CLOSED_AT + 100)


def test_no_more_nodes_are_closed_than_allowed(detector: BlackHoleDetector) -> None:
    names = [NodeName(f"n{number}") for number in range(5)]
    for at, node in enumerate(names):
        for gang in range(3):
            detector.saw(run(node, f"{node}-{gang}", at=T + at))
    assert not any(detector.takes_gangs(node, T + 10) for node in names)
    detector.open_beyond(2, T + 10)
    assert [detector.takes_gangs(node, T + 10) for node in names] == [False, False, True, True, True]
    assert [detector.black_hole(node, T + 10) is None for node in names] == [False, False, True, True, True]
    detector.open_beyond(0, T + 10)
    assert all(detector.takes_gangs(node, T + 10) for node in names)


def test_a_node_that_was_not_closed_is_closed_by_the_next_failure_once_there_is_room(
    closed: BlackHoleDetector,
) -> None:
    for number in range(3):
        closed.saw(run(B, f"b{number}", at=CLOSED_AT + number))
    closed.open_beyond(1, CLOSED_AT + 10)
    assert closed.takes_gangs(B, CLOSED_AT + 10)
    closed.saw(run(A, "good", at=CLOSED_AT + 20, failed=False))
    closed.saw(run(B, "b3", at=CLOSED_AT + 30))
    closed.open_beyond(1, CLOSED_AT + 40)
    assert closed.takes_gangs(A, CLOSED_AT + 40)
    assert not closed.takes_gangs(B, CLOSED_AT + 40)


def test_nodes_on_trial_that_may_have_a_gang_take_no_place(closed: BlackHoleDetector) -> None:
    for number in range(3):
        closed.saw(run(B, f"b{number}", at=RETRY - 10))
    closed.open_beyond(1, RETRY)
    assert closed.takes_gangs(A, RETRY)
    assert not closed.takes_gangs(B, RETRY)


def test_a_gang_that_fails_on_several_nodes_shows_nothing_of_any(detector: BlackHoleDetector) -> None:
    for admission, node in enumerate((A, B, A, B)):
        for gang in ("broken1", "broken2", "broken3"):
            detector.saw(run(node, gang, at=T + admission * 60, admission=admission))
        if admission:
            assert detector.takes_gangs(A, T + admission * 60 + 10)
            assert detector.takes_gangs(B, T + admission * 60 + 10)


def test_a_node_is_open_again_when_its_gangs_turn_out_to_fail_elsewhere_too(
    closed: BlackHoleDetector,
) -> None:
    closed.saw(run(B, "g1", at=CLOSED_AT + 10, admission=2))
    assert closed.takes_gangs(A, CLOSED_AT + 20)


def test_of_one_admission_only_the_first_failure_counts(detector: BlackHoleDetector) -> None:
    for number in range(3):
        detector.saw(run(A, f"g{number}", at=T + 100 * number))
        detector.saw(run(B, f"g{number}", at=T + 100 * number, took=20))
    assert not detector.takes_gangs(A, T + 230)
    assert detector.takes_gangs(B, T + 230)


def test_the_first_failure_counts_though_it_is_told_last(detector: BlackHoleDetector) -> None:
    for number in range(3):
        detector.saw(run(B, f"g{number}", at=T + 100 * number, took=20))
        detector.saw(run(A, f"g{number}", at=T + 100 * number))
    assert not detector.takes_gangs(A, T + 230)
    assert detector.takes_gangs(B, T + 230)


def test_after_a_time_one_gang_is_tried(closed: BlackHoleDetector) -> None:
    assert not closed.takes_gangs(A, RETRY - 1)
    assert closed.takes_gangs(A, RETRY)
    assert closed.black_hole(A, RETRY) is None
    closed.seated(A, key("trial"), RETRY)
    assert not closed.takes_gangs(A, RETRY + 1)


def test_a_trial_that_fails_closes_the_node_for_twice_the_time(closed: BlackHoleDetector) -> None:
    closed.seated(A, key("trial"), RETRY)
    closed.saw(run(A, "trial", at=RETRY + 10, took=0))
    assert closed.black_hole(A, RETRY + 10) == BlackHole(since=RETRY + 10, gangs=4, trials=1)
    assert not closed.takes_gangs(A, RETRY + 10 + 2 * RULE.retry_after - 1)
    assert closed.takes_gangs(A, RETRY + 10 + 2 * RULE.retry_after)


@pytest.mark.parametrize(
    "well", [run(A, "trial", at=RETRY + 10, failed=False), run(A, "trial", at=RETRY + 10, took=121)], ids=str
)
def test_a_trial_that_succeeds_or_runs_opens_the_node(closed: BlackHoleDetector, well: PodRun) -> None:
    closed.seated(A, key("trial"), RETRY)
    closed.saw(well)
    assert closed.takes_gangs(A, RETRY + 200)
    closed.saw(run(A, "next", at=RETRY + 300))
    assert closed.takes_gangs(A, RETRY + 310)


def test_a_trial_that_shows_nothing_does_not_keep_the_node_closed(closed: BlackHoleDetector) -> None:
    closed.seated(A, key("never starts"), RETRY)
    assert closed.takes_gangs(A, RETRY + RULE.retry_after)


def test_a_trial_by_a_gang_that_fails_everywhere_is_none(closed: BlackHoleDetector) -> None:
    closed.saw(run(B, "broken", at=RETRY - 20, admission=1))
    closed.seated(A, key("broken"), RETRY)
    closed.saw(run(A, "broken", at=RETRY + 1, admission=2))
    assert closed.takes_gangs(A, RETRY + 10)


def test_a_failure_of_a_pod_that_started_before_the_trial_is_no_trial(closed: BlackHoleDetector) -> None:
    closed.saw(run(A, "late", at=RETRY - 10, took=20))
    assert closed.takes_gangs(A, RETRY + 20)


def test_a_node_can_be_tried_now(closed: BlackHoleDetector) -> None:
    closed.try_now(A, CLOSED_AT + 1)
    assert closed.takes_gangs(A, CLOSED_AT + 1)
    closed.try_now(B, CLOSED_AT + 1)
    assert closed.takes_gangs(B, CLOSED_AT + 1)


def test_the_pause_between_trials_stops_growing(closed: BlackHoleDetector) -> None:
    at, closed.submitters = RETRY, submitters("x")
    for number in range(20):
        closed.saw(run(A, f"trial{number}", at=at, took=0, of="x"))
        hole = closed.black_hole(A, at)
        assert hole is not None
        at += RULE.retry_after * 32
        assert closed.takes_gangs(A, at)


def test_a_node_that_is_gone_is_forgotten(closed: BlackHoleDetector) -> None:
    closed.forget(A)
    closed.saw(run(A, "next", at=CLOSED_AT + 10))
    assert closed.takes_gangs(A, CLOSED_AT + 20)


def test_memory_is_bounded(detector: BlackHoleDetector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(black_hole, "MOST_GANGS", 10)
    for number in range(100):
        detector.saw(run(NodeName(f"n{number}"), f"g{number}", at=T + number))
    assert len(detector._failures) == len(detector._on_node) == 10
    detector.expire(T + 200 + RULE.window)
    assert not detector._failures
    assert not detector._on_node


runs = st.lists(
    st.tuples(
        st.sampled_from((A, B)),
        st.sampled_from("pqrst"),
        st.integers(0, 400),
        st.integers(0, 200),
        st.booleans(),
    ),
    max_size=40,
)


@given(runs)
def test_no_node_is_closed_for_ever(drawn: list[tuple[NodeName, str, int, int, bool]]) -> None:
    """Whatever was seen: after the longest pause a gang is tried, and when it does well the node is open."""
    detector, numbers, at = BlackHoleDetector(RULE), count(), T
    for node, gang, pause, took, failed in drawn:
        at += pause
        detector.seated(node, key(gang), at)
        detector.saw(run(node, gang, at=at, took=took, failed=failed, admission=next(numbers)))
    later = at + 200 + RULE.retry_after * 32
    for node in (A, B):
        assert detector.takes_gangs(node, later)
        detector.saw(run(node, "good", at=later, failed=False))
        assert detector.takes_gangs(node, later)
        assert node not in detector._holes


@given(runs)
def test_one_tenant_closes_no_node_to_others_whatever_it_does(
    drawn: list[tuple[NodeName, str, int, int, bool]],
) -> None:
    detector, numbers, at = BlackHoleDetector(RULE), count(), T
    detector.submitters = submitters("x", "y")
    for node, gang, pause, took, failed in drawn:
        at += pause
        detector.seated(node, key(gang), at)
        admission = next(numbers) // 2
        detector.saw(run(node, gang, at=at, took=took, failed=failed, admission=admission, of="x"))
        assert detector.takes_gangs(A, at)
        assert detector.takes_gangs(B, at)


@given(runs)
def test_what_is_remembered_agrees(drawn: list[tuple[NodeName, str, int, int, bool]]) -> None:
    detector, numbers, at = BlackHoleDetector(RULE), count(), T
    for node, gang, pause, took, failed in drawn:
        at += pause
        detector.saw(run(node, gang, at=at, took=took, failed=failed, admission=next(numbers) // 2))
        blamed = {(seen.node, gang) for gang, seen in detector._failures.items() if not seen.everywhere}
        assert blamed == {(node, gang) for node, gangs in detector._on_node.items() for gang in gangs}

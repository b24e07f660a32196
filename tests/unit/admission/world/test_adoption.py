"""Which pods that run without an admission the world has adopted, as queues and namespaces change."""

from dataclasses import replace

import pytest

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.facts.cluster import NamespaceFact, QueueFact
from admission.workloads.context import Context, in_context
from queues import kind_names
from queues.admissions import AdmissionState, ClosedAdmission
from queues.resources import GPU
from queues.workload import AdmissionId, NodeName, QueueName, Requirement, WorkloadKey
from tests.builders.facts import (
    GROUP,
    JOB,
    NOW,
    TEAM,
    admission,
    gone,
    group,
    job,
    migrated,
    node,
    pod,
    queue,
    released,
    see,
    seen,
    world,
)

ONE = AdmissionId(1)
ALONE = WorkloadKey(kind_names.POD, "a")


GOLD = (Requirement("tier", "In", ("gold",)),)
TOP = QueueName("top")


@pytest.mark.parametrize(
    "queues",
    [
        pytest.param([queue(TEAM, namespace_selector=GOLD)], id="the queue"),
        pytest.param([queue(TOP, namespace_selector=GOLD), queue(TEAM, parent=TOP)], id="a queue above"),
    ],
)
def test_a_pod_is_adopted_as_soon_as_its_namespace_may_use_the_queue(queues: list[QueueFact]) -> None:
    facts = [*queues, node("n1"), job(1), migrated("a", "n1", owner=JOB)]
    known = world([*facts, NamespaceFact(name="ns", labels={"tier": "tin"})])
    assert known.states[JOB].unbooked is None
    assert [each.name for each in known.states[JOB].foreign] == ["a"]
    see(known, NamespaceFact(name="ns", labels={"tier": "gold"}))
    assert known.states[JOB].unbooked is not None


def test_a_pod_that_is_not_adopted_counts_on_its_node() -> None:
    known = world([node("n1"), job(1), pod("a", "n1", owner=JOB)])
    assert known.node_inventory.room(NodeName("n1"))[GPU] == 7000
    assert known.states[JOB].unbooked is None


def test_what_was_adopted_stays_so_when_its_namespace_says_nothing_any_more() -> None:
    mode = Context(queues={"ns": TEAM}, adopt_until={"ns": NOW + 1})
    found = in_context(pod("a", "n1"), mode)
    known = world([node("n1"), found], [admission(ALONE, "n1", adopted={"a": 0}, started=True)])  # type: ignore[list-item]
    see(known, in_context(pod("a", "n1"), Context()), now=NOW + 100)
    state = known.states[ALONE]
    assert (state.ended, state.unbooked, state.foreign) == ({}, None, ())


# ── pods that outlive the object that they were admitted with ──────────────────────────────────────────────────

OTHER = QueueName("other")
#: A queue that namespace ``ns`` may not use.
CLOSED = queue(OTHER, namespace_selector=GOLD)
#: Its pods were told to name that queue, when nothing said yet whose they are.
LEFT = released("a", "main/0", "n1", queue=OTHER)
#: A PodGroup that was deleted and made again.
BEFORE = WorkloadKey(kind_names.POD_GROUP, "old")


def test_a_pod_that_its_job_left_stays_charged_to_the_queue_that_admitted_it() -> None:
    known = world([CLOSED, node("n1"), LEFT], [admission(JOB, "n1", started=True)])
    found = known.states[ALONE]
    assert (found.unbooked.queue, found.foreign) == (TEAM, ())


def test_so_it_does_when_the_job_and_its_admission_are_long_gone() -> None:
    known = world([CLOSED, node("n1"), LEFT])
    known.learn_closed({ONE}, {ONE: ClosedAdmission(JOB, TEAM, NOW - 500)})
    known.forget([JOB])
    known.mark_dirty(ALONE)
    known.refresh(NOW)
    found = known.states[ALONE].unbooked
    assert (found.queue, found.since) == (TEAM, NOW - 500)
    known.observe([gone(LEFT)])
    assert known.admission_index.closed == {}


def test_a_pod_that_another_object_takes_over_stays_charged_to_the_queue_that_admitted_it() -> None:
    """Or the job controller adopts a pod that has the labels of its Job."""
    before = admission(BEFORE, "n1", pod_set="main", started=True)
    again = replace(group(1), queue=OTHER)
    member = replace(LEFT, group="gang")
    known = world([CLOSED, node("n1"), again, member], [before])
    assert known.states[GROUP].unbooked.queue == TEAM
    both = [replace(member, uid=uid, name=uid, admission=AdmissionId(of)) for uid, of in (("a", 1), ("b", 2))]
    known = world([node("n1"), again, *both], [before, replace(before, id=AdmissionId(2), queue=OTHER)])
    found = known.states[GROUP].unbooked
    pods = [each.uid for each in found.pods]
    assert (found.queue, pods) == (TEAM, ["a"]), "those of the other queue follow"


def test_a_pod_that_its_job_left_before_it_was_bound_is_taken_back() -> None:
    waits = replace(LEFT, node=None, bound_at=0)
    known = world([CLOSED, node("n1"), waits], [admission(JOB, "n1")])
    assert [pod.uid for pod in known.states[ALONE].leftovers] == ["a"]


@pytest.mark.parametrize("seat", ["main/1", None], ids=["of its own", "any"])
def test_the_seat_of_a_pod_that_another_object_takes_over_is_kept_until_it_is_bound_or_gone(
    seat: str | None,
) -> None:
    """A PodGroup is deleted and made again while the scheduler has the pod still to bind."""
    before = admission(BEFORE, "n1 n1", pod_set="main")
    waits = released("a", seat, queue=TEAM, group="gang")
    held = frozenset({1}) if seat else frozenset({0, 1})
    for leaves in (gone(waits), seen(replace(waits, node=NodeName("n1")))):
        known = world([CLOSED, node("n1"), group(1), waits], [before])
        assert known.states[before.workload].ended.get(ONE, frozenset()) == {0, 1} - held
        assert [pod.uid for pod in known.states[GROUP].leftovers] == ["a"], "it is taken back"
        see(known, leaves)
        assert known.states[before.workload].ended == {ONE: {0, 1}}


def test_a_pod_in_migration_mode_is_a_workload_only_while_that_lasts() -> None:
    mode = Context(queues={"ns": TEAM}, adopt_until={"ns": NOW + 1})
    adopted, late = (in_context(pod("a", "n1"), context) for context in (mode, replace(mode, adopt_until={})))
    assert world([node("n1"), adopted]).states[ALONE].unbooked is not None
    assert world([node("n1"), late]).states == {}


# ── the time that they have held their place ───────────────────────────────────────────────────────────────────


def test_the_time_of_a_pod_that_its_job_left_goes_on() -> None:
    """From the admission that was open; an elastic part's pods from the first one of its gang."""
    core = admission(JOB, "n1", started=True, opened_at=NOW - 500)
    part = admission(JOB, "n1", number=2, first=1, started=True, opened_at=NOW - 100, held_since=NOW - 500)
    of_part = replace(LEFT, uid="b", name="b", admission=AdmissionId(2))
    for closing in ((), (core,), (core, part), (part, core)):
        known = world([node("n1"), LEFT, of_part], [core, part])
        known.put_admissions([replace(each, state=AdmissionState.CLOSED) for each in closing])
        for pod_uid in ("a", "b"):
            key = WorkloadKey(kind_names.POD, pod_uid)
            known.mark_dirty(key)
            known.refresh(NOW)
            found = known.states[key].unbooked
            assert found.since == NOW - 500, (closing, pod_uid)


def test_a_run_before_that_was_evicted_does_not_count() -> None:
    before = admission(JOB, "n1", opened_at=NOW - 900)
    known = world([node("n1"), LEFT])
    known.put_admissions([before])
    known.put_admissions([replace(before, state=AdmissionState.CLOSED)])
    now = admission(JOB, "n1", number=2, opened_at=NOW - 300)
    known.put_admissions([now])
    see(known, replace(LEFT, admission=AdmissionId(2)))
    found = known.states[ALONE].unbooked
    assert found.since == NOW - 300


def test_pods_that_their_job_left_are_ended_when_its_time_is_over() -> None:
    """``maxRunTime`` of the queue counts on, and so does ``minRunTime``, by the admission that is opened for them."""
    limited = queue(TEAM, max_run_time=600)
    known = world([limited, node("n1"), LEFT], [admission(JOB, "n1", started=True, opened_at=NOW - 500)])
    plan = decide(known.freeze(NOW), Memo())[0]
    (adopt,) = plan.adopts
    assert adopt.admit.since == NOW - 500
    (opened,) = plan.changed_admissions(known.admission_index.admissions, [AdmissionId(7)]).values()
    assert opened.opened_at == NOW - 500
    known = world([limited, node("n1"), LEFT], [opened])
    for now, ended in ((NOW + 99, set()), (NOW + 100, {AdmissionId(7)})):
        known.mark_dirty(ALONE)
        known.refresh(now)
        assert set(known.states[ALONE].evictable) == ended


def test_pods_without_an_earlier_admission_have_the_whole_time() -> None:
    known = world([node("n1"), job(1), migrated("a", "n1", owner=JOB)])
    found = known.states[JOB].unbooked
    assert found.since == 0

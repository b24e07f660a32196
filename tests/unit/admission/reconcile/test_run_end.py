"""What objects are told, and what is written to them, when work has run for as long as its queue allows."""

from dataclasses import replace
from typing import Any

from admission.facts.workloads import WorkloadFact
from admission.kube.writers.events import EventWriter, event
from admission.reconcile.events import admitted_events, ending_event
from admission.reconcile.release import orders_for
from admission.reconcile.volcano_jobs import next_state
from admission.reconcile.world_status import WorldStatuses
from admission.volcano_jobs.state import JobState, Phase
from admission.volcano_jobs.view import JobView
from admission.workloads.inputs import Timeouts
from admission.workloads.kinds.batch_job import FAILING
from admission.world.nodes import NodeInventory
from admission.world.world import World
from queues.admissions import NEVER_AGAIN, LastEviction, Setbacks
from queues.command import Command
from queues.kind_names import KindName
from queues.plan import Admit, Reason, Setback
from queues.quota.queue import Queue
from queues.quota.tree import QueueTree
from queues.read_api import bodies
from queues.reason_codes import ReasonCode
from queues.sql.read.views import with_ends
from queues.text_format import rfc3339
from queues.workload import AdmissionId, QueueName, WorkloadKey
from tests.builders.facts import (
    GRACE,
    JOB,
    NOW,
    TEAM,
    VOLCANO,
    admission,
    evicting,
    job,
    pod,
    queue,
    state_of,
    world,
)
from tests.builders.volcano_jobs import UID
from tests.builders.volcano_jobs import job as volcano_spec

RUN_OUT = Setbacks(not_before=NEVER_AGAIN)


def running(opened_at: int = NOW - 10) -> World:
    held = admission(JOB, "n1", started=True, opened_at=opened_at)
    return world([queue(TEAM, max_run_time=100), job(1), pod("a", "n1")], [held], {JOB: 1})


def test_it_is_told_at_its_admission_when_it_ends() -> None:
    known = running()
    held = known.admissions[AdmissionId(1)]
    admit = Admit(
        workload=JOB, namespace="ns", name="train", queue=TEAM, priority=0, generation="", seats=held.seats
    )
    (note,) = admitted_events(known, [(AdmissionId(1), admit)])
    end = rfc3339(NOW + 90)
    assert note.message.endswith(f"; it is ended at {end} if it still runs (access.maxRunTime of queue team)")


def test_it_is_warned_in_the_time_before_its_end_only() -> None:
    known = running()
    told = [ending_event(known, JOB, NOW + seconds) is not None for seconds in (0, 79, 80, 89, 90)]
    assert told == [False, False, True, True, False]
    assert ending_event(world([queue(TEAM), job(1)]), JOB, NOW) is None


def test_a_warning_is_one_event_whoever_writes_it_and_when() -> None:
    note = ending_event(running(), JOB, NOW + 80)
    assert (note.warning, note.reason) == (True, "MaxRunTime")
    first, second = event(note, 10**18, "a"), event(note, 2 * 10**18, "b")
    assert first["metadata"] == second["metadata"]
    assert first["firstTimestamp"] == rfc3339(10**9)
    writer = EventWriter(None, lambda: None, instance="me")  # type: ignore[arg-type]
    for _ in range(3):
        writer.tell(note)
    assert len(writer._waiting) == 1


def ended(fact: WorkloadFact) -> World:
    """The time of this workload is over, and nothing of it is left."""
    known = world([queue(TEAM, max_run_time=100), fact], arrivals={fact.key: 1})
    known.put_setback(fact.key, Setback(not_before=NEVER_AGAIN), NOW)
    known.ledger.put_reasons({fact.key: Reason(code=ReasonCode.MAX_RUN_TIME, message="it has run")}, ())
    known.refresh(NOW)
    return known


def test_a_job_that_was_ended_is_to_fail_by_its_own_controller() -> None:
    known = ended(job(1, suspended=True))
    (wanted,) = WorldStatuses(known, None, {}).of(JOB)  # type: ignore[arg-type]
    told = {each.type: (each.status, each.reason) for each in wanted.conditions}
    admitted = ("False", "MaxRunTime")
    assert told == {"muster.dev/Admitted": admitted, "FailureTarget": ("True", "MaxRunTime")}
    assert not wanted.shown, "the next leader writes it again where it is missing"


def test_other_jobs_that_wait_are_not_to_fail() -> None:
    known = world([queue(TEAM), job(1, suspended=True)], arrivals={JOB: 1})
    known.ledger.put_reasons({JOB: Reason(code=ReasonCode.NO_FIT, message="no room")}, ())
    (wanted,) = WorldStatuses(known, None, {}).of(JOB)  # type: ignore[arg-type]
    assert [each.type for each in wanted.conditions] == ["muster.dev/Admitted"]


def intents(fact: Any, *held: Any, setbacks: Setbacks = RUN_OUT) -> list[str]:
    state = state_of(fact, [], held, setbacks=setbacks)
    return [each.intent for each in orders_for(state, fact, NodeInventory(), Timeouts(refusal_grace=GRACE))]


def test_a_job_that_is_to_fail_is_resumed_without_seats_once_nothing_of_it_is_left() -> None:
    """A Job that is suspended has no start time, and none fails without. Its controller makes no pods any more."""
    failing = job(1, suspended=True, phase=FAILING)
    assert intents(failing) == ["resume to end"]
    assert intents(failing, evicting(admission(JOB, "n1"))) == []
    assert intents(job(1, suspended=True)) == [], "its controller does not know yet"
    assert intents(failing, setbacks=Setbacks()) == []


def test_a_job_that_is_to_fail_is_not_suspended_again() -> None:
    assert intents(job(1, phase=FAILING)) == []
    assert intents(job(1)) == ["suspend"]


def test_a_volcano_job_is_terminated_with_the_reason_before_anything_else_counts() -> None:
    restart = Command(uid="c", namespace="ns", name="c", action="RestartJob", target_kind="Job")
    before = JobState(uid=UID, phase=Phase.RUNNING, history=((Phase.RUNNING, 0),))
    view = JobView(spec=volcano_spec(), run_out="it has held its seats", commands=(restart,))
    after, steps = next_state(before, view, NOW)
    assert (after.phase, after.reason) == (Phase.TERMINATED, ReasonCode.MAX_RUN_TIME)
    assert after.message == "it has held its seats"
    assert (after.version, steps) == (before.version + 1, ())
    assert JobState.from_json(after.to_json()) == after
    again, _ = next_state(after, view, NOW + 1)
    assert again.phase is Phase.TERMINATED


def test_a_volcano_job_that_was_aborted_is_not_ended_before_it_is_resumed() -> None:
    aborted = JobState(uid=UID, phase=Phase.ABORTED, history=((Phase.ABORTED, 0),))
    after, _ = next_state(aborted, JobView(spec=volcano_spec(), run_out="over"), NOW)
    assert after.phase is Phase.ABORTED


def test_the_words_of_the_last_run_are_told_while_it_waits() -> None:
    last = LastEviction(at=NOW, code=ReasonCode.MAX_RUN_TIME, cause="it has held its seats for the 1h")
    assert last.appended_to("why").endswith("(MaxRunTime): it has held its seats for the 1h")


def told(number: int) -> bodies.AdmissionBody:
    return bodies.AdmissionBody(
        id=number, queue=TEAM, state="open", opened="", adopted=False, eviction=None, seats=(), ended=0
    )


def test_the_read_api_tells_when_open_admissions_end() -> None:
    top = Queue(name=QueueName("top"), max_run_time=100)
    tree = QueueTree.build({TEAM: Queue(name=TEAM, parent=top.name), top.name: top}, None)
    first = admission(VOLCANO, "n1", opened_at=NOW)
    joined = admission(VOLCANO, "n2", number=2, first=1, opened_at=NOW + 50)
    gone = evicting(admission(VOLCANO, "n3", number=3, first=2))
    ends = [each.ends for each in with_ends([told(3), told(2), told(1)], [first, joined, gone], tree)]
    assert ends == [None, rfc3339(NOW + 100), rfc3339(NOW + 100)]
    assert with_ends([told(3)], [gone], tree) == (told(3),)


def test_an_object_of_another_kind_stays_suspended_and_says_why() -> None:
    key = WorkloadKey(KindName("jobset"), "set-uid")
    fact = replace(job(1, suspended=True), key=key)
    state = state_of(fact, setbacks=RUN_OUT)
    assert state.workload.obstacle.code is ReasonCode.MAX_RUN_TIME
    assert intents(fact) == []
    held = admission(key, "n1", pod_set="main", started=True)
    assert intents(replace(fact, suspended=False), evicting(held)) == ["suspend"]
    (wanted,) = WorldStatuses(ended(fact), None, {}).of(key)  # type: ignore[arg-type]
    assert [each.type for each in wanted.conditions] == ["muster.dev/Admitted"]

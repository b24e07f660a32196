"""What is written into an object names workloads of its own namespace, and no others."""

import pytest

from admission.engine.reasons import behind, making_room, unknown_queue, would_delay
from admission.reconcile.events import evicted_events, waiting_event
from admission.reconcile.named_workloads import told_in
from admission.reconcile.status import deciding_condition
from admission.reconcile.world_status import WorldStatuses
from queues.plan import Evict, Reason
from queues.reason_codes import ReasonCode
from queues.workload import AdmissionId, QueueName
from tests.builders.facts import JOB, TEAM, admission, job, node, queue, world

OTHER, OWN = "vcjob/bob/secret-model.v2", "job/ns/second"
REASONS = [
    behind(TEAM, OTHER),
    would_delay(OTHER, None, ""),
    making_room(pods=2, names=[OTHER, "pod/carol/x", OWN]),
]


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: reason.code)
def test_conditions_and_events_of_an_object_name_no_workload_of_another_namespace(reason: Reason) -> None:
    shown = world([queue(TEAM), node("n1"), job(1)], arrivals={JOB: 1})
    shown.ledger.put_reasons({JOB: reason}, ())
    statuses = WorldStatuses(shown, None, {})  # type: ignore[arg-type]
    (wanted,) = statuses.of(JOB)
    note = waiting_event(shown, JOB, statuses.why_waiting(JOB))
    for message in (wanted.conditions[0].message, note.message):
        assert "bob" not in message
        assert "carol" not in message
        assert "another workload" in message or "other workloads" in message
        assert (OWN in message) == (OWN in reason.message)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{OTHER} waits", "another workload waits"),
        (f"({OTHER} and pod/carol/x wait)", "(other workloads wait)"),
        (f"{OTHER}, pod/carol/x and 2 more", "other workloads and 2 more"),
        (f"{OTHER}, pod/carol/x and {OWN}", f"other workloads and {OWN}"),
        (f"{OWN}, pod/carol/x and {OTHER}", f"{OWN} and other workloads"),
        (f"{OWN}, pod/carol/x, {OTHER} and 2 more", f"{OWN}, other workloads and 2 more"),
    ],
)
def test_several_that_are_not_named_are_told_once(text: str, told: str) -> None:
    assert told_in("ns", text) == told


def test_the_event_of_an_unknown_queue_says_where_those_that_look_alike_are_told() -> None:
    """Not the names: whoever may read events would learn of queues that they may not see."""
    shown = world([queue(TEAM), node("n1"), job(1)], arrivals={JOB: 1})
    shown.ledger.put_reasons({JOB: unknown_queue(QueueName(f"{TEAM}s"))}, ())
    statuses = WorldStatuses(shown, None, {})  # type: ignore[arg-type]
    note = waiting_event(shown, JOB, statuses.why_waiting(JOB))
    assert note.message.startswith(f"queue {TEAM}s does not exist. Name a queue that exists: ")
    assert f"`kubectl muster explain {note.ref.name} -n {note.ref.namespace}` names" in note.message


def test_what_is_wrong_with_an_admitted_workload_names_none_either() -> None:
    shown = world([queue(TEAM), node("n1"), job(1)], [admission(JOB, "n1")], {JOB: 1})
    problem = Reason(code=ReasonCode.RELEASE_REFUSED, message=f"refused beside {OTHER}")
    (wanted,) = WorldStatuses(shown, None, {JOB: problem}).of(JOB)  # type: ignore[arg-type]
    assert wanted.conditions[0].message == "refused beside another workload"


def test_who_is_evicted_is_not_told_the_name_of_another_tenants_workload() -> None:
    shown = world([queue(TEAM), node("n1"), job(1)], [admission(JOB, "n1")], {JOB: 1})
    message = f"its place is cleared for {OTHER}, which waited too long"
    evict = Evict(admission=AdmissionId(1), code=ReasonCode.CLEARED, message=message)
    (note,) = evicted_events(shown, [evict])
    assert note.message == "its place is cleared for another workload, which waited too long"


def test_root_which_many_may_read_names_no_workload() -> None:
    failing = Reason(code=ReasonCode.TURNS_FAIL, message=f"It tried {OTHER} (90 % of the time).")
    assert deciding_condition(failing).message == "It tried another workload (90 % of the time)."


def test_what_names_no_workload_stays() -> None:
    queued = QueueName("team/a")
    text = f"waits in {queued} for 8 nvidia.com/gpu until {OTHER}, {OWN} and 2 more are gone"
    assert told_in("ns", text) == text.replace(OTHER, "another workload")
    assert told_in("bob", OTHER) == OTHER

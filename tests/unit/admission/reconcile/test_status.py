from dataclasses import replace
from typing import Any

import pytest

from admission.facts.cluster import QueueFact
from admission.facts.pods import PodPhase
from admission.facts.workloads import NO_CONDITION
from admission.kube.writers import events
from admission.kube.writers.events import EventWriter, event
from admission.kube.writers.status import StatusWriter
from admission.reconcile.events import WAIT, start_event
from admission.reconcile.expected_starts import ExpectedStart
from admission.reconcile.status import (
    EventNote,
    StatusCondition,
    StatusWanted,
    WorkloadStatus,
    admitted_condition,
    job_status,
    merge_patch,
    only_numbers,
    pod_group_status,
    queue_status,
    settled,
    with_others,
)
from admission.volcano_jobs.lifecycle import advance
from admission.volcano_jobs.pod_changes import companions_of
from admission.volcano_jobs.state import JobState, Phase
from admission.volcano_jobs.view import JobView
from queues.api.api_resources import JOBS, POD_GROUPS, QUEUES, ApiResource, ObjectRef
from queues.plan import Reason
from queues.quota.queue import ROOT, Queue
from queues.reason_codes import ReasonCode
from queues.resources import Resources
from queues.text_format import go_duration
from queues.workload import QueueName
from tests.builders.operator_resources import JOB_SETS
from tests.builders.volcano_jobs import UID, job, pod
from tests.tables import with_rows
from tests.waiting import eventually, in_background

GROUP = ObjectRef(resource=POD_GROUPS, namespace="team-a", name="g", uid="u1")
LIMIT = Reason(code="QueueLimit", message="needs 32 nvidia.com/gpu, queue has 12 of 64 free")
LATER = "1970-01-01T00:16:40Z"


def group(minimum: int = 4, *, admitted: bool = False, **facts: Any) -> WorkloadStatus:
    return WorkloadStatus(ref=GROUP, minimum=minimum, admitted=admitted, **facts)


def of_job(resource: ApiResource = JOBS, **facts: Any) -> WorkloadStatus:
    ref = ObjectRef(resource=resource, namespace="n", name="j", uid="u")
    return WorkloadStatus(ref=ref, minimum=1, **{"admitted": False, **facts})


def conditions(wanted: StatusWanted, before: Any = None, now: int = 0) -> dict[str, dict[str, Any]]:
    after = settled(wanted, before or {}, now)
    return {one["type"]: one for one in after.get("conditions", [])}


@pytest.mark.parametrize(
    ("workload", "phase"),
    [
        (group(), "Pending"),
        (group(pending=4, reason=LIMIT), "Pending"),
        (group(admitted=True), "Inqueue"),
        (group(admitted=True, pending=4, bound=3), "Inqueue"),
        (group(admitted=True, pending=2, running=2, bound=4), "Running"),
        (group(admitted=True, running=3, bound=3, succeeded=1), "Running"),
        (group(running=2, bound=2), "Unknown"),
        (group(admitted=True, running=2, bound=2, seen="Inqueue"), "Inqueue"),
        (group(admitted=True, running=2, bound=2, seen="Running"), "Unknown"),
        (group(admitted=True, running=2, bound=2, seen="Unknown"), "Unknown"),
        (group(admitted=True, pending=2, bound=2, seen="Running"), "Inqueue"),
        (group(admitted=True, running=4, bound=4, seen="Unknown"), "Running"),
        (group(succeeded=3, failed=1), "Completed"),
        (group(admitted=True, running=1, bound=1, succeeded=4), "Running"),
    ],
)
def test_a_groups_phase_is_volcanos(workload: WorkloadStatus, phase: str) -> None:
    assert phase == pod_group_status(workload).fields["phase"]


def test_a_group_without_pods_says_how_many_there_are() -> None:
    (told,) = conditions(pod_group_status(group())).values()

    assert (told["type"], told["status"], told["reason"]) == ("Unschedulable", "True", "NotEnoughTasks")
    assert told["message"] == "0 of 4 pods exist"


def test_a_group_of_muster_without_pods_says_nothing() -> None:
    assert pod_group_status(group(is_idle=True)).conditions == ()


def test_a_group_that_its_owner_left_without_pods_says_no_more_that_it_waits() -> None:
    before = settled(pod_group_status(group(pending=4, reason=LIMIT)), {}, 0)
    theirs = {"type": "Theirs", "status": "True"}
    before["conditions"].append(theirs)

    after = conditions(pod_group_status(group(is_idle=True)), before, 1000)

    assert after == {"Theirs": theirs}


def test_a_group_that_waits_says_why_and_one_that_was_admitted_no_longer_does() -> None:
    waiting = settled(pod_group_status(group(pending=4, reason=LIMIT)), {}, 0)
    running = conditions(pod_group_status(group(admitted=True, running=4, bound=4)), waiting, 1000)

    told = waiting["conditions"][0]
    assert told["reason"] == "NotEnoughResources"
    assert told["message"] == f"4/4 tasks in gang unschedulable: QueueLimit: {LIMIT.message}"
    assert running["Scheduled"]["reason"] == "tasks in gang are ready to be scheduled"
    assert (running["Scheduled"]["status"], running["Unschedulable"]["status"]) == ("True", "False")
    assert running["Unschedulable"]["lastTransitionTime"] == LATER


def test_a_group_that_never_waited_has_no_word_of_waiting() -> None:
    assert list(conditions(pod_group_status(group(admitted=True)))) == ["Scheduled"]


def test_a_condition_changes_with_its_code_and_not_with_its_numbers() -> None:
    before = settled(pod_group_status(group(pending=4, reason=LIMIT)), {}, 0)
    numbers = Reason(code="QueueLimit", message="needs 32 nvidia.com/gpu, queue has 13 of 64 free")
    other = Reason(code="NoFit", message="no nodes")

    same = conditions(pod_group_status(group(pending=4, reason=numbers)), before, 1000)
    new = conditions(pod_group_status(group(pending=4, reason=other)), before, 1000)

    assert same["Unschedulable"] == before["conditions"][0]
    assert new["Unschedulable"]["message"] == "4/4 tasks in gang unschedulable: NoFit: no nodes"
    assert new["Unschedulable"]["lastTransitionTime"] == LATER


def test_conditions_of_others_are_kept() -> None:
    theirs = {"type": "Theirs", "status": "True"}

    assert conditions(pod_group_status(group()), {"conditions": [theirs]})["Theirs"] == theirs


def test_a_job_that_never_waited_is_not_written_to() -> None:
    admitted = admitted_condition(of_job(admitted=True))
    waiting = admitted_condition(of_job(reason=LIMIT))

    assert settled(admitted, {}, 0) == {}
    told = settled(waiting, {}, 0)
    assert told["conditions"][0]["reason"] == "QueueLimit"
    assert conditions(admitted, told, 5)["muster.dev/Admitted"]["status"] == "True"


@pytest.mark.parametrize(
    ("told", "reason", "shown"),
    [
        (("False", "QueueLimit"), LIMIT, True),
        (("False", "NoFit"), LIMIT, False),
        (("True", "Admitted"), LIMIT, False),
        (NO_CONDITION, LIMIT, False),
        (None, LIMIT, False),
        (("True", "Admitted"), None, True),
        (NO_CONDITION, None, True),
        (("False", "QueueLimit"), None, False),
    ],
)
def test_what_a_job_said_already_when_it_was_seen_first_is_known(
    told: tuple[str, str] | None, reason: Reason | None, shown: bool
) -> None:
    workload = of_job(admitted=reason is None, reason=reason, told=told)
    assert admitted_condition(workload).shown is shown


@pytest.mark.parametrize(
    ("code", "told"), [(ReasonCode.WAITS_FOR_CHECK, "at work"), (ReasonCode.NO_FIT, "asked")]
)
def test_what_a_check_answers_changes_the_condition_and_other_numbers_do_not(
    code: ReasonCode, told: str
) -> None:
    def status(message: str, before: dict[str, Any]) -> dict[str, Any]:
        return settled(
            pod_group_status(group(pending=4, reason=Reason(code=code, message=message))), before, 0
        )

    after = status("at work", status("asked", {}))
    assert after["conditions"][0]["message"].endswith(told)


def test_a_custom_resource_is_told_with_a_message_beside_the_conditions_of_its_operator() -> None:
    waits = admitted_condition(of_job(JOB_SETS, reason=LIMIT), custom=True)
    admitted = admitted_condition(of_job(JOB_SETS, admitted=True), custom=True)
    assert (waits.custom, waits.seen) == (True, None)
    told = settled(waits, {}, 0)
    [after] = settled(admitted, told, 5)["conditions"]
    assert (after["status"], after["message"]) == ("True", "Admitted")

    theirs = {"type": "Suspended", "status": "True"}
    assert with_others([theirs], [after]) == [theirs, after]
    assert with_others([*told["conditions"], theirs], [after]) == [theirs, after]


async def test_what_an_object_said_already_is_neither_read_nor_written_until_it_says_something_else() -> None:
    told = ("False", "QueueLimit")
    waits = admitted_condition(of_job(reason=LIMIT, told=told))
    admitted = admitted_condition(of_job(admitted=True, told=told))
    writer = StatusWriter(None, lambda: None)  # type: ignore[arg-type]
    writer.submit([waits])
    assert not writer._known
    writer.submit([admitted])
    writer.submit([waits])
    assert [known.due is not None for known in writer._known.values()] == [True]


def status_of_job(*phases: PodPhase, unsupported: tuple[str, ...] = (), **more: Any) -> StatusWanted:
    spec = replace(job(), unsupported=unsupported)
    view = JobView(spec=spec, pods=tuple(pod(index, phase) for index, phase in enumerate(phases)))
    return job_status(view, advance(JobState(uid=UID), view, 60), companions=companions_of(spec), **more)


def test_a_jobs_status_has_volcanos_fields(golden: Any) -> None:
    running, succeeded = PodPhase.RUNNING, PodPhase.SUCCEEDED

    assert status_of_job(running, running, running, succeeded).fields == golden


def test_a_pending_job_says_why_it_waits_once_per_code() -> None:
    first = settled(status_of_job(reason=LIMIT), {}, 0)
    changed = Reason(code="QueueLimit", message="other numbers")
    second = settled(status_of_job(reason=changed), first, 0)

    assert (first["state"]["reason"], first["state"]["message"]) == (LIMIT.code, LIMIT.message)
    assert merge_patch(first, second) == {}


def test_fields_that_are_not_acted_on_are_a_condition() -> None:
    told = status_of_job(unsupported=("spec.policies",)).fields["conditions"][-1]

    said = "accepted, but not acted on: spec.policies"
    assert (told["status"], told["message"]) == ("UnsupportedField", said)


def test_an_ended_job_says_how_long_it_ran() -> None:
    state = JobState(uid=UID, phase=Phase.COMPLETED, started_at=100, finished_at=3765)

    assert job_status(JobView(spec=job()), state).fields["runningDuration"] == "1h1m5s"


@pytest.mark.parametrize(("seconds", "text"), [(0, "0s"), (59, "59s"), (60, "1m0s"), (3600, "1h0m0s")])
def test_durations_are_written_as_go_does(seconds: int, text: str) -> None:
    assert text == go_duration(seconds)


QUEUE = ObjectRef(resource=QUEUES, name="team-a", uid="q1")
A_QUEUE = QueueFact(queue=Queue(name=QueueName("team-a")), uid="q1")


@pytest.mark.parametrize(
    ("facts", "state"),
    [({}, "Open"), ({"closed_by": "team-a"}, "Closed"), ({"closed_by": "team-a", "busy": True}, "Closing")],
)
def test_a_closed_queue_is_closing_until_it_is_empty(facts: Any, state: str) -> None:
    assert state == queue_status(A_QUEUE, **facts).fields["state"]


@pytest.mark.parametrize(
    ("place", "code", "kind"), [(0, "TurnsFail", "Deciding"), (1, "ListsFail", "FreeingSeats")]
)
def test_root_says_that_nothing_is_decided_or_freed_as_long_as_that_is_so(
    place: int, code: str, kind: str
) -> None:
    root = replace(A_QUEUE, queue=Queue(name=ROOT))
    reason = Reason(code=ReasonCode(code), message="5 turns in a row ended with the same error: …")
    before = {"state": "Open"}
    well = queue_status(root)
    assert "conditions" not in settled(well, before, 0)
    of_root = (None, reason) if place else (reason, None)
    said = settled(queue_status(root, of_root=of_root), before, 0)
    (condition,) = said["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (kind, "False", code)
    assert condition["message"] == reason.message
    (condition,) = settled(well, said, 60)["conditions"]
    assert (condition["type"], condition["status"]) == (kind, "True")


def test_a_queue_says_what_it_uses_and_why_it_cannot_be_used() -> None:
    allocated = Resources({"nvidia.com/gpu": 12_000, "cpu": 1500, "memory": 2**30})
    wanted = queue_status(A_QUEUE, allocated, broken="no such parent")

    assert wanted.fields["allocated"] == {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": "12"}
    assert conditions(wanted)["Usable"]["message"] == "no such parent"


@with_rows("before", "after", "patch")
def test_a_patch_holds_what_differs(before: Any, after: Any, patch: Any) -> None:
    assert patch == merge_patch(before, after)


def test_counts_alone_are_only_numbers() -> None:
    two, three = ({"phase": "Running", "running": number} for number in (2, 3))

    assert only_numbers(two, three)
    assert not only_numbers(two, {**three, "phase": "Completed"})


def test_an_event_names_its_object() -> None:
    note = EventNote(ref=QUEUE, reason="QueueBroken", message="m" * 2000, action="Check", warning=True)
    told = event(note, 1_000_000_123_456_789, "me")

    assert told["metadata"]["namespace"] == "default"
    assert told["eventTime"] == "1970-01-12T13:46:40.123456Z"
    assert (told["involvedObject"]["kind"], told["type"], len(told["message"])) == ("Queue", "Warning", 1024)
    by_which_people_sort = (told["firstTimestamp"], told["lastTimestamp"])
    assert by_which_people_sort == ("1970-01-12T13:46:40Z", "1970-01-12T13:46:40Z")


def test_a_quiet_condition_says_nothing_by_itself() -> None:
    quiet = StatusWanted(ref=QUEUE, conditions=(StatusCondition(type="A", status="True", quiet=True),))

    assert settled(quiet, {}, 0) == {}


STUCK = Reason(code="ReleaseRefused", message="a: an admission webhook of others says no")


def test_a_group_that_is_admitted_and_stuck_says_so_until_it_is_not() -> None:
    stuck = settled(pod_group_status(group(admitted=True, pending=4, problem=STUCK)), {}, 0)
    told = {one["type"]: one for one in stuck["conditions"]}["Unschedulable"]
    assert (told["status"], told["reason"], told["message"]) == ("True", "ReleaseRefused", STUCK.message)
    after = conditions(pod_group_status(group(admitted=True, pending=4)), stuck)
    assert after["Unschedulable"]["status"] == "False"


def test_an_admitted_pod_that_is_stuck_says_so_until_it_is_not() -> None:
    stuck = settled(admitted_condition(group(admitted=True, problem=STUCK)), {}, 0)
    (told,) = stuck["conditions"]
    assert (told["status"], told["reason"]) == ("True", "ReleaseRefused")
    assert conditions(admitted_condition(group(admitted=True)), stuck)[told["type"]]["reason"] == "Admitted"


def test_an_admitted_job_does_not_keep_the_sentence_that_told_why_it_waited() -> None:
    """Its conditions are merged field by field, so the sentence goes only if that is written."""
    waiting = settled(admitted_condition(group(reason=LIMIT)), {}, 0)
    (told,) = settled(admitted_condition(group(admitted=True)), waiting, 1000)["conditions"]
    assert (told["reason"], told["message"]) == ("Admitted", "")
    read_again = {"conditions": [{name: value for name, value in told.items() if value}]}
    assert settled(admitted_condition(group(admitted=True)), read_again, 2000) == read_again


def test_fields_of_a_group_that_are_not_acted_on_are_a_condition() -> None:
    told = conditions(pod_group_status(group(unsupported=("spec.subGroupPolicy",))))["UnsupportedField"]
    assert told["message"] == "accepted, but not acted on: spec.subGroupPolicy"


def test_a_group_whose_user_took_such_fields_out_does_not_go_on_saying_so() -> None:
    before = settled(pod_group_status(group(unsupported=("spec.subGroupPolicy",))), {}, 0)

    assert "UnsupportedField" not in conditions(pod_group_status(group()), before, 1000)


def event_writer(client: Any = None) -> EventWriter:
    return EventWriter(client, lambda: None, instance="me")


class Told:
    """An event writer at a time of the test's own, without an API server."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(events, "time_ns", lambda: int(self.now * 1e9))
        self.writer = event_writer()

    def tell(self, reason: str, action: str = WAIT) -> list[str]:
        """Reasons of events that are written when this one is told."""
        self.writer.tell(EventNote(ref=GROUP, reason=reason, message="", action=action))
        return self.look()

    def look(self, after: float = 0.0) -> list[str]:
        """Reasons of events that are written after so many seconds."""
        self.now += after
        self.writer._queue_held()
        told = [note.reason for note, _ in self.writer._waiting.values()]
        self.writer._waiting.clear()
        return told


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    return Told(monkeypatch)


async def test_a_reason_is_told_once_after_two_seconds_of_waiting_and_others_when_they_are_new(
    told: Told,
) -> None:
    assert [told.tell("QueueLimit"), told.look(1.9), told.tell("NoFit"), told.look(0.2)] == [
        [],
        [],
        [],
        ["NoFit"],
    ]
    assert [told.tell("QueueLimit"), told.tell("NoFit")] == [["QueueLimit"], []], "the second is told at once"
    assert [told.tell("QueueLimit"), told.look(3600)] == [[], []], "one event for each code"
    assert told.tell("Admitted", "Admit") == ["Admitted"]
    assert told.tell("Admitted", "Admit") == []
    assert [told.tell("QueueLimit"), told.look(2)] == [[], ["QueueLimit"]], (
        "further members wait, or it was evicted"
    )
    assert told.tell("Admitted", "Admit") == ["Admitted"], "further members were admitted after waiting"


@pytest.mark.parametrize("code", ["NeverFits", "NotAllowed", "UnknownQueue"])
async def test_what_needs_a_change_is_told_at_once_and_before_others(told: Told, code: str) -> None:
    assert told.tell(code) == [code]
    told.writer.tell(EventNote(ref=QUEUE, reason="Other", message="", action="Act"))
    told.writer.tell(EventNote(ref=replace(GROUP, uid="u2"), reason=code, message="", action=WAIT))
    assert told.look() == [code, "Other"]


async def test_who_is_admitted_within_two_seconds_is_not_told_of_waiting(told: Told) -> None:
    assert told.tell("QueueLimit") == []
    assert told.tell("Admitted", "Admit") == ["Admitted"]
    assert told.look(3600) == []


async def test_a_first_reason_is_written_though_nothing_else_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "FIRST_AFTER", 0.05)
    monkeypatch.setattr(events, "_LOOK_EVERY", 0.01)
    written: list[str] = []

    class Api:
        async def create(self, path: str, body: dict[str, Any], **_: Any) -> None:
            written.append(body["reason"])

    writer = event_writer(Api())
    async with in_background(writer.run()):
        writer.tell(EventNote(ref=GROUP, reason="QueueLimit", message="", action=WAIT))
        await eventually(lambda: written == ["QueueLimit"], "the event")
    assert writer._held == {}


async def test_what_happens_again_is_told_again_where_each_time_counts() -> None:
    events = event_writer()
    for failed in ("pod-0", "pod-1"):
        events.tell(EventNote(ref=GROUP, reason="ExecuteAction", message=failed, action="x", always=True))
    assert [note.message for note, _ in events._waiting.values()] == ["pod-0", "pod-1"]


async def test_what_an_earlier_leader_told_last_is_told_again_only_after_something_else() -> None:
    events = event_writer()
    waits = EventNote(ref=GROUP, reason="QueueLimit", message="", action=WAIT)
    events.tell(waits, shown=True)
    assert not events._waiting
    events.tell(EventNote(ref=GROUP, reason="Admitted", message="", action="Admit"))
    events.tell(waits, shown=True)
    assert [reason for _, reason in events._waiting] == ["Admitted"]
    assert list(events._held) == [GROUP.uid]


async def test_a_start_is_told_each_time_and_has_no_reason_told_again() -> None:
    """As a new leader tells it: the object said already why it waits."""
    events = event_writer()
    waits = EventNote(ref=GROUP, reason="QueueLimit", message="no room", action=WAIT)
    for start in (SOON, LATE):
        events.tell(waits, shown=True)
        events.tell(start_event(GROUP, start))
    events.tell(waits, shown=True)
    assert [note.message for note, _ in events._waiting.values()] == [SOON.sentence(), LATE.sentence()]


SOON = ExpectedStart(0, 1200, 5400)
#: The same with other numbers, and one that is news.
ALIKE, LATE = ExpectedStart(1200, 1260, 5460), ExpectedStart(1200, 9000, 18000)
SAYS_SOON = f"; {SOON.sentence()}"


def test_a_group_says_when_it_should_start_and_no_longer_once_it_is_admitted() -> None:
    waits = group(pending=4, reason=LIMIT, expected=SOON)
    before = settled(pod_group_status(waits), {}, 0)
    told = before["conditions"][0]
    assert told["message"] == f"4/4 tasks in gang unschedulable: QueueLimit: {LIMIT.message}{SAYS_SOON}"

    for same in (ALIKE, None):
        again = conditions(pod_group_status(replace(waits, expected=same)), before, 1000)
        assert again["Unschedulable"] == told
    news = conditions(pod_group_status(replace(waits, expected=LATE)), before, 1000)["Unschedulable"]
    assert "between 1970-01-01T02:30Z and 1970-01-01T05:00Z" in news["message"]
    assert news["lastTransitionTime"] == told["lastTransitionTime"], "another start is no transition"

    admitted = settled(pod_group_status(group(pending=4, admitted=True)), before, 1000)
    assert "expected" not in str(admitted)


def test_a_job_says_when_it_should_start_and_no_longer_once_it_is_admitted() -> None:
    waits = of_job(reason=LIMIT, expected=SOON)
    before = settled(admitted_condition(waits), {}, 0)
    assert before["conditions"][0]["message"] == LIMIT.message + SAYS_SOON
    assert settled(admitted_condition(replace(waits, expected=ALIKE)), before, 5) == before
    assert settled(admitted_condition(replace(waits, expected=LATE)), before, 5) != before

    after = settled(admitted_condition(replace(waits, admitted=True, reason=None)), before, 5)
    [admitted] = after["conditions"]
    assert (admitted["status"], admitted["message"]) == ("True", "")


def test_what_start_a_job_told_when_it_was_seen_first_is_read_from_it() -> None:
    told = ("False", "QueueLimit")
    waits = of_job(reason=LIMIT, told=told)
    assert admitted_condition(waits).shown
    assert not admitted_condition(replace(waits, expected=SOON)).shown


def test_a_pending_volcano_job_says_when_it_should_start() -> None:
    before = settled(status_of_job(reason=LIMIT, expected=SOON), {}, 0)
    assert before["state"]["message"] == LIMIT.message + SAYS_SOON
    for same in (ALIKE, None):
        after = settled(status_of_job(reason=LIMIT, expected=same), before, 0)
        assert merge_patch(before, after) == {}
    news = settled(status_of_job(reason=LIMIT, expected=LATE), before, 0)
    assert merge_patch(before, news).keys() == {"state"}

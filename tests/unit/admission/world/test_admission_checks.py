"""Gates that others hold: what is asked follows from the objects alone, whoever led when they changed."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from admission.decode.admission_checks import (
    WireAdmissionCheck,
    WireCheckRequest,
    admission_check_fact,
    check_request_fact,
)
from admission.facts.changes import Change, FactKind
from admission.facts.workloads import WorkloadFact
from admission.kube.writers.repeated_writes import check_request
from admission.reconcile.world_status import QueueStatuses, check_statuses
from admission.world.admission_checks import CheckQuestion
from admission.world.world import World
from queues.text_format import rfc3339
from tests.builders.facts import JOB, NOW, admission, gone, job, node, queue, released, see, world

ACCOUNT = "system:serviceaccount:staging:data"
WAITING = job(2, suspended=True, generation="g1")
RUNNING = job(2, generation="g1")
TEAM = queue("team", checks=("data",))


def check(name: str = "data", account: str = "data", **spec: Any) -> Change:
    document = {
        "metadata": {"name": name, "uid": f"{name}-uid"},
        "spec": {"answeredBy": {"namespace": "staging", "name": account}, **spec},
    }
    fact = admission_check_fact(msgspec.convert(document, WireAdmissionCheck))
    return Change(FactKind.ADMISSION_CHECK, name, fact)


def questions(known: World) -> list[CheckQuestion]:
    return list(known.admission_checks.questions())


def asked(known: World, number: int = 0, at: int = NOW) -> dict[str, Any]:
    """The request that the API server has once the question is asked."""
    question = questions(known)[number]
    document = check_request(question, at)
    before = question.progress.request
    document["metadata"] |= {
        "uid": f"request-{question.progress.check}",
        "generation": question.progress.attempt,
    }
    assert before is None or before.name == document["metadata"]["name"]
    return document


def shown(request: dict[str, Any], answer: str = "", *, to: int | None = None, **more: Any) -> Change:
    """A request as its informer shows it, with an answer."""
    generation = request["metadata"]["generation"]
    status = {"answer": answer, "observedGeneration": generation if to is None else to, **more}
    document = {**request, "status": status if answer else {}}
    fact = check_request_fact(msgspec.convert(document, WireCheckRequest))
    return Change(FactKind.CHECK_REQUEST, request["metadata"]["uid"], fact)


def state(known: World) -> tuple[str, str]:
    """Why the workload waits; ("", ""): it may be admitted."""
    found = known.states[JOB]
    assert found.needs_seats
    obstacle = found.workload.obstacle
    return ("", "") if obstacle is None else (str(obstacle.code), obstacle.message)


def test_a_workload_is_considered_when_its_check_has_said_yes_and_is_asked_by_one_write() -> None:
    known = world([TEAM, check(), WAITING])
    assert state(known) == ("WaitsForCheck", "check data is being asked")
    (question,) = questions(known)
    assert (question.progress.account, question.progress.attempt) == (ACCOUNT, 1)
    request = asked(known)
    assert request["spec"]["workload"] == {"kind": "job", "name": "train", "uid": "job-uid"}
    assert request["metadata"]["ownerReferences"][0]["uid"] == "job-uid"

    see(known, shown(request))
    assert questions(known) == []
    assert state(known)[1] == f"check data, asked at {rfc3339(NOW)}, has not answered"
    see(known, shown(request, "Pending", message="half of it is here"))
    assert state(known)[1].endswith("is at work: half of it is here")
    see(known, shown(request, "Rejected", message="no such data"))
    assert state(known)[0] == "CheckRejected"
    see(known, shown(request, "Ready"))
    assert state(known) == ("", "")
    assert questions(known) == []


def test_nothing_is_asked_where_no_queue_has_checks() -> None:
    known = world([queue("team"), check(), WAITING])
    assert (state(known), questions(known)) == (("", ""), [])


def test_checks_of_queues_above_hold_as_well_and_all_have_to_say_yes() -> None:
    known = world([queue("lab", checks=("budget",)), queue("team", parent="lab", checks=("data",))])
    see(known, check(), check("budget"), WAITING)
    requests = [asked(known, number) for number in range(2)]
    assert [each["spec"]["check"] for each in requests] == ["data", "budget"]
    see(known, shown(requests[0], "Ready"), shown(requests[1], "Rejected", message="spent"))
    assert state(known) == ("CheckRejected", f"check budget, asked at {rfc3339(NOW)}, says no: spent")
    see(known, shown(requests[1], "Ready"))
    assert state(known) == ("", "")


def test_an_answer_to_an_earlier_question_does_not_count() -> None:
    known = world([TEAM, check(), WAITING])
    request = asked(known)
    see(known, shown(request, "Ready", to=0))
    assert state(known)[0] == "WaitsForCheck"

    see(known, shown(request, "Ready"))
    see(known, replace(WAITING, generation="g2"))
    assert state(known)[0] == "WaitsForCheck"
    (again,) = questions(known)
    assert (again.progress.attempt, again.workload.generation) == (2, "g2")


def test_another_account_is_asked_anew() -> None:
    known = world([TEAM, check(), WAITING])
    see(known, shown(asked(known), "Ready"))
    see(known, check(account="other"))
    assert [each.progress.account for each in questions(known)] == ["system:serviceaccount:staging:other"]


def test_it_is_asked_again_when_the_check_wants_that_and_not_before() -> None:
    known = world([TEAM, check(), WAITING])
    request = asked(known)
    see(known, shown(request, "Retry", retryAfter="30s", answeredAt=rfc3339(NOW + 5), message="later"))
    assert questions(known) == []
    assert state(known)[1] == f"check data is asked again at {rfc3339(NOW + 35)}: later"
    see(known, now=NOW + 34)
    assert questions(known) == []
    see(known, now=NOW + 35)
    again = asked(known, at=NOW + 35)
    assert again["spec"]["attempt"] == 2
    see(known, shown(again), now=NOW + 36)
    assert (questions(known), state(known)[0]) == ([], "WaitsForCheck")


def test_a_silent_check_is_named_with_its_account_and_counted() -> None:
    known = world([TEAM, check(silentAfter="90s"), WAITING])
    request = asked(known)
    see(known, shown(request))
    see(known, now=NOW + 89)
    assert known.admission_checks.silent(NOW + 89) == {"data": []}
    see(known, now=NOW + 90)
    assert known.admission_checks.silent(NOW + 90) == {"data": [NOW]}
    assert state(known)[1].endswith(f"has not answered; {ACCOUNT} is silent")
    see(known, shown(request, "Pending"), now=NOW + 91)
    assert known.admission_checks.silent(NOW + 91) == {"data": []}


def told(known: World, now: int = NOW) -> tuple[list[str], str, str, str]:
    """Queues and condition of the one check."""
    (wanted,) = check_statuses(known, now)
    (said,) = wanted.conditions
    return wanted.fields["queues"], said.status, said.reason, said.message


def test_a_check_says_who_lists_it_and_whether_it_is_answered() -> None:
    known = world([queue("team"), check(silentAfter="90s"), WAITING])
    assert told(known) == ([], "Unknown", "NotListed", "no queue lists it")
    see(known, TEAM)
    see(known, shown(asked(known)))
    answers = "no request is without an answer for longer than 1m30s"
    assert told(known, NOW + 89) == (["team"], "True", "Answers", answers)
    silent = f"1 request without an answer for longer than 1m30s, the oldest since {rfc3339(NOW)}"
    assert told(known, NOW + 90) == (["team"], "False", "Silent", f"{ACCOUNT} is silent: {silent}")


def test_a_queue_says_which_of_its_checks_do_not_exist() -> None:
    known = world([queue("team", checks=("data", "budget")), check(), WAITING])
    statuses = QueueStatuses(known)

    def said() -> list[tuple[str, str]]:
        (wanted,) = [each for each in statuses.changed() if each.ref.name == "team"]
        return [(each.status, each.message) for each in wanted.conditions if each.type == "ChecksKnown"]

    message = "spec.admissionChecks: there is no AdmissionCheck budget; new work waits"
    assert said() == [("False", message)]
    assert state(known) == ("UnknownCheck", "there is no AdmissionCheck budget; check data is being asked")
    see(known, check("budget"))
    assert said() == [("True", "")]


def test_a_check_that_is_gone_is_named_and_its_request_is_taken_back() -> None:
    known = world([TEAM, check(), WAITING])
    see(known, shown(asked(known), "Ready"))
    see(known, replace(check(), fact=None))
    assert state(known) == ("UnknownCheck", "there is no AdmissionCheck data")
    assert [each.uid for each in known.admission_checks.surplus()] == ["request-data"]
    see(known, replace(shown(asked_before(known)), fact=None))
    see(known, check())
    assert (state(known)[0], len(questions(known))) == ("WaitsForCheck", 1)
    assert list(known.admission_checks.surplus()) == []


def asked_before(known: World) -> dict[str, Any]:
    """The request that is there."""
    (request,) = known.admission_checks.surplus()
    return {
        "metadata": {"uid": request.uid, "name": request.name, "generation": 1},
        "spec": {
            "check": request.check,
            "answeredBy": request.account,
            "workload": {"kind": "job", "uid": "job-uid"},
        },
    }


def test_another_list_of_the_queue_and_another_queue_count_at_once() -> None:
    known = world([TEAM, check(), check("budget"), queue("free"), WAITING])
    see(known, shown(asked(known), "Ready"))
    see(known, queue("team", checks=("budget",)))
    assert [each.progress.check for each in questions(known)] == ["budget"]
    assert [each.check for each in known.admission_checks.surplus()] == ["data"]
    see(known, replace(WAITING, queue="free"))  # type: ignore[arg-type]
    assert (state(known), questions(known)) == (("", ""), [])


def test_a_request_that_somebody_deletes_is_made_again() -> None:
    known = world([TEAM, check(), WAITING])
    request = shown(asked(known), "Ready")
    see(known, request)
    see(known, replace(request, fact=None))
    (again,) = questions(known)
    assert again.progress.request is None


def test_nothing_is_asked_about_work_that_waits_for_something_else() -> None:
    obstacle = world([TEAM, check()])
    see(obstacle, replace(WAITING, pod_sets=(), minimum=0, deleting=True))
    assert questions(obstacle) == []


NO = pytest.mark.parametrize("answer", ["Rejected", "Pending", "Retry"])


def seated(fact: WorkloadFact, answer: str, *, bound: bool, told: bool = False) -> World:
    """A Job that was admitted on a yes, and what the check says now. ``told``: the ledger knows that it has started."""
    asking = world([TEAM, check(), WAITING])
    request = asked(asking)
    facts = [node("n1"), TEAM, check(), fact, shown(request, answer, message="why")]
    if bound:
        facts += [released(name, f"main/{index}", "n1", owner=JOB) for index, name in enumerate("ab")]
    return world(facts, [admission(JOB, "n1 n1", started=told)])


@NO
def test_a_gang_goes_back_without_a_setback_if_a_yes_is_withdrawn_before_its_pods_start(answer: str) -> None:
    (rollback,) = seated(RUNNING, answer, bound=False).states[JOB].evictable.values()
    code = "CheckRejected" if answer == "Rejected" else "WaitsForCheck"
    assert (rollback.code, rollback.not_before) == (code, 0)
    assert "why" in rollback.message
    assert not seated(RUNNING, "Ready", bound=False).states[JOB].evictable


@NO
@pytest.mark.parametrize("told", [False, True], ids=["as the ledger is told next", "as the ledger knows"])
def test_what_runs_goes_on_whatever_a_check_says(answer: str, told: bool) -> None:
    found = seated(RUNNING, answer, bound=True, told=told).states[JOB]
    assert (dict(found.evictable), found.workload.obstacle) == ({}, None)


def test_a_check_that_comes_when_work_is_admitted_takes_nothing_back() -> None:
    late = world([node("n1"), TEAM, check(), RUNNING], [admission(JOB, "n1 n1")])
    assert not late.states[JOB].evictable
    assert questions(late) == []


@pytest.mark.parametrize("answer", ["", "Ready", "Pending", "Rejected", "Retry"])
def test_a_new_leader_knows_what_the_one_before_knew(answer: str) -> None:
    """All that was asked, answered and withdrawn while no leader looked."""
    known = world([TEAM, check(), WAITING])
    request = shown(asked(known), answer)
    see(known, request)
    fresh = world([TEAM, check(), request, WAITING])
    assert state(fresh) == state(known)
    assert questions(fresh) == questions(known)


def test_requests_of_a_job_that_is_gone_are_left_to_the_garbage_collector() -> None:
    known = world([TEAM, check(), WAITING])
    see(known, shown(asked(known), "Ready"))
    see(known, gone(WAITING))
    assert list(known.admission_checks.surplus()) == []

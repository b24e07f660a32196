"""Work that comes after other work: which workload a name means, and what follows from how that ended."""

from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from admission import cycle
from admission.facts.pods import Conduct, PodPhase
from admission.facts.workloads import WorkloadFact
from admission.world import dependencies
from admission.world.dependencies import DependencyIndex
from admission.world.world import World
from queues import kind_names
from queues.admissions import AdmissionState
from queues.api.reading.dependencies import read_dependencies
from queues.dependencies import Arrived, Predecessor, PredecessorQuestion
from queues.errors import DatabaseUnavailable
from queues.kind_names import KindName
from queues.workload import Result, WorkloadKey
from tests.builders.facts import NOW, admission, gone, job, node, pod, queue, see, world
from tests.tables import with_rows

TEAM = queue("team")
FIRST, NEXT = WorkloadKey(kind_names.JOB, "first-uid"), WorkloadKey(kind_names.JOB, "next-uid")


def named(name: str, after: str | None = None, **facts: Any) -> WorkloadFact:
    """A Job that is to come after others; its uid follows from its name."""
    given: dict[str, Any] = {"key": WorkloadKey(kind_names.JOB, f"{name}-uid"), "created": NOW}
    conduct = Conduct(after=read_dependencies(after))
    return replace(job(1, name=name, suspended=True), **given | facts, conduct=conduct)


def succeeded(fact: WorkloadFact) -> WorkloadFact:
    return replace(fact, finished=True)


def failed(fact: WorkloadFact) -> WorkloadFact:
    return replace(fact, finished=True, failed=True)


def in_ledger(
    uid: str, result: Result | None, *, created: int = NOW - 900, number: int = 1, kind: str = "job"
) -> Predecessor:
    return Predecessor(WorkloadKey(KindName(kind), uid), Arrived(created, number), result)


def ask(known: World, ledger: dict[str, Predecessor] | None = None) -> list[str]:
    """Have the ledger asked as in a turn. ``ledger``: what it knows, by name. Returns what it was asked for."""
    questions = known.dependencies.questions()
    found = {each: (ledger or {})[each.name] for each in questions if each.name in (ledger or {})}
    known.dependencies.learn(questions, found)
    known.refresh(NOW)
    return [f"{each.kind}/{each.name}" for each in questions]


def waits(known: World, key: WorkloadKey = NEXT) -> tuple[str, str]:
    """Why a workload waits; ("", ""): it may be admitted."""
    obstacle = known.states[key].workload.obstacle
    return ("", "") if obstacle is None else (str(obstacle.code), obstacle.message)


@pytest.mark.parametrize(
    ("after", "end", "code"),
    [
        ("job/first", succeeded, ""),
        ("job/first:ok", succeeded, ""),
        ("job/first", failed, "DependencyFailed"),
        ("job/first:any", failed, ""),
        ("job/first:any", succeeded, ""),
    ],
)
def test_it_may_be_admitted_when_its_predecessor_has_ended_as_it_wants(
    after: str, end: Any, code: str
) -> None:
    known = world([TEAM, named("first"), named("next", after)])
    assert waits(known)[0] == "WaitsForDependency"
    assert ask(known) == [], "what is there is read from memory"
    see(known, end(named("first")))
    assert waits(known)[0] == code


def test_a_predecessor_that_failed_says_what_its_owner_can_do() -> None:
    known = world([TEAM, failed(named("first")), named("next", "job/first, job/other:any")])
    assert waits(known) == (
        "DependencyFailed",
        "job/first failed, and job/next is to start once it has succeeded. Create job/next again after the next "
        "job/first; or start it all the same: `kubectl annotate job/next -n ns --overwrite "
        "muster.dev/after=job/first:any,job/other:any`",
    )
    see(known, named("next", "job/first:any"))
    assert waits(known) == ("", "")


def test_all_of_them_have_to_end_and_the_message_names_those_that_have_not() -> None:
    known = world([TEAM, named("a"), named("b"), named("c"), named("next", "job/a, job/b, job/c:any")])
    see(known, succeeded(named("a")))
    assert waits(known)[1] == "waits for job/b to succeed, and for job/c to end (annotation muster.dev/after)"
    see(known, succeeded(named("b")), failed(named("c")))
    assert waits(known) == ("", "")


@pytest.mark.parametrize(
    ("result", "code"),
    [(Result.SUCCEEDED, ""), (Result.FAILED, "DependencyFailed"), (Result.DELETED, "DependencyFailed")],
)
def test_a_predecessor_whose_object_is_gone_counts_by_what_the_ledger_says(result: Result, code: str) -> None:
    known = world([TEAM, named("next", "job/first")])
    assert waits(known)[0] == "WaitsForDependency"
    assert ask(known, {"first": in_ledger("old", result)}) == ["job/first"]
    assert waits(known)[0] == code
    see(known, named("next", "job/first"), named("unconcerned"))
    assert (ask(known), waits(known)[0]) == ([], code), "the ledger is asked once"


def test_all_names_are_asked_for_together_and_again_only_when_one_comes_or_goes() -> None:
    known = world([TEAM, named("next", "job/a, vcjob/b"), named("other", "job/a")])
    assert ask(known) == ["job/a", "vcjob/b", "job/a"]
    assert waits(known) == (
        "DependencyMissing",
        "there is no job/a and vcjob/b in its namespace, and there was none in a queue: create what is missing, or "
        "correct the annotation muster.dev/after",
    )
    late = named("a", created=NOW + 60)
    see(known, late)
    assert set(ask(known)) == {"job/a"}
    see(known, succeeded(late))
    assert ask(known) == []
    assert (waits(known)[0], waits(known, named("other").key)) == ("DependencyMissing", ("", ""))


def test_what_comes_after_nothing_costs_nothing() -> None:
    known = world([TEAM, named("first"), named("next"), pod("bare", gated=True, controller="")])
    assert not known.dependencies.is_used
    assert not known.dependencies.must_ask


def test_what_runs_or_ran_before_is_not_asked_about() -> None:
    known = world(
        [TEAM, node("n1"), named("next", "job/first", suspended=False)], [admission(NEXT, "n1", started=True)]
    )
    assert ask(known) == []
    assert waits(known) == ("", "")


def test_an_end_that_was_seen_counts_until_the_ledger_has_it() -> None:
    first = named("first")
    known = world([TEAM, first, named("next", "job/first")], arrivals={FIRST: 1, NEXT: 2})
    see(known, succeeded(first), gone(first))
    ask(known, {"first": in_ledger("first-uid", None, created=NOW)})
    assert waits(known) == ("", "")
    known.forget([FIRST])
    assert ask(known, {"first": in_ledger("first-uid", Result.SUCCEEDED, created=NOW)}) == ["job/first"]
    assert waits(known) == ("", "")


def finalizers(known: World, **ledger: bool) -> list[tuple[str, bool]]:
    """Names of Jobs whose finalizer is to be added (True) or removed. ``stored``: whether their ends are."""
    changes = known.dependencies.finalizer_changes(lambda _: ledger.get("stored", True))
    return [(fact.name, not fact.kept) for fact in changes]


def test_a_job_that_others_wait_for_does_not_disappear_before_its_end_is_stored() -> None:
    known = world([TEAM, named("first"), named("other"), *(named(f"n{i}", "job/first") for i in range(1000))])
    assert finalizers(known) == [("first", True)], "once, however many wait for it"
    assert finalizers(known) == [("first", True)], "until it is seen"
    see(known, named("first", kept=True))
    assert finalizers(known) == []

    ended = replace(succeeded(named("first")), kept=True)
    see(known, ended, *(gone(named(f"n{i}", "job/first")) for i in range(999)))
    see(known, replace(ended, deleting=True))
    assert finalizers(known, stored=False) == finalizers(known, stored=False) == []
    assert finalizers(known) == [("first", False)]
    see(known, replace(succeeded(named("first")), deleting=True))
    assert finalizers(known) == []


@pytest.mark.parametrize(
    "freed", ["its deletion", "the successor goes", "the successor names another", "no queue"]
)
def test_a_job_may_disappear_when_nobody_waits_for_its_end_or_it_will_have_none(freed: str) -> None:
    held = named("first", kept=True)
    known = world([TEAM, held, named("next", "job/first")])
    assert finalizers(known) == []
    match freed:
        case "its deletion":
            see(known, replace(held, deleting=True))
        case "the successor goes":
            see(known, gone(named("next", "job/first")))
        case "the successor names another":
            see(known, named("next", "job/other"))
        case "no queue":
            see(known, replace(held, queue=None))
    assert finalizers(known, stored=False) == [("first", False)]


def test_a_job_may_disappear_when_its_successor_was_admitted() -> None:
    held, either = named("first", kept=True), named("next", "job/first:any")
    known = world([TEAM, node("n1"), held, either])
    assert finalizers(known) == []
    known.put_admissions([admission(NEXT, "n1")])
    known.refresh(NOW)
    assert finalizers(known) == [("first", False)]


def test_a_leader_that_finds_a_kept_job_that_nobody_waits_for_lets_it_go() -> None:
    known = world([TEAM, named("first", kept=True), named("unconcerned")])
    assert finalizers(known) == [("first", False)]


def test_the_end_of_a_job_is_stored_when_nothing_about_it_is_left_to_be_stored() -> None:
    first = named("first", kept=True)
    known = world([TEAM, first, named("next", "job/first")], arrivals={FIRST: 1, NEXT: 2})
    known.saved(deepcopy(known.unsaved), {}, ())
    assert known.is_stored(FIRST)
    see(known, replace(first, finished=True, deleting=True))
    assert not known.is_stored(FIRST)
    known.saved(deepcopy(known.unsaved), {}, ())
    assert known.is_stored(FIRST)


def test_one_that_is_deleted_before_it_ended_has_not_succeeded() -> None:
    first = named("first")
    known = world(
        [TEAM, node("n1"), first, named("next", "job/first")],
        [admission(FIRST, "n1", name="first")],
        arrivals={FIRST: 1, NEXT: 2},
    )
    see(known, gone(first))
    ask(known, {"first": in_ledger("first-uid", None, created=NOW)})
    assert waits(known)[0] == "WaitsForDependency", "its pods run still"
    known.put_admissions(
        [replace(admission(FIRST, "n1", name="first"), state=AdmissionState.CLOSED, ended=frozenset({0}))]
    )
    known.refresh(NOW)
    assert waits(known)[1].startswith("job/first was deleted before it ended, and job/next")


def test_a_name_means_the_newest_workload_that_came_before() -> None:
    old = in_ledger("old", Result.FAILED)
    known = world([TEAM, named("first"), named("next", "job/first")])
    ask(known, {"first": old})
    see(known, succeeded(named("first")))
    assert waits(known) == ("", ""), "the one that is there came after the one that failed"

    known = world([TEAM, named("next", "job/first"), named("first", created=NOW + 60)])
    ask(known, {"first": old})
    assert waits(known)[0] == "DependencyFailed", "the one that is there came after the successor"


def test_two_of_one_command_are_made_in_the_same_second_in_whatever_order() -> None:
    first, successor = named("first"), named("next", "job/first")
    known = world([TEAM, successor, first], arrivals={NEXT: 8, FIRST: 9})
    ask(known, {"first": in_ledger("old", Result.SUCCEEDED)})
    assert waits(known)[0] == "WaitsForDependency"


def test_a_name_that_nobody_had_before_means_the_first_that_comes() -> None:
    late = named("first", created=NOW + 60)
    known = world([TEAM, named("next", "job/first")])
    ask(known)
    assert waits(known)[0] == "DependencyMissing"
    see(known, late)
    ask(known)
    assert waits(known)[0] == "WaitsForDependency"
    see(known, gone(late), named("first", created=NOW + 120, key=WorkloadKey(kind_names.JOB, "second")))
    ask(known, {"first": in_ledger("first-uid", Result.DELETED, created=NOW + 60, number=7)})
    assert waits(known)[0] == "DependencyFailed", "a name is one workload from then on"


def test_a_predecessor_in_no_queue_has_no_end_that_is_known() -> None:
    known = world([TEAM, named("first", queue=None), named("next", "job/first")])
    ask(known)
    assert waits(known) == (
        "DependencyMissing",
        "job/first does not wait in a queue, so that Muster does not know the end: create it again in a queue, or "
        "correct the annotation muster.dev/after",
    )
    see(known, named("first"))
    assert waits(known)[0] == "WaitsForDependency"


def test_bare_pods_come_after_others_and_others_after_them() -> None:
    bare = pod("bare", gated=True, controller="", queue=TEAM.queue.name, created=NOW)
    key, conduct = WorkloadKey(kind_names.POD, "then"), Conduct(after=read_dependencies("pod/bare"))
    after = replace(bare, uid="then", name="then", owner=key, conduct=conduct)
    known = world([TEAM, bare, after])
    assert (ask(known), waits(known, key)[0]) == ([], "WaitsForDependency")
    see(known, replace(bare, gated=False, phase=PodPhase.SUCCEEDED, ended_first=True))
    assert waits(known, key) == ("", "")


@with_rows("after", "message")
def test_what_cannot_be_meant_is_said_and_it_waits(after: str, message: str) -> None:
    known = world([TEAM, named("next", after)])
    assert ask(known) == [] or after.startswith("deployment")
    code, said = waits(known)
    assert (code, said.startswith(f"metadata.annotations[muster.dev/after]: {message}")) == (
        "InvalidSpec",
        True,
    )
    see(known, named("next"))
    assert waits(known) == ("", "")


def test_each_of_a_cycle_names_it() -> None:
    known = world([TEAM, named("a", "job/b"), named("b", "job/c")])
    see(known, named("c", "job/a", created=NOW + 60))
    ask(known)
    keys = [named(name).key for name in "abc"]
    assert [waits(known, key)[0] for key in keys] == ["DependencyCycle"] * 3
    assert waits(known, keys[2])[1] == (
        "it is to come after itself: job/c, job/a and job/b, each after the next and the last after the first. Take "
        "one of them out of the annotation muster.dev/after of the one before"
    )
    see(known, named("a"))
    assert [waits(known, key)[0] for key in keys] == ["", "WaitsForDependency", "WaitsForDependency"]
    see(known, named("a", "job/b"))
    assert [waits(known, key)[0] for key in keys] == ["DependencyCycle"] * 3, "whichever object closes it"
    see(known, gone(named("b", "job/c")))
    ask(known)
    assert [waits(known, keys[0])[0], waits(known, keys[2])[0]] == ["DependencyMissing", "WaitsForDependency"]


def test_cycles_are_looked_for_by_few_steps_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much work of one namespace comes after however much other work of it."""
    steps = []
    waiting_before = DependencyIndex._waiting_before
    monkeypatch.setattr(
        DependencyIndex, "_waiting_before", lambda index, key: steps.append(key) or waiting_before(index, key)
    )
    monkeypatch.setattr(dependencies, "_STEPS", 20)
    row = [
        named(f"j{number}", ",".join(f"job/j{number + each}" for each in (-2, -1)), created=NOW + number)
        for number in range(2, 100)
    ]
    known = world([TEAM, named("j0"), named("j1"), *row])
    ask(known)
    assert not steps, "nobody waits for what came later"

    see(known, named("j1", "job/j99", created=NOW + 1))
    ask(known)
    assert len(steps) < 50
    see(known, named("x", "job/y"), named("y", "job/x"))
    ask(known)
    assert waits(known, named("x").key)[0] == "DependencyCycle", "what takes too long keeps no other one back"


def test_a_long_row_of_work_is_no_cycle() -> None:
    row = [
        named(f"step-{number}", f"job/step-{number - 1}", created=NOW + number) for number in range(1, 400)
    ]
    known = world([TEAM, named("step-0"), *row])
    assert ask(known) == []
    assert {waits(known, each.key)[0] for each in row} == {"WaitsForDependency"}
    see(known, succeeded(named("step-0")))
    assert waits(known, row[0].key) == ("", "")


@with_rows("after", "code")
def test_a_trial_goes_by_the_objects_that_are_there(after: str, code: str) -> None:
    known, tried = world([TEAM, named("first"), failed(named("bad"))]), named("tried", after)
    obstacle = known.dependencies.obstacle_of_new(tried.key, tried)
    assert ("" if obstacle is None else obstacle.code) == code
    assert not known.dependencies.is_used


async def test_the_ledger_is_asked_again_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    known, answers = (
        world([TEAM, named("next", "job/first")]),
        [DatabaseUnavailable(reason="it is away"), None],
    )

    async def asked_for(_: object, questions: list[PredecessorQuestion]) -> Any:
        if (error := answers.pop(0)) is not None:
            raise error
        return {each: in_ledger("old", Result.SUCCEEDED) for each in questions}

    monkeypatch.setattr(cycle, "predecessors", asked_for)
    database: Any = SimpleNamespace(transaction=nullcontext)
    with pytest.raises(DatabaseUnavailable):
        await cycle.look_for_predecessors(database, known)
    assert known.dependencies.must_ask
    await cycle.look_for_predecessors(database, known)
    known.refresh(NOW)
    assert (waits(known), known.dependencies.must_ask) == (("", ""), False)
    await cycle.look_for_predecessors(database, known)
    assert answers == [], "nothing is left to ask"

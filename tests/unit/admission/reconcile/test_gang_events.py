"""A gang that waits for room tells it by a Warning of its PodGroup, once for each reason."""

from dataclasses import replace
from typing import Any

import pytest

from admission.facts.workloads import WorkloadFact
from admission.kube.writers import events as writers
from admission.kube.writers.events import EventWriter
from admission.reconcile.status import EventNote
from admission.reconcile.world_status import WorldStatuses
from admission.world.world import World
from queues import kind_names
from queues.plan import Reason
from queues.reason_codes import ADVICE, ReasonCode
from queues.workload import WorkloadKey
from tests.builders.facts import GROUP, TEAM, VOLCANO, gated, group, node, queue, volcano_job, world
from tests.builders.facts import pod as running
from tests.tables import named_rows

NO_FIT = Reason(code=ReasonCode.NO_FIT, message="no room")
SENTENCE = f"no room. {ADVICE[ReasonCode.NO_FIT].owner}"
LIMIT = Reason(code=ReasonCode.QUEUE_LIMIT, message="8 of 8 used")


def group_of_a_job(**facts: Any) -> WorkloadFact:
    key = WorkloadKey(kind_names.POD_GROUP, "its-group")
    return replace(group(2), key=key, name=f"train-{VOLCANO.uid}", stands_for=VOLCANO, **facts)


def waiting(*facts: Any, key: WorkloadKey = VOLCANO, reason: Reason = NO_FIT) -> World:
    known = world([queue(TEAM), node("n"), *facts], arrivals={key: 1})
    known.ledger.put_reasons({key: reason}, ())
    return known


def notes(known: World, key: WorkloadKey = VOLCANO) -> list[tuple[EventNote, bool]]:
    return list(WorldStatuses(known, None, {}).waiting_notes(key))  # type: ignore[arg-type]


def told(known: World, key: WorkloadKey = VOLCANO) -> list[tuple[str, str, bool, str]]:
    return [(note.ref.name, note.reason, note.warning, note.message) for note, _ in notes(known, key)]


def test_a_volcano_job_tells_it_with_its_code_and_its_podgroup_as_volcanos() -> None:
    assert told(waiting(volcano_job(2), group_of_a_job())) == [
        ("train", "NoFit", False, SENTENCE),
        (
            f"train-{VOLCANO.uid}",
            "Unschedulable",
            True,
            f"2/2 tasks in gang unschedulable: NoFit: {SENTENCE}",
        ),
    ]


CLOSED = Reason(code=ReasonCode.QUEUE_CLOSED, message="closed")


@named_rows(
    ("facts", "reason"),
    {
        "it has no PodGroup yet": ((volcano_job(2),), NO_FIT),
        "one pod is no gang": ((volcano_job(1), group_of_a_job()), NO_FIT),
        "resources are not what it waits for": ((volcano_job(2), group_of_a_job()), CLOSED),
    },
)
def test_a_volcano_job_tells_it_alone(facts: tuple[Any, ...], reason: Reason) -> None:
    known = waiting(*facts, reason=reason)
    assert [(name, code) for name, code, _, _ in told(known)] == [("train", reason.code)]


def test_a_podgroup_with_pods_of_its_own_tells_it_as_volcanos_and_not_twice() -> None:
    known = waiting(group(2), gated("a", group="gang"), gated("b", group="gang"), key=GROUP)
    sentence = f"2/2 tasks in gang unschedulable: NoFit: {SENTENCE}"
    assert told(known, GROUP) == [("gang", "Unschedulable", True, sentence)]


def test_a_gang_of_which_pods_run_counts_those_that_it_lacks() -> None:
    pods = (gated("a", group="gang"), running("b", "n", group="gang"))
    [(_, _, _, message)] = told(waiting(group(2), *pods, key=GROUP), GROUP)
    assert message.startswith("1/2 tasks in gang unschedulable: ")


@pytest.mark.parametrize(
    ("said", "shown"), [(("False", "NoFit"), True), (("False", "QueueLimit"), False), (("", ""), False)]
)
def test_the_next_leader_does_not_repeat_what_the_podgroup_says(said: tuple[str, str], shown: bool) -> None:
    assert [each for _, each in notes(waiting(volcano_job(2), group_of_a_job(told=said)))] == [shown, shown]
    assert [each for _, each in notes(waiting(volcano_job(1), group_of_a_job(told=said)))] == [shown]


async def test_the_same_waiting_is_one_write_and_another_reason_is_one_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writers, "FIRST_AFTER", 0.0)
    events = EventWriter(None, lambda: None, instance="me")  # type: ignore[arg-type]

    def tell(reason: Reason) -> int:
        known = waiting(volcano_job(2), group_of_a_job(), reason=reason)
        for note, shown in notes(known):
            events.tell(note, shown=shown)
        events._queue_held()
        return sum(note.reason == "Unschedulable" for note, _ in events._waiting.values())

    more = replace(NO_FIT, message="no room, other numbers")
    assert [tell(each) for each in (NO_FIT, NO_FIT, more, LIMIT, NO_FIT, LIMIT)] == [1, 1, 1, 2, 2, 2]
    assert list(events._written) == [VOLCANO.uid], "one memory for both objects"
    (said, _), *_ = notes(waiting(volcano_job(2)))
    events.tell(EventNote(ref=said.ref, reason="Admitted", message="", action="Admit"))
    events._waiting.clear()
    assert tell(NO_FIT) == 1, "after an admission it is told again"

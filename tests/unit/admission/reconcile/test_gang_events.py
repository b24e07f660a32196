"""A gang that waits for room tells it once for each reason: by a Warning of its PodGroup, or on its Volcano Job."""

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


def noted(known: World, key: WorkloadKey = VOLCANO) -> tuple[EventNote, bool]:
    note, shown = WorldStatuses(known, None, {}).waiting_note(key)  # type: ignore[arg-type]
    assert note is not None
    return note, shown


def told(known: World, key: WorkloadKey = VOLCANO) -> tuple[str, str, bool, str]:
    note, _ = noted(known, key)
    return note.ref.name, note.reason, note.warning, note.message


def test_a_volcano_job_tells_it_with_its_code() -> None:
    assert told(waiting(volcano_job(2), group_of_a_job())) == ("train", "NoFit", False, SENTENCE)


def test_a_podgroup_with_pods_of_its_own_tells_it_as_volcanos_and_not_twice() -> None:
    known = waiting(group(2), gated("a", group="gang"), gated("b", group="gang"), key=GROUP)
    sentence = f"2/2 tasks in gang unschedulable: NoFit: {SENTENCE}"
    assert told(known, GROUP) == ("gang", "Unschedulable", True, sentence)


def test_a_gang_of_which_pods_run_counts_those_that_it_lacks() -> None:
    pods = (gated("a", group="gang"), running("b", "n", group="gang"))
    message = told(waiting(group(2), *pods, key=GROUP), GROUP)[-1]
    assert message.startswith("1/2 tasks in gang unschedulable: ")


@pytest.mark.parametrize(
    ("said", "shown"), [(("False", "NoFit"), True), (("False", "QueueLimit"), False), (("", ""), False)]
)
def test_the_next_leader_does_not_repeat_what_the_podgroup_says(said: tuple[str, str], shown: bool) -> None:
    assert noted(waiting(volcano_job(2), group_of_a_job(told=said)))[1] is shown


async def test_the_same_waiting_is_one_write_and_another_reason_is_one_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writers, "FIRST_AFTER", 0.0)
    events = EventWriter(None, lambda: None, instance="me")  # type: ignore[arg-type]

    def tell(reason: Reason) -> int:
        note, shown = noted(waiting(volcano_job(2), group_of_a_job(), reason=reason))
        events.tell(note, shown=shown)
        events._queue_held()
        return len(events._waiting)

    more = replace(NO_FIT, message="no room, other numbers")
    assert [tell(each) for each in (NO_FIT, NO_FIT, more, LIMIT, NO_FIT, LIMIT)] == [1, 1, 1, 2, 2, 2]
    said, _ = noted(waiting(volcano_job(2)))
    events.tell(EventNote(ref=said.ref, reason="Admitted", message="", action="Admit"))
    events._waiting.clear()
    assert tell(NO_FIT) == 1, "after an admission it is told again"

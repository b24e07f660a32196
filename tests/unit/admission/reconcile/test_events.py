"""Events about objects: HyperNodes that cannot be used, pods with other devices than they should have."""

from dataclasses import replace
from typing import Any

import pytest

from admission.facts.cluster import FlavorFact, HyperNodeFact, HyperNodeMember, QueueFact, TopologyFact
from admission.facts.workloads import WorkloadFact
from admission.kube.writers import events as writers
from admission.kube.writers.events import EventWriter, event
from admission.reconcile.events import BudgetEvents, ObjectEvents
from admission.reconcile.status import EventNote
from admission.reconcile.world_status import WorldStatuses
from admission.world.hypernodes import problems_of
from admission.world.world import World
from queues import kind_names
from queues.plan import Reason
from queues.quota.budgets import HoursBudget, HoursUsed
from queues.reason_codes import ADVICE, ReasonCode
from queues.resources import GPU
from queues.workload import QueueName, WorkloadKey
from tests.builders.facts import GROUP, NOW, TEAM, VOLCANO, gated, group, node, queue, volcano_job, world
from tests.builders.facts import pod as running


def hypernode(name: str, *inner: str, problems: tuple[str, ...] = ()) -> HyperNodeFact:
    members = tuple(HyperNodeMember(hypernode=True, exact=each) for each in inner)
    return HyperNodeFact(name=name, tier=1, uid=f"uid-{name}", members=members, problems=problems)


BAD = hypernode("bad", problems=("spec.members[0]: found x, expected y",))
GOOD = hypernode("good", "bad")


def test_what_is_wrong_is_told_once_and_once_more_when_it_changed() -> None:
    complaints = ObjectEvents()

    (note,) = complaints.new([BAD, GOOD])
    assert (note.ref.resource.kind, note.ref.name, note.ref.uid) == ("HyperNode", "bad", "uid-bad")
    assert note.warning
    assert "spec.members[0]: found x, expected y" in note.message
    assert complaints.new([BAD, GOOD]) == []
    assert complaints.new([BAD, replace(GOOD, tier=2)]) == []

    other = replace(BAD, problems=("spec.members[1]: found z, expected y",))
    assert ["z" in each.message for each in complaints.new([other, GOOD])] == [True]
    assert complaints.new([GOOD]) == []
    assert len(complaints.new([other, GOOD])) == 1


def test_of_many_problems_some_are_told() -> None:
    many = hypernode("bad", problems=tuple(f"problem {number}" for number in range(100)))

    assert problems_of([many])["bad"].endswith("problem 0; problem 1; problem 2; and 97 more.")


def test_hypernodes_inside_one_another_are_told_the_way_around() -> None:
    around = [hypernode("c", "a"), hypernode("a", "b", "nobody"), hypernode("b", "c")]

    assert problems_of(around).keys() == {"a"}
    assert "a → b → c → a" in problems_of(around)["a"]
    assert problems_of(around[:2]) == {}


def test_a_flavor_or_topology_that_is_not_read_whole_gets_an_event_whenever_that_changes() -> None:
    events, parts = ObjectEvents(), "spec.nodeLabels: found 5001 entries, expected at most 5000"
    whole, cut = FlavorFact(name="whole", uid="w"), FlavorFact(name="cut", uid="c", unread=parts)
    topology = TopologyFact(name="site", levels=(), uid="s", unread="spec.levels: found more")
    (first, second) = events.new((), [whole, cut], [topology])
    assert (first.ref.path, first.reason, first.warning) == (
        "/apis/muster.dev/v1alpha1/resourceflavors/cut",
        "BeyondBounds",
        True,
    )
    assert first.message == f"what is beyond these bounds is not read: {parts}"
    assert second.ref.name == "site"
    assert events.new((), [whole, cut], [topology]) == []
    assert [note.ref.name for note in events.new((), [whole, replace(cut, unread="more")], [])] == ["cut"]


# ── budgets ─────────────────────────────────────────────────────────────────────────────────────────────────


TOP, A = QueueName("top"), QueueName("a")
HOUR = 3_600_000


def budgeted() -> QueueFact:
    return queue("top", budget=HoursBudget(hours={GPU: 10_000}))


def with_used(used: int, held: int = 0, now: int = NOW) -> World:
    """A world in which queue a, below top with ten hours, has used so much."""
    found = world([budgeted(), queue("a", parent=TOP)])
    month = found.budgets.unread(now)
    assert month is not None
    found.budgets.begin(month, {A: {GPU: HoursUsed(used, held, now)}}, {}, now)
    return found


def test_a_budget_that_is_nearly_used_up_has_one_event_in_a_month() -> None:
    known, events = with_used(8 * HOUR - 1000, held=1000), BudgetEvents()
    assert list(events.new(known, NOW)) == []
    (note,) = events.new(known, NOW + 1)
    assert (note.ref.name, note.reason, note.warning) == ("top", "BudgetNearlySpent", True)
    assert note.message.startswith(f"80 % of 10 hours of {GPU} until ")
    assert list(events.new(known, NOW + 2)) == []
    next_month = known.budgets.use.period.ends  # type: ignore[union-attr]
    later = with_used(9 * HOUR, now=next_month)
    assert len(list(events.new(later, next_month))) == 1
    assert list(BudgetEvents().new(world([queue("a")]), NOW)) == []


def test_another_leader_writes_it_by_the_same_name_or_leaves_it_to_the_one_before() -> None:
    known = with_used(8 * HOUR, held=1000)
    (first,), (second,) = (BudgetEvents().new(known, NOW + late) for late in (0, 3599))
    written, again = (event(note, at * 10**9, "muster") for note, at in ((first, NOW), (second, NOW + 3599)))
    assert written["metadata"] == again["metadata"]
    assert written["eventTime"] != again["eventTime"]
    assert list(BudgetEvents().new(known, NOW + 3600)) == []


# ── gangs ───────────────────────────────────────────────────────────────────────────────────────────────────


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

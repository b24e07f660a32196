"""What queues deserve by loans: told when it changes, by a Queue or by the time, and never stored beside the facts."""

from dataclasses import replace
from typing import Any

import pytest

from admission.facts.cluster import QueueFact
from admission.world import queues
from admission.world.world import World
from queues.quota.accounts import Account
from queues.quota.queue import Limits, Loan, QueuePolicy
from queues.workload import NO_FLAVOR, QueueName
from tests.builders.facts import NOW, TEAM, gone, job, queue, see, world

GPU = "nvidia.com/gpu"
A, B = QueueName("a"), QueueName("b")


def owning(name: str, units: int, **about: Any) -> QueueFact:
    return queue(name, limits=Limits(deserved={GPU: units}), **about)


def lending(units: int, until: int) -> QueueFact:
    loan = Loan(to=B, account=Account(NO_FLAVOR, GPU), units=4, until=until)
    return owning("a", units, loans=(loan,))


def two(until: int = NOW + 60) -> World:
    return world([lending(8, until), owning("b", 8)])


def deserved(known: World, now: int = NOW) -> dict[str, int]:
    """As a decision sees it."""
    return {name: queue.limits.deserved[GPU] for name, queue in known.freeze(now).queues.items()}


def unsaved(known: World) -> dict[str, int | None]:
    """As intake stores it."""
    rows = known.unsaved.queues
    return {name: None if fact is None else fact.queue.limits.deserved[GPU] for name, fact in rows.items()}


def save(known: World) -> None:
    known.unsaved.queues.clear()
    known.snapshot_is_stale = False


def test_a_loan_counts_for_decisions_and_in_the_database_and_not_in_the_fact() -> None:
    known = two()
    assert deserved(known) == unsaved(known) == {"a": 4, "b": 12}
    assert known.queues[A].queue.limits.deserved[GPU] == 8


def test_when_a_loan_ends_both_queues_are_stored_and_decided_on_again() -> None:
    known = two()
    save(known)
    known.refresh(NOW + 59)
    assert (known.snapshot_is_stale, unsaved(known), known.queue_facts.loans_until) == (False, {}, NOW + 60)
    known.refresh(NOW + 60)
    assert known.snapshot_is_stale
    assert unsaved(known) == deserved(known, NOW + 60) == {"a": 8, "b": 8}
    assert known.queue_facts.loans_until is None


def test_a_loan_that_ended_while_nobody_led_counts_no_more() -> None:
    known = two(until=NOW)
    assert deserved(known) == unsaved(known) == {"a": 8, "b": 8}


def test_a_change_of_a_queue_keeps_its_loan_and_stores_the_other_only_if_that_changes() -> None:
    known = two()
    save(known)
    see(known, owning("b", 16), now=NOW + 1)
    assert (deserved(known), unsaved(known)) == ({"a": 4, "b": 20}, {"b": 20})

    save(known)
    see(known, lending(2, NOW + 60), now=NOW + 2)
    assert deserved(known) == unsaved(known) == {"a": 0, "b": 18}


def test_a_loan_ends_with_the_queue_that_lends_and_with_the_one_that_it_is_lent_to() -> None:
    known = two()
    save(known)
    see(known, gone(owning("a", 8)), now=NOW + 1)
    assert (deserved(known), unsaved(known)) == ({"b": 8}, {"a": None, "b": 8})

    known = two()
    save(known)
    see(known, gone(owning("b", 8)), now=NOW + 1)
    assert (deserved(known), unsaved(known)) == ({"a": 8}, {"a": 8, "b": None})


def test_a_loan_is_ended_by_its_object() -> None:
    known = two()
    save(known)
    see(known, owning("a", 8), now=NOW + 1)
    assert deserved(known) == unsaved(known) == {"a": 8, "b": 8}


def test_a_status_that_changes_costs_no_look_at_the_loans_and_stores_what_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = two()
    save(known)
    monkeypatch.setattr(queues, "loans_in_force", None)
    see(known, replace(owning("b", 8), shown="Open", changed_by="somebody"), now=NOW + 1)
    assert (deserved(known), unsaved(known)) == ({"a": 4, "b": 12}, {"b": 12})


def test_work_that_waits_follows_the_policy_of_its_queue() -> None:
    fact = job(3, name="train", suspended=True, whole_by_default=True)
    known = world([queue(TEAM), fact])
    assert known.states[fact.key].workload.minimum == 3
    see(known, queue(TEAM, policy=QueuePolicy(jobs="array")))
    assert known.states[fact.key].workload.minimum == 1

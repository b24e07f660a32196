"""What pods take of a node beyond what their seats hold there."""

from dataclasses import replace

from admission.world.world import World
from queues.resources import GPU
from queues.workload import NodeName
from tests.builders.facts import (
    JOB,
    VOLCANO,
    admission,
    gpus,
    job,
    node,
    released,
    see,
    volcano_job,
    world,
)


def room(known: World, name: str) -> int:
    return known.node_inventory.room(NodeName(name))[GPU]


def test_a_pod_in_its_seat_is_in_the_books_and_nowhere_else() -> None:
    own = released("a", "worker/0", "n1", owner=VOLCANO)
    assert room(world([node("n1"), volcano_job(1), own], [admission(VOLCANO, "n1")]), "n1") == 7000


def test_a_pod_that_takes_more_than_its_seat_counts_in_full() -> None:
    large = released("a", "worker/0", "n1", owner=VOLCANO, takes=gpus(8))
    assert room(world([node("n1"), volcano_job(1), large], [admission(VOLCANO, "n1")]), "n1") == 0


def test_a_pod_on_another_node_than_its_seat_counts_where_it_is() -> None:
    astray = released("a", "worker/0", "n2", owner=VOLCANO, takes=gpus(5))
    known = world([node("n1"), node("n2"), volcano_job(1), astray], [admission(VOLCANO, "n1")])
    assert (room(known, "n1"), room(known, "n2")) == (7000, 3000)


def test_a_pod_of_a_directed_job_on_a_node_without_a_seat_counts_there() -> None:
    astray = released("a", None, "n2", owner=JOB)
    known = world([node("n1"), node("n2"), job(1), astray], [admission(JOB, "n1")])
    assert room(known, "n2") == 7000


def test_a_pod_whose_seat_was_given_back_counts_on_its_node() -> None:
    late = released("a", "worker/0", "n1", owner=VOLCANO)
    taken = admission(VOLCANO, "n1 n1", ended=frozenset({0}))
    assert room(world([node("n1"), volcano_job(2), late], [taken]), "n1") == 6000


def test_what_is_beyond_a_seat_is_counted_anew_when_the_seat_is_given_back() -> None:
    large = released("a", "worker/0", "n1", owner=VOLCANO, takes=gpus(2))
    taken = admission(VOLCANO, "n1 n1")
    known = world([node("n1"), volcano_job(2), large], [taken])
    assert room(known, "n1") == 5000
    known.put_admissions([replace(taken, ended=frozenset({0}))])
    assert room(known, "n1") == 5000, "the other seat of one, and the pod of two"


def test_a_pod_that_grows_counts_with_what_it_takes_now() -> None:
    own = released("a", "worker/0", "n1", owner=VOLCANO)
    known = world([node("n1"), volcano_job(1), own], [admission(VOLCANO, "n1")])
    see(known, replace(own, shape=replace(own.shape, takes=gpus(3))))
    assert room(known, "n1") == 5000


def test_a_pod_that_is_adopted_a_second_time_belongs_to_the_later_admission() -> None:
    grown = released("a", "worker/0", "n1", owner=VOLCANO, takes=gpus(2))
    first = admission(VOLCANO, "n1", adopted={"a": 0}, started=True)
    second = admission(VOLCANO, "n1", number=2, adopted={"a": 0}, started=True)
    second = replace(second, seats=(replace(second.seats[0], takes=gpus(2)),))
    known = world([node("n1"), volcano_job(1), grown], [first, second])
    known.put_admissions([first])
    assert known.admission_index.admission_of(grown) == second
    assert known.admission_index.covers(grown, VOLCANO)

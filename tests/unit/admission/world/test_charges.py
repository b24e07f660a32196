"""What pods take of a node beyond what their seats hold there."""

from dataclasses import replace

from admission.facts.changes import Fact
from admission.facts.pods import PodShape
from admission.world.world import World
from queues.admissions import Admission
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
from tests.tables import named_rows


def room(known: World, name: str) -> int:
    return known.node_inventory.room(NodeName(name))[GPU]


OWN = released("a", "worker/0", "n1", owner=VOLCANO)
ASTRAY = replace(OWN, node=NodeName("n2"), shape=PodShape(takes=gpus(5)))
GIVEN_BACK = admission(VOLCANO, "n1 n1", ended=frozenset({0}))


@named_rows(
    ("facts", "taken", "left"),
    {
        "in its seat it is in the books and nowhere else": ((volcano_job(1), OWN), admission(VOLCANO, "n1"), (7, 8)),
        "it takes more than its seat": (
            (volcano_job(1), replace(OWN, shape=PodShape(takes=gpus(8)))), admission(VOLCANO, "n1"), (0, 8)),
        "on another node than its seat": ((volcano_job(1), ASTRAY), admission(VOLCANO, "n1"), (7, 3)),
        "of a directed Job on a node without a seat": (
            (job(1), released("a", None, "n2", owner=JOB)), admission(JOB, "n1"), (7, 7)),
        "its seat was given back": ((volcano_job(2), OWN), GIVEN_BACK, (6, 8)),
    },
)  # fmt: skip
def test_a_pod_counts_where_it_is_with_what_its_seat_does_not_hold(
    facts: tuple[Fact, ...], taken: Admission, left: tuple[int, int]
) -> None:
    known = world([node("n1"), node("n2"), *facts], [taken])
    assert (room(known, "n1"), room(known, "n2")) == (left[0] * 1000, left[1] * 1000)


def test_what_is_beyond_a_seat_is_counted_anew_when_the_seat_is_given_back() -> None:
    large = released("a", "worker/0", "n1", owner=VOLCANO, takes=gpus(2))
    taken = admission(VOLCANO, "n1 n1")
    known = world([node("n1"), volcano_job(2), large], [taken])
    assert room(known, "n1") == 5000
    known.put_admissions([replace(taken, ended=frozenset({0}))])
    assert room(known, "n1") == 5000, "the other seat of one, and the pod of two"


def test_a_pod_that_grows_counts_with_what_it_takes_now() -> None:
    known = world([node("n1"), volcano_job(1), OWN], [admission(VOLCANO, "n1")])
    see(known, replace(OWN, shape=PodShape(takes=gpus(3))))
    assert room(known, "n1") == 5000


def test_a_pod_that_is_adopted_a_second_time_belongs_to_the_later_admission() -> None:
    grown = released("a", "worker/0", "n1", owner=VOLCANO, takes=gpus(2))
    first = admission(VOLCANO, "n1", adopted={"a": 0}, started=True)
    second = admission(VOLCANO, "n1", number=2, adopted={"a": 0}, started=True)
    second = replace(second, seats=(replace(second.seats[0], takes=gpus(2)),))
    known = world([node("n1"), volcano_job(1), grown], [first, second])
    known.put_admissions([first])
    assert known.admission_index.admission_of(grown) == second
    assert not known.admission_index.uncovered(grown, VOLCANO)

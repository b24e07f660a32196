"""Which reservations of a tenant's administrators are within their right, where the webhook saw none of the others."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from admission.facts.cluster import ClosureFact, NodeFact, QueueFact
from admission.world.node_closures import NodeClosures, NodeDevices, beyond_right
from queues.node_closures import ClosureKind, ClosurePhase
from queues.quota.accounts import Account
from queues.quota.loans import DeservedOverTime
from queues.quota.queue import ROOT, Limits, Loan, Queue
from queues.resources import GPU, Resources
from queues.workload import NO_FLAVOR, NodeName, QueueName
from tests.builders.closures.closed_nodes import reservation
from tests.tables import named_rows

RDMA = "ex.com/rdma"
NOW = 1_800_000_000
HOUR = 3600


def queue(name: str, parent: str, deserved: int | None) -> QueueFact:
    limits = Limits(deserved={} if deserved is None else {GPU: deserved * 1000})
    return QueueFact(queue=Queue(name=QueueName(name), parent=QueueName(parent), limits=limits), uid=name)


QUEUES = {
    each.queue.name: each
    for each in (
        queue("lab", ROOT, 64),
        queue("train", "lab", 48),
        queue("eval", "lab", 48),
        queue("play", "lab", None),
        queue("others", ROOT, 16),
    )
}


def reserved(
    name: str,
    of: str,
    gpus: int,
    created: int = 0,
    *,
    begins: int = HOUR,
    of_tenant: bool = True,
    nodes: tuple[str, ...] = (),
) -> ClosureFact:
    start = NOW + begins
    closure = reservation(
        name=name,
        lead_from=start - 600,
        clear_at=start - 60,
        start=start,
        end=start + HOUR,
        queue=QueueName(of),
        amounts=Resources({GPU: gpus * 1000}),
        of_tenant=of_tenant,
        nodes=tuple(NodeName(each) for each in nodes),
    )
    return ClosureFact(
        kind=ClosureKind.RESERVATION, name=name, uid=name, closure=closure, created=NOW + created
    )


def put_nodes(into: NodeDevices, **nodes: Mapping[str, int]) -> None:
    for name, has in nodes.items():
        into.put(NodeName(name), NodeFact(name=name, allocatable=Resources(has)))


def over_time(queues: Mapping[QueueName, QueueFact] = QUEUES) -> DeservedOverTime:
    return DeservedOverTime({name: fact.queue for name, fact in queues.items()})


def lending(name: str, loan: Loan) -> dict[QueueName, QueueFact]:
    fact = QUEUES[QueueName(name)]
    return {QueueName(name): replace(fact, queue=replace(fact.queue, loans=(loan,)))}


def beyond(
    facts: Iterable[ClosureFact],
    queues: Mapping[QueueName, QueueFact] = QUEUES,
    **nodes: Mapping[str, int],
) -> dict[str, str]:
    """``nodes``: what each has."""
    devices = NodeDevices()
    put_nodes(devices, **nodes)
    return beyond_right(facts, over_time(queues), devices, NOW)


@named_rows(
    ("facts", "refused"),
    {
        "of one second: by name": ([reserved("b", "train", 32), reserved("a", "train", 32)], ["b"]),
        "the earlier one counts": ([reserved("a", "train", 32, 1), reserved("b", "train", 32, 0)], ["a"]),
        "the tenant is a limit too": ([reserved("a", "train", 40), reserved("b", "eval", 40)], ["b"]),
        "one that cannot be read": ([replace(reserved("a", "train", 99), closure=None)], []),
        "as much as it deserves": ([reserved("a", "train", 40), reserved("b", "play", 24)], []),
        "not at one time": ([reserved("a", "train", 48), reserved("b", "train", 48, begins=3 * HOUR)], []),
        "of two tenants": ([reserved("a", "train", 48), reserved("b", "others", 16)], []),
        "earlier ones of the platform count": (
            [reserved("a", "train", 99, of_tenant=False), reserved("b", "train", 1, 1)],
            ["b"],
        ),
        "later ones of the platform take nothing away": (
            [reserved("a", "train", 48), reserved("b", "train", 99, 1, of_tenant=False)],
            [],
        ),
        "one beyond its right is in nobody's way": (
            [reserved("a", "train", 32), reserved("b", "train", 32, 1), reserved("c", "train", 16, 2)],
            ["b"],
        ),
    },
)
def test_which_are_beyond_their_right(facts: list[ClosureFact], refused: list[str]) -> None:
    assert list(beyond(facts)) == [f"reservation/{name}" for name in refused]
    assert list(beyond(reversed(facts))) == [f"reservation/{name}" for name in refused]


#: Eight GPUs, and eight with a network card.
PLAIN, CARD = {GPU: 8000, "cpu": 96_000}, {GPU: 8000, RDMA: 1000}


def test_a_part_of_a_node_counts_as_a_whole_one() -> None:
    facts = [reserved(f"r{number}", "train", 1) for number in range(8)]
    assert list(beyond(facts, n1=PLAIN, n2=PLAIN)) == ["reservation/r6", "reservation/r7"]


def test_one_of_the_platform_counts_with_whole_nodes() -> None:
    first = [reserved(f"r{number}", "train", 1, of_tenant=False) for number in range(6)]
    assert list(beyond([*first, reserved("s", "train", 1, 1)], n1=PLAIN)) == ["reservation/s"]


def test_nodes_count_as_they_are_once_they_are_chosen() -> None:
    large = {GPU: 48_000}
    facts = [reserved(f"r{number}", "train", 1, nodes=(f"n{number}",)) for number in range(2)]
    assert not beyond(facts, n0=PLAIN, n1=PLAIN, n2=large)
    assert list(beyond(facts, n0=PLAIN, n1=large, n2=large)) == ["reservation/r1"]
    # A node that was lost is replaced by one that nobody knows yet.
    assert list(beyond(facts, n0=PLAIN, n2=large)) == ["reservation/r1"]


def test_a_device_that_is_not_asked_for_counts_too() -> None:
    fact = reserved("a", "train", 1)
    (problem,) = beyond([fact], n1=PLAIN, n2=CARD).values()
    assert f"found whole nodes with {RDMA}, of which neither queue train nor one above it states" in problem
    assert not beyond([reserved("a", "train", 1, nodes=("n1",))], n1=PLAIN, n2=CARD)


def test_it_is_refused_once_its_queue_deserves_less_than_its_whole_nodes() -> None:
    facts = [reserved("a", "train", 1), reserved("b", "train", 1)]
    less = {**QUEUES, QueueName("train"): queue("train", "lab", 8)}
    (problem,) = beyond(facts, less, n1=PLAIN).values()
    assert f"found 16 {GPU} on whole nodes reserved for queue train" in problem
    assert "expected at most 8, what it deserves. Delete" in problem


@named_rows(
    ("lends_to", "until", "most"),
    {
        "lent for the whole window": ("others", 9 * HOUR, 32),
        "lent in the lead time": ("others", HOUR, 32),
        "lent until the lead time": ("others", HOUR - 600, 48),
        "borrowed for the whole window": ("train", 9 * HOUR, 64),
        "borrowed for a part of the window": ("train", HOUR + 60, 48),
    },
)
def test_loans_count_for_the_whole_window(lends_to: str, until: int, most: int) -> None:
    lender = {"others": "train", "train": "others"}[lends_to]
    loan = Loan(to=QueueName(lends_to), account=Account(NO_FLAVOR, GPU), units=16_000, until=NOW + until)
    lab = {QueueName("lab"): queue("lab", ROOT, 99)}
    lent = {**QUEUES, **lab, **lending(lender, loan)}
    assert not beyond([reserved("a", "train", most)], lent)
    (problem,) = beyond([reserved("a", "train", most + 1)], lent).values()
    words = "what it deserves" if most == 48 else "the least that it deserves in that time with its loans"
    assert f"expected at most {most}, {words}. Delete" in problem


def test_what_it_lends_is_known_to_closures() -> None:
    loan = Loan(to=QueueName("others"), account=Account(NO_FLAVOR, GPU), units=1000, until=NOW + 9 * HOUR)
    closures = NodeClosures()
    closures.put(ClosureKind.RESERVATION, "a", reserved("a", "train", 48))
    assert len(closures.freeze(NOW, over_time())) == 1
    lent = {**QUEUES, **lending("train", loan)}
    assert closures.freeze(NOW, over_time(lent)) == ()
    assert len(closures.freeze(NOW, over_time())) == 1


def test_nodes_that_were_chosen_in_this_term_count_before_they_are_in_the_status() -> None:
    closures = NodeClosures()
    put_nodes(closures.devices, n1=PLAIN, n2={GPU: 64_000})
    closures.put(ClosureKind.RESERVATION, "a", reserved("a", "train", 1))
    assert closures.freeze(NOW, over_time()) == ()
    closures.choose({"reservation/a": (NodeName("n1"),)})
    assert [each.nodes for each in closures.freeze(NOW, over_time())] == [("n1",)]


def test_one_beyond_its_right_says_so_closes_nothing_and_counts_once_the_other_is_gone() -> None:
    closures = NodeClosures()
    first, second = reserved("first", "train", 32), reserved("second", "train", 32, 1)
    for fact in (second, first):
        closures.put(ClosureKind.RESERVATION, fact.name, fact)

    assert [each.name for each in closures.freeze(NOW, over_time())] == ["first"]
    of_first, of_second = closures.states(NOW, over_time())
    assert (of_first.phase, of_second.phase) == (ClosurePhase.PLANNED, ClosurePhase.REFUSED)
    assert of_second.is_beyond_right
    assert of_second.problem == (
        f"found 64 {GPU} on whole nodes reserved for queue train at the same time (first came first), expected at "
        "most 48, what it deserves. Delete one of them, ask for less, or ask a platform administrator"
    )
    closures.put(ClosureKind.RESERVATION, "first", None)
    assert [each.name for each in closures.freeze(NOW, over_time())] == ["second"]

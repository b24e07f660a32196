"""What is refused of Reservations and NodeDrains, and who may reserve: one clear line each."""

from dataclasses import replace
from typing import Any

import pytest

from queues.api.reading.device_shares import with_devices
from queues.api.validation.closures.reservation_rights import reservation_refusals
from queues.api.validation.closures.whole_nodes import node_shapes
from queues.api.validation.known import Known
from queues.api.validation.size_rules import NodeAmounts
from queues.api.validation.tenant_rules import ObjectWrite, Requester
from queues.api.validation.validation import violations_of
from queues.node_closures import ClosureKind, NodeClosure
from queues.quota.queue import Limits, Queue
from queues.resources import Resources
from queues.workload import QueueName
from tests.builders.valid_documents import of_kind
from tests.tables import with_rows

GPU = "nvidia.com/gpu"
NOW = 1_800_000_000
QUEUES = {
    "root": Queue(name=QueueName("root"), parent=None),
    "team": Queue(name=QueueName("team"), parent=QueueName("root"), limits=Limits(capability={GPU: 96_000})),
    "train": Queue(name=QueueName("train"), parent=QueueName("team")),
}


def closure(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    """``from_`` and ``for_`` are the fields of these names, and None leaves one out."""
    stated = {key.rstrip("_"): value for key, value in spec.items() if value is not None}
    return of_kind(kind, stated, name)


def reservation(name: str = "night", **spec: Any) -> dict[str, Any]:
    plain = {"queue": "train", "resources": {GPU: "64"}, "from_": "2027-01-15T12:00:00Z", "for_": "4h"}
    return closure("Reservation", name, **{**plain, **spec})


def drain(**spec: Any) -> dict[str, Any]:
    return closure("NodeDrain", "fix", **{"nodes": ["n1"], "at": "2027-01-15T12:00:00Z", **spec})


def planned(gpus: int) -> NodeClosure:
    start = NOW + 13_600
    return NodeClosure(
        kind=ClosureKind.RESERVATION,
        name="other",
        lead_from=start,
        clear_at=start,
        start=start,
        end=start + 7200,
        queue=QueueName("team"),
        amounts=Resources({GPU: gpus * 1000}),
    )


KNOWN = Known(
    queues=QUEUES,
    levels=frozenset(["rack"]),
    flavors={"h100", "a100"},
    now=NOW,
    closures=[planned(40)],
    nodes={"n1", "n2"},
    amounts=lambda: NodeAmounts(Resources(), Resources({GPU: 128_000})),
)


def refused(document: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    return [each.message for each in violations_of(document, KNOWN, old=old)]


def test_what_is_right_is_taken() -> None:
    assert refused(reservation()) == []
    assert refused(reservation(topology="rack", leadTime="3h", clearBefore="10m")) == []
    assert refused(drain()) == []
    assert refused(drain(nodes=None, nodeSelector={"rack": "r7"}, for_="30m")) == []


@with_rows("kind", "spec", "message")
def test_what_is_wrong_is_refused_with_a_line(kind: str, spec: dict[str, Any], message: str) -> None:
    (found,) = refused({"reservation": reservation, "drain": drain}[kind](**spec))
    assert message in found


def test_there_are_so_many_only_and_those_that_have_ended_do_not_count() -> None:
    ended = replace(planned(0), start=NOW - 100, lead_from=NOW - 100, clear_at=NOW - 100, end=NOW - 10)
    many = [replace(planned(0), name=f"r{number}") for number in range(199)]
    assert list(violations_of(reservation(), Known(now=NOW, closures=[ended, *many]))) == []
    again = replace(ended, name="night")
    known = Known(now=NOW, closures=[again, *many, planned(0)])
    (violation,) = violations_of(reservation(), known, old=reservation(for_="1h"))
    assert violation.message.startswith(
        "metadata.name: found 200 reservations already, expected fewer than 200"
    )


def test_flavors_are_checked_once_they_are_known(golden: Any) -> None:
    assert refused(reservation(flavor="h100")) == []
    assert [*violations_of(reservation(flavor="h1000"), replace(KNOWN, flavors=None))] == []
    (none,) = violations_of(reservation(flavor="h100"), replace(KNOWN, flavors=()))
    assert none.message == golden
    (many,) = violations_of(
        reservation(flavor="h100"), replace(KNOWN, flavors=[f"f{number:02}" for number in range(30)])
    )
    assert many.message.endswith("f08, f09 and 20 more")


def test_a_reservation_that_has_begun_may_be_made_longer() -> None:
    before = reservation(from_="2027-01-15T07:00:00Z")
    assert refused(reservation(from_="2027-01-15T07:00:00Z", for_="6h"), old=before) == []


def test_times_are_checked_when_it_is_moved() -> None:
    (found,) = refused(reservation(from_="2027-01-15T07:00:00Z"), old=reservation())
    assert "expected a time to come" in found
    (found,) = refused(drain(at="2029-01-15T07:00:00Z"), old=drain())
    assert "expected a time within a year" in found
    (found,) = refused(reservation(leadTime="200h"), old=reservation())
    assert "spec.leadTime: found '200h'" in found


# ── who may ────────────────────────────────────────────────────────────────────────────────────────────────────

LEAD, STRANGER = Requester("lead"), Requester("stranger")


def queue(
    name: str, parent: str, admins: tuple[str, ...] = (), deserved: str | None = None
) -> dict[str, Any]:
    spec: dict[str, Any] = {"parent": parent, "access": {"admins": [{"user": user} for user in admins]}}
    if deserved is not None:
        spec["deserved"] = {GPU: deserved}
    return {"metadata": {"name": name}, "spec": spec}


STORED = {
    "team": queue("team", "root", ("lead",), deserved="96"),
    "train": queue("train", "team", deserved="64"),
    "free": queue("free", "team"),
    "others": queue("others", "root", deserved="64"),
    "unstated": queue("unstated", "root", ("lead",)),
}


#: States nothing itself.
QUOTALESS = queue("team", "root", ("lead",))


#: A node has eight GPUs.
SHAPES = node_shapes([{GPU: 8000, "cpu": 192_000}, {GPU: 8000, "cpu": 96_000}])


def refusals(
    after: dict[str, Any] | None, before: dict[str, Any] | None = None, by: Requester = LEAD, **world: Any
) -> list[str]:
    """What is said of the change; ``world``: other queues, reservations and nodes than the usual ones."""
    known = {"queues": STORED, "others": {}, "shapes": SHAPES, **world}
    change = ObjectWrite("night", before, after, is_status=known.pop("is_status", False))
    return reservation_refusals(change, by, known["queues"], known["others"], known["shapes"], NOW)


def test_administrators_of_a_tenant_reserve_what_their_queues_deserve() -> None:
    for after, before in ((reservation(), None), (reservation(queue="team"), None), (None, reservation())):
        assert refusals(after, before) == []


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (refusals(reservation(), by=STRANGER), "stranger may not reserve for queue train"),
        (refusals(None, reservation(), by=STRANGER), "stranger may not reserve for queue train"),
        (refusals(reservation(queue="others")), "lead may not reserve for queue others"),
        (refusals(reservation(queue="others"), reservation()), "lead may not reserve for queue others"),
        (refusals(reservation(), reservation(queue="others")), "lead may not reserve for queue others"),
        (refusals(reservation(queue=7)), "lead may not reserve for queue (none)"),
        (
            refusals(reservation(resources={GPU: "65"})),
            f"found 72 {GPU} on whole nodes reserved for queue train at the same time, expected at most 64, what",
        ),
        (
            refusals(reservation(queue="unstated")),
            f"found whole nodes with {GPU}, of which neither queue unstated nor one above it states",
        ),
        (refusals(reservation(from_="soon")), "found a spec that cannot be read"),
        (refusals(reservation(), reservation(), is_status=True), "found a status written by lead"),
        (refusals(reservation(), shapes=None), "not known yet"),
    ],
)
def test_others_are_refused(found: list[str], message: str) -> None:
    (refusal,) = found
    assert message in refusal


def test_reservations_at_one_time_count_together_up_the_tree() -> None:
    evening = reservation("evening", queue="free", resources={GPU: "40"})
    (found,) = refusals(reservation(), others={"evening": evening})
    assert (
        f"found 104 {GPU} on whole nodes reserved for queue team at the same time (evening came first), "
        "expected at most 96" in found
    )
    later = reservation("evening", queue="free", resources={GPU: "40"}, from_="2027-01-16T12:00:00Z")
    assert refusals(reservation(), others={"evening": later}) == []


def test_lead_times_at_one_time_count_together() -> None:
    # Windows of a second, one after the other: each closes its nodes from its lead time on.
    others = {
        f"r{number}": reservation(
            f"r{number}", from_=f"2027-01-15T{13 + number}:00:00Z", for_="1s", leadTime="168h"
        )
        for number in range(9)
    }
    spec = {"from_": "2027-01-15T12:59:00Z", "for_": "1s", "leadTime": "168h"}
    (found,) = refusals(reservation(**spec), queues={**STORED, "team": QUOTALESS}, others=others)
    assert "found 640 nvidia.com/gpu on whole nodes reserved for queue train" in found


def test_lead_times_count_together_in_the_cluster() -> None:
    # It ends an hour before the other begins, whose lead time is longer.
    other = planned(40)
    known = replace(KNOWN, closures=[replace(other, lead_from=other.start - 7200)])
    document = reservation(resources={GPU: "90"}, from_="2027-01-15T10:00:00Z", for_="40m")
    (found,) = violations_of(document, known)
    assert "expected at most 88: of 128 in the cluster 40 are reserved" in found.message


def test_a_part_of_a_node_counts_as_a_whole_one() -> None:
    others = {f"r{number}": reservation(f"r{number}", resources={GPU: "1"}) for number in range(7)}
    assert refusals(reservation(resources={GPU: "1"}), others=others) == []
    others["r7"] = reservation("r7", resources={GPU: "1"})
    (found,) = refusals(reservation(resources={GPU: "1"}), others=others)
    assert "found 72 nvidia.com/gpu on whole nodes reserved for queue train" in found


def test_a_tenant_has_so_many_reservations_only() -> None:
    past = {"from_": "2027-01-10T12:00:00Z"}
    others = {f"r{number}": reservation(f"r{number}", queue="free", **past) for number in range(20)}
    (found,) = refusals(reservation(), others=others)
    assert "found 20 others for queues of the tenant team, expected fewer than 20" in found
    stored = {**others, "night": reservation()}
    assert refusals(reservation(for_="1h"), reservation(), others=stored) == []
    foreign = {name: reservation(name, queue="others", **past) for name in others}
    assert refusals(reservation(), others=foreign) == []


def lending(lender: str, to: str, until: str, gpus: str = "16") -> dict[str, dict[str, Any]]:
    """The queues while one lends to another one."""
    loans = [{"to": to, "until": until, "resources": {GPU: gpus}}]
    return {**STORED, lender: {**STORED[lender], "spec": {**STORED[lender]["spec"], "loans": loans}}}


@with_rows("until", "is_refused")
def test_what_a_queue_lends_at_that_time_it_does_not_reserve(until: str, is_refused: bool) -> None:
    found = refusals(reservation(), queues=lending("train", "others", until))
    expected = "expected at most 48, the least that it deserves in that time with its loans"
    assert [expected in each for each in found] == [True] * is_refused


def test_a_loan_that_ended_in_a_lead_time_that_is_past_takes_nothing_away() -> None:
    soon = reservation(from_="2027-01-15T08:05:00Z")
    assert refusals(soon, queues=lending("train", "others", "2027-01-15T07:30:00Z")) == []


RDMA = "ex.com/rdma"
#: Eight GPUs with one network card, four with two cards, and two cards alone.
CARDS = node_shapes([{GPU: 8000, RDMA: 1000}, {GPU: 4000, RDMA: 2000}, {RDMA: 2000}])


def with_cards(deserved: str) -> dict[str, dict[str, Any]]:
    train = queue("train", "team", deserved="64")
    train["spec"]["deserved"][RDMA] = deserved
    return {**STORED, "train": train}


def test_all_devices_of_whole_nodes_count() -> None:
    eight, nine = (reservation(resources={RDMA: count}) for count in ("8", "9"))
    assert refusals(eight, queues=with_cards("100"), shapes=CARDS) == []
    (found,) = refusals(nine, queues=with_cards("100"), shapes=CARDS)
    assert "found 72 nvidia.com/gpu on whole nodes reserved for queue train" in found
    (found,) = refusals(reservation(), queues=with_cards("31"), shapes=CARDS)
    assert "found 32 ex.com/rdma on whole nodes reserved for queue train" in found


def test_parts_of_devices_are_no_devices_of_a_node() -> None:
    shared = Resources({"volcano.sh/vgpu-cores": 200_000, "volcano.sh/vgpu-memory": 80_000, "cpu": 8000})
    assert node_shapes([with_devices(shared, {})]) == [{"volcano.sh/gpu": 2000}]


def test_devices_that_no_node_has_together_are_not_reserved() -> None:
    apart = node_shapes([{GPU: 8000}, {RDMA: 1000}])
    both = reservation(resources={GPU: "1", RDMA: "1"})
    (found,) = refusals(both, queues=with_cards("8"), shapes=apart)
    assert "expected devices of which one node has all" in found

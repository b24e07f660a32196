"""What the world keeps of Reservations and NodeDrains, and what their objects are told."""

import json
from typing import Any

import pytest

from admission.decode.admin_documents import closure_fact
from admission.facts.cluster import ClosureFact
from admission.world.node_closures import NodeClosures
from queues.node_closures import ClosureKind, ClosurePhase
from queues.quota.loans import DeservedOverTime
from queues.quota.queue import ROOT, Queue
from queues.workload import NodeName, QueueName

START = 1_800_000_000
TEAM = QueueName("team")
TEAMS = DeservedOverTime({TEAM: Queue(name=TEAM, parent=ROOT)})
NOBODY = DeservedOverTime({})
ID = "reservation/night"


def reservation(uid: str = "u1", status: dict[str, Any] | None = None, **spec: Any) -> ClosureFact:
    begins = {"from": "2027-01-15T08:00:00Z", "for": "2h"}
    plain = {"queue": "team", "resources": {"nvidia.com/gpu": "8"}, **begins}
    document = {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "night", "uid": uid},
        "spec": {**plain, **spec},
        "status": status or {},
    }
    return closure_fact(json.dumps(document).encode(), ClosureKind.RESERVATION)


def kept(fact: ClosureFact) -> NodeClosures:
    closures = NodeClosures()
    closures.put(ClosureKind.RESERVATION, "night", fact)
    return closures


def test_a_reservation_is_read_with_its_times_and_nodes() -> None:
    status = {"phase": "Planned", "nodes": ["n1"]}
    closure = reservation(status=status, leadTime="3h", clearBefore="5m").closure
    assert (closure.lead_from, closure.clear_at) == (START - 10_800, START - 300)
    assert (closure.start, closure.end) == (START, START + 7200)
    assert closure.nodes == ("n1",)
    assert dict(closure.amounts) == {"nvidia.com/gpu": 8000}


@pytest.mark.parametrize(
    ("begins", "queues", "problem"),
    [
        ("soon", TEAMS, "spec.from: found 'soon', expected a time such as 2026-11-20T14:00:00Z."),
        ("0001-01-01T00:00:00+23:59", TEAMS, "spec.from: found "),
        ("9999-12-31T23:59:59-23:59", TEAMS, "spec.from: found "),
        ("2027-01-15T08:00:00Z", NOBODY, "spec.queue: found team, expected the name of a Queue"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason_and_means_nothing(
    begins: str, queues: DeservedOverTime, problem: str
) -> None:
    closures = kept(reservation(**{"from": begins}))
    assert closures.freeze(START, queues) == ()
    (state,) = closures.states(START, queues)
    assert state.phase is ClosurePhase.REFUSED
    assert state.problem.startswith(problem)


def test_phases_follow_the_clock() -> None:
    closures = kept(reservation())
    for after, phase in ((-1, "Planned"), (0, "Active"), (7199, "Active"), (7200, "Ended")):
        (state,) = closures.states(START + after, TEAMS)
        assert state.phase == phase
    assert closures.freeze(START + 7200, TEAMS) == ()


def test_what_this_term_chose_counts_before_what_the_status_says_until_the_object_is_another_one() -> None:
    closures = kept(reservation(status={"nodes": ["n1"]}))
    closures.choose({ID: (NodeName("n2"),), "reservation/gone": (NodeName("n3"),)})
    closures.put(ClosureKind.RESERVATION, "night", reservation(status={"nodes": ["n1"]}))
    assert [each.nodes for each in closures.freeze(START, TEAMS)] == [("n2",)]
    closures.put(ClosureKind.RESERVATION, "night", reservation(uid="u2"))
    assert [each.nodes for each in closures.freeze(START, TEAMS)] == [()]
    closures.put(ClosureKind.RESERVATION, "night", None)
    assert closures.freeze(START, TEAMS) == ()

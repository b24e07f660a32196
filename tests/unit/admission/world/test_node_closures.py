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
TEAMS = DeservedOverTime({TEAM: Queue(name=TEAM, parent=ROOT)}, {})
NOBODY = DeservedOverTime({}, {})
ID = "reservation/night"


def reservation(uid: str = "u1", status: dict[str, Any] | None = None, **spec: Any) -> ClosureFact:
    plain = {
        "queue": "team",
        "resources": {"nvidia.com/gpu": "8"},
        "from": "2027-01-15T08:00:00Z",
        "for": "2h",
    }
    document = {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "night", "uid": uid},
        "spec": {**plain, **spec},
        "status": status or {},
    }
    return closure_fact(json.dumps(document).encode(), ClosureKind.RESERVATION)


@pytest.mark.parametrize("begins", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"])
def test_a_time_that_cannot_be_reckoned_with_is_refused(begins: str) -> None:
    closures = kept(reservation(**{"from": begins}))
    assert closures.freeze(START, TEAMS) == ()
    (state,) = closures.states(START, TEAMS)
    assert state.phase is ClosurePhase.REFUSED
    assert "spec.from: found" in state.problem


def kept(fact: ClosureFact) -> NodeClosures:
    closures = NodeClosures()
    closures.put(ClosureKind.RESERVATION, "night", fact)
    return closures


def test_a_reservation_is_read_with_its_times_and_nodes() -> None:
    closure = reservation(
        status={"phase": "Planned", "nodes": ["n1"]}, leadTime="3h", clearBefore="5m"
    ).closure
    assert closure is not None
    assert (closure.lead_from, closure.clear_at) == (START - 10_800, START - 300)
    assert (closure.start, closure.end) == (START, START + 7200)
    assert closure.nodes == ("n1",)
    assert dict(closure.amounts) == {"nvidia.com/gpu": 8000}


def test_what_cannot_be_read_is_refused_with_the_reason_and_means_nothing() -> None:
    closures = kept(reservation(**{"from": "soon"}))
    assert closures.freeze(START, TEAMS) == ()
    (state,) = closures.states(START, TEAMS)
    assert state.phase is ClosurePhase.REFUSED
    assert state.problem == "spec.from: found 'soon', expected a time such as 2026-11-20T14:00:00Z."


def test_a_reservation_for_a_queue_that_is_gone_is_refused() -> None:
    closures = kept(reservation())
    assert closures.freeze(START, NOBODY) == ()
    (state,) = closures.states(START, NOBODY)
    assert (state.phase, state.problem) == (
        ClosurePhase.REFUSED,
        "spec.queue: found team, expected the name of a Queue",
    )


def test_phases_follow_the_clock() -> None:
    closures = kept(reservation())
    for now, phase in (
        (START - 1, "Planned"),
        (START, "Active"),
        (START + 7199, "Active"),
        (START + 7200, "Ended"),
    ):
        (state,) = closures.states(now, TEAMS)
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

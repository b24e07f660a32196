"""How often nodes fail and how long they take to come back."""

from admission.node_recovery.figures import RecoveryFigures, faulty_nodes
from admission.node_recovery.state import RecoveryPhase, RecoveryState
from admission.node_recovery.view import BlackHole, NodeView
from queues.workload import NodeName
from tests.unit.admission.node_recovery.recovered_nodes import NOW, SINCE, XID, state

A, B = NodeName("a"), NodeName("b")
BOTH = frozenset({A, B})


def test_the_time_to_repair_is_from_the_fault_to_the_return() -> None:
    figures = RecoveryFigures()
    figures = figures.after({}, {A: 100, B: 150}, nodes=BOTH, now=160)
    figures = figures.after({A: 100, B: 150}, {B: 150}, nodes=BOTH, now=400)
    figures = figures.after({B: 150}, {}, nodes=BOTH, now=250)
    assert (figures.faults, figures.repairs, figures.repair_seconds) == (2, 2, 400)


def test_a_node_that_is_gone_has_not_come_back() -> None:
    figures = RecoveryFigures().after({A: 100}, {}, nodes=frozenset({B}), now=400)
    assert figures == RecoveryFigures()


def test_what_a_process_finds_in_its_first_turn_is_no_new_fault() -> None:
    assert RecoveryFigures().after({A: 100}, {A: 100}, nodes=BOTH, now=400) == RecoveryFigures()


def test_the_time_of_nodes_without_a_fault_is_summed_up() -> None:
    figures = RecoveryFigures().elapsed(well=10, seconds=60).elapsed(well=9, seconds=100)
    figures = figures.after({}, {A: 1, B: 1}, nodes=BOTH, now=1)
    assert (figures.healthy_seconds, figures.faults) == (1500, 2)


def test_a_clock_that_steps_back_takes_nothing_away() -> None:
    figures = RecoveryFigures().elapsed(well=10, seconds=-60)
    assert figures.after({A: 500}, {}, nodes=BOTH, now=400).repair_seconds == 0
    assert figures.healthy_seconds == 0


def test_attempts_and_failures_are_counted_as_they_begin() -> None:
    recovering = state(RecoveryPhase.RECOVERING, attempts=1)
    failed = state(RecoveryPhase.FAILED, attempts=2)
    figures = RecoveryFigures().moved(state(RecoveryPhase.DRAINING, attempts=0), recovering)
    figures = figures.moved(recovering, state(RecoveryPhase.RECOVERING, attempts=2))
    figures = figures.moved(recovering, failed).moved(failed, failed)
    assert (figures.attempts, figures.failures) == (3, 1)
    assert figures.moved(failed, RecoveryState()) == figures


def test_a_node_is_ill_from_its_first_fault_until_it_is_in_service() -> None:
    views = {
        A: NodeView(name=A, faults=(XID,), black_hole=BlackHole(since=XID.since + 5, gangs=3)),
        B: NodeView(name=B),
    }
    verifying = {B: state(RecoveryPhase.VERIFYING, fault_since=SINCE)}
    assert faulty_nodes(views, verifying, NOW) == {A: XID.since, B: SINCE}
    assert faulty_nodes(views, {B: state(RecoveryPhase.CORDONED, fault_since=0)}, NOW)[B] == NOW
    assert faulty_nodes({B: views[B]}, {B: state(RecoveryPhase.NONE)}, NOW) == {}

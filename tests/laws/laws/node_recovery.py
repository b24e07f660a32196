"""What holds of the recovery of nodes, whatever happens to them."""

from admission.node_recovery.jobs import JobName
from admission.node_recovery.state import RecoveryPhase, RecoveryState, read_state
from admission.node_recovery.step import ATTEMPTS, NodeTurn, NodeView
from queues.quota.queue import NodeRecoveryRules


def is_reported(view: NodeView, known: RecoveryState) -> bool:
    """Whether the devices for which a node was closed are reported."""
    return view.reported.issuperset(known.devices)


def is_faulty(view: NodeView, known: RecoveryState) -> bool:
    """Whether a device has a fault that no person has accepted."""
    return any(fault.beyond(known.accepted) for fault in view.faults)


def no_node_is_closed_beyond_what_the_circuit_breaker_allows(view: NodeView, turn: NodeTurn) -> None:
    """Muster closes no node that is held back."""
    if view.taint is None and view.held_back:
        assert not turn.state.phase.is_out, (view, turn)


def no_job_where_none_can_run(view: NodeView, turn: NodeTurn) -> None:
    """No Job is made for a node that is not ready: it could only run out of time."""
    assert view.ready or turn.creates is None, (view, turn)


def no_repair_under_running_pods(view: NodeView, turn: NodeTurn) -> None:
    """No repair Job is made on a node where pods hold devices."""
    if read_state(view.annotation).phase is RecoveryPhase.RECOVERING and (view.gangs or view.foreign_pods):
        assert turn.creates is None, (view, turn)


def no_repair_for_what_only_a_person_ends(view: NodeView, turn: NodeTurn) -> None:
    """No Job is made for a repair while a fault is there that no Job ends."""
    known = read_state(view.annotation)
    left = [fault.beyond(known.accepted) for fault in view.faults]
    if any(fault and fault.for_person() for fault in left):
        assert known.phase is not RecoveryPhase.RECOVERING or turn.creates is None, (view, turn)


def no_more_attempts_than_allowed(view: NodeView, turn: NodeTurn) -> None:
    """Repairs have an end."""
    known = read_state(view.annotation)
    assert turn.state.attempts <= max(known.attempts, ATTEMPTS), (known, turn.state)


def nodes_come_back_only_when_well(view: NodeView, turn: NodeTurn, rules: NodeRecoveryRules) -> None:
    """A node comes back after its devices are reported as healthy and the test Job has succeeded.

    The test is left out where pods run, and where a person or the policy takes the node back.
    """
    known = read_state(view.annotation)
    if view.taint is None or not rules.recovers or not known.phase.is_out or turn.state.phase.is_out:
        return
    assert known.phase is RecoveryPhase.VERIFYING, known
    assert is_reported(view, known), (known, view)
    assert not is_faulty(view, known), (known, view)
    tested = any(
        job.succeeded and name.name.startswith(f"muster-verify-{view.name}-")
        for name, job in view.jobs.items()
        if job.created >= known.began
    )
    assert tested or rules.verify_job is None or view.gangs or view.foreign_pods, (known, view)


def a_lost_annotation_ends_no_recovery(view: NodeView, turn: NodeTurn, rules: NodeRecoveryRules) -> None:
    """A node with Muster's taint whose annotation is lost stays closed until it is shown to be well."""
    if rules.recovers and view.taint == "muster" and not read_state(view.annotation).phase.is_out:
        assert turn.state.phase.is_out, (view, turn)


def nothing_but_the_annotation_is_remembered(turn: NodeTurn) -> None:
    """What the next step starts from is what this one wrote: whoever takes over goes on in the same way."""
    if turn.writes and turn.state.annotation():
        assert read_state(turn.state.annotation()) == turn.state, turn.state


def taints_have_a_reason(view: NodeView) -> None:
    """A node that came to rest closed has a fault, an open repair or test, or one that failed."""
    known = read_state(view.annotation)
    if view.taint != "muster":
        return
    is_open = known.phase is RecoveryPhase.VERIFYING or known.test_failed
    runs = any(job.succeeded is None for job in view.jobs.values())
    has_reason = is_faulty(view, known) or view.kills_pods or is_open or runs
    assert has_reason or not is_reported(view, known), (known, view)


def only_the_job_of_the_phase_runs(view: NodeView, given_up: set[JobName]) -> None:
    """At rest, no Job goes on that belongs to a phase that is over. ``given_up``: without a template any more."""
    running = [name for name, job in view.jobs.items() if job.succeeded is None and name not in given_up]
    has_job = read_state(view.annotation).phase in (RecoveryPhase.RECOVERING, RecoveryPhase.VERIFYING)
    assert len(running) <= has_job, (view, running)

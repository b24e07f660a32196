"""What holds of the recovery of nodes, whatever happens to them."""

from collections.abc import Mapping

from admission.node_recovery.policy import FaultPolicy
from admission.node_recovery.state import RecoveryPhase, RecoveryState, read_state
from admission.node_recovery.step import ATTEMPTS, NodeTurn, circuit_breaker, step
from admission.node_recovery.view import JobProgress, NodeView, TaintOwner
from queues.workload import NodeName

Views = Mapping[NodeName, NodeView]
Turns = Mapping[NodeName, NodeTurn]


def remembered(view: NodeView) -> RecoveryState:
    """What the annotation of a node says; an unreadable one says nothing."""
    return read_state(view.annotation) or RecoveryState()


def is_reported(view: NodeView, known: RecoveryState) -> bool:
    """Whether the devices for which a node was closed are reported, if it was closed for devices."""
    return view.is_reported or not known.devices


def no_more_nodes_out_than_allowed(views: Views, turns: Turns, most: int) -> None:
    """Muster closes no node by which more would be out than the policy allows."""
    tainted = {name for name, view in views.items() if view.taint is not TaintOwner.ABSENT}
    out = tainted | {name for name, view in views.items() if view.cordoned or not view.ready}
    taken = {
        name
        for name, turn in turns.items()
        if name not in tainted and turn.writes and turn.state.phase.is_out
    }
    assert not taken or len(out | taken) <= most, (out, taken, most)


def no_job_where_none_can_run(views: Views, turns: Turns) -> None:
    """No Job is made for a node that is not ready: it could only run out of time."""
    for name, turn in turns.items():
        assert views[name].ready or turn.creates is None, (name, turn)


def no_repair_under_running_pods(views: Views, turns: Turns) -> None:
    """No repair Job is made on a node where pods hold devices."""
    for name, turn in turns.items():
        if remembered(views[name]).phase is RecoveryPhase.RECOVERING and views[name].occupied:
            assert turn.creates is None, (name, turn)


def no_attempt_for_what_only_a_person_ends(views: Views, turns: Turns) -> None:
    """No repair begins, and no Job is made for one, while a fault is there that no Job ends."""
    for name, turn in turns.items():
        view, known = views[name], remembered(views[name])
        left = [fault.beyond(known.accepted) for fault in view.faults]
        if any(fault and fault.for_person() for fault in left):
            assert turn.state.attempts <= known.attempts, (name, known, turn)
            assert known.phase is not RecoveryPhase.RECOVERING or turn.creates is None, (name, turn)


def no_more_attempts_than_allowed(views: Views, turns: Turns) -> None:
    """Repairs have an end."""
    for name, turn in turns.items():
        known, state = remembered(views[name]), turn.state
        assert state.attempts <= max(known.attempts, ATTEMPTS), (name, known, state)


def nodes_come_back_only_when_well(views: Views, turns: Turns, policy: FaultPolicy) -> None:
    """A node comes back after its devices are reported as healthy and the test Job has succeeded.

    The test is left out where pods run, and where a person or the policy takes the node back.
    """
    for name, turn in turns.items():
        view, known = views[name], remembered(views[name])
        by_itself = view.taint is not TaintOwner.ABSENT and policy.recovers
        if by_itself and known.phase.is_out and not turn.state.phase.is_out:
            assert known.phase is RecoveryPhase.VERIFYING, (name, known)
            assert is_reported(view, known), (name, known, view)
            assert all(fault.beyond(known.accepted) is None for fault in view.faults), (name, known, view)
            tested = any(
                job.progress is JobProgress.SUCCEEDED and job.name.startswith(f"muster-verify-{name}-")
                for job in view.jobs.values()
                if job.created >= known.since
            )
            assert tested or policy.verify_job is None or view.occupied, (name, known, view)


def a_lost_annotation_ends_no_recovery(views: Views, turns: Turns, policy: FaultPolicy) -> None:
    """A node with Muster's taint whose annotation is lost stays closed until it is shown to be well."""
    for name, turn in turns.items() if policy.recovers else ():
        view = views[name]
        if view.taint is TaintOwner.MUSTER and not remembered(view).phase.is_out:
            assert turn.state.phase.is_out, (name, turn)


def only_the_job_of_the_phase_runs(views: Views) -> None:
    """At rest, no Job goes on that belongs to a phase that is over."""
    for name, view in views.items():
        running = [job.name for job in view.jobs.values() if job.progress is JobProgress.RUNNING]
        known = remembered(view)
        has_job = known.phase in (RecoveryPhase.RECOVERING, RecoveryPhase.VERIFYING)
        assert len(running) <= has_job, (name, known, running)


def taints_have_a_reason(views: Views) -> None:
    """A node that came to rest closed has a fault, an open repair or test, or one that failed."""
    for name, view in views.items():
        known = remembered(view)
        if view.taint is not TaintOwner.MUSTER:
            continue
        faulty = view.black_hole or any(fault.beyond(known.accepted) for fault in view.faults)
        is_open = known.phase is RecoveryPhase.VERIFYING or known.test_failed
        runs = any(job.progress is JobProgress.RUNNING for job in view.jobs.values())
        assert faulty or is_open or runs or not is_reported(view, known), (name, known, view)


def nothing_but_the_annotation_is_remembered(turn: NodeTurn) -> None:
    """What the next step starts from is what this one wrote: whoever takes over goes on in the same way."""
    if turn.writes:
        read = read_state(turn.state.annotation())
        assert read == (RecoveryState() if turn.state.is_empty else turn.state), (read, turn.state)


def time_alone_changes_nothing_before_it_says(
    views: Views, turns: Turns, policy: FaultPolicy, now: int
) -> None:
    """At rest, a step does nothing until the time at which it asked to be called again."""
    for name, turn in turns.items():
        if not turn.is_idle:
            continue
        ends = now + 10**7 if turn.look_again is None else turn.look_again
        assert ends > now, (name, turn)
        for later in {now + 1, (now + ends) // 2, ends - 1}:
            if now < later < ends:
                breaker = circuit_breaker(views, policy, later)
                again = step(views[name], breaker, policy, later)
                assert again.is_idle, (name, later - now, ends - now, again)

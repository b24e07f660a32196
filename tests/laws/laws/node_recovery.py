"""What holds of the recovery of nodes, whatever happens to them."""

from collections.abc import Mapping, Sequence

from admission.node_recovery.circuit_breaker import recovery_context
from admission.node_recovery.effects import CreateJob, Effect, WriteNode
from admission.node_recovery.policy import FaultPolicy
from admission.node_recovery.state import FaultCause, RecoveryPhase, RecoveryState, StartedBy, read_state
from admission.node_recovery.step import RecoveryTurn, step
from admission.node_recovery.view import JobProgress, NodeView, TaintOwner
from queues.workload import NodeName

Views = Mapping[NodeName, NodeView]
Turns = Mapping[NodeName, RecoveryTurn]


def remembered(view: NodeView) -> RecoveryState:
    """What the annotation of a node says; an unreadable one says nothing."""
    return read_state(view.annotation) or RecoveryState()


def agent_has_run(view: NodeView, known: RecoveryState) -> bool:
    """Whether the agent of a node has run in its phase, as far as anything ever reported devices."""
    if view.lease_renewed_at is None:
        return known.cause is not FaultCause.DEVICE
    return view.lease_renewed_at > known.since


def no_more_nodes_out_than_allowed(views: Views, turns: Turns, most: int | None) -> None:
    """Muster takes no node out of service by which more would be out than the policy allows."""
    tainted = {name for name, view in views.items() if view.taint is not TaintOwner.ABSENT}
    out = tainted | {name for name, view in views.items() if view.cordoned or not view.ready}
    taken = {
        name
        for name, turn in turns.items()
        if name not in tainted and any(isinstance(each, WriteNode) and each.tainted for each in turn.effects)
    }
    by_muster = {name for name in taken if not views[name].order}
    assert not by_muster or most is None or len(out | taken) <= most, (out, taken, most)


def no_job_where_none_can_run(views: Views, turns: Turns) -> None:
    """No Job is made for a node that is not ready: it could only run out of time."""
    for name, turn in turns.items():
        assert views[name].ready or not any(isinstance(each, CreateJob) for each in turn.effects), (
            name,
            turn,
        )


def nothing_happens_on_hold(views: Views, turns: Turns) -> None:
    """With the hold annotation nothing goes on, but what a person asks for."""
    for name, turn in turns.items():
        view = views[name]
        if view.hold and not view.order:
            known = remembered(view)
            assert not turn.effects or known.by is StartedBy.PERSON, (name, turn.effects)
            assert turn.state.phase is known.phase or not turn.effects, (name, turn)


def no_recovery_under_running_pods(views: Views, turns: Turns) -> None:
    """No recovery Job is made on a node where pods hold devices, unless a person wants it."""
    for name, turn in turns.items():
        view, known = views[name], remembered(views[name])
        if known.phase is RecoveryPhase.RECOVERING and known.by is StartedBy.MUSTER and view.occupied:
            assert not any(isinstance(each, CreateJob) for each in turn.effects), (name, turn.effects)


def no_attempt_for_what_only_a_person_ends(views: Views, turns: Turns) -> None:
    """Muster begins no recovery by itself, and makes no Job for one, while a fault is there that no Job ends."""
    for name, turn in turns.items():
        view, known = views[name], remembered(views[name])
        left = [fault.beyond(known.accepted) for fault in view.faults]
        if view.order or not any(fault and fault.for_person() for fault in left):
            continue
        assert turn.state.attempts <= known.attempts, (name, known, turn)
        if known.phase is RecoveryPhase.RECOVERING and known.by is StartedBy.MUSTER:
            assert not any(isinstance(each, CreateJob) for each in turn.effects), (name, turn.effects)


def no_more_attempts_than_allowed(views: Views, turns: Turns, policy: FaultPolicy) -> None:
    """Muster begins no recovery by itself beyond the attempts of the policy."""
    for name, turn in turns.items():
        known, state = remembered(views[name]), turn.state
        if not views[name].order and state.attempts > known.attempts:
            assert state.attempts <= policy.attempts, (name, known, state)


def nodes_come_back_only_when_well(views: Views, turns: Turns, policy: FaultPolicy) -> None:
    """A node that is tested comes back after its agent has run, its devices are healthy and the test Job has succeeded.

    The test is left out beside pods that run, and where a person or the policy takes the node back.
    """
    for name, turn in turns.items():
        view, known = views[name], remembered(views[name])
        by_itself = not view.order and view.taint is not TaintOwner.ABSENT
        recovers = policy.recovers or known.by is StartedBy.PERSON
        ends = known.phase is not RecoveryPhase.NONE and turn.state.phase is RecoveryPhase.NONE
        if by_itself and recovers and ends:
            assert known.phase is RecoveryPhase.VERIFYING, (name, known)
            assert agent_has_run(view, known), (name, known, view)
            assert all(fault.beyond(known.accepted) is None for fault in view.faults), (name, known, view)
            tested = any(
                job.progress is JobProgress.SUCCEEDED and job.name.startswith(f"muster-verify-{name}-")
                for job in view.jobs.values()
                if job.created >= known.since
            )
            assert tested or policy.verify_job is None or view.occupied, (name, known, view)


def a_lost_annotation_ends_no_recovery(views: Views, turns: Turns, policy: FaultPolicy) -> None:
    """A node with Muster's taint whose annotation is lost stays out until it is shown to be well."""
    for name, turn in turns.items() if policy.recovers else ():
        view = views[name]
        if view.taint is TaintOwner.MUSTER and not remembered(view).phase.is_out and not view.order:
            writes = [each for each in turn.effects if isinstance(each, WriteNode)]
            assert all(write.tainted for write in writes), (name, turn)


def only_the_job_of_the_phase_runs(views: Views) -> None:
    """At rest, no Job goes on that belongs to a phase that is over."""
    for name, view in views.items():
        running = [job.name for job in view.jobs.values() if job.progress is JobProgress.RUNNING]
        known = remembered(view)
        if not view.hold:
            assert len(running) <= (known.phase in (RecoveryPhase.RECOVERING, RecoveryPhase.VERIFYING)), (
                name,
                known,
                running,
            )


def taints_have_a_reason(views: Views) -> None:
    """A node that came to rest out of service has a fault, an open recovery or test, or a person's word for it."""
    for name, view in views.items():
        known = remembered(view)
        if view.taint is not TaintOwner.MUSTER or view.hold:
            continue
        faulty = view.black_hole or any(fault.beyond(known.accepted) for fault in view.faults)
        is_open = known.phase is RecoveryPhase.VERIFYING or known.cause is FaultCause.VERIFICATION
        runs = any(job.progress is JobProgress.RUNNING for job in view.jobs.values())
        person = known.by is StartedBy.PERSON or known.cause is FaultCause.PERSON
        assert faulty or is_open or runs or person or not agent_has_run(view, known), (name, known, view)


def nothing_but_the_annotation_is_remembered(turn: RecoveryTurn, effects: Sequence[Effect]) -> None:
    """What the next step starts from is what this one wrote: whoever takes over goes on in the same way."""
    written = [effect for effect in effects if isinstance(effect, WriteNode)]
    for write in written:
        read = read_state(write.annotation)
        assert read == (RecoveryState() if turn.state.is_empty else turn.state), (read, turn.state)
        assert write.tainted == turn.state.phase.is_out


def time_alone_changes_nothing_before_it_says(
    views: Views, turns: Turns, policy: FaultPolicy, now: int, templates: frozenset[str]
) -> None:
    """At rest, a step does nothing until the time at which it asked to be called again."""
    for name, turn in turns.items():
        if turn.effects:
            continue
        ends = now + 10**7 if turn.look_again is None else turn.look_again
        assert ends > now, (name, turn)
        for later in {now + 1, (now + ends) // 2, ends - 1}:
            if now < later < ends:
                context = recovery_context(views, policy, later, templates=templates)
                again = step(views[name], context, policy, later)
                assert not again.effects, (name, later - now, ends - now, again)

"""What follows for one node now: the state afterwards, what is done, and when to look again."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from admission.node_recovery.effects import DeleteJob, Effect, EvictGangs, WriteNode
from admission.node_recovery.phases import PHASES
from admission.node_recovery.policy import FaultPolicy
from admission.node_recovery.recovery_jobs import job_name
from admission.node_recovery.state import (
    FaultCause,
    RecoveryPhase,
    RecoveryState,
    StartedBy,
    read_state,
)
from admission.node_recovery.step_input import RecoveryOutcome, StepInput, is_running, known_state
from admission.node_recovery.transitions import accepted, released
from admission.node_recovery.view import NodeView, RecoveryContext, RecoveryStep, TaintOwner
from queues.text_format import listed

_PHASE_OF: Final[Mapping[RecoveryStep, RecoveryPhase]] = {
    RecoveryStep.CORDON: RecoveryPhase.CORDONED,
    RecoveryStep.DRAIN: RecoveryPhase.DRAINING,
    RecoveryStep.RECOVER: RecoveryPhase.RECOVERING,
    RecoveryStep.VERIFY: RecoveryPhase.VERIFYING,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryTurn:
    """What follows for one node."""

    #: As it is once the effects are carried out.
    state: RecoveryState
    effects: tuple[Effect, ...] = ()
    #: Seconds since the epoch; until then nothing changes by itself. None if nothing ever does.
    look_again: int | None = None


def step(view: NodeView, context: RecoveryContext, policy: FaultPolicy, now: int) -> RecoveryTurn:
    """What follows for a node: at most one phase further, or what its phase has to do.

    Its phase is entered before anything is done in it, so that the leader after a crash knows of it. On the world
    that its effects make it comes to rest: called again and again, it returns no effects in the end.
    """
    here = StepInput(view=view, context=context, policy=policy, now=now, state=known_state(view, now))
    if view.order:
        outcome = _ordered(here)
    elif view.hold:
        outcome = _held(here)
    else:
        outcome = _automatic(here)
    # Gangs go in a phase that was entered before: they do not wait for a write of what is shown of it.
    evictions = [effect for effect in outcome.effects if isinstance(effect, EvictGangs)]
    others = [effect for effect in outcome.effects if not isinstance(effect, EvictGangs)]
    return RecoveryTurn(
        state=outcome.state,
        effects=(*evictions, *_writes(here, outcome), *others, *_leftovers(here, outcome)),
        look_again=outcome.look_again,
    )


def _automatic(here: StepInput) -> RecoveryOutcome:
    state = here.state
    if state.phase.is_out:
        if here.view.taint is TaintOwner.ABSENT:
            return accepted(here, "the taint was removed by hand")
        if state.by is StartedBy.MUSTER and not here.policy.recovers:
            return released(here)
    return PHASES[state.phase](here)


def _held(here: StepInput) -> RecoveryOutcome:
    """Nothing goes on by itself, but a step that a person asked for is carried out."""
    if here.state.by is StartedBy.PERSON and here.view.taint is not TaintOwner.ABSENT:
        outcome, known = PHASES[here.state.phase](here), here.state
        if replace(outcome.state, job=known.job, waits=known.waits) == known:
            return outcome
    return RecoveryOutcome(state=here.state)


def _ordered(here: StepInput) -> RecoveryOutcome:
    """What a person asks for, whatever the policy and the circuit breaker say."""
    try:
        order = RecoveryStep(here.view.order)
    except ValueError:
        steps = listed([*RecoveryStep], shown=len(RecoveryStep))
        message = f"muster.dev/recovery-step: found {here.view.order[:40]!r}, expected one of {steps}"
        return here.move(here.state, "UnknownRecoveryStep", message, warning=True)
    if order is RecoveryStep.DONE:
        return accepted(here, "a person says that it is done")
    here = replace(here, state=replace(here.state, accepted=()))
    attempts = here.state.attempts + (order is RecoveryStep.RECOVER)
    state = here.enter(_PHASE_OF[order], by=StartedBy.PERSON, attempts=attempts)
    if not (here.is_faulty or here.is_unreported):
        state = replace(state, cause=FaultCause.PERSON, fault="", devices=())
    return here.move(state, "GpuNodeOrdered", f"a person asks for the step {order.value}")


def _writes(here: StepInput, outcome: RecoveryOutcome) -> tuple[Effect, ...]:
    """The write of the Node, if it does not say yet what the outcome is."""
    view, state = here.view, outcome.state
    if view.hold and not view.order and here.state == state:
        return ()
    wanted = RecoveryState() if state.is_empty else state
    tainted = state.phase.is_out
    right_taint = tainted == (view.taint is TaintOwner.MUSTER) or view.taint is TaintOwner.PERSON
    if read_state(view.annotation) == wanted and right_taint and not view.order:
        return ()
    write = WriteNode(
        node=view.name, annotation=state.annotation(), tainted=tainted, consumes_order=bool(view.order)
    )
    return (write,)


def _leftovers(here: StepInput, outcome: RecoveryOutcome) -> tuple[Effect, ...]:
    """Jobs that run for a phase that is over are deleted."""
    if here.view.hold and not here.view.order and here.state.by is StartedBy.MUSTER:
        return ()
    current = job_name(here.view.name, outcome.state)
    return tuple(
        DeleteJob(node=here.view.name, namespace=job.namespace, name=job.name)
        for name, job in sorted(here.view.jobs.items())
        if is_running(job) and name != current
    )

"""Ways from one phase of a node's recovery to another, each with the event that reports it; and what to wait for."""

from dataclasses import replace

from admission.node_recovery.effects import CreateJob, TryNode
from admission.node_recovery.recovery_jobs import job_name, template_of
from admission.node_recovery.state import LONGEST_FAULT, FaultCause, RecoveryPhase, StartedBy, WaitsFor
from admission.node_recovery.step_input import LACKS_DEVICES, RecoveryOutcome, StepInput
from admission.node_recovery.view import KILLS_PODS
from queues.text_format import counted, duration, listed, span


def cordon(here: StepInput) -> RecoveryOutcome:
    """Take the node out of service."""
    state = here.enter(RecoveryPhase.CORDONED, by=StartedBy.MUSTER)
    return here.move(state, "GpuNodeCordoned", f"{here.told}: no new GPU work", warning=True)


def drain(here: StepInput, why: str, cause: FaultCause | None = None) -> RecoveryOutcome:
    """Let its gangs leave."""
    state = here.enter(RecoveryPhase.DRAINING)
    state = replace(state, cause=cause or state.cause)
    return here.move(state, "GpuNodeDraining", f"{why}: {_leaving(here)}")


def verify(here: StepInput, why: str) -> RecoveryOutcome:
    """Have the node tested: by what its agent reports, and by a Job if there is one."""
    waits = "waits until its devices are reported as healthy"
    job = here.policy.verify_job
    then = f", then it is tested by a Job from {job}" if job else ""
    return here.move(here.enter(RecoveryPhase.VERIFYING), "GpuNodeVerifying", f"{why}: {waits}{then}")


def back_in_service(here: StepInput, why: str) -> RecoveryOutcome:
    """Take the node back. How often it was tried stays known for a while."""
    took = f" after {duration(here.now - here.state.fault_since)}" if here.state.fault_since else ""
    state = here.enter(RecoveryPhase.NONE)
    return _on_trial(here, here.move(state, "GpuNodeRecovered", f"{why}: back in service{took}"))


def accepted(here: StepInput, why: str) -> RecoveryOutcome:
    """Take the node back with its faults, which a person has accepted."""
    names = {name for fault in here.view.faults for name in fault.names}
    names |= {KILLS_PODS} if here.view.black_hole else set()
    state = here.enter(RecoveryPhase.NONE, accepted=tuple(sorted(names)))
    return _on_trial(here, here.move(state, "GpuNodeReturned", f"{why}: back in service as it is"))


def released(here: StepInput) -> RecoveryOutcome:
    """Take the node back, since the policy does not take nodes out of service any more."""
    why = "the policy takes no node out of service any more"
    return here.move(here.enter(RecoveryPhase.NONE), "GpuNodeReturned", why)


def next_attempt(here: StepInput, cause: FaultCause, why: str) -> RecoveryOutcome:
    """Begin a recovery attempt, or give up if all are used up.

    What a person asked for on a node without a fault is not tried again, nor is anything under a policy that does not
    recover nodes. A fault that no Job ends uses up no attempt: the drained node waits for a person.
    """
    attempts, policy = here.state.attempts, here.policy
    if attempts >= policy.attempts or not policy.recovers or cause is FaultCause.PERSON:
        failed = here.enter(RecoveryPhase.FAILED, cause=cause)
        message = f"{why}: out of service after {counted(attempts, 'attempt')}; it needs a person"
        return here.move(failed, "GpuNodeFailed", message, warning=True)
    if here.for_person or (here.view.occupied and here.state.by is StartedBy.MUSTER):
        return drain(here, why, cause)
    state = here.enter(RecoveryPhase.RECOVERING, cause=cause, attempts=attempts + 1)
    how = f"by a Job from {policy.recovery_job}" if policy.recovery_job else "by others, without a Job"
    message = f"{why}: attempt {state.attempts} of {policy.attempts}, {how}"
    return here.move(state, "GpuNodeRecovering", message)


def drain_first(here: StepInput, why: str) -> RecoveryOutcome:
    """Go back to draining before the Job of an attempt was made: pods came that Muster let in a moment too late, or a
    fault that no Job ends."""
    outcome = drain(here, why)
    return replace(outcome, state=replace(outcome.state, attempts=max(0, here.state.attempts - 1)))


def wait_for(
    here: StepInput, waits: WaitsFor, message: str, *, look_again: int | None = None
) -> RecoveryOutcome:
    """Stay in the phase, and report once what it waits for."""
    told = () if here.state.waits is waits else (here.tell("GpuNodeWaits", message, warning=True),)
    return RecoveryOutcome(state=replace(here.state, waits=waits), effects=told, look_again=look_again)


def wait_for_person(here: StepInput) -> RecoveryOutcome:
    """Stay in the phase until a person has ended what no Job ends."""
    faults = listed([*map(str, here.for_person)])[:LONGEST_FAULT]
    return wait_for(here, WaitsFor.PERSON, f"{faults}: no recovery Job ends this: waits for a person")


def wait_for_agent(here: StepInput) -> RecoveryOutcome:
    """Stay in the phase until the agent has run since, and reports all devices that had a fault."""
    why = "the agent has not renewed its lease since then"
    if here.view.lease_renewed_at == LACKS_DEVICES:
        why = "the agent does not report a device any more that was unhealthy"
    elif here.view.lease_renewed_at is None:
        why = "no agent reports the devices any more"
    return wait_for(here, WaitsFor.AGENT, f"{why}: waits for it")


def create_job(here: StepInput) -> RecoveryOutcome:
    """Make the Job of this phase."""
    if not here.view.ready:
        return wait_for(here, WaitsFor.NODE, "the node is not ready: its Job waits until it is")
    template = template_of(here.state.phase, here.policy) or ""
    if template not in here.context.templates:
        which = template or "of the policy"
        message = f"waits for CronJob {which}, which does not exist or cannot be read"
        return wait_for(here, WaitsFor.TEMPLATE, message)
    name = job_name(here.view.name, here.state)
    create = CreateJob(node=here.view.name, template=template, name=name)
    if not here.view.refused:
        return here.keep(create)
    waits = wait_for(here, WaitsFor.JOB_REFUSED, f"Job {name} is refused: {here.view.refused}")
    return replace(waits, effects=(*waits.effects, create))


def job_seen(here: StepInput, *, look_again: int) -> RecoveryOutcome:
    """Stay in the phase, and remember that its Job was there."""
    name = job_name(here.view.name, here.state)
    return RecoveryOutcome(state=replace(here.state, job=name, waits=None), look_again=look_again)


def _on_trial(here: StepInput, outcome: RecoveryOutcome) -> RecoveryOutcome:
    """A node that killed pods gets one gang at first."""
    if here.view.black_hole is None:
        return outcome
    return replace(outcome, effects=(TryNode(node=here.view.name), *outcome.effects))


def _leaving(here: StepInput) -> str:
    if not here.view.gangs:
        return "no gang is on it"
    on_faults = sum(gang.is_on(here.faults) for gang in here.view.gangs)
    others, timeout = len(here.view.gangs) - on_faults, here.policy.drain_timeout
    if timeout == 0 or here.state.by is StartedBy.PERSON:
        return f"{counted(len(here.view.gangs), 'gang')} on it must go"
    now = f"{counted(on_faults, 'gang')} on unhealthy devices must go now" if on_faults else ""
    rest = f"{counted(others, 'gang')} may go on for {span(timeout)}" if others else ""
    return ", ".join(filter(None, (now, rest)))

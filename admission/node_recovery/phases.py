"""What each phase of a node's recovery comes to: stay and do something, or go on to another phase.

A phase ends in one of four ways: its work is done, the fault is gone, its attempts are used up, or a person says so.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from admission.node_recovery.effects import EvictGangs
from admission.node_recovery.state import FaultCause, RecoveryPhase, RecoveryState, StartedBy, WaitsFor
from admission.node_recovery.step_input import RecoveryOutcome, StepInput
from admission.node_recovery.transitions import (
    back_in_service,
    cordon,
    create_job,
    drain,
    drain_first,
    job_seen,
    next_attempt,
    verify,
    wait_for,
    wait_for_agent,
    wait_for_person,
)
from admission.node_recovery.view import KILLS_PODS, GangOnNode, JobProgress, RecoveryJob
from queues.text_format import counted, span

#: Faults that are reported, so that their end is reported too.
_REPORTED: Final = frozenset({FaultCause.DEVICE, FaultCause.KILLS_PODS})


def in_service(here: StepInput) -> RecoveryOutcome:
    """Phase ``NONE``. A fault takes the node out of service, if the policy says so."""
    here = replace(here, state=_without_what_is_over(here))
    policy, state = here.policy, here.state
    ends = state.since + policy.attempts_within if state.attempts else None
    if not (here.is_faulty and policy.recovers):
        return here.keep(look_again=ends)
    if here.view.name not in here.context.granted:
        context = here.context
        out = f"{counted(context.out, 'node')} out of service, cordoned or not ready"
        bound = f"{out}; the policy allows {context.most_out}"
        message = f"{here.told}: nothing is done now ({bound})"
        return wait_for(here, WaitsFor.CIRCUIT_BREAKER, message, look_again=ends)
    return cordon(here)


def cordoned(here: StepInput) -> RecoveryOutcome:
    """CORDONED: on to draining, unless a person cordoned the node and nothing else is to be done."""
    if here.person_alone:
        return here.keep()
    return drain(here, here.told) if here.is_faulty else verify(here, "the fault is gone")


def draining(here: StepInput) -> RecoveryOutcome:
    """DRAINING: gangs on faulty devices go at once, others when their time is over; then recovery begins.

    Of a fault that no Job ends it begins when a person has ended that.
    """
    state, view = here.state, here.view
    if not (here.is_faulty or here.person_alone or state.cause is FaultCause.VERIFICATION):
        return verify(here, "the fault is gone")
    if view.gangs:
        return _while_gangs_leave(here)
    if here.person_alone:
        return here.keep()
    if view.foreign_pods:
        pods = counted(view.foreign_pods, "pod")
        return wait_for(here, WaitsFor.FOREIGN_PODS, f"{pods} that Muster did not admit hold devices: waits")
    if here.for_person:
        return wait_for_person(here)
    return next_attempt(here, here.cause or state.cause or FaultCause.DEVICE, here.told or "the test failed")


def recovering(here: StepInput) -> RecoveryOutcome:
    """RECOVERING: the recovery Job runs, or the agent is waited for.

    Of a fault that is reported the agent's word counts, and not how the Job ended: a reboot ends its own Job.
    """
    state, job = here.state, here.job
    gone = not here.is_faulty and (state.cause in _REPORTED or here.policy.recovery_job is None)
    if gone and (job is None or job.progress is JobProgress.FAILED):
        return verify(_without_attempt(here) if job is None else here, "the fault is gone")
    if job is None:
        return _without_job(here)
    if job.progress is JobProgress.SUCCEEDED:
        return verify(here, f"Job {job.name} succeeded")
    if job.progress is JobProgress.RUNNING:
        return _while_job_runs(here, job, state.cause)
    return _after_failed_job(here, job)


def verifying(here: StepInput) -> RecoveryOutcome:
    """VERIFYING: the agent has to run and to report the devices as healthy, and then the test Job, if there is one, to
    succeed.

    That the node killed pods does not count here: this is for the test and for the next gang to show.
    """
    state, job = here.state, here.job
    ends = state.since + here.policy.verify_timeout
    if not here.agent_ran_after(state.since):
        return here.keep(look_again=ends) if here.now < ends else wait_for_agent(here)
    if here.faults:
        return _still_faulty(here, ends, tested=bool(job or state.job))
    if here.policy.verify_job is None or _runs_pods_well(here):
        return back_in_service(here, "the agent reports its devices as healthy")
    if job is None and not state.job:
        return create_job(here)
    return _after_test(here, job)


def failed(here: StepInput) -> RecoveryOutcome:
    """FAILED: a person is needed, unless the fault goes by itself."""
    if here.state.cause in _REPORTED and not here.is_faulty and here.agent_ran_after(here.state.since):
        return verify(here, "the fault is gone")
    return here.keep(*_evict(here, _on_faults(here) if here.policy.recovers else ()))


PHASES: Final[Mapping[RecoveryPhase, Callable[[StepInput], RecoveryOutcome]]] = {
    RecoveryPhase.NONE: in_service,
    RecoveryPhase.CORDONED: cordoned,
    RecoveryPhase.DRAINING: draining,
    RecoveryPhase.RECOVERING: recovering,
    RecoveryPhase.VERIFYING: verifying,
    RecoveryPhase.FAILED: failed,
}


def _without_what_is_over(here: StepInput) -> RecoveryState:
    """Without accepted faults that are gone, and attempts that are long ago."""
    state = here.state
    there = {name for fault in here.view.faults for name in (fault.name, *fault.names)}
    there |= {KILLS_PODS} if here.view.black_hole else set()
    left = tuple(name for name in state.accepted if name in there)
    long_ago = here.now >= state.since + here.policy.attempts_within
    return replace(state, accepted=left, attempts=0 if long_ago else state.attempts)


def _while_gangs_leave(here: StepInput) -> RecoveryOutcome:
    """Evict gangs on faulty devices now, and all of them when the time is over or a person wants it."""
    ends = here.state.since + here.policy.drain_timeout
    if here.state.by is StartedBy.PERSON or ends <= here.now:
        return here.keep(*_evict(here, here.view.gangs))
    return here.keep(*_evict(here, _on_faults(here)), look_again=ends)


def _without_attempt(here: StepInput) -> StepInput:
    """An attempt whose Job was never made does not count: faults that come and go use up none."""
    state = here.state
    if here.policy.recovery_job is None or state.job:
        return here
    return replace(here, state=replace(state, attempts=max(0, state.attempts - 1)))


def _without_job(here: StepInput) -> RecoveryOutcome:
    state = here.state
    if here.policy.recovery_job is None:
        return here.keep()
    if state.job:
        why = f"Job {state.job} is gone before its end was seen"
        return next_attempt(here, state.cause or FaultCause.DEVICE, why)
    if state.by is StartedBy.MUSTER and here.view.occupied:
        return drain_first(here, "pods with devices are on the node")
    if state.by is StartedBy.MUSTER and here.for_person:
        return drain_first(here, here.told)
    return create_job(here)


def _after_failed_job(here: StepInput, job: RecoveryJob) -> RecoveryOutcome:
    """Give the agent some time to report what the Job did all the same; then the attempt has failed."""
    ended = job.ended or here.state.since
    ends = ended + here.policy.verify_timeout
    if here.state.cause in _REPORTED:
        if here.now < ends:
            return job_seen(here, look_again=ends)
        if not here.agent_ran_after(ended):
            return wait_for_agent(here)
    return next_attempt(here, here.state.cause or FaultCause.DEVICE, f"Job {job.name} failed")


def _still_faulty(here: StepInput, ends: int, *, tested: bool) -> RecoveryOutcome:
    """The agent reports a fault while the node should be well: it may take its time, but not under gangs or a test."""
    if here.view.gangs and here.policy.recovers:
        return drain(here, here.told)
    if here.now < ends and not (tested or here.for_person):
        return here.keep(look_again=ends)
    return next_attempt(here, FaultCause.DEVICE, f"{here.told} when it should be well")


def _after_test(here: StepInput, job: RecoveryJob | None) -> RecoveryOutcome:
    """What the test Job of a node comes to. ``job``: None if it was there and is gone."""
    if job is None:
        why = f"Job {here.state.job} is gone before its end was seen"
        return next_attempt(here, FaultCause.VERIFICATION, why)
    if job.progress is JobProgress.SUCCEEDED:
        return back_in_service(here, f"Job {job.name} succeeded")
    if job.progress is JobProgress.FAILED:
        return next_attempt(here, FaultCause.VERIFICATION, f"Job {job.name} failed")
    return _while_job_runs(here, job, FaultCause.VERIFICATION)


def _while_job_runs(here: StepInput, job: RecoveryJob, cause: FaultCause | None) -> RecoveryOutcome:
    """Wait for the end of the Job of this phase, until its time is over."""
    ends = job.created + here.policy.job_timeout
    if here.now < ends:
        return job_seen(here, look_again=ends)
    why = f"Job {job.name} has not ended within {span(here.policy.job_timeout)}"
    return next_attempt(here, cause or FaultCause.DEVICE, why)


def _runs_pods_well(here: StepInput) -> bool:
    """Whether pods run on the node while its fault went by itself: they show more than a test next to them could."""
    state, view = here.state, here.view
    if state.by is StartedBy.PERSON or state.cause is FaultCause.VERIFICATION:
        return False
    return bool(view.gangs or (view.foreign_pods and not state.attempts))


def _on_faults(here: StepInput) -> tuple[GangOnNode, ...]:
    return tuple(gang for gang in here.view.gangs if gang.is_on(here.faults))


def _evict(here: StepInput, gangs: Iterable[GangOnNode]) -> tuple[EvictGangs, ...]:
    """One effect for all these gangs but those that are leaving already; none if there is no other."""
    keys = tuple(sorted(gang.key for gang in gangs if not gang.leaving))
    message = here.told or f"node {here.view.name} is taken out of service"
    return (EvictGangs(node=here.view.name, gangs=keys, message=message),) if keys else ()

"""What follows for a node with a fault: the state afterwards, what is done, and when to look again. Pure.

A node with a fault is closed: its gangs leave (draining), a Job repairs it if one is named (recovering), it is tested
(verifying), and opened. After too many repairs it stays closed until a person opens it (failed).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from admission.facts.devices import DeviceFault, ReportedDevice
from admission.node_recovery.jobs import CreateJob, job_name, template_of
from admission.node_recovery.policy import FaultPolicy
from admission.node_recovery.state import LONGEST_FAULT, RecoveryPhase, RecoveryState, read_state
from admission.node_recovery.view import (
    KILLS_PODS,
    BlackHole,
    GangOnNode,
    JobProgress,
    NodeView,
    RecoveryJob,
    TaintOwner,
)
from queues.text_format import counted, listed, span
from queues.workload import NodeName, WorkloadKey

#: So many repairs are tried; then the node stays closed and needs a person.
ATTEMPTS: Final = 3
#: A fault within this time (seconds) after the return goes on with the count of attempts.
ATTEMPTS_WITHIN: Final = 86_400
#: Seconds after which a Job that has not ended has failed.
JOB_TIMEOUT: Final = 1800
#: Seconds that devices may take to be well again after a repair. Where no reading shows that a device has recovered,
#: the agent calls it healthy ten minutes later, and one that was flapping another ten minutes later.
SETTLE_TIMEOUT: Final = 1500


class NodeEvent(NamedTuple):
    """An event of a Node."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTurn:
    """What follows for one node, carried out in the order of these fields; each is harmless when it is repeated.

    When one fails, the others are left out. Gangs go in a phase that was entered before: they do not wait for a write.
    """

    #: As it is once all this is carried out.
    state: RecoveryState
    #: Gangs to evict whole, and what is said to their users.
    evicted: tuple[WorkloadKey, ...] = ()
    why_evicted: str = ""
    #: The annotation and the taint are written as ``state`` has them: in one patch, because a phase without its taint
    #: means that a person took the taint off.
    writes: bool = False
    #: One gang is let on a node that killed pods, on trial.
    tries_gang: bool = False
    event: NodeEvent | None = None
    creates: CreateJob | None = None
    deletes: tuple[RecoveryJob, ...] = ()
    #: Seconds since the epoch; until then nothing changes by itself. None if nothing ever does.
    look_again: int | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be done."""
        return not (
            self.evicted or self.writes or self.tries_gang or self.event or self.creates or self.deletes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitBreaker:
    """What the step of one node has to know of all of them: no more nodes are out of service than the policy allows."""

    #: Nodes that Muster may act on.
    granted: frozenset[NodeName] = frozenset()
    #: Nodes that are out of service, cordoned or not ready, and the most that may be.
    out: int = 0
    most_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """What a step is decided on."""

    view: NodeView
    breaker: CircuitBreaker
    policy: FaultPolicy
    now: int
    state: RecoveryState

    @property
    def faults(self) -> tuple[DeviceFault, ...]:
        """Faults of devices, as far as no person has accepted them."""
        left = (fault.beyond(self.state.accepted) for fault in self.view.faults)
        return tuple(fault for fault in left if fault is not None)

    @property
    def for_person(self) -> tuple[DeviceFault, ...]:
        """Of these faults, those that no Job ends."""
        needing = (fault.for_person() for fault in self.faults)
        return tuple(fault for fault in needing if fault is not None)

    @property
    def black_hole(self) -> BlackHole | None:
        """The finding that the node kills pods, unless that is accepted."""
        return None if KILLS_PODS in self.state.accepted else self.view.black_hole

    @property
    def is_faulty(self) -> bool:
        """Whether there is a fault that no person has accepted."""
        return bool(self.faults or self.black_hole)

    @property
    def seems_well(self) -> bool:
        """Whether no fault is reported, and no test has shown one."""
        return not (self.is_faulty or self.state.test_failed)

    @property
    def fault(self) -> str:
        """The faults in words; "": none."""
        found = [*map(str, self.faults), *([str(self.black_hole)] if self.black_hole else [])]
        return listed(found)[:LONGEST_FAULT]

    @property
    def is_unreported(self) -> bool:
        """Whether the node is closed for a fault that was reported, and its devices are not reported now.

        The reporter of a fault has to report its end as well: an agent may run before the driver does, and a user may
        have deleted its object.
        """
        return self.state.phase.is_out and bool(self.state.devices) and not self.view.is_reported

    @property
    def job(self) -> RecoveryJob | None:
        """The Job of the present phase. None if it does not exist."""
        return self.view.jobs.get(job_name(self.view.name, self.state))

    def stay(self, *, look_again: int | None = None, **actions: Any) -> NodeTurn:
        """Stay in the phase. Nothing is waited for beyond what the phase takes."""
        return NodeTurn(state=replace(self.state, waits=""), look_again=look_again, **actions)

    def wait(self, what: str, message: str, *, look_again: int | None = None, **actions: Any) -> NodeTurn:
        """Stay in the phase, and report once what it waits for."""
        event = None if self.state.waits == what else NodeEvent("GpuNodeWaits", message, True)
        state = replace(self.state, waits=what)
        return NodeTurn(state=state, event=event, look_again=look_again, **actions)

    def enter(
        self, phase: RecoveryPhase, reason: str, message: str, *, warning: bool = False, **changes: Any
    ) -> NodeTurn:
        """Another phase, with the faults as they are now, and the event that reports it."""
        state = replace(self.state, phase=phase, since=self.now, job="", waits="")
        # Other faults do not hide one whose device is not reported now.
        if self.is_faulty and not self.is_unreported:
            devices = tuple(sorted({_known_by(fault.device, fault.number) for fault in self.faults}))
            state = replace(state, fault=self.fault, devices=devices)
        return NodeTurn(state=replace(state, **changes), event=NodeEvent(reason, message, warning))

    def open(self, reason: str, message: str, *, accepted: Iterable[str] | None = None) -> NodeTurn:
        """Take the node back. How often it was tried stays known for a while; a node that killed pods gets one gang."""
        kept = self.state.accepted if accepted is None else tuple(sorted(accepted))
        state = RecoveryState(since=self.now, attempts=self.state.attempts, accepted=kept)
        tries = self.view.black_hole is not None
        return NodeTurn(state=state, event=NodeEvent(reason, message), tries_gang=tries)


def circuit_breaker(nodes: Mapping[NodeName, NodeView], policy: FaultPolicy, now: int) -> CircuitBreaker:
    """Which nodes may be closed. ``nodes``: all nodes with devices.

    Places that are free go to the nodes with the oldest faults, then by name. Nodes that a person took out of service
    take places too, but need none; so do nodes that are cordoned or not ready. One of these with a fault needs no
    second place.
    """
    out = {name for name, view in nodes.items() if _is_out(view)}
    absent = {name for name, view in nodes.items() if view.cordoned or not view.ready}
    faulty = (
        (since, name)
        for name, view in nodes.items()
        if (since := _faulty_since(view, policy, now)) is not None
    )
    granted = policy.granted(len(nodes), faulty, out, absent)
    return CircuitBreaker(granted=granted, out=len(out | absent), most_out=policy.most_out(len(nodes)))


def plan(
    nodes: Mapping[NodeName, NodeView],
    policy: FaultPolicy,
    now: int,
    failed: Callable[[NodeName, Exception], None] | None = None,
) -> Mapping[NodeName, NodeTurn]:
    """What follows for each node that has or had a fault, by name; nodes without anything to look at are left out.

    ``nodes``: all nodes with devices, since the circuit breaker counts them. ``failed``: called with nodes whose step
    failed, which are left out too. If None, the error is raised.
    """
    breaker = circuit_breaker(nodes, policy, now)
    turns: dict[NodeName, NodeTurn] = {}
    for name in sorted(name for name, view in nodes.items() if not view.is_quiet):
        try:
            turns[name] = step(nodes[name], breaker, policy, now)
        except Exception as error:
            if failed is None:
                raise
            failed(name, error)
    return turns


def step(view: NodeView, breaker: CircuitBreaker, policy: FaultPolicy, now: int) -> NodeTurn:
    """What follows for a node: at most one phase further, or what its phase has to do.

    Its phase is entered before anything is done in it, so that the leader after a crash knows of it. On the world
    that its turns make it comes to rest: called again and again, there is nothing to do in the end.
    """
    here = _Step(view=view, breaker=breaker, policy=policy, now=now, state=known_state(view, now))
    turn = _decided(here)
    return replace(turn, writes=_must_be_written(view, turn.state), deletes=_leftovers(view, turn.state))


def known_state(view: NodeView, now: int) -> RecoveryState:
    """What is remembered of a node.

    Muster's taint without a phase means that the annotation was lost, spoiled, or removed to have all tried again: the
    node goes on as one that was closed just now, so that it finds its way back.
    """
    state = read_state(view.annotation) or RecoveryState()
    if state.phase.is_out or view.taint is not TaintOwner.MUSTER:
        return state
    return replace(state, phase=RecoveryPhase.DRAINING, since=now, waits="")


def reports_known_devices(annotation: str, reported: Iterable[ReportedDevice]) -> bool:
    """Whether devices are reported, those whose fault closed the node, as the annotation says, among them.

    By their uuids, since others may move up to their numbers.
    """
    names = {_known_by(device.id, device.number) for device in reported}
    known = read_state(annotation)
    return bool(names) and (known is None or not known.phase.is_out or names.issuperset(known.devices))


def _known_by(device: str, number: int) -> str:
    """What a device with a fault is remembered by: its uuid, or its number where the reporter gives none."""
    return device or str(number)


def _is_out(view: NodeView) -> bool:
    """Whether the node is closed, by Muster or by a person."""
    if view.taint is not TaintOwner.ABSENT:
        return True
    return bool(view.annotation) and known_state(view, 0).phase.is_out


def _faulty_since(view: NodeView, policy: FaultPolicy, now: int) -> int | None:
    """Since when a node has a fault that no person has accepted. None if it has none."""
    if not (view.faults or view.black_hole):
        return None
    state = known_state(view, now)
    here = _Step(view=view, breaker=CircuitBreaker(), policy=policy, now=now, state=state)
    begun = [fault.since for fault in here.faults] + ([here.black_hole.since] if here.black_hole else [])
    return min([*begun, now]) if begun else None


def _decided(here: _Step) -> NodeTurn:
    if not here.state.phase.is_out:
        return _in_service(here)
    if here.view.taint is TaintOwner.ABSENT:
        names = {name for fault in here.view.faults for name in fault.names}
        names |= {KILLS_PODS} if here.view.black_hole else set()
        why = "the taint was removed by hand: back in service as it is"
        return here.open("GpuNodeReturned", why, accepted=names)
    if not here.policy.recovers:
        return here.open("GpuNodeReturned", "the policy closes no node any more")
    return PHASES[here.state.phase](here)


def _in_service(here: _Step) -> NodeTurn:
    """A fault closes the node, if the policy says so and the circuit breaker allows it."""
    here = replace(here, state=_without_what_is_over(here))
    ends = here.state.since + ATTEMPTS_WITHIN if here.state.attempts else None
    if not (here.is_faulty and here.policy.recovers):
        return here.stay(look_again=ends)
    if here.view.name not in here.breaker.granted:
        out = f"{counted(here.breaker.out, 'node')} out of service, cordoned or not ready"
        why = f"{here.fault}: nothing is done now ({out}; the policy allows {here.breaker.most_out})"
        return here.wait("circuit-breaker", why, look_again=ends)
    return _drain(here, f"{here.fault}: closed to new GPU work", warning=True)


def _draining(here: _Step) -> NodeTurn:
    """Gangs leave, and pods of others; then the repair begins."""
    if here.seems_well:
        return _verify(here, "the fault is gone")
    if here.view.occupied:
        return _while_occupied(here)
    if here.for_person:
        faults = listed([*map(str, here.for_person)])[:LONGEST_FAULT]
        return here.wait("person", f"{faults}: no Job ends this: waits for a person")
    if here.policy.job is None and not here.state.test_failed:
        return here.stay()
    return _next_attempt(here, here.fault or "the test failed")


def _while_occupied(here: _Step) -> NodeTurn:
    """Gangs on faulty devices go at once, others when their time is over."""
    view, ends = here.view, here.state.since + here.policy.drain_timeout
    if not view.gangs:
        pods = counted(view.foreign_pods, "pod")
        return here.wait("foreign-pods", f"{pods} that Muster did not admit hold devices: waits")
    if ends <= here.now:
        return here.stay(**_evicted(here, view.gangs))
    return here.stay(look_again=ends, **_evicted(here, _on_faults(here)))


def _recovering(here: _Step) -> NodeTurn:
    """The repair Job runs. How it ends does not count, but what the test shows: a reboot ends its own Job."""
    state, job = here.state, here.job
    if job is None:
        if state.job:
            return _verify(here, f"Job {state.job} is gone")
        # An attempt whose Job was never made does not count: faults that come and go use up none.
        here = replace(here, state=replace(state, attempts=max(0, state.attempts - 1)))
        if here.seems_well:
            return _verify(here, "the fault is gone")
        if here.view.occupied or here.for_person or here.policy.job is None:
            return _drain(here, here.fault or "the test failed")
        return _create_job(replace(here, state=state))
    if job.progress is JobProgress.RUNNING:
        return _while_job_runs(here, job) or _verify(here, _too_long(job))
    return _verify(here, f"Job {job.name} {job.progress.value}")


def _verifying(here: _Step) -> NodeTurn:
    """The devices have to be reported as healthy, and then the test Job, if there is one, to succeed.

    That the node killed pods does not count here: this is for the test and for the next gang to show.
    """
    since = here.state.since
    ends = since + SETTLE_TIMEOUT
    if here.is_unreported:
        why = "a device that was unhealthy is not reported any more: waits for the agent"
        return here.stay(look_again=ends) if here.now < ends else here.wait("agent", why)
    if here.faults:
        return _still_faulty(here, ends)
    if here.policy.verify_job is None or _runs_pods_well(here):
        return here.open("GpuNodeRecovered", "its devices are reported as healthy: back in service")
    return _tested(here)


def _still_faulty(here: _Step, ends: int) -> NodeTurn:
    """The agent reports a fault while the node should be well: it may take its time, but not under gangs or a test."""
    if here.view.gangs:
        return _drain(here, here.fault)
    if here.now < ends and not (here.job or here.state.job or here.for_person):
        return here.stay(look_again=ends)
    return _next_attempt(here, f"{here.fault} when it should be well")


def _tested(here: _Step) -> NodeTurn:
    """What the test Job comes to."""
    job, seen = here.job, here.state.job
    if job is None and not seen:
        return _create_job(here)
    if job is None:
        return _next_attempt(here, f"Job {seen} is gone before its end was seen", test_failed=True)
    if job.progress is JobProgress.RUNNING:
        return _while_job_runs(here, job) or _next_attempt(here, _too_long(job), test_failed=True)
    if job.progress is JobProgress.FAILED:
        return _next_attempt(here, f"Job {job.name} failed", test_failed=True)
    return here.open("GpuNodeRecovered", f"Job {job.name} succeeded: back in service")


def _failed(here: _Step) -> NodeTurn:
    """A person is needed, unless the fault goes by itself."""
    if here.seems_well and not here.is_unreported:
        return _verify(here, "the fault is gone")
    return here.stay(**_evicted(here, _on_faults(here)))


PHASES: Final[Mapping[RecoveryPhase, Callable[[_Step], NodeTurn]]] = {
    RecoveryPhase.DRAINING: _draining,
    RecoveryPhase.RECOVERING: _recovering,
    RecoveryPhase.VERIFYING: _verifying,
    RecoveryPhase.FAILED: _failed,
}


def _without_what_is_over(here: _Step) -> RecoveryState:
    """Without accepted faults that are gone, and attempts that are long ago."""
    state = here.state
    present = {name for fault in here.view.faults for name in (fault.name, *fault.names)}
    present |= {KILLS_PODS} if here.view.black_hole else set()
    left = tuple(name for name in state.accepted if name in present)
    long_ago = here.now >= state.since + ATTEMPTS_WITHIN
    return replace(state, accepted=left, attempts=0 if long_ago else state.attempts)


def _drain(here: _Step, why: str, *, warning: bool = False, **changes: Any) -> NodeTurn:
    """Let its gangs leave."""
    message = f"{why}: {_leaving(here)}"
    return here.enter(RecoveryPhase.DRAINING, "GpuNodeDraining", message, warning=warning, **changes)


def _verify(here: _Step, why: str) -> NodeTurn:
    """Have the node tested: by what its agent reports, and by a Job if there is one."""
    job = here.policy.verify_job
    then = f", then it is tested by a Job from {job}" if job else ""
    message = f"{why}: waits until its devices are reported as healthy{then}"
    return here.enter(RecoveryPhase.VERIFYING, "GpuNodeVerifying", message, test_failed=False)


def _next_attempt(here: _Step, why: str, *, test_failed: bool | None = None) -> NodeTurn:
    """Begin a repair, or give up if all attempts are used up, or a test failed and no Job repairs."""
    attempts, job = here.state.attempts, here.policy.job
    failed = here.state.test_failed if test_failed is None else test_failed
    if attempts >= ATTEMPTS or (failed and job is None):
        message = f"{why}: stays closed after {counted(attempts, 'attempt')}; it needs a person"
        return here.enter(RecoveryPhase.FAILED, "GpuNodeFailed", message, warning=True, test_failed=failed)
    if here.for_person or here.view.occupied or job is None:
        return _drain(here, why, test_failed=failed)
    message = f"{why}: attempt {attempts + 1} of {ATTEMPTS}, by a Job from {job}"
    return here.enter(
        RecoveryPhase.RECOVERING,
        "GpuNodeRecovering",
        message,
        test_failed=failed,
        attempts=attempts + 1,
    )


def _create_job(here: _Step) -> NodeTurn:
    """Make the Job of this phase."""
    view = here.view
    if not view.ready:
        return here.wait("node", "the node is not ready: its Job waits until it is")
    template = template_of(here.state.phase, here.policy) or ""
    create = CreateJob(node=view.name, template=template, name=job_name(view.name, here.state))
    if not view.refused:
        return here.stay(creates=create)
    return here.wait("job-refused", f"Job {create.name} is refused: {view.refused}", creates=create)


def _while_job_runs(here: _Step, job: RecoveryJob) -> NodeTurn | None:
    """Wait for the end of the Job of this phase. That it was there is remembered. None if its time is over."""
    ends = job.created + JOB_TIMEOUT
    if here.now >= ends:
        return None
    return NodeTurn(state=replace(here.state, job=job.name, waits=""), look_again=ends)


def _too_long(job: RecoveryJob) -> str:
    return f"Job {job.name} has not ended within {span(JOB_TIMEOUT)}"


def _runs_pods_well(here: _Step) -> bool:
    """Whether pods run on the node while its fault went by itself: they show more than a test next to them could."""
    state, view = here.state, here.view
    return bool(view.gangs or (view.foreign_pods and not state.attempts))


def _on_faults(here: _Step) -> tuple[GangOnNode, ...]:
    return tuple(gang for gang in here.view.gangs if gang.is_on(here.faults))


def _evicted(here: _Step, gangs: Iterable[GangOnNode]) -> dict[str, Any]:
    """The eviction of these gangs but those that are leaving already."""
    keys = tuple(sorted(gang.key for gang in gangs if not gang.leaving))
    return {"evicted": keys, "why_evicted": here.fault or f"node {here.view.name} is closed"} if keys else {}


def _leaving(here: _Step) -> str:
    gangs, timeout = here.view.gangs, here.policy.drain_timeout
    if not gangs:
        return "no gang is on it"
    on_faults = sum(gang.is_on(here.faults) for gang in gangs)
    others = len(gangs) - on_faults
    if timeout == 0:
        return f"{counted(len(gangs), 'gang')} on it must go"
    now = f"{counted(on_faults, 'gang')} on unhealthy devices must go now" if on_faults else ""
    rest = f"{counted(others, 'gang')} may go on for {span(timeout)}" if others else ""
    return ", ".join(filter(None, (now, rest)))


def _must_be_written(view: NodeView, state: RecoveryState) -> bool:
    """Whether the Node does not say yet what the state is. A person's taint stays as it is."""
    wanted = RecoveryState() if state.is_empty else state
    has_taint = view.taint is TaintOwner.MUSTER
    wrong_taint = state.phase.is_out != has_taint and view.taint is not TaintOwner.PERSON
    return wrong_taint or read_state(view.annotation) != wanted


def _leftovers(view: NodeView, state: RecoveryState) -> tuple[RecoveryJob, ...]:
    """Jobs that run for a phase that is over are deleted."""
    current = job_name(view.name, state)
    return tuple(job for name, job in sorted(view.jobs.items()) if job.is_running and name != current)

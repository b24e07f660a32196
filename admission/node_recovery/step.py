"""What follows for a node with a fault: the state afterwards, and what is done. Pure.

A node with a fault is closed: its gangs leave (draining), a Job repairs it if one is named (recovering), it is tested
(verifying), and opened. After too many repairs it stays closed until a person opens it (failed).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from msgspec import structs

from admission.facts.devices import DeviceFault
from admission.node_recovery.jobs import CreateJob, JobName, RecoveryJob, job_of
from admission.node_recovery.state import RecoveryPhase, RecoveryState, moment, read_state
from queues.api.names import GPU_FAULT_BY_MUSTER
from queues.quota.queue import NodeRecoveryRules
from queues.text_format import counted, listed, span
from queues.workload import NodeName, WorkloadKey

#: So many repairs are tried; then the node stays closed and needs a person.
ATTEMPTS: Final = 3
#: A fault within this time (seconds) after the return goes on with the count of attempts.
ATTEMPTS_WITHIN: Final = 86_400
#: Seconds that gangs which have no faulty device may go on.
DRAIN_TIMEOUT: Final = 3600
#: Seconds after which a Job that has not ended has failed.
JOB_TIMEOUT: Final = 1800
#: Seconds that devices may take to be well again after a repair. Where no reading shows that a device has recovered,
#: the agent calls it healthy ten minutes later, and one that was flapping another ten minutes later.
SETTLE_TIMEOUT: Final = 1500
#: Characters of faults in words.
_LONGEST_FAULT: Final = 300


class GangOnNode(NamedTuple):
    """A gang that holds devices of a node."""

    key: WorkloadKey
    #: Numbers of its devices there. None if not known, so that a fault of the node may be on one of them.
    devices: frozenset[int] | None = None

    def is_on(self, faults: Iterable[DeviceFault]) -> bool:
        """Whether one of these faults may be on one of its devices."""
        return any(self.devices is None or fault.number in self.devices for fault in faults)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """What the cluster shows of a node with devices."""

    name: NodeName
    ready: bool = True
    #: Value of its taint ``muster.dev/gpu-fault``: Muster's own, or a person's. None if it has none.
    taint: str | None = None
    #: Value of ``muster.dev/recovery``; "": none.
    annotation: str = ""
    #: Of unhealthy devices, also those that a person has accepted.
    faults: tuple[DeviceFault, ...] = ()
    #: Why it counts as a node that kills pods, in words; "": it does not.
    kills_pods: str = ""
    #: What devices that are reported are called: uuids, or numbers of those without a uuid.
    reported: frozenset[str] = frozenset()
    gangs: tuple[GangOnNode, ...] = ()
    #: Pods with devices of the node that Muster did not admit. Pods of recovery Jobs do not count.
    foreign_pods: int = 0
    #: Jobs of the recovery of nodes.
    jobs: Mapping[JobName, RecoveryJob] = field(default_factory=dict)
    #: Why the API server refused the Job of the present phase the last time; "": it did not.
    refused: str = ""
    #: Why the circuit breaker does not let it be closed; "": it does.
    held_back: str = ""


class NodeEvent(NamedTuple):
    """An event of a Node."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTurn:
    """What follows for one node, carried out in the order of these fields; each is harmless when it is repeated.

    When one fails, those after it are left out.
    """

    #: As it is once all this is carried out.
    state: RecoveryState
    #: Gangs to evict whole, each with what its users are told.
    evicted: Mapping[WorkloadKey, str] = field(default_factory=dict)
    #: The Job of a phase that is over, if it still runs.
    deletes: JobName | None = None
    #: The annotation and the taint are written as ``state`` has them: in one patch, because a phase without its taint
    #: means that a person took the taint off.
    writes: bool = False
    event: NodeEvent | None = None
    creates: CreateJob | None = None


def step(view: NodeView, rules: NodeRecoveryRules, now: int) -> NodeTurn:
    """What follows for a node: at most one phase further, or what its phase has to do.

    Its phase is entered before anything is done in it, so that the leader after a crash knows of it. On the world
    that its turns make it comes to rest: called again and again, there is nothing to do in the end.
    """
    here = _Step(view, rules, now, _known_state(view, now))
    turn = here.decided()
    is_over = (turn.state.phase, turn.state.since) != (here.state.phase, here.state.since)
    runs = here.job is not None and here.job.succeeded is None
    has_taint = view.taint == GPU_FAULT_BY_MUSTER
    wrong_taint = turn.state.phase.is_out != has_taint and view.taint in (None, GPU_FAULT_BY_MUSTER)
    return replace(
        turn,
        deletes=here.wanted_job.job if here.wanted_job is not None and runs and is_over else None,
        writes=wrong_taint or view.annotation != turn.state.annotation(),
    )


def _known_state(view: NodeView, now: int) -> RecoveryState:
    """What is remembered of a node.

    Muster's taint without a phase means that the annotation was lost, spoiled, or removed to have all tried again: the
    node goes on as one that was closed just now, so that it finds its way back.
    """
    state = read_state(view.annotation)
    if state.phase.is_out or view.taint != GPU_FAULT_BY_MUSTER:
        return state
    return structs.replace(state, phase=RecoveryPhase.DRAINING, since=moment(now), waits="")


def known_by(device: str, number: int) -> str:
    """What a device with a fault is remembered by: its uuid, or its number where the reporter gives none."""
    return device or str(number)


class _Step:
    """One step of one node."""

    def __init__(self, view: NodeView, rules: NodeRecoveryRules, now: int, state: RecoveryState) -> None:
        self.view, self.rules, self.now, self.state = view, rules, now, state
        left = (fault.beyond(state.accepted) for fault in view.faults)
        #: Faults of devices, as far as no person has accepted them.
        self.faults = tuple(fault for fault in left if fault is not None)
        needing = (fault.for_person() for fault in self.faults)
        #: Of these faults, those that no Job ends.
        self.for_person = tuple(fault for fault in needing if fault is not None)
        words = [*map(str, self.faults), *filter(None, [view.kills_pods])]
        #: The faults in words; "": none.
        self.fault = listed(words)[:_LONGEST_FAULT]
        #: Whether no fault is reported, and no test has shown one.
        self.seems_well = not (self.fault or state.test_failed)
        #: Whether a device for whose fault the node was closed is not reported now. The reporter of a fault has to
        #: report its end as well: an agent may run before the driver does, and a user may have deleted its object.
        self.is_unreported = state.phase.is_out and not view.reported.issuperset(state.devices)
        self.is_occupied = bool(view.gangs or view.foreign_pods)
        #: The Job of the present phase, and as it is. None if the phase has none, or it does not exist.
        self.wanted_job = job_of(view.name, state, rules)
        self.job = None if self.wanted_job is None else view.jobs.get(self.wanted_job.job)

    # ── phases ───────────────────────────────────────────────────────────────────────────────────────────────

    def decided(self) -> NodeTurn:
        """What follows, without the writes."""
        if self.state.phase.is_out and self.view.taint is None:
            names = {name for fault in self.faults for name in fault.names} | {*self.state.accepted}
            why = "the taint was removed by hand: back in service as it is"
            return self._open("GpuNodeReturned", why, accepted=tuple(sorted(names)))
        if self.state.phase.is_out and not self.rules.recovers:
            return self._open("GpuNodeReturned", "the policy closes no node any more")
        return PHASES[self.state.phase](self)

    def _in_service(self) -> NodeTurn:
        """A fault closes the node, if the policy says so and the circuit breaker allows it.

        Accepted faults that are gone, and attempts that are long ago, are forgotten.
        """
        present = {name for fault in self.view.faults for name in (fault.name, *fault.names)}
        long_ago = self.now >= self.state.began + ATTEMPTS_WITHIN
        self.state = structs.replace(
            self.state,
            accepted=tuple(name for name in self.state.accepted if name in present),
            attempts=0 if long_ago else self.state.attempts,
        )
        if not (self.fault and self.rules.recovers):
            return self._stay()
        if self.view.held_back:
            why = f"{self.fault}: nothing is done now ({self.view.held_back})"
            return self._wait("circuit-breaker", why)
        return self._drain(f"{self.fault}: closed to new GPU work", warning=True)

    def _draining(self) -> NodeTurn:
        """Gangs leave, and pods of others; then the repair begins."""
        if self.seems_well:
            return self._verify("the fault is gone")
        if gangs := self.view.gangs:
            # Gangs that may have a faulty device go at once, others when their time is over.
            is_over = self.now >= self.state.began + DRAIN_TIMEOUT
            why = f"{self.fault or 'its test failed'}, on node {self.view.name}"
            return self._stay(evicted={gang.key: why for gang in gangs if is_over or gang.is_on(self.faults)})
        if self.view.foreign_pods:
            pods = counted(self.view.foreign_pods, "pod")
            return self._wait("foreign-pods", f"{pods} that Muster did not admit hold devices: waits")
        if self.for_person:
            faults = listed([*map(str, self.for_person)])[:_LONGEST_FAULT]
            return self._wait("person", f"{faults}: no Job ends this: waits for a person")
        if self.rules.job is None and not self.state.test_failed:
            return self._stay()
        return self._next_attempt(self.fault or "the test failed")

    def _recovering(self) -> NodeTurn:
        """The repair Job runs. How it ends does not count, but what the test shows: a reboot ends its own Job."""
        if self.job is None and self.seems_well:
            return self._verify("the fault is gone")
        if self.job is None and (self.is_occupied or self.for_person or self.wanted_job is None):
            return self._drain(self.fault or "the test failed")
        if self.job is None or self._runs(self.job):
            return self._with_job()
        return self._verify(self._end_of_job(), attempts=self.state.attempts + 1)

    def _verifying(self) -> NodeTurn:
        """The devices have to be reported as healthy, and then the test Job, if there is one, to succeed.

        That the node killed pods does not count here: this is for the test and for the next gangs to show. Pods that
        run there show more than a test next to them could.
        """
        is_settled = self.now >= self.state.began + SETTLE_TIMEOUT
        if self.is_unreported:
            why = "a device that was unhealthy is not reported any more: waits for the agent"
            return self._wait("agent", why) if is_settled else self._stay()
        if self.faults and self.view.gangs:
            return self._drain(self.fault)
        if self.faults and not (is_settled or self.job or self.for_person):
            return self._stay()
        if self.faults:
            return self._next_attempt(f"{self.fault} when it should be well")
        return self._tested()

    def _tested(self) -> NodeTurn:
        """What the test comes to."""
        if self.wanted_job is None or self.is_occupied:
            return self._open("GpuNodeRecovered", "its devices are reported as healthy: back in service")
        if self.job is None or self._runs(self.job):
            return self._with_job()
        if self.job.succeeded:
            return self._open("GpuNodeRecovered", f"{self._end_of_job()}: back in service")
        return self._next_attempt(self._end_of_job(), test_failed=True)

    def _failed(self) -> NodeTurn:
        """A person is needed, unless the fault goes by itself."""
        is_well = self.seems_well and not self.is_unreported
        return self._verify("the fault is gone") if is_well else self._stay()

    # ── Jobs ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _runs(self, job: RecoveryJob) -> bool:
        """Whether the Job is still to be waited for."""
        return job.succeeded is None and self.now < job.created + JOB_TIMEOUT

    def _with_job(self) -> NodeTurn:
        """Wait for the end of the Job of this phase; it is made if it is not there."""
        assert self.wanted_job is not None
        if self.job is not None:
            return self._stay()
        if not self.view.ready:
            return self._wait("node", "the node is not ready: its Job waits until it is")
        if not self.view.refused:
            return self._stay(creates=self.wanted_job)
        why = f"Job {self.wanted_job.job.name} is refused: {self.view.refused}"
        return self._wait("job-refused", why, creates=self.wanted_job)

    def _end_of_job(self) -> str:
        """How the Job of this phase ended, in words."""
        assert self.wanted_job is not None
        assert self.job is not None
        ends = {True: "succeeded", False: "failed", None: f"has not ended within {span(JOB_TIMEOUT)}"}
        return f"Job {self.wanted_job.job.name} {ends[self.job.succeeded]}"

    # ── what follows ─────────────────────────────────────────────────────────────────────────────────────────

    def _stay(self, **actions: Any) -> NodeTurn:
        """Stay in the phase. Nothing is waited for beyond what the phase takes."""
        return NodeTurn(state=structs.replace(self.state, waits=""), **actions)

    def _wait(self, what: str, message: str, **actions: Any) -> NodeTurn:
        """Stay in the phase, and report once what it waits for."""
        event = None if self.state.waits == what else NodeEvent("GpuNodeWaits", message, True)
        return NodeTurn(state=structs.replace(self.state, waits=what), event=event, **actions)

    def _enter(
        self, phase: RecoveryPhase, reason: str, message: str, *, warning: bool = False, **changes: Any
    ) -> NodeTurn:
        """Another phase, with the faults as they are now, and the event that reports it."""
        # Other faults do not hide one whose device is not reported now.
        if self.fault and not self.is_unreported:
            changes["devices"] = tuple(
                sorted({known_by(fault.device, fault.number) for fault in self.faults})
            )
        state = structs.replace(self.state, phase=phase, since=moment(self.now), waits="", **changes)
        return NodeTurn(state=state, event=NodeEvent(reason, message, warning))

    def _drain(self, why: str, *, warning: bool = False, **changes: Any) -> NodeTurn:
        """Let its gangs leave."""
        on_faults = sum(gang.is_on(self.faults) for gang in self.view.gangs)
        others = len(self.view.gangs) - on_faults
        now = f"{counted(on_faults, 'gang')} on unhealthy devices must go now" if on_faults else ""
        rest = f"{counted(others, 'gang')} may go on for {span(DRAIN_TIMEOUT)}" if others else ""
        leaving = ", ".join(filter(None, (now, rest))) or "no gang is on it"
        message = f"{why}: {leaving}"
        return self._enter(RecoveryPhase.DRAINING, "GpuNodeDraining", message, warning=warning, **changes)

    def _verify(self, why: str, **changes: Any) -> NodeTurn:
        """Have the node tested: by what its agent reports, and by a Job if there is one."""
        job = self.rules.verify_job
        then = f", then it is tested by a Job from {job}" if job else ""
        message = f"{why}: waits until its devices are reported as healthy{then}"
        return self._enter(RecoveryPhase.VERIFYING, "GpuNodeVerifying", message, test_failed=False, **changes)

    def _next_attempt(self, why: str, *, test_failed: bool = False) -> NodeTurn:
        """Begin a repair, or give up if all attempts are used up, or a test failed and no Job repairs."""
        attempts, job, failed = self.state.attempts, self.rules.job, test_failed or self.state.test_failed
        if attempts >= ATTEMPTS or (failed and job is None):
            message = f"{why}: stays closed after {counted(attempts, 'attempt')}; it needs a person"
            return self._enter(
                RecoveryPhase.FAILED, "GpuNodeFailed", message, warning=True, test_failed=failed
            )
        if self.for_person or self.is_occupied or job is None:
            return self._drain(why, test_failed=failed)
        message = f"{why}: attempt {attempts + 1} of {ATTEMPTS}, by a Job from {job}"
        return self._enter(RecoveryPhase.RECOVERING, "GpuNodeRecovering", message, test_failed=failed)

    def _open(self, reason: str, message: str, *, accepted: tuple[str, ...] | None = None) -> NodeTurn:
        """Take the node back. How often it was tried stays known for a while."""
        state = RecoveryState(
            phase=RecoveryPhase.NONE,
            since=moment(self.now),
            attempts=self.state.attempts,
            accepted=self.state.accepted if accepted is None else accepted,
        )
        return NodeTurn(state=state, event=NodeEvent(reason, message))


PHASES: Final[dict[RecoveryPhase, Callable[[_Step], NodeTurn]]] = {
    RecoveryPhase.NONE: _Step._in_service,
    RecoveryPhase.DRAINING: _Step._draining,
    RecoveryPhase.RECOVERING: _Step._recovering,
    RecoveryPhase.VERIFYING: _Step._verifying,
    RecoveryPhase.FAILED: _Step._failed,
}

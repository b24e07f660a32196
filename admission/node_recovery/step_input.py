"""What one step of a node is decided on: what is seen of it, what is remembered of it, and what the policy wants."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from admission.facts.devices import DeviceFault, ReportedDevice
from admission.node_recovery.effects import Effect, Tell
from admission.node_recovery.policy import FaultPolicy
from admission.node_recovery.recovery_jobs import job_name
from admission.node_recovery.state import (
    LONGEST_FAULT,
    FaultCause,
    RecoveryPhase,
    RecoveryState,
    StartedBy,
    read_state,
)
from admission.node_recovery.view import (
    KILLS_PODS,
    BlackHole,
    JobProgress,
    NodeView,
    RecoveryContext,
    RecoveryJob,
    TaintOwner,
)
from queues.text_format import listed

#: For ``lease_renewed_at`` of an agent that does not report a device that had a fault: never.
LACKS_DEVICES: Final = -1
#: A device in the text of faults, as ``DeviceFault`` and ``listed`` write it.
_FAULTY: Final = re.compile(r"(?:^|, | and )GPU ([0-9]{1,4}): ")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryOutcome:
    """What a phase comes to: the state afterwards, and what is done now."""

    state: RecoveryState
    effects: tuple[Effect, ...] = ()
    #: Seconds since the epoch at which time alone changes something. None if it does not.
    look_again: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInput:
    """What a step is decided on."""

    view: NodeView
    context: RecoveryContext
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
        """Of these faults, what no recovery Job ends. Empty: a Job may bring the node back."""
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
    def cause(self) -> FaultCause | None:
        """What is wrong with the node. None if it is not faulty."""
        if self.faults or (self.black_hole and self.is_unreported):
            return FaultCause.DEVICE
        return FaultCause.KILLS_PODS if self.black_hole else None

    @property
    def is_unreported(self) -> bool:
        """Whether the node is out of service for a fault that was reported, and its devices are not reported now."""
        state, lease_renewed_at = self.state, self.view.lease_renewed_at
        by_fault = state.phase.is_out and state.cause is FaultCause.DEVICE
        return by_fault and (lease_renewed_at is None or lease_renewed_at == LACKS_DEVICES)

    @property
    def fault_since(self) -> int:
        """When the earliest fault began; now if there is none."""
        begun = [fault.since for fault in self.faults]
        begun += [self.black_hole.since] if self.black_hole else []
        return min([*begun, self.now])

    @property
    def told(self) -> str:
        """The faults in words; "": none."""
        found = [*map(str, self.faults), *([str(self.black_hole)] if self.black_hole else [])]
        return listed(found)[:LONGEST_FAULT]

    @property
    def person_alone(self) -> bool:
        """Whether only a person's word moves the node on: it has no fault that Muster would act on by itself."""
        return self.state.by is StartedBy.PERSON and not (self.policy.recovers and self.is_faulty)

    @property
    def job(self) -> RecoveryJob | None:
        """The Job of the present phase. None if it does not exist."""
        return self.view.jobs.get(job_name(self.view.name, self.state))

    def agent_ran_after(self, moment: int) -> bool:
        """Whether the agent has run later than this; true if nothing reports devices, for then nothing can.

        Its lease shows no more: it is renewed while a library hangs, and the agent reports the devices as lost then.
        But the agent that reported a fault has to report its end as well: an agent may run before the driver does, and
        a user may have deleted its object.
        """
        if self.view.lease_renewed_at is None:
            return not self.is_unreported
        return self.view.lease_renewed_at > moment

    def enter(self, phase: RecoveryPhase, **changes: Any) -> RecoveryState:
        """The state at the beginning of another phase, with the faults as they are now."""
        known = self.state
        if not phase.is_out:
            kept = RecoveryState(since=self.now, attempts=known.attempts, accepted=known.accepted)
            return replace(kept, **changes)
        # What a person began without a policy that recovers stays under that person's control: another policy does not
        # end it.
        by = StartedBy.MUSTER if self.policy.recovers else known.by
        entered = replace(known, phase=phase, since=self.now, by=by, job="", waits=None)
        # Other faults do not hide one whose device is not reported now.
        if self.is_faulty and not self.is_unreported:
            devices = tuple(sorted({_known_by(fault.device, fault.number) for fault in self.faults}))
            entered = replace(entered, cause=self.cause, fault=self.told, devices=devices)
        if not known.phase.is_out:
            entered = replace(entered, fault_since=self.fault_since)
        return replace(entered, **changes)

    def keep(self, *effects: Effect, look_again: int | None = None) -> RecoveryOutcome:
        """Stay in the phase, and do this. Nothing is waited for beyond what the phase takes."""
        return RecoveryOutcome(state=replace(self.state, waits=None), effects=effects, look_again=look_again)

    def move(
        self, state: RecoveryState, reason: str, message: str, *, warning: bool = False
    ) -> RecoveryOutcome:
        """Another state, and the event that reports it."""
        return RecoveryOutcome(state=state, effects=(self.tell(reason, message, warning=warning),))

    def tell(self, reason: str, message: str, *, warning: bool = False) -> Tell:
        """An event of this node."""
        return Tell(node=self.view.name, reason=reason, message=message, warning=warning)


def known_state(view: NodeView, now: int) -> RecoveryState:
    """What is remembered of a node.

    Muster's taint without a phase means that the annotation was lost or spoiled: the node goes on as a cordoned one, so
    that it finds its way back.
    """
    state = read_state(view.annotation) or RecoveryState()
    if state.phase.is_out or view.taint is not TaintOwner.MUSTER:
        return state
    return replace(state, phase=RecoveryPhase.CORDONED, since=now, fault_since=now, waits=None)


def lacks_devices(annotation: str, reported: Iterable[ReportedDevice]) -> bool:
    """Whether a device is not reported whose fault took the node out of service, as the annotation says.

    By its uuid, since others may move up to its number. An older Muster wrote no uuids: then by the numbers in the text
    of the fault, which is bounded, so that some may be left out.
    """
    known = read_state(annotation)
    if known is None or not known.phase.is_out or known.cause is not FaultCause.DEVICE:
        return False
    there = tuple(reported)
    if known.devices:
        return not {_known_by(each.id, each.number) for each in there}.issuperset(known.devices)
    numbers = {int(number) for number in _FAULTY.findall(known.fault)}
    return not {each.number for each in there}.issuperset(numbers)


def _known_by(device: str, number: int) -> str:
    """What a device with a fault is remembered by: its uuid, or its number where the reporter gives none."""
    return device or str(number)


def is_running(job: RecoveryJob) -> bool:
    """Whether a Job still does something."""
    return job.progress is JobProgress.RUNNING and not job.deleting

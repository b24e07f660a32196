"""Histories of a node's devices: what is read of them one time after the other, and what happens in between."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hypothesis import strategies as st

from admission.agent.health import DeviceHealth, HealthState, assess
from admission.agent.readings import (
    DeviceEvent,
    DeviceReading,
    EventKind,
    NodeReading,
    RecoveryAction,
    as_lost,
)
from admission.agent.xids import XIDS
from tests.builders.node_agents.device_readings import device, direct, node, remapping, switched

BEGIN: Final = 1_800_000_000
DEVICES: Final = ("GPU-0", "GPU-1")
#: XIDs that say nothing about a device; and one of every other class.
HARMLESS: Final = tuple(code for code, known in XIDS.items() if known.xid_class.is_healthy)
FAULTS: Final = (48, 95, 79, 64, 9999)
#: Marks, and the devices that each names.
MARKS: Final = {
    None: (),
    "all": DEVICES,
    "1": DEVICES[1:],
    "0=loud": DEVICES[:1],
    "GPU-1,7": DEVICES[1:],
    "nonsense": (),
}


@dataclass(frozen=True, kw_only=True)
class Step:
    """One assessment: what is read, and what happened before."""

    #: Seconds since the one before.
    after: int
    reading: NodeReading
    events: tuple[DeviceEvent, ...] = ()
    mark: str | None = None


History = tuple[Step, ...]


@dataclass(frozen=True, kw_only=True)
class Assessed:
    """A step, and what was made of it."""

    step: Step
    now: int
    state: HealthState

    @property
    def health(self) -> Mapping[str, DeviceHealth]:
        return self.state.devices


def well(start: str = "", after: int = 1, **fields: Any) -> Step:
    """A step in which nothing is wrong with any device."""
    devices = tuple(device(index, **fields) for index in range(len(DEVICES)))
    return Step(after=after, reading=node(*devices, links=switched(0, 1), driver_start=start))


def assessed(history: History, state: HealthState | None = None, now: int = BEGIN) -> list[Assessed]:
    """Each step after the other."""
    found = []
    state = state or HealthState()
    for step in history:
        now += step.after
        state = assess(state, [step.reading], step.events, step.mark, now)
        found.append(Assessed(step=step, now=now, state=state))
    return found


@st.composite
def devices(draw: st.DrawFn, index: int) -> DeviceReading:
    """A device that is mostly well."""
    found = device(
        index,
        degrees=draw(st.sampled_from([40, 40, 40, 92, 97, None])),
        remapping=draw(
            st.sampled_from([remapping(), remapping(), None, remapping(pending=True), remapping(failed=True)])
        ),
        recovery=draw(
            st.sampled_from([None, RecoveryAction.NONE, RecoveryAction.NONE, RecoveryAction.RESET])
        ),
        uncorrected_errors=draw(st.sampled_from([0, 0, None, 2])),
        links_down=draw(st.sampled_from([(), (), (3,), (1, 3)])),
    )
    return as_lost(found) if draw(st.integers(0, 5)) == 0 else found


@st.composite
def events(draw: st.DrawFn) -> DeviceEvent:
    kind = draw(st.sampled_from([EventKind.XID, EventKind.XID, EventKind.XID, *EventKind]))
    return DeviceEvent(
        kind=kind,
        device=draw(st.sampled_from([*DEVICES, *DEVICES, None])),
        code=draw(st.sampled_from([*FAULTS, *HARMLESS[:2], 154])) if kind is EventKind.XID else None,
    )


@st.composite
def steps(draw: st.DrawFn) -> Step:
    there = draw(st.sampled_from([DEVICES, DEVICES, DEVICES, DEVICES, DEVICES[:1]]))
    links = draw(st.sampled_from([switched(0, 1), direct((0, 1)), ()]))
    reading = node(
        *(draw(devices(index)) for index, name in enumerate(DEVICES) if name in there),
        links=links if len(there) > 1 else (),
        driver_start=draw(st.sampled_from(["", "1", "1", "2"])),
    )
    return Step(
        after=draw(st.sampled_from([1, 5, 60, 120, 599, 600, 900])),
        reading=reading,
        events=tuple(draw(st.lists(events(), max_size=2))),
        mark=draw(st.sampled_from([None, None, None, *MARKS])),
    )


histories = st.lists(steps(), min_size=1, max_size=8).map(tuple)

"""The health of the devices of a node, assessed reading by reading."""

from collections.abc import Iterable
from typing import Any

import msgspec

from admission.agent.health import Condition, ConditionType, DeviceHealth, HealthState, assess
from admission.agent.readings import DeviceEvent, EventKind, NodeReading
from admission.agent.remembered import AgentMemory
from tests.builders.node_agents.device_readings import device, node

START = 1_800_000_000
MINUTE = 60


class Agent:
    """The assessments of one node, one after the other."""

    def __init__(self, state: HealthState | None = None, now: int = START) -> None:
        self.state = state or HealthState()
        self.now = now
        self.health: dict[str, DeviceHealth] = {}
        self.readings: tuple[NodeReading, ...] = ()

    def sees(
        self,
        *readings: NodeReading,
        events: Iterable[DeviceEvent] = (),
        mark: str | None = None,
        after: int = 5,
    ) -> dict[str, DeviceHealth]:
        self.now += after
        self.readings = readings
        self.state = assess(self.state, readings, tuple(events), mark, self.now)
        self.health = dict(self.state.devices)
        return self.health

    def device(self, *fields: Any, **more: Any) -> DeviceHealth:
        """Health of the one device of a node, with these fields."""
        keywords = {key: more.pop(key) for key in ("events", "mark", "after") if key in more}
        return self.sees(node(device(*fields, **more)), **keywords)["GPU-0"]

    def restarted(self) -> "Agent":
        """Another agent that knows the stored object only."""
        stored = AgentMemory.of(self.readings, self.health).text()
        return Agent(msgspec.json.decode(stored, type=AgentMemory).health_state(), self.now)


def xid(code: int, on: str | None = "GPU-0") -> DeviceEvent:
    return DeviceEvent(kind=EventKind.XID, device=on, code=code)


def told(health: DeviceHealth, kind: ConditionType) -> tuple[bool, str]:
    found = health.condition(kind)
    assert found is not None, f"no condition {kind}"
    return found.status, found.reason


def healthy(health: DeviceHealth) -> Condition:
    found = health.condition(ConditionType.HEALTHY)
    assert found is not None
    assert found.status is health.healthy
    return found

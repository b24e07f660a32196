"""Health of devices: readings and events → conditions, with what an agent has to remember of them. Pure."""

from admission.agent.health.assessment import assess
from admission.agent.health.conditions import Condition, ConditionType, DeviceHealth, HealthState

__all__ = ["Condition", "ConditionType", "DeviceHealth", "HealthState", "assess"]

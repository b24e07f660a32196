"""Amounts, times and ordinals as the read API writes them."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from queues.resources import Resources, is_device, show

#: Numbers of a reason that are amounts of its resource.
_AMOUNTS: Final = frozenset({"limit", "used", "kept", "asked", "over"})


def facts_for_people(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of a reason with amounts as Kubernetes writes them."""
    resource = facts.get("resource")
    told: dict[str, Any] = {}
    for name, value in facts.items():
        if name in _AMOUNTS and resource and isinstance(value, int):
            told[name] = show(resource, value)
        elif name == "takes" and isinstance(value, Mapping):
            told[name] = quantities(value)
        else:
            told[name] = value
    return told


def ranges(numbers: Iterable[int]) -> str:
    """``0-3,7`` for 0, 1, 2, 3 and 7."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)


def quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """Amounts as Kubernetes writes them, by resource; single devices are in what their resource says."""
    return {
        name: show(name, units) for name, units in sorted(Resources(amounts).items()) if not is_device(name)
    }


def moment(seconds: float) -> str:
    """RFC 3339 in UTC, to the second."""
    return datetime.fromtimestamp(int(seconds), UTC).isoformat().replace("+00:00", "Z")

"""Amounts, ordinals and seats as the read API writes them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from queues.admissions import Seat
from queues.read_api.bodies import Facts, SeatsBody
from queues.resources import WHOLE, Resources, is_device, show, total

#: Facts of a reason that are amounts of its resource.
_AMOUNTS: Final = frozenset({"limit", "used", "kept", "asked", "over"})


def quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """Amounts as Kubernetes writes them, by resource. Single devices are left out: their resource counts them."""
    return {
        name: show(name, units) for name, units in sorted(Resources(amounts).items()) if not is_device(name)
    }


def quantity(resource: str, units: int | None) -> str | None:
    """One amount as Kubernetes writes it; None stays None."""
    return None if units is None else show(resource, units)


def hours(unit_seconds: Mapping[str, int]) -> dict[str, float]:
    """Device-hours by resource; the devices of a node one by one are left out."""
    return {
        resource: round(units / WHOLE / 3600, 2)
        for resource, units in sorted(unit_seconds.items())
        if not is_device(resource) and units > 0
    }


def facts_with_quantities(facts: Facts) -> Facts:
    """The facts of a reason, with amounts as Kubernetes writes them."""
    resource = facts.get("resource")
    form = dict(facts)
    for name, value in facts.items():
        if name in _AMOUNTS and resource and isinstance(value, int):
            form[name] = show(resource, value)
        elif name in ("takes", "held") and isinstance(value, Mapping):
            form[name] = quantities(value)
    return form


def ranges(numbers: Iterable[int]) -> str:
    """``0-3,7`` for 0, 1, 2, 3 and 7."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)


def seats_bodies(seats: Iterable[Seat]) -> tuple[SeatsBody, ...]:
    """Seats, gathered by pod set, node and flavor."""
    groups: dict[tuple[str, str, str], list[Seat]] = defaultdict(list)
    for seat in seats:
        groups[(seat.pod_set, seat.node, seat.flavor)].append(seat)
    return tuple(
        SeatsBody(
            pod_set=pod_set,
            node=node,
            flavor=flavor,
            ordinals=ranges(seat.ordinal for seat in group),
            count=len(group),
            takes=quantities(total(seat.takes for seat in group)),
        )
        for (pod_set, node, flavor), group in sorted(
            groups.items(), key=lambda item: (item[0][0], min(seat.ordinal for seat in item[1]), item[0][1])
        )
    )

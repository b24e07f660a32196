"""Admissions of a workload as an explanation shows them: a gang with the elastic parts that it got with it is one.

What was evicted, adopted or given back stays by itself.
"""

from collections.abc import Iterable

from msgspec import structs

from admission.read_api.bodies import AdmissionBody, SeatsBody


class HeldGang(AdmissionBody, frozen=True, kw_only=True):
    """An admission, with the elastic parts that it got at the same time."""

    #: How many these are.
    parts: int = 0


def with_their_parts(admissions: Iterable[AdmissionBody]) -> list[HeldGang]:
    """Admissions in their order, the newest first, each gang with its elastic parts as one."""
    gangs: list[HeldGang] = []
    for held in admissions:
        last = gangs[-1] if gangs else None
        gang = HeldGang(**structs.asdict(held))
        if last is not None and _is_whole(last) and _is_whole(gang) and last.opened == gang.opened:
            gangs[-1] = structs.replace(
                gang,
                seats=_together([*gang.seats, *last.seats]),
                ended=gang.ended + last.ended,
                parts=last.parts + 1,
            )
        else:
            gangs.append(gang)
    return gangs


def _is_whole(held: AdmissionBody) -> bool:
    return held.state == "open" and not held.eviction and not held.adopted


def _together(seats: Iterable[SeatsBody]) -> tuple[SeatsBody, ...]:
    """One line for all seats of one kind on one node."""
    lines: dict[tuple[str, ...], SeatsBody] = {}
    for line in seats:
        kind = (line.node, line.pod_set, line.flavor or "", repr(sorted(line.takes.items())))
        first = lines.get(kind)
        lines[kind] = (
            line
            if first is None
            else structs.replace(
                first, ordinals=f"{first.ordinals},{line.ordinals}", count=first.count + line.count
            )
        )
    return tuple(lines.values())

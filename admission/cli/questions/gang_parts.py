"""Admissions of a workload as an explanation shows them: a gang with the elastic parts that it got with it is one.

What was evicted, adopted or given back stays by itself.
"""

from collections.abc import Iterable, Mapping
from typing import Any

Held = Mapping[str, Any]


def with_their_parts(admissions: Iterable[Held]) -> list[dict[str, Any]]:
    """Admissions in their order, the newest first, each gang with its elastic parts (``parts``: how many) as one."""
    found: list[dict[str, Any]] = []
    for held in admissions:
        last = found[-1] if found else None
        if last is not None and _is_whole(last) and _is_whole(held) and last["opened"] == held["opened"]:
            found[-1] = {
                **held,
                "seats": _together([*held["seats"], *last["seats"]]),
                "ended": held["ended"] + last["ended"],
                "parts": last["parts"] + 1,
            }
        else:
            found.append({**held, "parts": 0})
    return found


def _is_whole(held: Held) -> bool:
    return held["state"] == "open" and not held["eviction"] and not held["adopted"]


def _together(seats: Iterable[Held]) -> list[dict[str, Any]]:
    """One line for all seats of one kind on one node."""
    lines: dict[tuple[str, ...], dict[str, Any]] = {}
    for each in seats:
        kind = (each["node"], each["podSet"], each["flavor"] or "", repr(sorted(each["takes"].items())))
        if (line := lines.get(kind)) is None:
            lines[kind] = dict(each)
        else:
            line["ordinals"] += f",{each['ordinals']}"
            line["count"] += each["count"]
    return list(lines.values())

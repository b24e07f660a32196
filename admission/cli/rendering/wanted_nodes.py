"""What waiting gangs lack in nodes: gangs of equal pods are one line. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from admission.cli.rendering.table import age, amounts, short_resource, table
from admission.cli.rendering.terminal.fitting import Narrowing, fitted_table
from queues.reason_codes import ReasonCode

#: Reasons of workloads that have quota and no place: their queue limits were found to be kept before.
WANT_NODES: Final = (
    str(ReasonCode.NO_FIT),
    str(ReasonCode.TOPOLOGY_NO_FIT),
    str(ReasonCode.NEVER_FITS),
    str(ReasonCode.PROVISIONING),
)
#: Text of a line whose gangs are of pods that have to be together and are not equal.
_UNEQUAL: Final = "unequal pods"
_COLUMNS: Final = ("QUEUE", "EACH", "PODS", "LARGEST", "GANGS", "IN-ONE", "WAIT")
_NUMBERS: Final = "PODS LARGEST GANGS WAIT"
_NARROW: Final = Narrowing(names={"QUEUE": 10, "EACH": 10, "IN-ONE": 8}, left_out=("WAIT",))

Line = dict[str, Any]


def wanted_lines(waiting: Iterable[Mapping[str, Any]]) -> list[Line]:
    """A line for each queue and shape of pods, the most pods first within a queue.

    ``waiting``: items of the read API's ``pending``. Of a gang with several kinds of pods it counts the kind that its
    reason is about: the first that has no place.
    """
    lines: dict[tuple[Any, ...], Line] = {}
    for one in waiting:
        reason = one["reason"]
        if reason is None or reason["code"] not in WANT_NODES:
            continue
        facts = reason.get("facts") or {}
        if reason["code"] == ReasonCode.PROVISIONING and "takes" not in facts:
            continue  # no node has such devices: as UnknownResource
        if reason["code"] == ReasonCode.NEVER_FITS and (not facts or ("limit" in facts and "queue" in facts)):
            continue  # quota it lacks, of its queue or its namespace, not nodes
        each, pods, level = facts.get("takes"), _pods(one, facts), facts.get("level")
        key = (one["queue"], None if each is None else tuple(sorted(each.items())), level)
        line = lines.setdefault(
            key,
            {
                "queue": one["queue"],
                "each": each,
                "inOne": level,
                "gangs": 0,
                "pods": 0,
                "largest": 0,
                "waitingSince": one["created"],
            },
        )
        line["gangs"] += 1
        line["pods"] += pods
        line["largest"] = max(line["largest"], pods)
        # Times of the read API are of one form, in UTC, so that their texts are ordered as they are.
        line["waitingSince"] = min(line["waitingSince"], one["created"])
    return sorted(lines.values(), key=lambda line: (line["queue"], -line["pods"], str(line["each"])))


def _pods(one: Mapping[str, Any], facts: Mapping[str, Any]) -> int:
    """Pods that have to start together. Of gangs of whole parts ``asked`` counts parts of ``size`` pods."""
    asked = facts.get("asked")
    if not isinstance(asked, int):
        return int(one["minimum"])
    return asked * int(facts.get("size") or 1)


def wanted_table(
    lines: Sequence[Line], now: str, *, wide: bool, headers: bool, width: int | None = None
) -> str:
    """``-o wide`` has every resource of a pod, and full names."""
    rows = [
        (
            line["queue"],
            _UNEQUAL if line["each"] is None else amounts(line["each"], all_of_them=wide),
            line["pods"],
            line["largest"],
            line["gangs"],
            line["inOne"] and (line["inOne"] if wide else short_resource(line["inOne"])),
            age(line["waitingSince"], now),
        )
        for line in lines
    ]
    if wide or width is None:
        return table(_COLUMNS, rows, headers=headers, right=_NUMBERS)
    return fitted_table(_COLUMNS, rows, _NARROW, width=width, headers=headers, right=_NUMBERS)

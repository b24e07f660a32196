"""``kubectl muster nodes --wanted``: which nodes waiting gangs would need, by the shape of their pods."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import structs

from admission.cli.access.requests import Route, pages
from admission.cli.output import Output
from admission.cli.rendering.terminal import TableColumn, age, amounts, item_table, say, short_resource
from queues.read_api.bodies import Body, Facts, PendingList, WaitingBody
from queues.reason_codes import ReasonCode

#: Waiting workloads that are looked at. They are asked for in pages of 1000.
MOST_LOOKED_AT: Final = 10_000
#: Reasons of workloads that have quota and no place: their queue limits were found to be kept before.
WANT_NODES: Final = (
    str(ReasonCode.NO_FIT),
    str(ReasonCode.TOPOLOGY_NO_FIT),
    str(ReasonCode.NEVER_FITS),
    str(ReasonCode.PROVISIONING),
)
#: Text of a line whose gangs are of pods that have to be together and are not equal.
_UNEQUAL: Final = "unequal pods"


def show_wanted_nodes(output: Output, route: Route) -> int:
    """Print what the waiting workloads that the user may see lack in nodes. Raises CommandFailed."""
    body = pages(route, "pending", PendingList, {}, limit=MOST_LOOKED_AT)
    lines = wanted_lines(body.items)
    if (left_out := body.total - len(body.items)) > 0:
        told = f"Only the first {len(body.items)} waiting workloads were looked at; {left_out} more wait."
        say(told, err=True)
    return output.show(
        structs.replace(body, total=len(body.items)),
        lambda: wanted_table(lines, body.now, output),
        nothing="No gang that you may see waits for nodes only. `kubectl muster pending -A` says what for.",
        name=lambda line: f"queue/{line.queue}",
        document={"items": lines},
    )


class WantedNodes(Body, frozen=True, kw_only=True):
    """The pods of gangs of one queue and shape that have no node."""

    queue: str
    #: What one pod asks for, by resource; null: pods that have to be together and are not equal.
    each: Mapping[str, str] | None
    #: The topology level of which one domain has to hold a gang; null: any nodes do.
    in_one: str | None
    gangs: int = 0
    pods: int = 0
    #: The most pods of one gang.
    largest: int = 0
    waiting_since: str | None


def wanted_lines(waiting: Iterable[WaitingBody]) -> list[WantedNodes]:
    """A line for each queue and shape of pods, the most pods first within a queue.

    ``waiting``: items of the read API's ``pending``. Of a gang with several kinds of pods it counts the kind that its
    reason is about: the first that has no place.
    """
    lines: dict[tuple[Any, ...], WantedNodes] = {}
    for one in waiting:
        reason = one.reason
        if reason is None or reason.code not in WANT_NODES:
            continue
        facts = reason.facts
        if reason.code == ReasonCode.PROVISIONING and "takes" not in facts:
            continue  # no node has such devices: as UnknownResource
        if reason.code == ReasonCode.NEVER_FITS and (not facts or ("limit" in facts and "queue" in facts)):
            continue  # quota it lacks, of its queue or its namespace, not nodes
        each, pods, level = facts.get("takes"), _pods(one, facts), facts.get("level")
        key = (one.queue, None if each is None else tuple(sorted(each.items())), level)
        line = lines.get(
            key, WantedNodes(queue=one.queue, each=each, in_one=level, waiting_since=one.created)
        )
        lines[key] = structs.replace(
            line,
            gangs=line.gangs + 1,
            pods=line.pods + pods,
            largest=max(line.largest, pods),
            # Times of the read API are of one form, in UTC, so that their texts are ordered as they are.
            waiting_since=min(filter(None, (line.waiting_since, one.created)), default=None),
        )
    return sorted(lines.values(), key=lambda line: (line.queue, -line.pods, str(line.each)))


def _pods(one: WaitingBody, facts: Facts) -> int:
    """Pods that have to start together. Of gangs of whole parts ``asked`` counts parts of ``size`` pods."""
    asked = facts.get("asked")
    if not isinstance(asked, int):
        return int(one.minimum)
    return asked * int(facts.get("size") or 1)


def wanted_table(lines: Sequence[WantedNodes], now: str, output: Output) -> str:
    """``-o wide`` has every resource of a pod, and full names."""
    wide = output.is_wide
    columns: list[TableColumn[WantedNodes]] = [
        TableColumn("QUEUE", lambda line: line.queue, least=10),
        TableColumn(
            "EACH",
            lambda line: _UNEQUAL if line.each is None else amounts(line.each, all_of_them=wide),
            least=10,
        ),
        TableColumn("PODS", lambda line: line.pods, right=True),
        TableColumn("LARGEST", lambda line: line.largest, right=True),
        TableColumn("GANGS", lambda line: line.gangs, right=True),
        TableColumn(
            "IN-ONE",
            lambda line: line.in_one and (line.in_one if wide else short_resource(line.in_one)),
            least=8,
        ),
        TableColumn("WAIT", lambda line: age(line.waiting_since, now), right=True, goes=1),
    ]
    return item_table(columns, lines, output)

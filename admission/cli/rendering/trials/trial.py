"""The answer of ``kubectl muster try`` for people."""

from typing import Final

from admission.cli.rendering.expected import expected_sentence
from admission.cli.rendering.table import amounts, one_line, printable, short_resource
from admission.cli.rendering.trials.comparison import comparison_text, cut_table
from admission.read_api.trials import TrialBody, TrialList
from queues.text_format import counted

_STATES: Final = {
    "admitted": "would start now",
    "preempts": "would start once others have made room",
    "waits": "would wait",
    "refused": "would be refused",
    "unmanaged": "would not wait: it names no queue, and Muster would leave it alone",
}
_UNKNOWN_FIELD: Final = "Muster knows no such field (misspelt?)"


def trial_text(body: TrialList, *, wide: bool, headers: bool, width: int | None = None) -> str:
    """What would become of each object, one after the other; then what was left out.

    Tables have lines of at most ``width`` characters (None for any number).
    """
    parts = []
    if body.comparison is not None:
        parts.append(comparison_text(body.comparison, wide=wide, headers=headers, width=width))
    parts += [_object_text(one, body.now, wide=wide, headers=headers, width=width) for one in body.items]
    if body.skipped:
        kinds = ", ".join(dict.fromkeys(f"{one.api_version} {one.kind}" for one in body.skipped))
        parts.append(f"Not tried, for objects of these kinds wait in no queue: {printable(kinds)}\n")
    return "\n".join(parts)


def _object_text(one: TrialBody, now: str, *, wide: bool, headers: bool, width: int | None = None) -> str:
    lines = [_title(one)]
    lines += [f"  {one_line(text)}" for text in one.refusals]
    if one.refusals and one.nearest_queues:
        lines.append(f"  Did you mean queue {' or '.join(one.nearest_queues)}?")
    lines += [f"  Warning: {one_line(text)}" for text in one.warnings]
    lines += [f"  Warning: {one_line(path)}: {_UNKNOWN_FIELD}" for path in one.unknown_fields]
    if one.pods:
        lines.append(f"  {_asks(one)}")
    if one.state == "waits" and one.expected is not None:
        lines.append(f"  Expected start {expected_sentence(one.expected, now)}")
    sections = [
        ("Waits because", _because(one)),
        ("What would let it in", _changes(one)),
        ("Waits behind", [one_line(one.behind)] if one.behind and one.state == "waits" else []),
        (_places_title(one), _places(one, wide=wide, headers=headers, width=width)),
        ("Quota", _quota(one, wide=wide, headers=headers, width=width)),
        (f"Evicted for it: {one.victim_count}", _victims(one, wide=wide, headers=headers, width=width)),
    ]
    for title, content in sections:
        if content:
            lines += [f"{title}:", *(f"  {line}" for line in content)]
    return "\n".join(lines) + "\n"


def _title(one: TrialBody) -> str:
    where = f"namespace {one.namespace}" + (f", queue {one.queue}" if one.queue else "")
    place = ""
    if one.position is not None:
        place = f", at position {one.position} of {one.queue_length}"
    return printable(f"{one.kind}/{one.name} ({where}) {_STATES[one.state]}{place}")


def _asks(one: TrialBody) -> str:
    pods, together = one.pods, one.minimum
    text = counted(pods, "pod")
    if pods > 1:
        text += ", all together or none" if together >= pods else f", at least {together} of them together"
    return f"{text}: {amounts(one.asks, all_of_them=True)}"


def _because(one: TrialBody) -> list[str]:
    reason = one.reason
    if reason is None or one.state != "waits":
        return []
    meant = f" Did you mean {' or '.join(one.nearest_queues)}?" if one.nearest_queues else ""
    return [f"{reason.code}: {one_line(reason.message)}{'.' if meant else ''}{meant}"]


def _changes(one: TrialBody) -> list[str]:
    if one.state != "waits":
        return []
    if one.changes is None:
        return ["not worked out: ask for fewer objects at a time"] if one.position else []
    return [f"- {one_line(each.message)}" for each in one.changes] or ["no known change"]


def _places_title(one: TrialBody) -> str:
    domains = list(dict.fromkeys(place.domain for place in one.places if place.domain))
    inside = f" in {', '.join(domains[:3])}" + (" …" if len(domains) > 3 else "") if domains else ""
    return f"On {counted(one.node_count, 'node')}{printable(inside)}"


def _places(one: TrialBody, *, wide: bool, headers: bool, width: int | None = None) -> list[str]:
    rows = [
        [
            place.node,
            place.domain or None,
            place.flavor or None,
            place.pod_set,
            place.count,
            amounts(place.takes, all_of_them=wide),
        ]
        for place in one.places
    ]
    columns = ["NODE", "DOMAIN", "FLAVOR", "POD SET", "PODS", "TAKES"]
    return cut_table(
        columns, rows, one.node_count, wide=wide, headers=headers, width=width, noun="places", right="PODS"
    )


def _quota(one: TrialBody, *, wide: bool, headers: bool, width: int | None = None) -> list[str]:
    lines = [line for line in one.quota if wide or "/" in line.resource or line.deserved is not None]
    rows = [
        [
            line.queue,
            line.flavor or None,
            line.resource if wide else short_resource(line.resource),
            line.takes,
            line.owned,
            line.borrowed,
            line.used,
            line.deserved,
        ]
        for line in lines
    ]
    columns = ["QUEUE", "FLAVOR", "RESOURCE", "TAKES", "OWN", "BORROWED", "USED", "DESERVED"]
    right = "TAKES OWN BORROWED USED DESERVED"
    return cut_table(
        columns, rows, len(rows), wide=True, headers=headers, width=width, noun="lines", right=right
    )


def _victims(one: TrialBody, *, wide: bool, headers: bool, width: int | None = None) -> list[str]:
    rows = [
        [
            "another workload" if each.kind is None else f"{each.kind}/{each.name}",
            each.namespace,
            each.queue,
            each.code,
            *([one_line(each.message)] if wide else []),
        ]
        for each in one.victims
    ]
    columns = ["WORKLOAD", "NAMESPACE", "QUEUE", "CODE", *(["MESSAGE"] if wide else [])]
    return cut_table(
        columns, rows, one.victim_count, wide=wide, headers=headers, width=width, noun="workloads"
    )

"""The answer of ``kubectl muster try`` for people."""

from typing import Final

from admission.cli.output import Output
from admission.cli.plugin.comparison import HIDDEN, comparison_text, cut_table
from admission.cli.rendering.expected import expected_sentence
from admission.cli.rendering.explanation import asks_text
from admission.cli.rendering.terminal import TableColumn, amounts, one_line, short_resource
from queues.read_api.bodies import SeatsBody
from queues.read_api.trials import QuotaTakenBody, TrialBody, TrialList, VictimBody
from queues.reason_codes import did_you_mean, with_advice
from queues.text_format import counted, printable

_STATES: Final = {
    "admitted": "would start now",
    "preempts": "would start once others have made room",
    "waits": "would wait",
    "refused": "would be refused",
    "unmanaged": "would not wait: it names no queue, and Muster would leave it alone",
}


def trial_text(body: TrialList, output: Output) -> str:
    """What would become of each object, one after the other; then what was left out."""
    parts = []
    if body.comparison is not None:
        parts.append(comparison_text(body.comparison, output))
    parts += [_object_text(one, body.now, output) for one in body.items]
    if body.skipped:
        kinds = ", ".join(dict.fromkeys(f"{one.api_version} {one.kind}" for one in body.skipped))
        parts.append(f"Not tried, for objects of these kinds wait in no queue: {printable(kinds)}\n")
    return "\n".join(parts)


def _object_text(one: TrialBody, now: str, output: Output) -> str:
    lines = [_title(one)]
    lines += [f"  {one_line(text)}" for text in one.refusals]
    lines += [f"  Warning: {one_line(text)}" for text in one.warnings]
    if one.pods:
        lines.append(f"  {asks_text(one)}")
    if one.state == "waits" and one.expected is not None:
        lines.append(f"  Expected start {expected_sentence(one.expected, now)}")
    sections = [
        ("Waits because", _because(one)),
        ("What would let it in", _changes(one)),
        ("Waits behind", [one_line(one.behind)] if one.behind and one.state == "waits" else []),
        (_places_title(one), _places(one, output)),
        ("Quota", _quota(one, output)),
        (f"Evicted for it: {one.victim_count}", _victims(one, output)),
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


def _because(one: TrialBody) -> list[str]:
    reason = one.reason
    if reason is None or one.state != "waits":
        return []
    advice = did_you_mean(one.nearest_queues) or reason.advice
    return [f"{reason.code}: {one_line(with_advice(reason.message, advice))}"]


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


def _places(one: TrialBody, output: Output) -> list[str]:
    columns: list[TableColumn[SeatsBody]] = [
        TableColumn("NODE", lambda place: place.node, least=12),
        TableColumn("DOMAIN", lambda place: place.domain or None, least=8),
        TableColumn("FLAVOR", lambda place: place.flavor or None, least=6),
        TableColumn("POD SET", lambda place: place.pod_set, goes=1),
        TableColumn("PODS", lambda place: place.count, right=True),
        TableColumn("TAKES", lambda place: amounts(place.takes, all_of_them=output.is_wide), goes=2),
    ]
    return cut_table(columns, one.places, one.node_count, output, noun="places")


def _quota(one: TrialBody, output: Output) -> list[str]:
    wide = output.is_wide
    lines = [line for line in one.quota if wide or "/" in line.resource or line.deserved is not None]
    columns: list[TableColumn[QuotaTakenBody]] = [
        TableColumn("QUEUE", lambda line: line.queue, least=8),
        TableColumn("FLAVOR", lambda line: line.flavor or None, least=6),
        TableColumn(
            "RESOURCE", lambda line: line.resource if wide else short_resource(line.resource), least=8
        ),
        TableColumn("TAKES", lambda line: line.takes, right=True, goes=2),
        TableColumn("OWN", lambda line: line.owned, right=True, goes=1),
        TableColumn("BORROWED", lambda line: line.borrowed, right=True),
        TableColumn("USED", lambda line: line.used, right=True),
        TableColumn("DESERVED", lambda line: line.deserved, right=True),
    ]
    return cut_table(columns, lines, len(lines), output, noun="lines", most=len(lines))


def _victims(one: TrialBody, output: Output) -> list[str]:
    columns: list[TableColumn[VictimBody]] = [
        TableColumn(
            "WORKLOAD", lambda each: HIDDEN if each.kind is None else f"{each.kind}/{each.name}", least=14
        ),
        TableColumn("NAMESPACE", lambda each: each.namespace, least=9),
        TableColumn("QUEUE", lambda each: each.queue, least=8),
        TableColumn("CODE", lambda each: each.code),
        TableColumn("MESSAGE", lambda each: one_line(each.message), wide=True),
    ]
    return cut_table(columns, one.victims, one.victim_count, output, noun="workloads")

"""The view of one workload: why it waits, what would let it in, where it sits, and its story. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from admission.cli.page.charts.timeline import timeline
from admission.cli.page.layout import Cell, age, facts, heading, link, sentences, state, table, workload_state
from admission.cli.page.waiting_views import workload_link
from admission.cli.questions.gang_parts import with_their_parts
from admission.cli.rendering.expected import expected_sentence
from admission.cli.rendering.explanations.history import event_text
from admission.cli.rendering.stages import took
from admission.cli.rendering.standing import when
from admission.cli.rendering.table import amounts, short_resource
from queues.resources import amount, show
from queues.text_format import counted

Workload = Mapping[str, Any]


def workload_view(found: Sequence[Workload]) -> Markup:
    """All workloads of a name, live ones first: explanations of the read API, each with its ``outlook``."""
    return Markup("<hr>").join(_one(one) for one in found)


def _one(one: Workload) -> Markup:
    outlook = one.get("outlook") or {}
    parts = [heading(f"{one['kind']}/{one['name']}", 1), _facts(one, outlook)]
    if problem := outlook.get("problem"):
        parts += [heading("Does not go on because"), _reason(problem, one["now"])]
    if one["reason"] is not None:
        parts += [heading("Waits because"), _reason(one["reason"], one["now"]), _again(one)]
    parts += _changes(one)
    if standing := outlook.get("standing"):
        parts += [heading("Who could take its place"), _standing(standing, one["now"])]
    if one["state"] == "pending":
        parts += _limits(one)
    if outlook.get("behind") or one["ahead"]:
        parts += [heading("Waits behind"), Markup("<p>{}</p>").format(outlook.get("behind") or "")]
        parts += [_ahead(one)] if one["ahead"] else []
    parts.append(timeline(one))
    if one.get("stages"):
        parts += [heading("Stages"), _stages(one)]
    for admission in with_their_parts(one["admissions"]):
        parts += _admission(admission, one["now"])
    parts += [heading("History"), _history(one)]
    return Markup("").join(parts)


def _facts(one: Workload, outlook: Mapping[str, Any]) -> Markup:
    position, length = one["position"], one["queueLength"]
    place = (
        f"{position} of {length} in queue {one['queue']}"
        if one["state"] == "pending" and position is not None
        else None
    )
    path = Markup(" ← ").join(link(queue["name"], "queues", queue["name"]) for queue in one["path"])
    together = one["minimum"]
    pods = f"{one['pods']}, at least {together} together" if 1 < together < one["pods"] else str(one["pods"])
    shown: list[tuple[str, Cell]] = [
        ("State", _state(one)),
        ("Place", place),
        ("Expected start", _expected(one, outlook)),
        ("Result", one.get("result")),
        ("User", one.get("user")),
        ("Namespace", one["namespace"]),
        ("Queue", path or one["queue"]),
        ("Asks", amounts(one["asks"], all_of_them=True)),
        ("Pods", pods),
        ("Priority", one.get("priorityLimit") or one["priority"]),
        ("Created", age(one["created"], one["now"]) + " ago" if one["created"] else None),
        ("Ended", age(one["ended"], one["now"]) + " ago" if one.get("ended") else None),
        ("Device-hours", _device_hours(one)),
        ("UID", one["uid"]),
    ]
    return facts(shown)


def _state(one: Workload) -> Markup:
    shown = state(workload_state(one))
    if one["state"] == "admitted" and one["reason"]:
        return shown + "; further members wait"
    return shown + "; its object is gone" if one.get("gone") and one.get("result") != "deleted" else shown


def _expected(one: Workload, outlook: Mapping[str, Any]) -> str | None:
    expected = outlook.get("expected")
    return None if expected is None or one["state"] != "pending" else expected_sentence(expected, one["now"])


def _device_hours(one: Workload) -> str:
    hours = one.get("deviceHours") or {}
    return ", ".join(f"{each:.2f} {short_resource(name)}" for name, each in sorted(hours.items()))


def _limits(one: Workload) -> list[Markup]:
    """What the queues on its path use and may use of what it asks for; nothing where none has a limit."""
    rows: list[list[Cell]] = []
    for queue in one["path"]:
        for line in queue["accounts"]:
            resource = line["resource"]
            stated = line["deserved"] is not None or line["capability"] is not None
            if not stated or resource not in one["asks"] or line["flavor"]:
                continue
            room, is_short = _room(one, line)
            shown: Cell = (
                Markup('<strong class="bad">{}</strong>').format(f"{room}, too little") if is_short else room
            )
            rows.append(
                [
                    link(queue["name"], "queues", queue["name"]),
                    resource,
                    one["asks"][resource],
                    line["used"],
                    line["deserved"],
                    line["capability"],
                    shown,
                ]
            )
    if not rows:
        return []
    columns = ["Queue", "Resource", "Asked", "Used", "Deserved", "Capability", "Room"]
    return [heading("Limits on the way"), table("Limits on the way", columns, rows, numbers=columns[2:])]


def _room(one: Workload, line: Mapping[str, Any]) -> tuple[str | None, bool]:
    """What is left up to the limit, and whether it is less than what the workload asks for. None for no limit."""
    resource = line["resource"]
    if line["capability"] is None:
        return None, False
    room = amount(resource, line["capability"]) - amount(resource, line["counted"])
    return show(resource, max(0, room)), room < amount(resource, one["asks"][resource])


def _reason(reason: Mapping[str, Any], now: str, *, is_over: bool = False) -> Markup:
    form = Markup(" {} ago") if is_over else Markup(" for {}")
    since = form.format(age(reason["since"], now)) if reason.get("since") else ""
    return Markup('<p class="reason"><strong>{}</strong>{}<br>{}</p>').format(
        reason["code"], since, reason["message"]
    )


def _again(one: Workload) -> Markup:
    """When it is tried again after it could not start; nothing: it was not rolled back, or may be tried now."""
    if not one.get("notBefore") or one["notBefore"] <= one["now"]:
        return Markup("")
    times = "once" if one["rollbacks"] == 1 else f"{one['rollbacks']} times"
    return Markup("<p>It was rolled back {} and is tried again at {}.</p>").format(times, one["notBefore"])


def _changes(one: Workload) -> list[Markup]:
    """What would let it in, or that it is not known: only the leader can say it."""
    outlook = one.get("outlook")
    if outlook is not None and outlook["changes"]:
        title = heading("What would let it in, each alone")
        return [title, sentences(each["message"] for each in outlook["changes"])]
    if one["state"] != "pending" or one["reason"] is None:
        return []
    told = (
        "No known change." if outlook is not None else "Not known now: the leader of Muster does not answer."
    )
    return [heading("What would let it in"), Markup("<p>{}</p>").format(told)]


def _ahead(one: Workload) -> Markup:
    rows = [
        (
            each["position"],
            workload_link(each),
            each["priority"],
            each["pods"],
            amounts(each["asks"]),
            age(each["created"], one["now"]),
            (each["reason"] or {}).get("code"),
        )
        for each in one["ahead"]
    ]
    columns = ["Position", "Workload", "Priority", "Pods", "Asks", "Age", "Reason"]
    return table("Workloads directly before it", columns, rows, numbers="Position Priority Pods Age")


def _standing(standing: Mapping[str, Any], now: str) -> Markup:
    said = Markup("<p>{}.</p>").format(standing["message"])
    if standing["nobody"]:
        return said + Markup("<p>{}</p>").format(standing["nobody"])
    rows = [(when(each, now), each["rule"], each["message"]) for each in standing["takers"]]
    return said + table("Who could take its place", ["When", "Rule", "Who"], rows)


def _stages(one: Workload) -> Markup:
    rows = [(each["admission"], each["stage"], each["at"], took(each)) for each in one["stages"]]
    return table("How far it came when", ["Admission", "Stage", "Time", "Took"], rows, numbers="Admission")


def _admission(held: Mapping[str, Any], now: str) -> list[Markup]:
    how = "adopted" if held["adopted"] else "admitted"
    closed = "" if held["state"] == "open" else f", {held['state']}"
    parts_too = f" and {counted(held['parts'], 'elastic part')}" if held["parts"] else ""
    title = Markup("Admission {}{}: {} {} ago in queue {}{}").format(
        held["id"], parts_too, how, age(held["opened"], now), held["queue"], closed
    )
    parts = [heading(title)]
    if held["eviction"]:
        parts.append(_reason(held["eviction"], now, is_over=held["state"] == "closed"))
    if held["seats"]:
        rows = [
            (
                seats["node"],
                seats["podSet"],
                seats["ordinals"],
                seats["count"],
                amounts(seats["takes"]),
                seats["flavor"],
            )
            for seats in held["seats"]
        ]
        columns = ["Node", "Pod set", "Seats", "Pods", "Holds", "Flavor"]
        parts.append(table(f"Seats of admission {held['id']}", columns, rows, numbers="Pods"))
    if held["ended"]:
        parts.append(Markup('<p class="faint">{} seats were given back.</p>').format(held["ended"]))
    return parts


def _history(one: Workload) -> Markup:
    rows = [
        (age(event["at"], one["now"]), event["what"], event_text(event)) for event in reversed(one["history"])
    ]
    if not rows:
        return Markup("<p>None yet.</p>")
    return table("Decisions, newest first", ["Age", "What", "Message"], rows, numbers="Age")

"""One workload as paragraphs: why it waits, what would let it in, its seats, and decisions about it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from admission.cli.questions.gang_parts import with_their_parts
from admission.cli.questions.pending import one_line, short_table
from admission.cli.rendering.expected import expected_sentence
from admission.cli.rendering.stages import stages_text
from admission.cli.rendering.standing import standing_text
from admission.cli.rendering.table import (
    NONE,
    age,
    amounts,
    hours,
    moment,
    short_duration,
    short_resource,
    table,
)
from queues.reason_codes import ReasonCode
from queues.text_format import counted

#: Newest decisions that are shown without ``-o wide``.
_HISTORY: Final = 12

#: Numbers of a decision that are about its trace.
_OF_TRACES: Final = frozenset({"trace", "parentSpan", "decidedAt", "waitedFor"})

#: ``ExplanationBody`` of the read API, with ``outlook``.
WorkloadBody = Mapping[str, Any]


def workload_text(one: WorkloadBody, *, wide: bool, headers: bool = True) -> str:
    """The paragraphs; tables are indented below their titles."""
    parts = [
        f"{one['kind']}/{one['name']} in namespace {one['namespace']}\n",
        _facts(one),
        _section("Stages", stages_text(one.get("stages") or (), wide=wide, headers=headers)),
        _section("Does not go on because", _problem(one)),
        _section("Waits because", _because(one, wide)),
        _section("What would let it in", _changes(one, wide)),
        _section(
            "Who could take its place", standing_text((one.get("outlook") or {}).get("standing"), one["now"])
        ),
        _section("Limits on the way", _limits(one, wide, headers)),
        _section("Waits behind", _behind(one)),
        *(
            _section(_admission_title(held, one["now"]), _admission(held, one, headers))
            for held in with_their_parts(one["admissions"])
        ),
        _section("History", _history(one, wide, headers)),
    ]
    return "\n".join(part for part in parts if part)


def _facts(one: WorkloadBody) -> str:
    together = one["minimum"]
    asks = counted(one["pods"], "pod")
    if one["pods"] > 1:
        asks += (
            ", all together or none" if together >= one["pods"] else f", at least {together} of them together"
        )
    asks += f": {amounts(one['asks'], all_of_them=True)}"
    if not one["pods"]:
        asks = f"{together} pods together, of which none exists yet"
    lines = [
        ("State", _state(one)),
        ("Queue", " ← ".join(queue["name"] for queue in one["path"]) or one["queue"]),
        # A finished workload requests nothing.
        *([("Asks", asks)] if one["state"] != "finished" else []),
        ("Priority", one.get("priorityLimit", "").removeprefix("priority ") or str(one["priority"])),
        *([("User", one["user"])] if one.get("user") else []),
        ("Created", f"{one['created']} ({age(one['created'], one['now'])} ago)" if one["created"] else NONE),
        *_expected(one),
        *_times(one),
        *_end(one),
        ("UID", one["uid"]),
    ]
    return "".join(f"  {title:<10}{text}\n" for title, text in lines)


def _expected(one: WorkloadBody) -> list[tuple[str, str]]:
    """When it should start; empty: it has started, or is not forecast yet."""
    expected = (one.get("outlook") or {}).get("expected")
    if expected is None or one["state"] != "pending":
        return []
    return [("Expected", f"start {expected_sentence(expected, one['now'])}")]


def _times(one: WorkloadBody) -> list[tuple[str, str]]:
    """How long it waited and ran, and what it took; empty: it has not been admitted."""
    admissions, now = one["admissions"], one["now"]
    ended = [("Ended", f"{one['ended']} ({age(one['ended'], now)} ago)")] if one.get("ended") else []
    if not admissions or not one["created"]:
        return ended
    first = min(held["opened"] for held in admissions)
    runs = _runs(admissions, now)
    ran = short_duration(sum(_seconds(*run) for run in runs))
    ran += f" in {len(runs)} admissions" if len(runs) > 1 else ""
    if one["state"] == "finished" and len(admissions) > 1 and (most := _most_seats(admissions)) is not None:
        ran += f", at most {counted(most, 'pod')} at a time"
    used = ", ".join(
        f"{hours(each)} {short_resource(name)}-hours" for name, each in (one.get("deviceHours") or {}).items()
    )
    return [
        ("Waited", short_duration(_seconds(one["created"], first)) + " until it was first admitted"),
        ("Ran" if one["state"] == "finished" else "Held", ran),
        *ended,
        *([("Used", used)] if used else []),
        *([("Pods", ended_pods)] if (ended_pods := _ended_pods(one)) else []),
    ]


def _most_seats(admissions: Sequence[Mapping[str, Any]]) -> int | None:
    """The most seats of closed admissions at a time; None: it is not known of one."""
    if any(held.get("closed") is None or held.get("seatCount") is None for held in admissions):
        return None
    sizes: list[int] = [
        sum(each["seatCount"] for each in admissions if each["opened"] <= held["opened"] < each["closed"])
        for held in admissions
    ]
    return max(sizes)


def _runs(admissions: Iterable[Mapping[str, Any]], now: str) -> list[tuple[str, str]]:
    """From when until when it held anything, the first time first: parts of a gang count once."""
    runs: list[tuple[str, str]] = []
    for held in sorted(admissions, key=lambda each: moment(each["opened"])):
        until = held.get("closed") or (now if held["state"] != "closed" else held["opened"])
        if runs and moment(held["opened"]) <= moment(runs[-1][1]):
            runs[-1] = runs[-1][0], max(runs[-1][1], until, key=moment)
        else:
            runs.append((held["opened"], until))
    return runs


def _end(one: WorkloadBody) -> list[tuple[str, str]]:
    """When it is ended if it still runs then; empty: it is not."""
    ends = min((held["ends"] for held in one["admissions"] if held.get("ends")), default=None)
    if ends is None:
        return []
    return [("Ends", f"{ends} at the latest (in {age(one['now'], ends)}): access.maxRunTime")]


def _ended_pods(one: WorkloadBody) -> str:
    """``3 succeeded, 1 failed (exit code 137)``; "": it is not known of any."""
    return ", ".join(
        f"{each['pods']} {each['phase'].lower()}"
        + (f" (exit code {code})" if (code := each["exitCode"]) else "")
        for each in one.get("outcomes") or ()
    )


def _seconds(since: str, until: str) -> int:
    return max(0, int((moment(until) - moment(since)).total_seconds()))


#: How a workload ended, and whether its object is gone.
_RESULTS: Final = {"succeeded": "succeeded", "failed": "failed", "deleted": "deleted before it ended"}


#: States of the read API, as all commands show them.
_STATES: Final = {"pending": "waiting", "admitted": "running"}


def _state(one: WorkloadBody) -> str:
    if one["state"] == "finished":
        return _end_state(one)
    if one["state"] == "pending":
        if one["position"] is None:
            return "waiting, not in line"
        outlook = one.get("outlook")
        if (
            outlook is not None and outlook["position"] is not None
        ):  # as the engine counts, in the queue's own order
            return f"waiting, place {outlook['position']} of {outlook['queueLength']} in queue {one['queue']}"
        by = f", counted by {one['positionBy']}" if one["positionBy"] else ""
        return f"waiting, place {one['position']} of {one['queueLength']} in queue {one['queue']}{by}"
    if one["state"] == "admitted" and one["reason"]:
        return "running; further members wait"
    return _STATES.get(one["state"], str(one["state"]))


def _end_state(one: WorkloadBody) -> str:
    if is_suspended(one):
        return "suspended; it waits for its place again when it is resumed"
    result = _RESULTS.get(one.get("result", ""))
    gone = "; its object is gone" if one.get("gone") and one.get("result") != "deleted" else ""
    return f"finished: {result}{gone}" if result else f"finished{gone}"


def is_suspended(one: Mapping[str, Any]) -> bool:
    """Whether a workload was stopped and may go on: nothing has ended it, and its object is there."""
    return one["state"] == "finished" and not one.get("result") and not one.get("gone")


def _because(one: WorkloadBody, wide: bool) -> str:
    reason = one["reason"]
    if reason is None:
        return "It was not considered yet.\n" if one["state"] == "pending" else ""
    since = f" (for {age(reason['since'], one['now'])})" if reason.get("since") else ""
    lines = [f"{reason['code']}{since}", reason["message"].rstrip()]
    numbers = numbers_of(reason.get("facts") or {}, reason["code"])
    if numbers and wide:
        lines.append(numbers)
    if one["notBefore"] and one["notBefore"] > one["now"]:
        times = "once" if one["rollbacks"] == 1 else f"{one['rollbacks']} times"
        lines.append(f"It was rolled back {times} and is tried again at {one['notBefore']}.")
    return "\n".join(lines) + "\n"


def _problem(one: WorkloadBody) -> str:
    problem = (one.get("outlook") or {}).get("problem")
    return f"{problem['code']}\n{problem['message'].rstrip()}\n" if problem else ""


def _changes(one: WorkloadBody, wide: bool) -> str:
    """Changes that would let it in, the smallest first; each is enough alone."""
    outlook = one.get("outlook")
    if outlook is None or (one["state"] != "pending" and not outlook["changes"]):
        return ""
    lines = []
    for change in outlook["changes"]:
        numbers = numbers_of(change["facts"]) if wide else ""
        lines.append(f"- {one_line(change['message'])}" + (f" ({numbers})" if numbers else ""))
    return "\n".join(lines or ["no known change"]) + "\n"


def _behind(one: WorkloadBody) -> str:
    outlook = one.get("outlook")
    behind = f"{one_line(outlook['behind'])}\n" if outlook is not None and outlook["behind"] else ""
    return behind + (short_table(one["ahead"], one["now"]) if one["ahead"] else "")


#: Numbers of reasons that are times, in seconds since the epoch, or durations in seconds.
_TIMES: Final = ("until", "at")
_NAMED: Final = {"seconds": "in", "lostDeviceSeconds": "lost"}
_DURATIONS: Final = ("seconds", "clearAfter")
#: Numbers that are durations too where the reason is about run time.
_LIMITS_OF_TIME: Final = ("limit", "asked")


def numbers_of(facts: Mapping[str, Any], reason: str = "") -> str:
    """``asked 32, used 48, limit 64`` on one line, in the order given. ``reason``: that they are of."""
    seconds = (*_DURATIONS, *(_LIMITS_OF_TIME if reason == ReasonCode.RUN_TIME_TOO_LONG else ()))
    return ", ".join(
        f"{_NAMED.get(name, name)} {_told(name, value, seconds)}"
        for name, value in facts.items()
        if value not in (None, "", [], {})
    )


def _told(name: str, value: Any, seconds: Sequence[str]) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        if name in _TIMES:
            from queues.text_format import rfc3339

            return rfc3339(value)
        if name in seconds:
            return short_duration(value)
        if name == "lostDeviceSeconds":
            return f"{hours(value / 3600)} device-hours"
    return _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return "(" + ", ".join(f"{name} {_plain(inner)}" for name, inner in value.items()) + ")"
    if isinstance(value, list):
        return "/".join(map(_plain, value))
    return one_line(str(value))


def _limits(one: WorkloadBody, wide: bool, headers: bool) -> str:
    """Limits of the queues from its own to root, for the resources that it requests."""
    if one["state"] != "pending":
        return ""
    rows: list[tuple[str | None, ...]] = []
    asks: dict[tuple[str, str], int] = {}
    for queue in one["path"]:
        state = _queue_state(queue)
        for line in queue["accounts"]:
            resource = line["resource"]
            if resource not in one["asks"]:
                continue
            account = (line["flavor"], resource)
            asked = asks.get(account, _units(resource, one["asks"][resource]))
            asks[account] = _asked_above(line, asked)
            if wide or line["capability"] is not None or line["deserved"] is not None:
                rows.append((queue["name"], *_limit_cells(line, asked), state))
        if state and not any(row[0] == queue["name"] for row in rows):
            rows.append((queue["name"], *[None] * 8, state))
    if not rows:
        return ""
    columns = [
        "QUEUE",
        "RESOURCE",
        "FLAVOR",
        "USED",
        "KEPT",
        "ASKED",
        "DESERVED",
        "CAPABILITY",
        "OVER-BY",
        "STATE",
    ]
    return table(columns, rows, headers=headers, right="USED KEPT ASKED DESERVED CAPABILITY OVER-BY")


def _queue_state(queue: Mapping[str, Any]) -> str | None:
    """The state of a queue, with its message; None: open."""
    state: str = queue["state"]
    if state == "open":
        return None
    return f"{state}: {queue['message']}" if queue["message"] else state


def _limit_cells(line: Mapping[str, Any], asked: int) -> tuple[str | None, ...]:
    """Cells from RESOURCE to OVER-BY. Amounts kept for idle guarantees count as used against the capability."""
    resource = line["resource"]
    charged = _units(resource, line["counted"])
    kept = charged - _units(resource, line["used"])
    over = 0 if line["capability"] is None else charged + asked - _units(resource, line["capability"])
    return (
        resource,
        line["flavor"] or None,
        line["used"],
        _quantity(resource, kept) if kept > 0 else None,
        _quantity(resource, asked),
        line["deserved"],
        line["capability"],
        _quantity(resource, over) if over > 0 else None,
    )


def _asked_above(line: Mapping[str, Any], asked: int) -> int:
    """Units that a queue asks its parent for: less than it is asked for itself while guarantee is left."""
    guarantee, charged = (_units(line["resource"], line[name]) for name in ("guarantee", "counted"))
    return max(charged + asked, guarantee) - max(charged, guarantee)


def _units(resource: str, text: str) -> int:
    from queues.resources import amount

    return amount(resource, text)


def _quantity(resource: str, units: int) -> str:
    from queues.resources import show

    return show(resource, units)


def _admission_title(held: Mapping[str, Any], now: str) -> str:
    how = "adopted" if held["adopted"] else "admitted"
    state = "" if held["state"] == "open" else f", {held['state']}"
    parts = f" and {counted(held['parts'], 'elastic part')}" if held.get("parts") else ""
    return (
        f"Admission {held['id']}{parts}: {how} {age(held['opened'], now)} ago in queue {held['queue']}{state}"
    )


def _lost(held: Mapping[str, Any], history: Iterable[Mapping[str, Any]]) -> str:
    """The work that the eviction of an admission cost; "": none, or it is not known."""
    evicts = (each for each in history if each["what"] == "evict" and each["admission"] == held["id"])
    seconds = next((each["numbers"].get("lostDeviceSeconds", 0) for each in evicts), 0)
    return f"{hours(seconds / 3600)} device-hours of work were lost\n" if seconds else ""


def _admission(held: Mapping[str, Any], one: WorkloadBody, headers: bool) -> str:
    text, now = "", one["now"]
    if held["eviction"]:
        done = "Taken back" if held["state"] == "closed" else "Being taken back"
        text += f"{done}, {held['eviction']['code']}: {one_line(held['eviction']['message'])}\n"
        text += _lost(held, one["history"])
    rows = [
        (
            seats["node"],
            seats["podSet"],
            seats["ordinals"],
            seats["count"],
            amounts(seats["takes"], all_of_them=True),
            seats["flavor"] or None,
        )
        for seats in held["seats"]
    ]
    if rows:
        text += table(
            ["NODE", "POD-SET", "SEATS", "PODS", "HOLDS", "FLAVOR"], rows, headers=headers, right="PODS"
        )
    if held.get("closed"):
        on = ", ".join(held["nodes"]) + (
            f" and {more} more" if (more := held["nodeCount"] - len(held["nodes"])) else ""
        )
        after = short_duration(_seconds(held["opened"], held["closed"]))
        back = f"given back {age(held['closed'], now)} ago, after {after}"
        return text + f"{counted(held['seatCount'], 'seat')} on {on}\n{back}\n"
    if held["ended"]:
        text += f"{held['ended']} more given back\n" if rows else f"all {held['ended']} given back\n"
    return text or "holds no seats\n"


def _history(one: WorkloadBody, wide: bool, headers: bool) -> str:
    events: Sequence[Mapping[str, Any]] = one["history"]
    kept = events if wide else events[-_HISTORY:]
    begins = one.get("historyBegins")
    dropped = f"decisions before {begins} were dropped\n" if begins else ""
    if not kept:
        return dropped
    rows = [
        (event["at"], age(event["at"], one["now"]), event["what"], event_text(_with_result(event, one), wide))
        for event in kept
    ]
    text = table(["TIME", "AGE", "WHAT", "MESSAGE"], rows, headers=headers, right="AGE")
    earlier = len(events) - len(kept)
    return text + (f"{earlier} earlier: -o wide shows them\n" if earlier else "") + dropped


def _with_result(event: Mapping[str, Any], one: WorkloadBody) -> Mapping[str, Any]:
    """A decision with how what it gave back had ended, in the words of ``kubectl muster events``."""
    if event["what"] != "free" or event["admission"] is None:
        return event
    admissions = {held["id"]: held for held in one["admissions"]}
    held = admissions.get(event["admission"])
    if held is not None and held["eviction"]:
        return {**event, "result": "evicted"}
    is_last = event["admission"] == max(admissions, default=None)
    return {**event, "result": one["result"]} if is_last and one.get("result") in _RESULTS else event


def event_text(event: Mapping[str, Any], wide: bool = False) -> str:
    """Why a decision was made, as a sentence; ``wide``: with its numbers."""
    seats = event["numbers"].get("seats")
    code = event.get("result") or event["code"]
    message = one_line(event["message"]) or ("" if seats is None else counted(seats, "seat"))
    # The message names the beneficiary; its key is for look-ups.
    # Of its trace "Stages" tells.
    told = {name: each for name, each in event["numbers"].items() if name not in _OF_TRACES}
    numbers = {**told, "for": event["beneficiary"]}
    words: Iterable[str] = (
        f"{code}:" if code and message else code,
        message,
        f"({text})" if wide and (text := numbers_of(numbers)) else "",
    )
    return " ".join(word for word in words if word) or NONE


def _section(title: str, text: str) -> str:
    if not text:
        return ""
    return f"{title}\n" + "".join(f"  {line}\n" for line in text.splitlines())

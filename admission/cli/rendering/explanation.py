"""One workload as paragraphs: why it waits, what would let it in, its seats, and decisions about it."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import structs

from admission.cli.output import Output
from admission.cli.rendering.expected import expected_sentence
from admission.cli.rendering.terminal import (
    NONE,
    TableColumn,
    age,
    amounts,
    amounts_together,
    filled,
    fits,
    hours,
    item_table,
    moment,
    one_line,
    seconds_between,
    short_names,
    short_resource,
    table,
    with_texts,
)
from queues.read_api.bodies import (
    AdmissionBody,
    EventBody,
    ExplanationBody,
    ListedBody,
    PathLimitBody,
    PathQueueBody,
    ReasonBody,
    SeatsBody,
    StageBody,
    TakerBody,
    WaitingBody,
)
from queues.reason_codes import NEVER, ReasonCode, with_advice
from queues.text_format import counted, printable, short_duration

if TYPE_CHECKING:
    from queues.read_api.trials import TrialBody


class HeldGang(AdmissionBody, frozen=True, kw_only=True):
    """An admission, with the elastic parts that it got at the same time."""

    #: How many these are.
    parts: int = 0


def with_their_parts(admissions: Iterable[AdmissionBody]) -> list[HeldGang]:
    """Admissions that hold anything, in their order, the newest first, each gang with its elastic parts as one."""
    gangs: list[HeldGang] = []
    for held in (each for each in admissions if each.state != "closed"):
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
    """One line for all seats of a pod set on one node, with what all of them take."""
    lines: dict[tuple[str, ...], SeatsBody] = {}
    for line in seats:
        kind = (line.node, line.pod_set, line.flavor or "")
        first = lines.get(kind)
        lines[kind] = (
            line
            if first is None
            else structs.replace(
                first,
                ordinals=f"{first.ordinals},{line.ordinals}",
                count=first.count + line.count,
                takes=amounts_together([first.takes, line.takes]),
            )
        )
    return tuple(lines.values())


_INDENT: Final = "  "
#: Characters of the titles of facts.
_TITLE: Final = 10
#: What is said of the time before a stage; others: ``+0.4s``.
_BEFORE: Final = {"admitted": "waited ", "adopted": "waited ", "evicted": "ran "}


def workload_text(one: ExplanationBody, output: Output) -> str:
    """The paragraphs; tables are indented below their titles."""
    inner, width = output.narrowed(len(_INDENT)), output.room
    room = inner.room
    parts = [
        filled(f"{one.kind}/{one.name} in namespace {one.namespace}\n", width, hanging=_INDENT),
        filled(_facts_text(one), width, hanging=" " * _TITLE),
        _section(
            "Values that cannot be read",
            "\n".join(filled(one_line(each), room) for each in one.ignored_values),
        ),
        _section("Does not go on because", filled(_problem(one), room)),
        _section("Waits because", filled(_because(one), room)),
        _section("What would let it in", filled(_changes(one), room)),
        _section("Can it be evicted?", filled(_standing(one), room)),
        _section("Also", _sentences(one.notes, room)),
        _section("Budgets", _sentences(one.outlook.budgets if one.outlook else (), room)),
        _section("Limits on the way", _limits(one, inner)),
        _section("Waits behind", _behind(one, inner)),
        *(
            _section(filled(_admission_title(held, one.now), width), _admission(held, inner))
            for held in with_their_parts(one.admissions)
        ),
        _section("Story", _story(one, inner)),
    ]
    return "\n".join(part for part in parts if part)


def _facts_text(one: ExplanationBody) -> str:
    queues = " ← ".join(queue.name for queue in one.path) or one.queue
    lines = [("State", state_text(one)), ("Queue", queues), *facts_of(one)]
    return "".join(f"{_INDENT}{title:<{_TITLE}}{text}\n" for title, text in lines)


def facts_of(one: ExplanationBody) -> list[tuple[str, str]]:
    """What is known of a workload besides its state and its queues: titles and texts."""
    return [
        # A finished workload requests nothing.
        *([("Asks", asks_text(one))] if one.state != "finished" else []),
        ("Priority", str(one.priority)),
        *([("User", one.user)] if one.user else []),
        ("Created", f"{one.created} ({age(one.created, one.now)} ago)" if one.created else NONE),
        *_expected(one),
        *_times(one),
        *_end(one),
        ("UID", one.uid),
    ]


def asks_text(one: "ExplanationBody | TrialBody") -> str:
    """``4 pods, all together or none: 32 nvidia.com/gpu``."""
    if not one.pods:
        return f"{one.minimum} pods together, of which none exists yet"
    together = ""
    if one.pods > 1:
        some = f"at least {one.minimum} of them together"
        together = f", {'all together or none' if one.minimum >= one.pods else some}"
    return f"{counted(one.pods, 'pod')}{together}: {amounts(one.asks, all_of_them=True)}"


def _expected(one: ExplanationBody) -> list[tuple[str, str]]:
    """When it should start; empty: it has started, or is not forecast yet."""
    expected = None if one.outlook is None else one.outlook.expected
    if expected is None or one.state != "pending":
        return []
    return [("Expected", f"start {expected_sentence(expected, one.now)}")]


def _times(one: ExplanationBody) -> list[tuple[str, str]]:
    """How long it waited and ran, and what it took; empty: it has not been admitted."""
    admissions, now = one.admissions, one.now
    ended = [("Ended", f"{one.ended} ({age(one.ended, now)} ago)")] if one.ended else []
    if not admissions or not one.created:
        return ended
    first = min(held.opened for held in admissions)
    runs = _runs(admissions, now)
    ran = short_duration(sum(seconds_between(*run) for run in runs))
    ran += f" in {len(runs)} admissions" if len(runs) > 1 else ""
    used = ", ".join(f"{hours(each)} {short_resource(name)}-hours" for name, each in one.device_hours.items())
    return [
        ("Waited", short_duration(seconds_between(one.created, first)) + " until it was first admitted"),
        ("Ran" if one.state == "finished" else "Held", ran),
        *ended,
        *([("Used", used)] if used else []),
        *([("Pods", ended_pods)] if (ended_pods := _ended_pods(one)) else []),
    ]


def _runs(admissions: Iterable[AdmissionBody], now: str) -> list[tuple[str, str]]:
    """From when until when it held anything, the first time first: parts of a gang count once."""
    runs: list[tuple[str, str]] = []
    for held in sorted(admissions, key=lambda each: moment(each.opened)):
        until = held.closed or (now if held.state != "closed" else held.opened)
        if runs and moment(held.opened) <= moment(runs[-1][1]):
            runs[-1] = runs[-1][0], max(runs[-1][1], until, key=moment)
        else:
            runs.append((held.opened, until))
    return runs


def _end(one: ExplanationBody) -> list[tuple[str, str]]:
    """When it is ended if it still runs then; empty: it is not."""
    ends = min((held.ends for held in one.admissions if held.ends), default=None)
    if ends is None:
        return []
    return [("Ends", f"{ends} at the latest (in {age(one.now, ends)}): access.maxRunTime")]


def _ended_pods(one: ExplanationBody) -> str:
    """``3 succeeded, 1 failed (exit code 137)``; "": it is not known of any."""
    return ", ".join(
        f"{each.pods} {each.phase.lower()}" + (f" (exit code {code})" if (code := each.exit_code) else "")
        for each in one.outcomes
    )


def sentence_of(reason: ReasonBody) -> str:
    """Why a workload waits, and what its owner can do: as the object says it."""
    return with_advice(reason.message, reason.advice)


def reason_message(reason: ReasonBody, *, wide: bool = False) -> str:
    """Why a workload waits and what to do, in one line; not ``wide``: with short names of resources."""
    message = one_line(sentence_of(reason))
    # What is wrong is in the name: it is said in full.
    return message if wide or reason.code in NEVER else short_names(message)


def reason_line(reason: ReasonBody | None, *, wide: bool = False) -> str | None:
    """``QueueLimit: queue team-a may use …``. None: it does not wait, or was not considered yet."""
    return None if reason is None else f"{reason.code}: {reason_message(reason, wide=wide)}"


def state_text(one: ExplanationBody) -> str:
    """Its state, its place in line, and how it ended."""
    if one.state == "finished":
        result = RESULTS.get(one.result)
        gone = "; its object is gone" if one.gone and one.result != "deleted" else ""
        return f"finished: {result}{gone}" if result else f"finished{gone}"
    if one.state == "suspended":
        return f"suspended; {way_out(one)}"
    if one.state == "pending":
        if one.position is None:
            return "waiting, not in line"
        return f"waiting, place {one.position} of {one.queue_length} in queue {one.queue}"
    if one.state == "admitted" and one.reason:
        return "running; further members wait"
    return state_word(one)


def state_word(one: ListedBody | ExplanationBody) -> str:
    """The state of a workload, or how it ended, in one word: on the page and in lists."""
    return _STATES.get(one.state, one.state) if one.state != "finished" else one.result or "ended"


def way_out(suspended: ListedBody | ExplanationBody) -> str:
    """What has suspended work go on."""
    it = f"{suspended.kind}/{suspended.name} -n {suspended.namespace}"
    return f"`kubectl muster resume {it}` has it wait again"


def _because(one: ExplanationBody) -> str:
    reason = one.reason
    if reason is None:
        return "It was not considered yet.\n" if one.state == "pending" else ""
    since = f" (for {age(reason.since, one.now)})" if reason.since else ""
    lines = [f"{reason.code}{since}", sentence_of(reason).rstrip()]
    if reason.for_administrators:
        lines.append(f"As an administrator of the queue you can {reason.for_administrators}")
    if one.not_before and one.not_before > one.now:
        times = "once" if one.rollbacks == 1 else f"{one.rollbacks} times"
        lines.append(f"It was rolled back {times} and is tried again at {one.not_before}.")
    return "\n".join(lines) + "\n"


def _problem(one: ExplanationBody) -> str:
    problem = None if one.outlook is None else one.outlook.problem
    return f"{problem.code}\n{problem.message.rstrip()}\n" if problem else ""


def _changes(one: ExplanationBody) -> str:
    """Changes that would let it in, the smallest first; each is enough alone."""
    outlook = one.outlook
    if outlook is None or (one.state != "pending" and not outlook.changes):
        return ""
    lines = [f"- {one_line(change.message)}" for change in outlook.changes]
    return "\n".join(lines or ["no known change"]) + "\n"


def _behind(one: ExplanationBody, output: Output) -> str:
    outlook = one.outlook
    behind = f"{one_line(outlook.behind)}\n" if outlook is not None and outlook.behind else ""
    return filled(behind, output.room) + (
        _ahead_table(one, replace(output, headers=True)) if one.ahead else ""
    )


def _ahead_table(one: ExplanationBody, output: Output) -> str:
    """The workloads before one that waits."""
    columns: list[TableColumn[WaitingBody]] = [
        TableColumn("POSITION", lambda other: other.position, right=True),
        TableColumn("WORKLOAD", lambda other: f"{other.kind}/{other.name}", least=16),
        TableColumn("NAMESPACE", lambda other: other.namespace, least=9),
        TableColumn("PRIORITY", lambda other: other.priority, right=True, goes=2),
        TableColumn("PODS", lambda other: other.pods, right=True, goes=1),
        TableColumn("ASKS", lambda other: amounts(other.asks), goes=3),
        TableColumn("AGE", lambda other: age(other.created, one.now), right=True),
        TableColumn("REASON", lambda other: None if other.reason is None else other.reason.code),
    ]
    return item_table(columns, one.ahead, output)


def _admission_title(held: HeldGang, now: str) -> str:
    how = "adopted" if held.adopted else "admitted"
    state = "" if held.state == "open" else f", {held.state}"
    parts = f" and {counted(held.parts, 'elastic part')}" if held.parts else ""
    return f"Admission {held.id}{parts}: {how} {age(held.opened, now)} ago in queue {held.queue}{state}"


def _admission(held: AdmissionBody, output: Output) -> str:
    """Why it is taken back, its seats as a table, and how many were given back."""
    eviction = held.eviction
    begins = "" if eviction is None else f"Being taken back, {eviction.code}: {one_line(eviction.message)}\n"
    ends = f"{held.ended} more given back\n" if held.ended else ""
    return filled(begins, output.room) + _seats(held, output) + ends or "holds no seats\n"


def _seats(held: AdmissionBody, output: Output) -> str:
    """Its seats by node. Where they have no room, only the main part of what they hold is shown: devices, if any."""
    if not held.seats:
        return ""
    text = item_table(_seat_columns(everything=True), held.seats, replace(output, width=None))
    return (
        text if fits(text, output.room) else item_table(_seat_columns(everything=False), held.seats, output)
    )


def _seat_columns(*, everything: bool) -> list[TableColumn[SeatsBody]]:
    return [
        TableColumn("NODE", lambda seats: seats.node, least=12),
        TableColumn("POD-SET", lambda seats: seats.pod_set, least=7, goes=1),
        TableColumn("SEATS", lambda seats: seats.ordinals, least=8),
        TableColumn("PODS", lambda seats: seats.count, right=True),
        TableColumn("HOLDS", lambda seats: amounts(seats.takes, all_of_them=everything)),
        TableColumn("FLAVOR", lambda seats: seats.flavor or None, goes=2),
    ]


def _section(title: str, text: str) -> str:
    if not text:
        return ""
    return f"{title}\n" + "".join(f"  {line}\n" for line in text.splitlines())


def took(stage: StageBody) -> str | None:
    """``waited 3m12s``, ``+0.4s``. None if there is nothing to count from."""
    seconds = stage.after_seconds
    if seconds is None:
        return None
    text = f"{seconds:.1f}s" if seconds < 10 else short_duration(int(seconds))
    return f"{_BEFORE.get(stage.stage, '+')}{text}"


def _sentences(sentences: Iterable[str], room: int | None) -> str:
    return "".join(filled(f"- {one_line(each)}.\n", room, hanging="  ") for each in sentences)


def _standing(one: ExplanationBody) -> str:
    """Who could take its place; "": it is not known, or the workload holds no place."""
    standing = None if one.outlook is None else one.outlook.standing
    if standing is None:
        return ""
    lines = [f"{standing.message}."]
    if until := standing.protected_until:
        lines.append(f"Until {until} (in {age(one.now, until)}) nobody.")
    lines += [f"- {when(taker, one.now)}: {taker.message} [{taker.rule}]" for taker in standing.takers]
    if standing.nobody:
        lines.append(standing.nobody)
    return "".join(f"{printable(line)}\n" for line in lines)


def when(taker: TakerBody, now: str) -> str:
    """``now``, or from when on."""
    begins = str(taker.from_)
    return "now" if begins <= now else f"from {begins} (in {age(now, begins)})"


# -- decisions about it -----------------------------------------------------------------------------------------

#: Newest lines of a story that are shown without ``-o wide``.
_SHOWN: Final = 16
#: How a workload ended, and whether its object is gone.
RESULTS: Final = {"succeeded": "succeeded", "failed": "failed", "deleted": "deleted before it ended"}

#: What people call states of the read API that have another name there.
_STATES: Final = {"pending": "waiting", "admitted": "running"}


class StoryLine(NamedTuple):
    """One thing that happened to a workload: a stage, a decision, or both."""

    at: str
    what: str
    #: None: of the workload itself.
    admission: int | None
    #: None: there is nothing to count from.
    took: str | None
    #: "": it says itself.
    why: str


#: Stages of which there is a decision, by what this is called.
_DECIDED: Final = {"admit": "admitted", "adopt": "adopted", "evict": "evicted", "free": "closed"}


def story_of(one: ExplanationBody) -> list[StoryLine]:
    """How far it came and what was decided about it, the oldest first: a stage that was decided is one line."""
    decided = {
        (_DECIDED[event.what], event.admission): event for event in one.history if event.what in _DECIDED
    }
    lines: list[StoryLine] = []
    in_stages = set[int]()
    for stage in one.stages:
        event = decided.get((stage.stage, stage.admission))
        in_stages.add(id(event))
        why = _why(stage.stage, stage.admission, event, one)
        lines.append(StoryLine(stage.at, stage.stage, stage.admission, took(stage), why))
    for event in one.history:
        if id(event) not in in_stages:
            why = _why(event.what, event.admission, event, one)
            lines.append(StoryLine(event.at, event.what, event.admission, None, why))
    return sorted(lines, key=lambda line: moment(line.at))


def _story(one: ExplanationBody, output: Output) -> str:
    """The newest lines; ``-o wide`` has all of them, with their times."""
    lines, wide = story_of(one), output.is_wide
    kept = lines if wide else lines[-_SHOWN:]
    begins = one.history_begins
    dropped = f"decisions before {begins} were dropped\n" if begins else ""
    if not kept:
        return dropped
    columns = [*(["TIME"] if wide else []), "AGE", "WHAT", "ADMISSION", "TOOK"]
    rows = [
        (*((line.at,) if wide else ()), age(line.at, one.now), line.what, line.admission, line.took)
        for line in kept
    ]
    told = with_texts(
        table(columns, rows, headers=output.headers, right="AGE ADMISSION"),
        [line.why or NONE for line in kept],
        output.room,
        title="WHY",
    )
    earlier = len(lines) - len(kept)
    return told + (f"{earlier} earlier: -o wide shows them\n" if earlier else "") + dropped


def _with_result(event: EventBody, one: ExplanationBody) -> EventBody:
    """A decision with how what it gave back had ended, in the words of ``kubectl muster events``."""
    if event.what != "free" or event.admission is None or event.code == "suspended":
        return event
    admissions = {held.id: held for held in one.admissions}
    held = admissions.get(event.admission)
    if held is not None and held.eviction:
        result = "suspended" if held.eviction.code == ReasonCode.ON_HOLD else "evicted"
    elif event.admission == max(admissions, default=None) and one.state == "finished":
        result = one.result if one.result in RESULTS else ""
    else:
        result = "suspended" if one.state == "suspended" else "given back"
    return structs.replace(event, result=result)


def _why(what: str, admission: int | None, event: EventBody | None, one: ExplanationBody) -> str:
    """Why a decision was made, and on which nodes the seats were that were given back; "": it is not known."""
    text = "" if event is None else event_text(_with_result(event, one))
    held = next((held for held in one.admissions if held.id == admission), None)
    if what not in ("closed", "free") or held is None:
        return text
    return f"{text or counted(held.seat_count, 'seat')}{_on_nodes(held)}"


def _on_nodes(held: AdmissionBody) -> str:
    more = held.node_count - len(held.nodes)
    nodes = ", ".join(held.nodes) + (f" and {more} more" if more else "")
    return f" on {nodes}" if nodes else ""


def event_text(event: EventBody) -> str:
    """Why a decision was made and what it cost, as a sentence."""
    seats = event.numbers.get("seats")
    code = event.result or event.code
    message = one_line(event.message) or ("" if seats is None else counted(seats, "seat"))
    text = f"{code}: {message}" if code and message else code or message or NONE
    lost = event.numbers.get("lostDeviceSeconds", 0)
    return f"{text}; {hours(lost / 3600)} device-hours of work were lost" if lost else text


# -- limits of the queues above it ------------------------------------------------------------------------------


class _LimitRow(NamedTuple):
    """A limit with its queue."""

    queue: PathQueueBody
    limit: PathLimitBody


def _limits(one: ExplanationBody, output: Output) -> str:
    """Limits of the queues from its own to root, for the resources that it requests, and which of them are not open;
    "": it does not wait."""
    if one.state != "pending":
        return ""
    rows = [
        _LimitRow(queue, limit)
        for queue in one.path
        for limit in queue.limits
        if output.is_wide or limit.capability is not None or limit.deserved is not None
    ]
    table = item_table(_limit_columns(short=False), rows, replace(output, width=None))
    if not fits(table, output.room):
        table = item_table(_limit_columns(short=True), rows, output)
    states = (f"queue {queue.name} is {state}\n" for queue in one.path if (state := _queue_state(queue)))
    return (table if rows else "") + "".join(states)


def _limit_columns(*, short: bool) -> list[TableColumn[_LimitRow]]:
    def resource(row: _LimitRow) -> str:
        return short_resource(row.limit.resource) if short else row.limit.resource

    return [
        TableColumn("QUEUE", lambda row: row.queue.name, least=8),
        TableColumn("RESOURCE", resource, least=6),
        TableColumn("FLAVOR", lambda row: row.limit.flavor or None, least=6, goes=3),
        TableColumn("USED", lambda row: row.limit.used, right=True),
        TableColumn("KEPT", lambda row: row.limit.kept, right=True, goes=1),
        TableColumn("ASKED", lambda row: row.limit.asked, right=True),
        TableColumn("DESERVED", lambda row: row.limit.deserved, right=True, goes=2),
        TableColumn("CAPABILITY", lambda row: row.limit.capability, right=True),
        TableColumn("OVER-BY", lambda row: row.limit.over, right=True),
    ]


def _queue_state(queue: PathQueueBody) -> str:
    """The state of a queue, with its message; "": it is open."""
    if queue.state == "open":
        return ""
    return f"{queue.state}: {queue.message}" if queue.message else queue.state

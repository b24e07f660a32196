"""The story of one workload as a line in time: when it waited, had its seats, and was taken back. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from admission.cli.page.layout import form
from admission.cli.rendering.table import moment
from admission.read_api.bodies import ExplanationBody
from queues.text_format import short_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """What the workload was for a time. Times are RFC 3339."""

    #: waiting | running | evicting | ended
    what: str
    begins: str
    ends: str
    about: str


def periods(one: ExplanationBody) -> list[Period]:
    """From its creation until it ended, or now, without gaps: an explanation of the read API in, the first first."""
    if one.created is None:
        return []
    last = one.ended or one.now
    found: list[Period] = []
    here = one.created
    known = [held for held in one.admissions if held.closed or held.state != "closed"]
    for held in sorted(known, key=lambda held: (held.opened, held.id)):
        begins = max(held.opened, here)
        if begins > here:
            found.append(Period(what="waiting", begins=here, ends=begins, about="waited"))
        until = max(begins, min(held.closed or last, last))
        evicted = None if held.eviction is None else held.eviction.since
        about = f"admission {held.id} in queue {held.queue}"
        turned = min(max(begins, evicted), until) if evicted else until
        if turned > begins:
            found.append(Period(what="running", begins=begins, ends=turned, about=about))
        if until > turned:
            code = "" if held.eviction is None else held.eviction.code
            found.append(
                Period(what="evicting", begins=turned, ends=until, about=f"{about}, evicted: {code}")
            )
        here = max(here, until)
    if here < last and one.state == "pending":
        found.append(Period(what="waiting", begins=here, ends=last, about="waits"))
    return found


def timeline(one: ExplanationBody) -> Markup:
    """A bar in time, and the same as a list; nothing where its creation is not known."""
    found = periods(one)
    if not found:
        return Markup("")
    begins, ends = found[0].begins, one.ended or one.now
    whole = max(1.0, _seconds(begins, ends))
    rects = [
        (
            each.what,
            f"{100 * _seconds(begins, each.begins) / whole:.2f}",
            f"{max(0.3, 100 * _seconds(each.begins, each.ends) / whole):.2f}",
            _sentence(each),
        )
        for each in found
    ]
    steps = [(each.what, _sentence(each), _clock(each.begins)) for each in found]
    if one.ended:
        sentence = f"{one.result or 'ended'}, {short_duration(int(whole))} after its creation"
        steps.append(("ended", sentence, _clock(one.ended)))
    return form("charts.html", "timeline", told(one, found), rects, steps)


def told(one: ExplanationBody, found: Sequence[Period]) -> str:
    """How long it was in each state, for who does not see the bar."""
    sums: dict[str, float] = {}
    for each in found:
        sums[each.what] = sums.get(each.what, 0.0) + _seconds(each.begins, each.ends)
    names = {"waiting": "waited", "running": "held seats", "evicting": "was being evicted"}
    return f"{one.name}: " + ", ".join(
        f"{names[what]} for {short_duration(int(seconds))}" for what, seconds in sums.items()
    )


def _sentence(each: Period) -> str:
    return f"{short_duration(int(_seconds(each.begins, each.ends)))} {each.what}" + (
        f": {each.about}" if each.about not in ("waited", "waits") else ""
    )


def _clock(text: str) -> str:
    return text.replace("T", " ").removesuffix("Z") + " UTC"


def _seconds(begins: str, ends: str) -> float:
    return (moment(ends) - moment(begins)).total_seconds()

"""The frame of every view, and the forms that they share: tables, links, bars, ages. Pure: values in, HTML out."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from markupsafe import Markup, escape

from admission.cli.rendering.table import age as short_age

#: Sections of the navigation and where they begin.
SECTIONS: Final = (
    ("Queues", "/queues"),
    ("Waiting", "/pending"),
    ("Workloads", "/workloads"),
    ("Nodes", "/nodes"),
    ("Reservations", "/reservations"),
    ("Charts", "/charts"),
    ("Decisions", "/decisions"),
)
#: Characters up to which a cell of a table is kept on one line.
_ONE_LINE: Final = 40

Cell = str | int | Markup | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What is around a view."""

    title: str
    section: str
    age: str = ""
    cluster: str = ""
    #: Seconds between two times that the view is asked for at least.
    least: int = 1


def document(frame: Frame, main: Markup, *, whole: bool) -> Markup:
    """The HTML of a view; not ``whole``: only the part that changes, for the page that is open already."""
    changing = Markup('<p id="age" role="status" data-title="{} · Muster">{}</p>{}').format(
        frame.title, frame.age, main
    )
    if not whole:
        return changing
    links = Markup("").join(
        Markup('<li><a href="{}"{}>{}</a></li>').format(
            path, Markup(' aria-current="page"') if name == frame.section else "", name
        )
        for name, path in SECTIONS
    )
    return Markup(
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<title>{} · Muster</title><link rel="icon" href="data:,"><link rel="stylesheet" href="/static/page.css">'
        '<script src="/static/page.js" defer></script></head><body>'
        '<a class="skip" href="#main">Skip to the content</a>'
        '<header><p class="product">Muster <span class="cluster">{}</span></p>'
        '<nav aria-label="Views"><ul>{}</ul></nav></header>'
        '<main id="main" tabindex="-1" data-least="{}">{}</main></body></html>'
    ).format(frame.title, frame.cluster, links, frame.least, changing)


def problem(title: str, sentence: str, ways: Iterable[Markup] = ()) -> Markup:
    """What is said in place of a view, with ways on as links."""
    lines = Markup("<br>").join(sentence.splitlines())
    links = Markup("").join(Markup("<li>{}</li>").format(way) for way in ways)
    return Markup('<h1>{}</h1><p class="problem" role="alert">{}</p>{}').format(
        title, lines, Markup("<ul>{}</ul>").format(links) if links else ""
    )


def heading(text: str | Markup, level: int = 2) -> Markup:
    """A heading."""
    return Markup("<h{0}>{1}</h{0}>").format(level, text)


def link(text: str | Markup, *parts: str, **query: str | None) -> Markup:
    """A link to the view of these parts of a path."""
    path = "/" + "/".join(quote(part, safe="") for part in parts)
    given = {name: value for name, value in query.items() if value}
    return Markup('<a href="{}">{}</a>').format(path + (f"?{urlencode(given)}" if given else ""), text)


def table(
    caption: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    numbers: str | Collection[str] = "",
) -> Markup:
    """A table; ``numbers`` names the columns of numbers. On a narrow screen each row becomes a block."""
    named = set(numbers.split()) if isinstance(numbers, str) else set(numbers)
    rights = {index for index, name in enumerate(columns) if name in named}
    head = Markup("").join(
        Markup('<th scope="col"{}>{}</th>').format(_class("number") if index in rights else "", name)
        for index, name in enumerate(columns)
    )
    body = Markup("").join(
        Markup("<tr>{}</tr>").format(
            Markup("").join(_cell(columns[index], cell, index in rights) for index, cell in enumerate(row))
        )
        for row in rows
    )
    return Markup(
        '<div class="scroll" role="region" aria-label="{0}" tabindex="0"><table><caption>{0}</caption>'
        "<thead><tr>{1}</tr></thead><tbody>{2}</tbody></table></div>"
    ).format(caption, head, body)


def _cell(column: str, cell: Cell, is_number: bool) -> Markup:
    shown = "–" if cell in (None, "") else cell
    is_long = len(shown.striptags() if isinstance(shown, Markup) else str(shown)) > _ONE_LINE
    kind = _class("number") if is_number else _class("long") if is_long else ""
    return Markup('<td data-column="{}"{}>{}</td>').format(column, kind, shown)


def facts(pairs: Iterable[tuple[str, Cell]]) -> Markup:
    """Names with their values."""
    return Markup("<dl>{}</dl>").format(
        Markup("").join(
            Markup("<div><dt>{}</dt><dd>{}</dd></div>").format(name, value)
            for name, value in pairs
            if value not in (None, "")
        )
    )


def choices(label: str, options: Iterable[tuple[str, Markup | None]]) -> Markup:
    """A choice as links; the option without a link is the one that is shown."""
    shown = Markup("").join(
        Markup('<li aria-current="true">{}</li>').format(text)
        if target is None
        else Markup("<li>{}</li>").format(target)
        for text, target in options
    )
    return Markup('<nav class="choices" aria-label="{0}"><span>{0}:</span><ul>{1}</ul></nav>').format(
        label, shown
    )


def sentences(texts: Iterable[str]) -> Markup:
    """A list of sentences."""
    return Markup("<ul>{}</ul>").format(Markup("").join(Markup("<li>{}</li>").format(text) for text in texts))


def state(text: str) -> Markup:
    """A state as a word with a colour."""
    return Markup('<span class="state state-{0}">{0}</span>').format(text)


#: States of the read API, as all commands show them.
_WORKLOAD_STATES: Final = {
    "pending": "waiting",
    "admitted": "running",
    "evicting": "evicting",
    "suspended": "suspended",
}


def workload_state(one: Mapping[str, Any]) -> str:
    """The state of a workload, or how it ended, in the words of the command line."""
    return _WORKLOAD_STATES.get(one["state"]) or one.get("result") or "ended"


def age(since: str | None, now: str) -> Markup:
    """An age, with the time that it counts from for who points at it."""
    if since is None:
        return Markup("–")
    return Markup('<time datetime="{0}" title="{0}">{1}</time>').format(since, short_age(since, now))


def bar(used: int, deserved: int | None, capability: int | None, label: str) -> Markup:
    """How much of an amount is used: what is deserved dark, what is borrowed beyond it light, limits as marks."""
    full = max(used, deserved or 0, min(capability or 0, 4 * max(used, deserved or 0)), 1)

    def share(units: int) -> str:
        return f"{100 * units / full:.1f}"

    own = used if deserved is None else min(used, deserved)
    marks = Markup("").join(
        Markup('<line class="{}" x1="{}" x2="{}" y1="0" y2="10"/>').format(kind, share(at), share(at))
        for kind, at in (("deserved", deserved), ("capability", capability))
        if at is not None and at <= full
    )
    return Markup(
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<rect class="full" width="100" height="10"/><rect class="own" width="{}" height="10"/>'
        '<rect class="borrowed" x="{}" width="{}" height="10"/>{}</svg>'
    ).format(label, share(own), share(own), share(used - own), marks)


def _class(name: str) -> Markup:
    return Markup(' class="{}"').format(escape(name))

"""What the templates of the page are filled with: the environment, links, and words that several views share. Pure."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from admission.cli.plugin.pending import in_groups
from admission.cli.plugin.queues import account_of, share_text
from admission.cli.plugin.reservations import begins_in, lasting, what_of
from admission.cli.rendering.expected import expected_cell
from admission.cli.rendering.explanation import (
    event_text,
    facts_of,
    sentence_of,
    state_text,
    state_word,
    story_of,
    when,
    with_their_parts,
)
from admission.cli.rendering.nodes import closed_state, closure_sentence, state_of
from admission.cli.rendering.quota import account_text, limit_facts, policy_facts
from admission.cli.rendering.terminal import age as short_age
from admission.cli.rendering.terminal import alike_in_short, amounts, branches, short_resource
from queues.read_api.bodies import (
    AccountBody,
    ExpectedStartBody,
    ListedBody,
    PagedBody,
    QueueBody,
    WaitingBody,
)
from queues.read_api.nodes import NodeBody
from queues.resources import amount
from queues.text_format import counted

#: Sections of the navigation and where they begin.
SECTIONS: Final = (
    ("Queues", "/queues"),
    ("Waiting", "/pending"),
    ("Workloads", "/workloads"),
    ("Users", "/users"),
    ("Nodes", "/nodes"),
    ("Reservations", "/reservations"),
    ("Charts", "/charts"),
    ("Usage", "/usage"),
    ("Decisions", "/decisions"),
)

#: Parameters of lists of workloads by which some are chosen.
CHOSEN: Final = ("queue", "namespace", "user", "mine", "search")
#: States of what runs.
RUNNING: Final = "admitted,evicting"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a path shows."""

    title: str
    #: The navigation's entry that it belongs to.
    section: str
    main: Markup
    #: How old the answer is, as a sentence; "": a few seconds.
    age: str = ""
    #: Seconds between two times that it is asked for at least: what costs the API server much, seldom.
    least: int = 1


#: The view of a path's parts and a query. Raises MusterError, KeyError for no such path.
ViewOf = Callable[[tuple[str, ...], Mapping[str, str]], View]


def render(template: str, **values: Any) -> Markup:
    """A template of the folder ``templates``, filled in. What values contain is text, whatever it looks like."""
    return Markup(_ENVIRONMENT.get_template(template).render(values))


def form(template: str, name: str, *values: Any) -> Markup:
    """One macro of a template, filled in."""
    return Markup(getattr(_ENVIRONMENT.get_template(template).module, name)(*values))


def document(view: View, *, cluster: str = "", whole: bool) -> Markup:
    """The HTML of a view; not ``whole``: only the part that changes, for the page that is open already."""
    return render("document.html", view=view, cluster=cluster, whole=whole, sections=SECTIONS)


def link(text: object, *parts: str, **query: str | None) -> Markup:
    """A link to the view of these parts of a path."""
    path = "/" + "/".join(quote(part, safe="") for part in parts)
    given = {name: value for name, value in query.items() if value}
    return Markup('<a href="{}">{}</a>').format(path + (f"?{urlencode(given)}" if given else ""), text)


def pages_of(
    path: str, body: PagedBody, shown: Mapping[str, str], **query: str | None
) -> dict[str, Markup | None]:
    """Links to the first and the next page of a list, as far as there are such pages. ``shown``: the query of this
    one."""
    following = body.continue_
    return {
        "first": link("First page", path, **query) if "continue" in shown else None,
        "next": link("Next page", path, **query, **{"continue": following}) if following else None,
    }


def list_frame(
    path: str, body: PagedBody, asked: Mapping[str, str | None], shown: Mapping[str, str]
) -> dict[str, Any]:
    """What is around a list of workloads: the choices and the search above it, and the links to other pages below.
    ``asked``: what was chosen; ``shown``: the query of this page."""

    def option(text: str, **chosen: str | None) -> tuple[str, Markup | None]:
        other = {**asked, **chosen}
        return text, None if other == asked else link(text, path, **other)

    choices = [
        ("Whose", [option("of all users", mine=None, user=None), option("mine", mine="true", user=None)])
    ]
    if "state" in asked:
        choices.append(
            ("State", [option("waiting and running", state=None), option("running", state=RUNNING)])
        )
    return {"path": path, "asked": asked, "choices": choices, **pages_of(path, body, shown, **asked)}


def bar(used: int, deserved: int | None, capability: int | None, label: str, full: int) -> Markup:
    """How much of an amount is used, next to what is deserved and what is allowed. ``full``: what the whole length is
    for, the same for all bars that are compared."""

    def share(units: int) -> str:
        return f"{100 * units / max(full, 1):.1f}"

    own = used if deserved is None else min(used, deserved)
    limits = (("deserved", deserved), ("capability", capability))
    marks = [(kind, share(limit)) for kind, limit in limits if limit is not None and limit <= full]
    return form("forms.html", "bar", share(own), share(used - own), marks, label)


def _bars_of(queues: Sequence[QueueBody], resource: str) -> dict[str, Markup]:
    """The bar of each queue, all on the scale of the queue that uses or deserves most, each with a sentence for who
    does not see it."""
    accounts = {queue.name: account_of(queue, resource) for queue in queues}
    used = {name: amount(resource, line.used) for name, line in accounts.items()}
    deserved, capability = (
        {
            name: None if (text := of(line)) is None else amount(resource, text)
            for name, line in accounts.items()
        }
        for of in (attrgetter("deserved"), attrgetter("capability"))
    )
    full = max((*used.values(), *(units or 0 for units in deserved.values())), default=0)
    return {
        name: bar(
            units, deserved[name], capability[name], f"{name}: {line.used} used" + _of_deserved(line), full
        )
        for name, line in accounts.items()
        for units in [used[name]]
    }


def _of_deserved(line: AccountBody) -> str:
    if line.deserved is None:
        return ""
    return f" of {line.deserved} deserved" + (f": {line.standing}" if line.standing else "")


def _known_start(expected: ExpectedStartBody | None, now: str) -> str | None:
    """When a workload is expected to start. None if that is not known."""
    if expected is None or expected.never or expected.not_yet:
        return None
    return expected_cell(expected, now)


def resource_names(queues: Sequence[QueueBody], *more: str) -> list[str]:
    """The resources of which queues have accounts."""
    return sorted({line.resource for queue in queues for line in queue.accounts} | set(more))


def _alike_names(items: Iterable[WaitingBody | ListedBody], *fields: str) -> Collection[str]:
    """Names of resources that look alike in short, of the first field of each item that has any."""
    return alike_in_short(
        {name for one in items for name in next((getattr(one, f) for f in fields if getattr(one, f)), ())}
    )


def _stems_of(queues: Sequence[QueueBody]) -> Mapping[str, str]:
    return branches({queue.name: queue.parent for queue in queues})


def _about_node(line: NodeBody) -> str:
    """The reservations and drains of a node, and why it takes no pods."""
    return "; ".join([*map(closure_sentence, line.closures), *filter(None, [line.closed])])


_ENVIRONMENT: Final = Environment(
    loader=PackageLoader("admission.cli.page"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    extensions=["jinja2.ext.do"],
)
_ENVIRONMENT.globals.update(
    about_node=_about_node,
    account_of=account_of,
    account_text=account_text,
    alike_names=_alike_names,
    amounts=amounts,
    bars_of=_bars_of,
    begins_in=begins_in,
    closed_state=closed_state,
    counted=counted,
    event_text=event_text,
    facts_of=facts_of,
    in_groups=in_groups,
    known_start=_known_start,
    lasting=lasting,
    limit_facts=limit_facts,
    link=link,
    policy_facts=policy_facts,
    resource_names=resource_names,
    sentence_of=sentence_of,
    share_text=share_text,
    short_age=short_age,
    short_resource=short_resource,
    state_of=state_of,
    state_text=state_text,
    stems_of=_stems_of,
    story_of=story_of,
    what_of=what_of,
    when=when,
    with_their_parts=with_their_parts,
    workload_state=state_word,
)

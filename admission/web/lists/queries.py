"""Parameters of questions for lists of workloads and users."""

from collections.abc import Mapping
from typing import Final

from admission.web.http import BadQuery, flag, numbered_place, time_of, whole_number
from admission.web.lists.lines import place_of
from queues.sql.read.decisions import DecisionQuestion
from queues.sql.read.listed import STATES, Listing, ListPlace

#: Lines in one answer.
LARGEST_PAGE: Final = 1000
_LIVE: Final = ("pending", "admitted", "evicting", "suspended")
#: A name in Kubernetes is no longer; what is longer costs more to look for.
_LONGEST_NAME: Final = 1024
_DAY: Final = 86_400


def limit_of(query: Mapping[str, str]) -> int:
    """Lines at most. Raises BadQuery."""
    return whole_number("limit", query.get("limit", str(LARGEST_PAGE)), LARGEST_PAGE)


def listing_of(query: Mapping[str, str], namespace: str | None) -> Listing:
    """Which workloads are asked for. Raises BadQuery."""
    since = query.get("since") or None
    states = [state for state in (query.get("state") or "").split(",") if state]
    if wrong := [state for state in states if state not in STATES]:
        raise BadQuery(
            f"state is {wrong[0]!r}", expected=f"some of {', '.join(STATES)}, with commas between them"
        )
    if "finished" in states and since is None:
        raise BadQuery(
            "state has finished, and since is missing",
            expected="since, the time from which on workloads that ended are listed: 2026-11-21T10:00:00Z",
        )
    return Listing(
        states=tuple(states) or (_LIVE if since is None else STATES),
        since=0 if since is None else int(time_of("since", since)),
        namespace=namespace,
        user=_name(query, "user"),
    )


def decisions_of(query: Mapping[str, str], now: int) -> DecisionQuestion:
    """Which decisions are asked for; without ``since`` those of the last day. Raises BadQuery."""
    since = query.get("since") or None
    return DecisionQuestion(
        since=max(0, now - _DAY) if since is None else int(time_of("since", since)),
        after=numbered_place(query.get("continue")),
        namespace=query.get("namespace") or None,
    )


def is_mine(query: Mapping[str, str]) -> bool:
    """Whether only workloads of the user who asks are asked for. Raises BadQuery."""
    mine = flag("mine", query.get("mine"))
    if mine and query.get("user"):
        raise BadQuery("there are both user and mine", expected="one of them")
    return mine


def place_after(query: Mapping[str, str]) -> ListPlace | None:
    """The place of the last line of the page before. None for the beginning. Raises BadQuery."""
    text = query.get("continue") or None
    if text is None:
        return None
    place = place_of(text) if len(text) <= 2 * _LONGEST_NAME else None
    if place is None:
        raise BadQuery(f"continue is {text[:100]!r}", expected="what the page before gave")
    return place


def lines_before(query: Mapping[str, str]) -> int:
    """Lines of the pages before. Raises BadQuery."""
    text = query.get("continue") or "0"
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise BadQuery(f"continue is {text[:100]!r}", expected="what the page before gave")
    return int(text)


def _name(query: Mapping[str, str], parameter: str) -> str | None:
    name = query.get(parameter) or None
    if name is not None and (len(name) > _LONGEST_NAME or "\0" in name):
        raise BadQuery(
            f"{parameter} is {name[:100]!r}", expected=f"at most {_LONGEST_NAME} characters, without NUL"
        )
    return name

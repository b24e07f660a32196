"""Parameters of questions for lists of workloads and users."""

from collections.abc import Mapping
from typing import Final

from admission.web.http import BadQuery, flag, numbered_place, time_of, whole_number
from queues.sql.read.decisions import DecisionQuestion
from queues.sql.read.listed import STATES, Listing
from queues.sql.read.rows import Chosen

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
    since = time_of("since", query)
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
        since=since or 0,
        namespace=namespace,
    )


def decisions_of(query: Mapping[str, str], now: int) -> DecisionQuestion:
    """Which decisions are asked for; without ``since`` those of the last day. Raises BadQuery."""
    since = time_of("since", query)
    return DecisionQuestion(
        since=max(0, now - _DAY) if since is None else since,
        after=numbered_place(query.get("continue")),
        namespace=query.get("namespace") or None,
        ends=flag("ends", query.get("ends") or "true"),
    )


def chosen_in(query: Mapping[str, str], asker: str) -> Chosen:
    """Which workloads are asked for. ``asker``: the user who asks. Raises BadQuery."""
    mine, user = flag("mine", query.get("mine")), _name(query, "user")
    if mine and user:
        raise BadQuery("there are both user and mine", expected="one of them")
    return Chosen(asker if mine else user, _name(query, "search"))


def _name(query: Mapping[str, str], parameter: str) -> str | None:
    name = query.get(parameter) or None
    if name is not None and (len(name) > _LONGEST_NAME or "\0" in name):
        raise BadQuery(
            f"{parameter} is {name[:100]!r}", expected=f"at most {_LONGEST_NAME} characters, without NUL"
        )
    return name

"""Use in a period as the read API shows it: what was asked, which queues the user sees, and the answer."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, NamedTuple

from msgspec import Meta

from admission.web.http import (
    LATEST,
    BadQuery,
    period_in,
    place_in,
    resource_in,
    text_of_place,
    whole_number,
)
from admission.web.overview import path_upwards
from admission.web.reader import Sight, UnknownName
from queues.quota.queue import ROOT
from queues.read_api.usage import UsageList
from queues.sql.read.usage import (
    KnownSince,
    UsageColumn,
    UsagePage,
    UsageQuestion,
    UsageQueue,
    UsageViewer,
    key_length,
)
from queues.sql.statements import StorableText
from queues.text_format import names_alike, rfc3339

#: Lines in one answer: unless asked otherwise, and at most. Each page is added up anew.
USUAL_PAGE: Final = 1000
LARGEST_PAGE: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRequest(UsageQuestion):
    """The parameters of a question as they came: the period may end later than now."""

    #: With all queues below it. None for all queues.
    queue: str | None

    def begun(self, now: int, history: KnownSince) -> "UsageRequest":
        """What Postgres is asked: the part of the period that is over, and whose postings are kept.

        Raises BadQuery: none of it has begun.
        """
        if self.begins > now:
            raise BadQuery(
                f"from is {rfc3339(self.begins)}, and now it is {rfc3339(now)}", expected="a past time"
            )
        begins = max(self.begins, history.postings)
        return replace(self, begins=begins, ends=max(begins, min(self.ends, now)))


def usage_request(given: Mapping[str, str]) -> UsageRequest:
    """The parameters of a question as they came. Raises BadQuery."""
    page, by = place_in(given.get("continue"), _Page), _columns(given.get("by") or "queue")
    if page is not None and len(page.key) != key_length(by):
        raise BadQuery("continue is of another question", expected="what the page before gave")
    begins, ends = period_in(given, ends=None if page is None else page.ends)
    limit = whole_number("limit", given.get("limit") or str(USUAL_PAGE), LARGEST_PAGE)
    return UsageRequest(
        begins=begins,
        ends=LATEST if ends is None else ends,
        by=by,
        resource=resource_in(given),
        queue=given.get("queue") or None,
        limit=limit,
        after=None if page is None else page.key,
    )


def _columns(said: str) -> frozenset[UsageColumn]:
    columns = set[UsageColumn]()
    for name in said.split(","):
        if name not in UsageColumn.__members__.values():
            raise BadQuery(
                f"by is {said!r}", expected=f"some of {', '.join(UsageColumn)}, with commas between"
            )
        columns.add(UsageColumn(name))
    return frozenset(columns)


class _Page(NamedTuple):
    """The end of the period, and the key of the last line, of the page before."""

    ends: Annotated[int, Meta(ge=0, le=LATEST)]
    key: tuple[StorableText, ...]


def usage_viewer(parents: Mapping[str, str | None], top: str | None, user: str, sight: Sight) -> UsageViewer:
    """The queues of a question as a user sees them. Raises UnknownName: there is no queue of that name.

    Use of a queue that the user may not see is shown as use of the nearest one above it that the user may see: the
    numbers of a queue contain those of all queues below it.
    """
    if top is not None and top not in parents:
        near = names_alike(top, filter(sight.shows_queue, parents))
        raise UnknownName(what="queue", name=top, near=near)
    queues = []
    for queue in parents:
        path = path_upwards(parents, queue)
        if top is not None and top not in path:
            continue
        tenant = next((each for each in reversed(path) if each != ROOT), ROOT)
        queues.append(
            UsageQueue(
                queue=queue,
                tenant=tenant if sight.shows_queue(tenant) else "",
                shown_as=next((each for each in path if sight.shows_queue(each)), None),
            )
        )
    return UsageViewer(user=user, queues=tuple(queues), is_narrowed=top is not None, seen=sight.workloads)


def usage_list(
    request: UsageRequest, ends: int, page: UsagePage, history: KnownSince, age: Mapping[str, Any]
) -> UsageList:
    """The answer. ``ends``: of the part of the period that is over. ``age``: fields of ``AgedBody``."""
    return UsageList(
        **age,
        from_=rfc3339(request.begins),
        to=rfc3339(ends),
        by=tuple(map(str, sorted(request.by, key=list(UsageColumn).index))),
        history_begins=_begins(history.postings, request.begins),
        workloads_begin=_begins(history.workloads, request.begins),
        totals=page.totals,
        items=page.items,
        continue_=text_of_place(None if page.end is None else _Page(ends, page.end)),
    )


def _begins(at: int, asked: int) -> str | None:
    return rfc3339(at) if at > asked else None

"""Use and waits over time as the read API shows them: what was asked, what is a line of its own, and the answer."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from admission.web.http import BadQuery, period_in, resource_in, whole_number
from admission.web.overview import path_upwards
from admission.web.reader import Sight, UnknownName
from queues.quota.queue import ROOT
from queues.read_api.usage import SeriesBody, TimeSeriesList
from queues.resources import scale
from queues.sql.read.rows import AccountLine, QueueLine
from queues.sql.read.time_series import TimeSlots, Waits
from queues.text_format import names_alike, rfc3339

#: Slots and queues in one answer.
MOST_SLOTS: Final = 400
MOST_QUEUES: Final = 50
USUAL_QUEUES: Final = 10
LONGEST_STEP: Final = 31 * 86_400
_GPU: Final = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSeriesRequest:
    """The parameters of a question. Times are seconds since the epoch."""

    begins: int
    #: None for now.
    ends: int | None
    step: int
    resource: str
    queue: str
    #: Queues below it.
    limit: int

    def slots(self, now: int, known_since: int) -> TimeSlots:
        """The slots of the part of the period that is over and known. Raises BadQuery: there is none, or too many."""
        ends = now if self.ends is None else min(self.ends, now)
        if self.begins >= ends:
            raise BadQuery(
                f"from is {rfc3339(self.begins)}, and now it is {rfc3339(now)}", expected="a past time"
            )
        if ends - self.begins > MOST_SLOTS * self.step:
            least = -(-(ends - self.begins) // MOST_SLOTS)
            raise BadQuery(
                f"step is {self.step}, which makes more than {MOST_SLOTS} slots",
                expected=f"at least {least} seconds for this period",
            )
        # Slots stay where they are when old ones are not known any more.
        unknown = max(0, known_since - self.begins)
        return TimeSlots(
            begins=min(ends, self.begins + -(-unknown // self.step) * self.step), ends=ends, step=self.step
        )


def time_series_request(given: Mapping[str, str]) -> TimeSeriesRequest:
    """The parameters of a question as they came. Raises BadQuery."""
    begins, ends = period_in(given)
    step = whole_number("step", given.get("step") or "3600", LONGEST_STEP)
    if step < 1:
        raise BadQuery(f"step is {step}", expected=f"seconds, from 1 to {LONGEST_STEP}")
    return TimeSeriesRequest(
        begins=begins,
        ends=ends,
        step=step,
        resource=resource_in(given) or _GPU,
        queue=given.get("queue") or ROOT,
        limit=whole_number("limit", given.get("limit") or str(USUAL_QUEUES), MOST_QUEUES),
    )


def series_of_queues(parents: Mapping[str, str | None], top: str, sight: Sight) -> dict[str, str]:
    """For each queue at or below ``top`` the line that it counts in. Raises UnknownName.

    That is the queue directly below ``top``, or ``top`` if the user may not see that one.
    """
    if top not in parents:
        raise UnknownName(what="queue", name=top, near=names_alike(top, filter(sight.shows_queue, parents)))
    found = {}
    for queue in parents:
        path = path_upwards(parents, queue)
        if top in path:
            above = path[: path.index(top)]
            found[queue] = above[-1] if above and sight.shows_queue(above[-1]) else top
    return found


def limits_now(lines: Iterable[QueueLine], resource: str) -> dict[str, AccountLine]:
    """The account of each queue that says what it deserves and may use of a resource now, over all flavors."""
    return {
        str(line.name): each
        for line in lines
        for each in line.accounts
        if each.resource == resource and not each.flavor
    }


def time_series_list(
    request: TimeSeriesRequest,
    slots: TimeSlots,
    series_of: Mapping[str, str],
    use: Mapping[str, tuple[int, ...]],
    waits: Mapping[str | None, Mapping[int, Waits]],
    limits: Mapping[str, AccountLine],
    known_since: int,
    age: Mapping[str, str | None],
) -> TimeSeriesList:
    """The answer: the queue, then the queues directly below it, those that used most first. ``age``: of AgedBody."""
    starts = slots.starts()
    children = set(series_of.values()) - {request.queue}
    most = sorted(children, key=lambda name: (-sum(use.get(name, ())), name))[: request.limit]
    nothing = (0,) * len(starts)
    unlimited = AccountLine(flavor="", resource=request.resource)
    whole = tuple(sum(each) for each in zip(nothing, *use.values(), strict=True))
    lines = [(request.queue, whole, waits.get(None, {}))]
    lines += [(name, use.get(name, nothing), waits.get(name, {})) for name in most]
    return TimeSeriesList(
        **age,  # type: ignore[arg-type]
        from_=rfc3339(slots.begins),
        to=rfc3339(slots.ends),
        step=slots.step,
        resource=request.resource,
        slots=tuple(map(rfc3339, starts)),
        history_begins=rfc3339(known_since) if known_since > request.begins else None,
        items=tuple(
            _series(request, slots, name, units, of, limits.get(name, unlimited)) for name, units, of in lines
        ),
        total=len(children),
    )


def _series(
    request: TimeSeriesRequest,
    slots: TimeSlots,
    name: str,
    units: tuple[int, ...],
    waits: Mapping[int, Waits],
    limits: AccountLine,
) -> SeriesBody:
    one = scale(request.resource)
    every = [waits.get(index) for index in range(len(units))]
    return SeriesBody(
        queue=name,
        deserved=None if limits.deserved is None else limits.deserved / one,
        capability=None if limits.capability is None else limits.capability / one,
        guarantee=limits.guarantee / one,
        used=tuple(round(each / (one * slots.length(index)), 3) for index, each in enumerate(units)),
        started=tuple(0 if each is None else each.count for each in every),
        wait_median=tuple(None if each is None else each.median for each in every),
        wait_most=tuple(None if each is None else each.most for each in every),
    )

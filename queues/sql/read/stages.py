"""How far a workload came when (the stages of an explanation), and when its admissions end. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from queues.admissions import Admission, AdmissionState
from queues.quota.tree import QueueTree
from queues.read_api import bodies
from queues.sql.read.rows import Eviction
from queues.text_format import rfc3339
from queues.workload import AdmissionId


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionTimes:
    """When an admission reached each stage, in seconds since the epoch. None if it has not, or if that is not known."""

    admitted: float
    released: float | None = None
    bound: float | None = None
    running: float | None = None
    #: Whole seconds.
    closed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadTimes:
    """The admissions of one workload, the oldest first, and when what happened. Times are seconds since the epoch."""

    #: 0: not known.
    created: int
    #: When Muster first stored it; None if not known.
    seen: float | None
    #: 0: it has not ended.
    ended: int
    admissions: tuple[Admission, ...]
    evictions: Mapping[AdmissionId, Eviction]
    times: Mapping[AdmissionId, AdmissionTimes]


def stages_of(rows: WorkloadTimes) -> tuple[bodies.StageBody, ...]:
    """Creation and arrival, then each admission, the oldest first, then the end. What is not known is left out."""
    created = rows.created or None
    found = []
    if created is not None:
        found.append(_stage("created", created, None))
    if rows.seen is not None:
        found.append(_stage("seen", rows.seen, created))
    waits_since: float | None = created
    gang: Admission | None = None
    for admission in rows.admissions:
        is_part = gang is not None and _is_part(admission, gang)
        if gang is not None and is_part and not {gang.id, admission.id} & rows.evictions.keys():
            continue  # it goes the same way as its gang
        gang = gang if is_part else admission
        of_admission = list(_stages_of_admission(admission, rows, waits_since))
        found += of_admission
        waits_since = _times_of(admission, rows).closed
    if rows.ended:
        found.append(_stage("ended", rows.ended, None))
    return tuple(found)


def _is_part(admission: Admission, gang: Admission) -> bool:
    """Whether an admission is an elastic part of one before it: both were opened together, for other pods."""
    mine, its = ({(seat.pod_set, seat.ordinal) for seat in each.seats} for each in (admission, gang))
    return admission.opened_at == gang.opened_at and not mine & its


def _stages_of_admission(
    admission: Admission, rows: WorkloadTimes, waits_since: float | None
) -> Iterator[bodies.StageBody]:
    """``waits_since``: since when the workload had waited for it. None if others of its admissions were open."""
    times = _times_of(admission, rows)
    yield _stage(
        "adopted" if admission.adopted is not None else "admitted",
        times.admitted,
        waits_since,
        admission,
    )
    eviction = rows.evictions.get(admission.id)
    following = [
        ("released", times.released),
        ("bound", times.bound),
        ("running", times.running),
        ("evicted", None if eviction is None else eviction.at),
        ("closed", times.closed),
    ]
    last = times.admitted
    for name, at in following:
        if at is not None:
            # Some times are whole seconds, cut off.
            yield _stage(name, max(at, last), last, admission)
            last = max(at, last)


def _times_of(admission: Admission, rows: WorkloadTimes) -> AdmissionTimes:
    return rows.times.get(admission.id, AdmissionTimes(admitted=admission.opened_at))


def _stage(
    name: str,
    at: float,
    since: float | None,
    admission: Admission | None = None,
) -> bodies.StageBody:
    return bodies.StageBody(
        stage=name,
        at=rfc3339(at, "milliseconds"),
        after_seconds=None if since is None else max(0.0, round(at - since, 3)),
        admission=None if admission is None else admission.id,
    )


def with_ends(
    told: Sequence[bodies.AdmissionBody], admissions: Sequence[Admission], tree: QueueTree
) -> tuple[bodies.AdmissionBody, ...]:
    """The admissions of one workload with the time at which the open ones end, all with the oldest of them: by
    ``access.maxRunTime`` of their queue and those above it."""
    open_ = {each.id: each for each in admissions if each.state is AdmissionState.OPEN}
    first = min(open_.values(), key=lambda each: (each.opened_at, each.id), default=None)
    limit = None if first is None else tree.run_limit(first.queue)
    if first is None or limit is None:
        return tuple(told)
    ends = rfc3339(limit.end(first.opened_at))
    return tuple(msgspec.structs.replace(each, ends=ends) if each.id in open_ else each for each in told)

"""What follows for a CronJob now: a Job to start, Jobs to delete, what is reported, and when to look again. Pure.

The name of a Job contains the time for which it was started, so that no time is used twice: not by two leaders, and not
after a crash between a start and its record in the status.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any, Final

from pydantic import ValidationError

from admission.job_starts.owned_jobs import OwnedJob
from queues.api.api_resources import VOLCANO_JOBS
from queues.api.metadata import ObjectMeta
from queues.api.names import BATCH_VOLCANO, SCHEDULED_TIME, USER
from queues.api.schedules.cron import MOST_MISSED, Schedule, schedule_of, zone_of
from queues.api.schedules.cron_job_rules import LONGEST_CRON_NAME, schedule_violations
from queues.api.schedules.made_jobs import Document, made_job
from queues.api.types.cron_job import VolcanoCronJob, VolcanoCronJobSpec
from queues.api.types.volcano_job import JobPhase
from queues.api.validation.violations import of_model
from queues.json_values import text_at
from queues.text_format import rfc3339, second_at

#: Jobs of one CronJob that its status names; more would make it as large as an object may be.
_MOST_ACTIVE: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class CronJobFact:
    """A CronJob, as far as it matters when its Jobs start."""

    namespace: str
    name: str
    uid: str
    spec: VolcanoCronJobSpec = field(default_factory=VolcanoCronJobSpec)
    #: The jobTemplate as it was written, with fields that have no model.
    template: Document = field(default_factory=dict)
    #: Seconds since the epoch.
    created: int = 0
    deleting: bool = False
    #: Of the status; None if not yet.
    last_scheduled: int | None = None
    last_successful: int | None = None
    #: Its status.
    status: Document = field(default_factory=dict)
    #: Uids of Jobs that the status calls active.
    active: frozenset[str] = frozenset()
    #: The user who created it; "": not known.
    user: str = ""
    #: Why no Job can be started; "": one can.
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CronNote:
    """Something to report about a CronJob."""

    #: As Volcano's controller calls it.
    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CronStep:
    """What follows for a CronJob."""

    #: The time (seconds since the epoch) for which a Job is to be started; None if none is.
    start: int | None = None
    #: Jobs that go first.
    replaced: tuple[OwnedJob, ...] = ()
    #: Jobs that ended, beyond the limits.
    outdated: tuple[OwnedJob, ...] = ()
    notes: tuple[CronNote, ...] = ()
    #: Seconds since the epoch; None if not before something changes.
    look_again: int | None = None


def cron_job_fact(document: Document) -> CronJobFact:
    """A CronJob's document, as the API server has it. What cannot be read becomes its problem."""
    metadata, status = document.get("metadata") or {}, document.get("status") or {}
    active = status.get("active")
    fact: dict[str, Any] = {
        "namespace": metadata.get("namespace", ""),
        "name": metadata.get("name", ""),
        "uid": metadata.get("uid", ""),
        "created": second_at(text_at(metadata, "creationTimestamp")) or 0,
        "deleting": metadata.get("deletionTimestamp") is not None,
        "last_scheduled": second_at(text_at(status, "lastScheduleTime")),
        "last_successful": second_at(text_at(status, "lastSuccessfulTime")),
        "status": status,
        "active": frozenset(
            uid
            for each in (active if isinstance(active, list) else ())
            if isinstance(each, dict) and isinstance(uid := each.get("uid"), str)
        ),
        "user": (metadata.get("annotations") or {}).get(USER, ""),
    }
    written = document.get("spec") or {}
    try:
        spec = VolcanoCronJobSpec.parse(written)
    except ValidationError as error:
        first = of_model(error, "spec")[0]
        return CronJobFact(**fact, problem=first.message)
    template = written.get("jobTemplate") or {}
    cron = VolcanoCronJob(metadata=ObjectMeta(name=fact["name"]), spec=spec)
    wrong = next((each.message.strip() for each in schedule_violations(cron) if not each.tolerable), "")
    if not wrong and len(cron.metadata.name) > LONGEST_CRON_NAME:
        wrong = (
            f"metadata.name: found {len(cron.metadata.name)} characters, expected at most {LONGEST_CRON_NAME}"
        )
    return CronJobFact(**fact, spec=spec, template=template, problem=wrong)


def step(cron: CronJobFact, jobs: Sequence[OwnedJob], now: int) -> CronStep:
    """What follows at a time for a CronJob and the Jobs that it controls."""
    if cron.deleting:
        return CronStep()
    outdated = tuple(_outdated(cron, jobs))
    if cron.problem or cron.spec.suspend:
        return CronStep(outdated=outdated)
    schedule, zone = schedule_of(cron.spec.schedule), zone_of(cron.spec.time_zone)
    last = last_scheduled(cron, jobs) or cron.created
    due = schedule.last_until(now, zone, after=last)
    look_again = schedule.next_after(now if not schedule.every else due or last, zone)
    if due is None:
        return CronStep(outdated=outdated, look_again=look_again)
    deadline = cron.spec.starting_deadline_seconds
    if deadline is not None and due + deadline < now:
        told = f"Missed scheduled time to start a job: {rfc3339(due)}, more than {deadline} seconds ago"
        note = CronNote(reason="MissSchedule", message=told, warning=True)
        return CronStep(outdated=outdated, notes=(note,), look_again=look_again)
    active = [job for job in jobs if not job.ended or job.deleting]
    if active and cron.spec.concurrency_policy == "Forbid":
        told = (
            f"Skipping job creation because another job is already running: {active[0].name};"
            f" the time {rfc3339(due)} is made up for when it has ended"
        )
        note = CronNote(reason="ForbidConcurrent", message=told, warning=True)
        return CronStep(outdated=outdated, notes=(note,), look_again=look_again)
    replaced: tuple[OwnedJob, ...] = ()
    notes = tuple(_missed(schedule, zone, max(last, now - (deadline or now)), now))
    if cron.spec.concurrency_policy == "Replace":
        replaced = tuple(job for job in active if not job.deleting)
    return CronStep(
        start=due,
        replaced=replaced,
        outdated=outdated,
        notes=notes,
        look_again=look_again,
    )


def last_scheduled(cron: CronJobFact, jobs: Sequence[OwnedJob]) -> int | None:
    """The last time for which a Job was started, as the status or the Jobs say; None if there was none."""
    times = [job.scheduled for job in jobs if job.scheduled is not None]
    if cron.last_scheduled is not None:
        times.append(cron.last_scheduled)
    return max(times, default=None)


def status_of(cron: CronJobFact, jobs: Sequence[OwnedJob]) -> Document:
    """The fields of the status, as they should be."""
    active = sorted((job for job in jobs if not job.ended), key=_by_age)
    successes = [job.changed for job in jobs if job.phase == JobPhase.COMPLETED and job.changed]
    if cron.last_successful is not None:
        successes.append(cron.last_successful)
    fields: Document = {}
    if active:
        fields["active"] = [_reference(cron, job) for job in active[-_MOST_ACTIVE:]]
    if (last := last_scheduled(cron, jobs)) is not None:
        fields["lastScheduleTime"] = rfc3339(last)
    if successes:
        fields["lastSuccessfulTime"] = rfc3339(max(successes))
    return fields


def job_document(cron: CronJobFact, scheduled: int, *, namespace_queue: str | None) -> Document:
    """The Job to be started for a time, not yet signed. ``namespace_queue``: the queue of its namespace; None if it has
    none."""
    template = cron.spec.job_template.metadata
    annotations = {**template.annotations, SCHEDULED_TIME: rfc3339(scheduled)}
    owner = {
        "apiVersion": BATCH_VOLCANO,
        "kind": "CronJob",
        "name": cron.name,
        "uid": cron.uid,
        "controller": True,
    }
    metadata = {
        "name": f"{cron.name}-{scheduled // 60}",
        "namespace": cron.namespace,
        "labels": dict(template.labels),
        "annotations": annotations,
        "ownerReferences": [owner],
    }
    return made_job(metadata, cron.template.get("spec"), namespace_queue=namespace_queue)


def _missed(schedule: Schedule, zone: tzinfo, after: int, now: int) -> Iterator[CronNote]:
    if schedule.missed(after, now, zone) > MOST_MISSED:
        told = (
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew;"
            " the last one is made up for"
        )
        yield CronNote(reason="TooManyMissedTimes", message=told, warning=True)


def _outdated(cron: CronJobFact, jobs: Sequence[OwnedJob]) -> Iterator[OwnedJob]:
    """Jobs that ended, the oldest first, beyond the limits. One that the status has not taken in yet stays."""
    recorded = cron.last_scheduled if cron.last_scheduled is not None else -1
    limits = (
        ((JobPhase.COMPLETED,), cron.spec.successful_jobs_history_limit),
        ((JobPhase.FAILED, JobPhase.TERMINATED), cron.spec.failed_jobs_history_limit),
    )
    for phases, most in limits:
        ended = sorted((job for job in jobs if job.phase in phases and not job.deleting), key=_by_age)
        for job in ended[: max(0, len(ended) - most)]:
            successful = job.phase != JobPhase.COMPLETED or (cron.last_successful or 0) >= job.changed
            if (job.scheduled or 0) <= recorded and successful and job.uid not in cron.active:
                yield job


def _by_age(job: OwnedJob) -> tuple[int, int, str]:
    return job.scheduled or job.created, job.created, job.name


def _reference(cron: CronJobFact, job: OwnedJob) -> Document:
    return {
        "apiVersion": VOLCANO_JOBS.api_version,
        "kind": VOLCANO_JOBS.kind,
        "namespace": cron.namespace,
        "name": job.name,
        "uid": job.uid,
    }

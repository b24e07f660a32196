"""Rules for Volcano CronJobs, with the wording of Volcano's validating webhook where it has one."""

from collections.abc import Collection, Iterator, Mapping
from datetime import UTC
from typing import Final

from queues.api.model import excerpt
from queues.api.reading.user_values import is_dns_name
from queues.api.schedules.cron import (
    SHORTEST_INTERVAL,
    InvalidSchedule,
    UnknownTimeZone,
    schedule_of,
    zone_of,
)
from queues.api.schedules.made_jobs import made_job, made_job_violations
from queues.api.types.cron_job import VolcanoCronJob
from queues.api.validation.violations import NOT_A_LABEL, Violation
from queues.quota.queue import Queue

#: Characters of a CronJob's name: those of its Jobs have a dash and the minutes since 1970 behind it.
LONGEST_CRON_NAME: Final = 52
#: Such minutes.
_MINUTES: Final = "00000000"


def cron_job_violations(
    cron: VolcanoCronJob, queues: Mapping[str, Queue] | None, levels: Collection[str] | None
) -> list[Violation]:
    """Violations of a CronJob and of its Jobs. ``queues``, ``levels``: as for ``job_violations``."""
    return [*schedule_violations(cron), *_name(cron), *_jobs(cron, queues, levels)]


def schedule_violations(cron: VolcanoCronJob) -> Iterator[Violation]:
    """Violations of a schedule and its time zone: while there is one, no Job is started."""
    text, zone = cron.spec.schedule, cron.spec.time_zone
    if not text:
        yield Violation("spec.schedule", "nothing", "a schedule", " schedule is required, but got empty")
    elif "TZ" in text:
        wording = (
            " schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field:"
            f" found {excerpt(text)}"
        )
        yield Violation("spec.schedule", excerpt(text), "no TZ: write spec.timeZone", wording)
    else:
        yield from _readable(text)
    if zone == "":
        wording = " timeZone must be nil or non-empty string, got empty string"
        yield Violation("spec.timeZone", "''", "a time zone, or no such field", wording)
    elif zone is not None and zone.lower() == "local":
        wording = " timeZone can't be Local, and must be defined in https://www.iana.org/time-zones"
        yield Violation("spec.timeZone", excerpt(zone), "a name such as Europe/Berlin", wording)
    else:
        try:
            zone_of(zone)
        except UnknownTimeZone:
            wording = f" unknown timeZone: found {excerpt(zone)}, expected a name such as Europe/Berlin"
            yield Violation("spec.timeZone", excerpt(zone), "a name such as Europe/Berlin", wording)


def _readable(text: str) -> Iterator[Violation]:
    try:
        schedule = schedule_of(text)
    except InvalidSchedule as error:
        wording = f"schedule is not a valid cron expression: {error}"
        expected = f"a schedule such as '30 2 * * 1-5': {error.facts['why']}"
        yield Violation("spec.schedule", excerpt(text), expected, wording)
        return
    if schedule.every == SHORTEST_INTERVAL and text.split()[1] not in ("60s", "1m", "1m0s"):
        expected = "at least a minute, which it is taken for"
        yield Violation("spec.schedule", excerpt(text), expected, tolerable=True)
    elif schedule.next_after(0, UTC) is None:
        expected = "a day that there is: this schedule never starts a Job"
        yield Violation("spec.schedule", excerpt(text), expected, tolerable=True)


def _name(cron: VolcanoCronJob) -> Iterator[Violation]:
    name = cron.metadata.name
    if len(name) > LONGEST_CRON_NAME:
        wording = (
            f"cronJob name must be no more than {LONGEST_CRON_NAME} characters to accommodate job name suffix"
            f" (max 63 total): found {len(name)}"
        )
        expected = f"at most {LONGEST_CRON_NAME} characters"
        yield Violation("metadata.name", f"{len(name)} characters", expected, wording)
    elif name and not is_dns_name(name):
        yield Violation(
            "metadata.name", excerpt(name), NOT_A_LABEL, f'invalid cronJob name "{name}": {NOT_A_LABEL}'
        )


def _jobs(
    cron: VolcanoCronJob, queues: Mapping[str, Queue] | None, levels: Collection[str] | None
) -> Iterator[Violation]:
    template = cron.spec.job_template.document()
    # The name is judged by itself; here it is about those of pods.
    metadata = {**(template.get("metadata") or {}), "name": f"{cron.metadata.name[:52] or 'x'}-{_MINUTES}"}
    job = made_job({**metadata, "namespace": cron.metadata.namespace}, template.get("spec"))
    for each in made_job_violations(job, queues, levels):
        if each.path not in ("metadata.name", "metadata.generateName"):
            yield each.below("spec.jobTemplate")

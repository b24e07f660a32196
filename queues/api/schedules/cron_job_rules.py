"""Rules for Volcano CronJobs, those of Volcano's validating webhook among them."""

from collections.abc import Iterator
from datetime import UTC
from typing import Final

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
from queues.api.validation.known import Known
from queues.api.validation.violations import NOT_A_LABEL, Violation
from queues.text_format import excerpt

#: Characters of a CronJob's name: those of its Jobs have a dash and the minutes since 1970 behind it.
LONGEST_CRON_NAME: Final = 52
#: Such minutes.
_MINUTES: Final = "00000000"


def cron_job_violations(cron: VolcanoCronJob, known: Known) -> list[Violation]:
    """Violations of a CronJob and of its Jobs."""
    return [*schedule_violations(cron), *_name(cron), *_jobs(cron, known)]


def schedule_violations(cron: VolcanoCronJob) -> Iterator[Violation]:
    """Violations of a schedule and its time zone: while there is one, no Job is started."""
    text, zone = cron.spec.schedule, cron.spec.time_zone
    if not text:
        yield Violation("spec.schedule", "nothing", "a schedule")
    elif "TZ" in text:
        yield Violation("spec.schedule", excerpt(text), "no TZ: write spec.timeZone")
    else:
        yield from _readable(text)
    try:
        zone_of(zone)
    except UnknownTimeZone:
        expected = "a name of the IANA database such as Europe/Berlin, or no such field, for UTC"
        yield Violation("spec.timeZone", excerpt(zone), expected)


def _readable(text: str) -> Iterator[Violation]:
    try:
        schedule = schedule_of(text)
    except InvalidSchedule as error:
        expected = f"a schedule such as '30 2 * * 1-5': {error.facts['why']}"
        yield Violation("spec.schedule", excerpt(text), expected)
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
        expected = f"at most {LONGEST_CRON_NAME} characters: the names of its Jobs have more behind it"
        yield Violation("metadata.name", f"{len(name)} characters", expected)
    elif name and not is_dns_name(name):
        yield Violation("metadata.name", excerpt(name), NOT_A_LABEL)


def _jobs(cron: VolcanoCronJob, known: Known) -> Iterator[Violation]:
    template = cron.spec.job_template.document()
    # The name is judged by itself; here it is about those of pods.
    metadata = {**(template.get("metadata") or {}), "name": f"{cron.metadata.name[:52] or 'x'}-{_MINUTES}"}
    job = made_job({**metadata, "namespace": cron.metadata.namespace}, template.get("spec"))
    for each in made_job_violations(job, known):
        if each.path not in ("metadata.name", "metadata.generateName"):
            yield each.below("spec.jobTemplate")

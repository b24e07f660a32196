"""Volcano's CronJob, batch.volcano.sh/v1alpha1: field names and defaults are Volcano's, and those of Kubernetes."""

from typing import Literal

from pydantic import Field

from queues.api.metadata import ObjectMeta
from queues.api.model import Count, Flag, Labels, Model, OpenModel, Text, Time
from queues.api.names import BATCH_VOLCANO
from queues.api.types.volcano_job import VolcanoJobSpec, Whole


class JobTemplateMetadata(OpenModel):
    """Labels and annotations of each Job."""

    #: Labels of each Job.
    labels: Labels = Field(default_factory=dict)
    #: Annotations of each Job.
    annotations: Labels = Field(default_factory=dict)


class CronJobTemplate(OpenModel):
    """What each Job is made from."""

    #: Labels and annotations of each Job.
    metadata: JobTemplateMetadata = JobTemplateMetadata()
    #: What each Job is.
    spec: VolcanoJobSpec = VolcanoJobSpec()


class VolcanoCronJobSpec(OpenModel):
    """When Jobs are started, and which."""

    #: When: five fields of cron, or ``@hourly`` and the like.
    # The rules in cron_job_rules have better messages than a pattern.
    schedule: Text = ""
    #: Absent: UTC.
    time_zone: Text | None = None
    #: Seconds after its time in which a start that was missed is made up for. Absent: without limit.
    starting_deadline_seconds: Count | None = None
    #: Whether a Job may start while one before it has not ended; Replace ends that one.
    concurrency_policy: Literal["Allow", "Forbid", "Replace"] = "Allow"
    #: No Job is started.
    suspend: Flag = False
    #: What each Job is made from.
    job_template: CronJobTemplate = CronJobTemplate()
    #: Jobs that succeeded that are kept.
    successful_jobs_history_limit: Count = 3
    #: Jobs that failed that are kept.
    failed_jobs_history_limit: Count = 1


class VolcanoCronJobStatus(Model):
    """Jobs that have not ended, and the last times."""

    #: ObjectReferences.
    active: tuple[Whole, ...] = ()
    #: The last time for which a Job was started.
    last_schedule_time: Time | None = None
    #: When a Job last succeeded.
    last_successful_time: Time | None = None
    #: What keeps Jobs from being started.
    conditions: tuple[Whole, ...] = ()


class VolcanoCronJob(Model):
    """A Volcano CronJob."""

    api_version: Literal["batch.volcano.sh/v1alpha1"] = BATCH_VOLCANO
    kind: Literal["CronJob"] = "CronJob"
    metadata: ObjectMeta = ObjectMeta()
    spec: VolcanoCronJobSpec = VolcanoCronJobSpec()
    status: VolcanoCronJobStatus = VolcanoCronJobStatus()

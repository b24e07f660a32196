"""Kubernetes' own Jobs and Pods as documents: the fields that admission needs."""

from typing import Literal

from pydantic import Field

from queues.api.metadata import ObjectMeta
from queues.api.model import Count, Flag, Model, Text
from queues.api.names import BATCH, CORE
from queues.api.types.volcano_job import Whole


class BatchJobSpec(Model):
    """The number of pods, and when the Job is complete or failed."""

    #: Pods at the same time; the gang of an Indexed Job with as many completions.
    parallelism: Count = 1
    #: None if one success ends the Job.
    completions: Count | None = None
    completion_mode: Literal["NonIndexed", "Indexed"] = "NonIndexed"
    suspend: Flag = False
    backoff_limit: Count | None = None
    backoff_limit_per_index: Count | None = None
    max_failed_indexes: Count | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: Count | None = None
    #: A PodTemplateSpec.
    template: Whole = Field(default_factory=dict)


class BatchJobStatus(Model):
    """Counts of the Job's pods."""

    active: Count = 0
    succeeded: Count = 0
    failed: Count = 0
    ready: Count = 0
    completed_indexes: Text = ""
    failed_indexes: Text = ""


class BatchJob(Model):
    """A Job of batch/v1. It is suspended while it waits."""

    api_version: Literal["batch/v1"] = BATCH
    kind: Literal["Job"] = "Job"
    metadata: ObjectMeta = ObjectMeta()
    spec: BatchJobSpec = BatchJobSpec()
    status: BatchJobStatus = BatchJobStatus()


class Pod(Model):
    """A Pod. Its spec is read by ``queues.api.types.pod``."""

    api_version: Literal["v1"] = CORE
    kind: Literal["Pod"] = "Pod"
    metadata: ObjectMeta = ObjectMeta()
    #: A PodSpec.
    spec: Whole = Field(default_factory=dict)

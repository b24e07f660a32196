"""Volcano Jobs as the CronJob or JobFlow sees them that started them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from admission.wire import WireMetadata, WireStruct
from queues.api.names import CREATED_BY_TEMPLATE, SCHEDULED_TIME
from queues.api.reading.user_values import number
from queues.api.types.volcano_job import JobPhase
from queues.text_format import second_at

#: Phases in which a Job does nothing any more. An aborted one may be resumed.
ENDED: Final = frozenset({JobPhase.COMPLETED, JobPhase.FAILED, JobPhase.TERMINATED})
#: Kinds of their owners.
OWNER_KINDS: Final = ("CronJob", "JobFlow")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedJob:
    """A Volcano Job with a controller."""

    namespace: str = ""
    name: str
    uid: str
    #: Uid of the CronJob or JobFlow.
    owner: str
    phase: str = ""
    #: Seconds since the epoch; 0: not known.
    created: int = 0
    #: When it entered its phase; 0: not known.
    changed: int = 0
    deleting: bool = False
    #: Of a CronJob's: the time for which it was started; None if not known.
    scheduled: int | None = None
    #: Of a JobFlow's: the name of the JobTemplate; "": not known.
    template: str = ""
    #: Task → the pods that have to be there for it to run.
    tasks: Mapping[str, int] = field(default_factory=dict)
    #: Task → pod phase → pods.
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    retries: int = 0
    running_duration: str = ""

    @property
    def ended(self) -> bool:
        """Whether it does nothing any more."""
        return self.phase in ENDED


class _Task(WireStruct):
    name: str = ""
    replicas: int = 1
    min_available: int | None = None


class _Spec(WireStruct):
    tasks: tuple[_Task, ...] | None = None


class _State(WireStruct):
    phase: str | None = None
    last_transition_time: str | None = None


class _TaskCounts(WireStruct):
    phase: dict[str, int] | None = None


class _Status(WireStruct):
    state: _State = msgspec.field(default_factory=_State)
    task_status_count: dict[str, _TaskCounts] | None = None
    retry_count: int = 0
    running_duration: str | None = None


class _Job(WireStruct):
    metadata: WireMetadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_DECODER: Final = msgspec.json.Decoder(_Job)


def owned_job(document: bytes | msgspec.Raw) -> OwnedJob | None:
    """The Job of a document; None if no CronJob or JobFlow controls it, or if it cannot be read."""
    try:
        job = _DECODER.decode(document)
    except (msgspec.DecodeError, RecursionError):
        return None
    metadata, status = job.metadata, job.status
    owner = next(
        (each for each in metadata.owner_references or () if each.controller and each.kind in OWNER_KINDS),
        None,
    )
    if owner is None:
        return None
    annotations = metadata.annotations or {}
    return OwnedJob(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        owner=owner.uid,
        phase=status.state.phase or "",
        created=second_at(metadata.creation_timestamp or "") or 0,
        changed=second_at(status.state.last_transition_time or "") or 0,
        deleting=metadata.deletion_timestamp is not None,
        scheduled=_scheduled(metadata.name, annotations) if owner.kind == "CronJob" else None,
        template=annotations.get(CREATED_BY_TEMPLATE, "").removeprefix(f"{metadata.namespace}."),
        tasks={
            task.name: task.replicas if task.min_available is None else task.min_available
            for task in job.spec.tasks or ()
        },
        counts={name: each.phase or {} for name, each in (status.task_status_count or {}).items()},
        retries=status.retry_count,
        running_duration=status.running_duration or "",
    )


def _scheduled(name: str, annotations: Mapping[str, str]) -> int | None:
    """Of the annotation; else of the name, which ends with the minutes since 1970."""
    time = second_at(annotations.get(SCHEDULED_TIME, ""))
    if time is not None:
        return time
    minutes = number(name.rpartition("-")[2])
    return None if minutes is None else 60 * minutes

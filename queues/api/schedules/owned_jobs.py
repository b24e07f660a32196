"""Volcano Jobs as the CronJob or JobFlow sees them that started them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from queues.api.names import CREATED_BY_TEMPLATE, SCHEDULED_TIME
from queues.api.reading.user_values import number
from queues.api.types.volcano_job import JobPhase

#: Phases in which a Job does nothing any more. An aborted one may be resumed.
ENDED: Final = frozenset({JobPhase.COMPLETED, JobPhase.FAILED, JobPhase.TERMINATED})
#: Characters of a time, with a fraction of a second.
_LONGEST_TIME: Final = 40
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


class _Owner(msgspec.Struct, gc=False, rename="camel"):
    kind: str = ""
    uid: str = ""
    controller: bool | None = None


class _Metadata(msgspec.Struct, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[_Owner, ...] | None = None


class _Task(msgspec.Struct, gc=False, rename="camel"):
    name: str = ""
    replicas: int = 1
    min_available: int | None = None


class _Spec(msgspec.Struct, gc=False):
    tasks: tuple[_Task, ...] | None = None


class _State(msgspec.Struct, gc=False, rename="camel"):
    phase: str | None = None
    last_transition_time: str | None = None


class _TaskCounts(msgspec.Struct, gc=False):
    phase: dict[str, int] | None = None


class _Status(msgspec.Struct, gc=False, rename="camel"):
    state: _State = msgspec.field(default_factory=_State)
    task_status_count: dict[str, _TaskCounts] | None = None
    retry_count: int = 0
    running_duration: str | None = None


class _Job(msgspec.Struct, gc=False):
    metadata: _Metadata
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
        created=seconds_of_time(metadata.creation_timestamp) or 0,
        changed=seconds_of_time(status.state.last_transition_time) or 0,
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
    time = seconds_of_time(annotations.get(SCHEDULED_TIME))
    if time is not None:
        return time
    minutes = number(name.rpartition("-")[2])
    return None if minutes is None else 60 * minutes


def seconds_of_time(text: Any) -> int | None:
    """Seconds since the epoch of an RFC 3339 time; None if the text is no such time."""
    return _seconds(text) if isinstance(text, str) and len(text) <= _LONGEST_TIME else None


@lru_cache(maxsize=8192)
def _seconds(text: str) -> int | None:
    try:
        time = datetime.fromisoformat(text)
        return int(time.timestamp()) if time.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None

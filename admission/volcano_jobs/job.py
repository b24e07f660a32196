"""What a Volcano Job says, as this package needs it: numbers as values, pod templates as bytes.

Defaults are those of Volcano's mutating webhook, so a Job reads the same whether or not a webhook saw it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from queues.api.names import DEFAULT_QUEUE, QUEUE_LABEL
from queues.errors import InvalidDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """Pods of one shape: ``<job>-<task>-0`` … ``<job>-<task>-<replicas-1>``."""

    name: str
    replicas: int = 1
    #: Of these so many must start together and succeed.
    minimum: int = 0
    #: The pod template as JSON, untouched; decoded only while a pod is made.
    template: bytes = b"{}"
    #: ``hostname`` and ``subdomain`` of the template; "" = made from names.
    hostname: str = ""
    subdomain: str = ""
    #: Pods per partition; 0 = no partitions.
    partition_size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeSpec:
    """A volume mounted in every container of every pod of the Job."""

    mount_path: str
    #: An existing claim; "" = one is made from ``claim``.
    claim_name: str = ""
    claim: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """One generation of a Volcano Job."""

    namespace: str
    name: str
    uid: str
    generation: int = 0
    queue: str = "default"
    #: As written; mapped when pods are made.
    scheduler_name: str = ""
    priority_class: str = ""
    #: Gang size.
    minimum: int
    tasks: tuple[TaskSpec, ...]
    #: Plugin name → its flags as written.
    plugins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    volumes: tuple[VolumeSpec, ...] = ()
    max_retry: int = 3
    #: The Job is Completed when so many pods have succeeded; None = not before all have ended.
    min_success: int | None = None
    #: Seconds after the end until the Job is deleted; None = it is kept.
    ttl: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    #: ``networkTopology`` as written, copied to the PodGroup.
    network_topology: Mapping[str, Any] | None = None
    #: Fields that were written and are not acted on yet.
    unsupported: tuple[str, ...] = ()

    @property
    def group_name(self) -> str:
        """Name of the PodGroup that stands for the Job."""
        return f"{self.name}-{self.uid}"

    @property
    def replicas(self) -> int:
        """Pods of all tasks."""
        return sum(task.replicas for task in self.tasks)

    def task(self, name: str) -> TaskSpec | None:
        """The task of that name."""
        return next((task for task in self.tasks if task.name == name), None)

    def pod_name(self, task: str, index: int) -> str:
        """Volcano's deterministic name of a pod."""
        return f"{self.name}-{task}-{index}"


def read_job(document: bytes | Mapping[str, Any]) -> JobSpec:
    """From a whole Job object, JSON or decoded. Raises InvalidDocument."""
    raw = document if isinstance(document, bytes) else msgspec.json.encode(document)
    try:
        job = _decoder.decode(raw)
        tasks = tuple(_task(position, task) for position, task in enumerate(job.spec.tasks))
    except msgspec.DecodeError as error:
        raise InvalidDocument(
            where="Job", found=str(error), expected="a batch.volcano.sh/v1alpha1 Job"
        ) from error
    return JobSpec(
        namespace=job.metadata.namespace,
        name=job.metadata.name,
        uid=job.metadata.uid,
        generation=job.metadata.generation,
        queue=job.metadata.labels.get(QUEUE_LABEL) or job.spec.queue or DEFAULT_QUEUE,
        scheduler_name=job.spec.schedulerName,
        priority_class=job.spec.priorityClassName,
        minimum=job.spec.minAvailable or sum(task.minimum for task in tasks),
        tasks=tasks,
        plugins={name: tuple(flags or ()) for name, flags in job.spec.plugins.items()},
        volumes=tuple(
            VolumeSpec(
                mount_path=volume.mountPath, claim_name=volume.volumeClaimName, claim=volume.volumeClaim
            )
            for volume in job.spec.volumes
        ),
        max_retry=job.spec.maxRetry or 3,
        min_success=job.spec.minSuccess,
        ttl=job.spec.ttlSecondsAfterFinished,
        labels=job.metadata.labels,
        annotations=job.metadata.annotations,
        network_topology=job.spec.networkTopology,
        unsupported=_unsupported(job.spec),
    )


# What is read, under the names of the API.
class _Metadata(msgspec.Struct, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _Volume(msgspec.Struct):
    mountPath: str = ""  # noqa: N815
    volumeClaimName: str = ""  # noqa: N815
    volumeClaim: dict[str, Any] | None = None  # noqa: N815


class _Partition(msgspec.Struct):
    partitionSize: int = 0  # noqa: N815
    minPartitions: int = 0  # noqa: N815


class _Task(msgspec.Struct):
    name: str = ""
    replicas: int = 1
    minAvailable: int | None = None  # noqa: N815
    template: msgspec.Raw = msgspec.Raw(b"{}")
    partitionPolicy: _Partition | None = None  # noqa: N815
    policies: list[msgspec.Raw] = []
    dependsOn: Any = None  # noqa: N815
    topologyPolicy: str = ""  # noqa: N815


class _Spec(msgspec.Struct):
    queue: str = ""
    schedulerName: str = ""  # noqa: N815
    priorityClassName: str = ""  # noqa: N815
    minAvailable: int = 0  # noqa: N815
    tasks: list[_Task] = []
    plugins: dict[str, list[str] | None] = {}
    volumes: list[_Volume] = []
    maxRetry: int = 3  # noqa: N815
    minSuccess: int | None = None  # noqa: N815
    ttlSecondsAfterFinished: int | None = None  # noqa: N815
    networkTopology: dict[str, Any] | None = None  # noqa: N815
    policies: list[msgspec.Raw] = []
    runningEstimate: Any = None  # noqa: N815


class _Job(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


class _Names(msgspec.Struct):
    hostname: str = ""
    subdomain: str = ""


class _Template(msgspec.Struct):
    spec: _Names = msgspec.field(default_factory=_Names)


_decoder = msgspec.json.Decoder(_Job)

_template_decoder = msgspec.json.Decoder(_Template)


def _task(position: int, task: _Task) -> TaskSpec:
    names = _template_decoder.decode(task.template).spec
    partition = task.partitionPolicy or _Partition()
    minimum = task.minAvailable
    if minimum is None:
        minimum = partition.minPartitions * partition.partitionSize or task.replicas
    return TaskSpec(
        name=task.name or f"default{position}",
        replicas=task.replicas,
        minimum=minimum,
        template=bytes(task.template),
        hostname=names.hostname,
        subdomain=names.subdomain,
        partition_size=partition.partitionSize,
    )


def _unsupported(spec: _Spec) -> tuple[str, ...]:
    fields = ["spec.policies"] if spec.policies else []
    for position, task in enumerate(spec.tasks):
        where = f"spec.tasks[{position}]"
        if task.policies:
            fields.append(f"{where}.policies")
        if task.dependsOn is not None:
            fields.append(f"{where}.dependsOn")
        if task.topologyPolicy not in ("", "none"):
            fields.append(f"{where}.topologyPolicy")
    if spec.runningEstimate is not None:
        fields.append("spec.runningEstimate")
    return tuple(fields)

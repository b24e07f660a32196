"""A Volcano Job's document as values; pod templates stay bytes until a pod is created.

Defaults are those of Volcano's mutating webhook, so a Job reads the same whether or not a webhook saw it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import msgspec

from admission.wire import Int32, WireMetadata, WireNetworkTopology, WireStruct
from queues.api.model import excerpt
from queues.api.names import DEFAULT_QUEUE, QUEUE_LABEL
from queues.api.reading.user_values import MOST_ENTRIES, MOST_POD_SETS, duration
from queues.api.validation.defaults import MAX_RETRY, with_needed_plugins
from queues.api.validation.plugin_flags import unsupported_plugins
from queues.api.validation.unsupported import UNTIMED, unsupported_fields
from queues.errors import InvalidDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySpec:
    """An action that the owner of a Job wants on an event, or on an exit code."""

    action: str
    events: frozenset[str] = frozenset()
    exit_code: int | None = None
    #: Seconds for which what is seen must last; 0: none.
    timeout: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """Pods of one shape: ``<job>-<task>-0`` … ``<job>-<task>-<replicas-1>``."""

    name: str
    replicas: int = 1
    #: Pods of the task that must start together, and succeed.
    minimum: int = 0
    #: The pod template as written, JSON; decoded only while a pod is created.
    template: bytes = b"{}"
    #: ``hostname`` and ``subdomain`` of the template; "": they follow from the names of pod and Job.
    hostname: str = ""
    subdomain: str = ""
    #: Pods per partition; 0: the task has no partitions.
    partition_size: int = 0
    #: Partitions that must start together, each whole; 0: no minimum of their own.
    min_partitions: int = 0
    #: How close the pods of a partition must be; None for anywhere.
    partition_topology: WireNetworkTopology | None = None
    #: In their order; they go before those of the Job.
    policies: tuple[PolicySpec, ...] = ()
    #: Names of tasks that are started before; with ``depends_on_any`` one of them is enough.
    depends_on: tuple[str, ...] = ()
    depends_on_any: bool = False
    #: Restarts of containers in all pods together after which the task has failed; -1: never.
    max_retry: int = MAX_RETRY


class VolumeSpec(WireStruct):
    """A volume mounted in every container of every pod of the Job."""

    mount_path: str = ""
    #: An existing claim; "": a claim is created from ``volume_claim``.
    volume_claim_name: str = ""
    volume_claim: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """One generation of a Volcano Job."""

    namespace: str
    name: str
    uid: str
    generation: int = 0
    queue: str = "default"
    #: As written; mapped when pods are created.
    scheduler_name: str = ""
    priority_class: str = ""
    #: Gang size.
    minimum: int
    tasks: tuple[TaskSpec, ...]
    #: Plugin name → its flags as written.
    plugins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    volumes: tuple[VolumeSpec, ...] = ()
    #: In their order.
    policies: tuple[PolicySpec, ...] = ()
    max_retry: int = MAX_RETRY
    #: Number of succeeded pods that completes the Job; None if the Job ends when all pods have ended.
    min_success: int | None = None
    #: Seconds after the end until the Job is deleted; None if the Job is kept.
    ttl: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    #: Seconds that the Job will run, as its owner expects; None if that is not said.
    running_estimate: int | None = None
    #: ``networkTopology`` as written, copied to the PodGroup.
    network_topology: Mapping[str, Any] | None = None
    #: Paths of fields that the document has and Muster does not act on yet.
    unsupported: tuple[str, ...] = ()

    @property
    def group_name(self) -> str:
        """Name of the PodGroup that stands for the Job."""
        return job_group_name(self.name, self.uid)

    @property
    def replicas(self) -> int:
        """Pods of all tasks."""
        return sum(task.replicas for task in self.tasks)

    def task(self, name: str) -> TaskSpec | None:
        """The task of that name."""
        return next((task for task in self.tasks if task.name == name), None)

    def pod_name(self, task: str, index: int) -> str:
        """The name of a pod, as Volcano forms it."""
        return f"{self.name}-{task}-{index}"


def job_group_name(name: str, uid: str) -> str:
    """Name of the PodGroup that stands for the Job of this name and uid, as Volcano forms it."""
    return f"{name}-{uid}"


def read_job(document: bytes | Mapping[str, Any]) -> JobSpec:
    """The Job of a whole document, JSON or decoded. Raises InvalidDocument."""
    raw = document if isinstance(document, bytes) else msgspec.json.encode(document)
    try:
        job = _JOB.decode(raw)
    except msgspec.DecodeError as error:
        raise _invalid(str(error)) from error
    return job_of(job.metadata, job.spec)


def job_of(metadata: WireMetadata, spec_json: msgspec.Raw) -> JobSpec:
    """The Job with this metadata and this spec. Raises InvalidDocument."""
    try:
        spec = _SPEC.decode(spec_json)
        tasks = tuple(_task(position, task) for position, task in enumerate(spec.tasks))
    except msgspec.DecodeError as error:
        found = str(error)
        where = found.replace("`$", "`$.spec") if "`$" in found else f"{found} - at `$.spec`"
        if bound := _TOO_LONG.fullmatch(where):
            raise InvalidDocument(
                where=bound[2], found="too many entries", expected=f"at most {bound[1]}"
            ) from error
        raise _invalid(where) from error
    plugins = {name: tuple(flags) for name, flags in with_needed_plugins(spec.plugins).items()}
    return JobSpec(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        generation=metadata.generation,
        queue=(metadata.labels or {}).get(QUEUE_LABEL) or spec.queue or DEFAULT_QUEUE,
        scheduler_name=spec.scheduler_name,
        priority_class=spec.priority_class_name,
        minimum=spec.min_available or sum(task.minimum for task in tasks),
        tasks=tasks,
        plugins=plugins,
        volumes=spec.volumes,
        policies=_policies(spec.policies),
        max_retry=spec.max_retry or MAX_RETRY,
        min_success=spec.min_success,
        ttl=spec.ttl_seconds_after_finished,
        labels=metadata.labels or {},
        annotations=metadata.annotations or {},
        running_estimate=duration(spec.running_estimate),
        network_topology=spec.network_topology,
        unsupported=(*unsupported_fields(spec), *unsupported_plugins(plugins)),
    )


def _invalid(found: str) -> InvalidDocument:
    return InvalidDocument(where="Job", found=found, expected="a batch.volcano.sh/v1alpha1 Job")


#: What is said of a list or map with too many entries.
_TOO_LONG: Final = re.compile(r"Expected `(?:array|object)` of length <= (\d+) - at `\$\.(.*)`")
#: Each entry of a list is read.
_FEW: Final = msgspec.Meta(max_length=MOST_ENTRIES)


# The fields that are decoded.
class _Job(WireStruct):
    metadata: WireMetadata
    spec: msgspec.Raw


class _Partition(WireStruct):
    partition_size: Int32 = 0
    min_partitions: Int32 = 0
    network_topology: WireNetworkTopology | None = None


class _Policy(WireStruct):
    action: str = ""
    event: str = ""
    events: tuple[str, ...] = ()
    exit_code: Int32 | None = None
    timeout: str | None = None

    def event_names(self) -> frozenset[str]:
        return frozenset(filter(None, (*self.events, self.event)))


class _DependsOn(WireStruct):
    name: tuple[str, ...] = ()
    iteration: str = ""


class _Task(WireStruct):
    name: str = ""
    replicas: Int32 = 0
    min_available: Int32 | None = None
    template: msgspec.Raw = msgspec.Raw(b"{}")
    partition_policy: _Partition | None = None
    policies: Annotated[tuple[_Policy, ...], _FEW] = ()
    max_retry: Int32 = MAX_RETRY
    depends_on: _DependsOn | None = None
    topology_policy: str = ""


class _Spec(WireStruct):
    queue: str = ""
    scheduler_name: str = ""
    priority_class_name: str = ""
    min_available: Int32 = 0
    tasks: Annotated[tuple[_Task, ...], msgspec.Meta(max_length=MOST_POD_SETS)] = ()
    plugins: Annotated[dict[str, Annotated[list[str], _FEW] | None], _FEW] = msgspec.field(
        default_factory=dict
    )
    volumes: Annotated[tuple[VolumeSpec, ...], _FEW] = ()
    max_retry: Int32 = MAX_RETRY
    min_success: Int32 | None = None
    ttl_seconds_after_finished: Int32 | None = None
    network_topology: dict[str, Any] | None = None
    policies: Annotated[tuple[_Policy, ...], _FEW] = ()
    running_estimate: str | None = None


class _Names(msgspec.Struct):
    hostname: str = ""
    subdomain: str = ""


class _Template(msgspec.Struct):
    spec: _Names = msgspec.field(default_factory=_Names)


_JOB: Final = msgspec.json.Decoder(_Job)

_SPEC: Final = msgspec.json.Decoder(_Spec)

_TEMPLATE: Final = msgspec.json.Decoder(_Template)


def _task(position: int, task: _Task) -> TaskSpec:
    names = _TEMPLATE.decode(task.template).spec
    partition = task.partition_policy or _Partition()
    minimum = task.min_available
    if minimum is None:
        minimum = partition.min_partitions * partition.partition_size or task.replicas
    return TaskSpec(
        name=task.name or f"default{position}",
        replicas=task.replicas,
        minimum=minimum,
        template=bytes(task.template),
        hostname=names.hostname,
        subdomain=names.subdomain,
        partition_size=partition.partition_size,
        min_partitions=partition.min_partitions,
        partition_topology=partition.network_topology,
        policies=_policies(task.policies),
        max_retry=task.max_retry or MAX_RETRY,
        depends_on=task.depends_on.name if task.depends_on is not None else (),
        depends_on_any=task.depends_on is not None and task.depends_on.iteration == "any",
    )


def _policies(policies: tuple[_Policy, ...]) -> tuple[PolicySpec, ...]:
    """Those that have an effect (``unsupported_fields`` names the others)."""
    return tuple(
        _policy(policy)
        for policy in policies
        if policy.timeout is None or UNTIMED not in policy.event_names()
    )


def _policy(policy: _Policy) -> PolicySpec:
    seconds = duration(policy.timeout)
    if policy.timeout is not None and seconds is None:
        raise InvalidDocument(
            where="spec.policies[].timeout",
            found=excerpt(policy.timeout),
            expected="a duration as in 90s or 1h30m",
        )
    return PolicySpec(
        action=policy.action,
        events=policy.event_names(),
        exit_code=policy.exit_code,
        timeout=seconds or 0,
    )

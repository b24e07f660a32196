"""A Volcano Job's document as values; pod templates stay bytes until a pod is created.

Defaults are those of Volcano's mutating webhook, so a Job reads the same whether or not a webhook saw it.
"""

import re
from typing import Annotated, Any, Final

import msgspec

from admission.facts.volcano_jobs import JobSpec, NetworkTopologySpec, PolicySpec, TaskSpec, VolumeSpec
from admission.wire import Int32, WireMetadata, WireStruct
from queues.api.names import DEFAULT_QUEUE, QUEUE_LABEL
from queues.api.reading.user_values import MOST_ENTRIES, MOST_POD_SETS, duration
from queues.api.validation.defaults import MAX_RETRY, default_minimum, default_task_name, with_needed_plugins
from queues.api.validation.plugin_flags import unsupported_plugins
from queues.api.validation.unsupported import UNTIMED, unsupported_fields
from queues.errors import InvalidDocument
from queues.text_format import excerpt


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
class _Partition(WireStruct):
    partition_size: Int32 = 0
    min_partitions: Int32 = 0
    network_topology: NetworkTopologySpec | None = None


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


_SPEC: Final = msgspec.json.Decoder(_Spec)

_TEMPLATE: Final = msgspec.json.Decoder(_Template)


def _task(position: int, task: _Task) -> TaskSpec:
    names = _TEMPLATE.decode(task.template).spec
    partition = task.partition_policy or _Partition()
    minimum = default_minimum(task.replicas, partition.min_partitions, partition.partition_size)
    return TaskSpec(
        name=task.name or default_task_name(position),
        replicas=task.replicas,
        minimum=minimum if task.min_available is None else task.min_available,
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

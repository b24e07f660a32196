"""Facts about Volcano Jobs: what a document asks, and where its status says that the Job is. Pod templates stay bytes.

What all kinds of workloads have in common is in ``admission.facts.workloads``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from queues.api.types.pod import Int32, WireStruct
from queues.api.validation.defaults import MAX_RETRY


class NetworkTopologySpec(WireStruct):
    """How far apart pods may lie, in tiers."""

    mode: str | None = None
    highest_tier_allowed: Int32 | None = None
    highest_tier_name: str | None = None


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
    partition_topology: NetworkTopologySpec | None = None
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


class ShownState(NamedTuple):
    """Where a Volcano Job is besides its phase, as its status says: the beginning of one that the ledger does not know.

    Pods that Volcano made, or Muster with another ledger, carry the version.
    """

    version: int = 0
    retry_count: int = 0
    #: Since when (seconds) it is in its phase; 0: not known.
    since: int = 0


NOTHING_SHOWN: Final = ShownState()

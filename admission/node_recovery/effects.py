"""What has to be done to the cluster for a node's recovery, as values.

Effects of one step are carried out in their order, and the rest is left out when one fails. Each is harmless when it is
repeated.
"""

from dataclasses import dataclass

from queues.workload import NodeName, WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteNode:
    """Annotations and taint of the Node, in one patch that holds only for the version of the Node that was seen.

    In one patch, because a phase without its taint means that a person took the taint off.
    """

    node: NodeName
    #: Value of ``muster.dev/recovery``; "": remove it.
    annotation: str
    #: Whether Muster's taint is there. A person's taint of the same key stays as it is.
    tainted: bool
    #: Remove ``muster.dev/recovery-step``: it has been followed.
    consumes_order: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateJob:
    """Make a Job from a CronJob, for this node. That there is one of this name already is success."""

    node: NodeName
    #: ``namespace/name`` of the CronJob. The Job is made in the same namespace.
    template: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteJob:
    """Delete a Job with its pods."""

    node: NodeName
    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictGangs:
    """Take gangs back whole."""

    node: NodeName
    gangs: tuple[WorkloadKey, ...]
    #: What is reported to the users of the gangs.
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TryNode:
    """Let one gang on a node that killed pods, on trial (``BlackHoleDetector.try_now``)."""

    node: NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell:
    """An event of the Node."""

    node: NodeName
    reason: str
    message: str
    warning: bool = False


Effect = WriteNode | CreateJob | DeleteJob | EvictGangs | TryNode | Tell

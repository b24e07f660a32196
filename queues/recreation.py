"""Pods without an owner that were taken back: what is kept of each until it has been made again."""

from dataclasses import dataclass

from queues.workload import QueueName, WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Recreation:
    """The intent to make a pod again, stored before the pod is deleted."""

    #: Of the pod that goes.
    pod_uid: str
    #: Whose pod it is: its group, or itself.
    workload: WorkloadKey
    namespace: str
    name: str
    queue: QueueName
    #: The new pod as canonical JSON: gated, without its seat.
    manifest: str

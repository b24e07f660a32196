"""Pods that are being deleted on nodes with a kubelet that does not answer: when they count as gone. Pure.

Only a kubelet confirms that a pod has ended. Where it is silent, the pod stays Terminating, and holds its seat and its
name, for as long as the node's object exists. It counts as gone when an administrator declares the node off
(Kubernetes' taint ``node.kubernetes.io/out-of-service``, KEP-2268), or some time after both the node fell silent and
the pod's grace period was over. Then its object is removed by force, as Kubernetes' garbage collector does where the
taint is.
"""

from dataclasses import dataclass

from admission.facts.pods import PodFact
from admission.workloads.inputs import Timeouts, WorkloadInputs
from admission.workloads.seats import is_live
from queues.plan import Reason
from queues.reason_codes import ReasonCode
from queues.text_format import rfc3339


@dataclass(frozen=True, slots=True)
class LostPods:
    """Pods of a workload that are being deleted on silent nodes."""

    #: Those that count as gone.
    gone: tuple[PodFact, ...] = ()
    #: Those that do not yet.
    awaited: tuple[PodFact, ...] = ()
    #: What keeps the workload from going on; None if nothing of this kind.
    reason: Reason | None = None


def lost_pods(inputs: WorkloadInputs, now: int, timeouts: Timeouts) -> LostPods:
    """The pods of a workload that no kubelet will confirm as ended."""
    silent = inputs.silent_nodes
    if not silent:
        return LostPods()
    found = [pod for pod in inputs.pods if pod.deleting and is_live(pod) and pod.node in silent]
    times = {pod.uid: _gone_at(pod, inputs, timeouts) for pod in found}
    gone = tuple(pod for pod in found if (at := times[pod.uid]) is not None and at <= now)
    awaited = tuple(pod for pod in found if pod not in gone)
    reason = _reason(awaited[0], times[awaited[0].uid], len(awaited) - 1) if awaited else None
    return LostPods(gone, awaited, reason)


def _gone_at(pod: PodFact, inputs: WorkloadInputs, timeouts: Timeouts) -> int | None:
    """When a pod counts as gone; None if not before its node is removed or has the taint."""
    since = inputs.silent_nodes[pod.node] if pod.node is not None else None
    if since is None:
        return 0
    return max(since, pod.ends_by) + timeouts.dead_node if timeouts.dead_node else None


def _reason(pod: PodFact, at: int | None, others: int) -> Reason:
    message = f"pod {pod.name} is being deleted on node {pod.node}, which is not ready"
    message += f", and so are {others} more" if others else ""
    when = "when" if at is None else f"at {rfc3339(at)}, or as soon as"
    return Reason(
        code=ReasonCode.NODE_NOT_READY,
        message=f"{message}; it counts as gone {when} the node is removed or tainted as out of service",
    )

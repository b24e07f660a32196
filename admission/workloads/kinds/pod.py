"""Pods without a group: gated while they wait. Pure."""

from collections.abc import Sequence

from admission.workloads.inputs import WorkloadInputs
from admission.workloads.kinds.support import Holding, KindSupport, StatusForm
from admission.workloads.pod_shapes import BARE
from admission.workloads.seats import SeatMap
from queues import kind_names
from queues.api.api_resources import PODS
from queues.workload import PodSet


def _pod_sets(inputs: WorkloadInputs, places: Sequence[SeatMap]) -> tuple[PodSet, ...]:
    return tuple(pod.shape.pod_set(BARE, 1) for pod in inputs.pods[:1])


BARE_POD = KindSupport(
    kind=kind_names.POD,
    resource=PODS,
    reader=None,
    holding=Holding.GATED,
    status=StatusForm.CONDITION,
    pod_sets=_pod_sets,
    pod_set_name=lambda pod, fact: BARE,
)

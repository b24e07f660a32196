"""The labels of a workload's pods, by pod set: of a pod that exists, else of the template and of what makes the pods.

Labels in which pods of one template differ are left out. Pure.
"""

from collections.abc import Mapping

from admission.facts.pods import PodFact
from admission.facts.workloads import WorkloadFact
from admission.workloads.kinds import support_of
from queues.api import names
from queues.workload import Workload, WorkloadKind

#: Labels with the name of their object that these kinds' controllers write on pods.
_NAMED: Mapping[WorkloadKind, tuple[str, ...]] = {
    WorkloadKind.JOB_SET: ("jobset.sigs.k8s.io/jobset-name",),
    WorkloadKind.MPI_JOB: ("training.kubeflow.org/job-name",),
    WorkloadKind.PYTORCH_JOB: ("training.kubeflow.org/job-name",),
    WorkloadKind.TF_JOB: ("training.kubeflow.org/job-name",),
    WorkloadKind.XGBOOST_JOB: ("training.kubeflow.org/job-name",),
    WorkloadKind.PADDLE_JOB: ("training.kubeflow.org/job-name",),
    WorkloadKind.JAX_JOB: ("training.kubeflow.org/job-name",),
    WorkloadKind.RAY_CLUSTER: ("ray.io/cluster",),
}


def labels_of_pods(
    workload: Workload, fact: WorkloadFact | None, pods: tuple[PodFact, ...]
) -> dict[str, Mapping[str, str]]:
    """Labels by the name of the pod set; sets without known labels are left out."""
    found: dict[str, Mapping[str, str]] = {}
    if fact is not None:
        for pod_set in workload.pod_sets:
            made = _made_for(workload, pod_set.name)
            found[pod_set.name] = {**dict(fact.pod_labels.get(pod_set.name, ())), **made}
    name_of = support_of(workload.key).pod_set_name
    of_pods: dict[str, Mapping[str, str]] = {}
    for pod in pods:
        name = pod.seat[0] if pod.seat is not None else name_of(pod, fact)
        if name not in of_pods:
            of_pods[name] = dict(pod.labels)
    return {**found, **of_pods}


def _made_for(workload: Workload, pod_set: str) -> dict[str, str]:
    """Labels that a pod gets from what makes it."""
    match workload.kind:
        case WorkloadKind.JOB:
            values = (workload.key.uid, workload.key.uid, workload.name, workload.name)
            return dict(zip(names.CONTROLLER_LABELS, values, strict=True))
        case WorkloadKind.VOLCANO_JOB:
            return {
                names.JOB_NAME: workload.name,
                names.JOB_NAMESPACE: workload.namespace,
                names.TASK_SPEC: pod_set,
                names.VOLCANO_QUEUE: workload.queue,
                names.RELEASED: "true",
            }
        case kind:
            return dict.fromkeys(_NAMED.get(kind, ()), workload.name)

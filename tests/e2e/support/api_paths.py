"""Documents of the API server: where each is, and what it says."""

from typing import Any

Document = dict[str, Any]

_PATHS = {
    "Namespace": "/api/v1/namespaces",
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/namespaces/{}/pods",
    "Service": "/api/v1/namespaces/{}/services",
    "Secret": "/api/v1/namespaces/{}/secrets",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "Event": "/apis/events.k8s.io/v1/namespaces/{}/events",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "batch/v1 CronJob": "/apis/batch/v1/namespaces/{}/cronjobs",
    "batch/v1 Job": "/apis/batch/v1/namespaces/{}/jobs",
    "Job": "/apis/batch.volcano.sh/v1alpha1/namespaces/{}/jobs",
    "CronJob": "/apis/batch.volcano.sh/v1alpha1/namespaces/{}/cronjobs",
    "JobFlow": "/apis/flow.volcano.sh/v1alpha1/namespaces/{}/jobflows",
    "JobTemplate": "/apis/flow.volcano.sh/v1alpha1/namespaces/{}/jobtemplates",
    "JobSet": "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets",
    "MPIJob": "/apis/kubeflow.org/v2beta1/namespaces/{}/mpijobs",
    "PyTorchJob": "/apis/kubeflow.org/v1/namespaces/{}/pytorchjobs",
    "TFJob": "/apis/kubeflow.org/v1/namespaces/{}/tfjobs",
    "XGBoostJob": "/apis/kubeflow.org/v1/namespaces/{}/xgboostjobs",
    "PaddleJob": "/apis/kubeflow.org/v1/namespaces/{}/paddlejobs",
    "JAXJob": "/apis/kubeflow.org/v1/namespaces/{}/jaxjobs",
    "SparkApplication": "/apis/sparkoperator.k8s.io/v1beta2/namespaces/{}/sparkapplications",
    "RayCluster": "/apis/ray.io/v1/namespaces/{}/rayclusters",
    "RayJob": "/apis/ray.io/v1/namespaces/{}/rayjobs",
    "TrainJob": "/apis/trainer.kubeflow.org/v1alpha1/namespaces/{}/trainjobs",
    "RayService": "/apis/ray.io/v1/namespaces/{}/rayservices",
    "LeaderWorkerSet": "/apis/leaderworkerset.x-k8s.io/v1/namespaces/{}/leaderworkersets",
    "PodGroup": "/apis/scheduling.volcano.sh/v1beta1/namespaces/{}/podgroups",
    "Command": "/apis/bus.volcano.sh/v1alpha1/namespaces/{}/commands",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "ResourceFlavor": "/apis/muster.dev/v1alpha1/resourceflavors",
    "WorkloadKind": "/apis/muster.dev/v1alpha1/workloadkinds",
    "Widget": "/apis/example.com/v1/namespaces/{}/widgets",
    "Reservation": "/apis/muster.dev/v1alpha1/reservations",
    "NodeDrain": "/apis/muster.dev/v1alpha1/nodedrains",
    "Queue": "/apis/scheduling.volcano.sh/v1beta1/queues",
}


def path(kind: str, namespace: str, name: str = "") -> str:
    """Where the API server has objects of a kind; Kubernetes' Job is ``batch/v1 Job``, Volcano's is ``Job``."""
    return _PATHS[kind].format(namespace) + (f"/{name}" if name else "")


def kind_of(document: Document) -> str:
    """The key of ``path`` for a document."""
    version, kind = document["apiVersion"], str(document["kind"])
    return f"{version} {kind}" if version == "batch/v1" else kind


def condition(document: Document, type_: str) -> Document:
    """A condition of an object's status; {} if there is none."""
    for each in document.get("status", {}).get("conditions", ()):
        if each["type"] == type_:
            return dict(each)
    return {}

"""Operators of other projects, played: what each makes of one of its objects. Deployments, StatefulSets and Jobs are
Kubernetes' own, whose controllers make pods of what is made here."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from deploy.local.client import LocalClient
from queues.api.api_resources import (
    CRON_JOBS,
    DEPLOYMENTS,
    JOB_FLOWS,
    JOB_TEMPLATES,
    JOBS,
    LEADER_WORKER_SETS,
    POD_GROUPS,
    PODS,
    REPLICA_SETS,
    SERVICES,
    STATEFUL_SETS,
    VOLCANO_CRON_JOBS,
    VOLCANO_JOBS,
    ApiResource,
)
from queues.api.names import GROUP_ANNOTATION
from queues.api.workload_kinds import PASSING_KINDS
from queues.errors import ApiError
from tests.builders.operator_resources import (
    JAX_JOBS,
    JOB_SETS,
    MPI_JOBS,
    PADDLE_JOBS,
    PYTORCH_JOBS,
    RAY_CLUSTERS,
    RAY_JOBS,
    SPARK_APPLICATIONS,
    TF_JOBS,
    XGBOOST_JOBS,
)

Document = dict[str, Any]

#: What operators try again: made or gone meanwhile, and an API server that reads a definition again.
_TRIED_AGAIN: Final = (404, 409, 429)
#: Seconds between two looks of the operators.
_PERIOD: Final = 0.2
_LEADER_WORKER: Final = "leaderworkerset.sigs.k8s.io"
#: Annotation of what was made: the uid of the object that it was made of.
_MADE_OF: Final = "example.com/made-of"


def _named(name: str, template: Mapping[str, Any], **labels: str) -> Document:
    """A pod of a template."""
    metadata = dict(template.get("metadata", {}))
    metadata |= {"name": name, "labels": {**metadata.get("labels", {}), **labels}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def _of_roles(field: str, default: int = 1) -> Callable[[Document], list[Document]]:
    def made(document: Document) -> list[Document]:
        name = document["metadata"]["name"]
        return [
            _named(f"{name}-{role.lower()}-{index}", each["template"])
            for role, each in document["spec"][field].items()
            for index in range(each.get("replicas", default))
        ]

    return made


def _of_mpi_job(document: Document) -> list[Document]:
    """Its launcher is a Job."""
    name, roles = document["metadata"]["name"], document["spec"]["mpiReplicaSpecs"]
    launcher = dict(roles["Launcher"]["template"])
    launcher["spec"] = {"restartPolicy": "OnFailure", **launcher["spec"]}
    job = {**_job(f"{name}-launcher"), "spec": {"template": launcher}}
    workers = roles.get("Worker", {"replicas": 0})
    return [job, *(_named(f"{name}-worker-{n}", workers["template"]) for n in range(workers["replicas"]))]


def _of_job_set(document: Document) -> list[Document]:
    """Jobs with the defaults that its own webhook gives them."""
    name = document["metadata"]["name"]
    return [
        {**_job(f"{name}-{each['name']}-{index}"), "spec": _defaulted(each["template"]["spec"])}
        for each in document["spec"]["replicatedJobs"]
        for index in range(each.get("replicas", 1))
    ]


def _defaulted(spec: Mapping[str, Any]) -> Document:
    template = spec["template"]
    pods = {"restartPolicy": "OnFailure", **template["spec"]}
    return {"completionMode": "Indexed", **spec, "template": {**template, "spec": pods}}


def _of_ray_cluster(document: Document) -> list[Document]:
    name, spec = document["metadata"]["name"], document["spec"]
    pods = [_named(f"{name}-head", spec["headGroupSpec"]["template"])]
    for group in spec.get("workerGroupSpecs", ()):
        for index in range(group.get("replicas", 0) * group.get("numOfHosts", 1)):
            pods.append(_named(f"{name}-{group['groupName']}-{index}", group["template"]))
    return pods


def _of_ray_job(document: Document) -> list[Document]:
    """Its cluster, and the Job that submits."""
    name, spec = document["metadata"]["name"], document["spec"]
    asked = {"requests": {"cpu": "500m", "memory": "200Mi"}}
    container = {"name": "submitter", "image": "ray", "resources": asked}
    submitter = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    cluster = _cluster(f"{name}-cluster", document, spec["rayClusterSpec"])
    return [cluster, {**_job(name), "spec": {"backoffLimit": 2, "template": submitter}}]


def _of_ray_service(document: Document) -> list[Document]:
    return [
        _cluster(f"{document['metadata']['name']}-cluster", document, document["spec"]["rayClusterConfig"])
    ]


def _cluster(name: str, maker: Document, spec: Document) -> Document:
    """A RayCluster has a copy of its maker's labels."""
    metadata = {"name": name, "labels": dict(maker["metadata"].get("labels", {}))}
    return {
        "apiVersion": RAY_CLUSTERS.api_version,
        "kind": RAY_CLUSTERS.kind,
        "metadata": metadata,
        "spec": spec,
    }


def _of_spark_application(document: Document) -> list[Document]:
    name, spec = document["metadata"]["name"], document["spec"]

    def pod(of: str, role: Mapping[str, Any]) -> Document:
        asked = {"cpu": str(role.get("coreRequest", role.get("cores", 1))), "memory": "1Gi"}
        container = {"name": "spark", "image": spec["image"], "resources": {"requests": asked}}
        metadata = {field: dict(role.get(field, {})) for field in ("labels", "annotations")}
        return _named(
            of, {"metadata": metadata, "spec": {"containers": [container], "restartPolicy": "Never"}}
        )

    executors = range(spec["executor"]["instances"])
    return [
        pod(f"{name}-driver", spec["driver"]),
        *(pod(f"{name}-exec-{n}", spec["executor"]) for n in executors),
    ]


def _of_leader_worker_set(document: Document) -> list[Document]:
    """The leaders. The workers of each are a StatefulSet, owned by the leader's pod."""
    name, spec = document["metadata"]["name"], document["spec"]
    shape = spec["leaderWorkerTemplate"]
    template = dict(shape.get("leaderTemplate") or shape["workerTemplate"])
    # As the StatefulSet of the leaders has them.
    claims = [
        {"name": each["metadata"]["name"], "emptyDir": {}} for each in shape.get("volumeClaimTemplates", ())
    ]
    template["spec"] = {**template["spec"], "volumes": [*template["spec"].get("volumes", ()), *claims]}
    groups = range(spec.get("replicas", 1))
    return [_named(f"{name}-{n}", _labelled(template, name, str(n), shape["size"])) for n in groups]


def workers_of(pod: Document, owner: Document) -> list[Document]:
    """What the controller of LeaderWorkerSets makes of one of their leaders."""
    shape, name = owner["spec"]["leaderWorkerTemplate"], pod["metadata"]["name"]
    group = name.rpartition("-")[2]
    template = _labelled(shape["workerTemplate"], owner["metadata"]["name"], group, shape["size"])
    template["metadata"]["labels"]["played"] = name
    made = {
        "apiVersion": STATEFUL_SETS.api_version,
        "kind": STATEFUL_SETS.kind,
        "metadata": {"name": name},
        "spec": {
            "replicas": shape["size"] - 1,
            "ordinals": {"start": 1},
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"played": name}},
            "template": template,
        },
    }
    return [made] if shape["size"] > 1 else []


def _labelled(template: Mapping[str, Any], name: str, group: str, size: int) -> Document:
    """A template with what tells its pods from those of other groups."""
    metadata = dict(template.get("metadata", {}))
    labels = {f"{_LEADER_WORKER}/name": name, f"{_LEADER_WORKER}/group-index": group}
    metadata["labels"] = {**metadata.get("labels", {}), **labels}
    metadata["annotations"] = {**metadata.get("annotations", {}), f"{_LEADER_WORKER}/size": str(size)}
    return {"metadata": metadata, "spec": template["spec"]}


def _of_disaggregated_set(document: Document) -> list[Document]:
    """A LeaderWorkerSet of each role."""
    head = {"apiVersion": LEADER_WORKER_SETS.api_version, "kind": LEADER_WORKER_SETS.kind}
    name = document["metadata"]["name"]
    roles = document["spec"]["roles"]
    return [{**head, "metadata": {"name": f"{name}-{each['name']}"}, "spec": each["spec"]} for each in roles]


def _of_mini_cluster(document: Document) -> list[Document]:
    """An Indexed Job."""
    name, spec = document["metadata"]["name"], document["spec"]
    pod, size = spec.get("pod") or {}, spec.get("size", 1)
    containers = [
        {"name": f"container-{n}", "image": each["image"], "resources": each.get("resources", {})}
        for n, each in enumerate(spec["containers"])
    ]
    kept = {field: pod[field] for field in ("nodeSelector", "tolerations", "schedulerName") if pod.get(field)}
    template = {
        "metadata": {field: pod.get(field) or {} for field in ("labels", "annotations")},
        "spec": {"containers": containers, "restartPolicy": "OnFailure", **kept},
    }
    of_job = {"parallelism": size, "completions": size, "completionMode": "Indexed", "template": template}
    job = {**_job(name), "spec": of_job}
    job["metadata"]["labels"] |= spec.get("jobLabels") or {}
    return [job]


def _of_ray_cron_job(document: Document) -> list[Document]:
    """A RayJob without the labels of its maker."""
    head = {"apiVersion": RAY_JOBS.api_version, "kind": RAY_JOBS.kind}
    metadata = {"name": f"{document['metadata']['name']}-1"}
    return [{**head, "metadata": metadata, "spec": document["spec"]["jobTemplate"]}]


def _of_workflow(document: Document) -> list[Document]:
    return _steps(document["metadata"]["name"], document["spec"])


def _of_cron_workflow(document: Document) -> list[Document]:
    return _steps(document["metadata"]["name"], document["spec"]["workflowSpec"])


def _steps(name: str, spec: Mapping[str, Any]) -> list[Document]:
    """A pod of each template of a Workflow that has a container, as if each were a step."""
    found = []
    for index, each in enumerate(spec.get("templates", ())):
        if (container := each.get("container") or each.get("script")) is None:
            continue
        labels = dict((spec.get("podMetadata") or {}).get("labels", {}))
        labels |= (each.get("metadata") or {}).get("labels", {})
        main = {"name": "main", "image": container["image"], "resources": container.get("resources", {})}
        pod = {"metadata": {"labels": labels}, "spec": {"containers": [main], "restartPolicy": "Never"}}
        found.append(_named(f"{name}-{index}", pod))
    return found


def _of_pod_clique_set(document: Document) -> list[Document]:
    """For each replica a PodGroup with the pods of all cliques, as Grove's profile for Volcano has it."""
    metadata, template = document["metadata"], document["spec"]["template"]
    groups = template.get("podCliqueScalingGroups", ())
    times = {name: each.get("replicas", 1) for each in groups for name in each["cliqueNames"]}
    queue = metadata.get("annotations", {}).get("scheduling.grove.io/volcano-queue", "default")
    found: list[Document] = []
    for replica in range(document["spec"].get("replicas", 0)):
        gang, pods = f"{metadata['name']}-{replica}", list[Document]()
        for clique in template["cliques"]:
            marks = {**clique.get("annotations", {}), GROUP_ANNOTATION: gang}
            of_pods = {"labels": clique.get("labels", {}), "annotations": marks}
            pod = {"metadata": of_pods, "spec": clique["spec"]["podSpec"]}
            count = clique["spec"]["replicas"] * times.get(clique["name"], 1)
            pods += [_named(f"{gang}-{clique['name']}-{index}", pod) for index in range(count)]
        group = {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind, "metadata": {"name": gang}}
        found += [{**group, "spec": {"minMember": len(pods), "queue": queue}}, *pods]
    return found


def _job(name: str) -> Document:
    """A Job with a label, as all operators have it: to one without, the API server gives the labels of its template."""
    metadata = {"name": name, "labels": {"played": name}}
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": metadata}


class Played(NamedTuple):
    """What the operator of a kind makes of an object, and the field that suspends it; (): none does."""

    made: Callable[[Document], list[Document]]
    suspend: tuple[str, ...] = ("spec", "suspend")


_PASSING: Final = {each.resource.kind: each.resource for each in PASSING_KINDS}
_RUN_POLICY: Final = ("spec", "runPolicy", "suspend")
PLAYED: Final[Mapping[ApiResource, Played]] = {
    JOB_SETS: Played(_of_job_set),
    MPI_JOBS: Played(_of_mpi_job, _RUN_POLICY),
    PYTORCH_JOBS: Played(_of_roles("pytorchReplicaSpecs"), _RUN_POLICY),
    TF_JOBS: Played(_of_roles("tfReplicaSpecs"), _RUN_POLICY),
    XGBOOST_JOBS: Played(_of_roles("xgbReplicaSpecs"), _RUN_POLICY),
    PADDLE_JOBS: Played(_of_roles("paddleReplicaSpecs"), _RUN_POLICY),
    JAX_JOBS: Played(_of_roles("jaxReplicaSpecs"), _RUN_POLICY),
    RAY_CLUSTERS: Played(_of_ray_cluster),
    RAY_JOBS: Played(_of_ray_job),
    _PASSING["RayService"]: Played(_of_ray_service, ()),
    SPARK_APPLICATIONS: Played(_of_spark_application),
    LEADER_WORKER_SETS: Played(_of_leader_worker_set, ()),
    _PASSING["CronWorkflow"]: Played(_of_cron_workflow, ()),
    _PASSING["DisaggregatedSet"]: Played(_of_disaggregated_set, ()),
    _PASSING["MiniCluster"]: Played(_of_mini_cluster, ()),
    _PASSING["PodCliqueSet"]: Played(_of_pod_clique_set, ()),
    _PASSING["RayCronJob"]: Played(_of_ray_cron_job, ()),
    _PASSING["Workflow"]: Played(_of_workflow, ()),
}
_BUILT_IN: Final = (PODS, JOBS, CRON_JOBS, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, SERVICES)
#: Kinds of Volcano that are Muster's own here.
_MUSTERS: Final = (VOLCANO_JOBS, VOLCANO_CRON_JOBS, JOB_FLOWS, JOB_TEMPLATES, POD_GROUPS)
_BY_KIND: Final = {(each.api_version, each.kind): each for each in (*PLAYED, *_BUILT_IN, *_MUSTERS)}


def resource_of(document: Document) -> ApiResource | None:
    """The resource of an object; None: no operator is played for it."""
    return _BY_KIND.get((document.get("apiVersion", ""), document.get("kind", "")))


def pods_expected(document: Document) -> int:
    """How many pods there are once an object runs."""
    resource, spec = resource_of(document), document.get("spec", {})
    if resource in PLAYED and resource is not LEADER_WORKER_SETS:
        named = {**document, "metadata": {"name": "made", **document["metadata"]}}
        return sum(map(pods_expected, PLAYED[resource].made(named)))
    if resource in _MADE_BY_SCHEDULE:
        of = _MADE_BY_SCHEDULE[resource]
        template = spec["jobTemplate"]["spec"]
        return pods_expected({"apiVersion": of.api_version, "kind": of.kind, "spec": template})
    return _COUNTED[resource](spec) if resource in _COUNTED else 0


_MADE_BY_SCHEDULE: Final = {CRON_JOBS: JOBS, VOLCANO_CRON_JOBS: VOLCANO_JOBS}


def _of_job(spec: Document) -> int:
    pods = int(spec.get("parallelism", 1))
    return min(pods, int(spec.get("completions", pods)))


def _replicas(spec: Document) -> int:
    return int(spec.get("replicas", 1))


_COUNTED: Final[Mapping[ApiResource | None, Callable[[Document], int]]] = {
    PODS: lambda spec: 1,
    JOBS: _of_job,
    VOLCANO_JOBS: lambda spec: sum(map(_replicas, spec["tasks"])),
    # A pod of each Job that follows no other one.
    JOB_FLOWS: lambda spec: sum("dependsOn" not in each for each in spec["flows"]),
    DEPLOYMENTS: _replicas,
    REPLICA_SETS: _replicas,
    STATEFUL_SETS: _replicas,
    LEADER_WORKER_SETS: lambda spec: _replicas(spec) * int(spec["leaderWorkerTemplate"]["size"]),
}


class PlayedOperators:
    """All of them, for one namespace."""

    def __init__(self, client: Callable[[], LocalClient], namespace: str) -> None:
        self._client, self._namespace = client, namespace
        self._stopped = threading.Event()
        #: What the API server refused.
        self.failures: list[str] = []

    @contextmanager
    def playing(self) -> Iterator[None]:
        """While the block goes on."""
        thread = threading.Thread(target=self._play, name=f"operators in {self._namespace}")
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            thread.join()

    def _play(self) -> None:
        with self._client() as api:
            while not self._stopped.wait(_PERIOD):
                try:
                    self._look(api)
                except ApiError as error:
                    if error.facts["status"] not in _TRIED_AGAIN:
                        self.failures.append(str(error))

    def _look(self, api: LocalClient) -> None:
        for resource, played in PLAYED.items():
            for document in api.get(resource.path(self._namespace))["items"]:
                document |= {"apiVersion": resource.api_version, "kind": resource.kind}
                is_over = "deletionTimestamp" in document["metadata"] or _value(document, played.suspend)
                self._set(api, document, [] if is_over else played.made(document))
                if resource is LEADER_WORKER_SETS and not is_over:
                    self._workers(api, document)

    def _workers(self, api: LocalClient, owner: Document) -> None:
        for pod in api.get(PODS.path(self._namespace))["items"]:
            if pod["metadata"].get("annotations", {}).get(_MADE_OF) == owner["metadata"]["uid"]:
                pod |= {"apiVersion": PODS.api_version, "kind": PODS.kind}
                self._set(api, pod, workers_of(pod, owner))

    def _set(self, api: LocalClient, owner: Document, wanted: list[Document]) -> None:
        """Create what is missing of an object, and delete what is too much."""
        meta = owner["metadata"]
        reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
        reference |= {"name": meta["name"], "uid": meta["uid"]}
        names = {(each["kind"], each["metadata"]["name"]) for each in wanted}
        there = set()
        for resource in _BY_KIND.values():
            for each in api.get(resource.path(self._namespace))["items"]:
                if each["metadata"].get("annotations", {}).get(_MADE_OF) != meta["uid"]:
                    continue
                one = (resource.kind, each["metadata"]["name"])
                there.add(one)
                if one not in names and "deletionTimestamp" not in each["metadata"]:
                    path = resource.path(self._namespace, one[1])
                    api.request("DELETE", path, {"propagationPolicy": "Background"})
        for document in wanted:
            if (document["kind"], document["metadata"]["name"]) in there:
                continue
            resource = resource_of(document)
            assert resource is not None, document["kind"]
            metadata = {**document["metadata"], "ownerReferences": [reference]}
            metadata["annotations"] = {**metadata.get("annotations", {}), _MADE_OF: meta["uid"]}
            api.create(resource.path(self._namespace), {**document, "metadata": metadata})


def _value(document: Document, fields: tuple[str, ...]) -> Any:
    found: Any = document if fields else None
    for field in fields:
        found = found.get(field) if isinstance(found, dict) else None
    return found

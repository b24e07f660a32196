"""Kinds of other projects: suspended while they wait, resumed whole, each pod in a seat of its pod set."""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import pytest

from tests.e2e.support.api_paths import Document, condition, path
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import bare_pod, template
from tests.e2e.support.operators import JobSetOperator, Operator, Template, value_at
from tests.e2e.support.sandbox import GPU, SANDBOX, Sandbox
from tests.node_affinity import pinned_nodes


def job_set(sandbox: Sandbox, name: str, *, gpus: int = 4, **metadata: object) -> Document:
    """A driver, and two Jobs of two workers each."""

    def replicated(of: str, jobs: int, pods: int, each: int) -> Document:
        job = {"spec": {"parallelism": pods, "completions": pods, "template": template(sandbox.name, each)}}
        return {"name": of, "replicas": jobs, "template": job}

    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "labels": {"muster.dev/queue-name": sandbox.queues[0]}, **metadata},
        "spec": {"replicatedJobs": [replicated("driver", 1, 1, 0), replicated("workers", 2, 2, gpus)]},
    }


def roles(sandbox: Sandbox, **counts: int) -> Document:
    return {
        role: {"replicas": count, "template": template(sandbox.name, 4)} for role, count in counts.items()
    }


def ray(sandbox: Sandbox) -> Document:
    workers = {"groupName": "gpu", "replicas": 3, "template": template(sandbox.name, 4)}
    head = {"template": template(sandbox.name, 4)}
    return {"headGroupSpec": head, "workerGroupSpecs": [workers]}


def pods_of_ray(spec: Document) -> list[Template]:
    return [
        Template("head", 1, spec["headGroupSpec"]["template"]),
        *(
            Template(each["groupName"], each["replicas"], each["template"])
            for each in spec["workerGroupSpecs"]
        ),
    ]


def pods_of_roles(field: str) -> Callable[[Document], list[Template]]:
    return lambda document: [
        Template(role.lower(), each["replicas"], each["template"])
        for role, each in document["spec"][field].items()
    ]


def pods_of_spark(spec: Document) -> list[Template]:
    def made(role: Document) -> Document:
        requests = {"cpu": "1", "memory": "1408Mi", role["gpu"]["name"]: str(role["gpu"]["quantity"])}
        container = {"name": "spark", "image": "s", "resources": {"requests": requests, "limits": requests}}
        metadata = {field: role.get(field, {}) for field in ("labels", "annotations")}
        pod = {"containers": [container], "nodeSelector": spec["nodeSelector"], "restartPolicy": "Never"}
        return {"metadata": metadata, "spec": pod}

    return [
        Template("driver", 1, made(spec["driver"])),
        Template("exec", spec["executor"]["instances"], made(spec["executor"])),
    ]


class Played(NamedTuple):
    """A kind with four pods of 4 GPUs, and what its operator does."""

    kind: str
    version: str
    spec: Callable[[Sandbox], Document]
    pods: Callable[[Document], list[Template]]
    suspend: tuple[str, ...]
    #: The status by which it has ended.
    ended: Document


SUCCEEDED = {"conditions": [{"type": "Succeeded", "status": "True"}]}
RUN_POLICY = ("spec", "runPolicy", "suspend")
#: One for each way in which objects say what pods they have, and that they wait.
PLAYED = (
    Played(
        "MPIJob",
        "kubeflow.org/v2beta1",
        lambda sandbox: {"mpiReplicaSpecs": roles(sandbox, Launcher=1, Worker=3), "runPolicy": {"ttl": 1}},
        pods_of_roles("mpiReplicaSpecs"),
        RUN_POLICY,
        SUCCEEDED,
    ),
    Played(
        "SparkApplication",
        "sparkoperator.k8s.io/v1beta2",
        lambda sandbox: {
            "type": "Scala",
            "nodeSelector": {SANDBOX: sandbox.name},
            "driver": {"gpu": {"name": GPU, "quantity": 4}, "memory": "1g"},
            "executor": {"gpu": {"name": GPU, "quantity": 4}, "memory": "1g", "instances": 3},
        },
        lambda document: pods_of_spark(document["spec"]),
        ("spec", "suspend"),
        {"applicationState": {"state": "COMPLETED"}},
    ),
    Played(
        "RayJob",
        "ray.io/v1",
        lambda sandbox: {
            "entrypoint": "x",
            "rayClusterSpec": ray(sandbox),
            "shutdownAfterJobFinishes": True,
        },
        lambda document: pods_of_ray(document["spec"]["rayClusterSpec"]),
        ("spec", "suspend"),
        {"jobDeploymentStatus": "Complete"},
    ),
)


@pytest.mark.parametrize("played", PLAYED, ids=lambda played: played.kind)
def test_objects_of_operators_wait_run_whole_and_give_everything_back(
    sandbox: Sandbox, operators: None, played: Played
) -> None:
    sandbox.add_nodes(2)
    queue = sandbox.add_queue()
    sandbox.add(bare_pod(sandbox, "first", 4))
    sandbox.wait_running("first", 1)
    with Operator(sandbox, played.kind, played.pods, suspend=played.suspend).playing():
        metadata = {"name": "train", "labels": {"muster.dev/queue-name": queue}}
        spec = played.spec(sandbox)
        sandbox.add({"apiVersion": played.version, "kind": played.kind, "metadata": metadata, "spec": spec})
        assert value_at(sandbox.get(played.kind, "train"), played.suspend) is True
        wait_served(sandbox, played.kind, "train")
        sandbox.wait_reason("train", "NoFit")
        assert not sandbox.pods("train-")

        finish_all(sandbox, "first")
        pods = sandbox.wait_running("train-", 4)
        assert all(pinned_nodes(pod["spec"]) == {pod["spec"]["nodeName"]} for pod in pods)
        resumed = sandbox.get(played.kind, "train")["spec"]
        assert resumed.get("runPolicy", {}).get("ttl") == spec.get("runPolicy", {}).get("ttl")
        assert f"{played.kind.lower()}/" in sandbox.explain("train")
        finish_all(sandbox, "train-")
        sandbox.api.merge(path(played.kind, sandbox.name, "train") + "/status", {"status": played.ended})
        sandbox.wait_free()


def wait_served(sandbox: Sandbox, kind: str, name: str) -> None:
    """Muster looks for kinds that were not served every half minute."""
    sandbox.wait(
        lambda: sandbox.reason(name)[0] != "" or bool(sandbox.pods(name)),
        f"{kind} {name} to be seen",
    )


def test_a_job_set_waits_whole_and_each_pod_gets_a_seat_of_its_job(sandbox: Sandbox, operators: None) -> None:
    sandbox.add_nodes(2)
    sandbox.add_queue()
    sandbox.add(bare_pod(sandbox, "first", 4))
    sandbox.wait_running("first", 1)
    with JobSetOperator(sandbox).playing():
        [made] = sandbox.add(job_set(sandbox, "train"))
        assert made["spec"]["suspend"] is True
        wait_served(sandbox, "JobSet", "train")
        sandbox.wait_reason("train", "NoFit")
        assert not sandbox.pods("train-")
        sandbox.wait(
            lambda: condition(sandbox.get("JobSet", "train"), "muster.dev/Admitted").get("reason") == "NoFit",
            "the JobSet to say why it waits",
        )
        sandbox.merge("JobSet", "train", {"spec": {"suspend": False}})
        assert sandbox.get("JobSet", "train")["spec"]["suspend"] is True, "only Muster resumes it"

        finish_all(sandbox, "first")
        pods = sandbox.wait_running("train-", 5)
        seats = {
            pod["metadata"]["name"]: pod["metadata"]["annotations"]["muster.dev/seat"].rpartition("/")[0]
            for pod in pods
        }
        assert Counter((name.rpartition("-")[0], seat) for name, seat in seats.items()) == {
            ("train-driver-0", "driver"): 1,
            ("train-workers-0", "workers"): 2,
            ("train-workers-1", "workers"): 2,
        }
        sandbox.wait(
            lambda: condition(sandbox.get("JobSet", "train"), "muster.dev/Admitted")["status"] == "True",
            "the JobSet to say that it is admitted",
        )

        # A pod that is replaced gets a seat of the same admission.
        before = {pod["metadata"]["uid"] for pod in pods}
        sandbox.delete("Pod", pods[-1]["metadata"]["name"])
        sandbox.wait(
            lambda: len({pod["metadata"]["uid"] for pod in sandbox.running("train-")} - before) == 1,
            "another worker in place of the one that is gone",
        )
        finish_all(sandbox, "train-workers-0-")
        sandbox.wait(
            lambda: sandbox.held().get(f"queue {sandbox.queues[0]} nvidia.com/gpu") == 8000,
            "the seats of the Job that succeeded to be given back",
        )
        finish_all(sandbox, "train-")
        sandbox.api.merge(
            path("JobSet", sandbox.name, "train") + "/status",
            {"status": {"conditions": [{"type": "Completed", "status": "True"}]}},
        )
        sandbox.wait_free()


def test_a_ray_cluster_grows_and_shrinks_while_it_runs(sandbox: Sandbox, operators: None) -> None:
    sandbox.add_nodes(3)
    queue = sandbox.add_queue()

    def gpus() -> int:
        return sandbox.held().get(f"queue {queue} nvidia.com/gpu", 0) // 1000

    def scale(workers: int) -> None:
        # As in a manifest of the user's, without what Muster wrote into the template.
        group = {"groupName": "gpu", "replicas": workers, "template": template(sandbox.name, 4)}
        sandbox.merge("RayCluster", "train", {"spec": {"workerGroupSpecs": [group]}})

    with Operator(sandbox, "RayCluster", lambda document: pods_of_ray(document["spec"])).playing():
        metadata = {"name": "train", "labels": {"muster.dev/queue-name": queue}}
        cluster = {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": metadata,
            "spec": ray(sandbox),
        }
        sandbox.add(cluster)
        wait_served(sandbox, "RayCluster", "train")
        before = {pod["metadata"]["uid"] for pod in sandbox.wait_running("train-", 4)}
        scale(5)
        grown = {pod["metadata"]["uid"] for pod in sandbox.wait_running("train-", 6)}
        assert before < grown
        assert gpus() == 24
        scale(2)
        sandbox.wait(lambda: gpus() == 12, "the seats of workers that are gone to be given back")
        assert len(sandbox.running("train-")) == 3
        assert sandbox.get("RayCluster", "train")["spec"]["suspend"] is False


def test_an_elastic_job_starts_with_its_least_workers_and_the_others_join(
    sandbox: Sandbox, operators: None
) -> None:
    sandbox.add_nodes(3)
    queue = sandbox.add_queue(capability={GPU: 8})
    made = pods_of_roles("pytorchReplicaSpecs")
    with Operator(sandbox, "PyTorchJob", made, suspend=RUN_POLICY).playing():
        job = {
            "apiVersion": "kubeflow.org/v1",
            "kind": "PyTorchJob",
            "metadata": {"name": "train", "labels": {"muster.dev/queue-name": queue}},
            "spec": {
                "elasticPolicy": {"minReplicas": 2, "maxReplicas": 8},
                "pytorchReplicaSpecs": roles(sandbox, Master=1, Worker=4),
            },
        }
        sandbox.add(job)
        wait_served(sandbox, "PyTorchJob", "train")
        message = sandbox.wait_reason("train", "NeverFits")
        assert message.startswith("12 nvidia.com/gpu asked"), "a master and two workers of 4"
        sandbox.api.merge(path("Queue", "", queue), {"spec": {"capability": {GPU: 16}}})
        before = {pod["metadata"]["uid"] for pod in sandbox.wait_running("train-", 4)}
        sandbox.api.merge(path("Queue", "", queue), {"spec": {"capability": {GPU: 32}}})
        assert before < {pod["metadata"]["uid"] for pod in sandbox.wait_running("train-", 5)}
        scaled = {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 5}}}}
        sandbox.merge("PyTorchJob", "train", scaled)  # as its autoscaler does
        sandbox.wait_running("train-", 6)
        finish_all(sandbox, "train-")
        sandbox.api.merge(path("PyTorchJob", sandbox.name, "train") + "/status", {"status": SUCCEEDED})
        sandbox.wait_free()

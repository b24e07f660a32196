"""What the plugins for frameworks change in pods, and what they add."""

import json
from typing import Any

from admission.facts.volcano_jobs import JobSpec
from admission.volcano_jobs.pod_changes import companions_of
from tests.builders.volcano_jobs import job, made_pod
from tests.tables import with_rows


def of(plugin: str, *flags: str, **replicas: int) -> JobSpec:
    """A Job with tasks of so many pods; each has a container of the name of its task, with a command of its own."""

    def template(name: str) -> dict[str, Any]:
        containers = [{"name": name, "command": ["mine"], "args": ["own"]}, {"name": "beside"}]
        return {"spec": {"initContainers": [{"name": "init"}], "containers": containers}}

    tasks = [
        {"name": name, "replicas": count, "template": template(name)} for name, count in replicas.items()
    ]
    return job(plugins={plugin: list(flags)}, minAvailable=1, tasks=tasks)


def made(named: JobSpec, task: str, index: int = 0) -> dict[str, Any]:
    return made_pod(named, named.task(task), index)


def environment(pod: dict[str, Any], *names: str, container: int = 0) -> dict[str, str]:
    lines = pod["spec"]["containers"][container].get("env", ())
    return {line["name"]: line["value"] for line in lines if line["name"] in names}


TORCH = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")


def test_torch_finds_its_master_and_ranks_go_on_with_the_workers() -> None:
    named = of("pytorch", master=1, worker=12)
    everywhere = {"MASTER_ADDR": "train-master-0.train", "MASTER_PORT": "23456", "WORLD_SIZE": "13"}
    assert environment(made(named, "master"), *TORCH) == everywhere | {"RANK": "0"}
    for index in (0, 9, 11):
        pod = made(named, "worker", index)
        assert environment(pod, *TORCH) == everywhere | {"RANK": str(index + 1)}
        assert environment(pod, *TORCH, container=1) == everywhere | {"RANK": str(index + 1)}
        assert pod["spec"]["containers"][0]["ports"] == [{"name": "pytorchjob-port", "containerPort": 23456}]


def test_torch_takes_other_names_and_another_port(golden: Any) -> None:
    named = of("pytorch", "--master=boss", "--worker=hand", "--port=29500", boss=1, hand=2)
    said = environment(made(named, "hand", 1), *TORCH)
    assert said == golden


def test_torch_without_a_master_is_left_alone() -> None:
    assert environment(made(of("pytorch", worker=2), "worker"), *TORCH) == {}


def test_no_port_is_declared_twice_nor_taken_from_the_node() -> None:
    mine = {"name": "pytorchjob-port", "containerPort": 1}
    template: dict[str, Any] = {"spec": {"containers": [{"name": "c", "ports": [mine]}]}}
    tasks = [{"name": "master", "replicas": 1, "template": template}]
    named = job(plugins={"pytorch": []}, tasks=tasks, minAvailable=1)
    assert made(named, "master")["spec"]["containers"][0]["ports"] == [mine]
    template["spec"]["hostNetwork"] = True
    template["spec"]["containers"][0]["ports"] = []
    named = job(plugins={"pytorch": []}, tasks=tasks, minAvailable=1)
    assert made(named, "master")["spec"]["containers"][0]["ports"] == []


def test_workers_wait_for_their_master_if_asked_to() -> None:
    flags = ("--wait-master-enabled", "--wait-master-timeout=60", "--wait-master-image=own/busybox")
    named = of("pytorch", *flags, master=1, worker=2)
    first, second = made(named, "worker")["spec"]["initContainers"]
    assert (first["name"], first["image"], second["name"]) == ("wait-for-master", "own/busybox", "init")
    assert "nc -z -w 1 train-master-0.train 23456" in first["command"][2]
    assert "-ge 60" in first["command"][2]
    assert [each["name"] for each in made(named, "master")["spec"]["initContainers"]] == ["init"]


def test_tensorflow_is_told_its_cluster_and_its_place() -> None:
    named = of("tensorflow", "--ps=server", server=1, worker=11)
    (said,) = environment(made(named, "worker", 10), "TF_CONFIG").values()
    assert json.loads(said) == {
        "cluster": {
            "ps": ["train-server-0.train:2222"],
            "worker": [f"train-worker-{index}.train:2222" for index in range(11)],
        },
        "task": {"type": "worker", "index": 10},
    }
    (said,) = environment(made(named, "server"), "TF_CONFIG").values()
    assert json.loads(said)["task"] == {"type": "ps", "index": 0}


def test_tensorflow_alone_has_nobody_to_find() -> None:
    assert environment(made(of("tensorflow", worker=1), "worker"), "TF_CONFIG") == {}


def test_ray_starts_its_head_and_workers_in_place_of_their_commands(golden: Any) -> None:
    named = of("ray", "--port=6380", head=1, worker=2)
    head, worker = made(named, "head")["spec"], made(named, "worker", 1)["spec"]
    assert head["containers"][0]["command"] == golden["first"]
    assert worker["containers"][0]["command"] == golden["second"]
    assert "args" not in worker["containers"][0]
    assert head["containers"][1].keys() <= {"name", "env", "volumeMounts"}
    (service,) = [each for each in companions_of(named) if each.name == "train-head-svc"]
    assert [port["port"] for port in service.manifest["spec"]["ports"]] == [6380, 8265, 10001]
    assert service.manifest["spec"]["selector"]["volcano.sh/task-spec"] == "head"


@with_rows("plugins", "task", "index", "rank")
def test_ranks_of_hccl_count_masters_first_unless_torch_says_another(
    plugins: dict[str, list[str]], task: str, index: int, rank: str | None
) -> None:
    template = {"spec": {"containers": [{"name": "c"}]}}
    counts = {"master": 2, "worker": 8}
    tasks = [{"name": name, "replicas": count, "template": template} for name, count in counts.items()]
    named = job(plugins=plugins, tasks=tasks, minAvailable=1)
    assert made(named, task, index)["metadata"]["annotations"].get("hccl/rankIndex") == rank

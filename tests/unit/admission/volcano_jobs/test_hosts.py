"""Hosts of plugin svc: as long as they are reckoned to be, and never longer than Linux and a ConfigMap take."""

from typing import Any

import pytest

from admission.volcano_jobs.plugins.svc import host_files
from admission.volcano_jobs.pod_changes import companions_of
from queues.api.validation.host_rules import LARGEST_CONFIG_MAP, LONGEST_VARIABLE
from queues.api.validation.validation import violations_of
from tests.builders.volcano_jobs import job, made_pod

TEMPLATE: dict[str, Any] = {
    "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "command": ["a"]}]}
}


def tasks(replicas: int, name: str = "worker", **spec: Any) -> list[dict[str, Any]]:
    template = {"spec": {**TEMPLATE["spec"], **spec}}
    return [{"name": name, "replicas": replicas, "minAvailable": replicas, "template": template}]


def document(replicas: int, name: str = "train", **plugins: list[str]) -> dict[str, Any]:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"minAvailable": replicas, "plugins": plugins, "tasks": tasks(replicas), "queue": "q"},
    }


@pytest.mark.parametrize("replicas", [0, 1, 9, 10, 11, 100, 101, 5000, 8000])
@pytest.mark.parametrize("spec", [{}, {"subdomain": "peers"}, {"hostname": "all"}], ids=str)
def test_hosts_are_as_long_as_they_are_reckoned_to_be(replicas: int, spec: dict[str, Any]) -> None:
    named = job(tasks=tasks(replicas, **spec), plugins={"svc": []})
    (file, *_) = host_files(named).values()
    is_given = "VC_WORKER_HOSTS" in host_files(named)
    assert is_given == (len(f"VC_WORKER_HOSTS={file}") + 1 <= LONGEST_VARIABLE)


def test_hosts_that_no_process_could_have_are_in_the_file_only() -> None:
    named = job(tasks=tasks(9000), plugins={"svc": []})
    files = host_files(named)
    assert len(files["worker.host"].splitlines()) == 9000
    assert "VC_WORKER_HOSTS" not in files
    pod = made_pod(named, named.tasks[0])
    assert [line["name"] for line in pod["spec"]["containers"][0]["env"]] == ["VC_WORKER_NUM"]
    (config_map, *_) = companions_of(named)
    size = sum(len(key) + len(value) for key, value in config_map.manifest["data"].items())
    assert size < LARGEST_CONFIG_MAP


def test_a_job_with_too_many_hosts_for_the_environment_is_told_of_the_flag() -> None:
    name, flag = "pretraining-of-a-large-language-model-run-42", "--inject-hosts-env=false"
    (warning,) = violations_of(document(1500, name, svc=[]))
    assert warning.tolerable
    assert "containers get no VC_WORKER_HOSTS" in warning.message
    assert flag in warning.message
    for quiet in (document(1500, name, svc=[flag]), document(1000, name, svc=[]), document(1500, name)):
        assert violations_of(quiet) == []


@pytest.mark.parametrize("plugin", ["svc", "pytorch"])
def test_a_job_whose_hosts_no_config_map_takes_is_refused(plugin: str) -> None:
    name = "a-name-of-fifty-characters-and-as-many-more-of-pod"
    found = violations_of(document(10_000, name, **{plugin: []}))
    (refusal,) = (each for each in found if not each.tolerable)
    assert refusal.path == "spec.plugins.svc"
    assert str(LARGEST_CONFIG_MAP) in refusal.message

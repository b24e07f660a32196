"""The exact effect of each plugin: pods and companions as the API server gets them.

To write the files anew after a change that is meant: ``MUSTER_WRITE_GOLDEN=1 pytest`` on this file, and read the
difference.
"""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from admission.facts.volcano_jobs import JobSpec
from admission.volcano_jobs.pod_changes import companions_of
from queues.api.crd import PlainDumper
from tests.builders.volcano_jobs import job, made_pod

#: One file for each plugin, looked at by a person whenever it changes.
GOLDEN = Path(__file__).parent / "golden"

SSH = [
    *("--ssh-key-file-path=/home/me/.ssh", "--ssh-port=2222"),
    *("--ssh-private-key=private", "--ssh-public-key=public"),
]
#: Tasks and their replicas, with the plugins: what people write.
JOBS: dict[str, tuple[dict[str, int], dict[str, list[str]]]] = {
    "none": ({"worker": 1}, {}),
    "env": ({"worker": 2}, {"env": []}),
    "svc": ({"ps": 1, "worker": 2}, {"svc": ["--publish-not-ready-addresses=true"]}),
    "svc-without-policy-and-environment": (
        {"worker": 2},
        {"svc": ["--disable-network-policy=true", "--inject-hosts-env=false"]},
    ),
    "ssh": ({"worker": 2}, {"ssh": SSH}),
    "mpi": ({"master": 1, "worker": 2}, {"mpi": ["--port=22"]}),
    "pytorch": ({"master": 1, "worker": 2}, {"pytorch": ["--wait-master-enabled=true"]}),
    "tensorflow": ({"ps": 1, "worker": 2}, {"tensorflow": []}),
    "ray": ({"head": 1, "worker": 2}, {"ray": []}),
    "hcclrank": ({"master": 1, "worker": 2}, {"hcclrank": [], "pytorch": []}),
}


def written(name: str) -> JobSpec:
    tasks, plugins = JOBS[name]
    written = []
    for task, replicas in tasks.items():
        template = {"spec": {"containers": [{"name": task, "image": "train:1"}]}}
        written.append({"name": task, "replicas": replicas, "template": template})
    return job(plugins=plugins, minAvailable=0, tasks=written)


def effects(spec: JobSpec) -> str:
    """The last pod of each task, and the companions, in the order in which they are made."""
    pods = [made_pod(spec, task, task.replicas - 1) for task in spec.tasks]
    companions: list[Any] = [dict(companion.manifest) for companion in companions_of(spec)]
    return yaml.dump_all([*pods, *companions], Dumper=PlainDumper, sort_keys=True, allow_unicode=True)


@pytest.mark.parametrize("name", JOBS)
def test_pods_and_companions_are_the_golden_ones(name: str) -> None:
    file = GOLDEN / f"{name}.yaml"
    found = effects(written(name))
    if os.environ.get("MUSTER_WRITE_GOLDEN"):
        file.write_text(found, encoding="utf-8")
    assert found == file.read_text(encoding="utf-8")


def test_there_is_no_file_too_many() -> None:
    assert {file.stem for file in GOLDEN.glob("*.yaml")} == JOBS.keys()

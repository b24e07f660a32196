"""A gate of somebody else's: the example controller holds work until its data is staged, also while Muster is away."""

import base64
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.local.stack import Stack
from queues.api.api_resources import CHECK_REQUESTS, path_of
from tests.cluster_faults import resume_component
from tests.e2e.support.answered_check import AnsweredCheck
from tests.e2e.support.manifests import bare_pod, batch_job, grouped, pod_group, volcano_job
from tests.e2e.support.sandbox import Sandbox

EXAMPLE = Path("deploy/examples/admission-check")
HOME, CHECK = "data-staging", "data-staged"


@pytest.fixture
def controller(whole_stack: Stack, tmp_path: Path) -> Iterator[None]:
    """The example controller, in a process of its own, with the token of its service account."""
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}}
    documents = [home, *yaml.safe_load_all((EXAMPLE / "data-staged.yaml").read_text())]
    made = [each for each in documents if each["kind"] != "Deployment"]
    cluster = yaml.safe_load(whole_stack.cluster.kubeconfig.read_text())["clusters"][0]["cluster"]
    with whole_stack.cluster.client() as admin:
        for each in made:
            admin.create(path_of(each).rpartition("/")[0], each)
        token = admin.create(f"/api/v1/namespaces/{HOME}/serviceaccounts/{CHECK}/token", {"spec": {}})
        (tmp_path / "token").write_text(token["status"]["token"])
        (tmp_path / "ca.crt").write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
        environment = {**os.environ, "ACCOUNT": str(tmp_path), "SERVER": cluster["server"]}
        with subprocess.Popen([sys.executable, EXAMPLE / "data_staged.py"], env=environment) as process:
            yield
            process.terminate()
        for each in reversed(made):
            admin.delete(path_of(each))


@pytest.fixture
def add_volume(sandbox: Sandbox) -> Iterator[Callable[[], None]]:
    """A claim ``corpus`` that is Pending; call it to have it Bound."""
    name = f"{sandbox.name}-corpus"
    shared = {"accessModes": ["ReadWriteOnce"], "storageClassName": name}
    claim = {**shared, "resources": {"requests": {"storage": "1Gi"}}}
    volume = {**shared, "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/mnt/corpus"}}
    claims, volumes = f"/api/v1/namespaces/{sandbox.name}/persistentvolumeclaims", "/api/v1/persistentvolumes"
    head = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    sandbox.api.create(claims, {**head, "metadata": {"name": "corpus"}, "spec": claim})
    document = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": volume}
    yield lambda: sandbox.api.create(volumes, document)
    sandbox.api.delete(f"{claims}/corpus")
    sandbox.api.delete(f"{volumes}/{name}")


def requests(sandbox: Sandbox) -> list[Any]:
    found: list[Any] = sandbox.api.get(CHECK_REQUESTS.path(sandbox.name))["items"]
    return found


def check_columns(sandbox: Sandbox) -> list[str]:
    """What ``kubectl get`` shows of the check."""
    return sandbox.stack.kubectl("get", "admissionchecks", CHECK, "--no-headers").stdout.split()


def test_work_starts_once_its_data_is_staged_also_while_muster_is_away(
    sandbox: Sandbox,
    controller: None,
    add_volume: Callable[[], None],
    absent_muster: Callable[[], None],
) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue(admissionChecks=[CHECK])
    staged = batch_job(sandbox, "staged", 2)
    staged["metadata"]["annotations"] = {"example.com/needs-claim": "corpus"}
    sandbox.add(staged, batch_job(sandbox, "free", 1))

    sandbox.wait_running("free", 1)
    sandbox.wait_reason("staged", "WaitsForCheck")
    sandbox.wait(lambda: "claim corpus is Pending" in sandbox.reason("staged")[1], "the message of the check")
    assert "check data-staged" in sandbox.explain("staged")
    assert sandbox.pods("staged") == []
    sandbox.wait(
        lambda: check_columns(sandbox)[:5] == [CHECK, HOME, CHECK, "True", "Answers"],
        "the check to say that it is answered",
    )

    absent_muster()
    add_volume()
    sandbox.wait(
        lambda: all(each.get("status", {}).get("answer") == "Ready" for each in requests(sandbox)),
        "the check to say yes while Muster is away",
    )
    assert sandbox.pods("staged") == []
    sandbox.stack.start_muster("muster-again")
    sandbox.wait_running("staged", 2)
    assert [each["spec"]["attempt"] for each in requests(sandbox)] == [1, 1]

    for name in ("staged", "free"):
        sandbox.delete("batch/v1 Job", name)
    sandbox.wait(lambda: requests(sandbox) == [], "the requests to go with their Jobs")


def test_a_yes_that_is_withdrawn_before_pods_are_bound_takes_each_kind_back(
    sandbox: Sandbox, idle_scheduler: Stack
) -> None:
    sandbox.add_nodes(2)
    check = AnsweredCheck(sandbox, "budget")
    sandbox.add_queue(admissionChecks=[check.name])
    pods = {"whole": 2, "single": 3, "volcano": 2, "group": 2, "bare": 1}
    sandbox.add(
        batch_job(sandbox, "whole", 2, 1),
        batch_job(sandbox, "single", 3, 1, completionMode="Indexed"),
        volcano_job(sandbox, "volcano", 2),
        pod_group(sandbox, "group", 2),
        *(grouped(sandbox, "group", f"group-{index}") for index in range(2)),
        bare_pod(sandbox, "bare"),
    )

    def released(name: str) -> int:
        return sum(not pod["spec"].get("schedulingGates") for pod in sandbox.pods(name))

    check.answer("Ready", *pods)
    sandbox.wait(lambda: {name: released(name) for name in pods} == pods, "all pods to be released")
    check.answer("Rejected", *pods, message="spent")
    for name in pods.keys() - {"bare"}:
        assert "says no: spent" in sandbox.wait_reason(name, "CheckRejected")
    # A pod of its own is made again, and so another workload.
    sandbox.wait_reason("bare", "WaitsForCheck")
    sandbox.wait_free()
    assert not any(map(released, pods))
    uid = sandbox.get("Pod", "bare")["metadata"]["uid"]
    sandbox.wait(lambda: check.workloads()["bare"] == uid, "the check to be asked about that one")

    check.answer("Ready", *pods)
    resume_component(idle_scheduler.cluster, "kube-scheduler")
    for name, count in pods.items():
        sandbox.wait_running(name, count)
    # Muster has seen it, too: its watches of pods and of answers are not in step.
    of_namespace = "SELECT count(*) FROM admissions WHERE namespace = $1 AND started"
    sandbox.wait(
        lambda: sandbox.ledger.ask(of_namespace, sandbox.name) == [(len(pods),)], "all to have started"
    )
    check.answer("Rejected", *pods, message="too late")
    sandbox.merge("batch/v1 Job", "single", {"spec": {"parallelism": 2, "completions": 2}})
    sandbox.wait_running("single", 2)
    assert {name: len(sandbox.running(name)) for name in pods} == {**pods, "single": 2}
    check.delete()

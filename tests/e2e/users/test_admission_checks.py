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
from tests.e2e.support.manifests import batch_job
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

"""What the chart renders, applied by kubectl as the guide says, with the pods of the Deployment and of the agents."""

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.stack import LocalCommandFailed
from tests.e2e.installation.support.deployed import (
    NAMESPACE,
    NEEDS_PODS,
    Deployed,
    apply_rendered,
    deployment_cluster,
    gang,
)
from tests.e2e.support.api_paths import condition, path
from tests.waiting import until

pytestmark = NEEDS_PODS
TEAM = "vision"


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    """The chart's objects are applied, and two replicas are ready."""
    folder = tmp_path_factory.mktemp("deployed")
    with deployment_cluster(folder) as found:
        apply_rendered(found, folder)
        yield found


@pytest.fixture(scope="module")
def submitter(deployed: Deployed) -> Path:
    """A user who may edit one namespace and see queues, and no more."""
    deployed.kubectl("create", "namespace", TEAM)
    deployed.kubectl("create", "rolebinding", "alice", "-n", TEAM, "--clusterrole=edit", "--user=alice")
    deployed.kubectl(
        "create", "clusterrolebinding", "alice", "--clusterrole=muster-queue-viewer", "--user=alice"
    )
    return deployed.stack.cluster.kubeconfig_for("alice", ["system:authenticated"])


def test_of_two_replicas_one_leads(deployed: Deployed) -> None:
    (leader,) = deployed.leaders()
    (other,) = (pod for pod in deployed.pods() if pod is not leader)
    assert "\nmuster_leader 0.0\n" in deployed.metrics(other)


def test_a_gang_of_a_user_is_admitted_whole(deployed: Deployed, submitter: Path, tmp_path: Path) -> None:
    file = tmp_path / "gang.json"
    file.write_text(json.dumps(gang("train", 3, 8)))
    deployed.kubectl("create", "-n", TEAM, "-f", file, user=submitter)

    def runs() -> bool:
        pods = deployed.api.get(path("Pod", TEAM))["items"]
        return [pod["status"]["phase"] for pod in pods] == ["Running"] * 3

    until(runs, "the gang to run")
    (pod, *_) = deployed.api.get(path("Pod", TEAM))["items"]
    assert "muster.dev/admission-id" in pod["metadata"]["annotations"]


def test_the_api_server_asks_the_webhook_by_its_service(
    deployed: Deployed, submitter: Path, tmp_path: Path
) -> None:
    file = tmp_path / "lost.json"
    task = {
        "name": "worker",
        "replicas": 1,
        "template": {"spec": gang("x", 1, 1)["spec"]["template"]["spec"]},
    }
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "lost"},
        "spec": {"minAvailable": 1, "queue": "nowhere", "tasks": [task]},
    }
    file.write_text(json.dumps(job))
    told = ""

    def refused() -> bool:
        nonlocal told
        try:
            # While a webhook does not answer in time, the API server goes on without it.
            deployed.kubectl("create", "--dry-run=server", "-n", TEAM, "-f", file, user=submitter)
        except LocalCommandFailed as error:
            told = str(error)
        return bool(told)

    until(refused, "the webhook to answer")
    assert "expected the name of a Queue" in told


def test_the_api_server_passes_questions_on_to_the_read_api(deployed: Deployed, submitter: Path) -> None:
    def is_available() -> bool:
        service = deployed.api.get("/apis/apiregistration.k8s.io/v1/apiservices/v1.read.muster.dev")
        return str(condition(service, "Available")["status"]) == "True"

    until(is_available, "the API service to be available")
    assert "default" in deployed.kubectl_muster(submitter, "queues")


def test_an_agent_runs_on_a_node_that_is_marked_and_answers_its_kubelet(deployed: Deployed) -> None:
    until(lambda: any(pod.ready for pod in deployed.agents.pods.values()), "an agent to run")
    (agent,) = deployed.agents.pods.values()
    until(lambda: _healthy(f"http://{agent.interface.address}:9402/healthz"), "the agent to be healthy")


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_when_the_leader_is_deleted_the_other_leads(deployed: Deployed) -> None:
    (leader,) = deployed.leaders()
    (other,) = (pod for pod in deployed.pods() if pod is not leader)
    deployed.kubectl("delete", "pod", "-n", NAMESPACE, leader.name, "--wait=false")
    until(lambda: deployed.leaders() == [other], "the other to lead")
    deployed.roll_out()
    assert leader.exit_code == 0


def test_no_replica_lacked_a_right_or_met_an_error(deployed: Deployed) -> None:
    for pod in (*deployed.kubelet.pods.values(), *deployed.agents.pods.values()):
        for line in pod.container.log.read_text().splitlines():
            assert '"level": "error"' not in line, line
            assert '"level":"error"' not in line, line
            assert not re.search(r"User \S+ cannot ", line), line

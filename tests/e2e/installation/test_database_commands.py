"""A backup and a restore where the database is reached from inside the cluster only, as docs/how-to/operate.md says."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from queues.errors import ApiError
from queues.sql.database import raw_connection
from tests.e2e.installation.support.deployed import (
    DSN,
    NAMESPACE,
    NEEDS_PODS,
    Deployed,
    apply_rendered,
    deployment_cluster,
    rendered_file,
)
from tests.e2e.installation.support.kubelet import RunningPod
from tests.e2e.support.api_paths import path
from tests.waiting import until

pytestmark = [pytest.mark.long, NEEDS_PODS]
#: Whose Secret Muster has.
SECRET = "muster-database"
#: Options that render the tools alone.
TOOLS = ("--set", "tools.enabled=true", "--show-only", "templates/tools.yaml")
RESTORED = DSN.removesuffix("/postgres") + "/restored"


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    """The chart's objects are applied, and two replicas are ready."""
    folder = tmp_path_factory.mktemp("deployed")
    with deployment_cluster(folder) as found:
        apply_rendered(found, folder)
        yield found


def give_dsn(deployed: Deployed, name: str, dsn: str) -> None:
    """A Secret with a DSN, whether it is there or not."""
    deployed.kubectl("delete", "secret", name, "-n", NAMESPACE, "--ignore-not-found")
    deployed.kubectl("create", "secret", "generic", name, "-n", NAMESPACE, f"--from-literal=dsn={dsn}")


def tools(deployed: Deployed, secret: str, folder: Path) -> RunningPod:
    """The running tools with the DSN of a Secret."""
    deployed.kubectl("apply", "-f", rendered_file(folder, *TOOLS, "--set", f"tools.existingSecret={secret}"))
    wanted = {"valueFrom": {"secretKeyRef": {"name": secret, "key": "dsn"}}, "name": "MUSTER_DSN"}
    found: list[str] = []

    def is_there() -> bool:
        pods = deployed.api.get(path("Pod", NAMESPACE))["items"]
        found[:] = [
            pod["metadata"]["name"]
            for pod in pods
            if pod["spec"]["containers"][0].get("env") == [wanted] and pod["status"]["phase"] == "Running"
        ]
        return len(found) == 1

    until(is_there, f"the tools with {secret} to run", seconds=60)
    return deployed.kubelet.running(found[0])


def scale(deployed: Deployed, replicas: int) -> None:
    """As by hand; returns when so many run, ready or not."""
    deployed.kubectl("scale", "deployment", "muster", "-n", NAMESPACE, f"--replicas={replicas}")
    until(lambda: len(running_replicas(deployed)) == replicas, f"{replicas} replicas to run", seconds=90)


def running_replicas(deployed: Deployed) -> list[RunningPod]:
    return [pod for pod in deployed.pods() if not pod.name.startswith("muster-tools-")]


async def create_database(dsn: str, name: str) -> None:
    connection = await raw_connection(dsn)
    await connection.execute(f'CREATE DATABASE "{name}"')
    await connection.close()


def test_a_backup_is_restored_into_another_database(deployed: Deployed, tmp_path: Path) -> None:
    backup = deployed.execute(tools(deployed, SECRET, tmp_path), "muster", "backup", "-")
    # Another replica is elected, which the backup does not know: else it could be the ledger itself.
    scale(deployed, 0)
    scale(deployed, 2)
    deployed.roll_out()
    asyncio.run(create_database(deployed.stack.dsn, "restored"))
    give_dsn(deployed, "muster-restored", RESTORED)
    pod = tools(deployed, "muster-restored", tmp_path)
    assert b"it is whole" in deployed.execute(pod, "muster", "restore", "-", "--check", given=backup)

    scale(deployed, 0)
    assert b"Restored: " in deployed.execute(pod, "muster", "restore", "-", given=backup)
    give_dsn(deployed, SECRET, RESTORED)
    scale(deployed, 2)
    first, second = running_replicas(deployed)
    for replica in (first, second):
        until(lambda: "adopt-cluster" in deployed.readiness(replica), "a replica to refuse", seconds=60)  # noqa: B023
    assert deployed.leaders() == []
    assert b"Now it is led by" in deployed.execute(first, "muster", "ledger", "adopt-cluster")
    deployed.roll_out()
    assert deployed.execute(first, "muster", "ledger", "verify").startswith(b"Every balance")

    # Told to end, it ends: it does not wait for the end of its grace period.
    deployed.kubectl("delete", "-f", rendered_file(tmp_path, *TOOLS))
    until(lambda: pod.exit_code is not None, "the tools to end", seconds=60)
    assert pod.exit_code == 0


def test_pods_for_backups_fit_the_pod_security_of_the_namespace(deployed: Deployed, tmp_path: Path) -> None:
    file = rendered_file(tmp_path, "--set", "backup.enabled=true", "--show-only", "templates/backup.yaml")
    deployed.kubectl("apply", "--dry-run=server", "-f", file)
    [job] = [each for each in yaml.safe_load_all(file.read_text()) if each and each["kind"] == "CronJob"]
    pod = {"apiVersion": "v1", "kind": "Pod", **job["spec"]["jobTemplate"]["spec"]["template"]}
    pod["metadata"] |= {"name": "backup", "namespace": NAMESPACE}
    # Its own was not stored.
    pod["spec"]["serviceAccountName"] = "muster"
    at = f"{path('Pod', NAMESPACE)}?dryRun=All"
    deployed.api.create(at, pod)
    pod["spec"]["hostNetwork"] = True
    with pytest.raises(ApiError, match="violates PodSecurity"):
        deployed.api.create(at, pod)

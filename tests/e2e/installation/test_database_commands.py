"""A backup and a restore while the replicas run in pods, as docs/how-to/operate.md says; and the pods for that."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.helm import helm
from queues.errors import ApiError
from queues.sql.database import raw_connection
from tests.backup_commands import back_up, backups, restore
from tests.e2e.installation.support.deployed import (
    DSN,
    NAMESPACE,
    NEEDS_PODS,
    Deployed,
    apply_rendered,
    deployment_cluster,
)
from tests.e2e.support.api_paths import path
from tests.unit.deploy.chart_rendering import SECRET as SECRET_VALUE
from tests.unit.deploy.chart_rendering import rendered
from tests.waiting import until

pytestmark = [pytest.mark.long, NEEDS_PODS]
#: Whose Secret Muster has.
SECRET = "muster-database"
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


def scale(deployed: Deployed, replicas: int) -> None:
    """As by hand; returns when so many run, ready or not."""
    deployed.kubectl("scale", "deployment", "muster", "-n", NAMESPACE, f"--replicas={replicas}")
    until(lambda: len(deployed.pods()) == replicas, f"{replicas} replicas to run")


async def create_database(dsn: str, name: str) -> None:
    connection = await raw_connection(dsn)
    await connection.execute(f'CREATE DATABASE "{name}"')
    await connection.close()


def test_a_backup_is_restored_into_another_database(deployed: Deployed, tmp_path: Path) -> None:
    done = back_up(deployed.stack.dsn, tmp_path)
    assert done.returncode == 0, done.stderr
    (file,) = backups(tmp_path)
    # Another replica is elected, which the backup does not know: else it could be the ledger itself.
    scale(deployed, 0)
    scale(deployed, 2)
    deployed.roll_out()
    asyncio.run(create_database(deployed.stack.dsn, "restored"))

    scale(deployed, 0)
    done = restore(tmp_path / file, str(deployed.stack.postgres.dsn("restored")))
    assert done.returncode == 0, done.stderr
    give_dsn(deployed, SECRET, RESTORED)
    scale(deployed, 2)
    first, second = deployed.pods()
    for replica in (first, second):
        until(lambda: "adopt-cluster" in deployed.readiness(replica), "a replica to refuse")  # noqa: B023
    assert deployed.leaders() == []
    assert b"Now it is led by" in deployed.execute(first, "muster", "ledger", "adopt-cluster")
    deployed.roll_out()
    assert deployed.execute(first, "muster", "ledger", "verify").startswith(b"Every balance")


def test_pods_for_backups_and_tools_fit_the_pod_security_of_the_namespace(deployed: Deployed) -> None:
    on = ("--set", "backup.enabled=true", "--set", "tools.enabled=true")
    made = rendered(helm(), *SECRET_VALUE, *on)
    at = f"{path('Pod', NAMESPACE)}?dryRun=All"
    job = made["CronJob", NAMESPACE, "muster-backup"]["spec"]["jobTemplate"]["spec"]
    for template in (job["template"], made["Deployment", NAMESPACE, "muster-tools"]["spec"]["template"]):
        pod = {"apiVersion": "v1", "kind": "Pod", **template}
        pod["metadata"] |= {"name": "database-commands", "namespace": NAMESPACE}
        # Its own was not stored.
        pod["spec"]["serviceAccountName"] = "muster"
        deployed.api.create(at, pod)
        pod["spec"]["hostNetwork"] = True
        with pytest.raises(ApiError, match="violates PodSecurity"):
            deployed.api.create(at, pod)

"""The chart, installed, changed, taken back and removed with helm, while its pods run."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

import deploy
from deploy.local.helm import helm
from queues.errors import ApiError
from queues.sql.embedded.programs import find
from queues.sql.revisions import known_revisions
from tests.e2e.installation.support.deployed import (
    DSN,
    NAMESPACE,
    NEEDS_PODS,
    Deployed,
    deployment_cluster,
    gang,
)
from tests.e2e.support.api_paths import Document, path
from tests.waiting import LIMIT, until

pytestmark = [pytest.mark.long, NEEDS_PODS]
REPOSITORY = Path(deploy.__file__).parents[1]
PAGE = REPOSITORY / "docs/how-to/install.md"
TEAM = "vision"
BACKUP = "before-the-upgrade.dump"


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    """A cluster without Muster."""
    with deployment_cluster(tmp_path_factory.mktemp("chart")) as found:
        yield found


@dataclass(slots=True)
class Guide:
    """Runs the commands of the page's chapter on Helm, with a database and an image that are there."""

    deployed: Deployed
    folder: Path
    #: Installing, upgrading, going back, uninstalling.
    blocks: list[str] = field(init=False)
    _values: Path = field(init=False)

    def __post_init__(self) -> None:
        text = PAGE.read_text().partition("## With Helm\n")[2].partition("\n## ")[0]
        self.blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
        (values,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
        self._values = self.folder / "values.yaml"
        wanted = yaml.safe_load(values)
        assert set(wanted) == {"image", "database"}
        wanted["database"] = {"dsn": DSN}
        tenant = {"name": TEAM, "namespaces": {"matchLabels": {"team": TEAM}}, "spec": {"weight": 2}}
        self.write(wanted | {"tenants": [tenant]})
        for name, module in (("muster", "muster"), ("kubectl-muster", "kubectl_muster")):
            self._write_program(name, f'exec {sys.executable} -m admission.cli.{module} "$@"')
        for program in (helm(), self.deployed.stack.cluster.kubectl):
            self._write_program(program.name, f'exec {program} "$@"')

    def write(self, values: Document) -> None:
        """Other values."""
        self._values.write_text(json.dumps(values))

    def change(self, **settings: str) -> None:
        """Values with other settings."""
        self.add({"settings": settings})

    def add(self, values: Document) -> None:
        """Values beside those that there are."""
        self.write(json.loads(self._values.read_text()) | values)

    def run(self, commands: str) -> str:
        """What commands print, run by an administrator in the repository's folder."""
        done = self.attempt(commands)
        assert done.returncode == 0, done.stdout + done.stderr + self.deployed.kubelet.logs()
        return done.stdout

    def attempt(self, commands: str) -> "subprocess.CompletedProcess[str]":
        """The same, whether they succeed or not."""
        kubeconfig = str(self.deployed.stack.cluster.kubeconfig)
        for named in ("values.yaml", BACKUP):
            commands = commands.replace(named, str(self.folder / named))
        programs = f"{self.folder}:{find()}:{os.environ['PATH']}"
        return subprocess.run(
            ["/bin/bash", "-euc", commands],
            env={
                **os.environ,
                "PATH": programs,
                "KUBECONFIG": kubeconfig,
                # As pg_dump takes it.
                "MUSTER_DSN": self.deployed.stack.dsn.replace("+asyncpg", ""),
            },
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )

    def _write_program(self, name: str, text: str) -> None:
        file = self.folder / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)


def container(deployed: Deployed) -> Document:
    pod = deployed.api.get(path("Deployment", NAMESPACE, "muster"))["spec"]["template"]["spec"]
    found: Document = pod["containers"][0]
    return found


def test_by_the_guide_from_an_empty_cluster_to_a_gang_that_runs_and_back(
    deployed: Deployed, tmp_path: Path
) -> None:
    guide = Guide(deployed, tmp_path)
    # Nothing binds claims here, as where they are bound by their first pod: `--wait` must not wait for that.
    guide.add({"backup": {"enabled": True, "schedule": "0 0 1 1 *"}})
    installing, upgrading, going_back, uninstalling = guide.blocks
    assert "─ default " in guide.run(installing), "the queues are told"
    deployed.roll_out()
    assert deployed.api.get(path("Queue", "", TEAM))["spec"]["weight"] == 2
    claim = path("PersistentVolumeClaim", NAMESPACE, "muster-backups")
    made = deployed.api.get(claim)["metadata"]["uid"]
    run_a_gang(deployed, "before", tmp_path)
    # What an administrator changes in a first queue is not undone by an upgrade or a rollback.
    deployed.api.merge(path("Queue", "", "default"), {"spec": {"weight": 7}})
    bundle = _bundle(deployed)
    assert bundle
    _put_right(deployed, guide)

    guide.change(logLevel="debug")
    guide.add({"backup": {"enabled": False}})
    guide.run(upgrading)
    assert {"name": "MUSTER_LOG_LEVEL", "value": "debug"} in container(deployed)["env"]
    deployed.roll_out()
    assert deployed.api.get(path("Queue", "", "default"))["spec"]["weight"] == 7
    assert _bundle(deployed) == bundle
    run_a_gang(deployed, "after", tmp_path)

    guide.run(going_back.replace("REVISION", known_revisions()[-1].number))
    assert "MUSTER_LOG_LEVEL" not in {each["name"] for each in container(deployed)["env"]}
    deployed.roll_out()
    assert deployed.api.get(path("Queue", "", "default"))["spec"]["weight"] == 7

    _create(deployed, gang("waits", 9, 8), tmp_path)
    assert "helm uninstall muster --namespace muster-system" in guide.run(uninstalling)
    assert not deployed.pods()
    assert deployed.api.get(path("batch/v1 Job", TEAM, "waits"))["spec"]["suspend"] is False
    backups = "persistentvolumeclaims/muster-backups"
    assert _left(deployed) == {"queues/default", "queues/root", f"queues/{TEAM}", backups}
    assert deployed.api.get(claim)["metadata"]["uid"] == made


def _put_right(deployed: Deployed, guide: Guide) -> None:
    """What somebody has deleted comes back by Helm, and ``muster install`` leaves the release alone."""
    deployed.kubectl("delete", "clusterrolebinding", "muster")
    refused = guide.attempt("muster install")
    assert refused.returncode != 0
    assert "installed as the Helm release muster in the namespace muster-system" in refused.stderr
    (command,) = re.findall(r"\| Helm \| `(helm upgrade [^`]+)`", PAGE.read_text())
    guide.run(command)
    subjects = deployed.api.get("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/muster")["subjects"]
    assert [each["namespace"] for each in subjects] == [NAMESPACE]


def _create(deployed: Deployed, job: Document, folder: Path) -> None:
    file = folder / "job.json"
    file.write_text(json.dumps(job))
    deployed.kubectl("create", "-n", TEAM, "-f", file)


def run_a_gang(deployed: Deployed, name: str, folder: Path) -> None:
    """A team's Job is admitted, and all its pods run."""
    namespaces = {each["metadata"]["name"] for each in deployed.api.get(path("Namespace", ""))["items"]}
    if TEAM not in namespaces:
        deployed.kubectl("create", "namespace", TEAM)
    _create(deployed, gang(name, 3, 4), folder)

    def runs() -> bool:
        pods = deployed.api.get(path("Pod", TEAM) + f"?labelSelector=job-name={name}")["items"]
        return [pod["status"]["phase"] for pod in pods] == ["Running"] * 3

    until(runs, "the gang to run")


def _bundle(deployed: Deployed) -> str:
    """The authority that the API server believes the webhook by, which Muster writes."""
    at = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/muster"
    return str(deployed.api.get(at)["webhooks"][0]["clientConfig"].get("caBundle", ""))


def _left(deployed: Deployed) -> set[str]:
    """Objects of Muster that are there: all that carry its label, and what its names tell."""
    found = set()
    for group in _listable(deployed):
        try:
            items = deployed.api.get(group)["items"]
        except ApiError:
            continue
        kind = group.rpartition("/")[2]
        for each in items:
            meta = each["metadata"]
            part = (meta.get("labels") or {}).get("app.kubernetes.io/part-of") == "muster"
            own = part or meta["name"].startswith("muster") or kind == "queues"
            if own and kind not in ("customresourcedefinitions", "namespaces"):
                found.add(f"{kind}/{meta['name']}")
    return found


def _listable(deployed: Deployed) -> list[str]:
    paths = []
    groups = [each["preferredVersion"]["groupVersion"] for each in deployed.api.get("/apis")["groups"]]
    for root in ("/api/v1", *(f"/apis/{version}" for version in groups)):
        for each in deployed.api.get(root)["resources"]:
            if "list" in each["verbs"] and "/" not in each["name"] and each["kind"] != "Event":
                paths.append(f"{root}/{each['name']}")
    return paths

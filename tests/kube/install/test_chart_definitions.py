"""In a cluster whose definitions are not Muster's the chart stops and no replica leads, and both say what to do."""

import asyncio
import subprocess
from pathlib import Path

import msgspec
import pytest

import deploy
from admission.kube.client.client import Client
from admission.kube.install.install import Installation
from admission.kube.install.uninstall import Removal
from admission.kube.queue_definition import QueueDefinition
from deploy.local.cluster import LocalCluster
from deploy.local.helm import helm
from queues.api.api_resources import CRDS, Document, path_of
from queues.api.crd import SHARED, crds
from tests.kube.support.cluster_objects import becomes
from tests.kube.support.installation import installed, removed

CHART = Path(deploy.__file__).parent / "chart"


async def told_by_helm(cluster: LocalCluster) -> str:
    """Why helm stops; empty: it goes on."""
    command = ["template", "muster", str(CHART), "--dry-run=server", "--kubeconfig", str(cluster.kubeconfig)]
    values = ["--set", "database.existingSecret=muster-database"]
    done = await asyncio.to_thread(
        subprocess.run, [helm(), *command, *values], capture_output=True, text=True, check=False
    )
    return done.stderr if done.returncode else ""


def older(definition: Document) -> Document:
    """A definition without some fields of this version, where the API server drops what is not described."""
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    schema.pop("x-kubernetes-preserve-unknown-fields", None)
    for name in ("access", "policy"):
        schema["properties"].pop(name, None)
    return definition


async def is_refused(client: Client) -> bool:
    """Whether a replica would refuse to lead."""
    why = await QueueDefinition(client).why_refused()
    return why is not None and "drops spec.policy, spec.access from Queues" in why


async def is_led(client: Client) -> bool:
    """Whether a replica would lead, since all fields are kept."""
    definition = QueueDefinition(client)
    return await definition.why_refused() is None and definition._keeps_all


@pytest.mark.long
async def test_helm_goes_on_only_with_the_definitions_of_this_version(
    bare: Client, install_cluster: LocalCluster
) -> None:
    queues = older(next(one for one in crds() if one["spec"]["names"]["kind"] == "Queue"))
    devices = older(next(one for one in crds() if one["metadata"]["name"] in SHARED))
    for each in (queues, devices):
        del each["metadata"]["labels"]
        await bare.create(CRDS.path(), each)
    told = await told_by_helm(install_cluster)
    assert "customresourcedefinition queues.scheduling.volcano.sh: found that of another owner" in told
    assert "`muster install --only-definitions --adopt-crds`" in told
    await becomes(lambda: is_refused(bare))

    lines = await installed(bare, Installation(only_definitions=True, adopt_crds=True))
    assert {line.partition("/")[0] for line in lines} == {"customresourcedefinition"}
    await becomes(lambda: is_led(bare))
    assert await told_by_helm(install_cluster) == ""

    found = msgspec.json.decode(await bare.get(path_of(queues)))
    await bare.replace(path_of(queues), older(found))
    told = await told_by_helm(install_cluster)
    assert "queues.scheduling.volcano.sh: found one without spec.access, spec.policy, expected" in told
    assert "`muster install --only-definitions`" in told

    await removed(bare, Removal(delete_crds=True))
    for each in (queues, devices):
        await bare.delete(path_of(each))

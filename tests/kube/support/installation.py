"""A cluster into which Muster is installed, and what is found of it there."""

from typing import Any

import msgspec

from admission.kube.client.client import Client
from admission.kube.install.install import Installation, install
from admission.kube.install.uninstall import Removal, uninstall
from queues.errors import NotFound
from tests.kube.support.cluster_objects import exists

INSTALLATION = Installation(webhook_url="https://127.0.0.1:9")
REMOVAL = Removal()
HOME = "/api/v1/namespaces/muster-system"
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "muster-system"}}
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
QUEUED = {"muster.dev/queue-name": "default"}
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
#: Everywhere that something of Muster may lie.
COLLECTIONS = (
    *(
        f"{REGISTRATION}/{half}admission{suffix}"
        for half in ("mutating", "validating")
        for suffix in ("policies", "policybindings")
    ),
    *(f"{REGISTRATION}/{half}webhookconfigurations" for half in ("mutating", "validating")),
    *(
        f"/apis/rbac.authorization.k8s.io/v1/{plural}"
        for plural in ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
    ),
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/api/v1/serviceaccounts",
    "/api/v1/secrets",
    "/api/v1/services",
)


async def cleared(client: Client) -> bool:
    """Whether no pod is left; if some are, they are deleted without waiting for Kubernetes to do its part.

    Its garbage collector stands still for a while whenever definitions come and go.
    """
    pods = msgspec.json.decode(await client.get(PODS))["items"]
    for one in pods:
        path = f"{PODS}/{one['metadata']['name']}"
        try:
            await client.patch(path, {"metadata": {"finalizers": None}})
            await client.delete(path, grace=0)
        except NotFound:
            continue
    return not pods and not msgspec.json.decode(await client.get(JOBS))["items"]


async def usable(client: Client, namespace: str) -> bool:
    """Whether a namespace is not just being deleted, by the test before."""
    try:
        return bool(msgspec.json.decode(await client.get(namespace))["status"]["phase"] == "Active")
    except NotFound:
        return True


async def installed(client: Client, installation: Installation = INSTALLATION) -> list[str]:
    """Install; what was told."""
    lines: list[str] = []
    await install(client, installation, lines.append)
    return lines


async def once_installed(client: Client) -> None:
    """Install, unless a test before has: it takes seconds."""
    if not await exists(client, f"{REGISTRATION}/mutatingwebhookconfigurations/muster"):
        await installed(client)


async def removed(client: Client, removal: Removal = REMOVAL) -> list[str]:
    """Uninstall; what was told."""
    lines: list[str] = []
    await uninstall(client, removal, lines.append)
    return lines


async def of_muster(client: Client) -> dict[str, Any]:
    """Path → version of everything labelled as part of Muster."""
    found = {}
    for collection in COLLECTIONS:
        answer = await client.get(collection, labelSelector="app.kubernetes.io/part-of=muster")
        for item in msgspec.json.decode(answer)["items"]:
            metadata = item["metadata"]
            # Kubernetes itself writes statuses, as it likes; the generation counts changes of the rest.
            found[f"{collection}/{metadata['name']}"] = (
                metadata.get("generation") or metadata["resourceVersion"]
            )
    return found


def a_queue(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1},
    }

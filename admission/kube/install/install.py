"""What Muster needs in a cluster: applied, and taken back (``uninstall``).

Everything but the two first queues is applied server-side under one field manager, so doing it again changes
nothing, and a newer version changes what differs. ``tell`` gets the progress line by line.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from admission.kube.client.client import Client
from admission.kube.install.crds import apply_definitions
from admission.kube.install.existing_installation import InstalledByHelm, existing_installation
from admission.kube.install.queues import create_first_queue, first_queue
from admission.kube.install.rbac import TENANT_ADMIN, agent_identity, agent_rbac, provisioning_rbac, rbac
from admission.kube.install.read_api import read_api
from admission.kube.install.server_side_apply import (
    FIELD_MANAGER,
    Tell,
    apply,
    apply_all,
    found_at,
    items_of,
)
from admission.kube.policies.policy_documents import (
    PolicyOptions,
    agent_policies,
    mutating_policies,
    validating_policies,
)
from admission.kube.webhook.certificates import Keyring
from admission.kube.webhook.configuration import (
    READ_SERVICE,
    SERVICE,
    Callee,
    tenant_configuration,
    webhook_configurations,
)
from admission.kube.webhook.keyring import KeyringStore
from queues.api.api_resources import (
    JOBS,
    NAMESPACES,
    PART_OF_SELECTOR,
    PODS,
    POLICIES,
    POLICY_BINDINGS,
    QUEUES,
    SERVICE_ACCOUNTS,
    SERVICES,
    Document,
    path_of,
)
from queues.api.names import (
    ADMISSION_ID,
    AGENT_NAMESPACE,
    CHANGED_BY,
    DEFAULT_QUEUE,
    DEFAULT_SCHEDULER,
    GATE,
    GATED_NAMESPACE,
    OF_KIND,
    QUEUE_LABEL,
    RELEASED,
    ROOT_QUEUE,
    VOLCANO_SCHEDULER,
)
from queues.api.validation.defaults import namespace_queue
from queues.errors import ApiError, MusterError

#: MutatingAdmissionPolicy is stable from here on.
OLDEST_MINOR: Final = 36
#: Labels of the namespace of the node agents: host paths and the host's processes are beyond the levels "baseline" and
#: "restricted".
AGENTS_MAY: Final = {"pod-security.kubernetes.io/enforce": "privileged"}
#: Seconds until the API server must evaluate new policies.
_PATIENCE: Final = 30.0


class ServerTooOld(MusterError):
    """The API server is {found}; expected Kubernetes 1.36 or newer, where MutatingAdmissionPolicy is stable.
    Upgrade the cluster.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What differs between installations."""

    namespace: str = "muster-system"
    #: Muster's user name at the API server.
    identity: str = "system:serviceaccount:muster-system:muster"
    scheduler: str = DEFAULT_SCHEDULER
    aliases: tuple[str, ...] = (VOLCANO_SCHEDULER,)
    #: Where the API server reaches the webhook. None for its Service, if there is one.
    webhook_url: str | None = None
    #: Where the API server reaches the read API. None for its Service, if there is one.
    read_url: str | None = None
    #: Take over definitions that Volcano or another owner installed.
    adopt_crds: bool = False
    #: Nothing but the definitions: the rest is Helm's.
    only_definitions: bool = False
    #: Give it the rights to ask cluster autoscalers for nodes. They stay once they are given.
    provisioning: bool = False

    @property
    def policy_options(self) -> PolicyOptions:
        """For the admission policies."""
        return PolicyOptions(identity=self.identity, scheduler=self.scheduler, aliases=self.aliases)

    @property
    def callee(self) -> Callee:
        """For the webhook."""
        return Callee(namespace=self.namespace, url=self.webhook_url)


async def install(client: Client, installation: Installation, tell: Tell) -> None:
    """Apply everything, in an order in which each part finds what it needs. Raises MusterError."""
    await _check_version(client)
    if not installation.only_definitions:
        await _check_existing(client, installation.namespace)
    await apply_definitions(client, tell, adopt=installation.adopt_crds)
    if installation.only_definitions:
        return
    await _create_namespace(client, installation.namespace, tell)
    await _apply_account(client, installation, tell)
    roles = rbac(installation.namespace, installation.identity)
    tenant_role = next(each for each in roles if each["metadata"]["name"] == TENANT_ADMIN)
    await apply_all(client, [each for each in roles if each is not tenant_role], tell)
    if installation.provisioning:
        await apply_all(client, provisioning_rbac(installation.identity), tell)
    await _create_namespace(client, AGENT_NAMESPACE, tell, AGENTS_MAY)
    await apply_all(client, agent_rbac(), tell)
    keeper = KeyringStore(client, namespace=installation.namespace, names=installation.callee.names())
    keyring = await keeper.agree()
    await apply_all(client, policies(installation), tell)
    await _apply_webhooks(client, installation, keyring, tell)
    # Bindings of an earlier installation are in force as soon as the role is there.
    await apply(client, tenant_role, tell)
    await _apply_read_api(client, installation, keyring, tell)
    for name in (ROOT_QUEUE, DEFAULT_QUEUE):
        await create_first_queue(client, name, tell)
    await _policies_in_force(client, installation.namespace, tell)
    await _remove_former_policies(client, policies(installation), tell)
    await _gate_namespaces(client, tell)
    await warn_of_stored_jobs(client, tell)


def policies(installation: Installation) -> list[Document]:
    """The admission policies, the validating ones first: nothing waits unguarded."""
    return [
        *validating_policies(installation.policy_options),
        *agent_policies(agent_identity(), AGENT_NAMESPACE),
        *mutating_policies(installation.policy_options),
    ]


# -- the parts ------------------------------------------------------------------------------------------------


async def _check_version(client: Client) -> None:
    version = msgspec.json.decode(await client.get("/version"))
    minor = re.match(r"\d+", str(version.get("minor", "")))
    if version.get("major") != "1" or minor is None or int(minor[0]) < OLDEST_MINOR:
        raise ServerTooOld(found=version.get("gitVersion", "of unknown version"))


async def _check_existing(client: Client, namespace: str) -> None:
    """Raises InstalledByHelm, InstalledElsewhere, ApiError."""
    existing = await existing_installation(client)
    if existing.release is not None:
        raise InstalledByHelm(release=existing.release, namespace=existing.namespace or "?")
    existing.require_namespace(namespace)


async def _create_namespace(client: Client, name: str, tell: Tell, labels: Mapping[str, str] = {}) -> None:
    """Only one that Muster made carries its label, so that uninstalling knows which to delete."""
    if await found_at(client, NAMESPACES.path(name=name)) is None:
        namespace = NAMESPACES.document(name, labels=labels)
        await client.create(NAMESPACES.path(), namespace, field_manager=FIELD_MANAGER)
        tell(f"namespace/{name} created")
    else:
        tell(f"namespace/{name} unchanged")


async def _apply_account(client: Client, installation: Installation, tell: Tell) -> None:
    """The service account, if Muster runs as one of its own namespace."""
    account = re.fullmatch(r"system:serviceaccount:([^:]+):([^:]+)", installation.identity)
    if account and account[1] == installation.namespace:
        await apply(client, SERVICE_ACCOUNTS.document(account[2], account[1]), tell)


async def _gate_namespaces(client: Client, tell: Tell) -> None:
    """Namespaces that named a queue before there was a policy that labels them."""
    async for namespace in items_of(client, NAMESPACES.path()):
        metadata = namespace["metadata"]
        named = namespace_queue(metadata.get("annotations")) and metadata["name"] != "kube-system"
        if named and GATED_NAMESPACE not in (metadata.get("labels") or {}):
            patch = {"metadata": {"labels": {GATED_NAMESPACE: "true"}}}
            await client.patch(NAMESPACES.path(name=metadata["name"]), patch)
            tell(
                f"namespace/{metadata['name']} labelled {GATED_NAMESPACE}=true: it names a queue, all in it waits"
            )


async def _apply_webhooks(client: Client, installation: Installation, keyring: Keyring, tell: Tell) -> None:
    if installation.webhook_url is None and not await found_at(
        client, SERVICES.path(installation.namespace, SERVICE)
    ):
        tell(
            f"No webhook: there is neither --webhook-url nor a Service {installation.namespace}/{SERVICE}. "
            "What it would refuse is shown on the objects instead, and only platform administrators change Queues. "
            "Install again when there is one."
        )
        closed = tenant_configuration(installation.callee, keyring.bundle, installation.identity)
        if await found_at(client, path_of(closed)) is None:
            await apply(client, closed, tell)
        return
    documents = webhook_configurations(installation.callee, keyring.bundle, installation.identity)
    await apply_all(client, documents, tell)


async def _apply_read_api(client: Client, installation: Installation, keyring: Keyring, tell: Tell) -> None:
    home, url = installation.namespace, installation.read_url
    if url is None and not await found_at(client, SERVICES.path(home, READ_SERVICE)):
        tell(
            f"No read API: there is neither --read-url nor a Service {home}/{READ_SERVICE}, so `kubectl muster` "
            "gets no answer. Install again when there is one."
        )
        return
    await apply_all(client, read_api(home, keyring.bundle, url), tell)


async def _remove_former_policies(client: Client, applied: Iterable[Document], tell: Tell) -> None:
    """Remove policies of an earlier version that this one has by no name."""
    kept = {path_of(document) for document in applied}
    for resource in (*POLICY_BINDINGS, *POLICIES):
        async for former in items_of(client, resource.path(), f"{PART_OF_SELECTOR},!{OF_KIND}"):
            path = resource.path(name=former["metadata"]["name"])
            if path not in kept:
                await client.delete(path)
                tell(f"{resource.plural}/{former['metadata']['name']} deleted")


async def _policies_in_force(client: Client, namespace: str, tell: Tell) -> None:
    """Wait until a pod that names a queue would wait, and a Queue be signed; a dry run leaves nothing behind."""
    probe = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "muster-probe", "labels": {QUEUE_LABEL: DEFAULT_QUEUE}},
        "spec": {"containers": [{"name": "none", "image": "none"}]},
    }
    path = PODS.path(namespace)
    reason = ""
    try:
        async with asyncio.timeout(_PATIENCE):
            while True:
                try:
                    answer = msgspec.json.decode(await client.create(path, probe, dry_run=True))
                    gates = answer["spec"].get("schedulingGates") or []
                    # Policies for a new definition answer 503 until admission knows its schema.
                    queue = msgspec.json.decode(
                        await client.create(QUEUES.path(), first_queue(), dry_run=True)
                    )
                    signed = CHANGED_BY in (queue["metadata"].get("annotations") or {})
                    if signed and {"name": GATE} in gates and RELEASED in answer["metadata"]["labels"]:
                        return
                except ApiError as error:
                    reason = f" ({error})"  # the namespace's service account may not exist yet
                await asyncio.sleep(0.1)
    except TimeoutError:
        tell(f"The policies do not work yet: a pod that names a queue would not wait{reason}.")


async def warn_of_stored_jobs(client: Client, tell: Tell) -> None:
    """A line for each Job that was stored while no policy guarded it, and whose pods would pass the gate.

    It says what to do. The guards ask about what is created and changed. The controller of Jobs is believed for pods
    that it copies from a template with the label and the annotation of a released pod; no user can write such a
    template while the policies are there, but one that is older than they are is copied whenever its Job goes on.
    Raises ApiError.
    """
    async for name in _past_the_gate(client):
        tell(
            f"warning: job {name} has no queue, and its pod template has {RELEASED}=true and {ADMISSION_ID}: written "
            "before the policies were there. Its pods start without an admission. Delete it, or create it again."
        )


async def _past_the_gate(client: Client) -> AsyncIterator[str]:
    # A Job that Muster let go has a queue: Muster writes its template anew before it goes on.
    async for job in items_of(client, JOBS.path(), f"!{QUEUE_LABEL}"):
        template: dict[str, Any] = job["spec"]["template"].get("metadata") or {}
        released = (template.get("labels") or {}).get(RELEASED) == "true"
        if released and ADMISSION_ID in (template.get("annotations") or {}):
            yield f"{job['metadata']['namespace']}/{job['metadata']['name']}"

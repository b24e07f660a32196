"""What Muster needs in a cluster: applied, and taken back (``uninstall``).

Everything but the two first queues is applied server-side under one field manager, so doing it again changes
nothing, and a newer version changes what differs. Progress is told line by line through ``tell``.
"""

import asyncio
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from admission.kube.certificates import Keyring
from admission.kube.client import Client
from admission.kube.documents import PART_OF, Document
from admission.kube.guards import guards
from admission.kube.keeper import Keeper
from admission.kube.objects import QUEUES
from admission.kube.policies import PolicyOptions, mutating_policies
from admission.kube.rbac import rbac
from admission.kube.webhook_configuration import SERVICE, Callee, webhook_configurations
from queues.errors import ApiError, ApiUnavailable, Conflict, MusterError, NotFound
from queues.spec.crd import OWNER_LABEL, crds
from queues.spec.names import (
    CHANGED_BY,
    DEFAULT_QUEUE,
    DEFAULT_SCHEDULER,
    GATE,
    QUEUE_LABEL,
    RELEASED,
    ROOT_QUEUE,
    SCHEDULING_VOLCANO,
    VOLCANO_SCHEDULER,
)

FIELD_MANAGER: Final = "muster"
#: MutatingAdmissionPolicy is stable from here on.
OLDEST_MINOR: Final = 36
#: On definitions that were somebody else's before: uninstalling never deletes those.
ADOPTED: Final = "muster.dev/adopted"
#: Seconds until the API server must serve new definitions, and evaluate new policies.
_PATIENCE: Final = 30.0
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

Tell = Callable[[str], None]


class ServerTooOld(MusterError):
    """The API server is {found}; expected Kubernetes 1.36 or newer, where MutatingAdmissionPolicy is stable.
    Upgrade the cluster.
    """


class DefinitionsOfOthers(MusterError):
    """{definitions} belong to somebody else ({evidence}). If Volcano runs here, both would act on the same Jobs:
    stop its controllers and scheduler first (objects stay as long as the definitions do), then take the
    definitions over with --adopt-crds.
    """


class NotEstablished(MusterError):
    """{definition} is not served after {seconds:g} seconds: {reason}."""


class UnknownQueue(MusterError):
    """There is no queue {name}. `kubectl get queues` lists them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What differs between installations."""

    namespace: str = "muster-system"
    #: Muster's user name at the API server.
    identity: str = "system:serviceaccount:muster-system:muster"
    scheduler: str = DEFAULT_SCHEDULER
    aliases: tuple[str, ...] = (VOLCANO_SCHEDULER,)
    #: Where the API server reaches the webhook; None: its Service, if there is one.
    webhook_url: str | None = None
    #: Take over definitions that Volcano, or whoever, has made.
    adopt_crds: bool = False

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
    await _apply_definitions(client, installation, tell)
    await _create_namespace(client, installation.namespace, tell)
    await _apply_account(client, installation, tell)
    await _apply_all(client, rbac(installation.namespace, installation.identity), tell)
    keeper = Keeper(client, namespace=installation.namespace, names=installation.callee.names())
    keyring = await keeper.agree()
    await _apply_all(client, policies(installation), tell)
    await _apply_webhooks(client, installation, keyring, tell)
    for name in (ROOT_QUEUE, DEFAULT_QUEUE):
        await _create_queue(client, name, tell)
    await _policies_in_force(client, installation.namespace, tell)


async def set_paused(client: Client, queue: str, *, paused: bool) -> None:
    """Stop or start admissions of a queue and of everything below it. Raises UnknownQueue, ApiError."""
    try:
        await client.patch(QUEUES.path(name=queue), {"spec": {"policy": {"paused": paused}}})
    except NotFound as error:
        raise UnknownQueue(name=queue) from error


def policies(installation: Installation) -> list[Document]:
    """The admission policies. The guard comes first: nothing waits unguarded."""
    return [*guards(installation.policy_options), *mutating_policies(installation.policy_options)]


# -- one document ---------------------------------------------------------------------------------------------

_PLURALS: Final = {
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
}


def path_of(document: Document) -> str:
    """Where the API server has it."""
    version, kind, metadata = document["apiVersion"], document["kind"], document["metadata"]
    parts = ["/apis" if "/" in version else "/api", version]
    if metadata.get("namespace"):
        parts += ["namespaces", metadata["namespace"]]
    return "/".join([*parts, _PLURALS.get(kind, f"{kind.lower()}s"), metadata["name"]])


async def apply(client: Client, document: Document, tell: Tell) -> None:
    """Server-side apply, told as created, configured or unchanged. Raises ApiError."""
    path = path_of(document)
    before = await found_at(client, path)
    answer = await client.patch(path, document, kind="apply", field_manager=FIELD_MANAGER, force=True)
    after = msgspec.json.decode(answer)
    if before is None:
        what = "created"
    elif _content(before) == _content(after):
        what = "unchanged"
    else:
        what = "configured"
    tell(f"{named(document)} {what}")


def _content(document: Document) -> Document:
    """An object without what others write on it at any time."""
    metadata = {
        key: value
        for key, value in document["metadata"].items()
        if key not in ("resourceVersion", "managedFields", "generation")
    }
    return {key: value for key, value in document.items() if key != "status"} | {"metadata": metadata}


def named(document: Document) -> str:
    """``clusterrole/muster``, as kubectl names it."""
    return f"{document['kind'].lower()}/{document['metadata']['name']}"


async def found_at(client: Client, path: str) -> Any | None:
    """The object at a path, None if there is none. Raises ApiError."""
    try:
        return msgspec.json.decode(await client.get(path))
    except NotFound:
        return None


async def _apply_all(client: Client, documents: Iterable[Document], tell: Tell) -> None:
    for document in documents:
        await apply(client, document, tell)


# -- the parts ------------------------------------------------------------------------------------------------


async def _check_version(client: Client) -> None:
    version = msgspec.json.decode(await client.get("/version"))
    minor = re.match(r"\d+", str(version.get("minor", "")))
    if version.get("major") != "1" or minor is None or int(minor[0]) < OLDEST_MINOR:
        raise ServerTooOld(found=version.get("gitVersion", "of unknown version"))


async def _apply_definitions(client: Client, installation: Installation, tell: Tell) -> None:
    definitions = crds()
    foreign = {}
    for definition in definitions:
        found = await found_at(client, path_of(definition))
        if found is not None and not _ours(found):
            foreign[definition["metadata"]["name"]] = _owner(found)
    if foreign and not installation.adopt_crds:
        owners = ", ".join(sorted(set(foreign.values())))
        raise DefinitionsOfOthers(definitions=", ".join(sorted(foreign)), evidence=owners)
    for definition in definitions:
        metadata = definition["metadata"]
        metadata["labels"] = {**PART_OF, **metadata["labels"]}
        if metadata["name"] in foreign or await _adopted(client, definition):
            metadata["annotations"] = {ADOPTED: "true"}
        await apply(client, definition, tell)
    for definition in definitions:
        await _established(client, definition)


def _ours(definition: Document) -> bool:
    labels = definition["metadata"].get("labels") or {}
    return OWNER_LABEL.items() <= labels.items()


async def _adopted(client: Client, definition: Document) -> bool:
    found = await found_at(client, path_of(definition))
    return found is not None and ADOPTED in (found["metadata"].get("annotations") or {})


def _owner(definition: Document) -> str:
    """Who made a definition, by what Helm, operators and kubectl leave on it."""
    metadata = definition["metadata"]
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    if release := annotations.get("meta.helm.sh/release-name"):
        return f"Helm release {release}"
    if manager := labels.get("app.kubernetes.io/managed-by"):
        return f"managed by {manager}"
    managers = [entry.get("manager") for entry in metadata.get("managedFields") or []]
    return f"written by {managers[0]}" if managers and managers[0] else "no sign of whose they are"


async def _established(client: Client, definition: Document) -> None:
    reason = "no condition yet"
    try:
        async with asyncio.timeout(_PATIENCE):
            while True:
                found = await found_at(client, path_of(definition))
                conditions = {
                    one["type"]: one for one in ((found or {}).get("status") or {}).get("conditions") or []
                }
                if conditions.get("Established", {}).get("status") == "True":
                    return
                reason = "; ".join(f"{name}: {one.get('message', '')}" for name, one in conditions.items())
                await asyncio.sleep(0.1)
    except TimeoutError as error:
        name = definition["metadata"]["name"]
        raise NotEstablished(definition=name, seconds=_PATIENCE, reason=reason) from error


async def _create_namespace(client: Client, name: str, tell: Tell) -> None:
    """Only one that Muster made carries its label, so that uninstalling knows which to delete."""
    document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": PART_OF}}
    if await found_at(client, path_of(document)) is None:
        await client.create("/api/v1/namespaces", document, field_manager=FIELD_MANAGER)
        tell(f"namespace/{name} created")
    else:
        tell(f"namespace/{name} unchanged")


async def _apply_account(client: Client, installation: Installation, tell: Tell) -> None:
    """The service account, if Muster runs as one of its own namespace."""
    account = re.fullmatch(r"system:serviceaccount:([^:]+):([^:]+)", installation.identity)
    if account and account[1] == installation.namespace:
        metadata = {"name": account[2], "namespace": account[1], "labels": PART_OF}
        await apply(client, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}, tell)


async def _apply_webhooks(client: Client, installation: Installation, keyring: Keyring, tell: Tell) -> None:
    if installation.webhook_url is None and not await found_at(
        client, f"/api/v1/namespaces/{installation.namespace}/services/{SERVICE}"
    ):
        tell(
            f"No webhook: there is neither --webhook-url nor a Service {installation.namespace}/{SERVICE}. "
            "What it would refuse is shown on the objects instead. Install again when there is one."
        )
        return
    documents = webhook_configurations(installation.callee, keyring.bundle, installation.identity)
    await _apply_all(client, documents, tell)


async def _create_queue(client: Client, name: str, tell: Tell) -> None:
    """Made once, then the administrators'."""
    document = first_queue(name)
    try:
        await _once_served(lambda: client.create(QUEUES.path(), document, field_manager=FIELD_MANAGER))
    except Conflict:
        tell(f"queue/{name} unchanged")
    else:
        tell(f"queue/{name} created")


def first_queue(name: str = "muster-probe") -> Document:
    """A queue that is there from the start."""
    return {
        "apiVersion": SCHEDULING_VOLCANO,
        "kind": "Queue",
        "metadata": {"name": name, "labels": PART_OF},
        "spec": {"weight": 1, "reclaimable": name != ROOT_QUEUE},
    }


async def _once_served(send: Callable[[], Any]) -> None:
    """A definition counts as established some seconds before its objects are served and policies can read them."""
    async with asyncio.timeout(_PATIENCE):
        while True:
            try:
                await send()
            except (NotFound, ApiUnavailable):  # 503 while admission does not know the kind yet
                await asyncio.sleep(0.1)
            else:
                return


async def _policies_in_force(client: Client, namespace: str, tell: Tell) -> None:
    """Wait until a pod that names a queue would wait, and a Queue be signed; a dry run leaves nothing behind."""
    probe = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "muster-probe", "labels": {QUEUE_LABEL: DEFAULT_QUEUE}},
        "spec": {"containers": [{"name": "none", "image": "none"}]},
    }
    path = f"/api/v1/namespaces/{namespace}/pods"
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

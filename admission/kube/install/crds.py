"""Definitions of the kinds that Muster reads: installed, adopted from other owners on request, and removed."""

import asyncio
from typing import Final

import msgspec

from admission.kube.client.client import Client
from admission.kube.install.queues import remove_first_queue
from admission.kube.install.server_side_apply import Tell, apply, found_at, gone, items_of
from queues.api.api_resources import CRDS, PART_OF, ApiResource, Document, path_of
from queues.api.crd import OWNER_LABEL, SHARED, crds
from queues.api.names import ADOPTED, DEFAULT_QUEUE, HELM_RELEASE, MANAGED_BY_LABEL, ROOT_QUEUE
from queues.errors import MusterError

#: Seconds until the API server must serve new definitions.
_PATIENCE: Final = 30.0
#: Fields that a line names.
_MOST_TOLD: Final = 3


class DefinitionsOfOthers(MusterError):
    """{definitions} belong to another owner ({evidence}). If Volcano runs here, both would act on the same Jobs:
    stop its controllers and scheduler first (objects stay as long as the definitions do), then take the
    definitions over with --adopt-crds.
    """


class NotEstablished(MusterError):
    """{definition} is not served after {seconds:g} seconds: {reason}."""


async def apply_definitions(client: Client, tell: Tell, *, adopt: bool) -> None:
    """Apply all definitions, and wait until they are served. ``adopt``: take over definitions of other owners.

    Those that may be another product's are left as they are where it has them, and so are those of a newer version of
    Muster: without what it has added, the API server would drop that from objects the next time they are written.

    Raises DefinitionsOfOthers, NotEstablished, ApiError.
    """
    definitions = crds()
    foreign = {}
    newer = set()
    adopted = set()
    for definition in definitions:
        found = await found_at(client, path_of(definition))
        if found is None:
            continue
        name, metadata = found["metadata"]["name"], found["metadata"]
        if not OWNER_LABEL.items() <= (metadata.get("labels") or {}).items():
            foreign[name] = _owner(found)
            continue
        if ADOPTED in (metadata.get("annotations") or {}):
            adopted.add(name)
        if added := added_by_newer(found, definition):
            newer.add(name)
            tell(
                f"customresourcedefinition/{name} left as it is: a newer version of Muster has added "
                f"{', '.join(added[:_MOST_TOLD])}{' and more' if len(added) > _MOST_TOLD else ''}, "
                "and without it objects would lose what they have there"
            )
    for name in sorted(SHARED & foreign.keys()):
        tell(f"customresourcedefinition/{name} left as it is: {foreign.pop(name)}")
        definitions = [each for each in definitions if each["metadata"]["name"] != name]
    if foreign and not adopt:
        owners = ", ".join(sorted(set(foreign.values())))
        raise DefinitionsOfOthers(definitions=", ".join(sorted(foreign)), evidence=owners)
    for definition in definitions:
        metadata = definition["metadata"]
        if metadata["name"] in newer:
            continue
        metadata["labels"] = {**PART_OF, **metadata["labels"]}
        if metadata["name"] in adopted | foreign.keys():
            metadata["annotations"] = {ADOPTED: "true"}
        await apply(client, definition, tell)
    for definition in definitions:
        await _established(client, definition)


def added_by_newer(found: Document, ours: Document) -> list[str]:
    """Versions and fields of a definition in the cluster that this version's does not have, as paths. Empty: none.

    No version of Muster has removed a field. One that does has to name it here, or it is taken for an older version.
    """
    own = {each["name"]: each for each in ours["spec"]["versions"]}
    added = []
    for version in found["spec"]["versions"]:
        name = version["name"]
        if name not in own:
            added.append(f"version {name}")
            continue
        there, here = ((one.get("schema") or {}).get("openAPIV3Schema") or {} for one in (version, own[name]))
        added += _fields_beyond(there, here, "")
    return added


def _fields_beyond(found: Document, ours: Document, path: str) -> list[str]:
    """Fields of a schema that the other one does not describe."""
    beyond: list[str] = []
    own = ours.get("properties") or {}
    for name, schema in (found.get("properties") or {}).items():
        at = f"{path}.{name}" if path else name
        beyond += _fields_beyond(schema, own[name], at) if name in own else [at]
    for word, sign in (("items", "[]"), ("additionalProperties", "{}")):
        inner, own_inner = found.get(word), ours.get(word)
        if isinstance(inner, dict) and isinstance(own_inner, dict):
            beyond += _fields_beyond(inner, own_inner, path + sign)
    return beyond


def _owner(definition: Document) -> str:
    """The owner of a definition, by what Helm, operators and kubectl leave on it."""
    metadata = definition["metadata"]
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    if release := annotations.get(HELM_RELEASE):
        return f"Helm release {release}"
    if manager := labels.get(MANAGED_BY_LABEL):
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


async def remove_definitions(client: Client, tell: Tell, *, with_objects: bool) -> None:
    """Remove definitions without objects of users (``with_objects``: all); never adopted ones."""
    selector = ",".join(f"{key}={value}" for key, value in OWNER_LABEL.items())
    definitions = msgspec.json.decode(await client.get(CRDS.path(), labelSelector=selector))["items"]
    counts = {one["metadata"]["name"]: await _objects_of(client, one) for one in definitions}
    for definition in definitions:
        name = definition["metadata"]["name"]
        left = counts[name]
        if ADOPTED in (definition["metadata"].get("annotations") or {}):
            tell(f"customresourcedefinition/{name} kept: it was there before Muster")
        elif left and not with_objects:
            tell(
                f"customresourcedefinition/{name} kept: it has {left} objects (--delete-crds deletes them too)"
            )
        else:
            await client.delete(CRDS.path(name=name))
            await gone(client, CRDS.path(name=name))
            tell(f"customresourcedefinition/{name} deleted")
    for name in (DEFAULT_QUEUE, ROOT_QUEUE):
        await remove_first_queue(client, name, counts.get("queues.scheduling.volcano.sh", 0), tell)


async def _objects_of(client: Client, definition: Document) -> int:
    """How many objects of users there are; the queues that come with Muster are none."""
    spec = definition["spec"]
    served, names = f"{spec['group']}/{spec['versions'][0]['name']}", spec["names"]
    path = ApiResource(served, names["plural"], names["kind"]).path()
    count = 0
    async for item in items_of(client, path):
        first = item["metadata"]["name"] in (DEFAULT_QUEUE, ROOT_QUEUE) and names["kind"] == "Queue"
        count += not first
    return count

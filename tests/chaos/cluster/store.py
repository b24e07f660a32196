"""The objects of a model API server: versions, preconditions, subresources, finalizers, deletion with grace.

Everything that changes gets the next resource version and is kept as a change of the history. Documents are never
changed in place.
"""

import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from queues.api import api_resources
from queues.api.api_resources import JOBS, PODS, QUEUES, VOLCANO_JOBS, ApiResource
from tests.chaos.history import ChangeKind, Document, ObjectChange

Key = tuple[str, str]

#: Namespace and name of the plural of each path below ``/api`` and ``/apis``.
RESOURCES: Final = {resource.path(): resource for resource in api_resources.ALL}

#: Kinds of which a change of the spec makes a new generation.
_WITH_GENERATION: Final = (JOBS, VOLCANO_JOBS, QUEUES, api_resources.POD_GROUPS)
#: Kinds of which the status is written by ``/status`` only.
WITH_STATUS: Final = (*_WITH_GENERATION, PODS, api_resources.NODES)

#: Seconds between the deletion of a bound pod and its end, unless it says otherwise.
GRACE: Final = 2


class Refusal(Exception):
    """The API server says no."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message


def not_found(name: str) -> Refusal:
    return Refusal(404, "NotFound", f"{name} not found")


def conflict(message: str) -> Refusal:
    return Refusal(409, "Conflict", message)


def does_not_apply() -> Refusal:
    return Refusal(422, "Invalid", "the server rejected our request due to an error in our request")


def history_name(resource: ApiResource) -> str:
    """What the history calls a kind."""
    return "jobs.batch.volcano.sh" if resource is VOLCANO_JOBS else resource.plural


@dataclass(slots=True)
class Collection:
    """The objects of one kind, and what watches tell of them."""

    resource: ApiResource
    objects: dict[Key, Document] = field(default_factory=dict)
    #: Of each object, as it is sent.
    encoded: dict[Key, bytes] = field(default_factory=dict)
    versions: list[int] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    #: Changes up to and with this version are forgotten: a watch from before gets 410.
    compacted: int = 0

    def after(self, version: int) -> int:
        """Index of the first change after a version."""
        return bisect_right(self.versions, version)


@dataclass(slots=True)
class ObjectStore:
    """All objects of one cluster. ``changed`` is called after every change."""

    #: The part of every uid that differs between runs.
    run: int
    #: The moment 0 of the history, of the monotonic clock.
    began: float = 0.0
    version: int = 0
    collections: dict[ApiResource, Collection] = field(default_factory=dict)
    history: list[ObjectChange] = field(default_factory=list)
    changed: Callable[[ApiResource], None] = lambda resource: None
    #: Objects by uid.
    by_uid: dict[str, tuple[ApiResource, Key]] = field(default_factory=dict)
    #: uid of an owner → uids of what it owns.
    owned: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _uids: int = 0

    def collection(self, resource: ApiResource) -> Collection:
        if resource not in self.collections:
            self.collections[resource] = Collection(resource)
        return self.collections[resource]

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────

    def find(self, resource: ApiResource, key: Key) -> Document | None:
        return self.collection(resource).objects.get(key)

    def get(self, resource: ApiResource, key: Key) -> Document:
        """Raises Refusal."""
        found = self.find(resource, key)
        if found is None:
            raise not_found(f'{resource.plural} "{key[1]}"')
        return found

    def all(self, resource: ApiResource) -> list[Document]:
        return list(self.collection(resource).objects.values())

    def with_uid(self, uid: str) -> tuple[ApiResource, Document] | None:
        place = self.by_uid.get(uid)
        return None if place is None else (place[0], self.collection(place[0]).objects[place[1]])

    def owned_by(self, uid: str) -> Iterator[tuple[ApiResource, Document]]:
        for each in sorted(self.owned.get(uid, ())):
            found = self.with_uid(each)
            if found is not None:
                yield found

    # ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────

    def create(self, resource: ApiResource, document: Document, writer: str) -> Document:
        """A new object. Raises Refusal: its name is taken."""
        meta = dict(document.get("metadata") or {})
        key = (meta.get("namespace", ""), meta["name"])
        if key in self.collection(resource).objects:
            raise Refusal(409, "AlreadyExists", f'{resource.plural} "{key[1]}" already exists')
        self._uids += 1
        meta |= {
            "uid": f"{self._uids:08x}-{resource.plural[:4].encode().hex()[:4]}-4000-8000-{self.run:012x}",
            "creationTimestamp": time_text(time.time()),
        }
        if resource in _WITH_GENERATION:
            meta["generation"] = 1
        created = {"apiVersion": resource.api_version, "kind": resource.kind, **document, "metadata": meta}
        if resource is PODS:
            created["status"] = {"phase": "Pending", "qosClass": "BestEffort"}
        elif resource in WITH_STATUS and resource is not api_resources.NODES:
            created["status"] = {}
        return self._put(resource, key, created, "ADDED", writer)

    def replace(self, resource: ApiResource, key: Key, after: Document, writer: str) -> Document:
        """Another version of an object, unless it is the same; it goes if nothing holds it any more."""
        before = self.get(resource, key)
        if after == before:
            return before
        if resource in _WITH_GENERATION and after.get("spec") != before.get("spec"):
            after = {
                **after,
                "metadata": {**after["metadata"], "generation": before["metadata"]["generation"] + 1},
            }
        meta = after["metadata"]
        if "deletionTimestamp" in meta and not meta.get("finalizers") and _is_final(resource, meta):
            return self._remove(resource, key, after, writer)
        return self._put(resource, key, after, "MODIFIED", writer)

    def change(
        self, resource: ApiResource, key: Key, writer: str, *, status: Document | None = None, **meta: Any
    ) -> Document:
        """Fields of the status and of the metadata of an object are now these."""
        before = self.get(resource, key)
        after = {**before, "metadata": {**before["metadata"], **meta}}
        if status is not None:
            after["status"] = {**before.get("status", {}), **status}
        return self.replace(resource, key, after, writer)

    def delete(
        self,
        resource: ApiResource,
        key: Key,
        writer: str,
        *,
        grace: int | None = None,
        foreground: bool = False,
    ) -> Document:
        """Ask for the end of an object; at once, if nothing holds it. Raises Refusal: there is none."""
        before = self.get(resource, key)
        meta = dict(before["metadata"])
        finalizers = list(meta.get("finalizers") or ())
        if foreground and "foregroundDeletion" not in finalizers and "deletionTimestamp" not in meta:
            finalizers.append("foregroundDeletion")
        seconds = 0
        if (
            resource is PODS
            and before["spec"].get("nodeName")
            and before["status"]["phase"] in ("Pending", "Running")
        ):
            asked = before["spec"].get("terminationGracePeriodSeconds", GRACE)
            seconds = asked if grace is None else grace
        left = meta.get("deletionGracePeriodSeconds")
        if left is not None:
            seconds = min(left, seconds)
        if "deletionTimestamp" in meta and seconds == left and (finalizers or (resource is PODS and seconds)):
            return before
        if not finalizers and not seconds:
            return self._remove(resource, key, before, writer)
        meta.setdefault("deletionTimestamp", time_text(time.time() + seconds))
        meta["deletionGracePeriodSeconds"] = seconds
        if finalizers:
            meta["finalizers"] = finalizers
        return self._put(resource, key, {**before, "metadata": meta}, "MODIFIED", writer)

    def _put(
        self, resource: ApiResource, key: Key, document: Document, change: ChangeKind, writer: str
    ) -> Document:
        collection = self.collection(resource)
        document = self._versioned(document)
        uid = document["metadata"]["uid"]
        collection.objects[key] = document
        self.by_uid[uid] = (resource, key)
        if change == "ADDED":
            for owner in document["metadata"].get("ownerReferences") or ():
                self.owned[owner["uid"]].add(uid)
        collection.encoded[key] = self._tell(collection, document, change, writer)
        self.changed(resource)
        return document

    def _remove(self, resource: ApiResource, key: Key, document: Document, writer: str) -> Document:
        collection = self.collection(resource)
        document = self._versioned(document)
        uid = document["metadata"]["uid"]
        del collection.objects[key], collection.encoded[key], self.by_uid[uid]
        for owner in document["metadata"].get("ownerReferences") or ():
            self.owned[owner["uid"]].discard(uid)
        self._tell(collection, document, "DELETED", writer)
        self.changed(resource)
        return document

    def _versioned(self, document: Document) -> Document:
        self.version += 1
        return {**document, "metadata": {**document["metadata"], "resourceVersion": str(self.version)}}

    def _tell(self, collection: Collection, document: Document, change: ChangeKind, writer: str) -> bytes:
        content = msgspec.json.encode(document)
        collection.versions.append(self.version)
        collection.lines.append(b'{"type":"' + change.encode() + b'","object":' + content + b"}\n")
        self.history.append(
            ObjectChange(
                number=self.version,
                at=time.monotonic() - self.began,
                resource=history_name(collection.resource),
                change=change,
                document=document,
                writer=writer,
            )
        )
        return content


def _is_final(resource: ApiResource, meta: Document) -> bool:
    return resource is not PODS or not meta.get("deletionGracePeriodSeconds")


def key_of(document: Document) -> Key:
    meta = document["metadata"]
    return meta.get("namespace", ""), meta["name"]


def time_text(moment: float) -> str:
    """RFC 3339, in whole seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))

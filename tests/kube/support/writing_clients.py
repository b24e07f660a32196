"""Clients that write an object from a file, again and again: as `kubectl apply`, `replace` and Go programs do."""

import copy
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from admission.kube.client.client import Client
from queues.api.api_resources import ApiResource, Document
from queues.errors import Conflict, NotFound

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_ABSENT: Final = object()


class Writer:
    """A user with a file, and an object of this kind and namespace that it is about."""

    def __init__(self, client: Client, kind: ApiResource, namespace: str | None = None) -> None:
        self._client, self._kind, self._namespace = client, kind, namespace

    def _path(self, name: str = "") -> str:
        return self._kind.path(self._namespace, name)

    async def live(self, name: str) -> Any:
        """The object as it is stored. Raises NotFound."""
        return msgspec.json.decode(await self._client.get(self._path(name)))

    async def apply(self, document: Document) -> Any:
        """`kubectl apply -f`: the changes since it was applied last, as a JSON merge patch."""
        name = document["metadata"]["name"]
        noted = copy.deepcopy(document)
        annotations = noted["metadata"].setdefault("annotations", {})
        annotations[LAST_APPLIED] = json.dumps(document)
        try:
            live = await self.live(name)
        except NotFound:
            return msgspec.json.decode(await self._client.create(self._path(), noted))
        last = json.loads(live["metadata"].get("annotations", {}).get(LAST_APPLIED, "{}"))
        patch = merge_patch(last, live, noted)
        return msgspec.json.decode(await self._client.patch(self._path(name), patch))

    async def apply_as(self, document: Document, manager: str, *, force: bool = False) -> Any:
        """`kubectl apply --server-side`, with or without `--force-conflicts`."""
        path = self._path(document["metadata"]["name"])
        answer = await self._client.patch(path, document, kind="apply", field_manager=manager, force=force)
        return msgspec.json.decode(answer)

    async def replace(self, document: Document) -> Any:
        """`kubectl replace -f`: the file is the whole object."""
        whole = copy.deepcopy(document)

        def as_written(live: Document) -> Document:
            whole["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
            return whole

        return await self._put(document["metadata"]["name"], as_written)

    async def update(self, name: str, change: Callable[[Document], None] = lambda _: None) -> Any:
        """A program in Go: it reads the object, changes it, and writes it as its types have it."""

        def changed(live: Document) -> Document:
            typed: Document = as_typed(live)
            change(typed)
            return typed

        return await self._put(name, changed)

    async def _put(self, name: str, made: Callable[[Document], Document]) -> Any:
        """Write the object, again if a controller wrote it meanwhile."""
        while True:
            document = made(await self.live(name))
            try:
                return msgspec.json.decode(await self._client.replace(self._path(name), document))
            except Conflict:
                continue

    async def patch(self, name: str, patch: Document) -> Any:
        """`kubectl patch --type merge`."""
        return msgspec.json.decode(await self._client.patch(self._path(name), patch))


def merge_patch(last: Mapping[str, Any], live: Mapping[str, Any], file: Mapping[str, Any]) -> Document:
    """The three-way patch of `kubectl apply` and Helm for kinds without a schema of their own: lists are one value."""
    patch: Document = {key: None for key in last if key not in file}
    for key, value in file.items():
        there = live.get(key, _ABSENT)
        if isinstance(value, Mapping) and isinstance(there, Mapping):
            before = last.get(key)
            below = merge_patch(before if isinstance(before, Mapping) else {}, there, value)
            patch.update({key: below} if below else {})
        elif there != value:
            patch[key] = value
    return patch


def as_typed(value: Any, key: str = "") -> Any:
    """A document as Go's types write it: zeros left out, structs always there, times that are not set as ``null``."""
    if isinstance(value, list):
        return [as_typed(entry, key) for entry in value]
    if not isinstance(value, dict):
        return str(value) if key in ("limits", "requests") else value
    if key in ("limits", "requests"):
        return {name: _canonical(amount) for name, amount in value.items()}
    typed = {
        name: as_typed(below, name)
        for name, below in value.items()
        if key == "plugins" or below not in ("", 0, False, None, [])
    }
    if key == "template" and "spec" in typed:
        typed["metadata"] = {"creationTimestamp": None, **typed.get("metadata", {})}
    if key in ("containers", "initContainers"):
        typed.setdefault("resources", {})
    return typed


def _canonical(amount: Any) -> str:
    text = str(amount)
    return text[:-3] if text.endswith("000m") else text


Write = Callable[[Writer, Document], Awaitable[Any]]


async def _forced(writer: Writer, document: Document) -> Any:
    return await writer.apply_as(document, "another", force=True)


async def _by_another(writer: Writer, document: Document) -> Any:
    return await writer.apply_as(document, "another")


async def _by_the_same(writer: Writer, document: Document) -> Any:
    return await writer.apply_as(document, "kubectl")


async def _as_go(writer: Writer, document: Document) -> Any:
    return await writer.update(document["metadata"]["name"])


#: How the same file is written again, by a word.
WRITES: Final[Mapping[str, Write]] = {
    "apply": lambda writer, document: writer.apply(document),
    "apply server-side": _by_the_same,
    "apply server-side as another": _by_another,
    "apply server-side by force": _forced,
    "replace": lambda writer, document: writer.replace(document),
    "read and write in Go": _as_go,
}

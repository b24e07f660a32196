"""Documents that tests post, as small as the API server accepts them, and waiting for what they cause."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from admission.kube.client.client import Client
from queues.errors import ApiError, NotFound
from tests.waiting import LIMIT, growing_pauses

_T = TypeVar("_T")
#: Errors of the API server.
Refusals = type[ApiError] | tuple[type[ApiError], ...]


def pod(
    name: str, *, labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    """A pod of one container."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(name, labels, annotations),
        "spec": {"containers": [{"name": "main", "image": "example.com/main"}], **spec},
    }


def batch_job(
    name: str,
    *,
    labels: dict[str, str] | None = None,
    template_labels: dict[str, str] | None = None,
    parallelism: int = 1,
    **spec: Any,
) -> dict[str, Any]:
    """A Job of ``parallelism`` such pods; ``spec`` is the pods'."""
    template = pod("", labels=template_labels, restartPolicy="Never", **spec)
    del template["metadata"]["name"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(name, labels, None),
        "spec": {
            "parallelism": parallelism,
            "completions": parallelism,
            "template": {"metadata": template["metadata"], "spec": template["spec"]},
        },
    }


def _metadata(name: str, labels: dict[str, str] | None, annotations: dict[str, str] | None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    if labels:
        metadata["labels"] = labels
    if annotations:
        metadata["annotations"] = annotations
    return metadata


async def applied(client: Client, document: dict[str, Any]) -> bytes:
    """Server-side apply of a cluster-scoped object."""
    plural = document["kind"].lower() + ("" if document["kind"].endswith("s") else "s")
    plural = plural.removesuffix("policys") + "policies" if plural.endswith("policys") else plural
    path = f"/apis/{document['apiVersion']}/{plural}/{document['metadata']['name']}"
    return await client.patch(path, document, kind="apply", field_manager="test", force=True)


async def exists(client: Client, path: str) -> bool:
    """Whether there is an object at the path."""
    try:
        await client.get(path)
    except NotFound:
        return False
    return True


async def gone(client: Client, path: str) -> bool:
    return not await exists(client, path)


async def becomes(look: Callable[[], Awaitable[_T]], *, despite: Refusals = ()) -> _T:
    """The first answer of ``look`` that is true; TimeoutError after the limit. ``despite``: what the API server may say
    until then."""
    pauses = growing_pauses(0.03, 0.15)
    async with asyncio.timeout(LIMIT):
        while True:
            with suppress(despite):
                if found := await look():
                    return found
            await asyncio.sleep(next(pauses))

"""Documents against the API server: applied, found, listed, waited for until they are gone."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Final

import msgspec

from admission.kube.client.client import Client
from queues.api.api_resources import Document, named, path_of
from queues.errors import MusterError, NotFound

FIELD_MANAGER: Final = "muster"
#: Seconds for deleted objects to go.
_PATIENCE: Final = 60.0

#: Gets the progress, a line at a time.
Tell = Callable[[str], None]


class StillThere(MusterError):
    """{path} was deleted and is not gone after {seconds:g} seconds.

    See what holds it (its status, its finalizers), then run uninstall again.
    """


async def apply(client: Client, document: Document, tell: Tell) -> None:
    """Server-side apply; ``tell`` gets created, configured or unchanged. Raises ApiError."""
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


async def apply_all(client: Client, documents: Iterable[Document], tell: Tell) -> None:
    """One after the other. Raises ApiError."""
    for document in documents:
        await apply(client, document, tell)


async def found_at(client: Client, path: str) -> Any | None:
    """The object at a path, None if there is none. Raises ApiError."""
    try:
        return msgspec.json.decode(await client.get(path))
    except NotFound:
        return None


async def items_of(client: Client, path: str, selector: str | None = None) -> AsyncIterator[Any]:
    """Everything in a collection, page by page. Raises ApiError."""
    token: str | None = None
    while True:
        answer = await client.get(path, labelSelector=selector, limit=500, **{"continue": token})
        page = msgspec.json.decode(answer)
        for item in page["items"]:
            yield item
        token = page["metadata"].get("continue") or None
        if token is None:
            return


async def gone(client: Client, path: str, *, within: float = _PATIENCE) -> None:
    """Wait until there is nothing at a path. Raises StillThere."""
    try:
        async with asyncio.timeout(within):
            while await found_at(client, path) is not None:  # noqa: ASYNC110 - only the API server knows
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise StillThere(path=path, seconds=within) from None

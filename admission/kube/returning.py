"""Pods without an owner that are on their way out when Muster is taken away: it gets the time to make them again.

Only Muster knows how, and which of them it deleted itself: that is in its database. The cluster shows no more than
that such a pod is being deleted, and then another one of its name.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from admission.kube.applying import Tell, found_at
from admission.kube.client import Client
from admission.kube.objects import PODS
from queues.api.names import ADMISSION_ID, RELEASED

#: Seconds for their grace periods: of most pods 30.
_GRACE: Final = 60.0
#: Seconds for Muster to see that one is gone, and to make it again.
_ECHO: Final = 10.0

Place = tuple[str, str]


async def let_return(client: Client, tell: Tell) -> None:
    """Wait until nothing without an owner is being deleted and what was deleted is there again, within limits."""
    loop = asyncio.get_running_loop()
    until = loop.time() + _GRACE
    left: dict[Place, str] = {}
    told = False
    while loop.time() < until and (going := await _going(client)):
        left |= going
        if not told:
            tell(
                f"waiting for {len(left)} pods without an owner that are being deleted: Muster may make them again"
            )
            told = True
        await asyncio.sleep(0.2)
    until = loop.time() + (_ECHO if left else 0)
    while left and loop.time() < until:
        left = {place: uid for place, uid in left.items() if not await _is_back(client, place, uid)}
        await asyncio.sleep(0.2)
    for namespace, name in sorted(left):
        tell(
            f"pod {namespace}/{name} was deleted and is not there again: its user did it, or no Muster runs."
            " If Muster did it, how to make it again is in its database, in table recreations."
        )


async def _going(client: Client) -> dict[Place, str]:
    """Pods that had a seat, are being deleted, and are nobody's: by place, with their uid."""
    pods = msgspec.json.decode(await client.get(PODS.path(), labelSelector=f"{RELEASED}=true"))["items"]
    metadata = (pod["metadata"] for pod in pods)
    return {
        (meta["namespace"], meta["name"]): meta["uid"]
        for meta in metadata
        if meta.get("deletionTimestamp") and _annotation(meta, ADMISSION_ID) and not _controlled(meta)
    }


def _controlled(meta: Mapping[str, Any]) -> bool:
    return any(owner.get("controller") for owner in meta.get("ownerReferences") or ())


def _annotation(meta: Mapping[str, Any], key: str) -> str | None:
    found: str | None = (meta.get("annotations") or {}).get(key)
    return found


async def _is_back(client: Client, place: Place, uid: str) -> bool:
    """Whether there is a pod of its name again, whoever made it."""
    pod = await found_at(client, PODS.path(*place))
    return pod is not None and pod["metadata"]["uid"] != uid

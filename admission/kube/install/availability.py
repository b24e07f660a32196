"""Whether the API server passes requests on to the read API; it looks by itself only every half minute."""

import asyncio
import logging
from typing import Final

import msgspec

from admission.kube.client.client import Client
from admission.kube.webhook.keyring import READ_API_SERVICE
from queues.errors import ApiError, NotFound

_log = logging.getLogger(__name__)

#: A change of the object makes the API server look at once.
_ANNOTATION: Final = "muster.dev/asked"
_ATTEMPTS: Final = 10
_PAUSE: Final = 2.0


async def look_again(client: Client) -> None:
    """Have the API server look at the read API, which has just opened, until it finds it."""
    for attempt in range(_ATTEMPTS):
        try:
            service = msgspec.json.decode(await client.get(READ_API_SERVICE))
            conditions = service.get("status", {}).get("conditions") or []
            if any(each["type"] == "Available" and each["status"] == "True" for each in conditions):
                return
            asked = (service["metadata"].get("annotations") or {}).get(_ANNOTATION, "")
            turned = "again" if asked != "again" else "once more"
            await client.patch(READ_API_SERVICE, {"metadata": {"annotations": {_ANNOTATION: turned}}})
        except NotFound:
            return  # installed without a read API
        except ApiError as error:
            if attempt == 0:
                _log.warning("the API server could not be told of the read API: %s", error)
        await asyncio.sleep(_PAUSE)

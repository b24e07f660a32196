"""Whether the API server keeps what Queues say: with Volcano's definition it drops fields of Muster, without a word.

Who may use and change a queue is among them, so a replica does not lead such a cluster. ``muster install`` and the
chart refuse it as well; tools that render the chart without the cluster, or apply manifests, do not see it.
"""

from typing import Any, Final

import msgspec

from admission.kube.client.client import Client
from queues.api.api_resources import QUEUES
from queues.api.types.queue import QueueSpec
from queues.errors import ApiError, MusterError

#: What the API server serves is public to every account, so Muster needs no right to read definitions.
_SERVED: Final = f"/openapi/v3/apis/{QUEUES.api_version}"
_KEEPS: Final = "x-kubernetes-preserve-unknown-fields"
#: Fields that the message names.
_MOST_TOLD: Final = 3


class QueuesLoseFields(MusterError):
    """The API server drops {fields} from Queues, for their definition is not Muster's: what a Queue says of who may use
    it would not count. Expected Muster's definition: stop the controllers of the other owner, such as Volcano, and run
    `muster install --only-definitions --adopt-crds`.
    """


class QueueDefinition:
    """The definition of Queues that the API server serves."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._keeps_all = False

    async def why_refused(self) -> str | None:
        """Why this replica must not be elected. None if all fields are kept, or the API server does not say."""
        if self._keeps_all:
            return None
        try:
            document = msgspec.json.decode(await self._client.get(_SERVED))
        except (ApiError, msgspec.DecodeError):
            return None
        served = _schema_of(document)
        if served is None:
            return None  # the definition is young, and not described yet
        if lost := lost_fields(served):
            return str(QueuesLoseFields(fields=", ".join(lost[:_MOST_TOLD])))
        self._keeps_all = True
        return None


def lost_fields(served: dict[str, Any]) -> list[str]:
    """Fields of a Queue's spec that the API server would drop, as paths. ``served``: its schema of Queues."""
    spec = (served.get("properties") or {}).get("spec") or {}
    if served.get(_KEEPS) or spec.get(_KEEPS):
        return []
    known = (field.alias or name for name, field in QueueSpec.model_fields.items())
    found = spec.get("properties") or {}
    return [f"spec.{name}" for name in known if name not in found]


def _schema_of(document: Any) -> dict[str, Any] | None:
    """The schema of Queues in an OpenAPI document. None if it has none."""
    schemas = (document.get("components") or {}).get("schemas") or {} if isinstance(document, dict) else {}
    for schema in schemas.values():
        kinds = schema.get("x-kubernetes-group-version-kind") or []
        if any(each.get("kind") == QUEUES.kind for each in kinds):
            found: dict[str, Any] = schema
            return found
    return None

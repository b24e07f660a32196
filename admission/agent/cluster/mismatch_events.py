"""Events about pods that have other devices than they were admitted to, or compute on ones that they were not given."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

from admission.agent.allocations import DeviceMismatch, MismatchKind
from queues.api.api_resources import EVENTS, PODS, Document
from queues.api.names import AGENT_COMPONENT, DEVICES_NOT_AS_ADMITTED, DEVICES_NOT_GIVEN
from queues.text_format import rfc3339

_REASONS: Final = {
    MismatchKind.NOT_AS_ADMITTED: DEVICES_NOT_AS_ADMITTED,
    MismatchKind.NOT_GIVEN: DEVICES_NOT_GIVEN,
}
#: Characters of the pod's name in the Event's.
_NAME: Final = 200


class MismatchEvents:
    """Mismatches that last, as Events. One pod has one Event of a kind, by a name that does not change."""

    def __init__(self, node: str) -> None:
        self._node = node
        #: When each was seen first (monotonic seconds), and its Event as it was made then.
        self._first: dict[str, float] = {}
        self._made: dict[str, Document] = {}

    def lasting(
        self, found: Sequence[DeviceMismatch], now: float, ticks: float, *, at_least: float
    ) -> Mapping[str, Document]:
        """Events about what has lasted ``at_least`` so many seconds, by a key for each pod and kind."""
        keys = {f"{each.pod_uid}/{each.kind}": each for each in found}
        self._first = {key: self._first.get(key, ticks) for key in keys}
        self._made = {
            key: self._made.get(key) or self._event(each, now)
            for key, each in keys.items()
            if ticks - self._first[key] >= at_least
        }
        return self._made

    def _event(self, mismatch: DeviceMismatch, now: float) -> Document:
        key = f"{self._node}/{mismatch.pod_uid}/{mismatch.kind}"
        digest = hashlib.sha256(key.encode()).hexdigest()[:16]
        moment = rfc3339(now)
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": f"{mismatch.name[:_NAME]}.{digest}", "namespace": mismatch.namespace},
            "involvedObject": {
                "apiVersion": PODS.api_version,
                "kind": PODS.kind,
                "namespace": mismatch.namespace,
                "name": mismatch.name,
                "uid": mismatch.pod_uid,
            },
            "type": "Warning",
            "reason": _REASONS[mismatch.kind],
            "message": mismatch.message,
            "source": {"component": AGENT_COMPONENT, "host": self._node},
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "count": 1,
        }

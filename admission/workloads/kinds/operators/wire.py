"""Objects of such kinds as they are decoded: their parts are read by their places."""

import msgspec

from admission.wire import WireCondition, WireMetadata, WireStruct
from admission.workloads.kinds.operators.json_parts import part
from queues.api.types.workload_kind import Path


class WireConditions(WireStruct):
    """The conditions in a status."""

    conditions: tuple[WireCondition, ...] | None = None


class WireOperatorJob(WireStruct):
    """An object of such a kind; its parts are read by their places."""

    metadata: WireMetadata
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")

    def part(self, path: Path) -> msgspec.Raw | None:
        """The part at a place in the spec or the status. Raises UnexpectedPart."""
        own = self.spec if path[0] == "spec" else self.status
        return part(None if bytes(own) == b"null" else own, path[1:], path[:1])

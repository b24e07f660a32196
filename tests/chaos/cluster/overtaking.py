"""Users who delete a workload while writes about its pods are on their way: these arrive afterwards."""

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from queues.api import names
from queues.api.api_resources import POD_GROUPS, PODS, ApiResource
from tests.chaos.checker.objects import annotations_of, group_of, is_gated, owner_of
from tests.chaos.cluster.store import Key, ObjectStore, key_of
from tests.chaos.history import Document


@dataclass(slots=True)
class Overtaking:
    """All that is overtaken in one run."""

    store: ObjectStore
    #: Deletes a workload for its user.
    delete: Callable[[ApiResource, Key], None]
    #: So many workloads will be deleted.
    times: int = 0
    #: Seconds that writes about them are on their way.
    delay: float = 0.0
    #: Uids of controllers, and ``namespace/name`` of groups.
    _overtaken: set[str] = field(default_factory=set)

    def delay_of(self, method: str, resource: ApiResource, key: Key, body: bytes) -> float:
        """Seconds that a write is still on its way; the workload that it is about may be deleted now."""
        if resource is not PODS or not (self.times or self._overtaken):
            return 0.0
        name = _controller_of(body) if method == "POST" else self._group_of_gated(method, key)
        if name and name not in self._overtaken and self.times and self._delete(name):
            self.times -= 1
            self._overtaken.add(name)
        return self.delay if name in self._overtaken else 0.0

    def heal(self) -> None:
        """Writes arrive at once."""
        self.times = 0
        self._overtaken.clear()

    def _group_of_gated(self, method: str, key: Key) -> str:
        """The group of a pod that waits, and is let go by a patch; "": it is something else."""
        pod = self.store.find(PODS, key)
        return group_of(pod) if method == "PATCH" and pod is not None and is_gated(pod) else ""

    def _delete(self, name: str) -> bool:
        """Whether there was such a workload."""
        namespace, is_group, group = name.partition("/")
        if is_group:
            found = self.store.find(POD_GROUPS, (namespace, group))
            resource = POD_GROUPS
        elif (owner := self.store.with_uid(name)) is not None:
            resource, found = owner
        else:
            return False
        if found is not None:
            self.delete(resource, key_of(found))
        return found is not None


def _controller_of(body: bytes) -> str:
    """Uid of the controller of a pod that is made for a seat; "": it is another pod, or tried by a dry run."""
    document: Document = msgspec.json.decode(body)
    return owner_of(document) if names.SEAT in annotations_of(document) else ""

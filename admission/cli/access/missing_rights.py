"""What Kubernetes RBAC refuses, in one sentence: which right is missing, and who can grant it."""

import re
from typing import Final, NamedTuple

#: How the API server says it, with any text before and after.
_REFUSAL: Final = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>[a-z]+) resource "(?P<resource>[^"]+)"'
    r'(?: in API group "(?P<group>[^"]*)")?(?: in the namespace "(?P<namespace>[^"]*)")?'
)
_READING: Final = frozenset(("get", "list", "watch"))
_READ_API: Final = "read.muster.dev"
#: What administrators of queues keep, and viewers of queues see.
_OF_QUEUES: Final = frozenset(
    ("queues", "reservations", "nodedrains", "resourceflavors", "topologies", "hypernodes")
)

#: What administrators of queues see besides, for `kubectl muster nodes`.
_OF_HARDWARE: Final = frozenset(("nodes", "devices", "resourceslices"))


class MissingRight(NamedTuple):
    """A right that a user lacks."""

    user: str
    verb: str
    resource: str
    #: "": of Kubernetes' own objects.
    group: str
    #: "": in the whole cluster.
    namespace: str

    @property
    def sentence(self) -> str:
        """``you (ann) may not list nodes; ask …``, without a full stop."""
        what = f"{self.resource}.{self.group}" if self.group else self.resource
        where = f" in namespace {self.namespace}" if self.namespace else ""
        whom = (
            f"an administrator of namespace {self.namespace}" if self.namespace else "a cluster administrator"
        )
        role = f", which the ClusterRole {found} has" if (found := self._role()) else ""
        return f"you ({self.user}) may not {self.verb} {what}{where}; ask {whom} for that right{role}"

    def _role(self) -> str:
        """A role that comes with Muster or Kubernetes and has the right; "": none is known."""
        reads = self.verb in _READING
        if self.group == _READ_API:
            return "muster-reader"
        if self.resource in _OF_QUEUES:
            return "muster-queue-viewer" if reads else "muster-queue-admin"
        if self.resource in _OF_HARDWARE and reads:
            return "muster-node-viewer"
        return ("view" if reads else "edit") if self.namespace else ""


def missing_right(message: str) -> MissingRight | None:
    """The right that a refusal of the API server is about. None if it is about something else, such as a policy."""
    found = _REFUSAL.search(message)
    return None if found is None else MissingRight(**found.groupdict(default=""))

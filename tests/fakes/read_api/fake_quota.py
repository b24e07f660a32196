"""Versions of a queue as the read API tells them of a small cluster."""

from admission.web.reader import UnknownName
from queues.read_api import bodies
from tests.fakes.read_api.fake_lists import NOW, stored
from tests.fakes.read_api.fake_usage import FakeUsage

#: Of team-a, the newest first.
VERSIONS = stored("versions", tuple[bodies.QueueVersionBody, ...])


class FakeQuota(FakeUsage):
    """Versions of team-a."""

    async def queue_versions(
        self, name: str, *, limit: int, before: int | None = None
    ) -> bodies.QueueVersionList:
        self._up()
        if name != "team-a":
            raise UnknownName(what="queue", name=name)
        rest = [one for one in VERSIONS if before is None or one.version < before]
        more = str(rest[limit - 1].version) if limit and len(rest) > limit else ""
        age = {"now": NOW, "as_of": self.as_of, "behind": self.behind}
        return bodies.QueueVersionList(**age, name=name, items=tuple(rest[:limit]), continue_=more)

"""Versions of a queue as the read API tells them of a small cluster."""

from queues.read_api import bodies
from tests.fakes.read_api.fake_lists import NOW, stored
from tests.fakes.read_api.fake_usage import FakeUsage

#: Of each queue, the newest first. Others have none.
VERSIONS = {
    queue: stored(name, tuple[bodies.QueueVersionBody, ...])
    for queue, name in (("team-a", "versions"), ("train", "versionsOfTrain"))
}


class FakeQuota(FakeUsage):
    """Versions of queues."""

    async def queue_versions(
        self, name: str, *, limit: int, before: int | None = None
    ) -> bodies.QueueVersionList:
        self._up()
        self._knows(name)
        rest = [one for one in VERSIONS.get(name, ()) if before is None or one.version < before]
        more = str(rest[limit - 1].version) if limit and len(rest) > limit else ""
        age = {"now": NOW, "as_of": self.as_of, "behind": self.behind}
        return bodies.QueueVersionList(**age, name=name, items=tuple(rest[:limit]), continue_=more)

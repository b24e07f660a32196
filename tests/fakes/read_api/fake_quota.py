"""Versions of a queue as the read API tells them of a small cluster."""

from msgspec import structs

from admission.web.reader import Sight
from queues.read_api import bodies
from tests.fakes.read_api.fake_lists import NOW, stored
from tests.fakes.read_api.fake_usage import FakeUsage

#: Of a queue and the one below it, the newest first. Others have none.
VERSIONS = {
    queue: stored(name, tuple[bodies.QueueVersionBody, ...])
    for queue, name in (("team-a", "versions"), ("train", "versionsOfTrain"))
}


class FakeQuota(FakeUsage):
    """Versions of queues."""

    async def queue_versions(
        self, name: str, *, limit: int, before: int | None = None, below: Sight | None = None
    ) -> bodies.QueueVersionList:
        self._up()
        self._knows(name)
        names = [name] if below is None else [*VERSIONS]
        every = (structs.replace(one, queue=each) for each in names for one in VERSIONS.get(each, ()))
        rest = sorted(every, key=lambda one: one.version, reverse=True)
        rest = [one for one in rest if before is None or one.version < before]
        more = str(rest[limit - 1].version) if limit and len(rest) > limit else ""
        age = {"now": NOW, "as_of": self.as_of, "behind": self.behind}
        return bodies.QueueVersionList(**age, name=name, items=tuple(rest[:limit]), continue_=more)

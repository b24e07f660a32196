"""Versions of a queue, and quota at a time, as the read API tells them of a small cluster."""

from admission.web.reader import EVERYTHING, Sight, UnknownName
from queues.read_api import bodies
from queues.text_format import rfc3339
from tests.fakes.read_api.fake_lists import NOW, stored
from tests.fakes.read_api.fake_usage import FakeUsage

#: Of team-a, the newest first.
VERSIONS = stored("versions", tuple[bodies.QueueVersionBody, ...])


#: team-a before and after the newest of its versions.
BEFORE = stored("quota_before", tuple[bodies.QueueAtBody, ...])
AFTER = stored("quota_after", tuple[bodies.QueueAtBody, ...])


class FakeQuota(FakeUsage):
    """Versions of team-a, and its quota before and after the newest."""

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

    async def quota_at(self, name: str, at: float | None, *, sight: Sight = EVERYTHING) -> bodies.QuotaAtList:
        self._up()
        if name != "team-a":
            raise UnknownName(what="queue", name=name)
        moment = NOW if at is None else rfc3339(at)
        first, change = "2026-09-01T08:00:00Z", "2026-11-20T09:00:00Z"
        known = () if moment < first else BEFORE if moment < change else AFTER
        items = tuple(each for each in known if sight.shows_queue(each.name))
        age = {"now": NOW, "as_of": self.as_of, "behind": self.behind}
        return bodies.QuotaAtList(**age, at=moment, recorded_since=first, items=items)

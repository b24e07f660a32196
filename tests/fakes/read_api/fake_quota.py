"""Versions of a queue, and quota at a time, as the read API tells them of a small cluster."""

from admission.read_api import bodies
from admission.web.reader import EVERYTHING, Sight, UnknownName
from queues.text_format import rfc3339
from tests.fakes.read_api.fake_lists import GPU, NOW
from tests.fakes.read_api.fake_usage import FakeUsage


def limit(
    resource: str,
    *,
    deserved: str | None = None,
    capability: str | None = None,
    guarantee: str | None = None,
    flavor: str = "",
) -> bodies.LimitBody:
    return bodies.LimitBody(
        flavor=flavor, resource=resource, guarantee=guarantee, deserved=deserved, capability=capability
    )


def quota(*limits: bodies.LimitBody) -> bodies.QuotaBody:
    return bodies.QuotaBody(limits=limits)


def version(
    number: int,
    at: str,
    what: str,
    *changes: tuple[str, str | None, str | None],
    by: str = "",
    reason: str = "",
) -> bodies.QueueVersionBody:
    return bodies.QueueVersionBody(
        version=number,
        at=at,
        what=what,
        by=by,
        reason=reason,
        before=None if what == "created" else quota(),
        after=None if what == "removed" else quota(),
        changes=tuple(bodies.FieldChangeBody(field=field, before=a, after=b) for field, a, b in changes),
    )


#: Of team-a, the newest first.
VERSIONS = (
    version(
        41,
        "2026-11-20T09:00:00Z",
        "changed",
        (f"deserved[{GPU}]", "32", "24"),
        ("policy.paused", "true", None),
        by="ada@example.com",
        reason="lent to team-b for the demo",
    ),
    version(37, "2026-11-12T16:30:00Z", "other"),
    version(23, "2026-11-12T16:00:00Z", "changed", ("policy.paused", None, "true"), by="bob@example.com"),
    version(9, "2026-09-01T08:00:00Z", "created", (f"deserved[{GPU}]", None, "32"), by="ada@example.com"),
)


def at_time(
    name: str, parent: str | None, *limits: bodies.LimitBody, by: str = "ada@example.com"
) -> bodies.QueueAtBody:
    return bodies.QueueAtBody(
        name=name, parent=parent, version=9, recorded="2026-09-01T08:00:00Z", by=by, reason="", limits=limits
    )


#: team-a before and after the newest of its versions.
BEFORE = (
    at_time("team-a", "root", limit(GPU, deserved="32", capability="32")),
    at_time("dev", "team-a", limit(GPU, deserved="8")),
    at_time("old", "team-a", limit(GPU, deserved="4")),
)
AFTER = (
    at_time("team-a", "root", limit(GPU, deserved="24", capability="32")),
    at_time("dev", "team-a", limit(GPU, deserved="8")),
    at_time("train", "team-a", limit(GPU, deserved="8", guarantee="4", flavor="h100")),
)


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

"""What queues owned over time, as use in a period is compared with it."""

from collections.abc import Iterable, Mapping, Sequence

from admission.web.usage.bodies import UsageQuotaBody
from queues.api.names import SCHEDULING_VOLCANO
from queues.api.types.queue import QueueDocument
from queues.errors import InvalidDocument
from queues.resources import show
from queues.sql.read.usage import UsageColumn, UsageQueue
from queues.sql.read.usage_quota import OwnedAmounts, QuotaUse, StoredVersion


def counted_queues(by: Iterable[UsageColumn], queues: Sequence[UsageQueue]) -> dict[str, str]:
    """By queue, the queue that its use is compared in: itself, or its tenant. Empty: these columns tell of no queue.

    A user's or workload's part of what a queue borrowed is not defined, so it is told of queues and tenants alone.
    Only of those that the user may see.
    """
    asked = set(by)
    if asked == {UsageColumn.QUEUE}:
        return {each.queue: each.queue for each in queues if each.shown_as == each.queue}
    if asked == {UsageColumn.TENANT}:
        return {each.queue: each.tenant for each in queues if each.tenant}
    return {}


def owned_amounts(versions: Iterable[StoredVersion], resource: str, ends: int) -> list[OwnedAmounts]:
    """What queues owned of a resource, in all flavors together, until the end of a period. ``versions``: in order."""
    found: list[OwnedAmounts] = []
    for version in versions:
        if found and found[-1].queue == version.queue:
            found[-1] = found[-1]._replace(until=min(found[-1].until, version.since))
        if version.document is not None:
            found.append(_owned(version, version.document, resource, ends))
    return _merged(found)


def _owned(version: StoredVersion, stored: Mapping[str, object], resource: str, ends: int) -> OwnedAmounts:
    document = {
        "apiVersion": SCHEDULING_VOLCANO,
        "kind": "Queue",
        "metadata": {"name": version.queue},
        "spec": stored.get("spec") or {},
    }
    try:
        limits = QueueDocument.read(document).to_domain().limits
    except InvalidDocument:
        # It owned something else until then, and what it is now nobody can tell.
        return OwnedAmounts(version.queue, version.since, ends, None, 0)
    deserved = limits.deserved.get(resource)
    return OwnedAmounts(version.queue, version.since, ends, deserved, limits.guarantee.get(resource, 0))


def _merged(owned: Iterable[OwnedAmounts]) -> list[OwnedAmounts]:
    """Without what lasted no time, and with times in which nothing changed as one."""
    merged: list[OwnedAmounts] = []
    for each in owned:
        if each.since >= each.until:
            continue
        if merged and merged[-1]._replace(until=each.until) == each._replace(since=merged[-1].since):
            merged[-1] = merged[-1]._replace(until=each.until)
        else:
            merged.append(each)
    return merged


def quota_bodies(resource: str, found: Mapping[str, QuotaUse]) -> tuple[UsageQuotaBody, ...]:
    """Queues that used something or kept something idle, by name."""
    return tuple(_body(resource, name, use) for name, use in sorted(found.items()) if use != QuotaUse())


def _body(resource: str, name: str, use: QuotaUse) -> UsageQuotaBody:
    is_known = use.stated == use.used
    return UsageQuotaBody(
        queue=name,
        amount_seconds=show(resource, use.used),
        owned_seconds=show(resource, use.used - use.borrowed) if is_known else None,
        borrowed_seconds=show(resource, use.borrowed) if is_known else None,
        idle_guarantee_seconds=show(resource, use.idle),
    )

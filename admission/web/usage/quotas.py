"""What queues owned over time, with their loans, as use in a period is compared with it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from admission.read_api.usage import UsageQuotaBody
from admission.web.usage.report import path_upwards
from queues.api.names import SCHEDULING_VOLCANO
from queues.api.quota.loan_values import loans_of
from queues.api.quota.quota_document import Spec
from queues.api.types.queue import QueueDocument
from queues.errors import InvalidDocument
from queues.quota.loans import Loan, loans_in_force
from queues.quota.queue import MOST_LEVELS, ROOT, Queue
from queues.resources import show
from queues.sql.read.usage import UsageColumn, UsageViewer
from queues.sql.read.usage_quota import OwnedAmounts, QuotaQueue, QuotaUse, StoredVersion
from queues.workload import QueueName

#: How often loans are looked at for one answer: each time costs as much as there are queues.
MOST_LOAN_STEPS: Final = 1_000

Parents = Mapping[str, str | None]


def quota_queues(by: Iterable[UsageColumn], viewer: UsageViewer, parents: Parents) -> list[QuotaQueue]:
    """The queues of a question with the queues that they are compared in. Empty: these columns name no queue.

    A user's or workload's part of what a queue borrowed is not defined, so it is shown for queues and tenants alone.
    Only for those that the user may see: what another one keeps idle is shown at the nearest one above it.
    ``parents``: of all queues.
    """
    asked = set(by)
    if asked not in ({UsageColumn.QUEUE}, {UsageColumn.TENANT}):
        return []
    by_queue = asked == {UsageColumn.QUEUE}
    names = {each.queue for each in viewer.queues} - {ROOT}
    found = []
    for each in viewer.queues:
        above = [name for name in path_upwards(parents, each.queue)[1:] if name in names]
        if each.queue == ROOT or len(above) >= MOST_LEVELS:
            above = []
        seen_as = each.shown_as or ""
        found.append(
            QuotaQueue(
                queue=each.queue,
                above=above[0] if above else "",
                level=len(above),
                counts_as=(seen_as if seen_as == each.queue else "") if by_queue else each.tenant,
                idle_in=seen_as if by_queue else each.tenant,
            )
        )
    return found if any(each.counts_as for each in found) else []


@dataclass(frozen=True, slots=True)
class _Owner:
    """A queue as a version of it states it."""

    #: None if it cannot be read.
    queue: Queue | None
    loans: tuple[Loan, ...]


def owned_amounts(
    versions: Iterable[StoredVersion], resource: str, ends: int, begins: int = 0
) -> list[OwnedAmounts] | None:
    """What queues owned of a resource in a period, in all flavors together, with what was lent and borrowed by loans.

    ``versions``: of each queue in order, of all that lend to them or borrow from them too. None if loans and queues
    changed too often to work it out.
    """
    ordered = sorted((each for each in versions if each.since < ends), key=lambda each: each.since)
    owners, pieces = dict[QueueName, _Owner](), _Pieces(resource)
    lent: Mapping[QueueName, Queue] = {}
    next_one, derived = 0, 0
    for moment in _moments(ordered, begins, ends):
        changed = set(lent)
        while next_one < len(ordered) and max(ordered[next_one].since, begins) <= moment:
            version = ordered[next_one]
            next_one += 1
            name, owner = QueueName(version.queue), _owner(version)
            if owner != owners.get(name):
                changed.add(name)
            if owner is None:
                owners.pop(name, None)
            else:
                owners[name] = owner
        lent = {}
        if any(loan.until > moment for owner in owners.values() for loan in owner.loans):
            derived += 1
            if derived > MOST_LOAN_STEPS:
                return None
            lent = _lent(owners, moment)
        for name in changed | set(lent):
            pieces.tell(name, moment, owners.get(name), lent.get(name))
    return pieces.until(ends)


def _moments(versions: Iterable[StoredVersion], begins: int, ends: int) -> list[int]:
    """When something may change in a period: at versions, and at the ends of loans."""
    found = {max(each.since, begins) for each in versions}
    for each in versions:
        found.update(loan.until for loan in loans_of(_spec(each.document or {})))
    return sorted(moment for moment in found if begins <= moment < ends)


def _lent(owners: Mapping[QueueName, _Owner], moment: int) -> Mapping[QueueName, Queue]:
    queues = {name: owner.queue for name, owner in owners.items() if owner.queue is not None}
    loans = {name: owner.loans for name, owner in owners.items() if owner.loans and name in queues}
    return loans_in_force(queues, loans, moment).queues


class _Pieces:
    """What queues owned, from one change to the next."""

    def __init__(self, resource: str) -> None:
        self._resource = resource
        self._last: dict[QueueName, OwnedAmounts] = {}
        self._over: list[OwnedAmounts] = []

    def tell(self, name: QueueName, moment: int, owner: _Owner | None, lent: Queue | None) -> None:
        """From a moment on a queue owns this. ``owner``: None if there is no queue; ``lent``: it as loans leave it."""
        now = None if owner is None else self._amounts(name, moment, lent or owner.queue)
        last = self._last.pop(name, None)
        if last is not None:
            if now is not None and last[3:] == now[3:]:
                now = last
            else:
                self._over.append(last._replace(until=moment))
        if now is not None:
            self._last[name] = now

    def _amounts(self, name: QueueName, moment: int, queue: Queue | None) -> OwnedAmounts:
        if queue is None:
            # It owned something else until then, and what it owns now is not known.
            return OwnedAmounts(name, moment, moment, None, 0)
        limits = queue.limits
        # No parent is there from which a guarantee of root could be kept.
        guarantee = 0 if name == ROOT else limits.guarantee.get(self._resource, 0)
        return OwnedAmounts(name, moment, moment, limits.deserved.get(self._resource), guarantee)

    def until(self, ends: int) -> list[OwnedAmounts]:
        """All of them, by queue and time."""
        return sorted(
            (*self._over, *(each._replace(until=ends) for each in self._last.values())),
            key=lambda each: (each.queue, each.since),
        )


def _spec(document: Spec) -> Spec:
    spec = document.get("spec")
    return spec if isinstance(spec, Mapping) else {}


def _owner(version: StoredVersion) -> _Owner | None:
    if version.document is None:
        return None
    spec = _spec(version.document)
    document = {
        "apiVersion": SCHEDULING_VOLCANO,
        "kind": "Queue",
        "metadata": {"name": version.queue},
        "spec": spec,
    }
    try:
        queue = QueueDocument.read(document).to_domain()
    except InvalidDocument:
        return _Owner(None, ())
    return _Owner(queue, loans_of(spec))


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

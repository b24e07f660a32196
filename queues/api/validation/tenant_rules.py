"""Who may change which Queue: the administrators of a tenant change the queues below it, within its quota. Pure.

A tenant is a top-level queue with its subtree. A user who is named in ``access.admins`` of a queue administers all
queues below that one, and not that one itself. Platform administrators may change every Queue: this is not about them.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from queues.api.quota.loans import lasting
from queues.api.types.queue import QueueAccess, QueueDocument, QueueSpec, queues_of
from queues.api.validation.loan_rules import loan_refusals, weakened_loans
from queues.errors import InvalidDocument
from queues.json_values import mapping_at, text_at, value_at
from queues.quota.accounts import Account
from queues.quota.effective_limits import Numbers, below, numbers_of
from queues.quota.queue import ROOT, Queue
from queues.text_format import excerpt
from queues.workload import NO_FLAVOR, QueueName

Document = Mapping[str, Any]
#: Queues from a tenant down to the deepest of its queues.
MOST_LEVELS: Final = 16
#: Queues below a tenant's top-level queue that states no ``access.maxQueues``.
QUEUES_OF_A_TENANT: Final = 200
#: Levels that are followed down: what was written while no webhook answered may have more than any queue may have.
_DEEPEST: Final = 200
#: Kinds of limits whose sum over the children stays within the parent's.
SummedKind = Literal["guarantee", "deserved"]
_SUMMED: Final[tuple[SummedKind, ...]] = ("guarantee", "deserved")


class Requester(NamedTuple):
    """A user as the API server knows them."""

    name: str
    groups: frozenset[str] = frozenset()


class ObjectWrite(NamedTuple):
    """A write of one Queue or Reservation."""

    name: str
    #: As it was; None if it is created.
    before: Document | None
    #: As it is to be; None if it is deleted.
    after: Document | None
    #: Of its status.
    is_status: bool = False


#: What a queue below a tenant inherits, because it decides about work of other tenants: which work the queue may evict,
#: and how long it keeps what others lent to it.
_RESERVED: Final[tuple[tuple[str, Callable[[QueueSpec], object]], ...]] = (
    ("spec.reclaimable", lambda spec: spec.reclaimable),
    ("spec.policy.minRunTime", lambda spec: spec.policy.min_run_time),
    ("spec.policy.maxEvictions", lambda spec: spec.policy.max_evictions),
    (
        "spec.policy.preemption.reclaim",
        lambda spec: spec.policy.preemption and spec.policy.preemption.reclaim,
    ),
    (
        "spec.policy.preemption.borrowWhilePreempting",
        lambda spec: spec.policy.preemption and spec.policy.preemption.borrow_while_preempting,
    ),
    ("spec.policy.preemption.cost", lambda spec: spec.policy.preemption and spec.policy.preemption.cost),
    ("spec.policy.starvation", lambda spec: spec.policy.starvation),
    ("spec.policy.health", lambda spec: spec.policy.health),
)


def change_refusals(
    change: ObjectWrite, by: Requester, queues: Mapping[str, Document], now: float = 0.0
) -> list[str]:
    """Why a user who is no platform administrator may not write a Queue; empty: they may.

    ``queues``: all Queues as they are stored, by name. ``now``: seconds since the epoch.
    """
    tree = TenantTree(queues)
    stranger = [_not_an_administrator(change.name, by)]
    before = None if change.before is None else tree.administered(_parent_of(change.before), by)
    if change.before is not None and before is None:
        return stranger
    if change.after is None:
        return _children_refusals(change.name, tree, "delete") or _weakened(change, by, tree, now)
    parent = _parent_of(change.after)
    # No queue goes below itself.
    after = None if change.name in tree.path(parent) else tree.administered(parent, by)
    if before is None:
        if after is None:
            return stranger
        return (
            _children_refusals(change.name, tree, "create")
            or _refusals_of_name(change, by, tree, now)
            or _loan_refusals(change, by, tree, now)
            or _content_refusals(change, after, tree)
        )
    if after is None or after[-1] != before[-1]:
        return [
            f"queue {change.name}: found spec.parent {excerpt(parent)}, expected a queue of the same tenant that "
            f"{by.name} administers. Ask a platform administrator to move it"
        ]
    return (
        _refusals_of_move(change, tree, now)
        or _loan_refusals(change, by, tree, now)
        or _content_refusals(change, after, tree)
        or _weakened(change, by, tree, now)
    )


def _refusals_of_name(change: ObjectWrite, by: Requester, tree: "TenantTree", now: float) -> list[str]:
    """Refuses a new queue with a name that others lend to, unless its creator may make these loans."""
    assert change.after is not None
    lenders = sorted(lender for lender, receiver in tree.loans(now) if receiver == change.name)
    known = tree.changed(change.name, change.after)
    foreign = [each for each in lenders if not _administers_both(each, change.name, by, tree, known)]
    return [
        f"queue {change.name}: found a name that {', '.join(foreign[:5])} lends to, expected one that no other queue "
        "lends to. Choose another name, or ask a platform administrator"
    ][: len(foreign)]


def _refusals_of_move(change: ObjectWrite, tree: "TenantTree", now: float) -> list[str]:
    """Loans change what the queues between their two ends deserve: none of these is moved meanwhile."""
    assert change.before is not None
    assert change.after is not None
    if _parent_of(change.before) == _parent_of(change.after):
        return []
    lent = [pair for pair in tree.loans(now) if any(change.name in tree.path(end) for end in pair)]
    return [
        f"queue {change.name}: found a new spec.parent while {lender} lends to {receiver}, expected no loan of this "
        "queue or one below it. End the loan first, or ask a platform administrator"
        for lender, receiver in lent[:1]
    ]


def _administers_both(
    lender: str, receiver: str, by: Requester, tree: "TenantTree", known: "TenantTree"
) -> bool:
    """Whether a user administers everything that a loan changes. ``known``: the tree as it is to be."""
    lending, receiving = known.path(lender), known.path(receiver)
    above = next((name for name in lending if name in receiving), None)
    if above is None or above in (lender, receiver):
        return False
    return tree.administered(above, by) is not None


def _loan_refusals(change: ObjectWrite, by: Requester, tree: "TenantTree", now: float) -> list[str]:
    """A loan changes what all queues between its two ends and the nearest queue above both deserve."""
    assert change.after is not None
    known = tree.changed(change.name, change.after)
    administers = partial(_administers_both, by=by, tree=tree, known=known)
    return loan_refusals(change.name, change.before, change.after, administers, now)


def _weakened(change: ObjectWrite, by: Requester, tree: "TenantTree", now: float) -> list[str]:
    """Refuses a change after which a loan that the user may not end counts for less."""
    before = {} if change.before is None else {change.name: change.before}
    after = {} if change.after is None else {change.name: change.after}
    others = {name: document for name, document in tree.queues.items() if name != change.name}
    administers = partial(_administers_both, by=by, tree=tree, known=tree)
    return weakened_loans(change.name, {**others, **before}, {**others, **after}, administers, now)


def command_refusals(target: str, by: Requester, queues: Mapping[str, Document]) -> list[str]:
    """Why a user who is no platform administrator may not open or close a Queue by a Command; empty: they may."""
    found = queues.get(target)
    if found is None or TenantTree(queues).administered(_parent_of(found), by) is None:
        return [_not_an_administrator(target, by)]
    return []


def status_refusals(name: str, by: Requester) -> list[str]:
    """Why only Muster writes the status of a Queue."""
    return [
        f"queue {name}: found a status written by {by.name}, expected one of Muster only. "
        f"`kubectl muster queue close {name}` closes a queue, `kubectl muster queue open {name}` opens it"
    ]


@dataclass(frozen=True, slots=True)
class TenantTree:
    """All Queues as they are stored, by name. One that cannot be read is in no tenant."""

    queues: Mapping[str, Document]

    def path(self, name: str) -> list[str]:
        """A queue and those above it up to its tenant, nearest first. Empty: ``root``, a missing queue, or a cycle."""
        path: list[str] = []
        while name not in ("", ROOT):
            found = self.queues.get(name)
            if found is None or name in path:
                return []
            path.append(name)
            name = _parent_of(found)
        return path

    def administered(self, parent: str, by: Requester) -> list[str] | None:
        """The path of a queue if the user administers what is below it; None if not."""
        path = self.path(parent)
        return path if any(_is_named(by, self.queues[name]) for name in path) else None

    def children(self) -> dict[str, list[str]]:
        """Names of the queues below each queue."""
        found: dict[str, list[str]] = {}
        for name, queue in self.queues.items():
            found.setdefault(_parent_of(queue), []).append(name)
        return found

    def below(self, name: str) -> set[str]:
        """Names of all queues below one, however deep."""
        return below([name], self.children()) - {name}

    def loans(self, now: float) -> list[tuple[str, str]]:
        """Lender and receiver of each loan that has not ended."""
        return [
            (name, str(loan.get("to")))
            for name, queue in sorted(self.queues.items())
            for loan in lasting(mapping_at(queue, "spec"), now)
        ]

    def changed(self, name: str, after: Document) -> "TenantTree":
        """The tree with a queue as it is to be."""
        return TenantTree({**self.queues, name: after})


def _parent_of(queue: Document) -> str:
    return text_at(queue, "spec", "parent")


def _access_of(queue: Document) -> QueueAccess | None:
    """What a queue states under ``access``; None if it cannot be read."""
    try:
        return QueueAccess.read(value_at(queue, "spec", "access") or {})
    except InvalidDocument:
        return None


def _is_named(by: Requester, queue: Document) -> bool:
    access = _access_of(queue)
    if access is None:
        return False
    # An entry with both is neither a user nor a group: it names no administrator.
    return any(
        (each.user == by.name and each.group is None) or (each.group in by.groups and each.user is None)
        for each in access.admins
    )


def _not_an_administrator(name: str, by: Requester) -> str:
    return (
        f"queue {name}: {by.name} may not change it, being neither a platform administrator (role muster-queue-admin) "
        "nor named in access.admins of a queue above it"
    )


def _children_refusals(name: str, tree: TenantTree, what: str) -> list[str]:
    """Refuses to delete a queue that others name as parent, and to create one: they would belong to its creator."""
    children = sorted(tree.children().get(name, ()))
    if not children:
        return []
    shown = ", ".join(children[:5]) + (f" and {len(children) - 5} more" if len(children) > 5 else "")
    return [f"queue {name}: {shown} name it as parent, expected none to {what} it. Move or delete them first"]


def _content_refusals(change: ObjectWrite, above: list[str], tree: TenantTree) -> list[str]:
    """``above``: the path of the parent, up to the tenant."""
    after = change.after or {}
    try:
        spec = QueueDocument.read(after).spec
    except InvalidDocument as error:
        return [f"queue {change.name}: {error}"]
    try:
        before = QueueDocument.read(change.before or {}).spec
    except InvalidDocument:
        before = QueueSpec()
    reserved = [
        f"queue {change.name}: found another {path} than before, which decides about work of other tenants: only "
        "a platform administrator changes it"
        for path, read in _RESERVED
        if read(spec) != read(before)
    ]
    if spec == before and change.before is not None:
        return []  # of labels and other metadata
    if len(above) >= MOST_LEVELS:
        return [
            f"queue {change.name}: found {len(above)} queues above it, expected fewer than {MOST_LEVELS}: deeper trees "
            "cost every decision much"
        ]
    reserved += _number_refusals(change.name, above, tree, tree.changed(change.name, after))
    return reserved or list(_quota_refusals(change.name, above, tree, tree.changed(change.name, after)))


def _number_refusals(name: str, above: list[str], before: TenantTree, after: TenantTree) -> list[str]:
    """More queues below a queue of the path than it may have: each costs every decision, and the whole cluster waits
    for it. What was too many already may stay, or become less."""
    for queue in above:
        limit = _most_queues(before.queues[queue], is_tenant=queue == above[-1])
        if limit is None or (count := len(after.below(queue))) <= limit or count <= len(before.below(queue)):
            continue
        who = "ask a platform administrator to raise" if queue == above[-1] else "raise"
        return [
            f"queue {name}: found {count} queues below {queue}, expected at most {limit}. Delete some that are not "
            f"used, or {who} access.maxQueues of {queue}"
        ]
    return []


def _most_queues(queue: Document, *, is_tenant: bool) -> int | None:
    """How many queues may be below a queue; None for as many as the queues above it allow."""
    access = _access_of(queue)
    if access is not None and access.max_queues is not None:
        return access.max_queues
    return QUEUES_OF_A_TENANT if is_tenant else None


# ── quota ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _quota_refusals(name: str, above: list[str], before: TenantTree, after: TenantTree) -> Iterator[str]:
    """What grows beyond the limits of a queue of the tenant.

    What was beyond them already may stay, or become less.
    """
    old, new = _Claims(before), _Claims(after)
    for queue in (name, *above):
        is_tenant = queue == above[-1]
        for kind in _SUMMED:
            for account in sorted(total := new.of_children(queue, kind)):
                limit = new.limit(queue, kind, account, is_tenant)
                if limit is None or total[account] <= limit:
                    continue
                excess = total[account] - limit
                limit_before = old.limit(queue, kind, account, is_tenant)
                if (
                    limit_before is not None
                    and excess <= old.of_children(queue, kind)[account] - limit_before
                ):
                    continue
                yield (
                    f"queue {name}: found {kind} of {account.amount(total[account])} of the queues below {queue} "
                    f"together, expected at most {account.show(limit)}, the {kind} of {queue}"
                )
    yield from _capability_refusals(name, above, old, new)


def _capability_refusals(name: str, above: list[str], old: "_Claims", new: "_Claims") -> Iterator[str]:
    """A capability counts for each queue, not for its siblings together."""
    before = old.numbers(name).capability
    for account, units in sorted(new.numbers(name).capability.items()):
        if units <= before.get(account, -1):
            continue
        limits = ((queue, new.numbers(queue).capability.get(account)) for queue in above)
        for queue, limit in limits:
            if limit is not None and units > limit:
                yield (
                    f"queue {name}: found a capability of {account.amount(units)}, expected at most "
                    f"{account.show(limit)}, the capability of {queue}"
                )
                break


class _Claims:
    """What queues state, and what those below them state together."""

    def __init__(self, tree: TenantTree) -> None:
        self._tree = tree
        self._children = tree.children()
        self._numbers: dict[str, Numbers] = {}
        self._flavors: dict[str, frozenset[str]] = {}
        self._claimed: dict[tuple[str, str], Mapping[Account, int]] = {}

    def numbers(self, queue: str) -> Numbers:
        """The limits that a queue states; none if there is no such queue, or it cannot be read."""
        if queue not in self._numbers:
            name = QueueName(queue)
            stated = queues_of({name: self._tree.queues.get(queue) or {}}).get(name, Queue(name=name))
            self._numbers[queue], self._flavors[queue] = numbers_of(stated), frozenset(stated.flavors)
        return self._numbers[queue]

    def of_children(self, queue: str, kind: SummedKind) -> Counter[Account]:
        """What the queues directly below claim together, each with what is below it."""
        total = Counter[Account]()
        for child in self._children.get(queue, ()):
            total.update(self._claim(child, kind, (queue,)))
        return total

    def _claim(self, queue: str, kind: SummedKind, above: tuple[str, ...]) -> Mapping[Account, int]:
        """What a queue states, and of what it does not state what its children claim. ``above``: against cycles."""
        known = self._claimed.get((queue, kind))
        if known is not None:
            return known
        own = dict(getattr(self.numbers(queue), kind))
        # Less for all flavors than for one of them does not make it less.
        flavored: Counter[Account] = Counter()
        for account, units in own.items():
            if account.flavor != NO_FLAVOR:
                flavored[Account(NO_FLAVOR, account.resource)] += units
        for account, units in flavored.items():
            own[account] = max(own.get(account, 0), units)
        lower: Counter[Account] = Counter()
        for child in self._children.get(queue, ()):
            if child not in above and len(above) < _DEEPEST:
                lower.update(self._claim(child, kind, (*above, queue)))
        found = self._claimed[queue, kind] = {**lower, **own}
        return found

    def limit(self, queue: str, kind: SummedKind, account: Account, is_tenant: bool) -> int | None:
        """What those below may claim together; None if only the queues above limit it."""
        own = getattr(self.numbers(queue), kind)
        if account in own:
            return int(own[account])
        if kind == "guarantee":
            return 0
        if not is_tenant:
            return None
        # The sum over all flavors is limited as well. A flavor that the tenant does not list is not its own.
        listed = self._flavors[queue]
        return None if account.flavor != NO_FLAVOR and (not listed or account.flavor in listed) else 0

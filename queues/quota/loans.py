"""Loans: a queue lends a part of what it deserves to another one until a time. Pure.

A loan is stated in the queue that lends. Nothing is stored when it begins or ends: what queues deserve at a time
follows from what they state and from the loans that last then. So a loan ends by itself, even if the controller was
down then.

- What is lent leaves the lender and every queue between it and the nearest queue above both; it reaches the receiver
  and every queue between. A queue that states no deserved amount there stays as it is.
- A guarantee is never lent. Only what a queue states itself is lent on, not what was lent to it.
- A loan counts as far as the lender, and those between, have the amount: earlier loans first.
- A capability below what the receiver, or a queue between, deserves with the loan is raised to it.

``loans_in_force`` is the one place where queues as they state their limits become queues as they count.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from queues.quota.accounts import Account
from queues.quota.effective_limits import numbers_of
from queues.quota.queue import ROOT, Limits, Loan, Queue
from queues.quota.tree import QueueTree
from queues.workload import NO_FLAVOR, FlavorName, QueueName


class LoanInForce(NamedTuple):
    """A loan that has not ended, and how much of it counts."""

    lender: QueueName
    loan: Loan
    units: int
    #: Why it does not count in full; "": it does.
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoansInForce:
    """What follows from loans at a time."""

    loans: tuple[LoanInForce, ...] = ()
    #: Queues that count otherwise than they are stated: those that lend have no loans, and all the limits that follow.
    queues: Mapping[QueueName, Queue] = field(default_factory=dict)
    #: When the next loan ends, in seconds since the epoch; None if there is none.
    until: int | None = None
    #: Of the queues as they state their limits; None if there is no loan.
    tree: QueueTree | None = None


def loans_in_force(
    queues: Mapping[QueueName, Queue], now: int, *, before: QueueTree | None = None
) -> LoansInForce:
    """The loans that last at ``now``, in seconds since the epoch. ``queues``: as they state their limits; ``before``:
    an older tree of such queues, to carry on."""
    lending = {name: replace(queue, loans=()) for name, queue in queues.items() if queue.loans}
    lasting = [(name, loan) for name in sorted(lending) for loan in queues[name].loans if loan.until > now]
    if not lasting:
        return LoansInForce(queues=lending)
    tree = QueueTree.build(queues, None, before=before)
    books = _Books(tree)
    counted = tuple(books.lend(lender, loan) for lender, loan in lasting)
    shifted = {name: _shifted(queues[name], amounts) for name, amounts in books.shifts.items()}
    return LoansInForce(
        loans=counted,
        queues=lending | shifted,
        until=min(loan.until for _, loan in lasting),
        tree=tree,
    )


class DeservedOverTime:
    """What queues deserve from a time on, as loans end one after the other."""

    def __init__(self, queues: Mapping[QueueName, Queue]) -> None:
        """``queues``: as they state their limits."""
        self.queues = queues
        self._ends = sorted({loan.until for queue in queues.values() for loan in queue.loans})
        #: By the number of ends that are over.
        self._counted: dict[int, Mapping[QueueName, Queue]] = {}

    def least(self, name: QueueName, start: int, end: int | None) -> Mapping[str, int]:
        """The least of each resource that a queue deserves, over all flavors, at any second of a window.

        ``start``, ``end``: its first second, and the first one after it; None if it does not end. Empty: the queue
        states no deserved amount, or there is no such queue.
        """
        if name not in self.queues:
            return {}
        moments = [start, *(each for each in self._ends if each > start and (end is None or each < end))]
        amounts = [self._at(each).get(name, self.queues[name]).limits.deserved for each in moments]
        return {resource: min(each[resource] for each in amounts) for resource in amounts[0]}

    def _at(self, now: int) -> Mapping[QueueName, Queue]:
        over = bisect_right(self._ends, now)
        if over not in self._counted:
            self._counted[over] = loans_in_force(self.queues, now).queues
        return self._counted[over]


class _Books:
    """What loans take and give, each after those before it."""

    def __init__(self, tree: QueueTree) -> None:
        self._tree = tree
        self._lent: Counter[tuple[QueueName, Account]] = Counter()
        #: By queue and account what is added to its deserved amount; below 0: taken from it.
        self.shifts: dict[QueueName, Counter[Account]] = {}

    def lend(self, lender: QueueName, loan: Loan) -> LoanInForce:
        """Enter a loan as far as it counts."""
        wrong = self._why_not(lender, loan)
        if wrong:
            return LoanInForce(lender, loan, 0, wrong)
        giving, taking = self._sides(lender, loan.to)
        units, scarce = min((self._left(queue, loan.account), queue) for queue in giving)
        counts = max(0, min(loan.units, units))
        for queue, sign in (*((each, -1) for each in giving), *((each, 1) for each in taking)):
            for account in self._stated(queue, loan.account):
                if sign < 0:
                    self._lent[queue, account] += counts
                if counts:
                    self.shifts.setdefault(queue, Counter())[account] += sign * counts
        if counts == loan.units:
            return LoanInForce(lender, loan, counts)
        has = f"queue {scarce} has {loan.account.amount(counts)} to lend: what it deserves without its guarantee"
        return LoanInForce(lender, loan, counts, f"{has}, and without what it lends already")

    def _why_not(self, lender: QueueName, loan: Loan) -> str:
        """Why a loan does not count at all; "": it may."""
        tree, account = self._tree, loan.account
        if loan.to not in tree.queues or loan.to == ROOT:
            return f"there is no queue {loan.to}" if loan.to != ROOT else "root has all there is"
        if (broken := next((each for each in (lender, loan.to) if not tree.usable(each)), None)) is not None:
            return f"queue {broken} cannot be used"
        if lender in tree.paths[loan.to] or loan.to in tree.paths[lender]:
            return "of the two queues one is above the other, or they are the same"
        ends = (lender, loan.to)
        silent = next((each for each in ends if not _states(tree.queues[each], account)), None)
        return "" if silent is None else f"queue {silent} states no deserved {account}"

    def _sides(self, lender: QueueName, receiver: QueueName) -> tuple[list[QueueName], list[QueueName]]:
        """The queues from each of the two up to below the nearest queue above both."""
        one, other = self._tree.paths[lender], self._tree.paths[receiver]
        shared = frozenset(one) & frozenset(other)
        return [each for each in one if each not in shared], [each for each in other if each not in shared]

    def _stated(self, queue: QueueName, account: Account) -> Iterator[Account]:
        """The accounts that a loan changes in a queue: its own, and the one over all flavors."""
        for each in dict.fromkeys((account, Account(NO_FLAVOR, account.resource))):
            if each in self._tree.own_deserved[queue]:
                yield each

    def _left(self, queue: QueueName, account: Account) -> int:
        """How much of an account a queue can lend still; a queue that states nothing does not limit it."""
        tree = self._tree
        left = [
            tree.own_deserved[queue][each] - tree.guarantee(queue, each) - self._lent[queue, each]
            for each in self._stated(queue, account)
        ]
        return min(left, default=2**63)


def _states(queue: Queue, account: Account) -> bool:
    """Whether a queue itself states a deserved amount; one that follows from its flavors cannot be shifted."""
    limits = queue.limits if account.flavor == NO_FLAVOR else queue.flavors.get(account.flavor)
    return limits is not None and account.resource in limits.deserved


def _shifted(queue: Queue, amounts: Mapping[Account, int]) -> Queue:
    """A queue with these amounts added to what it states as deserved, and capabilities that allow it."""
    deserved = {flavor: dict(limits.deserved) for flavor, limits in queue.all_limits().items()}
    for account, units in amounts.items():
        own = deserved.get(account.flavor, {})
        if account.resource in own:  # else it follows from the flavors
            own[account.resource] += units
    lent = _with(
        queue,
        {flavor: replace(each, deserved=deserved[flavor]) for flavor, each in queue.all_limits().items()},
    )
    needed, raised = numbers_of(lent).deserved, {account.resource for account in amounts}

    def allowed(flavor: FlavorName, capability: Mapping[str, int]) -> dict[str, int]:
        least = {name: needed.get(Account(flavor, name), 0) if name in raised else 0 for name in capability}
        return {name: max(units, least[name]) for name, units in capability.items()}

    return _with(
        lent,
        {
            flavor: replace(each, capability=allowed(flavor, each.capability))
            for flavor, each in lent.all_limits().items()
        },
    )


def _with(queue: Queue, limits: Mapping[FlavorName, Limits]) -> Queue:
    """A queue that counts with these limits: its loans are in them."""
    flavors = {flavor: limits[flavor] for flavor in queue.flavors}
    return replace(queue, limits=limits[NO_FLAVOR], flavors=flavors, loans=())

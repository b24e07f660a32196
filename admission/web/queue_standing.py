"""How the use of each queue compares with its share, and what can really happen where it has less: what others borrow
and may be taken back, what stops all of its work that waits, and which limits are reached."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from queues.quota.accounts import Account
from queues.quota.budgets import HOLD
from queues.quota.queue import ROOT
from queues.quota.tree import QueueTree
from queues.read_api.bodies import BudgetBody
from queues.resources import show
from queues.sql.read.rows import AccountLine, QueueLine
from queues.workload import FlavorName, QueueName

#: What a policy lets a queue take back of what others borrow, where that is not all of it.
_RECLAIMS: Final = {
    "lower-priority": "it takes back only from work of lower priority (reclaim: lower-priority)",
    "never": "it takes nothing back (reclaim: never)",
}
_NONE: Final = AccountLine(flavor="", resource="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Standings:
    """The queues of one moment, for questions about the standing of one."""

    served: QueueTree
    #: Each queue with those above it, the nearest first.
    paths: Mapping[QueueName, Sequence[QueueLine]]
    accounts: Mapping[QueueName, Mapping[Account, AccountLine]]
    #: By the queue above them and account, queues that use more than they deserve, and how much more.
    borrowers: Mapping[tuple[QueueName, Account], Sequence[tuple[QueueName, int]]]
    #: By queue, what stops the work of each queue in its subtree that has some which waits; "": nothing does.
    stops: Mapping[QueueName, Sequence[tuple[str, QueueName]]]

    @classmethod
    def of(
        cls,
        paths: Mapping[QueueName, Sequence[QueueLine]],
        budgets: Mapping[QueueName, BudgetBody],
        served: QueueTree,
    ) -> "Standings":
        """``budgets``: those that queues state, with what is used of them."""
        borrowers: dict[tuple[QueueName, Account], list[tuple[QueueName, int]]] = defaultdict(list)
        stops: dict[QueueName, list[tuple[str, QueueName]]] = defaultdict(list)
        for name, path in paths.items():
            for line in path[0].accounts:
                parent = path[0].parent or ROOT
                if name != ROOT and (more := line.used - (line.deserved or 0)) > 0:
                    borrowers[parent, account_of(line)].append((name, more))
            if path[0].pending:
                for above in path:
                    stops[above.name].append(_stop(path, budgets))
        accounts = {
            name: {account_of(line): line for line in path[0].accounts} for name, path in paths.items()
        }
        return cls(served=served, paths=paths, accounts=accounts, borrowers=borrowers, stops=stops)

    def standing(self, queue: QueueName, line: AccountLine) -> str:
        """How an account of a queue stands, as a phrase; "": neither a share nor a limit is written."""
        full = "at its capability" if _is_full(line) else ""
        if line.deserved is None:
            return full
        lacks = line.deserved - line.used
        if lacks < 0:
            more = f"{show(line.resource, -lacks)} above its share, which others may take back"
            return f"{more}; {full}" if full else more
        if lacks == 0:
            return full or "has its share"
        return f"{show(line.resource, lacks)} below its share; {full or self._prospect(queue, account_of(line), lacks)}"

    def _prospect(self, queue: QueueName, account: Account, lacks: int) -> str:
        """What can happen for a queue that uses so much less than its share."""
        path = self.paths[queue]
        if queue not in self.stops:
            return "nothing waits"
        if stopped := self._stopped(path):
            return f"nothing new is admitted: {stopped}"
        if units := self._borrowed(path, account):
            back = f"it may take back {show(account.resource, min(units, lacks))} that others borrow"
            return _RECLAIMS.get(self.served.policy(queue).reclaim or "", back)
        if any(_is_full(self._line(above.name, account)) for above in path[1:] if above.name != ROOT):
            return "a queue above it is at its capability"
        whole = self._line(ROOT, account).capability
        top = (name for name, each in self.paths.items() if each[0].parent == ROOT)
        deserved = sum(self._line(name, account).deserved or 0 for name in top)
        if whole is None or deserved <= whole:
            return "nobody borrows"
        together = f"{show(account.resource, deserved)} of {show(account.resource, whole)}"
        return f"nobody borrows: the queues deserve {together}"

    def _borrowed(self, path: Sequence[QueueLine], account: Account) -> int:
        """What others have that the first queue of a path may have back: at each level, where it lacks something."""
        units = 0
        for child, parent in pairwise(path):
            line = self._line(child.name, account)
            if line.deserved is not None and line.used >= line.deserved:
                break
            units += sum(
                more
                for name, more in self.borrowers.get((parent.name, account), ())
                if name != child.name and self.served.reclaimable(name, path[0].name)
            )
            if parent.name != ROOT and _is_full(self._line(parent.name, account)):
                break
        return units

    def _stopped(self, path: Sequence[QueueLine]) -> str:
        """What stops all work of a queue that waits, and where; "": some of it may be admitted."""
        stops = self.stops[path[0].name]
        if not all(what for what, _ in stops):
            return ""
        above = {each.name for each in path[1:]}
        whats = " or ".join(dict.fromkeys(what for what, _ in stops))
        by = {name for _, name in stops}
        where = "" if by == {path[0].name} else " above it" if by <= above else " in all that waits"
        return f"{whats}{where}"

    def _line(self, queue: QueueName, account: Account) -> AccountLine:
        return self.accounts.get(queue, {}).get(account, _NONE)


def _stop(path: Sequence[QueueLine], budgets: Mapping[QueueName, BudgetBody]) -> tuple[str, QueueName]:
    """What stops new work of the first queue of a path, and at which queue; "": nothing does."""
    for line in path:
        budget = budgets.get(line.name)
        used = budget.resources if budget is not None and budget.when_spent == HOLD else ()
        for what, is_so in (
            ("closed", line.closed),
            ("paused", line.paused),
            ("on hold", line.served.hold is not None),
            ("budget spent", any((each.percent or 0) >= 100 for each in used)),
        ):
            if is_so:
                return what, line.name
    return "", path[0].name


def _is_full(line: AccountLine) -> bool:
    return line.capability is not None and line.counted >= line.capability


def account_of(line: AccountLine) -> Account:
    """The account of the line."""
    return Account(FlavorName(line.flavor), line.resource)

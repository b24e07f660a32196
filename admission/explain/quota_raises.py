"""How much more quota would let one pending workload in: as little as possible, and each answer tried."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from admission.engine.placement import need
from admission.explain.what_if import WhatIf, WhatIfOutcome, is_scarce, with_limit
from queues.plan import Evict, Reason
from queues.quota.accounts import Account, charges
from queues.quota.queue import ROOT, Queue
from queues.reason_codes import ReasonCode
from queues.workload import QueueName

#: The most limits that are raised one after the other, and the most tries with less.
_LIMITS = 8


class Raise(NamedTuple):
    """More of one account for one queue, in units of ``queues.resources``."""

    queue: QueueName
    account: Account
    #: The amount that the queue has.
    before: int
    units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaRaise:
    """Quota of queues raised, and what the engine then does with the workload."""

    what_if: WhatIf
    #: ``capability`` | ``deserved``.
    kind: str
    #: In the order in which the limits were met.
    raises: tuple[Raise, ...] = ()
    outcome: WhatIfOutcome

    @property
    def queues(self) -> Mapping[QueueName, Queue]:
        """All queues, with the raised amounts."""
        queues = dict(self.what_if.snapshot.queues)
        for name, account, before, units in self.raises:
            queues[name] = with_limit(queues[name], self.kind, account, before + units)
        return queues

    @property
    def text(self) -> str:
        """``4 nvidia.com/gpu more capability in a``."""
        return " and ".join(
            f"{each.account.amount(each.units)} more {self.kind} in {each.queue}" for each in self.raises
        )

    @property
    def facts(self) -> dict[str, Any]:
        """The raises, JSON-able."""
        return {
            "more": [
                {
                    "queue": name,
                    "resource": account.resource,
                    "flavor": account.flavor,
                    "units": account.show(units),
                }
                for name, account, _, units in self.raises
            ]
        }

    def tried(self) -> "QuotaRaise":
        """The same raises with the outcome that they have."""
        return replace(self, outcome=self.what_if.outcome(queues=self.queues))

    def smallest(self) -> "QuotaRaise":
        """The smallest raises that let the workload in: quota that its victims free need not be added."""
        smallest = self
        for _ in range(_LIMITS):
            less = self._less(smallest.outcome.victims)
            if not less.raises or less.raises == smallest.raises or not (less := less.tried()).outcome:
                break
            smallest = less
        return smallest

    def _less(self, victims: Iterable[Evict]) -> "QuotaRaise":
        tree, admissions = self.what_if.tree, self.what_if.snapshot.admissions
        freed: dict[tuple[QueueName, Account], int] = {}
        for victim in (admissions[each.admission] for each in victims):
            for account, units in charges(victim.holding()).items():
                for name in tree.paths.get(victim.queue, ()):
                    freed[name, account] = freed.get((name, account), 0) + units
        less = (
            each._replace(units=each.units - freed.get((each.queue, each.account), 0)) for each in self.raises
        )
        return replace(self, raises=tuple(each for each in less if each.units > 0))


def capability_raised(what_if: WhatIf, refused: Reason) -> QuotaRaise | None:
    """Every limit that refuses the workload, raised by what exceeds it. None if no queue's limit refuses it.

    The capability of ``root`` is not raised: it is what the nodes have.
    """
    raised = QuotaRaise(what_if=what_if, kind="capability", outcome=WhatIfOutcome(None, (), refused))
    for _ in range(_LIMITS):
        reason = raised.outcome.reason
        if (
            raised.outcome
            or reason is None
            or reason.code not in (ReasonCode.QUEUE_LIMIT, ReasonCode.NEVER_FITS)
            or "over" not in reason.facts
            or reason.facts["queue"] == ROOT
        ):
            break
        account = Account(reason.facts["flavor"], reason.facts["resource"])
        one = Raise(reason.facts["queue"], account, reason.facts["limit"], reason.facts["over"])
        raised = replace(raised, raises=(*raised.raises, one)).tried()
    if not raised.raises:
        return None
    return raised.smallest() if raised.outcome else raised


def deserved_raised(what_if: WhatIf) -> Iterator[QuotaRaise]:
    """The deserved quota that the workload's queue lacks for the gang; then with the queue above it, and so on."""
    workload, tree, missing = what_if.workload, what_if.tree, what_if.missing()
    usage = what_if.memo.usage
    assert usage is not None
    asked = need.member_charges(workload, missing.minimum or missing.missing)
    raised = QuotaRaise(what_if=what_if, kind="deserved", outcome=WhatIfOutcome(None, (), None))
    for name in tree.paths.get(workload.queue, ())[:-1]:
        for account, units in asked.items():
            before = tree.deserved(name, account)
            lacking = usage.used(name, account) + units - before
            if lacking > 0 and name in what_if.snapshot.queues and is_scarce(tree, account):
                raised = replace(raised, raises=(*raised.raises, Raise(name, account, before, lacking)))
        if raised.raises:
            tried = raised.tried()
            yield tried.smallest() if tried.outcome else tried

"""How much more quota would let one pending workload in: no more than that, each answer tried."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from admission.engine.placement import need
from admission.explain.what_if import WhatIf, WhatIfOutcome, is_scarce, with_limit
from queues.plan import Evict, Reason
from queues.quota.accounts import Account, charges
from queues.quota.queue import ROOT, Queue
from queues.reason_codes import ReasonCode
from queues.workload import QueueName

#: So many limits are raised at most, one after the other; and so often less is tried.
_LIMITS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """Numbers of queues raised, and what then becomes of the workload."""

    trying: WhatIf
    #: ``capability`` | ``deserved``.
    kind: str
    #: (queue, account, what it has, how much more), in the order in which they were met.
    more: tuple[tuple[QueueName, Account, int, int], ...] = ()
    outcome: WhatIfOutcome

    @property
    def queues(self) -> Mapping[QueueName, Queue]:
        """All queues, these with the higher numbers."""
        queues = dict(self.trying.world.queues)
        for name, account, before, units in self.more:
            queues[name] = with_limit(queues[name], self.kind, account, before + units)
        return queues

    @property
    def told(self) -> str:
        """``4 nvidia.com/gpu more capability in a``."""
        return " and ".join(
            f"{account.amount(units)} more {self.kind} in {name}" for name, account, _, units in self.more
        )

    @property
    def facts(self) -> dict[str, Any]:
        """The same, JSON-able."""
        more = [
            {"queue": name, "resource": account.resource, "flavor": account.flavor, "units": units}
            for name, account, _, units in self.more
        ]
        return {"more": more}

    def tried(self) -> "Raised":
        """With what becomes of the workload."""
        return replace(self, outcome=self.trying.outcome(queues=self.queues))

    def least(self) -> "Raised":
        """As little as lets the workload in: what those free who are taken back for it need not be added."""
        least = self
        for _ in range(_LIMITS):
            fewer = self._less(least.outcome.victims)
            if not fewer.more or fewer.more == least.more or not (fewer := fewer.tried()).outcome:
                break
            least = fewer
        return least

    def _less(self, victims: Iterable[Evict]) -> "Raised":
        tree, admissions = self.trying.tree, self.trying.world.admissions
        freed: dict[tuple[QueueName, Account], int] = {}
        for victim in (admissions[each.admission] for each in victims):
            for account, units in charges(victim.holding()).items():
                for name in tree.paths.get(victim.queue, ()):
                    freed[name, account] = freed.get((name, account), 0) + units
        less = (
            (name, account, before, units - freed.get((name, account), 0))
            for name, account, before, units in self.more
        )
        return replace(self, more=tuple(each for each in less if each[3] > 0))


def capability_raised(trying: WhatIf, refused: Reason) -> Raised | None:
    """Every limit that refuses raised by what is too much, up to root; None: no limit of a queue refuses."""
    raised = Raised(trying=trying, kind="capability", outcome=WhatIfOutcome(None, (), refused))
    for _ in range(_LIMITS):
        reason = raised.outcome.reason
        if (
            raised.outcome
            or reason is None
            or reason.code != ReasonCode.QUEUE_LIMIT
            or reason.facts["queue"] == ROOT
        ):
            break
        account = Account(reason.facts["flavor"], reason.facts["resource"])
        one = (QueueName(reason.facts["queue"]), account, reason.facts["limit"], reason.facts["over"])
        raised = replace(raised, more=(*raised.more, one)).tried()
    if not raised.more:
        return None
    return raised.least() if raised.outcome else raised


def deserved_raised(trying: WhatIf) -> Iterator[Raised]:
    """What its queue lacks to have its gang in its share; then with the queue above, and so on."""
    workload, tree, lacks = trying.workload, trying.tree, trying.need()
    usage = trying.memo.usage
    assert usage is not None
    asked = need.member_charges(workload, lacks.minimum or lacks.missing)
    raised = Raised(trying=trying, kind="deserved", outcome=WhatIfOutcome(None, (), None))
    for name in tree.paths.get(workload.queue, ())[:-1]:
        for account, units in asked.items():
            before = tree.deserved(name, account)
            lacking = usage.used(name, account) + units - before
            if lacking > 0 and name in trying.world.queues and is_scarce(tree, account):
                raised = replace(raised, more=(*raised.more, (name, account, before, lacking)))
        if raised.more:
            tried = raised.tried()
            yield tried.least() if tried.outcome else tried

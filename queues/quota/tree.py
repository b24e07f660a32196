"""The queue tree and its limits: guarantee ≤ deserved ≤ capability per (flavor, resource), at every level.

In Kueue's words: guarantee = nominal quota − lending limit, deserved = nominal quota, capability = nominal quota +
borrowing limit, inner queue = cohort. The numbers of an inner queue contain those of its children.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from types import MappingProxyType
from typing import NamedTuple

from queues.plugins.interface import OrderPolicy, QueueRules
from queues.quota.access import AccessRefusal, access_refusal
from queues.quota.accounts import Account
from queues.quota.budgets import HoursBudget, SpentBudget
from queues.quota.effective_limits import Claimant, EffectiveLimits, below, share_out
from queues.quota.queue import (
    DEFAULT_POLICY,
    HIGHEST_USER_PRIORITY,
    ROOT,
    SMALLEST_COUNTS,
    PriorityLimit,
    Queue,
    QueuePolicy,
    RunLimit,
    run_limit,
)
from queues.quota.queue_policies import QueuePolicies, policies_of
from queues.reason_codes import FOR_LACK, ReasonCode
from queues.resources import NOTHING, Resources
from queues.workload import NO_FLAVOR, FlavorName, QueueName


def ceiling_of(
    own: Mapping[Account, int], capacity: Resources | None, flavors: Mapping[FlavorName, Resources]
) -> dict[Account, int]:
    """The limits of root: its own capability, and what nodes can allocate (``capacity`` is None if unknown)."""
    ceiling = dict(own)
    for flavor, amounts in ((NO_FLAVOR, capacity or NOTHING), *flavors.items()):
        for resource, units in amounts.items():
            account = Account(flavor, resource)
            ceiling[account] = min(units, ceiling.get(account, units))
    return ceiling


class LimitOnPath(NamedTuple):
    """What a queue on the path of another one says about an account."""

    queue: QueueName
    #: None if only the queues above limit it.
    limit: int | None
    guarantee: int


class QueueHold(NamedTuple):
    """A hold on new work."""

    #: The queue that states it.
    queue: QueueName
    reason: str


class BudgetOnPath(NamedTuple):
    """A budget that is used up, and holds."""

    #: The queue that states it.
    queue: QueueName
    budget: HoursBudget
    spent: SpentBudget


class AskedOfShare(NamedTuple):
    """What work asks of one resource, next to its queue's use and what that deserves as written."""

    asked: int
    used: int
    deserved: int


class UserLimit(NamedTuple):
    """What one user may use in a queue and all below it."""

    queue: QueueName
    account: Account
    units: int


class _LimitsAbove(dict[Account, tuple[LimitOnPath, ...]]):
    """Limits on the path of one queue, by account. Any account may be asked for."""

    __slots__ = ("_capabilities", "_guarantees", "_path")

    def __init__(
        self,
        path: Sequence[QueueName],
        capabilities: Mapping[QueueName, Mapping[Account, int]],
        guarantees: Mapping[QueueName, Mapping[Account, int]],
    ) -> None:
        super().__init__()
        self._path, self._capabilities, self._guarantees = path, capabilities, guarantees

    def __missing__(self, account: Account) -> tuple[LimitOnPath, ...]:
        path = (
            LimitOnPath(name, self._capabilities[name].get(account), self._guarantees[name].get(account, 0))
            for name in self._path
        )
        found = self[account] = tuple(each for each in path if each.limit is not None or each.guarantee)
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QueueTree(EffectiveLimits):
    """All queues with their effective limits. A broken queue is in ``problems`` and affects no other queue.

    Where a queue sets no number of its own: a guarantee is at least the sum of its children's, and over all flavors at
    least the sum of the flavors'; ``deserved`` is its weighted share of its parent's (in proportion to what it states
    of other resources); ``capability`` is left to the ancestors. ``root`` has what usable nodes can allocate.
    """

    _deserved: dict[QueueName, dict[Account, int]] = field(default_factory=dict)
    _shared_out: dict[tuple[QueueName, Account], Mapping[QueueName, int]] = field(default_factory=dict)
    _limits_above: dict[QueueName, "_LimitsAbove"] = field(default_factory=dict)
    _policies: dict[QueueName, QueuePolicy] = field(default_factory=dict)
    _served_by: dict[QueueName, QueuePolicies] = field(default_factory=dict)
    _kept: dict[QueueName, QueueName | None] = field(default_factory=dict)
    _ageing: dict[QueueName, int] = field(default_factory=dict)
    _user_limits: dict[QueueName, tuple[UserLimit, ...]] = field(default_factory=dict)
    _run_limits: dict[QueueName, RunLimit | None] = field(default_factory=dict)
    _checks: dict[QueueName, tuple[str, ...]] = field(default_factory=dict)
    _holds: dict[QueueName, QueueHold | None] = field(default_factory=dict)
    #: Queues on the path that state which namespaces may use them, nearest first.
    _selective: dict[QueueName, tuple[Queue, ...]] = field(default_factory=dict)

    @classmethod
    def build(
        cls,
        queues: Mapping[QueueName, Queue],
        capacity: Resources | None,
        flavors: Mapping[FlavorName, Resources] = MappingProxyType({}),
        *,
        before: "QueueTree | None" = None,
    ) -> "QueueTree":
        """The tree of these queues over nodes that can allocate ``capacity`` (None if unbounded), by flavor.

        Never raises: errors are in ``problems``. ``before``: a tree of other or older queues, which is carried on:
        what they have in common costs nothing.
        """
        known = cls() if before is None else before
        limits = known.after(queues)
        if limits is not before:
            known = cls(**{each.name: getattr(limits, each.name) for each in fields(EffectiveLimits)})
        return known.over(capacity, flavors)

    def over(
        self, capacity: Resources | None, flavors: Mapping[FlavorName, Resources] = MappingProxyType({})
    ) -> "QueueTree":
        """The same queues over other nodes, as ``build`` takes them."""
        ceiling = ceiling_of(self.stated[ROOT].numbers.capability, capacity, flavors)
        capabilities = {**self.capabilities, ROOT: ceiling}
        return replace(self, capabilities=capabilities, _deserved={}, _shared_out={}, _limits_above={})

    def differing(self, before: "QueueTree") -> Set[QueueName]:
        """Queues that are others than in an older tree, that came or are gone."""
        if self.queues is before.queues:
            return frozenset()
        known = map(before.queues.get, self.queues)
        rows = zip(self.queues.items(), known, strict=True)
        return {name for (name, queue), was in rows if queue is not was} | (
            before.queues.keys() - self.queues.keys()
        )

    def with_below(self, queues: Iterable[QueueName]) -> Set[QueueName]:
        """These queues and all below them."""
        return below(queues, self.children)

    def usable(self, queue: QueueName) -> bool:
        """Whether the queue exists and has no problem."""
        return queue in self.paths and queue not in self.problems

    def leaf(self, queue: QueueName) -> bool:
        """Whether the queue may hold workloads: it is not ``root`` and has no children."""
        return queue != ROOT and not self.children.get(queue)

    def guarantee(self, queue: QueueName, account: Account) -> int:
        """The amount kept free for the queue even while it is idle."""
        return self.guarantees[queue].get(account, 0)

    def capability(self, queue: QueueName, account: Account) -> int | None:
        """The limit of the queue itself; None if only its ancestors limit it."""
        return self.capabilities[queue].get(account)

    def limits_above(self, queue: QueueName) -> "_LimitsAbove":
        """By account, queues on the path with a limit or a guarantee, nearest first; most accounts have few."""
        known = self._limits_above.get(queue)
        if known is None:
            known = _LimitsAbove(self.paths[queue], self.capabilities, self.guarantees)
            self._limits_above[queue] = known
        return known

    def deserved(self, queue: QueueName, account: Account) -> int:
        """The queue's own share: as written, else by weight out of its parent's (``root``: the capacity)."""
        known = self._deserved.setdefault(queue, {})
        units = known.get(account)
        if units is None:
            units = known[account] = self._find_deserved(queue, account)
        return units

    def _find_deserved(self, queue: QueueName, account: Account) -> int:
        own = self.own_deserved[queue].get(account)
        if own is not None:
            return own
        if queue == ROOT:
            return self.capabilities[ROOT].get(account, 0)
        parent = self.paths[queue][1]
        shares = self._shared_out.get((parent, account))
        if shares is None:
            shares = self._shared_out[parent, account] = self._share_out(parent, account)
        return shares.get(queue, 0)

    def _share_out(self, parent: QueueName, account: Account) -> Mapping[QueueName, int]:
        left = self.deserved(parent, account)
        sharing = []
        for child in self.children[parent]:
            own = self.own_deserved[child].get(account)
            if own is not None:
                left -= own
            elif self._may_use(child, account.flavor):
                sharing.append(child)
        weights = self._weights(parent, sharing)
        claims = [
            Claimant(child, weights[child], self.guarantee(child, account), self.capability(child, account))
            for child in sharing
        ]
        return {QueueName(name): share for name, share in share_out(max(0, left), claims).items()}

    def _weights(self, parent: QueueName, sharing: Iterable[QueueName]) -> dict[QueueName, int | Fraction]:
        """Weights of children that do not state what they deserve of an account.

        Children that state what they deserve of another resource divide their weights in that proportion: a queue that
        deserves half of the GPUs would otherwise seem to use too much of the processors that go with them.
        """
        weights: dict[QueueName, int | Fraction] = {child: self.queues[child].weight for child in sharing}
        parts = {child: part for child in weights if (part := self._part(parent, child))}
        both, total = sum(weights[child] for child in parts), sum(parts.values())
        return weights | {child: both * part / total for child, part in parts.items()}

    def _part(self, parent: QueueName, child: QueueName) -> Fraction:
        """The largest fraction of its parent's deserved amount that a queue states for any account."""
        stated = self.own_deserved[child].items()
        return max(
            (Fraction(units, max(units, self.deserved(parent, each), 1)) for each, units in stated),
            default=Fraction(0),
        )

    def _may_use(self, queue: QueueName, flavor: FlavorName) -> bool:
        offered = self.flavors(queue)
        return flavor == NO_FLAVOR or not offered or flavor in offered

    def flavors(self, queue: QueueName) -> tuple[FlavorName, ...]:
        """Flavors in the order to try: the queue's, else its nearest ancestor's; () = any node."""
        return next((tuple(each.flavors) for each in self._upwards(queue) if each.flavors), ())

    def paused(self, queue: QueueName) -> QueueName | None:
        """The queue on the path that is paused, nearest first; None if none is."""
        return next((each.name for each in self._upwards(queue) if each.paused), None)

    def budget_spent(self, queue: QueueName) -> BudgetOnPath | None:
        """The budget on the path that is used up and holds, the nearest first; None if none is."""
        spent = (
            BudgetOnPath(each.name, each.budget, each.spent)
            for each in self._upwards(queue)
            if each.budget is not None and each.spent is not None
        )
        return next(spent, None)

    def hold(self, queue: QueueName) -> QueueHold | None:
        """The hold on new work that counts for a queue, the nearest first; None if there is none, or no such queue."""
        if queue not in self._holds:
            path = self._upwards(queue) if queue in self.paths else ()
            holds = (QueueHold(each.name, each.hold) for each in path if each.hold is not None)
            self._holds[queue] = next(holds, None)
        return self._holds[queue]

    def checks(self, queue: QueueName) -> tuple[str, ...]:
        """AdmissionChecks of a queue and those above it, each once, the nearest first; (): none, or no such queue."""
        known = self._checks.get(queue)
        if known is None:
            path = self._upwards(queue) if queue in self.paths else ()
            known = self._checks[queue] = tuple(dict.fromkeys(name for each in path for name in each.checks))
        return known

    def closed(self, queue: QueueName) -> QueueName | None:
        """The queue on the path that is closed, nearest first; None if none is."""
        return next((each.name for each in self._upwards(queue) if each.closed), None)

    def reclaimable(self, queue: QueueName, other: QueueName) -> bool:
        """Whether a queue's admissions may be evicted for another queue.

        Every queue on its path, up to the common ancestor of the two, must allow it.
        """
        if queue not in self._kept:
            nearest = (each.name for each in self._upwards(queue) if not each.reclaimable)
            self._kept[queue] = next(nearest, None)
        kept = self._kept[queue]
        return kept is None or kept in self.paths[other]

    def rules_against(
        self, queue: QueueName, code: ReasonCode, priority: int, asks: Iterable[AskedOfShare]
    ) -> str:
        """What is appended to a reason of this code: that not all of the priority counts, and that the queue takes
        nothing back though it uses less than it deserves; "": neither is so. ``asks``: of each resource that has a
        share. Neither the engine nor the ledger needs it."""
        if queue not in self.paths:
            return ""
        limit = self.priority_limit(queue)
        text = f"; {limit.message(priority)}" if priority > limit.most else ""
        if code not in FOR_LACK or self.policy(queue).reclaim != "never":
            return text
        within = [each.asked + each.used <= each.deserved for each in asks if each.asked]
        if within and all(within):
            text += f"; queue {queue} uses less than it deserves, and takes back nothing that others borrow"
            text += " (policy.preemption.reclaim: never)"
        return text

    def policies(self, queue: QueueName) -> QueuePolicies:
        """The policies that serve a queue: its own, else the nearest ancestor's."""
        known = self._served_by.get(queue)
        if known is None:
            policy, limit = self.policy(queue), self.run_limit(queue)
            rules = QueueRules(
                queue=queue,
                ageing_per_hour=self.ageing_per_hour(queue),
                clear_after=policy.clear_after,
                max_run_time=None if limit is None else limit.seconds,
                usage_half_life=policy.usage_half_life or 0,
            )
            known = self._served_by[queue] = policies_of(tuple(self._upwards(queue)), rules)
        return known

    def order(self, queue: QueueName) -> OrderPolicy:
        """The order inside a queue."""
        return self.policies(queue).order

    def ageing_per_hour(self, queue: QueueName) -> int:
        """Points of priority a workload gains per hour of waiting, inherited."""
        known = self._ageing.get(queue)
        if known is None:
            own = (each.ageing_per_hour for each in self._upwards(queue) if each.ageing_per_hour is not None)
            known = self._ageing[queue] = next(own, 0)
        return known

    def policy(self, queue: QueueName) -> QueuePolicy:
        """The policy that counts for a queue: each rule its own, else the nearest ancestor's, else the default.

        Of ``max_priority`` and ``max_protection`` it is the smallest on the path.
        """
        known = self._policies.get(queue)
        if known is None:
            rules: dict[str, str | int | None] = {}
            for one in fields(QueuePolicy):
                stated = [getattr(each.policy, one.name) for each in self._upwards(queue)]
                own = [rule for rule in stated if rule is not None] or [getattr(DEFAULT_POLICY, one.name)]
                rules[one.name] = min(own) if one.name in SMALLEST_COUNTS else own[0]
            known = self._policies[queue] = QueuePolicy(**rules)  # type: ignore[arg-type]
        return known

    def counted_priority(self, queue: QueueName, priority: int) -> int:
        """The priority that counts in a queue for work of this priority: at most its ``max_priority``."""
        most = self.policy(queue).max_priority if queue in self.paths else None
        return priority if most is None else min(priority, most)

    def priority_limit(self, queue: QueueName) -> PriorityLimit:
        """The highest priority that counts in a queue, and the queue on the path that states it, the nearest first."""
        stating = [
            PriorityLimit(each.policy.max_priority, each.name)
            for each in self._upwards(queue)
            if each.policy.max_priority is not None
        ]
        return min(stating, key=lambda limit: limit.most, default=PriorityLimit(HIGHEST_USER_PRIORITY, None))

    def access_refusal(self, queue: QueueName, labels: Mapping[str, str]) -> AccessRefusal | None:
        """Why a namespace with these labels may not use a queue; None if it may."""
        stating = self._selective.get(queue)
        if stating is None:
            stating = tuple(each for each in self._upwards(queue) if each.namespace_selector is not None)
            self._selective[queue] = stating
        return access_refusal(stating, labels) if stating else None

    def max_gang(self, queue: QueueName) -> tuple[QueueName, int] | None:
        """The tightest limit of pods per gang on the path, as (queue that sets it, pods); None for no limit."""
        limits = [(each.max_gang, each.name) for each in self._upwards(queue) if each.max_gang is not None]
        if not limits:
            return None
        size, name = min(limits, key=lambda limit: limit[0])
        return name, size

    def user_limits(self, queue: QueueName) -> tuple[UserLimit, ...]:
        """What the queues on the path let one user use, nearest first; (): no limit, or there is no such queue."""
        known = self._user_limits.get(queue)
        if known is None:
            path = self._upwards(queue) if queue in self.paths else ()
            known = self._user_limits[queue] = tuple(
                UserLimit(each.name, Account(NO_FLAVOR, resource), units)
                for each in path
                for resource, units in sorted(each.max_per_user.items())
            )
        return known

    def run_limit(self, queue: QueueName) -> RunLimit | None:
        """How long workloads of a queue may hold their seats; None if there is no limit, or no such queue."""
        if queue not in self._run_limits:
            path = self._upwards(queue) if queue in self.paths else ()
            self._run_limits[queue] = run_limit(path)
        return self._run_limits[queue]

    def _upwards(self, queue: QueueName) -> Iterator[Queue]:
        return (self.queues[name] for name in self.paths[queue])

"""The queues at one moment as the read API shows them: the tree with states and numbers of each subtree, past use,
loans and limits of users; and the order in which each queue's workloads are tried.

With ``usageHalfLife`` past use counts in a queue's share.

The order is for positions that Postgres counts. One thing is not in the rows: which user is next where the use of each
user counts, as under ``round-robin``. There a position is counted as if all workloads were of one user, and
``counted_by`` says so.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from types import MappingProxyType
from typing import Final, TypeVar

from msgspec.structs import replace

from admission.web.queue_standing import Standings, account_of
from admission.web.reader import EVERYTHING, Sight, UnknownName
from queues.api.names import SCHEDULING_VOLCANO
from queues.api.quota.access_limits import PER_USER, access_limits_of, field_of
from queues.api.quota.quota_document import Spec
from queues.api.types.queue import QueueDocument
from queues.errors import InvalidDocument
from queues.json_values import value_at
from queues.plugins.interface import OrderTerms, UserTurns
from queues.quota.accounts import Account
from queues.quota.budgets import HOLD, NO_HOURS, WARNED_AT, BudgetUse, HoursBudget, hours_text, hundredths
from queues.quota.decayed_usage import DecayedUsage, PastUse
from queues.quota.loans import LoanInForce, loans_in_force
from queues.quota.queue import REPORT, ROOT, Loan, Queue
from queues.quota.tree import AskedOfShare, QueueTree
from queues.read_api import bodies
from queues.read_api.quantities import quantity
from queues.reason_codes import ReasonCode, did_you_mean
from queues.resources import amount, show
from queues.sql.read.rows import AccountLine, QueueLine, QueueOrder
from queues.text_format import names_alike, rfc3339, seconds_of
from queues.workload import FlavorName, QueueName

Item = TypeVar("Item", bound=bodies.LineBody)
N = TypeVar("N", bound=str)
_BROKEN: Final = "its ancestors form a cycle, or one of them does not exist"
_REMOVED: Final = "its object was deleted; what still runs in it counts until it ends"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePast:
    """Past use of one queue and its subtree."""

    #: Seconds: use that long ago counts half.
    half_life: int
    #: Decayed averages, in units of ``queues.resources``. None while not all postings are read.
    averages: Mapping[Account, int] | None


@dataclass(frozen=True, eq=False)
class Overview:
    """The queues at one moment, by name."""

    lines: tuple[QueueLine, ...]
    #: With their policies.
    tree: QueueTree
    #: Seconds since the epoch.
    now: int

    @cached_property
    def order(self) -> Mapping[QueueName, QueueOrder]:
        """The order of each queue."""
        return queue_orders(self.tree)

    @cached_property
    def by_name(self) -> Mapping[QueueName, QueueLine]:
        """The queues by name."""
        return {line.name: line for line in self.lines}

    def names(self, sight: Sight) -> list[str]:
        """Names of the queues that a user may see."""
        return [line.name for line in self.lines if sight.shows_queue(line.name)]


def tree(
    lines: Collection[QueueLine],
    pasts: Mapping[QueueName, QueuePast] = MappingProxyType({}),
    budgets: Mapping[QueueName, bodies.BudgetBody] = MappingProxyType({}),
    *,
    served: QueueTree | None = None,
    now: int = 0,
) -> tuple[bodies.QueueBody, ...]:
    """Queues as bodies, parents before children and siblings by name; counts are those of the subtree. Loans are those
    that last at ``now``, in seconds. ``served``: the queues with their policies; None: these are left out."""
    loans = _loans(lines, now)
    by_name = {line.name: line for line in lines}
    children: dict[QueueName | None, list[QueueName]] = defaultdict(list)
    for name in sorted(by_name):
        parent = by_name[name].parent
        children[parent if parent in by_name else None].append(name)
    order: list[QueueName] = []
    stack = children[None][::-1]
    while stack:
        order.append(stack.pop())
        stack.extend(reversed(children[order[-1]]))
    order += sorted(by_name.keys() - set(order))  # queues of a cycle are below no root
    parents = {name: line.parent for name, line in by_name.items()}
    paths = {name: [by_name[above] for above in path_upwards(parents, name)] for name in order}
    counts = {name: (by_name[name].pending, by_name[name].admitted) for name in order}
    for name in reversed(order):
        parent = by_name[name].parent
        if parent in counts and not by_name[name].broken:
            counts[parent] = tuple(map(sum, zip(counts[parent], counts[name], strict=True)))  # type: ignore[assignment]
    standings = None if served is None else Standings.of(paths, budgets, served)
    return tuple(
        replace(
            _queue(
                by_name[name],
                _state(paths[name], budgets),
                *counts[name],
                pasts.get(name),
                policy,
                standings if policy is not None else None,
            ),
            budget=budgets.get(name),
            paused=any(above.paused for above in paths[name]),
            loans=tuple(loans.get(name, ())),
            open_to_all=not (by_name[name].broken or any(map(_selects_namespaces, paths[name]))),
        )
        for name in order
        for policy in [None if served is None else _policy(served, paths[name])]
    )


def _policy(served: QueueTree, path: Sequence[QueueLine]) -> bodies.QueuePolicyBody | None:
    """How the first queue of a path is served."""
    name = path[0].name
    if path[0].broken or name not in served.paths:
        return None
    policy = served.policy(name)
    return bodies.QueuePolicyBody(
        order=counted_by(served, name),
        reclaim=policy.reclaim or "",
        within_queue=policy.within_queue or "",
        clear_after_seconds=policy.clear_after,
        min_run_time_seconds=policy.min_run_time,
        max_evictions=policy.max_evictions,
        admins=tuple(dict.fromkeys(name for line in path for name in _admins(line))),
    )


def _admins(line: QueueLine) -> Iterable[str]:
    """Who administers a queue by its own document; an entry with both a user and a group names no administrator."""
    stated = value_at(line.document, "spec", "access", "admins")
    for each in stated if isinstance(stated, list) else ():
        if isinstance(each, Mapping) and len(each) == 1:
            yield from (f"{kind} {name}" for kind, name in each.items())


def _selects_namespaces(line: QueueLine) -> bool:
    """Whether a queue states which namespaces may use it and those below it; that of root counts for no queue."""
    return line.name != ROOT and value_at(line.document, "spec", "access", "namespaceSelector") is not None


def _state(
    path: Sequence[QueueLine], budgets: Mapping[QueueName, bodies.BudgetBody] = MappingProxyType({})
) -> tuple[str, str]:
    """The state of a queue, and what is to be said about it. ``path``: the queue, and those above it."""
    line = path[0]
    if line.broken:
        return "broken", _BROKEN if line.present else _REMOVED
    closed, paused = (
        next((_by_way_of(line, above) for above in path if holds(above)), None)
        for holds in (attrgetter("closed"), attrgetter("paused"))
    )
    if (
        closed is None
        and paused is None
        and (held := next((above for above in path if above.served.hold), None))
    ):
        return "open", f"no new work{_by_way_of(line, held)}: {held.served.hold}"
    if closed is not None:
        too = "" if paused is None else f"; paused too{paused}"
        return "closed", f"takes and admits nothing new{closed}{too}"
    if paused is not None:
        return "paused", paused.removeprefix(", ")
    used = (_budget_words(line, above, budgets[above.name]) for above in path if above.name in budgets)
    return "open", next(filter(None, used), "")


def _budget_words(line: QueueLine, above: QueueLine, budget: bodies.BudgetBody) -> str:
    """What is said of a budget that is nearly used up; "": nothing is."""
    most = max(budget.resources, key=lambda each: each.percent or 0)
    if most.percent is None or most.percent < WARNED_AT:
        return ""
    held = "; nothing more is admitted" if budget.when_spent == HOLD and most.percent >= 100 else ""
    words = (
        f"{most.percent} % of the budget of {most.hours} hours of {most.resource} until {budget.ends} is used"
    )
    return f"{words}{held}{_by_way_of(line, above)}"


def _by_way_of(line: QueueLine, above: QueueLine) -> str:
    return "" if above is line else f", by way of {above.name}"


def _queue(
    line: QueueLine,
    said: tuple[str, str],
    pending: int,
    admitted: int,
    past: QueuePast | None,
    policy: bodies.QueuePolicyBody | None,
    standings: Standings | None,
) -> bodies.QueueBody:
    state, message = said
    accounts = tuple(
        _account(account, past, "" if standings is None else standings.standing(line.name, account))
        for account in sorted(_all_accounts(line.accounts, past), key=account_of)
    )
    shares = [account.share for account in accounts if account.share is not None]
    with_past = [account.share_with_past for account in accounts if account.share_with_past is not None]
    return bodies.QueueBody(
        name=line.name,
        parent=line.parent,
        state=state,
        message=message,
        changed_by=line.changed_by,
        share=max(shares, default=None),
        pending=pending,
        admitted=admitted,
        accounts=accounts,
        usage_half_life_seconds=None if past is None else past.half_life,
        share_with_past=max(with_past, default=None),
        access_limits=stated_access_limits(line.document.get("spec") or {}),
        policy=policy,
    )


def _all_accounts(lines: Iterable[AccountLine], past: QueuePast | None) -> list[AccountLine]:
    """The accounts of a queue, and accounts in which only past use is left."""
    accounts = {account_of(line): line for line in lines}
    for account in (past.averages or {}) if past is not None else {}:
        accounts.setdefault(account, AccountLine(flavor=account.flavor, resource=account.resource))
    return list(accounts.values())


def _account(line: AccountLine, past: QueuePast | None, standing: str) -> bodies.AccountBody:
    average = None
    if past is not None and past.averages is not None:
        average = past.averages.get(account_of(line), 0)
    weighed = None if average is None or not line.deserved else (line.used + average) / (2 * line.deserved)
    return bodies.AccountBody(
        flavor=line.flavor,
        resource=line.resource,
        used=show(line.resource, line.used),
        counted=show(line.resource, line.counted),
        guarantee=show(line.resource, line.guarantee),
        deserved=quantity(line.resource, line.deserved),
        capability=quantity(line.resource, line.capability),
        share=round(line.used / line.deserved, 4) if line.deserved else None,
        past_use=quantity(line.resource, average),
        share_with_past=None if weighed is None else round(weighed, 4),
        standing=standing,
    )


def subtree(lines: Iterable[QueueLine], top: str, sight: Sight = EVERYTHING) -> list[QueueName]:
    """The queue and all queues below it. Raises UnknownName, with visible names that look alike."""
    children: dict[str, list[QueueName]] = defaultdict(list)
    names = {line.name for line in lines}
    for line in lines:
        children[line.parent or ""].append(line.name)
    if top not in names and top != ROOT:
        raise UnknownName(what="queue", name=top, near=names_alike(top, filter(sight.shows_queue, names)))
    found = [QueueName(top)]
    for name in found:
        found.extend(child for child in children[name] if child not in found)
    return found


def with_meant_queue(item: Item, names: Iterable[str]) -> Item:
    """The item, with names that look alike as advice if its queue does not exist. ``names``: of queues that the
    user may see."""
    reason = item.reason
    if reason is None or reason.code != ReasonCode.UNKNOWN_QUEUE:
        return item
    near = names_alike(item.queue, names)
    return replace(item, reason=replace(reason, advice=did_you_mean(near))) if near else item


def with_rules_against(item: Item, overview: Overview) -> Item:
    """The item; its reason says so if its queue cuts its priority, or takes nothing back though it uses less than it
    deserves."""
    line = overview.by_name.get(QueueName(item.queue))
    if item.reason is None or line is None:
        return item
    asks = (
        AskedOfShare(amount(each.resource, item.asks.get(each.resource, "0")), each.used, each.deserved)
        for each in line.accounts
        if each.deserved is not None and not each.flavor
    )
    more = overview.tree.rules_against(line.name, ReasonCode.of_row(item.reason.code), item.priority, asks)
    return replace(item, reason=replace(item.reason, message=item.reason.message + more)) if more else item


def path_upwards(parents: Mapping[N, N | None], queue: N) -> list[N]:
    """The queue and those above it, as far as there are any."""
    path: list[N] = []
    name: N | None = queue
    while name is not None and name in parents and name not in path:
        path.append(name)
        name = parents[name]
    return path


def of_those_together(asks: Mapping[str, str], minimum: int, pods: int) -> dict[str, str]:
    """What the pods ask for that have to start together, where others of the same workload may start later."""
    if not 0 < minimum < pods:
        return dict(asks)
    units = {resource: amount(resource, text) for resource, text in asks.items()}
    return {resource: show(resource, -(-each * minimum // pods)) for resource, each in units.items()}


def path_to_root(
    lines: Collection[QueueLine], start: QueueName, asks: Mapping[str, str], sight: Sight
) -> tuple[bodies.PathQueueBody, ...]:
    """The queue and those above it, as far as the user may see them. ``asks``: what a workload asks for there, by
    resource."""
    by_name = {line.name: line for line in lines}
    path = [by_name[above] for above in path_upwards({line.name: line.parent for line in lines}, start)]
    asked = {resource: amount(resource, text) for resource, text in asks.items()}
    #: By what each queue is asked for, which is less above a queue with guarantee left.
    above: dict[Account, int] = {}
    found = []
    for place, line in enumerate(path):
        if not sight.shows_queue(line.name):
            break
        state, message = _state(path[place:])
        limits = []
        for each in sorted(line.accounts, key=attrgetter("flavor", "resource")):
            if each.resource in asked:
                account = Account(FlavorName(each.flavor), each.resource)
                units = above.get(account, asked[each.resource])
                above[account] = max(each.counted + units, each.guarantee) - max(each.counted, each.guarantee)
                limits.append(_limit(each, units))
        found.append(bodies.PathQueueBody(name=line.name, state=state, message=message, limits=tuple(limits)))
    return tuple(found)


def _limit(line: AccountLine, asked: int) -> bodies.PathLimitBody:
    """What a workload asks of an account."""
    kept = line.counted - line.used
    over = 0 if line.capability is None else line.counted + asked - line.capability

    return bodies.PathLimitBody(
        flavor=line.flavor,
        resource=line.resource,
        used=show(line.resource, line.used),
        kept=quantity(line.resource, kept) if kept > 0 else None,
        asked=show(line.resource, asked),
        deserved=quantity(line.resource, line.deserved),
        capability=quantity(line.resource, line.capability),
        over=quantity(line.resource, over) if over > 0 else None,
    )


# -- past use --------------------------------------------------------------------------------------------------


def states_half_life(lines: Iterable[QueueLine]) -> bool:
    """True if some queue states ``usageHalfLife``."""
    return any(line.served.policy.usage_half_life for line in lines)


def past_by_queue(
    tree: QueueTree, lines: Iterable[QueueLine], past: PastUse | None, now: int
) -> dict[QueueName, QueuePast]:
    """Past use by queue, where it counts, as a decision at ``now`` (seconds since the epoch) sees it.

    Without ``past`` (not all postings are read yet) only the half-lives are known.
    """
    held = {line.name: {account_of(each): each.used for each in line.accounts} for line in lines}
    decay = DecayedUsage.over(tree, lambda queue: held.get(queue, {}), lambda queue, user: {})
    if decay is None:
        return {}
    if past is not None:
        decay.update(past, now)
    pasts = {}
    for queue in held:
        half_life = decay.half_life(queue) if queue in tree.paths else None
        of_queue = decay.of_queue(queue) if half_life is not None else None
        if half_life is not None and of_queue is not None:
            pasts[queue] = QueuePast(
                half_life=half_life, averages=None if past is None else of_queue.averages()
            )
    return pasts


# -- loans, and limits of users --------------------------------------------------------------------------------


def _loans(lines: Iterable[QueueLine], now: int) -> Mapping[QueueName, Sequence[bodies.LoanInForceBody]]:
    """The loans that last at ``now``, in seconds, by each of their two queues."""
    lending = any((line.document.get("spec") or {}).get("loans") for line in lines)
    queues = {line.name: _stated(line) for line in lines} if lending else {}
    of_queue: dict[QueueName, list[bodies.LoanInForceBody]] = {}
    for each in loans_in_force(queues, now).loans if lending else ():
        for name in (each.lender, each.loan.to):
            of_queue.setdefault(name, []).append(_in_force(each))
    return of_queue


def _stated(line: QueueLine) -> Queue:
    """A queue with the limits that its document states."""
    document = {
        "apiVersion": SCHEDULING_VOLCANO,
        "kind": "Queue",
        "metadata": {"name": line.name},
        "spec": line.document.get("spec") or {},
    }
    try:
        return QueueDocument.read(document).to_domain()
    except InvalidDocument:
        return line.served  # the queue is shown as broken, with the reason


def stated_budgets(lines: Iterable[QueueLine]) -> dict[QueueName, HoursBudget]:
    """The budgets that queues state."""
    stating = (line for line in lines if (line.document.get("spec") or {}).get("budget"))
    budgets = {line.name: _stated(line).budget for line in stating}
    return {name: budget for name, budget in budgets.items() if budget is not None}


def budget_body(budget: HoursBudget, use: BudgetUse, queue: QueueName, now: int) -> bodies.BudgetBody:
    """A budget with what is used of it at a second, in seconds since the epoch."""
    hours = use.hours.get(queue)
    return bodies.BudgetBody(
        when_spent=HOLD if budget.holds else REPORT,
        begins=rfc3339(use.period.begins),
        ends=rfc3339(use.period.ends),
        resources=tuple(
            bodies.BudgetLineBody(
                resource=resource,
                hours=hours_text(resource, budget.amount(resource)),
                used=None if used is None else hours_text(resource, used),
                percent=None if used is None else hundredths(used, budget.amount(resource)),
            )
            for resource in sorted(budget.hours)
            for used in [None if hours is None else hours.get(resource, NO_HOURS).until(now)]
        ),
    )


def in_sight(body: bodies.QueueBody, sight: Sight) -> bodies.QueueBody:
    """A queue without the names of queues that lend to it and that the user may not see."""
    if all(each.from_ is None or sight.shows_queue(each.from_) for each in body.loans):
        return body
    return replace(
        body,
        loans=tuple(
            each
            if each.from_ is None or sight.shows_queue(each.from_)
            else replace(each, from_=None, reason="", problem="")
            for each in body.loans
        ),
    )


def _in_force(each: LoanInForce) -> bodies.LoanInForceBody:
    return bodies.LoanInForceBody(
        **loan_fields(each.loan),
        from_=each.lender,
        counts=each.loan.account.show(each.units),
        problem=each.problem,
    )


def loan_fields(loan: Loan) -> dict[str, str]:
    """A loan as fields of ``LoanBody``."""
    return {
        "to": loan.to,
        "flavor": loan.account.flavor,
        "resource": loan.account.resource,
        "amount": loan.account.show(loan.units),
        "until": rfc3339(loan.until),
        "reason": loan.reason,
    }


def stated_access_limits(spec: Spec) -> bodies.AccessLimitsBody | None:
    """The limits of access that a queue states. None if it states none. What cannot be read is left out."""
    stated = access_limits_of(spec)
    start = field_of(PER_USER) + "["
    seconds = seconds_of(stated.get(field_of("maxRunTime"), ""))
    found = bodies.AccessLimitsBody(
        max_run_time_seconds=int(seconds) if seconds else None,
        max_per_user={
            field.removeprefix(start).removesuffix("]"): text
            for field, text in stated.items()
            if field.startswith(start)
        },
        max_gang=_count(stated.get(field_of("maxGang"))),
        max_pending=_count(stated.get(field_of("maxPending"))),
        max_pending_per_user=_count(stated.get(field_of("maxPendingPerUser"))),
    )
    return None if found == bodies.AccessLimitsBody() else found


def _count(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 12 else None


# -- the order of queues ---------------------------------------------------------------------------------------

#: An ageing that is even faster makes no other order, and its sums would leave 64 bits.
_LARGEST_FACTOR: Final = 10**9


def policies(lines: Iterable[QueueLine]) -> QueueTree:
    """The queues with their policies, own and inherited."""
    return QueueTree.build({line.name: line.served for line in lines}, None)


def queue_orders(tree: QueueTree) -> dict[QueueName, QueueOrder]:
    """By what Postgres counts positions in each queue, so that it sorts as the engine does."""
    return {queue: _order(tree, queue) for queue in tree.paths}


def _order(tree: QueueTree, queue: QueueName) -> QueueOrder:
    terms = tree.order(queue).terms or OrderTerms()
    terms = dataclasses.replace(terms, by_created=min(terms.by_created, _LARGEST_FACTOR))
    return QueueOrder(terms=terms, most_priority=tree.priority_limit(queue).most)


def counted_by(tree: QueueTree, queue: QueueName) -> str:
    """What positions in a queue are counted by, as a phrase."""
    queue = queue_or_root(tree, queue)
    order = tree.order(queue)
    match order.users:
        case UserTurns.FIRST:
            return f"{order.counted_by}; users take turns"
        case UserTurns.AMONG_EQUALS:
            return f"{order.counted_by}; of equal priority users who used less go first"
    return order.counted_by


def queue_or_root(tree: QueueTree, queue: QueueName) -> QueueName:
    """The queue; ``root`` in place of a queue that does not exist."""
    return queue if queue in tree.paths else ROOT

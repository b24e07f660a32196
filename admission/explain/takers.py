"""Who could take the place of a workload that runs: by which rule of preemption, and from when on.

Derived on request from a Snapshot, by the books as they will be when all that leaves is gone and every claim is used,
as preemption has them. The answer never leaves out what the engine may do: each rule by which it would evict the
workload is part of it. It may contain more: whether victims are worth it depends on what is asked.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from admission.engine import claims
from admission.engine.closures.closing import NOTHING_CLOSED
from admission.engine.memo import EngineState
from admission.engine.placement.need import member_charges, minimum_choices, missing_members
from admission.engine.preemption.candidates import Candidate
from admission.engine.preemption.protection import NEVER, budgets_end, owed_from
from admission.engine.preemption.rules import EvictionRule, PreemptionRights, QueuePair, uses_nothing
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from queues.api import names
from queues.kind_names import POD
from queues.quota.accounts import Account
from queues.quota.queue import REPORT, ROOT
from queues.quota.tree import QueueTree
from queues.quota.usage import Usage
from queues.read_api.bodies import StandingBody, TakerBody
from queues.text_format import counted, listed, rfc3339, span
from queues.workload import QueueName, Workload, WorkloadKey

#: Queues that are named for one rule.
MOST_QUEUES: Final = 10


class TakerRule(StrEnum):
    """Why a place may be lost: the rules of preemption, and a fault."""

    PREEMPTED = EvictionRule.PREEMPTED.value
    RECLAIMED = EvictionRule.RECLAIMED.value
    CLEARED = EvictionRule.CLEARED.value
    #: A device of one of its nodes gets unhealthy, and its queue says that its gangs leave such nodes.
    UNHEALTHY_DEVICE = "UnhealthyDevice"


def _taker(rule: TakerRule, begins: int, message: str, *queues: QueueName) -> TakerBody:
    """One rule by which the workload may be evicted from some second on."""
    return TakerBody(rule=rule.value, queues=queues, from_=rfc3339(begins), message=message)


def standing(snapshot: Snapshot, key: WorkloadKey) -> StandingBody | None:
    """The standing of a workload. None if it holds nothing that could be taken."""
    holder = snapshot.holders.get(key)
    if holder is None:
        return None
    question = _Question.of(NOTHING_CLOSED.follow(snapshot)[1], holder)
    if question is None:
        return None
    now = rfc3339(snapshot.now)
    found = sorted(
        (*_preempting(question), *_reclaiming(question), *_clearing(question), *_faults(question)),
        key=lambda taker: (max(taker.from_, now), list(TakerRule).index(TakerRule(taker.rule))),
    )
    protected = min((each.from_ for each in found if each.rule != TakerRule.UNHEALTHY_DEVICE), default=now)
    return StandingBody(
        message=". ".join(_sentences(question)),
        protected_until=protected if protected > now else None,
        takers=tuple(found),
        nobody="" if found else _nobody(question),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """A workload that runs, in the world that preemption would see."""

    snapshot: Snapshot
    #: All that it holds, last; before that, what of it can be evicted alone.
    candidates: Sequence[Candidate]
    usage: Usage
    #: Workloads that wait and may preempt, by queue.
    pending: Mapping[QueueName, Sequence[Workload]]
    #: The seconds from which on it may be evicted for its own queue, for other queues, and for a reclaim.
    own_from: int
    others_from: int
    reclaim_from: int
    #: And for work that has waited for long, since before it started, whatever it keeps because it had waited itself.
    owed_from: int

    @classmethod
    def of(cls, snapshot: Snapshot, holder: Workload) -> "_Question | None":
        state = EngineState.of(replace(snapshot, pending={}))
        mine = state.running.of(holder.key, snapshot)
        if not mine:
            return None
        trial = Trial.open(snapshot.nodes, state.usage.copy())
        trial.charge_kept_nodes()
        held = claims.hold(snapshot, trial, state.open_admissions.evicting)
        whole, now = mine[-1], snapshot.now
        of_queue = {each.workload for each in snapshot.admissions.values() if each.queue == whole.queue}
        running = [found[-1] for key in sorted(of_queue) if (found := state.running.of(key, snapshot))]
        # Without what protects it from all, its user's wish is left.
        protection = state.running.protection(
            [each for each in running if each.queue == whole.queue],
            trial.usage,
            now,
            state.running.budgets(snapshot),
        )
        wish_counts = whole.wish_end > now and whole.workload.key not in protection.in_own_queue
        others = max(whole.evictable_from, whole.wish_end if wish_counts else 0)
        pending: dict[QueueName, list[Workload]] = {}
        for each in snapshot.pending.values():
            if each.preempts and each.key != holder.key and fits_capability(each, state.tree):
                pending.setdefault(each.queue, []).append(each)
        return cls(
            snapshot=snapshot,
            candidates=mine,
            pending=pending,
            usage=held.after_draining(trial).usage,
            own_from=max(whole.evictable_from, whole.wish_end),
            others_from=others,
            reclaim_from=max(others, min(each.reclaimable_from for each in mine)),
            owed_from=max(
                owed_from(whole.workload, whole.started, state.tree.policy(whole.queue)),
                whole.wish_end if wish_counts else 0,
            ),
        )

    @property
    def whole(self) -> Candidate:
        return self.candidates[-1]

    @property
    def queue(self) -> QueueName:
        return self.whole.queue

    @property
    def priority(self) -> int:
        """The lowest of what can be evicted alone."""
        return min(each.priority for each in self.candidates)

    def others(self) -> Iterator[tuple[QueueName, QueuePair]]:
        """Queues that workloads wait in from which evictions may come, with the queues on both sides."""
        tree = self.usage.tree
        for name in sorted(tree.paths):
            if name in (ROOT, self.queue) or tree.children[name] or not tree.usable(name):
                continue
            beneficiary = replace(self.whole.workload, queue=name)
            rights = PreemptionRights(workload=beneficiary, usage=self.usage, asked={}, size=0)
            pair = rights.pair(self.queue)
            if pair is not None and pair.reclaimable:
                yield name, pair

    def waiting(self, queue: QueueName) -> list[Workload]:
        """Workloads that wait in a queue and may preempt, the highest priority first."""
        tree = self.usage.tree
        return sorted(
            self.pending.get(queue, ()),
            key=lambda each: (-tree.counted_priority(queue, each.priority), each.arrival),
        )

    def held(self) -> frozenset[Account]:
        """Accounts in which the workload holds something."""
        return frozenset(account for each in self.whole.admissions for account in each.charges)

    def excess(self, name: QueueName) -> dict[Account, int]:
        """What a queue uses beyond what it deserves."""
        usage, tree = self.usage, self.usage.tree
        over = {
            account: usage.counted(name, account) - tree.deserved(name, account)
            for account in usage.book(ROOT)
        }
        return {account: units for account, units in sorted(over.items()) if units > 0}


def may_use(tree: QueueTree, queue: QueueName, account: Account) -> bool:
    """Whether the capabilities of a queue and of those above it leave it anything of an account at all."""
    limits = (tree.capability(name, account) for name in tree.paths[queue])
    return all(limit is None or limit > 0 for limit in limits)


def fits_capability(workload: Workload, tree: QueueTree) -> bool:
    """Whether a workload that waits could be within the capabilities on its path if nothing else ran there.

    One that could not takes no other workload's place.
    """
    path = tree.paths.get(workload.queue, ())
    need = missing_members(workload, [])
    asked = [member_charges(workload, ordinals) for ordinals in minimum_choices(workload, need)]
    return not asked or any(
        all(
            (limit := tree.capability(name, account)) is None or units <= limit
            for name in path
            for account, units in one.items()
        )
        for one in asked
    )


# ── the rules ───────────────────────────────────────────────────────────────────────────────────────────────


def _preempting(question: _Question) -> Iterator[TakerBody]:
    """By priority inside its own queue."""
    tree, queue, priority = question.usage.tree, question.queue, question.priority
    policy = tree.policy(queue)
    if policy.within_queue == "never" or question.own_from >= NEVER:
        return
    most = policy.max_priority
    if policy.within_queue == "lower-or-newer-equal":
        which = f"a priority above {priority}, or of priority {priority} that came earlier"
    elif most is not None and priority >= most:
        return
    else:
        which = f"a priority above {priority}"
    waiting = [
        each
        for each in question.waiting(queue)
        if (its := tree.counted_priority(queue, each.priority)) > priority
        or (
            policy.within_queue == "lower-or-newer-equal"
            and its == priority
            and each.arrival < question.whole.workload.arrival
        )
    ]
    message = f"a workload of its own queue {queue} with {which} ({_who_waits(waiting)})"
    yield _taker(TakerRule.PREEMPTED, question.own_from, message, queue)


def _reclaiming(question: _Question) -> Iterator[TakerBody]:
    """Queues that get back what they deserve and lent."""
    if question.reclaim_from >= NEVER:
        return
    found = []
    for name, pair in question.others():
        lent = {name: question.excess(name) for name in pair.lenders(question.usage)}
        policy = question.usage.tree.policy(name)
        if policy.reclaim == "never" or not all(lent.values()):
            continue
        accounts = sorted({account for excess in lent.values() for account in excess})
        accounts = [each for each in accounts if may_use(question.usage.tree, name, each)]
        if not accounts:
            continue
        if (room := _room(question.usage, pair, accounts)) is not None:
            found.append((name, pair, *room))
        elif policy.borrow_max_priority is not None and question.priority <= policy.borrow_max_priority:
            found.append((name, pair, accounts[0], 0))
    found.sort(key=lambda each: (each[3] <= 0, each[0]))
    for name, pair, account, units in found[:MOST_QUEUES]:
        yield _reclaim(question, name, pair, account, units)
    if (more := len(found) - MOST_QUEUES) > 0:
        message = f"{counted(more, 'further queue')} in the same way"
        yield _taker(TakerRule.RECLAIMED, question.reclaim_from, message)


def _room(usage: Usage, pair: QueuePair, accounts: Iterable[Account]) -> tuple[Account, int] | None:
    """What the beneficiary's side may get back of these accounts, the most first. None if it deserves nothing of them.

    Not more than 0: only in exchange for work of its own.
    """
    tree = usage.tree
    found = [
        (tree.deserved(name, account) - usage.counted(name, account), account)
        for name in pair.beneficiary_side
        for account in accounts
        if tree.deserved(name, account) > 0
    ]
    if not found:
        return None
    units, account = max(found, key=lambda each: (each[0] > 0, "/" in each[1].resource, each[0]))
    limits = ((name, tree.capability(name, account)) for name in pair.beneficiary_side)
    left = [limit - usage.counted(name, account) for name, limit in limits if limit is not None]
    return account, min([units, *left])


def _reclaim(
    question: _Question, name: QueueName, pair: QueuePair, account: Account, units: int
) -> TakerBody:
    tree = question.usage.tree
    who = f"queue {name}"
    if tree.policy(name).reclaim == "lower-priority":
        who += f", for a priority above {question.priority},"
    if units > 0:
        message = f"{who} may take back up to {account.amount(units)} that it deserves and does not use"
    else:
        message = f"{who} only in place of work of its own, as it uses all that it deserves"
    begins, may_be_owed = question.reclaim_from, _may_be_owed(question, name, pair, account)
    if begins > question.others_from and may_be_owed:
        # Before that only such gangs may.
        begins = question.others_from
        message += (
            f", for a gang that has waited for {span(tree.policy(name).clear_after or 0)}, as queue"
            f" {pair.beneficiary_side[-1]} uses nothing of it"
        )
    waiting_longer = _from_when_work_before_it_may(question, name, keeps_nothing=may_be_owed)
    if waiting_longer is not None and waiting_longer < begins:
        begins = waiting_longer
        clear_after = span(tree.policy(name).clear_after or 0)
        message += f", for work that has waited for {clear_after}, and since before this one started"
    return _taker(TakerRule.RECLAIMED, begins, message, name)


def _from_when_work_before_it_may(question: _Question, name: QueueName, *, keeps_nothing: bool) -> int | None:
    """From which second on workloads of a queue that waited before this one started may reclaim its place.

    None if none has waited so long.
    """
    since = [each.waiting_since or each.created for each in question.waiting(name)]
    before = [second for second in since if second < question.whole.started]
    if not before:
        return None
    kept = 0 if keeps_nothing else min(each.reclaimable_from for each in question.candidates)
    return max(min(before) + (question.usage.tree.policy(name).clear_after or 0), question.owed_from, kept)


def _may_be_owed(question: _Question, name: QueueName, pair: QueuePair, account: Account) -> bool:
    """Whether gangs of a queue need not leave it what it keeps because it had waited."""
    usage = question.usage
    waits = usage.tree.policy(name).clear_after is not None
    return waits and uses_nothing(usage, pair.beneficiary_side[-1], (account,))


def _clearing(question: _Question) -> Iterator[TakerBody]:
    """Gangs that starve have places cleared of single pods."""
    if all(each.pods > 1 for each in question.candidates):
        return
    tree, own = question.usage.tree, question.queue
    found: list[tuple[int, QueueName, int, list[Workload]]] = []
    queues = [own, *(name for name, _ in question.others())]
    for name in queues:
        policy, most = tree.policy(name), tree.priority_limit(name).most
        begins = question.own_from if name == own else question.others_from
        equals = not (name == own and policy.within_queue == "lower-or-newer-equal")
        high_enough = most >= question.priority if equals else most > question.priority
        if policy.clear_after is None or begins >= NEVER or not high_enough:
            continue
        if not any(may_use(tree, name, account) for account in question.held()):
            continue
        gangs = [
            each
            for each in question.waiting(name)
            if each.minimum > 1 and tree.counted_priority(name, each.priority) >= question.priority
        ]
        starved = [(each.waiting_since or each.created) + policy.clear_after for each in gangs]
        first = min(starved, default=question.snapshot.now + policy.clear_after)
        found.append((max(begins, first), name, policy.clear_after, gangs))
    if not found:
        return
    after = min(each[2] for each in found)
    waiting = [gang for _, _, _, some in found for gang in some]
    message = (
        f"a larger gang of {listed([f'queue {each[1]}' for each in found], shown=4)} that has waited for"
        f" {span(after)}, of a priority of at least {question.priority} ({_who_waits(waiting)})"
    )
    begins = min(each[0] for each in found)
    yield _taker(TakerRule.CLEARED, begins, message, *(each[1] for each in found[:MOST_QUEUES]))


def _faults(question: _Question) -> Iterator[TakerBody]:
    on_fault = question.usage.tree.policy(question.queue).on_fault
    if on_fault not in (None, REPORT):
        message = f"an unhealthy device of its nodes (policy.health.onFault: {on_fault})"
        yield _taker(TakerRule.UNHEALTHY_DEVICE, question.snapshot.now, message)


# ── the sentences ───────────────────────────────────────────────────────────────────────────────────────────


def _who_waits(waiting: Sequence[Workload]) -> str:
    if not waiting:
        return "none waits now"
    return f"{listed([str(each) for each in waiting])} {'waits' if len(waiting) == 1 else 'wait'}"


def _sentences(question: _Question) -> Iterator[str]:
    """Whose quota it runs on, and what protects it."""
    usage, tree, now = question.usage, question.usage.tree, question.snapshot.now
    held = question.held()
    lent = [
        (name, account)
        for name in tree.paths[question.queue]
        if name != ROOT
        for account in question.excess(name)
        if account in held
    ]
    if lent:
        name, account = min(lent, key=lambda each: "/" not in each[1].resource)
        used, deserved = usage.used(name, account), tree.deserved(name, account)
        yield (
            f"On lent quota: queue {name} uses {account.show(used)} {account} and deserves"
            f" {account.show(deserved)}"
        )
    else:
        yield f"Inside what queue {question.queue} deserves"
    workload, whole, policy = question.whole.workload, question.whole, tree.policy(question.queue)
    if policy.max_evictions is not None and workload.evictions >= policy.max_evictions:
        yield f"Evicted {workload.evictions} times, as often as policy.maxEvictions allows"
    elif whole.evictable_from > now:
        yield f"Protected from eviction until {rfc3339(whole.evictable_from)}"
    if workload.run_time is not None:
        source = f"from {names.RUN_TIME} or a deadline of its own"
        yield f"Its run time is assumed to be {span(workload.run_time)} ({source})"
    if whole.wish_end > now:
        until = "" if whole.wish_end >= NEVER else f" until {rfc3339(whole.wish_end)}"
        where = "" if question.others_from >= whole.wish_end else ", inside its own queue only"
        is_bare = workload.key.kind == POD
        why = "As nothing would make a bare pod again, it" if is_bare else "Its user wishes that it"
        yield f"{why} is not evicted{until}{where}"
    if whole.reclaimable_from > now:
        yield (
            f"Having waited long, it keeps lent quota until {rfc3339(whole.reclaimable_from)}, but not from gangs that"
            " waited as long in queues that use nothing of what they deserve"
        )
    for budget in question.snapshot.budgets:
        if budget.pods.get(workload.key) and not budget.allowed:
            second = budgets_end(whole.started, question.usage.tree.policy(whole.queue))
            end = f", which keeps lent quota until {rfc3339(second)} at most" if lent else ""
            yield f"PodDisruptionBudget {budget.name} allows no eviction of its pods now{end}"


def _nobody(question: _Question) -> str:
    """Why no workload could take the place."""
    tree, queue = question.usage.tree, question.queue
    policy = tree.policy(queue)
    if question.own_from >= NEVER and question.others_from >= NEVER:
        return "nobody: it may not be evicted for others"
    why = []
    if policy.within_queue == "never":
        why.append("nothing is preempted inside its queue")
    elif question.own_from >= NEVER:
        why.append("its own queue leaves it in place")
    else:
        why.append(f"no priority above {question.priority} counts in its queue")
    if not all(question.excess(name) for name in tree.paths[queue] if name != ROOT):
        why.append("its queue uses no more than it deserves")
    else:
        why.append("no other queue may take quota back")
    return "nobody: " + " and ".join(why)

"""Planted bugs: each breaks one thing in the engine, and the law it names has to notice."""

import random
from dataclasses import replace
from typing import Any

from admission.engine import forced_changes, memo, trial
from admission.engine.nodes.table import Layout
from admission.engine.pending import classes, pending
from admission.engine.placement import gangs, need, pod_set
from queues.order import policies
from queues.plan import Admit
from queues.quota import tree, usage
from tests.laws.laws import decision
from tests.laws.planted.bug import Bug

_chance = random.Random(7)


def _ignore_required(ask: Any) -> Any:
    return _place(replace(ask, required=False))


def _only_the_head(self: Any, reason: Any) -> Any:
    return classes.ClassAnswer(self.queue, reason, tuple(self.class_queue.rest()[:1]), self.request.need)


def _pods_that_fit(workload: Any, lacks: Any, ordinals: Any, tried: Any) -> Any:
    seats = []
    for name, some in ordinals.items():
        for ordinal in some:
            answer = _together(workload, lacks, {name: (ordinal,)}, tried)
            seats += answer if isinstance(answer, list) else []
    return seats or _together(workload, lacks, ordinals, tried)


def _blind_need(workload: Any, seats: Any) -> Any:
    return _need(workload, ())


def _take_nodes_for_free(
    self: Any, columns: Any, counts: Any, takes: Any, queue: Any, accounts: Any, *_: Any
) -> None:
    self.usage.add(queue, accounts)
    self.steps.append(trial.TrialStep(columns, 0, queue, accounts, ()))


def _take_quota_for_free(
    self: Any, columns: Any, counts: Any, takes: Any, queue: Any, accounts: Any, *_: Any
) -> None:
    taken = self.vector(takes)[:, None] * counts
    self.free[:, columns] -= taken
    self.mark_dirty(columns)
    self.steps.append(trial.TrialStep(columns, taken, queue, {}, ()))


def _rank_by_chance(tree: Any, candidate: Any) -> Any:
    return policies.Rank(False, _chance.getrandbits(30), 0, 0, candidate.workload.key)


def _stale_answer(self: Any, snapshot: Any) -> Any:
    return self.plan


def _old_books(self: Any, numbers: Any) -> None:
    if not self.held_admissions:
        _post(self, numbers)


def _admit_unchecked(workload: Any, lacks: Any, tried: Any) -> Any:
    answer = _admit(workload, lacks, tried)
    return replace(answer, seats=answer.seats[:-1]) if isinstance(answer, Admit) else answer


def _own_limits_only(self: Any, queue: Any, amounts: Any) -> Any:
    for account, units in amounts.items():
        limit = self.tree.capability(queue, account)
        if limit is not None and self.counted(queue, account) + units > limit:
            return usage.LimitHit(queue=queue, account=account, limit=limit, used=0, kept=0, asked=units)
    return None


def _parts_anywhere(where: Any, want: Any) -> Any:
    try:
        return _with_parts(where, want, ())
    except KeyError:  # of a level that no topology has
        return _seated(where, want)


_place, _together, _open = pod_set.assign_nodes, gangs.all_or_none, trial.Trial.open

_need, _admit = need.missing_members, gangs.admit

MUTATIONS = (
    Bug("quota is never refused", usage.Usage, "refusal", lambda *_: None, decision.no_queue_above_a_limit, 4),
    Bug("only the queue's own limit counts", usage.Usage, "refusal", _own_limits_only,
        decision.no_queue_above_a_limit, 4),
    Bug("quota is not taken", trial.Trial, "take", _take_quota_for_free, decision.no_queue_above_a_limit, 6,
        rare=True),
    Bug("node space is not taken", trial.Trial, "take", _take_nodes_for_free, decision.no_node_above_what_it_has,
        25),
    Bug("free is what nodes have", trial.Trial, "open", classmethod(
        lambda cls, table, books: replace(_open(table, books), free=table.allocatable.copy())),
        decision.no_node_above_what_it_has),
    Bug("a gang starts with what fits", gangs, "all_or_none", _pods_that_fit, decision.gangs_whole_or_nothing),
    Bug("a gang starts one short", gangs, "admit", _admit_unchecked, decision.gangs_whole_or_nothing),
    Bug("seats held are given again", classes, "missing_members", _blind_need, decision.gangs_whole_or_nothing),
    Bug("the like of a refused head vanish", classes.WorkloadClass, "answer_with", _only_the_head,
        decision.in_the_plan_or_one_reason, 29),
    Bug("required topology is a wish", pod_set, "assign_nodes", _ignore_required, decision.required_topology_kept, 11),
    Bug("seated pods do not bind the others", pod_set, "_with_parts",
        lambda where, want, partitions: _with_parts(where, replace(want, seated={}), partitions),
        decision.required_topology_kept, 11),
    Bug("parts are anywhere", pod_set, "_seated", _parts_anywhere, decision.parts_kept, 7, rare=True),
    Bug("parts are not whole", need, "_whole_parts",
        lambda pods, missing, count: min(count, len(missing)), decision.parts_kept, 3, rare=True),
    Bug("the level around all is forgotten", gangs, "_in_one_domain",
        lambda workload, need, groups, tried, *_: gangs._all_groups(workload, groups, tried, None),
        decision.sets_together, 3, rare=True),
    Bug("ports are shared", pod_set.NodeScope, "pods_per_node",
        lambda self, pods: self.trial.pods_per_node(pods.takes, self.usable(replace(pods, ports=()))),
        decision.ports_alone, rare=True),
    Bug("selectors and taints are ignored", Layout, "allowed",
        lambda self, nodes: self.usable, decision.only_allowed_nodes),
    Bug("dead nodes take pods", Layout, "allowed",
        lambda self, nodes: self.chosen(nodes) & self.tolerated(nodes), decision.only_allowed_nodes),
    Bug("paused queues go on", tree.QueueTree, "paused", lambda *_: None, decision.stopped_queues_admit_nothing, 2,
        rare=True),
    Bug("broken queues go on", tree.QueueTree, "usable", lambda *_: True, decision.stopped_queues_admit_nothing, 7,
        rare=True),
    Bug("every namespace may use every queue", tree.QueueTree, "access_refusal", lambda *_: None,
        decision.stopped_queues_admit_nothing, 1, rare=True),
    Bug("backoff is ignored", pending, "obstacle",
        lambda workload, now: _obstacle(workload, now + 3600), decision.stopped_queues_admit_nothing),
    Bug("ties go by chance", pending, "rank", _rank_by_chance, decision.independent_of_order),
    Bug("a refused gang keeps what it tried", trial.Trial, "undo", lambda self, to=0: self.steps.clear(),
        decision.refusals_leave_no_trace),
    Bug("an ended seat is freed again and again", forced_changes, "frees",
        lambda snapshot, without_seats, tried: (forced_changes.Free(admission=number, seats=frozenset({0}),
        closes=False)
                                 for number in snapshot.admissions), decision.reaches_a_fixed_point),
    Bug("the memo answers for another world", memo.Memo, "answer", _stale_answer, decision.memo_decides_nothing),
    Bug("the memo keeps old books", memo.EngineState, "_post", _old_books, decision.memo_decides_nothing, 20),
)  # fmt: skip

_with_parts, _seated = pod_set._with_parts, pod_set._seated
_obstacle = pending.obstacle
_post = memo.EngineState._post

"""The laws of sharing can fail: each planted bug breaks the law it is planted for."""

from typing import Any

import numpy as np
import pytest

from admission.engine import trial
from admission.engine.pending import pending
from admission.engine.preemption import rules
from queues.order import line, policies, shares
from queues.quota import effective_limits, usage
from queues.quota.queue import ROOT
from tests.laws import test_fairness_laws as laws
from tests.laws.planted.bug import Bug, each_breaks_its_law

_count_pods = trial.Trial._count_pods

_refusal = usage.Usage.refusal
_key_of = line.Line._key_of
_guaranteed = effective_limits.guaranteed


def _emptiest_only(self: Any, free: Any, request: Any) -> Any:
    """As if a turn looked no farther than the node with most room."""
    left = free.sum(axis=0)
    return np.where(left == left.max(initial=0), _count_pods(self, free, request), 0)


def _lent(self: Any, queue: Any, amounts: Any) -> Any:
    """What is guaranteed to idle queues is lent."""
    hit = _refusal(self, queue, amounts)
    return None if hit is not None and hit.used + hit.asked <= hit.limit else hit


def _limits_are_kept(queue: Any, numbers: Any, children: Any) -> Any:
    """What a queue may have is kept for it, as if it was guaranteed."""
    guarantee, excess = _guaranteed(queue, numbers, children)
    return ({} if queue.name == ROOT else {**guarantee, **numbers.capability}), excess


def _largest_first(self: Any, queue: Any, first: Any) -> Any:
    """Who asks for most goes first."""
    asks = sum(first.head().workload.asks().values())
    standing = line.QueueStanding(
        guarantee_met=True, deserved_met=True, share=shares.NO_SHARE, queue_priority=-asks
    )
    return _key_of(self, queue, first)._replace(standing=standing)


def _newest_first(tree: Any, candidate: Any) -> Any:
    return policies.Rank(candidate.joins, 0, 0, -candidate.workload.arrival, candidate.workload.key)


BUGS = (
    Bug("nothing is got back", rules.PreemptionRights, "within_deserved", lambda *given: False,
        laws.test_sharing_incentive_a_queue_holds_what_a_slice_of_its_own_would_hold),
    Bug("idle guarantees are lent", usage.Usage, "refusal", _lent,
        laws.test_sharing_incentive_what_is_guaranteed_is_there_at_once),
    Bug("who has more than it deserves goes first", line, "below_deserved",
        lambda *given: not shares.below_deserved(*given), laws.test_below_share_before_above_share),
    Bug("the newest goes first", pending, "rank", _newest_first,
        laws.test_no_queue_of_a_crowded_pool_gains_by_work_that_it_does_not_need),
    Bug("who asks for most goes first", line.Line, "_key_of", _largest_first,
        laws.test_no_queue_gains_by_asking_for_more_than_it_needs, 2),
    Bug("only the emptiest node is looked at", trial.Trial, "_count_pods", _emptiest_only,
        laws.test_more_capacity_never_stops_everybody, 3, rare=True),
    Bug("limits are kept like guarantees", effective_limits, "guaranteed", _limits_are_kept,
        laws.test_more_quota_never_hurts_everybody, 1),
)  # fmt: skip

test_a_planted_bug_breaks_its_law = each_breaks_its_law(BUGS)


def test_a_planted_bug_makes_small_pools_uneven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line.Line, "_key_of", _largest_first)
    with pytest.raises(AssertionError):
        laws.test_no_division_of_a_small_pool_is_more_even_or_better_for_everybody(10)

"""Which rule, if any, lets a beneficiary take a candidate: each rule of preemption in a table of its own."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from admission.engine.preemption.candidates import Candidate
from admission.engine.preemption.rules import EvictionRule, PreemptionRights, ReclaimDepth, size_of_members
from admission.engine.snapshot import Budget
from queues.admissions import AdmissionState
from queues.quota.accounts import Account
from queues.quota.queue import ROOT, Limits, Queue, QueuePolicy
from queues.quota.tree import QueueTree
from queues.quota.usage import Usage
from queues.resources import GPU
from queues.workload import NO_FLAVOR, QueueName, Workload
from tests.builders.running_work import (
    NOW,
    Running,
    candidate_of,
    candidates_in,
    running,
    snapshot_of,
    tree_of,
    workload,
)
from tests.tables import named_rows, with_rows
from tests.vectors.fair_sharing import FairSharingRights, ShareRule

PREEMPTED, RECLAIMED, CLEARED = EvictionRule

GPUS = Account(NO_FLAVOR, GPU)


def queue(name: str, parent: str = ROOT, *, deserved: int, reclaimable: bool = True, **policy: Any) -> Queue:
    return Queue(
        name=QueueName(name),
        parent=QueueName(parent),
        limits=Limits(deserved={GPU: deserved * 1000}),
        reclaimable=reclaimable,
        policy=QueuePolicy(**policy),
    )


def cluster(*, reclaimable: bool = True, **policy: Any) -> QueueTree:
    """Eight GPUs. Two cohorts deserve four each, their queues two each."""
    queues = [
        queue("mine", deserved=4),
        queue("own", "mine", deserved=2, **policy),
        queue("sibling", "mine", deserved=2),
        queue("theirs", deserved=4, reclaimable=reclaimable),
        queue("other", "theirs", deserved=2),
        queue("idle", "theirs", deserved=2),
    ]
    return tree_of({each.name: each for each in queues}, gpus=8)


@dataclass(kw_only=True)
class Ask:
    """A beneficiary in a cluster."""

    tree: QueueTree
    #: GPUs in use by queue, the candidate's included.
    used: dict[str, int]
    beneficiary: Workload
    depth: ReclaimDepth = ReclaimDepth.NEVER
    starved: bool = False

    def rights(self) -> PreemptionRights:
        usage = Usage(self.tree)
        for name, gpus in self.used.items():
            usage.add(QueueName(name), {GPUS: gpus * 1000})
        return PreemptionRights(
            workload=self.beneficiary,
            usage=usage,
            asked={GPUS: self.beneficiary.asks()[GPU]},
            size=size_of_members(self.beneficiary, {"main": range(self.beneficiary.minimum)}),
            depth=self.depth,
            starved=self.starved,
        )

    def rule(self, work: Running) -> EvictionRule | None:
        return self.rights().rule(candidate_of(work, self.tree))


@pytest.mark.parametrize(
    ("within_queue", "priority", "arrival", "expected"),
    [
        pytest.param("lower-priority", 4, 1, PREEMPTED, id="a lower priority is preempted"),
        pytest.param("lower-priority", 5, 99, None, id="an equal priority is not"),
        pytest.param("lower-priority", 6, 99, None, id="a higher priority is not"),
        pytest.param("never", 4, 99, None, id="never means never"),
        pytest.param("lower-or-newer-equal", 4, 1, PREEMPTED, id="or newer: a lower priority, however old"),
        pytest.param("lower-or-newer-equal", 5, 11, PREEMPTED, id="or newer: an equal that came later"),
        pytest.param("lower-or-newer-equal", 5, 9, None, id="or newer: not an equal that came earlier"),
        pytest.param("lower-or-newer-equal", 6, 11, None, id="or newer: not a newer one of higher priority"),
    ],
)
def test_inside_a_queue_priority_decides(
    within_queue: str, priority: int, arrival: int, expected: EvictionRule | None
) -> None:
    asks = workload("asks", "own", priority=5, arrival=10)
    ask = Ask(tree=cluster(within_queue=within_queue), used={"own": 2}, beneficiary=asks)
    assert ask.rule(running("runs", "own", priority=priority, arrival=arrival)) == expected


def test_a_workload_does_not_preempt_itself() -> None:
    ask = Ask(tree=cluster(), used={"own": 2}, beneficiary=workload("same", "own", priority=5))
    assert ask.rule(running("same", "own", priority=0)) is None


@named_rows(
    ("used", "victim", "expected"),
    {
        "what another cohort was lent": ({"other": 6}, "other", RECLAIMED),
        "the victim's cohort has no more than it deserves": ({"other": 4}, "other", None),
        "the victim's own queue has no more than it deserves": ({"idle": 5, "other": 1}, "other", None),
        "the last GPU that the queue deserves": ({"own": 1, "other": 5}, "other", RECLAIMED),
        "the queue has its share, its cohort has not": ({"own": 2, "other": 6}, "other", RECLAIMED),
        "the cohort has its share, too": ({"own": 2, "sibling": 2, "other": 4}, "other", None),
        "a sibling above its share": ({"own": 1, "sibling": 3}, "sibling", RECLAIMED),
        "beside a sibling the cohort does not count": ({"own": 2, "sibling": 3}, "sibling", None),
        "a sibling within its share": ({"own": 1, "sibling": 2}, "sibling", None),
    },
)
def test_reclaim_needs_room_in_the_own_share_and_a_victim_above_its_share(
    used: dict[str, int], victim: str, expected: EvictionRule | None
) -> None:
    ask = Ask(tree=cluster(), used=used, beneficiary=workload("asks", "own"))
    assert ask.rule(running("runs", victim, priority=9)) == expected


@pytest.mark.parametrize(
    ("reclaim", "priority", "expected"),
    [
        pytest.param("any", 9, RECLAIMED, id="any: a higher priority, too"),
        pytest.param("lower-priority", 4, RECLAIMED, id="lower-priority: a lower one"),
        pytest.param("lower-priority", 5, None, id="lower-priority: not an equal one"),
        pytest.param("never", 0, None, id="never"),
    ],
)
def test_the_policy_says_what_may_be_reclaimed(
    reclaim: str, priority: int, expected: EvictionRule | None
) -> None:
    asks = workload("asks", "own", priority=5)
    ask = Ask(tree=cluster(reclaim=reclaim), used={"other": 6}, beneficiary=asks)
    assert ask.rule(running("runs", "other", priority=priority)) == expected


def test_nothing_is_reclaimed_below_a_queue_that_forbids_it() -> None:
    ask = Ask(tree=cluster(reclaimable=False), used={"other": 6}, beneficiary=workload("asks", "own"))
    assert ask.rule(running("runs", "other")) is None
    inside = replace(ask, beneficiary=workload("asks", "idle"), used={"other": 4})
    assert inside.rule(running("runs", "other")) == RECLAIMED  # it forbids it only to queues outside


@pytest.mark.parametrize(
    ("gpus", "depth", "expected"),
    [
        pytest.param(2, ReclaimDepth.NEVER, RECLAIMED, id="exactly what was lent"),
        pytest.param(3, ReclaimDepth.NEVER, None, id="more than was lent"),
        pytest.param(4, ReclaimDepth.NO_FARTHER, RECLAIMED, id="no farther below than above"),
        pytest.param(5, ReclaimDepth.NO_FARTHER, None, id="farther below than above"),
        pytest.param(5, ReclaimDepth.ANY, RECLAIMED, id="at any depth"),
    ],
)
def test_how_far_a_gang_may_bring_its_queues_below_their_share(
    gpus: int, depth: ReclaimDepth, expected: EvictionRule | None
) -> None:
    """The victim's cohort has two GPUs more than it deserves."""
    ask = Ask(tree=cluster(), used={"other": 6}, beneficiary=workload("asks", "own"), depth=depth)
    assert ask.rule(running("runs", "other", gpus=gpus)) == expected


@pytest.mark.parametrize(
    ("most", "priority", "expected"),
    [
        pytest.param(3, 3, RECLAIMED, id="up to that priority"),
        pytest.param(3, 4, None, id="not above it"),
        pytest.param(9, 5, None, id="never an equal priority"),
        pytest.param(None, 0, None, id="not without the policy"),
    ],
)
def test_a_queue_that_borrows_may_reclaim_from_low_priorities(
    most: int | None, priority: int, expected: EvictionRule | None
) -> None:
    used, asks = {"own": 2, "sibling": 2, "other": 5}, workload("asks", "own", priority=5)
    ask = Ask(tree=cluster(borrow_max_priority=most), used=used, beneficiary=asks)
    assert ask.rule(running("runs", "other", priority=priority)) == expected


@pytest.mark.parametrize(
    ("runs", "policy", "starved", "expected"),
    [
        pytest.param({}, {}, True, CLEARED, id="a smaller single pod of equal priority"),
        pytest.param({}, {}, False, None, id="not before the gang starves"),
        pytest.param({"priority": 6}, {}, True, None, id="not a higher priority"),
        pytest.param({"on": "n0 n1"}, {}, True, None, id="not a gang"),
        pytest.param({"gpus": 4}, {}, True, None, id="not a pod that is as large as the gang"),
        pytest.param({"arrival": 1}, {"within_queue": "lower-or-newer-equal"}, True, None,
                     id="not an older equal that could preempt the gang as newer"),
        pytest.param({"priority": 4}, {}, True, PREEMPTED, id="a lower priority is preempted anyway"),
        pytest.param({"priority": 4}, {"within_queue": "never"}, True, CLEARED, id="and cleared if it may not be"),
    ],
)  # fmt: skip
def test_a_place_is_cleared_in_the_own_queue(
    runs: dict[str, Any], policy: dict[str, Any], starved: bool, expected: EvictionRule | None
) -> None:
    gang = workload("gang", "own", gpus=2, pods=2, priority=5)
    ask = Ask(tree=cluster(**policy), used={"own": 4}, beneficiary=gang, starved=starved)
    assert ask.rule(running("runs", "own", **{"priority": 5, **runs})) == expected


@pytest.mark.parametrize(
    ("runs", "used", "reclaimable", "expected"),
    [
        pytest.param({}, {"own": 2, "sibling": 2, "other": 6}, True, CLEARED, id="of what it was lent"),
        pytest.param({}, {"own": 2, "sibling": 2, "other": 4}, True, CLEARED, id="of what it deserves"),
        pytest.param({}, {"own": 2, "other": 6}, False, None, id="not if it may not be reclaimed from"),
        pytest.param({"priority": 1}, {"own": 2, "other": 6}, True, None, id="not of a higher priority"),
        pytest.param({"on": "n0 n1"}, {"own": 2, "other": 6}, True, None, id="not of gangs"),
    ],
)
def test_a_place_is_cleared_in_another_queue(
    runs: dict[str, Any], used: dict[str, int], reclaimable: bool, expected: EvictionRule | None
) -> None:
    gang = workload("gang", "own", pods=3)
    tree = cluster(reclaim="never", reclaimable=reclaimable)
    ask = Ask(tree=tree, used=used, beneficiary=gang, starved=True)
    assert ask.rule(running("runs", "other", **runs)) == expected


@pytest.mark.parametrize(
    ("waited", "ran", "pods", "policy", "expected"),
    [
        pytest.param(1800, 86_399, 2, {}, None, id="a gang that starved keeps it for a day"),
        pytest.param(1800, 86_400, 2, {}, RECLAIMED, id="and no longer"),
        pytest.param(1799, 1, 2, {}, RECLAIMED, id="not one that had not waited for long"),
        pytest.param(1800, 1, 1, {}, RECLAIMED, id="not a single pod"),
        pytest.param(60, 1, 2, {"clear_after": 60}, None, id="by its queue's clearAfter"),
        pytest.param(1800, 99, 2, {"max_protection": 100}, None, id="within maxProtection"),
        pytest.param(1800, 100, 2, {"max_protection": 100}, RECLAIMED, id="no longer than maxProtection"),
    ],
)
def test_a_gang_keeps_what_it_was_lent_for_a_time(
    waited: int, ran: int, pods: int, policy: dict[str, Any], expected: EvictionRule | None
) -> None:
    queues = [queue("own", deserved=4), queue("other", deserved=4, **policy)]
    tree = tree_of({each.name: each for each in queues}, gpus=8)
    ask = Ask(tree=tree, used={"other": 8}, beneficiary=workload("asks", "own"))
    on = " ".join(f"n{number}" for number in range(pods))
    held = running("runs", "other", on=on, since=ran, created=NOW - ran - waited)
    assert ask.rule(held) == expected


def test_what_a_gang_keeps_from_other_queues_goes_for_priority_in_its_own() -> None:
    tree = cluster()
    held = running("runs", "own", on="n0 n1", since=1, created=NOW - 5000)
    ask = Ask(tree=tree, used={"own": 2}, beneficiary=workload("asks", "own", priority=5))
    assert ask.rule(held) == PREEMPTED


@pytest.mark.parametrize(
    ("final", "initial", "earlier", "gpus", "expected"),
    [
        pytest.param(True, False, 0, 1, RECLAIMED, id="final: the victim's side stays at least as far above"),
        pytest.param(True, False, 0, 2, None, id="final: it would not"),
        pytest.param(False, True, 0, 2, RECLAIMED, id="initial: it was farther above before"),
        pytest.param(True, True, 1, 2, None, id="both: by the initial share one victim of a queue"),
    ],
)
def test_above_their_shares_queues_are_compared_by_share(
    final: bool, initial: bool, earlier: int, gpus: int, expected: EvictionRule | None
) -> None:
    """``own`` would be 1 GPU above what it deserves; ``sibling`` is 2 above it now."""
    tree, rule = cluster(), ShareRule(final=final, initial=initial)
    ask = Ask(tree=tree, used={"own": 2, "sibling": 4}, beneficiary=workload("asks", "own"))
    plain = ask.rights()
    given = {name: getattr(plain, name) for name in ("workload", "usage", "asked", "size")}
    rights = FairSharingRights(**given, share_rule=rule)
    rights.initial_share_victims = lambda queue: earlier
    candidate = candidate_of(running("runs", "sibling", gpus=gpus), tree)
    assert rights.rule(candidate) == expected


@pytest.mark.parametrize(
    ("rule", "victim_queue", "words"),
    [
        (PREEMPTED, "own", "job/team/asks of the same queue is more urgent (priority 5)"),
        (CLEARED, "own", "its place is cleared for job/team/asks, which waited too long"),
        (
            RECLAIMED,
            "other",
            "reclaimed for job/team/asks: queue theirs uses 6 nvidia.com/gpu and deserves 4,"
            " queue mine uses 1 nvidia.com/gpu and deserves 4",
        ),
    ],
)
def test_the_owner_of_a_victim_is_told_the_rule_and_the_numbers(
    rule: EvictionRule, victim_queue: str, words: str
) -> None:
    asks = workload("asks", "own", priority=5)
    rights = Ask(tree=cluster(), used={"own": 1, "other": 6}, beneficiary=asks).rights()
    reason = rights.reason(rule, QueueName(victim_queue))
    assert reason.message == words
    assert reason.facts["rule"] == rule


def names(found: list[Candidate]) -> list[tuple[str, int]]:
    return [(each.workload.name, each.pods) for each in found]


@pytest.mark.parametrize(
    ("runs", "policy", "until"),
    [
        pytest.param({"preemptable": False}, {}, None, id="it says that it is not preemptable"),
        pytest.param({"evictions": 3}, {"max_evictions": 3}, None, id="it was evicted as often as may be"),
        pytest.param({"since": 3599, "evictions": 1}, {}, NOW + 1, id="an hour after it was evicted once"),
        pytest.param({"since": 14_399, "evictions": 3}, {}, NOW + 1, id="four hours after the third time"),
        pytest.param({"since": 100}, {"min_run_time": 101}, NOW + 1, id="its queue protects new work"),
        pytest.param({"since": 100, "min_run_time": 150}, {}, NOW + 50, id="its own minimum run time"),
        pytest.param({"since": 100, "cooldown": 160}, {}, NOW + 60, id="its cooldown"),
    ],
)
def test_what_is_protected_is_no_candidate(
    runs: dict[str, Any], policy: dict[str, Any], until: int | None
) -> None:
    tree = cluster(**policy)
    found = candidates_in(snapshot_of([running("runs", "own", **runs)]), tree)
    free = [each for of_queue in found.of_queue.values() for each in of_queue if not each.rests]
    assert (free, found.until) == ([], until)


@with_rows("runs", "policy")
def test_protection_ends(runs: dict[str, Any], policy: dict[str, Any]) -> None:
    found = candidates_in(snapshot_of([running("runs", "own", **runs)]), cluster(**policy))
    assert (names(found.of_queue[QueueName("own")]), found.until) == ([("runs", 1)], None)


def test_what_leaves_already_is_no_candidate() -> None:
    snapshot = snapshot_of([running(name, "own") for name in ("ended", "evicting", "stays")])
    ended, evicting, _ = snapshot.admissions
    closing = replace(snapshot.admissions[evicting], state=AdmissionState.EVICTING)
    snapshot = replace(
        snapshot, ended={ended: frozenset({0})}, admissions={**snapshot.admissions, evicting: closing}
    )
    assert names(candidates_in(snapshot, cluster()).of_queue[QueueName("own")]) == [("stays", 1)]


def test_what_joined_a_gang_above_its_minimum_is_a_candidate_of_its_own_and_comes_first() -> None:
    gang = workload("gang", "own", pods=3, minimum=2)
    core, joined = (
        Running(workload=gang, nodes=("n0", "n1")),
        Running(workload=gang, nodes=("n2",), since=5000),
    )
    found = candidates_in(snapshot_of([core, joined]), cluster()).of_queue[QueueName("own")]
    assert names(sorted(found, key=lambda each: each.sort_key)) == [("gang", 1), ("gang", 3)]


@with_rows("first", "second")
def test_the_cheaper_candidate_is_chosen_first(first: dict[str, Any], second: dict[str, Any]) -> None:
    tree = cluster()
    one, other = (candidate_of(running("same", "own", **each), tree) for each in (first, second))
    assert one.sort_key < other.sort_key


def test_a_disruption_budget_counts_the_pods_of_a_workload() -> None:
    works = [running("one", "own"), running("two", "own", on="n0 n1")]
    pods = {work.workload.key: len(work.nodes) for work in works}
    budget = Budget(namespace="team", name="budget", allowed=2, pods=pods)
    found = candidates_in(snapshot_of(works, budgets=(budget,)), cluster())
    one, two = (work.workload.key for work in works)
    assert found.may_disrupt(two, 2)
    found.disrupt(one, 1)
    assert not found.may_disrupt(two, 2)
    found.disrupt(one, 1, times=-1)
    assert found.may_disrupt(two, 2)

"""Past use fades by half in each half-life, to the last digit, and is the same however it was put together."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from admission.engine.decide import decide
from admission.engine.memo import Memo, QueueBooks, books_after
from admission.engine.snapshot import Snapshot
from queues.order.shares import share
from queues.plan import Plan
from queues.quota.accounts import Account
from queues.quota.decayed_usage import (
    HORIZON,
    NO_PAST,
    DecayedUsage,
    PastUse,
    UsageHolder,
    UsageRecorder,
    half_lives,
    slot_ends,
    weight,
)
from queues.quota.queue import ROOT, Limits, Queue, QueuePolicy
from queues.quota.tree import QueueTree
from queues.quota.usage import Usage
from queues.resources import Resources
from queues.workload import NO_FLAVOR, PodSet, QueueName, Workload
from tests.builders.decided_work import a_node, a_snapshot, a_workload

GPU = "nvidia.com/gpu"
GPUS = Account(NO_FLAVOR, GPU)

A, B = QueueName("a"), QueueName("b")

DAY = 86_400
HALF_LIFE = 7 * DAY
#: The start of a block of one half-life.
NOW = 2900 * HALF_LIFE

#: (queue, user, GPUs, from, to), seconds before NOW; to None: until now.
Spell = tuple[QueueName, str, int, int, int | None]


def queues(half_life: int | None = HALF_LIFE, **policy: Any) -> dict[QueueName, Queue]:
    rules = QueuePolicy(usage_half_life=half_life, **policy)
    return {name: Queue(name=name, policy=rules, limits=Limits(deserved={GPU: 10_000})) for name in (A, B)}


def posted(spells: Iterable[Spell]) -> list[tuple[QueueName, str, int, int]]:
    """(queue, user, what is taken, when)."""
    lines = []
    for queue, user, gpus, since, until in spells:
        lines.append((queue, user, gpus * 1000, NOW - since))
        if until is not None:
            lines.append((queue, user, -gpus * 1000, NOW - until))
    return lines


def remembered(lines: Iterable[tuple[QueueName, str, int, int]], half_life: int = HALF_LIFE) -> UsageRecorder:
    memories = UsageRecorder()
    memories.begin(half_lives(queues(half_life)), {}, NOW)
    for queue, user, units, at in lines:
        memories.post(queue, user, {GPUS: units}, at)
    return memories


def faded(spells: Iterable[Spell], now: int = NOW) -> Fraction:
    """What the share of queue ``a`` counts of the past, in GPUs: everything was given back."""
    tree = QueueTree.build(queues(), Resources({GPU: 20_000}))
    usage = Usage(tree)
    usage.past = DecayedUsage.over(tree, usage.book, lambda queue, user: {})
    assert usage.past is not None
    usage.past.update(remembered(posted(spells)).freeze(now), now)
    told = share(usage, A)
    return Fraction(told.used * 10, told.due)


def test_a_weight_doubles_exactly_with_each_half_life_and_grows_all_the_time() -> None:
    for half_life in (7, 64, 3600, 604_801):
        first, before = weight(10**9, half_life)
        for moment in range(10**9 + 1, 10**9 + 3 * min(half_life, 500)):
            block, units = weight(moment, half_life)
            assert weight(moment + half_life, half_life) == (block + 1, units)
            assert units << block - first > before
            before = units << block - first


def test_what_was_given_back_at_once_is_no_use() -> None:
    assert remembered(posted([(A, "ann", 4, DAY, DAY)])).freeze(NOW).rows == NO_PAST.rows


def test_past_use_is_the_average_whose_weights_halve_in_a_half_life() -> None:
    tail = HALF_LIFE // 64
    for since, until in ((2 * DAY, DAY), (30 * DAY, 3 * DAY), (9 * DAY, 9 * DAY - 3600)):
        whole = 4 * (2 ** (-until / HALF_LIFE) - 2 ** (-since / HALF_LIFE))

        counted = 2 * float(faded([(A, "ann", 4, since, until)]))

        # It is worked out for the end of the slot, which is one 64th of a half-life away.
        assert counted == pytest.approx(whole * 2 ** (-tail / HALF_LIFE), rel=0.01)


def test_after_a_half_life_past_use_counts_half() -> None:
    spells: list[Spell] = [(A, "ann", 4, 5 * DAY, 3 * DAY), (A, "bob", 1, 20 * DAY, DAY)]

    assert faded(spells, NOW + HALF_LIFE) == faded(spells) / 2
    assert 0 < faded(spells, NOW + 3 * HALF_LIFE) == faded(spells) / 8


def test_what_lies_back_far_enough_counts_nothing_and_is_forgotten() -> None:
    spells: list[Spell] = [(A, "ann", 4, 5 * DAY, 3 * DAY)]
    memories, later = remembered(posted(spells)), NOW + (HORIZON + 1) * HALF_LIFE

    assert faded(spells, later) == 0
    assert memories.freeze(NOW).rows
    assert not memories.freeze(later).rows


def test_who_holds_the_same_for_ever_counts_just_that() -> None:
    tree = QueueTree.build(queues(), Resources({GPU: 20_000}))
    usage = Usage(tree)
    usage.add(A, {GPUS: 4000})
    usage.past = DecayedUsage.over(tree, usage.book, lambda queue, user: {})
    assert usage.past is not None
    usage.past.update(NO_PAST, NOW)

    told = share(usage, A)

    assert Fraction(told.used, told.due) == Fraction(4, 10)


def test_what_was_taken_just_now_counts_half_and_so_does_what_was_given_back_just_now() -> None:
    tree = QueueTree.build(queues(), Resources({GPU: 20_000}))
    usage = Usage(tree)
    usage.past = DecayedUsage.over(tree, usage.copy().book, lambda queue, user: {})
    usage.add(A, {GPUS: 4000})

    told = share(usage, A)

    assert Fraction(told.used, told.due) == Fraction(2, 10)


def test_the_past_is_the_same_object_as_long_as_nothing_is_posted() -> None:
    memories = remembered(posted([(A, "ann", 4, 5 * DAY, 3 * DAY)]))

    first = memories.freeze(NOW)

    assert memories.freeze(NOW + DAY) is first
    memories.post(A, "ann", {GPUS: 1000}, NOW + DAY)
    assert memories.freeze(NOW + DAY) is not first
    assert UsageRecorder().freeze(NOW) is NO_PAST


def test_a_queue_is_remembered_by_its_own_half_life_and_by_those_above() -> None:
    parent, leaf, other = QueueName("parent"), QueueName("leaf"), QueueName("other")
    tree = {
        parent: Queue(name=parent, policy=QueuePolicy(usage_half_life=100)),
        leaf: Queue(name=leaf, parent=parent, policy=QueuePolicy(usage_half_life=7)),
        other: Queue(name=other, parent=parent),
        A: Queue(name=A),
        B: Queue(name=B, parent=parent, policy=QueuePolicy(usage_half_life=0)),
    }

    assert half_lives(tree) == {
        parent: frozenset({100}),
        leaf: frozenset({100, 7}),
        other: frozenset({100}),
        B: frozenset({100}),
    }
    assert half_lives({A: Queue(name=A)}) == {}
    assert half_lives({ROOT: Queue(name=ROOT, policy=QueuePolicy(usage_half_life=5)), A: tree[A]}) == {
        A: frozenset({5})
    }


def test_lines_of_a_file_that_make_no_sense_are_refused() -> None:
    good: list[str | int] = ["a", "ann", 60, "", GPU, 7, "12"]

    assert PastUse.from_lines([good]).rows == {UsageHolder(A, "ann", 60): {GPUS: {7: 12}}}
    assert PastUse.from_lines([good]).lines() == [good]
    for place, wrong in ((0, 1), (2, "60"), (2, 0), (5, None), (6, "x")):
        with pytest.raises((TypeError, ValueError)):
            PastUse.from_lines([[*good[:place], wrong, *good[place + 1 :]]])  # type: ignore[list-item]


# ── decisions; who comes first is a law: tests/laws/test_past_use_laws.py ───────────────────────────────────────


def job(number: int, queue: QueueName = A) -> Workload:
    pods = PodSet(name="main", count=1, takes=Resources({GPU: 1000, "pods": 1}))
    return a_workload(f"u{number}", pods, name=f"w{number}", queue=queue, arrival=number, created=NOW)


def turn(
    gpus: int, *jobs: Workload, past: PastUse, under: dict[QueueName, Queue] | None = None
) -> tuple[Plan, Memo, Snapshot]:
    nodes = [a_node("n", {GPU: gpus * 1000, "pods": 100})]
    snapshot = a_snapshot(*jobs, queues=(under or queues()).values(), nodes=nodes, now=NOW, past_use=past)
    return *decide(snapshot, Memo()), snapshot


def admitted(plan: Plan) -> list[str]:
    return [admit.name for admit in plan.admits]


PAST = remembered(posted([(A, "ann", 4, 5 * DAY, 3 * DAY), (B, "bob", 4, 5 * DAY, 4 * DAY)])).freeze(NOW)


def test_present_use_counts_beside_past_use_so_that_queues_fill_up_in_turn() -> None:
    jobs = [job(number, queue) for queue, first in ((A, 1), (B, 4)) for number in range(first, first + 3)]

    assert admitted(turn(4, *jobs, past=PAST)[0]) == ["w4", "w1", "w5", "w2"]


def books(under: Mapping[QueueName, Queue]) -> QueueBooks:
    after = books_after(None, turn(1, past=PAST, under=under)[1])
    assert after is not None
    return after


def test_metrics_show_the_averages_that_a_turn_went_by() -> None:
    under = {A: queues()[A], B: replace(queues()[B], policy=QueuePolicy(usage_half_life=0))}

    found = books(under).past_use

    # 4 GPUs from 5/7 to 3/7 of a half-life ago, as at the end of this 64th of it.
    assert found.keys() == {(A, GPUS)}
    assert found[A, GPUS] == pytest.approx(4000 * (2 ** (-3 / 7) - 2 ** (-5 / 7)) / 2 ** (1 / 64), rel=0.001)
    assert books(queues(None)).past_use == {}


def test_a_half_life_of_nothing_means_that_only_present_use_counts() -> None:
    jobs = [job(1, A), job(2, B)]

    assert admitted(turn(1, *jobs, past=PAST, under=queues(0))[0]) == ["w1"]
    mixed = {**queues(), A: replace(queues()[A], policy=QueuePolicy(usage_half_life=0))}
    assert admitted(turn(1, *jobs, past=PAST, under=mixed)[0]) == ["w1"]


def test_a_plan_holds_until_the_slot_ends_if_somebody_waits_and_has_a_past() -> None:
    waiting, idle = [job(1, A), job(2, B)], turn(0, past=PAST)

    _, memo, snapshot = turn(0, *waiting, past=PAST)

    assert memo.until == slot_ends(NOW, HALF_LIFE)
    assert memo.answer(snapshot) is not None
    assert idle[1].until is None
    assert turn(0, *waiting, past=NO_PAST)[1].until is None

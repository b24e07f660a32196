"""The queue tree: limits at every level, wrong queues set apart, shares by weight."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.errors import GuaranteesExceedParent, LimitsOutOfOrder, QueueCycle, QuotaTreeError, UnknownParent
from queues.quota.accounts import Account
from queues.quota.effective_limits import Claimant, share_out
from queues.quota.queue import HIGHEST_USER_PRIORITY, MOST_LEVELS, ROOT, Limits, Queue, QueuePolicy
from queues.quota.tree import QueueTree
from queues.quota.usage import Usage
from queues.resources import Resources
from queues.workload import NO_FLAVOR, FlavorName, QueueName, Requirement
from tests.builders.quota import available
from tests.tables import named_rows

GPU = Account(NO_FLAVOR, "gpu")
BIG = FlavorName("big")


def queue(name: str, parent: str = ROOT, weight: int = 1, **limits: int) -> Queue:
    guarantee = Resources({"gpu": limits.pop("guarantee", 0)})
    rest = {kind: {"gpu": units} for kind, units in limits.items()}
    return Queue(
        name=QueueName(name),
        parent=QueueName(parent),
        weight=weight,
        limits=Limits(guarantee=guarantee, **rest),
    )


def tree(*queues: Queue, gpus: int = 16) -> QueueTree:
    return QueueTree.build({each.name: each for each in queues}, Resources({"gpu": gpus}))


def test_queues_in_a_cycle_and_below_it_are_set_apart_and_the_others_go_on() -> None:
    built = tree(queue("a", "b"), queue("b", "a"), queue("below", "a"), queue("fine"))
    assert {name: type(errors[0]) for name, errors in built.problems.items()} == {
        "a": QueueCycle,
        "b": QueueCycle,
        "below": QueueCycle,
    }
    assert "a → b → a" in str(built.problems[QueueName("a")][0])


def test_a_queue_that_is_its_own_parent_is_a_cycle() -> None:
    assert isinstance(tree(queue("a", "a")).problems[QueueName("a")][0], QueueCycle)


def test_a_missing_parent_is_named_for_the_queue_and_all_below() -> None:
    built = tree(queue("a", "gone"), queue("below", "a"), queue("fine"))
    assert set(built.problems) == {"a", "below"}
    error = built.problems[QueueName("below")][0]
    assert isinstance(error, UnknownParent)
    assert "names parent gone" in str(error)


def test_numbers_out_of_order_are_told_with_the_numbers() -> None:
    built = tree(queue("a", guarantee=4000, deserved=2000, capability=8000))
    (error,) = built.problems[QueueName("a")]
    assert isinstance(error, LimitsOutOfOrder)
    assert "guarantee 4, deserved 2, capability 8" in str(error)


def test_children_guaranteed_more_than_their_parent_are_set_apart_with_it() -> None:
    built = tree(
        queue("a", guarantee=4000),
        queue("a1", "a", guarantee=3000),
        queue("a2", "a", guarantee=3000),
        queue("fine", guarantee=2000),
        gpus=16_000,
    )
    assert set(built.problems) == {"a", "a1", "a2"}
    assert isinstance(built.problems[QueueName("a1")][0], GuaranteesExceedParent)
    # What stands in the parent's own name is still kept; the children's excess is not.
    assert available(Usage(built), QueueName("fine"), GPU) == 12_000


def test_root_is_exempt_from_the_check_of_its_childrens_guarantees() -> None:
    built = tree(queue("a", guarantee=16), queue("b", guarantee=16), gpus=16)
    assert not built.problems
    assert available(Usage(built), QueueName("a"), GPU) == 16


def test_a_document_that_cannot_be_used_disables_its_queue_only() -> None:
    broken = Queue(name=QueueName("a"), broken="spec.capability.cpu: found -1")
    built = tree(broken, queue("b"))
    assert "found -1" in str(built.problems[QueueName("a")][0])
    assert isinstance(built.problems[QueueName("a")][0], QuotaTreeError)
    assert built.usable(QueueName("b"))


def test_an_idle_guarantee_below_a_queue_without_one_is_kept_from_its_uncles() -> None:
    built = tree(queue("a"), queue("a1", "a", guarantee=6), queue("b"), gpus=16)
    assert available(Usage(built), QueueName("b"), GPU) == 10
    assert available(Usage(built), QueueName("a1"), GPU) == 16


def test_the_limit_that_is_hit_is_told_with_what_is_used_and_kept() -> None:
    built = tree(queue("a", capability=10), queue("a1", "a", guarantee=4), queue("a2", "a"))
    usage = Usage(built)
    usage.add(QueueName("a2"), {GPU: 5})
    hit = usage.refusal(QueueName("a2"), {GPU: 3})
    assert hit is not None
    assert (hit.queue, hit.limit, hit.used, hit.kept, hit.asked, hit.short) == ("a", 10, 5, 4, 3, 2)


def test_flavors_are_counted_on_their_own_and_in_the_sum() -> None:
    both = Queue(
        name=QueueName("a"),
        limits=Limits(capability={"gpu": 10}),
        flavors={BIG: Limits(guarantee=Resources({"gpu": 2}), deserved={"gpu": 3}, capability={"gpu": 4})},
    )
    built = QueueTree.build({both.name: both}, Resources({"gpu": 16}), {BIG: Resources({"gpu": 8})})
    usage = Usage(built)
    assert available(usage, both.name, Account(BIG, "gpu")) == 4
    assert available(usage, both.name, GPU) == 10
    assert built.guarantee(both.name, GPU) == 2
    assert built.deserved(both.name, GPU) == 3


def test_paused_and_closed_hold_for_everything_below() -> None:
    built = tree(Queue(name=QueueName("a"), paused=True, closed=True), queue("a1", "a"), queue("b"))
    assert built.paused(QueueName("a1")) == built.closed(QueueName("a1")) == "a"
    assert built.paused(QueueName("b")) is None
    root = Queue(name=ROOT, parent=None, paused=True)
    assert tree(root, queue("b")).paused(QueueName("b")) == ROOT


def test_policies_are_inherited_from_the_nearest_who_has_one() -> None:
    top = Queue(name=QueueName("a"), order="fifo", placement="spread", ageing_per_hour=5, max_gang=64)
    below = Queue(name=QueueName("a1"), parent=QueueName("a"), order="strict-fifo", max_gang=8)
    built = tree(top, below)
    name = QueueName("a1")
    assert built.order(name).name == "strict-fifo"
    assert built.policies(name).placement.name == "spread"
    assert built.ageing_per_hour(name) == 5
    assert built.max_gang(name) == ("a1", 8)


def test_only_queues_beyond_the_last_level_are_disabled_however_deep_the_tree_is() -> None:
    """Written while no webhook answered."""
    chain = [queue(f"q{level}", f"q{level - 1}" if level > 1 else ROOT) for level in range(1, 1001)]
    built = tree(*chain, queue("beside"))
    name = QueueName(f"q{MOST_LEVELS}")
    assert built.usable(name)
    assert [each for each in built.paths if not built.usable(each)] == [
        one.name for one in sorted(chain[MOST_LEVELS:], key=lambda each: each.name)
    ]
    (error,) = built.problems[QueueName("q1000")]
    assert str(error) == (
        "Queue q1000: found at level 1000 below root, expected at most 32. Move it, or one above it, further up."
    )
    assert not built.leaf(name), "it has queues below it, though none can be used"
    assert {built.deserved(each, GPU) for each in built.paths} >= {0}
    alone = tree(*chain[:MOST_LEVELS], queue("beside"))
    assert built.deserved(QueueName("beside"), GPU) == alone.deserved(QueueName("beside"), GPU)


def test_what_is_not_stated_goes_with_what_is() -> None:
    """Two who deserve 12 and 4 of 16 GPUs deserve processors likewise; who states nothing keeps its weight."""
    both = QueueTree.build(
        {
            one.name: one
            for one in (
                queue("a", deserved=12),
                queue("b", deserved=4),
                queue("c", weight=2),
                queue("d", deserved=0),
            )
        },
        Resources({"gpu": 16, "cpu": 100_000}),
    )
    cpu = Account(NO_FLAVOR, "cpu")
    assert [both.deserved(QueueName(name), cpu) for name in "abcd"] == [30_000, 10_000, 40_000, 20_000]
    assert [both.deserved(QueueName(name), GPU) for name in "abcd"] == [12, 4, 0, 0]


def test_stating_more_than_there_is_takes_nothing_from_those_who_state_nothing() -> None:
    built = QueueTree.build(
        {one.name: one for one in (queue("a", deserved=99), queue("b", deserved=1), queue("c", weight=2))},
        Resources({"gpu": 10, "cpu": 44_000}),
    )
    cpu = Account(NO_FLAVOR, "cpu")
    assert [built.deserved(QueueName(name), cpu) for name in "abc"] == [20_000, 2_000, 22_000]


def test_what_nobody_claims_is_shared_by_weight() -> None:
    built = tree(queue("a", deserved=4), queue("b", weight=1), queue("c", weight=3), gpus=16)
    assert [built.deserved(QueueName(name), GPU) for name in "abc"] == [4, 3, 9]


@given(st.data())
def test_use_returns_to_nothing_when_all_is_taken_back(data: st.DataObject) -> None:
    built = tree(queue("a", guarantee=3), queue("a1", "a", guarantee=2), queue("a2", "a"), queue("b"))
    names = st.sampled_from([QueueName(name) for name in ("a1", "a2", "b", "unknown")])
    posted = data.draw(st.lists(st.tuples(names, st.integers(1, 9))))
    usage, fresh = Usage(built), Usage(built)
    for name, units in posted:
        usage.add(name, {GPU: units})
    assert usage.used(ROOT, GPU) == sum(units for _, units in posted)
    for name, units in data.draw(st.permutations(posted)):
        usage.remove(name, {GPU: units})
    for name in built.queues:
        assert usage.used(name, GPU) == 0
        assert available(usage, name, GPU) == available(fresh, name, GPU)


@given(st.data())
def test_a_request_is_refused_exactly_when_it_is_more_than_available(data: st.DataObject) -> None:
    number = st.integers(0, 8)
    guarantee, inner = sorted((data.draw(number), data.draw(number)))
    built = tree(
        queue("a", guarantee=inner, capability=inner + data.draw(number)),
        queue("a1", "a", guarantee=guarantee),
        queue("a2", "a"),
        queue("b"),
    )
    usage = Usage(built)
    for name in ("a1", "a2", "b"):
        usage.add(QueueName(name), {GPU: data.draw(number)})
    asked = data.draw(st.integers(1, 20))
    for name in ("a1", "a2", "b"):
        left = available(usage, QueueName(name), GPU)
        assert left is not None
        assert (usage.refusal(QueueName(name), {GPU: asked}) is None) == (asked <= left)


@st.composite
def claimants(draw: st.DrawFn) -> list[Claimant]:
    made = []
    for number in range(draw(st.integers(1, 5))):
        at_least = draw(st.integers(0, 20))
        at_most = draw(st.one_of(st.none(), st.integers(at_least, 40)))
        made.append(Claimant(f"q{number}", draw(st.integers(1, 5)), at_least, at_most))
    return made


@given(st.integers(0, 200), claimants())
def test_shares_fill_the_amount_within_their_bounds_in_any_order(amount: int, made: list[Claimant]) -> None:
    shares = share_out(amount, made)
    for each in made:
        assert shares[each.name] >= each.at_least
        assert each.at_most is None or shares[each.name] <= each.at_most
    least = sum(each.at_least for each in made)
    most = sum(amount if each.at_most is None else each.at_most for each in made)
    assert sum(shares.values()) == max(least, min(amount, most))
    assert share_out(amount, reversed(made)) == shares


@given(st.integers(0, 200), claimants())
def test_whoever_is_between_the_bounds_has_a_share_by_weight(amount: int, made: list[Claimant]) -> None:
    shares = share_out(amount, made)
    free = [each for each in made if each.at_least < shares[each.name] and each.at_most != shares[each.name]]
    for one in free:
        for other in free:
            mine, theirs = Fraction(one.weight), Fraction(other.weight)
            assert abs(shares[one.name] * theirs - shares[other.name] * mine) <= mine + theirs


@pytest.mark.parametrize(("weights", "expected"), [((1, 1, 1), (4, 3, 3)), ((0, 1, 1), (0, 5, 5))])
def test_whole_units_left_over_go_by_fraction_then_name(
    weights: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    shares = share_out(10, [Claimant(f"q{i}", weight) for i, weight in enumerate(weights)])
    assert tuple(shares.values()) == expected


def with_policies(root: int | None, top: int | None, leaf: int | None) -> QueueTree:
    """A path of three queues with these ``max_priority`` and ``max_protection``."""
    stated = {ROOT: root, "top": top, "leaf": leaf}
    queues = [queue(ROOT), queue("top"), queue("leaf", "top")]
    return tree(
        *(
            replace(
                each, policy=QueuePolicy(max_priority=stated[each.name], max_protection=stated[each.name])
            )
            for each in queues
        )
    )


@named_rows(
    ("root", "top", "leaf", "counts", "by"),
    {
        "system classes are cut": (None, None, None, HIGHEST_USER_PRIORITY, None),
        "the queue's own": (None, None, 50, 50, "leaf"),
        "inherited": (50, None, None, 50, ROOT),
        "a queue cannot grant itself more": (50, None, 900, 50, ROOT),
        "the smallest on the path": (900, 50, 60, 50, "top"),
        "of equal ones the nearest is named": (50, 50, None, 50, "top"),
        "system classes, where an administrator says so": (None, None, 2_000_000_000, 2_000_000_000, "leaf"),
        "below zero": (None, -5, None, -5, "top"),
    },
)
def test_the_smallest_highest_priority_on_the_path_counts(
    root: int | None, top: int | None, leaf: int | None, counts: int, by: str | None
) -> None:
    built, name = with_policies(root, top, leaf), QueueName("leaf")
    assert built.counted_priority(name, 2_000_001_000) == counts
    assert built.counted_priority(name, -10) == -10
    assert (built.priority_limit(name).most, built.priority_limit(name).by) == (counts, by)


@pytest.mark.parametrize(
    ("root", "leaf", "counts"), [(None, None, None), (60, None, 60), (60, 600, 60), (600, 60, 60)]
)
def test_the_shortest_protection_on_the_path_counts(
    root: int | None, leaf: int | None, counts: int | None
) -> None:
    assert with_policies(root, None, leaf).policy(QueueName("leaf")).max_protection == counts


TIER, TEAM = Requirement("tier", "Exists"), Requirement("team", "In", ("a",))


@named_rows(
    ("top", "leaf", "labels", "by"),
    {
        "no selector: every namespace": (None, None, {}, None),
        "an empty selector selects every namespace": ((), (), {}, None),
        "selected": (None, (TEAM,), {"team": "a"}, None),
        "not selected": (None, (TEAM,), {"team": "b"}, "leaf"),
        "refused above": ((TIER,), None, {"team": "a"}, "top"),
        "allowed below, refused above": ((TIER,), (TEAM,), {"team": "a"}, "top"),
        "the nearest refusal is told": ((TIER,), (TEAM,), {}, "leaf"),
        "allowed at every level": ((TIER,), (TEAM,), {"team": "a", "tier": "gold"}, None),
    },
)
def test_a_namespace_must_be_selected_at_every_level_that_states_a_selector(
    top: tuple[Requirement, ...] | None,
    leaf: tuple[Requirement, ...] | None,
    labels: dict[str, str],
    by: str | None,
) -> None:
    built = tree(
        replace(queue("top"), namespace_selector=top), replace(queue("leaf", "top"), namespace_selector=leaf)
    )
    refusal = built.access_refusal(QueueName("leaf"), labels)
    assert (refusal.by if refusal else None) == by

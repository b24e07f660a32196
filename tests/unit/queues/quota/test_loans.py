"""Loans: what queues deserve while they last, how far they count, and that nothing is left when they end."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.quota.accounts import Account
from queues.quota.loans import DeservedOverTime, LoansInForce, loans_in_force
from queues.quota.queue import ROOT, Limits, Loan, Queue
from queues.quota.tree import QueueTree
from queues.resources import Resources
from queues.workload import NO_FLAVOR, FlavorName, QueueName
from tests.tables import with_rows

GPU = Account(NO_FLAVOR, "gpu")
FAST = FlavorName("fast")
END = 1000


def limits(**stated: int) -> Limits:
    guarantee = Resources({"gpu": stated.pop("guarantee", 0)})
    return Limits(guarantee=guarantee, **{kind: {"gpu": units} for kind, units in stated.items()})


def queue(name: str, parent: str = ROOT, *, fast: Limits | None = None, **stated: int) -> Queue:
    flavors = {} if fast is None else {FAST: fast}
    return Queue(name=QueueName(name), parent=QueueName(parent), limits=limits(**stated), flavors=flavors)


def loan(to: str, units: int, *, until: int = END, account: Account = GPU) -> Loan:
    return Loan(to=QueueName(to), account=account, units=units, until=until)


def lent(
    queues: Sequence[Queue], loans: Mapping[str, Sequence[Loan]], now: int = END - 1
) -> tuple[LoansInForce, QueueTree]:
    """The loans, and the tree as it counts."""
    stated = {each.name: replace(each, loans=tuple(loans.get(each.name, ()))) for each in queues}
    found = loans_in_force(stated, now)
    return found, QueueTree.build({**stated, **found.queues}, Resources({"gpu": 10**6}))


def deserved(tree: QueueTree, account: Account = GPU) -> dict[str, int]:
    return {name: tree.deserved(name, account) for name in tree.paths if name != ROOT}


TWO = (queue("a", deserved=32, capability=40), queue("b", deserved=8, capability=16))


def test_what_is_lent_counts_for_the_receiver_until_the_loan_ends() -> None:
    found, tree = lent(TWO, {"a": [loan("b", 16)]})
    assert deserved(tree) == {"a": 16, "b": 24}
    assert (tree.capability(QueueName("a"), GPU), tree.capability(QueueName("b"), GPU)) == (40, 24)
    assert (found.until, found.loans[0].units, found.loans[0].problem) == (END, 16, "")

    after, tree = lent(TWO, {"a": [loan("b", 16)]}, now=END)
    assert after == LoansInForce(queues={"a": TWO[0]})
    assert deserved(tree) == {"a": 32, "b": 8}


def test_a_capability_that_has_room_for_the_loan_stays() -> None:
    _, tree = lent((queue("a", deserved=8), queue("b", deserved=8, capability=64)), {"a": [loan("b", 4)]})
    assert tree.capability(QueueName("b"), GPU) == 64


def test_a_loan_between_tenants_goes_by_way_of_the_queues_between() -> None:
    queues = (
        queue("one", deserved=32),
        queue("a", "one", deserved=16),
        queue("two", deserved=16, capability=16),
        queue("b", "two", deserved=8),
        queue("other", "two"),
    )
    _, tree = lent(queues, {"a": [loan("b", 8)]})
    assert deserved(tree) == {"one": 24, "a": 8, "two": 24, "b": 16, "other": 8}
    assert tree.capability(QueueName("two"), GPU) == 24


def test_a_loan_between_siblings_leaves_what_is_above_them_as_it_is() -> None:
    queues = (queue("lab", deserved=16), queue("a", "lab", deserved=8), queue("b", "lab", deserved=8))
    assert lent(queues, {"a": [loan("b", 8)]})[0].queues.keys() == {"a", "b"}


def test_a_guarantee_is_never_lent() -> None:
    queues = (queue("a", deserved=32, guarantee=24), queue("b", deserved=0))
    found, tree = lent(queues, {"a": [loan("b", 16)]})
    assert deserved(tree) == {"a": 24, "b": 8}
    assert found.loans[0].problem.startswith("queue a has 8m gpu to lend")


def test_of_several_loans_the_earlier_ones_count_first_and_what_was_lent_to_a_queue_is_not_lent_on() -> None:
    queues = (queue("a", deserved=16), queue("b", deserved=4), queue("c", deserved=0))
    found, tree = lent(queues, {"a": [loan("b", 12), loan("c", 12)], "b": [loan("c", 16)]})
    assert [each.units for each in found.loans] == [12, 4, 4]
    assert deserved(tree) == {"a": 0, "b": 12, "c": 8}


def test_the_loans_of_one_queue_end_one_after_the_other(golden: Any) -> None:
    queues = (queue("a", deserved=16), queue("b", deserved=0))
    loans = {"a": [loan("b", 4, until=END), loan("b", 8, until=END + 50)]}
    assert [deserved(lent(queues, loans, now)[1])["b"] for now in (0, END, END + 49, END + 50)] == golden
    assert lent(queues, loans, END)[0].until == END + 50


FLAVORED = (
    queue("a", fast=limits(deserved=32), capability=64),
    queue("b", fast=limits(deserved=8, capability=8), capability=8),
)


def test_a_loan_of_a_flavor_counts_in_it_and_in_all_flavors_together() -> None:
    fast = Account(FAST, "gpu")
    found, tree = lent(FLAVORED, {"a": [loan("b", 8, account=fast)]})
    assert found.loans[0].units == 8
    assert (deserved(tree, fast), deserved(tree)) == ({"a": 24, "b": 16}, {"a": 24, "b": 16})
    assert [tree.capability(QueueName("b"), each) for each in (fast, GPU)] == [16, 16]
    assert not tree.problems


@pytest.mark.parametrize(
    ("loans", "problem"),
    [
        ({"a": [loan("gone", 4)]}, "there is no queue gone"),
        ({"a": [loan("a", 4)]}, "of the two queues one is above the other"),
        ({"a": [loan("below", 4)]}, "of the two queues one is above the other"),
        ({"below": [loan("a", 4)]}, "of the two queues one is above the other"),
        ({"a": [loan("silent", 4)]}, "queue silent states no deserved gpu"),
        ({"silent": [loan("a", 4)]}, "queue silent states no deserved gpu"),
        ({"a": [loan("broken", 4)]}, "queue broken cannot be used"),
        ({"a": [loan(ROOT, 4)]}, "root has all there is"),
        (
            {"a": [loan("b", 4, account=Account(FAST, "gpu"))]},
            "queue a states no deserved gpu of flavor fast",
        ),
    ],
)
def test_a_loan_that_cannot_count_changes_nothing_and_says_why(
    loans: dict[str, list[Loan]], problem: str
) -> None:
    queues = (
        queue("a", deserved=8),
        queue("b", deserved=8),
        queue("below", "a", deserved=4),
        queue("silent"),
        queue("broken", deserved=8, guarantee=16),
    )
    found, tree = lent(queues, loans)
    assert (deserved(tree), found.loans[0].units) == (deserved(lent(queues, {})[1]), 0)
    assert found.loans[0].problem.startswith(problem)


NAMES = ("a", "b", "c", "d", "e")
AMOUNT = st.integers(0, 20)


@st.composite
def trees(draw: st.DrawFn) -> list[Queue]:
    found: list[Queue] = []
    for index, name in enumerate(NAMES):
        parent = draw(st.sampled_from((ROOT, *NAMES[:index])))
        sizes = sorted(draw(st.tuples(AMOUNT, AMOUNT, AMOUNT)))
        stated = dict(zip(("guarantee", "deserved", "capability"), sizes, strict=True))
        for kind in draw(st.sets(st.sampled_from(sorted(stated)))):
            del stated[kind]
        found.append(queue(name, parent, **stated))
    return found


LOANS = st.dictionaries(
    st.sampled_from(NAMES),
    st.lists(st.builds(loan, st.sampled_from(NAMES), AMOUNT.map(lambda units: units + 1)), max_size=3),
    max_size=4,
)


@given(trees(), LOANS)
def test_loans_break_no_queue_and_touch_no_guarantee(
    queues: list[Queue], loans: dict[str, list[Loan]]
) -> None:
    before, after = lent(queues, {})[1], lent(queues, loans)[1]
    assert after.problems.keys() == before.problems.keys()
    assert after.guarantees == before.guarantees


@given(trees(), LOANS)
def test_what_loans_take_from_queues_they_give_to_others(
    queues: list[Queue], loans: dict[str, list[Loan]]
) -> None:
    queues = [replace(each, limits=replace(each.limits, deserved={"gpu": 20})) for each in queues]
    found, after = lent(queues, loans)
    for name in (ROOT, *NAMES):
        below = sum(
            after.own_deserved[each][GPU] - 20
            for each in after.children[QueueName(name)]
            if after.usable(each)
        )
        gained = sum(each.units * ((each.loan.to == name) - (each.lender == name)) for each in found.loans)
        if name == ROOT:
            assert below == 0
        elif after.usable(QueueName(name)) and after.children[QueueName(name)]:
            own = after.own_deserved[QueueName(name)][GPU] - 20
            assert own == below + gained


def test_what_follows_from_flavors_alone_is_not_lent() -> None:
    only = queue("a", fast=Limits(deserved={"gpu": 8}))
    found, tree = lent((only, queue("b", deserved=8)), {"a": [loan("b", 4)]})
    assert found.loans[0].problem.startswith("queue a states no deserved gpu")
    assert deserved(tree)["b"] == 8


@with_rows("start", "end", "least")
def test_the_least_that_queues_deserve_in_a_window(
    start: int, end: int | None, least: dict[str, int]
) -> None:
    a, b = TWO
    a = replace(a, loans=(loan("b", 16, until=100), loan("c", 10, until=200)))
    c = replace(queue("c", deserved=4), loans=(loan("b", 4, until=200),))
    queues = {each.name: each for each in (a, b, c)}
    over_time = DeservedOverTime(queues)
    found = {name: dict(over_time.least(name, start, end)) for name in queues}
    assert found == {name: {"gpu": units} for name, units in least.items()}
    assert over_time.least(QueueName("gone"), start, end) == {}

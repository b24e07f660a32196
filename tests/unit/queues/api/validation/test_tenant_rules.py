"""What the administrators of a tenant may change of the queue tree, and what they may not."""

from itertools import pairwise
from typing import Any

import pytest

from queues.api.validation.tenant_rules import (
    MOST_LEVELS,
    QUEUES_OF_A_TENANT,
    ObjectWrite,
    Requester,
    change_refusals,
    command_refusals,
    status_refusals,
)
from tests.builders.valid_documents import of_kind
from tests.tables import with_rows

GPU = "nvidia.com/gpu"
ANN = Requester("ann", frozenset({"system:authenticated"}))
LEAD = Requester("lea", frozenset({"team-a-leads"}))
BOB = Requester("bob")
INNER = Requester("ivy")


def queue(name: str, parent: str = "root", **spec: Any) -> dict[str, Any]:
    return of_kind("Queue", {"parent": parent, "weight": 1, "reclaimable": True, **spec}, name)


#: Tenant a: 64 GPUs, two queues below it, one of them with a queue below. Tenant b is Bob's.
TREE = {
    each["metadata"]["name"]: each
    for each in (
        queue("root", "", access={"admins": [{"user": "rut"}]}),
        queue(
            "a",
            deserved={GPU: 64},
            capability={GPU: 96},
            guarantee={"resource": {GPU: 8}},
            access={"admins": [{"user": "ann"}, {"group": "team-a-leads"}]},
        ),
        queue("a-train", "a", deserved={GPU: 32}, access={"admins": [{"user": "ivy"}]}),
        queue("a-train-x", "a-train", deserved={GPU: 16}),
        queue("a-infer", "a", deserved={GPU: 16}),
        queue("b", deserved={GPU: 32}, access={"admins": [{"user": "bob"}]}),
        queue("b-one", "b"),
        queue("orphan", "gone"),
    )
}


Tree = dict[str, dict[str, Any]]


def stating(name: str, tree: Tree = TREE, **spec: Any) -> Tree:
    """The tree with another spec of a queue."""
    return {**tree, name: {**tree[name], "spec": {**tree[name]["spec"], **spec}}}


def created(new: dict[str, Any], by: Requester = ANN, tree: Tree = TREE) -> list[str]:
    return change_refusals(ObjectWrite(new["metadata"]["name"], None, new), by, tree)


def updated(name: str, by: Requester = ANN, tree: Tree = TREE, now: float = 0.0, **spec: Any) -> list[str]:
    return change_refusals(ObjectWrite(name, tree[name], stating(name, tree, **spec)[name]), by, tree, now)


def deleted(name: str, by: Requester = ANN, tree: Tree = TREE) -> list[str]:
    return change_refusals(ObjectWrite(name, tree[name], None), by, tree)


@pytest.mark.parametrize("by", [ANN, LEAD])
def test_an_administrator_creates_resizes_and_deletes_queues_at_any_depth_of_the_tenant(
    by: Requester,
) -> None:
    assert created(queue("a-new", "a", deserved={GPU: 16}), by) == []
    assert created(queue("a-train-y", "a-train", deserved={GPU: 16}), by) == []
    assert updated("a-infer", by, deserved={GPU: 32}) == []
    assert updated("a-train-x", by, deserved={GPU: 32}, access={"admins": [{"user": "new"}]}) == []
    assert deleted("a-train-x", by) == []


REFUSED = "being neither a platform administrator (role muster-queue-admin) nor named in access.admins of a queue above"


@pytest.mark.parametrize(
    "found",
    [
        created(queue("b-new", "b")),
        created(queue("top")),
        created(queue("top", "")),
        created(queue("lost", "nowhere")),
        updated("a", weight=2),
        updated("a", access={"admins": [{"user": "ann"}, {"user": "eve"}]}),
        updated("a", parent="b"),
        updated("root", policy={"paused": True}),
        updated("b-one", weight=2),
        updated("b-one", parent="a"),
        updated("orphan", weight=2),
        deleted("a"),
        deleted("b-one"),
        deleted("root"),
        updated("a-infer", BOB, weight=2),
        updated("a-infer", INNER, weight=2),
        updated("a-train", INNER, deserved={GPU: 48}),
        updated("a-infer", Requester("rut"), weight=2),
        updated("a-infer", Requester("team-a-leads"), weight=2),
        updated("a-infer", Requester("x", frozenset({"ann"})), weight=2),
    ],
)
def test_whoever_is_not_named_above_a_queue_is_refused_with_one_sentence(found: list[str]) -> None:
    assert len(found) == 1
    assert REFUSED in found[0]


def test_an_administrator_of_an_inner_queue_has_what_is_below_it() -> None:
    assert updated("a-train-x", INNER, deserved={GPU: 24}) == []
    assert created(queue("a-train-y", "a-train"), INNER) == []


def test_queues_move_inside_a_tenant_and_neither_out_of_it_nor_into_it() -> None:
    assert updated("a-train-x", parent="a-infer") == []
    both = stating("b", access={"admins": [{"user": "ann"}]})
    for name, parent in (("a-infer", "b"), ("b-one", "a"), ("a-infer", "root"), ("a-infer", "")):
        [told] = updated(name, tree=both, parent=parent)
        assert "expected a queue of the same tenant that ann administers" in told
    [told] = updated("a-train-x", INNER, parent="a")
    assert "found spec.parent 'a'" in told


def test_no_queue_goes_below_itself() -> None:
    [told] = updated("a-train", parent="a-train-x")
    assert "found spec.parent 'a-train-x'" in told


def test_what_the_queues_of_a_tenant_deserve_together_stays_within_what_the_tenant_deserves() -> None:
    [told] = created(queue("a-new", "a", deserved={GPU: 17}))
    assert told == (
        f"queue a-new: found deserved of 65 {GPU} of the queues below a together, "
        "expected at most 64, the deserved of a"
    )
    assert created(queue("a-new", "a", deserved={GPU: 16})) == []
    [told] = updated("a-train-x", deserved={GPU: 33})
    assert "below a-train together, expected at most 32" in told
    [told] = updated("a-train", deserved={GPU: 15})
    assert "found deserved of 16" in told


def test_what_is_below_a_queue_that_states_nothing_counts_as_the_queues_own() -> None:
    """Else a queue between would hide it."""
    tree = {**TREE, "a-mid": queue("a-mid", "a")}
    [told] = created(queue("a-mid-x", "a-mid", deserved={GPU: 17}), tree=tree)
    assert "of the queues below a together" in told


def test_amounts_of_a_flavor_count_in_the_sum_over_all() -> None:
    [told] = created(queue("a-new", "a", flavors=[{"name": "h100", "deserved": {GPU: 17}}]))
    assert "found deserved of 65 nvidia.com/gpu of the queues below a" in told
    other = queue("a-new", "a", flavors=[{"name": "a100", "deserved": {GPU: 1}}])
    [told] = created(other, tree=stating("a", flavors=[{"name": "h100"}]))
    assert "found deserved of 1 nvidia.com/gpu of flavor a100" in told
    # A smaller sum over all hides no flavor.
    [told, *_] = created(
        queue("a-new", "a", deserved={GPU: 1}, flavors=[{"name": "h100", "deserved": {GPU: 100}}])
    )
    assert "found deserved of 148" in told


def test_a_resource_that_the_tenant_does_not_state_is_not_its_to_deal_out() -> None:
    [told] = created(queue("a-new", "a", deserved={"cpu": 1}))
    assert "found deserved of 1 cpu of the queues below a together, expected at most 0" in told
    assert created(queue("b-new", "b"), BOB) == []


def test_guarantees_stay_within_the_guarantee_of_the_queue_above() -> None:
    assert created(queue("a-new", "a", deserved={GPU: 8}, guarantee={"resource": {GPU: 8}})) == []
    [told] = created(queue("a-new", "a", deserved={GPU: 9}, guarantee={"resource": {GPU: 9}}))
    assert "found guarantee of 9" in told
    found = created(queue("a-train-y", "a-train", guarantee={"resource": {GPU: 1}}))
    assert any("below a-train together, expected at most 0" in each for each in found)


def test_a_capability_stays_within_that_of_every_queue_above() -> None:
    assert created(queue("a-new", "a", capability={GPU: 96})) == []
    [told] = created(queue("a-train-y", "a-train", capability={GPU: 97}))
    assert (
        told == f"queue a-train-y: found a capability of 97 {GPU}, expected at most 96, the capability of a"
    )


def test_what_was_beyond_the_limit_already_may_become_less() -> None:
    tree = stating("a-infer", deserved={GPU: 100}, capability={GPU: 200})
    for less in ({"deserved": {GPU: 90}}, {"policy": {"paused": True}}):
        assert updated("a-infer", tree=tree, **less) == []
    for more in ({"deserved": {GPU: 101}}, {"capability": {GPU: 201}}):
        assert updated("a-infer", tree=tree, **more) != []


@with_rows("path", "spec")
def test_rules_about_work_of_other_tenants_are_the_platforms(path: str, spec: dict[str, Any]) -> None:
    for found in (created(queue("a-new", "a", **spec)), updated("a-infer", **spec)):
        assert len(found) == 1
        assert f"found another {path} than before" in found[0]


def test_rules_inside_the_queue_are_the_tenants_own() -> None:
    policy = {"order": "fifo", "paused": True, "maxPriority": 5, "preemption": {"withinQueue": "never"}}
    assert updated("a-infer", policy=policy, access={"maxPending": 5}) == []


def test_a_tenant_makes_no_tree_that_is_too_deep_and_a_deep_one_is_judged_at_once() -> None:
    deep = with_many(0, maxQueues=1000)
    names = ["a", *(f"a-{level}" for level in range(400))]
    for above, name in pairwise(names):
        deep[name] = queue(name, above)
    assert created(queue("a-new", names[MOST_LEVELS - 2]), tree=deep) == []
    [refusal] = created(queue("a-new", names[MOST_LEVELS - 1]), tree=deep)
    assert f"found {MOST_LEVELS} queues above it, expected fewer than {MOST_LEVELS}" in refusal

    last = deep[names[-1]]
    labelled = {**last, "metadata": {**last["metadata"], "labels": {"a": "b"}}}
    assert change_refusals(ObjectWrite(names[-1], last, labelled), ANN, deep) == []


def with_many(count: int, **tenant: Any) -> Tree:
    """Tenant a with so many queues more below a-infer."""
    queues = stating("a", access={**TREE["a"]["spec"]["access"], **tenant})
    return queues | {f"a-{number}": queue(f"a-{number}", "a-infer") for number in range(count)}


def test_a_tenant_has_so_many_queues_and_more_where_its_top_level_queue_says_so() -> None:
    own, new = 3, queue("a-new", "a-infer")
    most = QUEUES_OF_A_TENANT - own
    assert created(new, tree=with_many(most - 1)) == []
    [refusal] = created(new, tree=with_many(most))
    assert refusal == (
        f"queue a-new: found {QUEUES_OF_A_TENANT + 1} queues below a, expected at most {QUEUES_OF_A_TENANT}. Delete "
        "some that are not used, or ask a platform administrator to raise access.maxQueues of a"
    )
    assert created(new, tree=with_many(most, maxQueues=201)) == []
    [refusal] = created(new, tree=with_many(0, maxQueues=3))
    assert "found 4 queues below a, expected at most 3" in refusal


def test_a_queue_of_the_tenant_may_have_a_smaller_bound_for_those_below_it() -> None:
    bounded = stating("a-train", access={"maxQueues": 1})
    for refusals in (
        created(queue("n", "a-train"), tree=bounded),
        updated("a-infer", tree=bounded, parent="a-train"),
    ):
        [refusal] = refusals
        assert "found 2 queues below a-train, expected at most 1" in refusal


def test_too_many_queues_may_stay_be_changed_moved_and_become_fewer() -> None:
    queues = with_many(5, maxQueues=2)
    assert updated("a-0", tree=queues, weight=2) == []
    assert updated("a-0", tree=queues, parent="a-train") == []
    assert deleted("a-0", tree=queues) == []


def test_a_queue_that_others_name_as_parent_is_neither_deleted_nor_made(golden: Any) -> None:
    [told] = deleted("a-train")
    assert told == golden
    [told] = created(queue("gone", "a"))
    assert "orphan name it as parent" in told


def test_a_document_that_cannot_be_read_is_refused() -> None:
    [told] = updated("a-infer", weight="heavy")
    assert told.startswith("queue a-infer: ")


def test_nothing_is_administered_in_a_circle_of_parents() -> None:
    hers = {"admins": [{"user": "ann"}]}
    tree = {"x": queue("x", "y", access=hers), "y": queue("y", "x", access=hers)}
    [told] = created(queue("z", "x"), tree=tree)
    assert REFUSED in told


@pytest.mark.parametrize(
    "admins", [None, "ann", [None], ["ann"], [{"user": "ann", "group": "g"}], [{"user": None}]]
)
def test_admins_that_cannot_be_read_name_nobody(admins: Any) -> None:
    assert created(queue("z", "a"), tree={"a": queue("a", access={"admins": admins})})


def test_queues_of_the_tenant_are_closed_by_commands_and_others_are_not() -> None:
    assert command_refusals("a-train-x", ANN, TREE) == []
    for target in ("a", "b-one", "root", "nowhere", ""):
        assert command_refusals(target, ANN, TREE) != []


def test_a_status_is_refused_with_what_to_do() -> None:
    [told] = status_refusals("a-train", ANN)
    assert "`kubectl muster queue close a-train` closes" in told


# ── loans ──────────────────────────────────────────────────────────────────────────────────────────────────────


def loan(to: str, until: str = "2030-01-01T00:00:00Z") -> dict[str, Any]:
    return {"to": to, "resources": {GPU: 4}, "until": until}


def lending(
    name: str, by: Requester = ANN, *, to: str, before: tuple[Any, ...] = (), now: float = 0.0
) -> list[str]:
    tree = stating(name, loans=list(before))
    return updated(name, by, tree, now, loans=[loan(to)] if to else [])


def test_an_administrator_lends_between_queues_of_the_tenant() -> None:
    assert lending("a-train", to="a-infer") == []
    assert lending("a-train-x", to="a-infer") == []
    assert lending("a-infer", to="", before=(loan("a-train-x"),)) == []


@pytest.mark.parametrize(
    ("name", "to", "by"),
    [
        ("a-train", "b-one", ANN),
        ("a-train", "b", ANN),
        ("a-train", "a", ANN),
        ("a-train", "gone", ANN),
        ("a-train", "a-train", INNER),
        ("a-train-x", "a-infer", INNER),
    ],
)
def test_a_loan_that_reaches_beyond_what_somebody_administers_is_refused(
    name: str, to: str, by: Requester
) -> None:
    (refusal,) = lending(name, by, to=to)
    assert f"found a loan to {to} that is made" in refusal or "being neither" in refusal


def test_who_may_change_a_queue_may_not_end_a_loan_of_a_platform_administrator_before_its_time() -> None:
    before = (loan("b-one", "2026-11-27T12:00:00Z"),)
    (refusal,) = lending("a-infer", to="", before=before)
    assert "found a loan to b-one" in refusal
    assert lending("a-infer", to="a-train", before=before, now=1795780800.0) == []


def stored_with(*loans: dict[str, Any], **lender: Any) -> Tree:
    """The tree with these loans of a-infer, which deserves 16, to queues of any tenant."""
    return stating("a-infer", stating("b-one", deserved={GPU: 8}), loans=list(loans), **lender)


@with_rows("name", "spec", "left")
def test_a_platform_administrators_loan_is_not_ended_by_what_the_lender_states(
    name: str, spec: dict[str, Any], left: str
) -> None:
    tree = stating("a", stored_with(loan("b-one")), guarantee={"resource": {GPU: 16}})
    (refusal,) = updated(name, tree=tree, **spec)
    assert (
        f"the loan of 4 {GPU} from a-infer to b-one until 2030-01-01T00:00:00Z counts for {left}, expected 4"
        in refusal
    )
    assert updated(name, tree=tree, now=1895780800.0, **spec) == [], "it has ended"


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (2, 3)])
def test_a_platform_administrators_loan_is_not_repeated_by_a_tenants_administrator(
    before: int, after: int
) -> None:
    tree = stored_with(*[loan("b-one")] * before)
    found = updated("a-infer", tree=tree, loans=[loan("b-one")] * after)
    assert "found a loan to b-one that is made, changed or ended" in found[0]
    assert updated("a-infer", tree=tree) == []


def test_what_leaves_a_loan_as_it_is_may_be_changed() -> None:
    assert updated("a-infer", tree=stored_with(loan("b-one")), deserved={GPU: 4}) == []
    own = stored_with(loan("a-train"))
    assert updated("a-infer", tree=own, deserved={GPU: 0}) == [], "her own loan shrinks"


def test_neither_end_of_a_platform_administrators_loan_is_deleted_by_a_tenants_administrator() -> None:
    tree = stored_with(loan("b-one"))
    for name, by in (("a-infer", ANN), ("b-one", BOB)):
        (refusal,) = deleted(name, by, tree)
        assert "counts for 0, expected 4 as now" in refusal


def test_an_earlier_loan_does_not_take_what_a_platform_administrators_loan_has() -> None:
    tree = stored_with(loan("b-one"), deserved={GPU: 4})
    (refusal,) = updated("a-infer", tree=tree, loans=[loan("a-train"), loan("b-one")])
    assert "counts for 0, expected 4" in refusal


def test_a_queue_is_not_made_with_a_loan_to_another_tenant() -> None:
    (refusal,) = created(queue("a-new", "a", deserved={GPU: 8}, loans=[loan("b-one")]))
    assert "found a loan to b-one" in refusal
    assert created(queue("a-new", "a", deserved={GPU: 8}, loans=[loan("a-infer")])) == []


def test_a_queue_is_not_made_with_a_name_that_queues_of_others_lend_to() -> None:
    new = queue("a-new", "a", deserved={GPU: 0})
    (refusal,) = created(new, tree=stating("b-one", loans=[loan("a-new")]))
    assert "found a name that b-one lends to" in refusal
    # The same tenant lends to it: who makes it could have made the loan.
    assert created(new, tree=stating("a-infer", loans=[loan("a-new")])) == []


def test_a_queue_is_not_moved_while_it_or_one_below_it_lends_or_is_lent() -> None:
    tree = stating("a-infer", loans=[loan("a-train-x")])
    (refusal,) = updated("a-train-x", tree=tree, parent="a")
    assert "found a new spec.parent while a-infer lends to a-train-x" in refusal
    assert updated("a-train-x", tree=tree, now=1895780800.0, parent="a") == []

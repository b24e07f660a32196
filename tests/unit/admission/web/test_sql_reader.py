"""Rows of the SQL views become the documents that people read."""

from typing import Any

import pytest

from admission.web.overview import counted_by, of_those_together, policies, tree
from queues.admissions import Seat
from queues.api.names import SCHEDULING_VOLCANO
from queues.api.types.queue import QueueDocument
from queues.read_api import bodies
from queues.read_api.quantities import facts_with_quantities, ranges, seats_bodies
from queues.resources import Resources
from queues.sql.read.rows import AccountLine, QueueLine
from queues.text_format import names_alike
from queues.workload import (
    FlavorName,
    NodeName,
    QueueName,
)

GPU = "nvidia.com/gpu"


def line(
    name: str,
    parent: str | None = "root",
    *,
    paused: bool = False,
    closed: bool = False,
    broken: bool = False,
    pending: int = 0,
    policy: dict[str, Any] | None = None,
    access: dict[str, Any] | None = None,
    accounts: tuple[AccountLine, ...] = (),
) -> QueueLine:
    document = {"spec": {"parent": parent, "policy": policy or {}, "access": access or {}}}
    stated = {"apiVersion": SCHEDULING_VOLCANO, "kind": "Queue", "metadata": {"name": name}, **document}
    return QueueLine(
        name=QueueName(name),
        parent=None if parent is None else QueueName(parent),
        served=QueueDocument.read(stated).to_domain(),
        paused=paused,
        closed=closed,
        broken=broken,
        changed_by="",
        document=document,
        accounts=accounts,
        pending=pending,
    )


def told(*lines: QueueLine) -> dict[str, bodies.QueueBody]:
    return {queue.name: queue for queue in tree(lines, served=policies(lines))}


def used_of(used: int, deserved: int | None, capability: int | None = None) -> tuple[AccountLine, ...]:
    return (
        AccountLine(
            flavor="", resource=GPU, used=used, counted=used, deserved=deserved, capability=capability
        ),
    )


def test_a_queue_says_whether_it_has_its_share_and_what_reclaim_and_its_capability_say_of_it() -> None:
    never = {"preemption": {"reclaim": "never"}}
    found = told(
        line("root", None, accounts=used_of(20000, None, 20000)),
        line("above", accounts=used_of(9000, 8000, 12000)),
        line("even", accounts=used_of(8000, 8000)),
        line("idle", accounts=used_of(1000, 8000)),
        line("waits", pending=1, accounts=used_of(1000, 8000)),
        line("never", pending=1, accounts=used_of(1000, 8000), policy=never),
    )

    assert {name: queue.accounts[0].standing for name, queue in found.items()} == {
        "root": "at its capability",
        "above": "1 above its share, which others may take back",
        "even": "has its share",
        "idle": "7 below its share; nothing waits",
        "waits": "7 below its share; it may take back 1 that others borrow",
        "never": "7 below its share; it takes nothing back (reclaim: never)",
    }


def test_of_an_elastic_workload_limits_are_asked_for_what_starts_together() -> None:
    assert of_those_together({GPU: "200"}, 1, 200) == {GPU: "1"}
    assert of_those_together({GPU: "8", "cpu": "100"}, 3, 4) == {GPU: "6", "cpu": "75"}
    assert of_those_together({GPU: "8"}, 4, 4) == {GPU: "8"}


SPENT = bodies.BudgetBody(
    when_spent="hold",
    begins="",
    ends="",
    resources=(bodies.BudgetLineBody(resource=GPU, hours="1", used="2", percent=200),),
)


@pytest.mark.parametrize(
    ("team", "others", "said"),
    [
        ({}, [line("b", accounts=used_of(5000, 40000))], "nobody borrows: the queues deserve 48 of 20"),
        ({}, [line("b", accounts=used_of(5000, 8000))], "nobody borrows"),
        ({}, [line("b", accounts=used_of(5000, None))], "it may take back 5 that others borrow"),
        ({}, [line("b", accounts=used_of(50000, 8000))], "it may take back 7 that others borrow"),
        ({"paused": True}, [], "nothing new is admitted: paused"),
        ({"parent": "a", "pending": 0}, [line("a", closed=True), line("idle", "a")], "nothing waits"),
        ({"parent": "a"}, [line("a", closed=True)], "nothing new is admitted: closed above it"),
        (
            {"pending": 0},
            [line("x", "team", pending=2, paused=True), line("spent", "team", pending=1)],
            "nothing new is admitted: budget spent or paused in all that waits",
        ),
        ({}, [line("x", "team", pending=2, paused=True)], "nobody borrows"),
        (
            {"parent": "a"},
            [line("a", accounts=used_of(8000, 8000)), line("b", accounts=used_of(9000, 8000))],
            "nobody borrows",
        ),
        (
            {"parent": "a"},
            [line("a", accounts=used_of(3000, 8000, 3000)), line("b", accounts=used_of(9000, 8000))],
            "a queue above it is at its capability",
        ),
    ],
)
def test_a_queue_below_its_share_says_what_can_really_happen(
    team: dict[str, Any], others: list[QueueLine], said: str
) -> None:
    root = line("root", None, accounts=used_of(20000, None, 20000))
    own = line("team", **{"pending": 1, "accounts": used_of(1000, 8000), **team})
    lines = [root, own, *others]
    found = tree(lines, budgets={QueueName("spent"): SPENT}, served=policies(lines))
    (standing,) = [queue.accounts[0].standing for queue in found if queue.name == "team"]
    assert standing == f"7 below its share; {said}"


def test_a_queue_has_the_policies_that_serve_it_and_those_who_administer_it_also_from_above() -> None:
    found = told(
        line("root", None),
        line("a", policy={"preemption": {"reclaim": "never"}}, access={"admins": [{"group": "leads"}]}),
        line("a1", "a", policy={"maxEvictions": 2}, access={"admins": [{"user": "ann"}]}),
        line("x", "y", broken=True),
    )

    policy = found["a1"].policy
    assert policy is not None
    assert (policy.reclaim, policy.within_queue, policy.max_evictions) == ("never", "lower-priority", 2)
    assert policy.admins == ("user ann", "group leads")
    assert found["x"].policy is None


def test_parents_come_before_children_and_siblings_by_name() -> None:
    found = tree([line("b"), line("a2", "a"), line("root", None), line("a"), line("a1", "a")])

    assert [queue.name for queue in found] == ["root", "a", "a1", "a2", "b"]


def test_counts_are_those_of_the_subtree() -> None:
    found = told(line("root", None), line("a", pending=1), line("a1", "a", pending=2), line("b", pending=4))

    assert {name: queue.pending for name, queue in found.items()} == {"root": 7, "a": 3, "a1": 2, "b": 4}


def test_a_queue_below_a_paused_one_says_by_way_of_which() -> None:
    found = told(line("root", None), line("a", paused=True), line("a1", "a"), line("a11", "a1"), line("b"))

    assert {name: (queue.state, queue.message) for name, queue in found.items()} == {
        "root": ("open", ""),
        "a": ("paused", ""),
        "a1": ("paused", "by way of a"),
        "a11": ("paused", "by way of a"),
        "b": ("open", ""),
    }


def test_a_queue_is_open_to_every_namespace_if_nothing_on_its_path_selects() -> None:
    selects = {"namespaceSelector": {}}
    found = told(
        line("root", None, access=selects),
        line("a"),
        line("a1", "a", access=selects),
        line("a2", "a1"),
        line("b", "c", broken=True),
    )
    assert [name for name, queue in found.items() if queue.open_to_all] == ["root", "a"]


def test_a_queue_that_is_closed_and_paused_says_both() -> None:
    found = told(line("root", None), line("a", paused=True), line("a1", "a", closed=True), line("b"))

    assert {name: (queue.state, queue.paused) for name, queue in found.items()} == {
        "root": ("open", False),
        "a": ("paused", True),
        "a1": ("closed", True),
        "b": ("open", False),
    }
    assert found["a1"].message == "takes and admits nothing new; paused too, by way of a"


def test_queues_of_a_cycle_are_shown_as_broken_and_counted_nowhere_else() -> None:
    found = told(
        line("root", None), line("x", "y", broken=True, pending=1), line("y", "x", broken=True, pending=1)
    )

    assert {name: (queue.state, queue.pending) for name, queue in found.items()} == {
        "root": ("open", 0),
        "x": ("broken", 1),
        "y": ("broken", 1),
    }


def test_amounts_are_quantities_and_the_share_is_used_over_deserved() -> None:
    (queue,) = tree(
        [
            line(
                "root",
                None,
                accounts=(
                    AccountLine(flavor="", resource=GPU, deserved=16000, used=4000, counted=6000),
                    AccountLine(flavor="", resource="memory", capability=2**40, used=2**30),
                ),
            )
        ]
    )

    memory, gpus = queue.accounts
    assert (memory.used, memory.capability, memory.deserved, memory.share) == ("1Gi", "1Ti", None, None)
    assert (gpus.used, gpus.counted, gpus.deserved, gpus.share) == ("4", "6", "16", 0.25)
    assert queue.share == 0.25


def test_seats_are_gathered_by_node() -> None:
    def seat(ordinal: int, node: str) -> Seat:
        return Seat(
            pod_set="w",
            ordinal=ordinal,
            node=NodeName(node),
            flavor=FlavorName("h100"),
            takes=Resources({GPU: 8000, "pods": 1}),
        )

    held = [seat(0, "n1"), seat(1, "n2"), seat(2, "n1"), seat(3, "n1")]
    assert [(seats.node, seats.ordinals, seats.count, seats.takes) for seats in seats_bodies(held)] == [
        ("n1", "0,2-3", 3, {GPU: "24", "pods": "3"}),
        ("n2", "1", 1, {GPU: "8", "pods": "1"}),
    ]


def test_it_is_told_what_places_are_counted_by(golden: Any) -> None:
    policies_of: dict[str, dict[str, Any]] = {
        "plain": {},
        "aged": {"ageingPerHour": 10},
        "never-cleared": {"starvation": {"clearAfter": "48h"}},
        "fifo": {"order": "strict-fifo"},
        "shortest": {"order": "shortest"},
        "turns": {"order": "round-robin"},
        "fading": {"usageHalfLife": "168h"},
    }
    tree = policies([line(name, policy=policy) for name, policy in policies_of.items()])

    assert [counted_by(tree, QueueName(name)) for name in (*policies_of, "unknown")] == golden


def test_ranges_of_ordinals_are_short() -> None:
    assert [ranges([]), ranges([3]), ranges([2, 0, 1, 7, 9, 8])] == ["", "3", "0-2,7-9"]


def test_numbers_of_a_reason_are_amounts_as_people_write_them() -> None:
    assert facts_with_quantities(
        {"resource": GPU, "limit": 32000, "asked": 8000, "fit": 3, "takes": {"memory": 2**30}}
    ) == {
        "resource": GPU,
        "limit": "32",
        "asked": "8",
        "fit": 3,
        "takes": {"memory": "1Gi"},
    }


def test_names_that_look_alike_are_found_whatever_their_first_letter() -> None:
    known = [*(f"team-{number:03}" for number in range(500)), "vision", "language"]
    assert names_alike("visoin", known) == ("vision",)
    assert names_alike("ision", ["vision", "language"]) == ("vision",)
    assert names_alike("robotics", known) == ()

"""However much nodes say they have, pods ask for and quotas state: sums do not wrap, and nobody else is stopped."""

from typing import Any

import pytest

from admission.decode.pod_templates import pod_set_of
from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.table import Node, NodeTable
from admission.engine.snapshot import Snapshot
from queues.admissions import Seat
from queues.api.reading.pod_requests import requests_of
from queues.api.reading.user_values import MOST_PODS
from queues.api.types.pod import read_pod
from queues.api.validation.pod_rules import pod_violations
from queues.errors import QuantityTooLarge
from queues.plan import Plan
from queues.quota.queue import Limits, Queue
from queues.resources import (
    BEYOND_NODES,
    GPU,
    MEMORY,
    MOST,
    MOST_ON_NODE,
    Resources,
    amount,
    capacity,
    request,
    show,
)
from queues.workload import NodeName, PodSet, QueueName, Workload
from tests.builders.decided_work import a_workload, an_admission
from tests.tables import with_rows

TEBI = 2**40
Q = QueueName("q")


def nodes(count: int, memory: str = "1Ei") -> NodeTable:
    offers = Resources({MEMORY: capacity(MEMORY, memory), GPU: capacity(GPU, 8), "pods": 110})
    return NodeTable.build(
        Node(name=NodeName(f"n{number:05}"), allocatable=offers) for number in range(count)
    )


def workload(name: str, count: int, takes: Resources, queue: QueueName = Q, **more: Any) -> Workload:
    return a_workload(
        name,
        PodSet(name="main", count=count, takes=takes + Resources({"pods": 1})),
        queue=queue,
        arrival=len(name),
        generation="1",
        **more,
    )


def plan_of(table: NodeTable, *waiting: Workload, **more: Any) -> Plan:
    given: dict[str, Any] = {"queues": {Q: Queue(name=Q)}, "admissions": {}} | more
    return decide(
        Snapshot(now=100, nodes=table, pending={each.key: each for each in waiting}, **given), Memo()
    )[0]


def spec(*memory: str, **more: Any) -> dict[str, Any]:
    containers = [
        {"name": f"c{index}", "image": "x", "resources": {"requests": {"memory": text}}}
        for index, text in enumerate(memory)
    ]
    return {"containers": containers, **more}


def asked(spec: dict[str, Any]) -> int:
    return requests_of(read_pod({"spec": spec}).spec)[MEMORY]


@with_rows("text", "offered", "asked")
def test_what_is_beyond_any_machine_counts_as_a_little_more_than_any_node_has(
    text: str, offered: int, asked: int
) -> None:
    assert (capacity(MEMORY, text), request(MEMORY, text)) == (offered, asked)


def test_sums_over_ten_thousand_nodes_of_any_size_do_not_wrap() -> None:
    assert nodes(10_000).capacity()[MEMORY] == 10_000 * MOST_ON_NODE
    plan = plan_of(nodes(10_000), workload("whole", 10_000, Resources({MEMORY: MOST_ON_NODE})))
    assert len(plan.admits[0].seats) == 10_000


def test_a_pod_that_asks_for_more_than_a_node_counts_as_having_waits_and_others_do_not() -> None:
    plan = plan_of(
        nodes(20),
        workload("huge", 3, Resources({MEMORY: asked(spec(*["7Ei"] * 9))})),
        workload("many", MOST_PODS, Resources({MEMORY: asked(spec("1Ei"))})),
        workload("fine", 20, Resources({MEMORY: 500 * TEBI})),
    )

    assert [admit.workload.uid for admit in plan.admits] == ["fine"]
    told = {key.uid: reason.message for key, reason in plan.reasons.items()}
    assert "1Pi memory" in told["huge"]
    assert set(told) == {"huge", "many"}


@pytest.mark.parametrize(("resource", "reason"), [(MEMORY, "MakingRoom"), (GPU, "NeverFits")])
def test_guarantees_beyond_all_reason_stop_nobody_else(resource: str, reason: str) -> None:
    """What nobody can keep free stands in the way of those who ask for that, not of others."""
    asking, borrower = QueueName("asking"), QueueName("borrower")
    kept = [QueueName(f"q{number}") for number in range(20)]
    queues = {name: Queue(name=name, limits=Limits(deserved={GPU: 8000})) for name in (asking, borrower)}
    queues |= {name: Queue(name=name, limits=Limits(guarantee=Resources({resource: MOST}))) for name in kept}
    takes = Resources({GPU: 4000, MEMORY: TEBI})
    old = [workload(f"old-{number}", 1, takes, borrower) for number in range(4)]
    held = [
        an_admission(
            number + 1,
            each,
            Seat(
                pod_set="main", ordinal=0, node=NodeName(f"n0000{number // 2}"), takes=each.pod_sets[0].takes
            ),
            namespace="team",
            queue=borrower,
            priority=0,
            opened_at=1,
            generation="1",
        )
        for number, each in enumerate(old)
    ]
    table = nodes(2).with_used(
        {NodeName(f"n0000{number}"): old[0].pod_sets[0].takes * 2 for number in range(2)}
    )

    plan = plan_of(
        table,
        workload("mine", 1, Resources({GPU: 4000}), asking),
        queues=queues,
        admissions={each.id: each for each in held},
        holders={each.key: each for each in old},
    )

    assert [told.code for told in plan.reasons.values()] == [reason]


def test_containers_of_one_pod_add_up_to_no_more_than_is_counted() -> None:
    assert asked(spec(*["1Ei"] * 100)) == BEYOND_NODES
    assert asked(spec("300Ti", "300Ti", overhead={"memory": "1"})) == 600 * TEBI + 1


def test_a_pod_no_node_could_hold_is_refused_in_clear_words(golden: Any) -> None:
    assert [each.message for each in pod_violations(spec("300Ti", "300Ti"), "spec", "ns")] == [
        "spec: found 600Ti memory, expected at most 512Ti: no node counts as having more"
    ]
    (told,) = pod_violations(spec("1Ei", "1Ei"), "spec", "ns")
    assert told.message == golden
    assert next(each.message for each in pod_violations(spec("2Ei"), "spec", "ns")) == (
        "spec.containers[0].resources.requests.memory: found '2Ei', expected at most 1Ei"
    )
    assert list(pod_violations(spec("256Ti", "256Ti"), "spec", "ns")) == []


def test_a_template_that_is_in_the_cluster_already_says_the_same() -> None:
    template = b'{"spec":{"containers":[{"name":"c","resources":{"requests":{"memory":"1Ei"}}}]}}'

    obstacle = pod_set_of("main", 1, template, "spec.template", "ns").obstacle

    assert obstacle == (
        "InvalidSpec",
        "spec.template.spec: found 1Pi memory or more, expected at most 512Ti: no node counts as having more",
    )


def test_a_quota_that_is_too_large_says_so() -> None:
    with pytest.raises(
        QuantityTooLarge, match=r"'2Ei' is more than is counted\. Expected at most 1Ei of memory\."
    ):
        amount(MEMORY, "2Ei")
    assert show(MEMORY, MOST) == "1Ei"

"""A gang whose minimum is raised while it runs: what joins it later does not count as its minimum."""

from dataclasses import replace

import pytest

from admission.engine.nodes.table import Node, NodeTable
from admission.engine.snapshot import Snapshot
from queues.quota.queue import Limits, Queue
from queues.resources import GPU, Resources
from queues.workload import NodeName, PodSet, Workload
from tests.laws.laws.elastic_parts import BORROWER, GANG, LENDER, ONE, plan_of
from tests.laws.worlds.plan_effects import apply


def gang(pods: int, minimum: int) -> Workload:
    return Workload(
        key=GANG,
        namespace="team",
        name="gang",
        queue=BORROWER,
        arrival=1,
        minimum=minimum,
        pod_sets=(PodSet(name="workers", count=pods, takes=ONE),),
    )


@pytest.mark.parametrize(("then", "minimum"), [(8, 2), (6, 2), (2, 2), (1, 1)])
def test_what_joins_a_gang_has_the_minimum_that_it_was_admitted_with(then: int, minimum: int) -> None:
    queues = {name: Queue(name=name, limits=Limits(deserved={})) for name in (LENDER, BORROWER)}
    node = Node(name=NodeName("n0"), allocatable=Resources({GPU: 8000, "pods": 110}))
    empty = Snapshot(
        now=1000, queues=queues, nodes=NodeTable.build([node]), pending={GANG: gang(5, 2)}, admissions={}
    )
    running = apply(empty, plan_of(empty))
    assert {each.minimum for each in running.admissions.values()} == {2}

    larger = gang(8, then)
    plan = plan_of(replace(running, pending={GANG: larger}, holders={GANG: larger}))

    assert sum(len(each.seats) for each in plan.admits) == 3
    assert {each.minimum for each in plan.admits} == {minimum}

"""A gang whose minimum is raised while it runs: what joins it later does not count as its minimum."""

from dataclasses import replace

import pytest

from queues.quota.queue import Limits, Queue
from queues.workload import Workload
from tests.builders.decided_work import a_snapshot, a_workload, gpu_node, gpu_pods, plan_of
from tests.laws.laws.elastic_parts import BORROWER, GANG, LENDER
from tests.laws.worlds.plan_effects import apply


def gang(pods: int, minimum: int) -> Workload:
    return a_workload(GANG.uid, gpu_pods(pods), kind=GANG.kind, queue=BORROWER, minimum=minimum)


@pytest.mark.parametrize(("then", "minimum"), [(8, 2), (6, 2), (2, 2), (1, 1)])
def test_what_joins_a_gang_has_the_minimum_that_it_was_admitted_with(then: int, minimum: int) -> None:
    queues = [Queue(name=name, limits=Limits(deserved={})) for name in (LENDER, BORROWER)]
    empty = a_snapshot(gang(5, 2), queues=queues, nodes=[gpu_node("n0")], now=1000)
    running = apply(empty, plan_of(empty))
    assert {each.minimum for each in running.admissions.values()} == {2}

    larger = gang(8, then)
    plan = plan_of(replace(running, pending={GANG: larger}, holders={GANG: larger}))

    assert sum(len(each.seats) for each in plan.admits) == 3
    assert {each.minimum for each in plan.admits} == {minimum}

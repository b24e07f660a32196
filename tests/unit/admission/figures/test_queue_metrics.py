"""Metrics with many series: what they say, and what they cost."""

from dataclasses import replace
from functools import partial

from prometheus_client.parser import text_string_to_metric_families

from admission.engine.memo import QueueBooks, tree_of
from admission.engine.snapshot import Snapshot
from admission.figures.gang_waits import GangWait
from admission.figures.queue_metrics import WideMetrics
from queues.quota.accounts import Account
from queues.quota.budgets import BudgetUse, HoursBudget, HoursUsed, Period
from queues.quota.queue import ROOT, Limits, Queue
from queues.quota.tree import QueueTree
from queues.reason_codes import ReasonCode
from queues.resources import CPU, GPU, MEMORY, PODS, Resources
from queues.workload import NO_FLAVOR, FlavorName, QueueName
from tests.function_calls import calls_of
from tests.unit.admission.figures.test_cluster_figures import GPUS, A, gang, world

B = QueueName("b")
H100 = Account(FlavorName("h100"), GPU)


def samples(text: str) -> dict[str, float]:
    return {
        sample.name + "".join(f",{name}={text}" for name, text in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def state(snapshot: Snapshot, **amounts: object) -> QueueBooks:
    return QueueBooks(tree=tree_of(snapshot.queues, snapshot.nodes), **amounts)  # type: ignore[arg-type]


def wide(snapshot: Snapshot | None) -> WideMetrics:
    return WideMetrics(lambda: float(world().now), lambda: snapshot)


def test_amounts_are_in_cores_devices_and_bytes() -> None:
    snapshot = world()
    metrics = wide(snapshot)
    used = {(A, H100): 12_000, (A, Account(NO_FLAVOR, MEMORY)): 2**30, (A, Account(NO_FLAVOR, CPU)): 1500}
    metrics.note(state(snapshot, used=used, deserved={(A, H100): 8000}, past_use={(A, H100): 9250}), ())
    found = samples(metrics.text())
    assert found["muster_queue_used,flavor=h100,queue=a,resource=nvidia.com/gpu"] == 12
    assert found["muster_queue_used,flavor=,queue=a,resource=memory"] == 2**30
    assert found["muster_queue_used,flavor=,queue=a,resource=cpu"] == 1.5
    assert found["muster_queue_past_use,flavor=h100,queue=a,resource=nvidia.com/gpu"] == 9.25
    assert found["muster_queue_borrowed,flavor=h100,queue=a,resource=nvidia.com/gpu"] == 4
    assert found["muster_queue_share_ratio,queue=a"] == 1.5


def test_a_reason_or_a_queue_that_is_gone_leaves_no_series_behind() -> None:
    snapshot = world()
    metrics = wide(snapshot)
    pending = {(A, ReasonCode.NO_FIT): 3, (B, ReasonCode.QUEUE_LIMIT): 1}
    metrics.note(state(snapshot, pending=pending), [GangWait(B, 1, 1.0)])
    metrics.note(state(snapshot, pending={(A, ReasonCode.NO_FIT): 2}), ())
    found = samples(metrics.text())
    assert found["muster_workloads_pending,queue=a,reason=NoFit"] == 2
    assert not [name for name in found if "queue=b" in name]


def test_of_nodes_and_waits_the_last_turn_is_told() -> None:
    snapshot = world(gang(61))
    metrics = wide(snapshot)
    metrics.note(state(snapshot), [GangWait(A, 8, 20.0)])
    found = samples(metrics.text())
    assert found["muster_devices_free,resource=nvidia.com/gpu"] == 8
    assert found["muster_largest_gang_pods,level=rack,pods=device,resource=nvidia.com/gpu"] == 7
    assert found["muster_gangs_starving,queue=a"] == 1
    assert found["muster_gang_wait_seconds_count,queue=a,size=8"] == 1
    assert found["muster_devices_fragmented"] == 0


def test_use_of_a_budget_is_that_of_the_moment_at_which_it_is_asked_for() -> None:
    budget = HoursBudget(hours={GPU: 1000})
    snapshot = world()
    queues = {name: replace(each, budget=budget) for name, each in snapshot.queues.items()}
    snapshot = replace(snapshot, queues=queues)
    hours = {A: {GPU: HoursUsed(900_000, 1000, snapshot.now - 900)}}
    use = BudgetUse(Period(0, 2 * snapshot.now), hours)
    metrics = WideMetrics(lambda: float(snapshot.now), lambda: snapshot, lambda: use)
    metrics.note(state(snapshot), ())
    assert samples(metrics.text())["muster_queue_budget_used_ratio,queue=a,resource=nvidia.com/gpu"] == 0.5


def test_a_replica_that_lost_the_lead_keeps_its_counters_only() -> None:
    clock = [0.0]
    snapshot = world()
    metrics = WideMetrics(lambda: clock[0], lambda: snapshot)
    metrics.note(state(snapshot, used={(A, GPUS): 4000}, deserved={(A, GPUS): 4000}), [GangWait(A, 4, 1.0)])
    clock[0] = 10.0
    metrics.lead_ends()
    clock[0] = 100.0
    found = samples(metrics.text())
    assert found["muster_queue_device_seconds_total,kind=owned,queue=a,resource=nvidia.com/gpu"] == 40
    assert found["muster_gang_wait_seconds_count,queue=a,size=2-7"] == 1
    assert not [name for name in found if "used" in name and "device_seconds" not in name]


def many_queues(count: int) -> tuple[WideMetrics, QueueBooks]:
    accounts = [Account(NO_FLAVOR, name) for name in (GPU, CPU, MEMORY, PODS, "amd.com/gpu")]
    names = [QueueName(f"team-{number // 10}-queue-{number}") for number in range(count)]
    limits = Limits(
        guarantee=Resources({GPU: 1000}), deserved={GPU: 4000}, capability={GPU: 8000, CPU: 10**6}
    )
    queues = {name: Queue(name=name, parent=ROOT, limits=limits) for name in names}
    capacity = Resources({account.resource: 10**9 for account in accounts})
    tree = QueueTree.build(queues, capacity)
    used = {(name, account): 4000 + 7 * number for number, name in enumerate(names) for account in accounts}
    deserved = {(name, account): tree.deserved(name, account) for name in tree.paths for account in accounts}
    pending = {(name, code): 3 for name in names for code in (ReasonCode.NO_FIT, ReasonCode.QUEUE_LIMIT)}
    clock = iter(range(0, 10**6, 15))
    metrics = WideMetrics(lambda: float(next(clock)), lambda: replace(world(), queues=queues))
    waits = [GangWait(name, devices, 100.0) for name in names for devices in (1, 8, 64)]
    queue_state = QueueBooks(tree=tree, used=used, deserved=deserved, pending=pending)
    metrics.note(queue_state, waits)
    return metrics, queue_state


def test_a_scrape_of_a_thousand_queues_takes_few_calls_for_each_line() -> None:
    """Three calls, each with its return: some tens of milliseconds in all."""
    metrics, queue_state = many_queues(1000)
    metrics.note(queue_state, ())
    text = metrics.text()
    assert text.count("\n") > 40_000
    metrics.note(queue_state, ())
    assert calls_of(metrics.text) < 7 * text.count("\n")


def test_a_turn_that_is_noted_costs_the_same_for_many_queues() -> None:
    costs = []
    for count in (10, 1000):
        metrics, queue_state = many_queues(count)
        costs.append(calls_of(partial(metrics.note, queue_state, ())))
    assert costs[0] == costs[1]

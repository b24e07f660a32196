"""What is shown is what the catalogue says, and so what the page of reference says: names, types, labels and help."""

from dataclasses import dataclass, replace

from prometheus_client.parser import text_string_to_metric_families

from admission.agent.device_watch import Seen
from admission.agent.metrics import AgentMetrics, NodeObservation
from admission.engine.memo import QueueBooks, tree_of
from admission.figures.catalogue import AGENT, CONTROLLER, Metric
from admission.figures.gang_waits import GangWait
from admission.kube.watch.informers import InformerState
from admission.kube.webhook.validity import Validity
from admission.metrics import LeaderFigures, Metrics, ProcessFigures
from admission.turn_report import EvictionCost, Stage, TurnReport
from admission.world.nodes import NodeHealth
from queues.quota.budgets import BudgetUse, HoursBudget, Period
from queues.quota.queue import ROOT, Limits, Queue
from queues.reason_codes import ReasonCode
from queues.resources import GPU, Resources
from queues.workload import QueueName
from tests.fakes.stepped_agent import reading
from tests.unit.admission.figures.test_cluster_figures import GPUS, A, gang, world


@dataclass(frozen=True, slots=True)
class Shown:
    kind: str
    labels: tuple[str, ...]
    help: str


def described(metrics: tuple[Metric, ...]) -> dict[str, Shown]:
    return {
        metric.name: Shown(metric.kind.value, tuple(sorted(metric.labels)), metric.help.rstrip("."))
        for metric in metrics
    }


def everything() -> Metrics:
    """Metrics of a leader of which none is without a series."""
    lender, borrower = QueueName("lender"), QueueName("borrower")
    guaranteed = Limits(guarantee=Resources({GPU: 1000}), deserved={GPU: 4000})
    queues = {
        **world().queues,
        lender: Queue(name=lender, parent=ROOT, limits=guaranteed),
        borrower: Queue(
            name=borrower,
            parent=ROOT,
            limits=Limits(deserved={GPU: 2000}),
            budget=HoursBudget(hours={GPU: 1000}),
        ),
    }
    snapshot = replace(world(gang(61)), queues=queues)
    tree = tree_of(snapshot.queues, snapshot.nodes)
    metrics = Metrics(
        process=ProcessFigures(
            answers=lambda: {("PATCH", "pods", 409): 1},
            retries=lambda: {"pods": 1},
            serving=lambda: {"read": True},
            certificates=lambda: {("read", "serving"): Validity(begins=1.0, ends=2.0)},
            snapshot=lambda: snapshot,
            budgets=lambda: BudgetUse(Period(0, 1), {borrower: {}}),
        ),
        leader=lambda: LeaderFigures(
            informers={"pods": InformerState(silent_seconds=1, lists=1, objects=1)},
            retention_lag={"postings": 0.0},
            silent_checks={"data": [1]},
            node_health=NodeHealth(nodes=1, faults={"XidFault": 1}, closed={"failed": 1}),
        ),
    )
    metrics.leads(1)
    metrics.observe(
        TurnReport(
            now=0,
            decide_seconds=0.1,
            books=QueueBooks(
                tree=tree,
                used={(ROOT, GPUS): 4000, (borrower, GPUS): 4000},
                deserved={(name, GPUS): tree.deserved(name, GPUS) for name in tree.paths},
                past_use={(A, GPUS): 1},
                pending={(A, ReasonCode.NO_FIT): 1},
            ),
            evictions={ReasonCode.GPU_UNHEALTHY: EvictionCost(1, 1)},
            waits=[GangWait(A, 1, 1.0)],
            stages={stage: [1.0] for stage in Stage},
        )
    )
    metrics.ended(ValueError())
    metrics.observe_dry_run("accepted", 0.1)
    metrics.observe_transaction("committed", 0.1)
    return metrics


def test_a_replica_shows_what_the_catalogue_has_and_nothing_else() -> None:
    shown, empty = {}, []
    for family in text_string_to_metric_families(everything().text().decode()):
        if family.name.endswith("_created"):
            continue
        name = family.name + ("_total" if family.type == "counter" else "")
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        shown[name] = Shown(family.type, tuple(sorted(labels)), family.documentation.rstrip("."))
        if not family.samples:
            empty.append(name)
    expected = described(CONTROLLER)
    assert empty == []
    assert shown == expected


def test_an_agent_shows_what_its_catalogue_has_and_nothing_else() -> None:
    metrics, found = AgentMetrics(), reading(2)
    seen = Seen(vendor="nvidia", reading=found, number=1, silent=0.0, took=0.1)
    metrics.observe(NodeObservation(seen=[seen], readings=[found], ticks=1.0))
    shown = {
        family.name + ("_total" if family.type == "counter" else ""): Shown(
            family.type,
            tuple(sorted(family._labelnames)),
            family.documentation.rstrip("."),  # type: ignore[attr-defined]
        )
        for family in metrics.collect()
    }
    assert shown == described(AGENT)


def test_each_metric_has_one_name_a_sentence_and_a_bound() -> None:
    metrics = (*CONTROLLER, *AGENT)
    assert len({metric.name for metric in metrics}) == len(metrics)
    for metric in metrics:
        assert metric.series, metric.name
        assert "\n" not in metric.help, metric.name
        assert "\\" not in metric.help, metric.name
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name

"""Each query of each dashboard has data: a real Prometheus scrapes a running Muster and an agent under a small load."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.local.processes import free_port
from deploy.local.stack import Replica
from tests.e2e.devices.gpu_agents import GpuNode
from tests.e2e.monitoring.conftest import address
from tests.e2e.monitoring.prometheus_server import PrometheusServer
from tests.e2e.support.crash_harness import CrashHarness
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import volcano_job
from tests.e2e.support.sandbox import Sandbox
from tests.prometheus.dashboards import queries, replaced
from tests.waiting import until

#: Queries that have series only after a fault that is not caused here; what they ask for is tried in unit tests.
NEEDS_A_FAULT = {
    'sum by (resource) (rate(muster_api_retries_total{cluster=~"$cluster"}[$__rate_interval]))': "a busy API server",
    'sum by (error) (increase(muster_terms_ended_total{cluster=~"$cluster"}[10m]))': "a term that an error ends",
}
GPU = "nvidia.com/gpu"
#: NVML's bit for a device that is slowed down to keep its power limit.
POWER_CAP = 4


class Queries:
    """The queries that have not had data yet."""

    def __init__(self, prometheus: PrometheusServer, *queues: str) -> None:
        """``queues``: those that a user may choose; one of them must have data."""
        self._prometheus = prometheus
        self._queues = queues
        self.missing = {query.expr: f"{query.dashboard}: {query.panel}" for query in queries()}

    def look(self) -> None:
        """Ask each of them once more."""
        for expr in list(self.missing):
            asked = {
                replaced(expr, {"cluster": ".*", "queue": queue, "resource": ".*"}) for queue in self._queues
            }
            series = [each for query in asked for each in self._prometheus.query(query)]
            if any(not math.isnan(float(each["value"][1])) for each in series):
                del self.missing[expr]

    def have(self, *metrics: str) -> Callable[[], bool]:
        """Whether all queries about these metrics have had data."""

        def holds() -> bool:
            self.look()
            return not any(metric in expr for expr in self.missing for metric in metrics)

        return holds


def two_after_one_another(sandbox: Sandbox, prometheus: PrometheusServer) -> None:
    """A rate begins with the second gang of a queue and size: Prometheus has to see the first one alone."""
    sandbox.add(volcano_job(sandbox, "first", 1))
    sandbox.wait_running("first-", 1)
    seen = f'muster_gang_wait_seconds_count{{queue="{sandbox.queues[0]}",size="1"}}'
    until(lambda: bool(prometheus.query(seen)), "Prometheus to see the first gang")
    sandbox.add(volcano_job(sandbox, "second", 1))
    sandbox.wait_running("second-", 1)


def borrows_and_waits(sandbox: Sandbox) -> None:
    """A queue uses more than it deserves, and has a gang that is too large."""
    spec = {"deserved": {GPU: 8}, "guarantee": {"resource": {GPU: 4}}, "capability": {GPU: 24}}
    sandbox.merge("Queue", sandbox.queues[0], {"spec": spec})
    sandbox.add(volcano_job(sandbox, "borrows", 2, 8))
    sandbox.wait_running("borrows-", 2)
    sandbox.add(volcano_job(sandbox, "waits", 2, 8))
    sandbox.wait(lambda: sandbox.reason("waits")[0] != "", "the second gang to wait")


def is_reclaimed(sandbox: Sandbox, lender: str) -> None:
    """The lender gets back what it deserves: what borrows is evicted."""
    gang = volcano_job(sandbox, "returns", 2, 8)
    gang["spec"]["queue"] = lender
    sandbox.add(gang)
    sandbox.wait_running("returns-", 2)


@pytest.mark.long
def test_every_query_of_every_dashboard_has_data(
    harness: CrashHarness, prometheus: PrometheusServer, muster: Replica, tmp_path: Path
) -> None:
    with harness.sandbox("dashboards") as sandbox:
        lender = sandbox.add_queue("lender", deserved={GPU: 16})
        queries = Queries(prometheus, sandbox.queues[0], lender)
        two_after_one_another(sandbox, prometheus)
        until(queries.have("gang_wait_seconds"), "the waits of gangs to be shown")
        finish_all(sandbox, "first-")
        finish_all(sandbox, "second-")
        borrows_and_waits(sandbox)
        shown = queries.have("muster_queue_borrowed", "muster_queue_lent", "muster_workloads_pending")
        until(shown, "queues to borrow and lend")
        is_reclaimed(sandbox, lender)
        node = GpuNode(sandbox, next(iter(set(sandbox.nodes_of("returns-").values()))), tmp_path)
        for _ in range(8):
            node.nvml.add_device("H100", nvlinks="switched")
        node.give_devices()
        port = free_port()
        with node.agent(metrics=f"127.0.0.1:{port}"):
            prometheus.scrape(muster=[address(muster)], agents=[f"127.0.0.1:{port}"])
            sandbox.wait(lambda: node.healthy() == [True] * 8, "the agent to report eight GPUs")
            node.nvml.set(node.uuids()[0], clock_reasons=POWER_CAP)
            node.nvml.xid(node.uuids()[3], 79)
            sandbox.merge("Node", sandbox.nodes[-1], {"spec": {"unschedulable": True}})

            def all_but_listed() -> bool:
                queries.look()
                return queries.missing.keys() <= NEEDS_A_FAULT.keys()

            try:
                until(all_but_listed, "all queries to have data")
            except AssertionError:
                missing = {
                    expr: where for expr, where in queries.missing.items() if expr not in NEEDS_A_FAULT
                }
                raise AssertionError(missing) from None

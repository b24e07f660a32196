"""Alerts about what Muster stands on: its processor, tables, rights, definitions, and the libraries of devices.

As in ``test_alerts_fire``: each fault is caused in a running Muster, which a real Prometheus scrapes.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from deploy.local.processes import free_port
from deploy.local.stack import Replica
from queues.api import names
from queues.api.api_resources import CLUSTER_ROLES, CRDS, CRON_JOBS, DEVICES, FLAVORS, NODES
from queues.sql.tables import workloads
from tests.builders.node_agents.node_devices import device, device_object
from tests.cluster_faults import continue_muster
from tests.e2e.devices.gpu_agents import GpuNode
from tests.e2e.failures.recovered_nodes import phase, recovering, repairs, report
from tests.e2e.monitoring.conftest import address
from tests.e2e.monitoring.muster_that_stumbles import SLOW
from tests.e2e.monitoring.prometheus_server import PrometheusServer
from tests.e2e.support.crash_harness import LONG_LEASE, SHORT, CrashHarness
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.ledger_queries import LedgerQueries
from tests.e2e.support.manifests import batch_job, volcano_job
from tests.waiting import until

pytestmark = pytest.mark.long


@contextmanager
def locked(harness: CrashHarness, table: str, mode: str) -> Iterator[None]:
    """A session of somebody else holds a lock on a table while the block goes on."""
    session = LedgerQueries(harness.stack.dsn)
    try:
        session.ask("BEGIN")
        session.ask(f'LOCK TABLE "{table}" IN {mode} MODE')
        yield
    finally:
        session.close()


def test_a_leader_that_stands_still(
    harness: CrashHarness, prometheus: PrometheusServer, muster: Replica
) -> None:
    stood = f'count_over_time((up{{instance="{address(muster)}"}} == 0)[10s:1s]) >= 4'
    os.kill(muster.process.pid, signal.SIGSTOP)
    try:
        until(lambda: bool(prometheus.query(stood)), "Muster to stand still for seconds")
    finally:
        continue_muster(muster)
    told = prometheus.fires("MusterLoopBlocked")
    assert told["summary"].startswith(f"The event loop of {address(muster)} stands still again")
    # The longest block of five minutes is told: another replica has none.
    harness.leave()
    prometheus.scrape(muster=[address(harness.start())])
    prometheus.is_silent("MusterLoopBlocked")


def test_a_table_that_somebody_locks(harness: CrashHarness, prometheus: PrometheusServer) -> None:
    harness.leave()
    leader = harness.start(**LONG_LEASE)
    harness.leads(leader)
    prometheus.scrape(muster=[address(leader)])
    prometheus.is_silent("MusterTurnStuck")
    with harness.sandbox("locked") as sandbox:
        with locked(harness, workloads.name, "ACCESS EXCLUSIVE"):
            sandbox.add(volcano_job(sandbox, "waits", 1))
            told = prometheus.fires("MusterTurnStuck")
            assert told["summary"].startswith("The leader has ended no turn for ")
            prometheus.is_silent("MusterNoLeader")
        sandbox.wait_running("waits-", 1)
        prometheus.is_silent("MusterTurnStuck")
        finish_all(sandbox, "waits-")
    harness.leave()


def test_a_table_that_is_gone(harness: CrashHarness, prometheus: PrometheusServer) -> None:
    harness.leave()
    # A minute of Prometheus' rules is a second here, so pauses are short as well.
    leader = harness.start(MUSTER_RETRY_SECONDS="0.1")
    harness.leads(leader)
    prometheus.scrape(muster=[address(leader)])
    # Terms that end before the first sample are not counted as an increase.
    until(lambda: prometheus.query("muster_leader == 1"), "the leader to be scraped")
    with harness.sandbox("gone") as sandbox:
        harness.ledger.ask("ALTER TABLE workloads RENAME TO workloads_elsewhere")
        try:
            sandbox.add(volcano_job(sandbox, "waits", 1))
            told = prometheus.fires("MusterTermsFail")
            assert " terms of leadership ended by " in told["summary"]
        finally:
            harness.ledger.ask("ALTER TABLE workloads_elsewhere RENAME TO workloads")
        sandbox.wait_running("waits-", 1)
        prometheus.is_silent("MusterTermsFail")
        finish_all(sandbox, "waits-")
    harness.leave()


def test_a_history_that_cannot_be_shortened(
    harness: CrashHarness, prometheus: PrometheusServer, muster: Replica
) -> None:
    # It has made the tables.
    harness.leave()
    harness.ledger.ask(
        "CREATE TABLE decisions_2020_01_06 PARTITION OF decisions FOR VALUES FROM ('2020-01-06') TO ('2020-01-13')"
    )
    with locked(harness, "decisions_2020_01_06", "ACCESS SHARE"):
        reads_old_rows = harness.start()
        prometheus.scrape(muster=[address(reads_old_rows)])
        told = prometheus.fires("MusterRetentionBehind")
        assert told["summary"].startswith("Rows of decisions have outlived their retention for ")
    harness.leave()
    # Each leader looks at once; this one would after a minute.
    prometheus.scrape(muster=[address(harness.start())])
    until(
        lambda: harness.ledger.ask("SELECT to_regclass('decisions_2020_01_06')") == [(None,)],
        "the old rows to be dropped",
    )
    prometheus.is_silent("MusterRetentionBehind")


def test_decisions_that_take_long(harness: CrashHarness, prometheus: PrometheusServer) -> None:
    harness.leave()
    slow = harness.start(program=("-m", "tests.e2e.monitoring.muster_that_stumbles"))
    harness.leads(slow)
    prometheus.scrape(muster=[address(slow)])
    with harness.sandbox("dawdles") as sandbox:
        sandbox.add(volcano_job(sandbox, SLOW, 4, 8))
        numbers = count()

        def fires_under_load() -> bool:
            name = f"short-{next(numbers)}"
            sandbox.add(volcano_job(sandbox, name, 1, annotations=SHORT))
            sandbox.wait_phase("Job", name, "Completed")
            return "MusterDecisionsSlow" in prometheus.firing()

        until(fires_under_load, "MusterDecisionsSlow to fire")
        told = prometheus.fires("MusterDecisionsSlow")
        assert told["summary"].startswith("One decision in a hundred takes ")
        sandbox.delete("Job", SLOW)
    prometheus.is_silent("MusterDecisionsSlow")
    harness.leave()


def test_a_node_of_which_every_recovery_fails(
    harness: CrashHarness, prometheus: PrometheusServer, muster: Replica
) -> None:
    with harness.sandbox("given-up") as sandbox:
        node = sandbox.nodes[0]
        sandbox.api.create(DEVICES.path(), device_object(node, *map(device, range(8))))
        with recovering(sandbox):
            report(sandbox, node, 2)
            sandbox.wait(lambda: len(repairs(sandbox)) == 1, "a Job that repairs the node")
            # As after its third attempt.
            annotations = {names.RECOVERY: '{"phase":"draining","attempts":3}'}
            sandbox.api.merge(NODES.path(name=node), {"metadata": {"annotations": annotations}})
            prometheus.fires("MusterNodeRecoveryFailed")
            assert phase(sandbox, node) == "failed"
        sandbox.api.delete(DEVICES.path(name=node))
        sandbox.api.delete(CRON_JOBS.path(sandbox.name, "repair"))


def test_a_library_of_devices_that_hangs(
    harness: CrashHarness, prometheus: PrometheusServer, muster: Replica, tmp_path: Path
) -> None:
    with harness.sandbox("hangs") as sandbox:
        node = GpuNode(sandbox, sandbox.nodes[0], tmp_path)
        node.nvml.add_device("H100")
        port = free_port()
        with node.agent(metrics=f"127.0.0.1:{port}"):
            prometheus.scrape(muster=[address(muster)], agents=[f"127.0.0.1:{port}"])
            sandbox.wait(lambda: node.healthy() == [True], "the agent to report its GPU")
            node.nvml.slow(8_000)
            told = prometheus.fires("MusterAgentLibrarySilent")
            assert told["summary"].startswith(f"On 127.0.0.1:{port} the library of nvidia has not answered")
            node.nvml.slow(0)
            prometheus.is_silent("MusterAgentLibrarySilent")
        prometheus.scrape(muster=[address(muster)])
        sandbox.api.delete(DEVICES.path(name=node.name))


def of_pods(rule: dict[str, Any]) -> set[str]:
    """What a rule of a role allows to do with pods."""
    return set(rule["verbs"]) if "pods" in rule["resources"] else set()


def test_rights_and_definitions_that_are_gone_until_muster_is_installed_again(
    harness: CrashHarness, prometheus: PrometheusServer
) -> None:
    harness.leave()
    leader = harness.start(MUSTER_BACKOFF_MAX_SECONDS="2")
    harness.leads(leader)
    prometheus.scrape(muster=[address(leader)])
    with harness.sandbox("revoked") as sandbox:
        sandbox.add(batch_job(sandbox, "leaves", 1))
        sandbox.wait_running("leaves-", 1)
        # From now on nothing is heard of this kind; the alert waits for two minutes.
        harness.api.delete(CRDS.path(name=f"{FLAVORS.plural}.{FLAVORS.group}"))
        role = harness.api.get(CLUSTER_ROLES.path(name="muster"))
        kept = [rule for rule in role["rules"] if not of_pods(rule) & {"list", "patch"}]
        harness.api.merge(CLUSTER_ROLES.path(name="muster"), {"rules": kept})
        sandbox.delete("batch/v1 Job", "leaves")
        prometheus.fires("MusterJobsUnlisted")
        sandbox.add(batch_job(sandbox, "refused", 3, 3, completionMode="Indexed"))
        told = prometheus.fires("MusterApiWritesFail")
        assert told["summary"].endswith(" of the writes to pods fail.")
        told = prometheus.fires("MusterWatchSilent")
        assert told["summary"].startswith("The watch of resourceflavors has heard nothing for ")
        harness.stack.install()
        for alert in ("MusterJobsUnlisted", "MusterApiWritesFail", "MusterWatchSilent"):
            prometheus.is_silent(alert)
        sandbox.wait_running("refused-", 3)
        finish_all(sandbox, "refused-")
    harness.leave()
